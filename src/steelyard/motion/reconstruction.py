"""From a Recording to a Motion: one clock, smooth, with derivatives, at an inertial sensor or on a planted sole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.model.setup import WRENCH_AXES
from steelyard.motion.kinematics import cross, frame_motion
from steelyard.motion.motion import GRAVITY, Motion
from steelyard.motion.smoothing import EDGE_PERIODS, differentiate, differentiate_twice, smooth
from steelyard.recording.resampling import tolerated_silence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray
    from steelyard.model.setup import Imu, Sole
    from steelyard.recording import Recording

LONGEST_GAP = 0.05
"""Seconds over which a slower sensor's readings are joined by straight lines; longer gaps are refused."""

_UNEVEN = 0.01
_SEAM_PERIODS = 9.0
_PIECE_ROWS = 8192


def reconstruct_from_imu(
    model: Model,
    recording: Recording,
    *,
    imu: str | None = None,
    cutoff: float = 10.0,
    offsets: Mapping[str, float] | None = None,
) -> Motion:
    """Gives the motion that a recording tells, with the link of an inertial sensor as base link.

    The proper acceleration is moved from the sensor to the link's origin with the gyro's rates; no orientation and no
    position are needed. All channels pass the same zero-phase filter, and the ends are dropped.

    Args:
        model: The model.
        recording: The recording.
        imu: Name of the inertial sensor; by default the first of the setup.
        cutoff: Frequency (Hz) up to which the motion is kept.
        offsets: Of the encoders, by joint: what is added to their readings, rad or m.

    Raises:
        MotionError: A channel has a gap, or the recording is too short; the message says where.
        RecordingError: A column is missing.
    """
    sensor = _choose_imu(model, imu)
    channels = _Channels(recording, _sample_rate(recording), cutoff)
    frame = model.frame(sensor.frame)
    gyro = channels.read([f"{sensor.name}.gyro.{axis}" for axis in "xyz"]) @ frame.placement.rotation.T
    pull = channels.read([f"{sensor.name}.accel.{axis}" for axis in "xyz"]) @ frame.placement.rotation.T
    turn = differentiate(gyro, channels.rate)
    arm = -frame.placement.translation
    pull = pull + cross(turn, arm) + cross(gyro, cross(gyro, arm))
    return _finish(model, channels, offsets, model.bodies[frame.body].name, (gyro, turn, pull))


def reconstruct_from_sole(
    model: Model,
    recording: Recording,
    *,
    sole: str | None = None,
    cutoff: float = 10.0,
    offsets: Mapping[str, float] | None = None,
) -> Motion:
    """Gives the motion that a recording tells while a sole stands still on level ground, with the root as base link.

    No inertial sensor is needed [iwasaki2012]: the root moves against the sole as the joints say, and the sole's normal
    points upwards.

    Args:
        model: The model.
        recording: The recording.
        sole: Name of the sole; by default the first of the setup.
        cutoff: Frequency (Hz) up to which the motion is kept.
        offsets: Of the encoders, by joint: what is added to their readings, rad or m.

    Raises:
        MotionError: A channel has a gap, or the recording is too short; the message says where.
        RecordingError: A column is missing.
    """
    ground = _choose_sole(model, sole)
    channels = _Channels(recording, _sample_rate(recording), cutoff)
    q = _positions(model, channels, offsets)
    still = np.zeros((len(q), 3))
    v, a = differentiate(q, channels.rate), differentiate_twice(q, channels.rate)
    root = model.bodies[0].name
    seen = frame_motion(model, Motion(recording.time, q, v, a, root, still, still, still), ground.frame)
    # `seen` is the sole as a root at rest would see it; the truth is the other way round.
    rate, turn, arm = -seen.angular_velocity, -seen.angular_acceleration, seen.position
    speed = differentiate(arm, channels.rate)
    carried = cross(turn, arm) + cross(rate, cross(rate, arm)) + 2.0 * cross(rate, speed)
    up = seen.rotation @ sole_normal(model, ground)
    pull = GRAVITY * up - carried - seen.proper_acceleration
    return _finish(model, channels, offsets, root, (rate, turn, pull))


