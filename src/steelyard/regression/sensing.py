"""What is measured and what is not: the rows that a model's sensors give, and the forces that nobody felt.

The bodies between wrench sensors form *regions*; each gives six rows, the sum of all wrenches on it. A sensor at the
ground acts on the region that stands there. One inside the limb acts on the region above it and reacts on the one
below. Each measured joint torque is one more row. Forces that are there but not measured (components that a sensor
lacks, the ground under a sole without a sensor, a hose) are projected out of each sample, [yamane2011] (11)-(16).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.model import WRENCH_AXES, match_pattern
from steelyard.regression.kernels import RowArrays, SourceArrays
from steelyard.regression.rows import row_arrays
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pinocchio as pin

    from steelyard.model import Model

ALWAYS = ""
"""In place of a sole's name: an unknown force that is there whether or not a sole touches the ground."""


@dataclass(frozen=True)
class Source:
    """One component of a wrench at a frame.

    Attributes:
        name: ``"<sensor>.<axis>"``, or the frame's name in place of the sensor's.
        frame: The frame at whose origin, and along whose axis, it acts.
        axis: One of `WRENCH_AXES`.
        inside: Whether it acts between two bodies, at the joint above the frame, rather than from outside.
        sole: The sole through which it acts, for forces that vanish in swing; else `ALWAYS`.
    """

    name: str
    frame: str
    axis: str
    inside: bool = False
    sole: str = ALWAYS


@dataclass(frozen=True)
class Sensing:
    """What is measured, and what acts unmeasured.

    Attributes:
        measured: Components of wrenches that are measured, sensor by sensor.
        unknown: Components that act but are not measured.
        torques: Joints whose torque is measured.
    """

    measured: tuple[Source, ...]
    unknown: tuple[Source, ...]
    torques: tuple[str, ...]


def plan_sensing(
    model: Model,
    *,
    wrenches: Iterable[str],
    torques: Sequence[str] = (),
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
) -> Sensing:
    """Gives what is measured and what is not.

    Args:
        model: The model, with sensors and soles in its setup.
        wrenches: Names of the wrench sensors that have data.
        torques: Names or patterns of joints whose measured torque is used.
        withhold: Names or patterns of sensors (``left_foot``) or components (``*_foot.fx``) to treat as not measured.
        unknown_wrenches: Frames at which an unknown wrench acts: a hose, a tether, a gantry.

    Raises:
        EvidenceError: A sensor of the setup has no data and is not withheld, or a name is unknown.
    """
    components = [
        Source(f"{sensor.name}.{axis}", sensor.frame, axis, inside=sensor.at == "joint")
        for sensor in model.setup.wrench_sensors
        for axis in sensor.axes
    ]
    hidden = _withheld(model, [source.name for source in components], withhold)
    given = set(wrenches)
    silent = [
        sensor.name
        for sensor in model.setup.wrench_sensors
        if sensor.name not in given and any(f"{sensor.name}.{axis}" not in hidden for axis in sensor.axes)
    ]
    if silent:
        raise EvidenceError(
            f"the wrench sensor {in_words(silent)} has no data in this motion; record it, or say withhold={silent!r} "
            "to treat its forces as unknown",
            names=silent,
        )
    measured = tuple(source for source in components if source.name not in hidden)
    felt = {source.name for source in measured}
    unknown: list[Source] = []
    for sensor in model.setup.wrench_sensors:
        if sensor.at == "joint":
            unknown += [
                Source(f"{sensor.name}.{axis}", sensor.frame, axis, inside=True)
                for axis in WRENCH_AXES
                if f"{sensor.name}.{axis}" not in felt
            ]
    ground = {sensor.name: sensor for sensor in model.setup.wrench_sensors if sensor.at == "ground"}
    for sole in model.setup.soles:
        under = ground.get(sole.wrench or "")
        frame, name = (sole.frame, sole.name) if under is None else (under.frame, under.name)
        unknown += [
            Source(f"{name}.{axis}", frame, axis, sole=sole.name)
            for axis in WRENCH_AXES
            if under is None or f"{name}.{axis}" not in felt
        ]
    stood_on = {sole.wrench for sole in model.setup.soles}
    for name, sensor in ground.items():
        if name not in stood_on:
            unknown += [
                Source(f"{name}.{axis}", sensor.frame, axis) for axis in WRENCH_AXES if f"{name}.{axis}" not in felt
            ]
    for frame in unknown_wrenches:
        model.frame(frame)
        unknown += [Source(f"{frame}.{axis}", frame, axis) for axis in WRENCH_AXES]
    joints = []
    for pattern in torques:
        matched = match_pattern(pattern, model.joints)
        if not matched:
            raise EvidenceError(f"no joint is called {pattern!r}{did_you_mean(pattern, model.joints)}", names=[pattern])
        joints += [joint for joint in matched if joint not in joints]
    ordered = tuple(joint for joint in model.joints if joint in joints)
    grounded = model.setup.soles or any(sensor.at == "ground" for sensor in model.setup.wrench_sensors)
    if model.base == "floating" and measured and not grounded:
        raise EvidenceError(
            f"nothing says where {model.name} touches the ground: its wrench sensors are inside the limbs, and its "
            "setup has no [[sole]]; add the soles"
        )
    if not measured and not ordered:
        raise EvidenceError(
            f"nothing is measured on {model.name}: its setup names no wrench sensor, and no joint torque is used; add "
            "a [[wrench_sensor]] to the setup, or name torques"
        )
    return Sensing(measured, tuple(unknown), ordered)


