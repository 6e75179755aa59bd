"""Measured and unmeasured forces of a model, and the rows that follow from them.

The bodies between wrench sensors form *regions*; each has six rows, the sum of all wrenches on it. A sensor at the
ground acts on the region that stands there. One inside the limb acts on the region above it and reacts on the one
below. Each measured joint torque is one more row. Forces that act but are not measured (components that a sensor
lacks, the ground under a sole without a sensor, a hose) are projected out of each sample, [yamane2011] (11)-(16).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.exceptions import EvidenceError
from steelyard.model import WRENCH_AXES, Frame, match_pattern
from steelyard.regression.kernels import RowArrays, SourceArrays
from steelyard.regression.rows import row_arrays
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.model import Model

ALWAYS = ""
"""In place of a sole's name: an unknown force that acts whether or not a sole touches the ground."""


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
    """Measured and unmeasured forces.

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
    """Return what is measured and what acts unmeasured.

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
    """Return a hash of what is measured and unknown, and where: Evidence with equal hashes can be added."""
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
        unknown: The unknown sources that act on some row.
        unknown_soles: For each of them, the sole through which it acts, or `ALWAYS`.
        floor: A wrench on each region, component by component: the points of `FLOOR_SHARE`'s noise.
    """

    rows: RowArrays
    row_count: int
    measured: SourceArrays
    unknown: SourceArrays
    unknown_soles: tuple[str, ...]
    floor: SourceArrays


def plan_rows(model: Model, sensing: Sensing, standing: frozenset[str]) -> RowPlan:
    """Return the rows of samples in which the soles of `standing` always touch the ground.

    A region under which all six components are always unknown has no rows.
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
    """Return a wrench on each region, at the first sensor on it, else at its first body.

    At a sensor it is negligible beside that sensor's own noise. Elsewhere its force, with the lever arm from there to
    the sensor, would exceed the noise of the sensor's moments.
    """
    count = int(np.max(regions, initial=-1)) + 1
    sources: dict[int, Source] = {}
    for source in measured:
        frame = model.frame(source.frame)
        ends = [frame.body, model.bodies[frame.body].parent] if source.inside else [frame.body]
        for body in ends:
            sources.setdefault(int(regions[body]), source)
    frames = [
        model.frame(sources[region].frame)
        if region in sources
        else Frame(int(np.flatnonzero(regions == region)[0]), pin.SE3.Identity())
        for region in range(count)
    ]
    return _pack_sources([(frame, axis, False, region, -1) for region, frame in enumerate(frames) for axis in range(6)])


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
    """Return the region of each body; a fixed base has none, because the forces that hold it are not measured."""
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
    entries = []
    for source in sources:
        frame = model.frame(source.frame)
        acts, reacts = regions[frame.body], -1
        if source.inside:
            above, below = regions[model.bodies[frame.body].parent], regions[frame.body]
            acts, reacts = (above, below) if above != below else (-1, -1)
        entries.append((frame, WRENCH_AXES.index(source.axis), not source.inside, acts, reacts))
    return _pack_sources(entries)


def _pack_sources(entries: Sequence[tuple[Frame, int, bool, int, int]]) -> SourceArrays:
    """Return arrays of sources: frame, axis, whether external, and the regions that each acts and reacts on."""
    return SourceArrays(
        np.array([frame.body for frame, *_ in entries], dtype=np.int64),
        np.array([frame.placement.translation for frame, *_ in entries]).reshape(-1, 3),
        np.array([frame.placement.rotation[:, axis % 3] for frame, axis, *_ in entries]).reshape(-1, 3),
        np.array([axis < 3 for _, axis, *_ in entries], dtype=np.bool_),
        np.array([external for _, _, external, _, _ in entries], dtype=np.bool_),
        np.array([acts for *_, acts, _ in entries], dtype=np.int64),
        np.array([reacts for *_, reacts in entries], dtype=np.int64),
    )
