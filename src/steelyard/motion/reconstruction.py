"""From a Recording to a Motion: one clock, smooth, with derivatives, at the link that carries the inertial sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.model.setup import WRENCH_AXES
from steelyard.motion.kinematics import cross
from steelyard.motion.motion import Motion
from steelyard.motion.smoothing import EDGE_PERIODS, differentiate, differentiate_twice, smooth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray
    from steelyard.model.setup import Imu
    from steelyard.recording import Recording

LONGEST_GAP = 0.05
"""Seconds over which a slower sensor's readings are joined by straight lines; longer gaps are refused."""


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
    steps = np.diff(recording.time)
    rate = 1.0 / float(np.median(steps)) if len(steps) else 0.0
    if len(steps) == 0 or np.max(np.abs(steps * rate - 1.0)) > 0.01:
        raise MotionError("the recording's times are not evenly spaced; resample it first", channel="time")
    frame = model.frame(sensor.frame)

    def channels(names: list[str]) -> FloatArray:
        return smooth(np.stack([_filled(recording, name) for name in names], axis=1), rate, cutoff)

    added = offsets or {}
    q = channels([f"q.{joint}" for joint in model.joints]) + np.array([added.get(joint, 0.0) for joint in model.joints])
    gyro = channels([f"{sensor.name}.gyro.{axis}" for axis in "xyz"]) @ frame.placement.rotation.T
    pull = channels([f"{sensor.name}.accel.{axis}" for axis in "xyz"]) @ frame.placement.rotation.T
    turn = differentiate(gyro, rate)
    arm = -frame.placement.translation
    pull = pull + cross(turn, arm) + cross(gyro, cross(gyro, arm))
    wrenches = {}
    for each in model.setup.wrench_sensors:
        if f"{each.name}.{each.axes[0]}" in recording.columns:
            values = np.zeros((len(recording), 6))
            sign = 1.0 if each.sign == "on_robot" else -1.0
            columns = [WRENCH_AXES.index(axis) for axis in each.axes]
            values[:, columns] = sign * channels([f"{each.name}.{axis}" for axis in each.axes])
            wrenches[each.name] = values
    measured = [joint for joint in model.joints if f"tau.{joint}" in recording.columns]
    torques = {joint: channels([f"tau.{joint}"])[:, 0] for joint in measured}
    edge = round(EDGE_PERIODS / cutoff * rate) + 2
    whole = Motion(
        recording.time,
        q,
        differentiate(q, rate),
        differentiate_twice(q, rate),
        model.bodies[frame.body].name,
        gyro,
        turn,
        pull,
        wrenches=wrenches,
        torques=torques,
        sample_rate=rate,
        bandwidth=cutoff,
    )
    if len(whole) <= 2 * edge:
        raise MotionError(f"the recording of {len(whole)} rows is too short for a cutoff of {cutoff:g} Hz")
    return whole.between(edge, len(whole) - edge)


def _choose_imu(model: Model, name: str | None) -> Imu:
    for imu in model.setup.imus:
        if name in (None, imu.name):
            return imu
    known = ", ".join(repr(imu.name) for imu in model.setup.imus) or "none"
    raise MotionError(f"the setup of {model.name} has no inertial sensor {name or 'at all'} (it has {known})")


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
