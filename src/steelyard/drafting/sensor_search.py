"""Inertial and wrench sensors of a setup, chosen from the signs in a model file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.drafting.locks import empty_parts
from steelyard.drafting.words import ACCELEROMETER_WORDS, GYRO_WORDS, IMU_WORDS, drop_words, words_of
from steelyard.model import WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pinocchio as pin

    from steelyard.drafting.legs import Leg
    from steelyard.drafting.sensor_clues import SensorClue
    from steelyard.model import Description, Model

_SAME_FRAME = 1e-6
"""Largest difference (Frobenius norm of the homogeneous matrices) of coinciding frames: far above rounding, far below
any real distance."""
_PLAIN_WORDS = frozenset({"link", "frame", "site", "joint", "sensor", "in", "body", "fixed", "base"})
_WRENCH_WORDS = frozenset({"ft", "fts", "ftsensor", "force", "torque", "forcetorque", "wrench", "six", "axis"})


@dataclass(frozen=True)
class DraftedImu:
    """Inertial sensor to be written into a setup.

    Attributes:
        name: Prefix of its columns.
        frame: Frame where it is mounted.
        source: Evidence for it.
        sure: Whether tags or names declare a whole inertial sensor, gyroscope included.
    """

    name: str
    frame: str
    source: str
    sure: bool


@dataclass(frozen=True)
class DraftedWrench:
    """Wrench sensor to be written into a setup.

    Attributes:
        name: Prefix of its columns.
        frame: Frame where it is mounted.
        at: "joint" or "ground"; see `WrenchSensor`.
        sign: See `WrenchSensor`.
        axes: See `WrenchSensor`.
        source: Evidence for it.
        sure: Whether a tag declares it.
        leg: Index of the leg whose sole loads it; None where it is elsewhere.
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
    """Return one inertial sensor for each location of an IMU or accelerometer.

    An accelerometer and a gyroscope at the same location are one sensor, in the accelerometer's frame.

    Args:
        model: The model.
        clues: Signs of sensors, tags first.
        taken: Names of other sensors.
    """
    sites: list[list[SensorClue]] = []
    for clue in clues:
        if clue.kind not in ("imu", "accelerometer", "gyro"):
            continue
        for known in sites:
            if _same_frame(model, known[0].frame, clue.frame):
                known.append(clue)
                break
        else:
            sites.append([clue])
    # The first recorded IMU gives the base's state, so those near the root come first.
    sites.sort(key=lambda site: len(model.carriers(model.frames[site[0].frame].body)))
    imus: list[DraftedImu] = []
    for site in sites:
        if any(clue.tagged for clue in site):
            site = [clue for clue in site if clue.tagged]  # noqa: PLW2901  (a tag overrides a name)
        kinds = {clue.kind for clue in site}
        if kinds == {"gyro"}:
            continue
        best = min(site, key=lambda clue: ("accelerometer", "imu", "gyro").index(clue.kind))
        whole = "imu" in kinds or {"accelerometer", "gyro"} <= kinds
        source = " and ".join(dict.fromkeys(clue.source for clue in site))
        name = _fresh(_imu_name(model, best.frame), [*(imu.name for imu in imus), *taken], "imu")
        imus.append(DraftedImu(name, best.frame, source if whole else f"{source}, without a gyroscope", whole))
    return imus


def choose_wrenches(
    model: Model, legs: Sequence[Leg], sole_frames: Sequence[str], clues: Sequence[SensorClue]
) -> tuple[list[DraftedWrench], list[DraftedWrench]]:
    """Return the sensors that measure the soles' loads, one for each leg, and the sensors elsewhere.

    In each leg a tag takes precedence over a name, then the sensor nearest to the foot. A leg without any sensor is
    assumed to stand on a force plate.

    Args:
        model: The model, not yet cut at sensors.
        legs: Its legs.
        sole_frames: Frame of each leg's sole, or of its foot where no sole was found.
        clues: Signs of sensors.
    """
    family = _Family(model.description)
    chosen: list[DraftedWrench | None] = [None for _ in legs]
    elsewhere: list[DraftedWrench] = []
    feet = [family.part(frame) for frame in sole_frames]
    relevant = [
        clue for clue in clues if clue.kind in ("wrench", "force", "torque") or _only_feedback(model, legs, clue, clues)
    ]
    found = _join_components(model, relevant)
    for clue, axes in sorted(found, key=lambda entry: (not _sure(entry[0]), -family.depth(entry[0].frame))):
        part = family.part(clue.frame)
        body = model.frames[part].body
        number = next((n for n, leg in enumerate(legs) if body in leg.bodies), None)
        inside = part != model.description.root and part not in family.empty
        if number is not None and inside and part in family.above(feet[number]):
            sensor = DraftedWrench("", clue.frame, "joint", clue.sign, axes, clue.source, _sure(clue), number)
        elif number is not None and body == legs[number].foot and chosen[number] is None:
            words = f"{clue.source}; no sole is below that frame, so it is taken as the ground reaction"
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
    guess = "no sensor was found in this leg; a force plate or an instrumented sole is assumed"
    sensors = [
        sensor or DraftedWrench("", sole_frames[number], "ground", "on_robot", WRENCH_AXES, guess, False, number)
        for number, sensor in enumerate(chosen)
    ]
    return _named(sensors, elsewhere, legs)


