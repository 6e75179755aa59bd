"""Candidate poses of a recording: readings averaged over short, evenly spaced windows, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.calibration.poses import PoseSet, check_quaternion_lengths
from steelyard.exceptions import RecordingError
from steelyard.recording import QUATERNION_AXES, Recording, joint_columns
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

WINDOW = 0.05
"""Seconds over which readings are averaged: a slowly moved joint is linear over that time to 0.01°."""


def sample_poses(
    model: Model,
    recordings: Recording | Sequence[Recording],
    *,
    joints: Sequence[str],
    imus: Sequence[str] | None = None,
    interval: float = 0.2,
    window: float = WINDOW,
    touching: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> PoseSet:
    """Sample poses from recordings at even intervals.

    There is no pose where a needed column has no reading within the window. Recordings may be larger than memory.

    Args:
        model: The model.
        recordings: One or several.
        joints: Joints that are needed; others that are not recorded are at zero.
        imus: Inertial sensors whose orientation is used; by default all of the setup that are recorded.
        interval: Seconds from one pose to the next.
        window: Seconds over which readings are averaged.
        touching: By contact, the intervals in which it touched; those not named always did.

    Raises:
        RecordingError: A column is missing, an orientation is invalid, or there is no pose at all.
    """
    several = [recordings] if isinstance(recordings, Recording) else list(recordings)
    for each in several:
        if not isinstance(each, Recording):
            raise RecordingError(f"{each!r} is no recording; read one with read_recording, or give a PoseSet")
    if not several:
        raise RecordingError("no recording was given; give at least one")
    if not (np.isfinite(interval) and interval > 0.0 and np.isfinite(window) and window >= 0.0):
        raise RecordingError(
            f"the interval of poses is {interval!r} s and their window {window!r} s; give positive seconds"
        )
    parts = [_sample(model, each, joints, imus, interval, min(window, interval), touching) for each in several]
    first = parts[0]
    for other in parts[1:]:
        if set(other.orientations) != set(first.orientations):
            raise RecordingError(
                f"the recordings have different inertial sensors: {sorted(first.orientations)} and "
                f"{sorted(other.orientations)}; name those to use"
            )
    if len(parts) == 1:
        return first
    names = {name for part in parts for name in part.touching}
    return PoseSet(
        model,
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.positions for part in parts]),
        {name: np.concatenate([part.orientations[name] for part in parts]) for name in first.orientations},
        {},
        {name: np.concatenate([part.touches(name) for part in parts]) for name in names},
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
    )


def _sample(
    model: Model,
    recording: Recording,
    joints: Sequence[str],
    imus: Sequence[str] | None,
    interval: float,
    window: float,
    touching: Mapping[str, Sequence[tuple[float, float]]] | None,
) -> PoseSet:
    columns, starts = _position_columns(model, recording, joints)
    sensors = _sensors(model, recording, imus)
    quaternions = {name: [f"{name}.quat.{axis}" for axis in QUATERNION_AXES] for name in sensors}
    names = [*columns, *(column for group in quaternions.values() for column in group)]
    begin = float(recording.time[0])
    count = int(np.floor((recording.duration - window) / interval)) + 1 if recording.duration >= window else 1
    sums, counts = np.zeros((count, len(columns))), np.zeros((count, len(columns)))
    turns = {name: np.zeros((count, 4, 4)) for name in sensors}
    for piece in recording.select(names).chunks():
        place = (piece.time - begin - 0.5 * window) / interval
        number = np.clip(np.rint(place).astype(np.int64), 0, count - 1)
        inside = np.abs(place - number) * interval <= 0.5 * window + 1e-9
        number = number[inside]
        values = np.column_stack([piece.column(name)[inside] for name in columns])
        there = np.isfinite(values)
        np.add.at(sums, number, np.where(there, values, 0.0))
        np.add.at(counts, number, there)
        for name, group in quaternions.items():
            _add_turns(turns[name], number, np.column_stack([piece.column(each)[inside] for each in group]), name)
    orientations = {name: _mean_turns(each) for name, each in turns.items()}
    complete = (counts > 0).all(axis=1)
    if sensors:
        complete &= np.any([np.isfinite(each[:, 0]) for each in orientations.values()], axis=0)
    if not complete.any():
        empty = [name for name, there in zip(columns, counts.sum(axis=0), strict=True) if not there]
        empty += [f"{name}.quat.x" for name in sensors if not np.isfinite(orientations[name][:, 0]).any()]
        why = f"{empty[0]!r} has no readings" if empty else "its columns never overlap in time"
        raise RecordingError(
            f"{recording.name} has no pose: {why}; check the logger, or lock the joint in the setup if it does not "
            "move",
            column=empty[0] if empty else None,
        )
    positions = np.tile(_rest(model), (count, 1))
    positions[:, starts] = sums / np.maximum(counts, 1.0)
    time = np.asarray(begin + 0.5 * window + interval * np.arange(count), dtype=np.float64)
    poses = PoseSet(model, time, positions, orientations, {}, _on_place(touching or {}, time))
    return poses.pick(complete)


def _rest(model: Model) -> FloatArray:
    return np.asarray(model.neutral[7:] if model.base == "floating" else model.neutral)


def _position_columns(model: Model, recording: Recording, joints: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the columns of recorded joints, and their indices among all positions."""
    columns: list[str] = []
    starts: list[int] = []
    for joint in model.joints:
        kind = model.joint(joint).kind
        names = joint_columns(joint, ball=kind == "ball")
        if joint not in joints and not all(name in recording.values for name in names):
            continue
        start = int(model.tree.q_starts[model.joint_body(joint)]) - (7 if model.base == "floating" else 0)
        for number, name in enumerate(names):
            if name not in recording.values:
                recording.column(name)
            columns.append(name)
            starts.append(start + number)
    return columns, starts


def _sensors(model: Model, recording: Recording, imus: Sequence[str] | None) -> list[str]:
    """Return the inertial sensors whose orientation is recorded, or those asked for."""
    known = [imu.name for imu in model.setup.imus]
    for name in imus or ():
        if name not in known:
            raise RecordingError(
                f"the setup of {model.name} has no inertial sensor {name!r}{did_you_mean(name, known)}", column=name
            )
        recording.column(f"{name}.quat.x")
    if imus is not None:
        return list(imus)
    return [name for name in known if all(f"{name}.quat.{axis}" in recording.values for axis in QUATERNION_AXES)]


def _add_turns(turns: FloatArray, number: NDArray[np.int64], quaternions: FloatArray, name: str) -> None:
    """Add quaternions to sums of their outer products, which are the same for a quaternion and its negative."""
    there = np.isfinite(quaternions).all(axis=1)
    quaternions = quaternions[there]
    check_quaternion_lengths(name, np.linalg.norm(quaternions, axis=1))
    np.add.at(turns, number[there], quaternions[:, :, None] * quaternions[:, None, :])


def _mean_turns(turns: FloatArray) -> FloatArray:
    """Return the mean orientations, x y z w, shape (n, 4); NaN where there was no reading."""
    means = np.linalg.eigh(turns)[1][:, :, -1]
    means[np.trace(turns, axis1=1, axis2=2) == 0.0] = np.nan
    return np.asarray(means)


def _on_place(stretches: Mapping[str, Sequence[tuple[float, float]]], time: FloatArray) -> dict[str, np.ndarray]:
    return {
        name: np.any([(time >= start) & (time <= end) for start, end in each], axis=0)
        if len(each)
        else np.zeros(len(time), dtype=bool)
        for name, each in stretches.items()
    }
