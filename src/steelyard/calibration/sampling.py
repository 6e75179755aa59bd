"""Candidate poses of a recording: rows, or readings averaged over short, evenly spaced windows, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.calibration.poses import PoseSet, check_quaternion_lengths
from steelyard.exceptions import RecordingError
from steelyard.recording import QUATERNION_AXES, Recording, joint_columns, marker_columns, usual_period
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
    markers: Sequence[str] = (),
    interval: float = 0.2,
    window: float = WINDOW,
    touching: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> PoseSet:
    """Sample poses from recordings at even intervals; rows that are farther apart than these are a pose each.

    There is no pose where a needed column has no reading within the window. A marker is not seen where one of its
    columns has no reading, or where all three are exactly zero, as many programs write gaps. Recordings may be larger
    than memory.

    Args:
        model: The model.
        recordings: One or several.
        joints: Joints that are needed; others that are not recorded are at zero.
        imus: Inertial sensors whose orientation is used; by default all of the setup that are recorded.
        markers: Markers that are used; of several recordings, not each needs to have each.
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
    for name in markers:
        if not any(f"marker.{name}.x" in each.values for each in several):
            several[0].column(f"marker.{name}.x")
    parts = [_sample(model, each, joints, imus, markers, interval, min(window, interval), touching) for each in several]
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
        {name: np.concatenate([part.markers[name] for part in parts]) for name in first.markers},
        {name: np.concatenate([part.touches(name) for part in parts]) for name in names},
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
    )


def _sample(
    model: Model,
    recording: Recording,
    joints: Sequence[str],
    imus: Sequence[str] | None,
    markers: Sequence[str],
    interval: float,
    window: float,
    touching: Mapping[str, Sequence[tuple[float, float]]] | None,
) -> PoseSet:
    columns, starts = _position_columns(model, recording, joints)
    sensors = _sensors(model, recording, imus)
    quaternions = {name: [f"{name}.quat.{axis}" for axis in QUATERNION_AXES] for name in sensors}
    points = {name: marker_columns(name) for name in markers if f"marker.{name}.x" in recording.values}
    averaged = [*columns, *(column for group in points.values() for column in group)]
    names = [*averaged, *(column for group in quaternions.values() for column in group)]
    time = _pose_times(recording.time, interval, window)
    count, joint_count = len(time), len(columns)
    sums, counts = np.zeros((count, len(averaged))), np.zeros((count, len(averaged)))
    turns = {name: np.zeros((count, 4, 4)) for name in sensors}
    for piece in recording.select(names).chunks():
        number = _nearest(time, piece.time)
        inside = np.abs(piece.time - time[number]) <= 0.5 * window + 1e-9
        number = number[inside]
        values = np.column_stack([piece.column(name)[inside] for name in averaged])
        for start in range(joint_count, len(averaged), 3):
            _mask_gaps(values[:, start : start + 3])
        there = np.isfinite(values)
        np.add.at(sums, number, np.where(there, values, 0.0))
        np.add.at(counts, number, there)
        for name, group in quaternions.items():
            _add_turns(turns[name], number, np.column_stack([piece.column(each)[inside] for each in group]), name)
    orientations = {name: _mean_turns(each) for name, each in turns.items()}
    means = sums / np.maximum(counts, 1.0)
    seen_at = {name: np.full((count, 3), np.nan) for name in markers}
    for start, name in zip(range(joint_count, len(averaged), 3), points, strict=True):
        seen = counts[:, start] > 0
        seen_at[name][seen] = means[seen, start : start + 3]
    complete = (counts[:, :joint_count] > 0).all(axis=1)
    readings = [*orientations.values(), *seen_at.values()]
    if readings:
        complete &= np.any([np.isfinite(each[:, 0]) for each in readings], axis=0)
    if not complete.any():
        empty = [name for name, there in zip(averaged, counts.sum(axis=0), strict=True) if not there]
        empty += [f"{name}.quat.x" for name in sensors if not np.isfinite(orientations[name][:, 0]).any()]
        why = f"{empty[0]!r} has no readings" if empty else "its columns never overlap in time"
        raise RecordingError(
            f"{recording.name} has no pose: {why}; check the logger, or lock the joint in the setup if it does not "
            "move",
            column=empty[0] if empty else None,
        )
    positions = np.tile(_rest(model), (count, 1))
    positions[:, starts] = means[:, :joint_count]
    poses = PoseSet(model, time, positions, orientations, seen_at, _on_place(touching or {}, time))
    return poses.pick(complete)


def _pose_times(time: FloatArray, interval: float, window: float) -> FloatArray:
    """Return the instants of the poses, s: even ones, or the rows' own where these are farther apart."""
    if usual_period(time) > interval:
        return time
    count = max(int(np.floor((time[-1] - time[0] - window) / interval)) + 1, 1)
    return np.asarray(time[0] + 0.5 * window + interval * np.arange(count))


def _nearest(sorted_times: FloatArray, times: FloatArray) -> NDArray[np.int64]:
    """Return the index of the instant nearest to each time."""
    after = np.clip(np.searchsorted(sorted_times, times), 1, max(len(sorted_times) - 1, 1))
    if len(sorted_times) == 1:
        return np.zeros(len(times), dtype=np.int64)
    return after - (times - sorted_times[after - 1] <= sorted_times[after] - times)


def _mask_gaps(points: FloatArray) -> None:
    """Set a marker's positions, shape (n, 3), to NaN where it was not seen."""
    points[~(np.isfinite(points).all(axis=1) & points.any(axis=1))] = np.nan


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