def motion_pieces(
    model: Model,
    recording: Recording,
    *,
    imu: str | None = None,
    cutoff: float = 10.0,
    offsets: Mapping[str, float] | None = None,
) -> Iterator[Motion]:
    """Gives the motion of a recording of any length, piece by piece, as `gather_evidence` takes it.

    Pieces overlap in what the filter needs, so that together they are the whole. Where the clock or a channel that is
    needed has a gap, the motion ends and begins again behind it; uneven times are put on even ones first.

    Args:
        model: The model.
        recording: The recording, in memory or not.
        imu: Name of the inertial sensor; by default the first of the setup.
        cutoff: Frequency (Hz) up to which the motion is kept.
        offsets: Of the encoders, by joint.

    Raises:
        MotionError: No stretch is long enough.
        RecordingError: A column is missing.
    """
    sensor = _choose_imu(model, imu)
    needed = _needed_columns(model, recording, sensor)
    found = False
    for even in _even_stretches(recording.select(needed)):
        rate = _sample_rate(even)
        margin = round(_SEAM_PERIODS / cutoff * rate) + _edge(cutoff, rate)
        for start in range(0, len(even), _PIECE_ROWS):
            stop = min(start + _PIECE_ROWS, len(even))
            window = even.rows(max(0, start - margin), min(len(even), stop + margin)).loaded()
            for part in _parts_without_gaps(window):
                if len(part) <= 2 * _edge(cutoff, rate):
                    continue
                motion = reconstruct_from_imu(model, part, imu=sensor.name, cutoff=cutoff, offsets=offsets)
                first, last = np.searchsorted(motion.time, even.time[[start, stop - 1]] + np.array([-0.5, 0.5]) / rate)
                if last > first:
                    found = True
                    yield motion.between(int(first), int(last))
    if not found:
        raise MotionError(
            f"{recording.name} has no stretch without gaps that is long enough for a cutoff of {cutoff:g} Hz; see "
            "`steelyard inspect` for its gaps"
        )


def smooth_columns(recording: Recording, names: Sequence[str], cutoff: float) -> FloatArray:
    """Gives columns of an evenly sampled recording through the filter of its motion, shape (n, len(names)).

    Raises:
        MotionError: A column has a gap, or there are too few rows.
        RecordingError: A column is missing.
    """
    return _Channels(recording, _sample_rate(recording), cutoff).read(list(names))


def neutral_posture(model: Model) -> Motion:
    """Gives one sample at rest in the neutral posture, with the root as base link."""
    neutral = model.neutral[None, 7 if model.base == "floating" else 0 :]
    still, at_rest = np.zeros((1, 3)), np.zeros((1, model.velocity_size))
    return Motion(np.zeros(1), neutral, at_rest, at_rest, model.bodies[0].name, still, still, still)


def sole_normal(model: Model, sole: Sole) -> FloatArray:
    """Gives the normal of a sole that points upwards in the neutral posture, in the sole's frame, shape (3,)."""
    normal = np.linalg.svd(sole.vertices - sole.vertices.mean(axis=0))[2][2]
    rotation = frame_motion(model, neutral_posture(model), sole.frame).rotation[0]
    return np.asarray(normal if (rotation @ normal)[2] >= 0.0 else -normal)


@dataclass(frozen=True)
class _Channels:
    """The channels of a recording through one filter."""

    recording: Recording
    rate: float
    cutoff: float

    def read(self, names: list[str]) -> FloatArray:
        """Gives channels side by side, shape (n, len(names))."""
        return smooth(np.stack([_filled(self.recording, name) for name in names], axis=1), self.rate, self.cutoff)


def _finish(
    model: Model,
    channels: _Channels,
    offsets: Mapping[str, float] | None,
    base: str,
    base_motion: tuple[FloatArray, FloatArray, FloatArray],
) -> Motion:
    """Gives the Motion of a base link's rates, angular and proper accelerations, with all else that was recorded."""
    recording, rate = channels.recording, channels.rate
    q = _positions(model, channels, offsets)
    wrenches = {}
    for each in model.setup.wrench_sensors:
        if f"{each.name}.{each.axes[0]}" in recording.values:
            values = np.zeros((len(recording), 6))
            sign = 1.0 if each.sign == "on_robot" else -1.0
            columns = [WRENCH_AXES.index(axis) for axis in each.axes]
            values[:, columns] = sign * channels.read([f"{each.name}.{axis}" for axis in each.axes])
            wrenches[each.name] = values
    measured = [joint for joint in model.joints if f"tau.{joint}" in recording.values]
    whole = Motion(
        recording.time,
        q,
        differentiate(q, rate),
        differentiate_twice(q, rate),
        base,
        *base_motion,
        wrenches=wrenches,
        torques={joint: channels.read([f"tau.{joint}"])[:, 0] for joint in measured},
        sample_rate=rate,
        bandwidth=channels.cutoff,
    )
    edge = _edge(channels.cutoff, rate)
    if len(whole) <= 2 * edge:
        raise MotionError(f"the recording of {len(whole)} rows is too short for a cutoff of {channels.cutoff:g} Hz")
    return whole.between(edge, len(whole) - edge)