class _Family:
    """Tree of a description's parts."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._parents = {connection.child: connection.parent for connection in description.connections}
        self.empty = empty_parts(description)

    def part(self, frame: str) -> str:
        """Return the part that carries a frame."""
        return frame if frame in self._description.parts else self._description.frames[frame][0]

    def above(self, part: str) -> list[str]:
        """Return a part and its ancestors, the root last."""
        ancestors = [part]
        while ancestors[-1] in self._parents:
            ancestors.append(self._parents[ancestors[-1]])
        return ancestors

    def depth(self, frame: str) -> int:
        return len(self.above(self.part(frame)))


def _only_feedback(model: Model, legs: Sequence[Leg], clue: SensorClue, clues: Sequence[SensorClue]) -> bool:
    """Return whether the wrench at a foot's joint, and at no other joint of its leg, is requested from a simulator.

    That is a sign of a sensor. Feedback for every joint of a leg serves the joints, not a sensor.
    """
    body = model.frames[clue.frame].body
    leg = next((leg for leg in legs if leg.foot == body), None)
    if clue.kind != "feedback" or leg is None:
        return False
    return sum(other.kind == "feedback" and model.frames[other.frame].body in leg.bodies for other in clues) == 1


def _sure(clue: SensorClue) -> bool:
    return clue.tagged and clue.kind != "feedback"


def _join_components(model: Model, clues: list[SensorClue]) -> list[tuple[SensorClue, tuple[str, ...]]]:
    """Merge force and torque sensors at one location; return each wrench sensor with its axes."""
    joined: list[tuple[SensorClue, set[str]]] = []
    for clue in clues:
        axes = {"force": WRENCH_AXES[:3], "torque": WRENCH_AXES[3:]}.get(clue.kind, WRENCH_AXES)
        for known, measured in joined:
            if _same_frame(model, known.frame, clue.frame):
                if known.tagged == clue.tagged:
                    measured.update(axes)
                break
        else:
            joined.append((clue, {*axes}))
    return [(clue, tuple(axis for axis in WRENCH_AXES if axis in measured)) for clue, measured in joined]


def _same_frame(model: Model, one: str, other: str) -> bool:
    first, second = model.frames[one], model.frames[other]
    between: pin.SE3 = first.placement.inverse() * second.placement
    return first.body == second.body and bool(np.linalg.norm(between.homogeneous - np.eye(4)) < _SAME_FRAME)


def _imu_name(model: Model, frame: str) -> str:
    """Return a short name for an inertial sensor: other words of its frame's name, else its carrier's name."""
    own = IMU_WORDS | GYRO_WORDS | ACCELEROMETER_WORDS | _PLAIN_WORDS
    name = drop_words(frame, own)
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
    """Name the sensors of the soles after their legs, the others after their frames."""
    names: list[str] = []
    named: list[DraftedWrench] = []
    for sensor in [*sensors, *elsewhere]:
        wanted = drop_words(sensor.frame, _PLAIN_WORDS | _WRENCH_WORDS) or "wrench"
        if sensor.leg is not None and len(named) < len(sensors):
            leg = legs[sensor.leg].name
            wanted = leg if leg.startswith("foot") else f"{leg}_foot"
        names.append(_fresh(wanted, names, "wrench"))
        named.append(replace(sensor, name=names[-1]))
    return named[: len(sensors)], named[len(sensors) :]


def _fresh(wanted: str, taken: Iterable[str], suffix: str) -> str:
    """Return a name that is not taken."""
    known = {*taken}
    name, number = wanted, 1
    while name in known:
        name = f"{wanted}_{suffix}" if number == 1 else f"{wanted}_{suffix}_{number}"
        number += 1
    return name