def sensing_hash(model: Model, sensing: Sensing) -> str:
    """Gives a hash of what is measured and unknown, and where: two that agree gather alike."""
    digest = hashlib.sha256()
    for group in (sensing.measured, sensing.unknown):
        for source in group:
            frame = model.frame(source.frame)
            digest.update(repr((source.name, source.axis, source.inside, source.sole, frame.body)).encode())
            digest.update(np.round(frame.placement.homogeneous, 12).tobytes())
    digest.update(repr(sensing.torques).encode())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The rows of one stretch of motion, for kernels.

    Attributes:
        rows: Which rows there are.
        row_count: How many.
        measured: The measured sources.
        unknown: The unknown sources that some row feels.
        unknown_soles: For each of them, the sole through which it acts, or `ALWAYS`.
        floor: A wrench on each region, component by component: where noise is put that no sensor has.
    """

    rows: RowArrays
    row_count: int
    measured: SourceArrays
    unknown: SourceArrays
    unknown_soles: tuple[str, ...]
    floor: SourceArrays


def plan_rows(model: Model, sensing: Sensing, standing: frozenset[str]) -> RowPlan:
    """Gives the rows for a stretch in which the soles of `standing` touch the ground all the time.

    A region under which all six components are unknown throughout has nothing to say, and no rows.
    """
    regions = _regions(model, sensing)
    if not sensing.torques:
        for region in range(1, int(np.max(regions)) + 1):
            blind = any(
                {source.axis for source in sensing.unknown if source.frame == frame and _stands(source, standing)}
                == set(WRENCH_AXES)
                for frame in {source.frame for source in sensing.unknown if not source.inside}
                if regions[model.frame(frame).body] == region
            )
            if blind and not any(source.inside for source in sensing.unknown):
                regions[regions == region] = -1
    numbers = np.unique(regions[regions >= 0])
    regions = np.where(regions >= 0, np.searchsorted(numbers, regions), -1)
    rows = row_arrays(model, regions=regions, torques=sensing.torques)
    unknown = tuple(
        source
        for source in sensing.unknown
        if source.inside or sensing.torques or regions[model.frame(source.frame).body] >= 0
    )
    return RowPlan(
        rows,
        rows.first_torque_row + len(rows.torque_bodies),
        _source_arrays(model, sensing.measured, regions),
        _source_arrays(model, unknown, regions),
        tuple(source.sole for source in unknown),
        _floor_arrays(model, sensing.measured, regions),
    )


def _stands(source: Source, standing: frozenset[str]) -> bool:
    return not source.inside and source.sole in (ALWAYS, *standing)


def _floor_arrays(model: Model, measured: Sequence[Source], regions: np.ndarray) -> SourceArrays:
    """Gives a wrench on each region, where the first sensor on it sits, else at its first body.

    At a sensor's place it is lost in that sensor's own noise. Elsewhere its force, with the lever arm from there to the
    sensor, would drown what the sensor knows of moments.
    """
    count = int(np.max(regions, initial=-1)) + 1
    sources: dict[int, Source] = {}
    for source in measured:
        frame = model.frame(source.frame)
        ends = [frame.body, model.bodies[frame.body].parent] if source.inside else [frame.body]
        for body in ends:
            sources.setdefault(int(regions[body]), source)
    bodies, points, turns = [], [], []
    for region in range(count):
        if region in sources:
            frame = model.frame(sources[region].frame)
            bodies.append(frame.body)
            points.append(np.asarray(frame.placement.translation))
            turns.append(np.asarray(frame.placement.rotation).T)
        else:
            bodies.append(int(np.flatnonzero(regions == region)[0]))
            points.append(np.zeros(3))
            turns.append(np.eye(3))
    return SourceArrays(
        np.repeat(np.array(bodies, dtype=np.int64), 6),
        np.repeat(np.array(points).reshape(-1, 3), 6, axis=0),
        np.concatenate([np.concatenate([turn, turn]) for turn in turns]) if turns else np.zeros((0, 3)),
        np.tile(np.arange(6) < 3, count),
        np.zeros(6 * count, dtype=np.bool_),
        np.repeat(np.arange(count, dtype=np.int64), 6),
        np.full(6 * count, -1, dtype=np.int64),
    )


def _withheld(model: Model, components: Sequence[str], withhold: Sequence[str]) -> set[str]:
    hidden: set[str] = set()
    for pattern in withhold:
        matched = match_pattern(pattern, components) or match_pattern(f"{pattern}.*", components)
        if not matched:
            sensors = [sensor.name for sensor in model.setup.wrench_sensors]
            raise EvidenceError(
                f"there is no sensor or component {pattern!r} to withhold"
                f"{did_you_mean(pattern, [*sensors, *components])}",
                names=[pattern],
            )
        hidden |= set(matched)
    return hidden


def _regions(model: Model, sensing: Sensing) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Gives the region of each body; a fixed base has none: the floor holds it with forces that nobody measures."""
    cuts = {model.frame(source.frame).body for source in sensing.measured if source.inside}
    regions = np.zeros(len(model.bodies), dtype=np.int64)
    count = 1
    for index, body in enumerate(model.bodies):
        if index in cuts:
            regions[index] = count
            count += 1
        elif body.parent >= 0:
            regions[index] = regions[body.parent]
    if model.base == "fixed":
        regions = np.where(regions == 0, -1, regions)
    return regions


def _source_arrays(model: Model, sources: Sequence[Source], regions: np.ndarray) -> SourceArrays:
    count = len(sources)
    bodies = np.zeros(count, dtype=np.int64)
    points, directions = np.zeros((count, 3)), np.zeros((count, 3))
    forces, external = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    acts, reacts = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    for number, source in enumerate(sources):
        frame = model.frame(source.frame)
        placement: pin.SE3 = frame.placement
        axis = WRENCH_AXES.index(source.axis)
        bodies[number] = frame.body
        points[number] = placement.translation
        directions[number] = placement.rotation[:, axis % 3]
        forces[number] = axis < 3
        external[number] = not source.inside
        if source.inside:
            above, below = regions[model.bodies[frame.body].parent], regions[frame.body]
            acts[number], reacts[number] = (above, below) if above != below else (-1, -1)
        else:
            acts[number] = regions[frame.body]
    return SourceArrays(bodies, points, directions, forces, external, acts, reacts)
