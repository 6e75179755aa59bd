"""How inertial sensors are mounted, and in which units they read: found by what the planted feet say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.turns import all_turns, is_same
from steelyard.model import STANDARD_GRAVITY
from steelyard.motion import GRAVITY, butterworth, frame_motion, reconstruct_motion, smooth_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Imu, Model
    from steelyard.motion import Motion
    from steelyard.recording import Recording

ACCELEROMETER_UNITS = {"m/s²": 1.0, "g": STANDARD_GRAVITY}
GYRO_UNITS = {"rad/s": 1.0, "deg/s": np.pi / 180.0}
"""Units that an inertial sensor may read in, and what its readings are then multiplied with."""

_MEAN_TOLERANCE = 0.4
"""By how much (m/s²) a sound accelerometer and planted feet may disagree on the whole: joint offsets, slopes."""

_TOLERANCE = (0.1, 0.01)
"""By how much (m/s², rad/s) they may disagree from instant to instant."""

_SHARE = 0.1

_PLANTED = (0.5, 0.1)
_TILTED = 2.5
_LEAST_SAMPLES = 40
_CLEAR = 4.0
_NO_GRAVITY = 0.3


@dataclass(frozen=True, eq=False)
class Prediction:
    """What an inertial sensor should read while the soles stand still, and what it does read.

    Attributes:
        accel: Predicted proper acceleration in the sensor's frame, m/s², shape (n, 3).
        gyro: Predicted angular velocity, rad/s, shape (n, 3).
        accel_read: What the accelerometer reads, shape (n, 3).
        gyro_read: What the gyro reads, shape (n, 3).
    """

    accel: FloatArray
    gyro: FloatArray
    accel_read: FloatArray
    gyro_read: FloatArray


@dataclass(frozen=True, eq=False)
class InertialMounting:
    """How an inertial sensor really reads: ``true = scale * turn @ reading``.

    Attributes:
        imu: Name of the sensor.
        accel_turn: Of the accelerometer, shape (3, 3), a signed permutation.
        gyro_turn: Of the gyro.
        accel_unit: One of `ACCELEROMETER_UNITS`.
        gyro_unit: One of `GYRO_UNITS`.
        without_gravity: Whether gravity was taken out of the accelerometer's readings.
        misfit: Of the sensor as the setup states it, in units of what is tolerated.
        best_misfit: Of what was found.
        rivals: How many other turns explain the readings about as well: the robot moved too little to tell.
    """

    imu: str
    accel_turn: FloatArray
    gyro_turn: FloatArray
    accel_unit: str = "m/s²"
    gyro_unit: str = "rad/s"
    without_gravity: bool = False
    misfit: float = 0.0
    best_misfit: float = 0.0
    rivals: int = 0

    @property
    def as_stated(self) -> bool:
        """Whether the sensor reads as the setup says."""
        same_axes = is_same(self.accel_turn) and is_same(self.gyro_turn)
        return same_axes and self.accel_unit == "m/s²" and self.gyro_unit == "rad/s" and not self.without_gravity


def predict_readings(model: Model, stretches: Sequence[Recording], imu: Imu, cutoff: float) -> Prediction | None:
    """Gives what an inertial sensor should and does read in the samples in which all soles stand still.

    Two soles that both stand still tell of the same motion of the root; where they do not, one of them moves. None
    where there are too few such samples.
    """
    parts = []
    for stretch in stretches:
        motions = [
            reconstruct_motion(model, stretch, base="sole", sole=sole.name, cutoff=cutoff, decimate=False)
            for sole in model.setup.soles
        ]
        planted = _planted(motions)
        step = max(1, round(motions[0].sample_rate / (3.0 * cutoff)))
        planted &= np.arange(len(planted)) % step == 0
        seen = [frame_motion(model, motion.where(planted), imu.frame) for motion in motions]
        read = [
            smooth_columns(stretch, [f"{imu.name}.{kind}.{axis}" for axis in "xyz"], butterworth(cutoff))[planted]
            for kind in ("accel", "gyro")
        ]
        accel = np.mean([each.in_own_axes(each.proper_acceleration) for each in seen], axis=0)
        gyro = np.mean([each.in_own_axes(each.angular_velocity) for each in seen], axis=0)
        parts.append((accel, gyro, *read))
    whole = [np.concatenate(each) for each in zip(*parts, strict=True)]
    return Prediction(*whole) if len(whole[0]) >= _LEAST_SAMPLES else None


def find_inertial_mounting(imu: str, seen: Prediction) -> InertialMounting:
    """Finds how an inertial sensor is mounted, among right-angled turns, signs and units.

    Args:
        imu: Name of the sensor.
        seen: What it should and does read.
    """
    upright = np.eye(3)
    mean = np.linalg.norm(seen.accel_read.mean(axis=0))
    if mean < _NO_GRAVITY and np.linalg.norm(seen.accel.mean(axis=0)) > 0.5 * GRAVITY:
        return InertialMounting(imu, upright, upright, without_gravity=True, misfit=np.inf)
    accel = _misfits(seen.accel, seen.accel_read, ACCELEROMETER_UNITS, _TOLERANCE[0], _MEAN_TOLERANCE)
    gyro = _misfits(seen.gyro, seen.gyro_read, GYRO_UNITS, _TOLERANCE[1], np.inf)
    if max(seen.gyro.std(axis=0).max(), seen.gyro_read.std(axis=0).max()) < _TOLERANCE[1]:
        # The gyro of a robot that does not turn, and says so, tells nothing more.
        gyro[:] = 0.0
    stated = accel[0, 0] + gyro[0, 0]
    # Both are usually one housing; only where no common turn does are they looked at each by itself.
    together = accel.min(axis=0) + gyro.min(axis=0)
    apart = accel.min() + gyro.min()
    best = int(np.argmin(together))
    if together[0] < 2.0 * together[best] + 1.0:
        # Where the robot moved too little to tell, the setup is believed.
        best = 0
    turns = (best, best)
    if together[best] > _CLEAR * apart + 1.0:
        turns = (int(np.argmin(accel.min(axis=0))), int(np.argmin(gyro.min(axis=0))))
    units = (int(np.argmin(accel[:, turns[0]])), int(np.argmin(gyro[:, turns[1]])))
    left = accel[units[0], turns[0]] + gyro[units[1], turns[1]]
    rivals = int(np.count_nonzero(together < 2.0 * left + 1.0)) - 1 if turns[0] == turns[1] else 0
    if stated < 1.0 or stated < _CLEAR * left:
        return InertialMounting(
            imu, upright, upright, misfit=float(np.sqrt(stated)), best_misfit=float(np.sqrt(stated))
        )
    return InertialMounting(
        imu,
        all_turns()[turns[0]],
        all_turns()[turns[1]],
        list(ACCELEROMETER_UNITS)[units[0]],
        list(GYRO_UNITS)[units[1]],
        misfit=float(np.sqrt(stated)),
        best_misfit=float(np.sqrt(left)),
        rivals=rivals,
    )


def _misfits(
    expected: FloatArray, read: FloatArray, units: dict[str, float], tolerance: float, mean_tolerance: float
) -> FloatArray:
    """Gives the mean squared misfit of each unit and turn, in units of what is tolerated, shape (n_units, 48)."""
    # Joint offsets turn what is expected a little: a share of what varies is tolerated too.
    spread = np.sum(expected.var(axis=0))
    tolerated = tolerance**2 + _SHARE**2 * spread
    result = np.empty((len(units), len(all_turns())))
    for row, scale in enumerate(units.values()):
        for column, turn in enumerate(all_turns()):
            wrong = expected - scale * read @ turn.T
            mean = wrong.mean(axis=0)
            varying = np.mean(np.sum((wrong - mean) ** 2, axis=1))
            result[row, column] = varying / tolerated + mean @ mean / mean_tolerance**2
    return result


def _planted(motions: Sequence[Motion]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tells at which samples all soles say the same of the root's motion, shape (n,)."""
    planted = np.ones(len(motions[0]), dtype=np.bool_)
    for other in motions[1:]:
        apart = other.proper_acceleration - motions[0].proper_acceleration
        usual = np.median(apart, axis=0)
        if np.linalg.norm(usual) > _TILTED:
            planted[:] = False
        # Joint offsets tilt one sole against the other for good; a foot that moves does not stay as it is.
        pull = np.linalg.norm(apart - usual, axis=1)
        rate = np.linalg.norm(other.angular_velocity - motions[0].angular_velocity, axis=1)
        planted &= (pull < _PLANTED[0]) & (rate < _PLANTED[1])
    return planted