def _positions(model: Model, channels: _Channels, offsets: Mapping[str, float] | None) -> FloatArray:
    added = offsets or {}
    q = channels.read([f"q.{joint}" for joint in model.joints])
    return np.asarray(q + np.array([added.get(joint, 0.0) for joint in model.joints]))


def _edge(cutoff: float, rate: float) -> int:
    """Gives how many rows at each end are not to be trusted: the filter's, and two for the differences."""
    return round(EDGE_PERIODS / cutoff * rate) + 2


def _choose_imu(model: Model, name: str | None) -> Imu:
    for imu in model.setup.imus:
        if name in (None, imu.name):
            return imu
    known = ", ".join(repr(imu.name) for imu in model.setup.imus) or "none"
    raise MotionError(f"the setup of {model.name} has no inertial sensor {name or 'at all'} (it has {known})")


def _choose_sole(model: Model, name: str | None) -> Sole:
    for sole in model.setup.soles:
        if name in (None, sole.name):
            return sole
    known = ", ".join(repr(sole.name) for sole in model.setup.soles) or "none"
    raise MotionError(f"the setup of {model.name} has no sole {name or 'at all'} (it has {known})")


def _needed_columns(model: Model, recording: Recording, imu: Imu) -> list[str]:
    """Gives the columns that a motion is made of; what a sensor that is not recorded would give is left out."""
    names = [f"q.{joint}" for joint in model.joints]
    names += [f"{imu.name}.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"]
    for sensor in model.setup.wrench_sensors:
        if f"{sensor.name}.{sensor.axes[0]}" in recording.values:
            names += [f"{sensor.name}.{axis}" for axis in sensor.axes]
    return names + [f"tau.{joint}" for joint in model.joints if f"tau.{joint}" in recording.values]


def _is_even(time: FloatArray) -> bool:
    steps = np.diff(time)
    return bool(np.all(np.abs(steps / np.median(steps) - 1.0) <= _UNEVEN)) if len(steps) else True


def _sample_rate(recording: Recording) -> float:
    if len(recording) < 2 or not _is_even(recording.time):
        raise MotionError("the recording's times are not evenly spaced; resample it first", channel="time")
    return (len(recording) - 1) / recording.duration


def clean_parts(recording: Recording) -> list[Recording]:
    """Gives the parts of a recording in memory, each evenly sampled, in which neither clock nor columns have gaps."""
    return [part for even in _even_stretches(recording) for part in _parts_without_gaps(even)]


def _even_stretches(recording: Recording) -> Iterator[Recording]:
    """Gives the stretches of a recording over which its clock has no gap, on even times."""
    # A slow clock's own period is no gap.
    longest = max(LONGEST_GAP, tolerated_silence(recording.time))
    cuts = np.flatnonzero(np.diff(recording.time) > longest) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(recording)], strict=True):
        if stop - start > 1:
            stretch = recording.rows(int(start), int(stop))
            yield stretch if _is_even(stretch.time) else stretch.resampled()


def _parts_without_gaps(recording: Recording) -> Iterator[Recording]:
    """Gives the parts of a recording in memory in which no column is silent for longer than `LONGEST_GAP`."""
    time = recording.time
    heard = np.ones(len(time), dtype=np.bool_)
    for values in recording.values.values():
        there = np.flatnonzero(np.isfinite(values))
        if len(there) == len(values):
            continue
        ends = np.concatenate([[0], there, [len(time) - 1]])
        for before in np.flatnonzero(np.diff(time[ends]) > LONGEST_GAP):
            heard[ends[before] + (before > 0) : ends[before + 1]] = False
        if len(there) == 0 or time[-1] - time[there[-1]] > LONGEST_GAP:
            heard[-1] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], heard, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        yield recording.rows(int(start), int(stop))


def _filled(recording: Recording, name: str) -> FloatArray:
    """Gives a column with the rows between a slower sensor's readings filled by straight lines."""
    values = recording.column(name)
    there = np.flatnonzero(np.isfinite(values))
    if len(there) == len(values):
        return values
    time = recording.time
    ends = np.concatenate([[time[0]], time[there], [time[-1]]])
    gap = int(np.argmax(np.diff(ends)))
    if len(there) < 2 or ends[gap + 1] - ends[gap] > LONGEST_GAP:
        raise MotionError(
            f"{name} has no readings from {ends[gap]:.3f} s to {ends[gap + 1]:.3f} s; cut the recording there",
            channel=name,
        )
    return np.interp(time, time[there], values[there])
