"""Events of a trial: falls, slips, limits reached and self-contact, with their times."""

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
"""Tilt or twist (rad) of a sole from which it does not count as standing. Set by judgement: a heel 2 mm high on 25
cm."""

FLAT_DISTANCE = 2e-3
"""Distance (m) by which a corner of a sole may rise, or its centre slide, while it counts as standing. Set by
judgement: that of `FLAT_ANGLE` over a foot."""

FALL_TILT = 0.5
"""Rotation (rad) of the root against the plan that counts as a fall. Set by judgement: no standing robot recovers from
it."""

FALL_DROP = 0.25
"""Drop of the root, as a share of its planned height, that counts as a fall. Set by judgement, likewise."""

FALL_SOLE_TILT = np.deg2rad(5.0)
"""Tilt (rad) of a sole that counts as a fall, even where the trial ends before the robot lies. Set by judgement: ten
times `FLAT_ANGLE`."""

_LIMIT_TOLERANCE = 1e-4
"""Distance (rad or m) from a limit within which a joint counts as being there. Set by judgement."""


@dataclass(frozen=True)
class Event:
    """An event that makes the data of a trial doubtful.

    Attributes:
        kind: Its kind.
        name: The sole, the joint, or the robot that it concerns.
        start: Start, s.
        end: End, s; that of the trial where it lasted.
        size: Greatest size, in the unit of `detail`.
        detail: A description for the user.
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
    """Find the events of a trial, in order of time.

    Args:
        states: The true states; not finite where the simulation diverged.
        footing: The feet.
        course: The plan at the same times.
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
        return [Event("fall", "the robot", _at(states, first), _at(states, -1), np.inf, "the simulation diverged")]
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
    """Return one event for each interval in which a condition holds; intervals less than 50 ms apart are merged."""
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
