"""What went wrong in a trial, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.kinematics import quaternion_rotations

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.laboratory.physics import States
    from steelyard.laboratory.servo import Servo
    from steelyard.stance import Course, Foot, Footing

EventKind = Literal["fall", "tilt", "lift", "slip", "joint limit", "torque limit", "self-contact"]

FLAT_ANGLE = np.deg2rad(0.5)
"""Tilt or twist (rad) of a sole from which it does not count as flat and standing."""

FLAT_DISTANCE = 2e-3
"""Distance (m) that a sole's corner may rise, or its middle slip, and still count as standing."""

FALL_TILT = 0.5
"""Turn (rad) of the root from where it should be that counts as a fall."""

FALL_DROP = 0.25
"""Drop of the root, as a share of its planned height, that counts as a fall."""

FALL_SOLE_TILT = np.deg2rad(5.0)
"""Tilt (rad) of a sole from which the robot is falling, whether or not the trial lasts until it lies."""

_LIMIT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Event:
    """Something that should not happen.

    Attributes:
        kind: What happened.
        name: To what: a sole, a joint, or the robot.
        start: When it began, s.
        end: When it was over, s; the end of the trial where it was not.
        size: How bad it was at worst, in the unit of `detail`.
        detail: In words.
    """

    kind: EventKind
    name: str
    start: float
    end: float
    size: float
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.name} from {self.start:.3f} s to {self.end:.3f} s: {self.detail}"


def find_events(states: States, footing: Footing, course: Course, servo: Servo) -> tuple[Event, ...]:
    """Finds what went wrong, in order of time.

    Args:
        states: What really happened; may hold numbers that are none where the physics blew up.
        footing: The feet.
        course: What was planned, at the same times.
        servo: The servos.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        soles = [(foot, *states.sole_placements(foot)) for foot in footing.feet]
        events = _falls(states, course, [rotation for _, rotation, _ in soles])
        events += _sole_events(states, soles)
        events += _limits(states, servo)
    touching = states.self_contacts > 0.0
    events += _spans(states.time, touching, states.self_contacts, "self-contact", "the robot", "{:.0f} contact(s)")
    return tuple(sorted(events, key=lambda event: (event.start, event.kind, event.name)))


def _falls(states: States, course: Course, soles: list[FloatArray]) -> list[Event]:
    turn = np.einsum("nji,njk->nik", quaternion_rotations(course.q[:, 3:7]), states.rotation)
    cosine = np.clip(0.5 * (np.trace(turn, axis1=1, axis2=2) - 1.0), -1.0, 1.0)
    angle = np.arccos(cosine)
    drop = 1.0 - states.q[:, 2] / course.q[:, 2]
    lost = np.asarray(~np.isfinite(states.q).all(axis=1) | ~np.isfinite(states.a).all(axis=1))
    edge = np.max([np.arccos(np.clip(rotation[:, 2, 2], -1.0, 1.0)) for rotation in soles], axis=0)
    fallen = np.asarray(lost | (angle > FALL_TILT) | (np.abs(drop) > FALL_DROP) | (edge > FALL_SOLE_TILT))
    if not np.any(fallen):
        return []
    first = int(np.argmax(fallen))
    if lost[first]:
        return [Event("fall", "the robot", _at(states, first), _at(states, -1), np.inf, "the physics blew up")]
    size = float(np.rad2deg(angle[first]))
    detail = (
        f"a sole was tilted by {np.rad2deg(edge[first]):.0f}°, the root turned by {size:.0f}° and "
        f"{1e3 * drop[first] * course.q[first, 2]:.0f} mm too low"
    )
    return [Event("fall", "the robot", _at(states, first), _at(states, -1), size, detail)]


def _sole_events(states: States, soles: list[tuple[Foot, FloatArray, FloatArray]]) -> list[Event]:
    events: list[Event] = []
    for foot, rotation, position in soles:
        name = f"sole {foot.sole.name!r}"
        tilt = np.arccos(np.clip(rotation[:, 2, 2], -1.0, 1.0))
        events += _spans(states.time, tilt > FLAT_ANGLE, np.rad2deg(tilt), "tilt", name, "tilted by {:.2f}°")
        heights = position[:, 2:] + np.einsum("ni,ki->nk", rotation[:, 2], foot.corners)
        rise = np.max(np.abs(heights), axis=1)
        events += _spans(
            states.time, rise > FLAT_DISTANCE, 1e3 * rise, "lift", name, "a corner was {:.1f} mm off the floor"
        )
        slid = np.linalg.norm(position[:, :2] - position[0, :2], axis=1)
        events += _spans(states.time, slid > FLAT_DISTANCE, 1e3 * slid, "slip", name, "slid by {:.1f} mm")
        ahead = rotation[:, :2, 0]
        twist = np.abs(np.arctan2(ahead[:, 1] * ahead[0, 0] - ahead[:, 0] * ahead[0, 1], ahead @ ahead[0]))
        events += _spans(states.time, twist > FLAT_ANGLE, np.rad2deg(twist), "slip", name, "turned by {:.2f}°")
    return events


def _limits(states: States, servo: Servo) -> list[Event]:
    events: list[Event] = []
    model = states.model
    demand = servo.stiffness * (states.commands - states.q[:, 7:]) - servo.damping * states.v[:, 6:]
    for number, name in enumerate(model.joints):
        joint, positions = model.joint(name), states.q[:, 7 + number]
        beyond = np.maximum(joint.lower - positions, positions - joint.upper)
        turning = joint.kind != "prismatic"
        size, unit = (np.rad2deg(beyond), "°") if turning else (1e3 * beyond, " mm")
        events += _spans(
            states.time, beyond > -_LIMIT_TOLERANCE, size, "joint limit", name, f"at its limit ({{:+.2f}}{unit} beyond)"
        )
        if np.isfinite(joint.effort) and joint.effort > 0.0:
            load = np.abs(demand[:, number]) / joint.effort
            detail = f"its servo asked for {{:.2f}} times its {joint.effort:g} {'N m' if turning else 'N'}"
            events += _spans(states.time, load > 1.0, load, "torque limit", name, detail)
    return events


def _spans(
    time: FloatArray, happens: np.ndarray, size: FloatArray, kind: EventKind, name: str, detail: str
) -> list[Event]:
    """Gives one event for each stretch in which something happens; stretches less than 50 ms apart are one."""
    rows = np.flatnonzero(happens)
    if not len(rows):
        return []
    step = time[1] - time[0] if len(time) > 1 else 1.0
    breaks = np.flatnonzero(np.diff(rows) * step > 0.05)
    starts = np.concatenate([[rows[0]], rows[breaks + 1]])
    ends = np.concatenate([rows[breaks], [rows[-1]]])
    events = []
    for start, end in zip(starts, ends, strict=True):
        worst = float(np.max(size[start : end + 1]))
        events.append(Event(kind, name, float(time[start]), float(time[end]), worst, detail.format(worst)))
    return events


def _at(states: States, row: int) -> float:
    return float(states.time[row])
