"""From signs of sensors to the inertial and wrench sensors of a setup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.drafting.locks import empty_parts
from steelyard.drafting.places import chain_to
from steelyard.drafting.words import ACCELEROMETER_WORDS, GYRO_WORDS, IMU_WORDS, without, words_of
from steelyard.model.setup import WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pinocchio as pin

    from steelyard.drafting.legs import Leg
    from steelyard.drafting.sensor_clues import SensorClue
    from steelyard.model import Model
    from steelyard.model.description import Description

_SAME_PLACE = 1e-6
_PLAIN_WORDS = frozenset({"link", "frame", "site", "joint", "sensor", "in", "body", "fixed", "base"})
_WRENCH_WORDS = frozenset({"ft", "fts", "ftsensor", "force", "torque", "forcetorque", "wrench", "six", "axis"})


@dataclass(frozen=True)
class DraftedImu:
    """An inertial sensor to be written into a setup.

    Attributes:
        name: Prefix of its columns.
        frame: Where it sits.
        source: From what it is known.
        sure: Whether the file says by tags or names that there is an inertial sensor, gyroscope included.
    """

    name: str
    frame: str
    source: str
    sure: bool


@dataclass(frozen=True)
class DraftedWrench:
    """A wrench sensor to be written into a setup.

    Attributes:
        name: Prefix of its columns.
        frame: Where it sits.
        at: "joint" or "ground"; see `WrenchSensor`.
        sign: See `WrenchSensor`.
        axes: See `WrenchSensor`.
        source: From what it is known.
        sure: Whether the file has it by a tag.
        leg: Number of the leg whose sole it feels; None where it is elsewhere.
    """

    name: str
    frame: str
    at: Literal["ground", "joint"]
    sign: Literal["on_robot", "on_environment"]
    axes: tuple[str, ...]
    source: str
    sure: bool
    leg: int | None = None


def choose_imus(model: Model, clues: Iterable[SensorClue], taken: Iterable[str] = ()) -> list[DraftedImu]:
    """Gives one inertial sensor for each place at which the file has one, or an accelerometer.

    Where accelerometer and gyroscope sit at the same place they are one sensor, at the accelerometer's frame.

    Args:
        model: The model.
        clues: Signs of sensors, the surer first.
        taken: Names that other sensors have.
    """
    places: list[list[SensorClue]] = []
    for clue in clues:
        if clue.kind not in ("imu", "accelerometer", "gyro"):
            continue
        for known in places:
            if _same_place(model, known[0].frame, clue.frame):
                known.append(clue)
                break
        else:
            places.append([clue])
    # The first that is recorded tells of the base: those near the root come first.
    places.sort(key=lambda place: len(chain_to(model, model.frames[place[0].frame].body)))
    imus: list[DraftedImu] = []
    for place in places:
        if any(clue.tagged for clue in place):
            place = [clue for clue in place if clue.tagged]  # noqa: PLW2901  (a name says nothing beside a tag)
        kinds = {clue.kind for clue in place}
        if kinds == {"gyro"}:
            continue
        best = min(place, key=lambda clue: ("accelerometer", "imu", "gyro").index(clue.kind))
        whole = "imu" in kinds or {"accelerometer", "gyro"} <= kinds
        source = " and ".join(dict.fromkeys(clue.source for clue in place))
        name = _fresh(_imu_name(model, best.frame), [*(imu.name for imu in imus), *taken], "imu")
        imus.append(DraftedImu(name, best.frame, source if whole else f"{source}, without a gyroscope", whole))
    return imus


def choose_wrenches(
    model: Model, legs: Sequence[Leg], sole_frames: Sequence[str], clues: Sequence[SensorClue]
) -> tuple[list[DraftedWrench], list[DraftedWrench]]:
    """Gives the sensors that feel the soles, one for each leg, and those elsewhere in the robot.

    In each leg tags count before names, and then the sensor nearest to the foot; a leg without any stands on a force
    plate, which is a guess.

    Args:
        model: The model, not yet cut at sensors.
        legs: Its legs.
        sole_frames: For each leg the frame of its sole, or of its foot where no sole was seen.
        clues: Signs of sensors.
    """
    family = _Family(model.description)
    chosen: list[DraftedWrench | None] = [None for _ in legs]
    elsewhere: list[DraftedWrench] = []
    feet = [family.part(frame) for frame in sole_frames]
    asked = [
        clue for clue in clues if clue.kind in ("wrench", "force", "torque") or _only_feedback(model, legs, clue, clues)
    ]
    found = _join_components(model, asked)
    for clue, axes in sorted(found, key=lambda entry: (not _sure(entry[0]), -family.depth(entry[0].frame))):
        part = family.part(clue.frame)
        body = model.frames[part].body
        number = next((n for n, leg in enumerate(legs) if body in leg.bodies), None)
        inside = part != model.description.root and part not in family.empty
        if number is not None and inside and part in family.above(feet[number]):
            sensor = DraftedWrench("", clue.frame, "joint", clue.sign, axes, clue.source, _sure(clue), number)
        elif number is not None and body == legs[number].foot and chosen[number] is None:
            words = f"{clue.source}; no sole is below that frame, so it stands for the ground's wrench"
            sensor = DraftedWrench("", clue.frame, "ground", clue.sign, axes, words, False, number)
        elif inside:
            number = None
            sensor = DraftedWrench("", clue.frame, "joint", clue.sign, axes, clue.source, _sure(clue))
        else:
            continue
        if number is not None and chosen[number] is None:
            chosen[number] = sensor
        else:
            elsewhere.append(sensor)
    guess = "no sensor is seen in this leg: a force plate or an instrumented sole"
    sensors = [
        sensor or DraftedWrench("", sole_frames[number], "ground", "on_robot", WRENCH_AXES, guess, False, number)
        for number, sensor in enumerate(chosen)
    ]
    return _named(sensors, elsewhere, legs)


class _Family:
    """Which part hangs on which."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._parents = {connection.child: connection.parent for connection in description.connections}
        self.empty = empty_parts(description)

    def part(self, frame: str) -> str:
        """Gives the part that carries a frame."""
        return frame if frame in self._description.parts else self._description.frames[frame][0]

    def above(self, part: str) -> list[str]:
        """Gives a part and all that it hangs on, the root last."""
        line = [part]
        while line[-1] in self._parents:
            line.append(self._parents[line[-1]])
        return line

    def depth(self, frame: str) -> int:
        return len(self.above(self.part(frame)))


