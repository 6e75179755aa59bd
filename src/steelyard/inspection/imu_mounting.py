"""Mounting and units of IMUs, from the leg kinematics while the feet are stationary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.axis_permutations import is_identity, signed_permutations
from steelyard.model import STANDARD_GRAVITY
from steelyard.motion import GRAVITY, butterworth, frame_motion, reconstruct_motion, sample_rate, smooth_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.model import Imu, Model
    from steelyard.motion import Motion
    from steelyard.recording import Recording

ACCELEROMETER_UNITS = {"m/s²": 1.0, "g": STANDARD_GRAVITY}
"""Units of an accelerometer, and the factors that convert them to SI."""

GYRO_UNITS = {"rad/s": 1.0, "deg/s": np.pi / 180.0}
"""Units of a gyro, and the factors that convert them to SI."""

_MEAN_TOLERANCE = 0.4
"""Tolerated mean difference (m/s²) between an accelerometer and stationary feet. Set by judgement: 2.3° of joint
offsets or of ground slope."""

_TOLERANCE = (0.1, 0.01)
"""Tolerated RMS difference (m/s², rad/s) about the mean. Set by judgement: noise and vibration of a standing robot."""

_RELATIVE_TOLERANCE = 0.1
"""Tolerated difference as a share of the predicted variation. Set by judgement: joint offsets rotate the prediction."""

_STATIONARY = (0.5, 0.1)
"""Greatest difference (m/s², rad/s) of the root's motion computed from either sole while both are stationary. Set by
judgement: encoder noise cut off at 5 Hz stays below, a swinging foot far above."""

_TILTED = 2.5
"""Median difference (m/s²) between the soles above which they are not level with each other: 15° of tilt, more than
joint offsets cause. Set by judgement."""

_LEAST_SAMPLES = 40
"""Samples with stationary feet that a comparison needs: 2.7 s at three per period of 5 Hz. Set by judgement."""

_DECISIVE = 4.0
"""Ratio of mean squared differences from which another mounting is accepted: half the difference. Set by judgement."""

_NO_GRAVITY = 0.3
"""Mean (m/s²) of an accelerometer below which gravity was removed. Set by judgement: 3 % of gravity, above any bias."""


@dataclass(frozen=True, eq=False)
class ImuComparison:
    """Predicted and recorded readings of an IMU while the soles are stationary.

    Attributes:
        accel: Predicted proper acceleration in the sensor's frame, m/s², shape (n, 3).
        gyro: Predicted angular velocity, rad/s, shape (n, 3).
        accel_read: Accelerometer readings, shape (n, 3).
        gyro_read: Gyro readings, shape (n, 3).
    """

    accel: FloatArray
    gyro: FloatArray
    accel_read: FloatArray
    gyro_read: FloatArray


@dataclass(frozen=True, eq=False)
class ImuMounting:
    """Actual axes and units of an IMU: ``true = scale * axes @ reading``.

    Attributes:
        imu: Name of the sensor.
        accel_axes: Signed permutation of the accelerometer, shape (3, 3).
        gyro_axes: Signed permutation of the gyro, shape (3, 3).
        accel_unit: One of `ACCELEROMETER_UNITS`.
        gyro_unit: One of `GYRO_UNITS`.
        without_gravity: Whether gravity was removed from the accelerometer's readings.
        misfit: Difference with the setup's axes and units, relative to the tolerance.
        best_misfit: Difference with the axes and units found.
        rivals: Number of other permutations that explain the readings about as well: the robot moved too little.
    """

    imu: str
    accel_axes: FloatArray
    gyro_axes: FloatArray
    accel_unit: str = "m/s²"
    gyro_unit: str = "rad/s"
    without_gravity: bool = False
    misfit: float = 0.0
    best_misfit: float = 0.0
    rivals: int = 0

    @property
    def as_stated(self) -> bool:
        """Whether axes and units are those of the setup."""
        same_axes = is_identity(self.accel_axes) and is_identity(self.gyro_axes)
        return same_axes and self.accel_unit == "m/s²" and self.gyro_unit == "rad/s" and not self.without_gravity


def compare_imu(model: Model, segments: Sequence[Recording], imu: Imu, cutoff: float) -> ImuComparison | None:
    """Predict an IMU's readings at the samples with all soles stationary, beside the recorded ones.

    Two stationary soles imply the same motion of the root; where they do not, one of them moves. Return None if there
    are too few such samples.
    """
    parts = []
    for segment in segments:
        motions = [
            reconstruct_motion(model, segment, base="sole", sole=sole.name, cutoff=cutoff, decimate=False)
            for sole in model.setup.soles
        ]
        stationary = _find_stationary(motions)
        step = max(1, round(motions[0].sample_rate / (3.0 * cutoff)))
        stationary &= np.arange(len(stationary)) % step == 0
        seen = [frame_motion(model, motion.where(stationary), imu.frame) for motion in motions]
        smoothing = butterworth(cutoff)
        # A gap in another column leaves the motion fewer samples than the segment has: samples are matched by time.
        edge = smoothing.edge(sample_rate(segment))
        rows = np.searchsorted(segment.time[edge : len(segment) - edge], motions[0].time[stationary])
        read = [
            smooth_columns(segment, [f"{imu.name}.{kind}.{axis}" for axis in "xyz"], smoothing)[rows]
            for kind in ("accel", "gyro")
        ]
        accel = np.mean([each.in_own_axes(each.proper_acceleration) for each in seen], axis=0)
        gyro = np.mean([each.in_own_axes(each.angular_velocity) for each in seen], axis=0)
        parts.append((accel, gyro, *read))
    whole = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return ImuComparison(*whole) if len(whole[0]) >= _LEAST_SAMPLES else None


def find_imu_mounting(imu: str, seen: ImuComparison) -> ImuMounting:
    """Find the axes and units of an IMU, among right-angle rotations, reflections and common units.

    Args:
        imu: Name of the sensor.
        seen: Predicted and recorded readings.
    """
    identity = np.eye(3)
    mean = np.linalg.norm(seen.accel_read.mean(axis=0))
    if mean < _NO_GRAVITY and np.linalg.norm(seen.accel.mean(axis=0)) > 0.5 * GRAVITY:
        return ImuMounting(imu, identity, identity, without_gravity=True, misfit=np.inf)
    accel = _misfits(seen.accel, seen.accel_read, ACCELEROMETER_UNITS, _TOLERANCE[0], _MEAN_TOLERANCE)
    gyro = _misfits(seen.gyro, seen.gyro_read, GYRO_UNITS, _TOLERANCE[1], np.inf)
    if max(seen.gyro.std(axis=0).max(), seen.gyro_read.std(axis=0).max()) < _TOLERANCE[1]:
        # The gyro of a robot that does not rotate, and reads zero, is uninformative.
        gyro[:] = 0.0
    stated = accel[0, 0] + gyro[0, 0]
    # Both usually share one housing; they are mounted separately only if no common permutation fits.
    together = accel.min(axis=0) + gyro.min(axis=0)
    apart = accel.min() + gyro.min()
    best = int(np.argmin(together))
    if together[0] < 2.0 * together[best] + 1.0:
        # If the robot moved too little to decide, the setup is kept.
        best = 0
    chosen = (best, best)
    if together[best] > _DECISIVE * apart + 1.0:
        chosen = (int(np.argmin(accel.min(axis=0))), int(np.argmin(gyro.min(axis=0))))
    units = (int(np.argmin(accel[:, chosen[0]])), int(np.argmin(gyro[:, chosen[1]])))
    left = accel[units[0], chosen[0]] + gyro[units[1], chosen[1]]
    rivals = int(np.count_nonzero(together < 2.0 * left + 1.0)) - 1 if chosen[0] == chosen[1] else 0
    misfit = float(np.sqrt(stated))
    if stated < 1.0 or stated < _DECISIVE * left:
        return ImuMounting(imu, identity, identity, misfit=misfit, best_misfit=misfit)
    return ImuMounting(
        imu,
        signed_permutations()[chosen[0]],
        signed_permutations()[chosen[1]],
        list(ACCELEROMETER_UNITS)[units[0]],
        list(GYRO_UNITS)[units[1]],
        misfit=misfit,
        best_misfit=float(np.sqrt(left)),
        rivals=rivals,
    )


def _misfits(
    expected: FloatArray, read: FloatArray, units: dict[str, float], tolerance: float, mean_tolerance: float
) -> FloatArray:
    """Compute the mean squared difference by unit and permutation, relative to the tolerance, shape (n_units, 48)."""
    variance = np.sum(expected.var(axis=0))
    tolerated = tolerance**2 + _RELATIVE_TOLERANCE**2 * variance
    result = np.empty((len(units), len(signed_permutations())))
    for row, scale in enumerate(units.values()):
        for column, permutation in enumerate(signed_permutations()):
            residual = expected - scale * read @ permutation.T
            mean = residual.mean(axis=0)
            varying = np.mean(np.sum((residual - mean) ** 2, axis=1))
            result[row, column] = varying / tolerated + mean @ mean / mean_tolerance**2
    return result


def _find_stationary(motions: Sequence[Motion]) -> BoolArray:
    """Return the samples at which all soles imply the same motion of the root, shape (n,)."""
    stationary = np.ones(len(motions[0]), dtype=np.bool_)
    for other in motions[1:]:
        difference = other.proper_acceleration - motions[0].proper_acceleration
        usual = np.median(difference, axis=0)
        if np.linalg.norm(usual) > _TILTED:
            stationary[:] = False
        # Joint offsets tilt one sole relative to the other permanently; a moving foot varies.
        acceleration = np.linalg.norm(difference - usual, axis=1)
        rate = np.linalg.norm(other.angular_velocity - motions[0].angular_velocity, axis=1)
        stationary &= (acceleration < _STATIONARY[0]) & (rate < _STATIONARY[1])
    return stationary