def _only_feedback(model: Model, legs: Sequence[Leg], clue: SensorClue, clues: Sequence[SensorClue]) -> bool:
    """Tells whether a simulator is asked for the wrench at a foot's joint, and at no other of its leg: a sensor's sign.

    Where every joint of a leg is asked for, it is for the sake of the joints.
    """
    body = model.frames[clue.frame].body
    leg = next((leg for leg in legs if leg.foot == body), None)
    if clue.kind != "feedback" or leg is None:
        return False
    return sum(other.kind == "feedback" and model.frames[other.frame].body in leg.bodies for other in clues) == 1


def _sure(clue: SensorClue) -> bool:
    return clue.tagged and clue.kind != "feedback"


def _join_components(model: Model, clues: list[SensorClue]) -> list[tuple[SensorClue, tuple[str, ...]]]:
    """Gives wrench sensors with their axes: a force and a torque sensor at one place are one."""
    joined: list[tuple[SensorClue, set[str]]] = []
    for clue in clues:
        axes = {"force": WRENCH_AXES[:3], "torque": WRENCH_AXES[3:]}.get(clue.kind, WRENCH_AXES)
        for known, measured in joined:
            if _same_place(model, known.frame, clue.frame):
                if known.tagged == clue.tagged:
                    measured.update(axes)
                break
        else:
            joined.append((clue, {*axes}))
    return [(clue, tuple(axis for axis in WRENCH_AXES if axis in measured)) for clue, measured in joined]


def _same_place(model: Model, one: str, other: str) -> bool:
    first, second = model.frames[one], model.frames[other]
    between: pin.SE3 = first.placement.inverse() * second.placement
    return first.body == second.body and bool(np.linalg.norm(between.homogeneous - np.eye(4)) < _SAME_PLACE)


def _imu_name(model: Model, frame: str) -> str:
    """Gives a short name for an inertial sensor: what its frame's name says beside it, else where it sits."""
    own = IMU_WORDS | GYRO_WORDS | ACCELEROMETER_WORDS | _PLAIN_WORDS
    name = without(frame, own)
    if name and not name.replace("_", "").isdigit():
        return name
    description = model.description
    carrier = next((c.parent for c in description.connections if c.child == frame and c.joint.kind == "fixed"), None)
    carrier = carrier or (frame if frame in description.parts else description.frames[frame][0])
    words = [word for word in words_of(carrier) if not word.isdigit() and word not in _PLAIN_WORDS - {"base"}]
    return "_".join(words) or "imu"


def _named(
    sensors: list[DraftedWrench], elsewhere: list[DraftedWrench], legs: Sequence[Leg]
) -> tuple[list[DraftedWrench], list[DraftedWrench]]:
    """Names the sensors after their legs, the others after their frames."""
    names: list[str] = []
    named: list[DraftedWrench] = []
    for sensor in [*sensors, *elsewhere]:
        wanted = without(sensor.frame, _PLAIN_WORDS | _WRENCH_WORDS) or "wrench"
        if sensor.leg is not None and len(named) < len(sensors):
            leg = legs[sensor.leg].name
            wanted = leg if leg.startswith("foot") else f"{leg}_foot"
        names.append(_fresh(wanted, names, "wrench"))
        named.append(
            DraftedWrench(
                names[-1], sensor.frame, sensor.at, sensor.sign, sensor.axes, sensor.source, sensor.sure, sensor.leg
            )
        )
    return named[: len(sensors)], named[len(sensors) :]


def _fresh(wanted: str, taken: Iterable[str], suffix: str) -> str:
    """Gives a name that is not taken."""
    known = {*taken}
    name, number = wanted, 1
    while name in known:
        name = f"{wanted}_{suffix}" if number == 1 else f"{wanted}_{suffix}_{number}"
        number += 1
    return name
