"""From the signals of perfect sensors to a recording of real ones."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

from steelyard.kinematics import without_jumps
from steelyard.laboratory.sensors import correlate
from steelyard.laboratory.signals import measured_torques
from steelyard.model import WRENCH_AXES
from steelyard.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory.sensors import Instrument, Sensors
    from steelyard.laboratory.signals import Signals
    from steelyard.model import Model

_UNLIMITED_TORQUE = 100.0
"""Range (N m) of a torque sensor on a joint without a torque limit. Set by judgement: of the order of a knee's."""


def draw_biases(model: Model, sensors: Sensors, seed: int) -> dict[str, float]:
    """Draw the biases of all sensors, by column; those of the mounting by ``<imu>.mounting.x``.

    They belong to the true robot: the same seed gives the same biases in every measurement.
    """
    biases = {}
    for imu in model.setup.imus:
        for kind, group in _IMU_GROUPS.items():
            for axis in "xyz":
                biases[f"{imu.name}.{group}.{axis}"] = getattr(sensors, kind).bias
    for sensor in model.setup.wrench_sensors:
        force, moment = _wrench_instruments(sensors, sensor.axes)
        for axis in sensor.axes:
            biases[f"{sensor.name}.{axis}"] = (force if axis.startswith("f") else moment).bias
    for joint in measured_torques(model):
        biases[f"tau.{joint}"] = sensors.torque.bias * _torque_range(model, joint)
    return {name: scale * _stream(seed, name, "bias").standard_normal() for name, scale in biases.items() if scale}


def measure(
    model: Model,
    signals: Signals,
    sensors: Sensors,
    *,
    offsets: Mapping[str, float],
    biases: Mapping[str, float],
    seed: int,
    name: str,
) -> Recording:
    """Return the recording of a set of sensors.

    Args:
        model: The model; its setup has the sensors.
        signals: Signals of perfect sensors.
        sensors: The errors of the sensors.
        offsets: Encoder offsets, to be added to a reading to get the true position, rad or m by joint.
        biases: Biases of the other sensors, by column.
        seed: Seed of the noise.
        name: Name of the recording.
    """
    rows = round((signals.time[-1] - signals.time[0]) * sensors.rate) + 1
    table = _Table(signals.time, np.arange(rows) / sensors.rate, sensors.rate, seed, biases)
    columns: dict[str, FloatArray] = {}
    for number, joint in enumerate(model.joints):
        true = signals.positions[:, number] - offsets[joint]
        columns[f"q.{joint}"] = table.read(f"q.{joint}", true, sensors.encoder)
    for number, joint in enumerate(model.joints):
        planned = signals.planned[:, number] - offsets[joint]
        columns[f"q_command.{joint}"] = np.interp(table.rows, signals.time, planned)
    for imu in model.setup.imus:
        columns |= _read_imu(imu.name, signals, sensors, table)
    for sensor in model.setup.wrench_sensors:
        force, moment = _wrench_instruments(sensors, sensor.axes)
        sign = 1.0 if sensor.sign == "on_robot" else -1.0
        for axis in sensor.axes:
            true = sign * signals.wrenches[sensor.name][:, WRENCH_AXES.index(axis)]
            column = f"{sensor.name}.{axis}"
            columns[column] = table.read(column, true, force if axis.startswith("f") else moment)
    for joint, true in signals.torques.items():
        columns[f"tau.{joint}"] = table.read(f"tau.{joint}", true, sensors.torque, _torque_range(model, joint))
    return Recording(table.rows, columns, name)


_IMU_GROUPS = {"gyro": "gyro", "accelerometer": "accel", "orientation": "orientation", "mounting": "mounting"}
"""Column groups of the kinds of errors of an inertial sensor."""


def _read_imu(name: str, signals: Signals, sensors: Sensors, table: _Table) -> dict[str, FloatArray]:
    true = signals.imus[name]
    turn = pin.exp3(np.array([table.biases.get(f"{name}.mounting.{axis}", 0.0) for axis in "xyz"]))
    columns: dict[str, FloatArray] = {}
    for kind, values in (("gyro", true.gyro @ turn), ("accelerometer", true.accelerometer @ turn)):
        for number, axis in enumerate("xyz"):
            column = f"{name}.{_IMU_GROUPS[kind]}.{axis}"
            columns[column] = table.read(column, values[:, number], getattr(sensors, kind))
    # The errors of the orientation are small rotations about the sensor's own axes.
    still = np.zeros_like(signals.time)
    errors = np.stack([table.read(f"{name}.orientation.{axis}", still, sensors.orientation) for axis in "xyz"], axis=1)
    samples = table.samples(sensors.orientation.delay)
    before = np.floor(samples).astype(np.int64)
    step = signals.time[1] - signals.time[0]
    rest = (samples - before)[:, None] * step * true.gyro[before]
    there = np.isfinite(errors[:, 0])
    orientation = (
        Rotation.from_matrix(true.rotation[before[there]])
        * Rotation.from_rotvec(rest[there])
        * Rotation.from_matrix(turn)
        * Rotation.from_rotvec(errors[there])
    ).as_quat()
    read = np.full((len(table.rows), 4), np.nan)
    read[there] = orientation
    # A quaternion and its negative are one orientation; the recording does not jump between them.
    return columns | dict(zip([f"{name}.quat.{axis}" for axis in "xyzw"], without_jumps(read).T, strict=True))


@dataclass(frozen=True, eq=False)
class _Table:
    """The rows of a recording, and the sampling of a channel into them."""

    clock: FloatArray
    rows: FloatArray
    rate: float
    seed: int
    biases: Mapping[str, float]

    def samples(self, delay: float) -> FloatArray:
        """Return the fractional physics steps that the rows sample with a delay, shape (n_rows,)."""
        step = self.clock[1] - self.clock[0]
        return np.asarray(np.clip((self.rows - delay - self.clock[0]) / step, 0.0, len(self.clock) - 1.0))

    def read(self, column: str, true: FloatArray, instrument: Instrument, scale: float = 1.0) -> FloatArray:
        """Return a column with delay, bias, noise and resolution, and NaN between the readings of a slower sensor."""
        reading = np.interp(self.samples(instrument.delay), np.arange(len(true)), true) + self.biases.get(column, 0.0)
        if instrument.noise:
            white = _stream(self.seed, column, "noise").standard_normal(len(reading))
            if instrument.correlation:
                keep = np.exp(-1.0 / (instrument.correlation * self.rate))
                white = correlate(white, keep)
            reading = reading + scale * instrument.noise * white
        if instrument.resolution:
            step = scale * instrument.resolution
            reading = step * np.round(reading / step)
        if instrument.rate is not None and instrument.rate < self.rate:
            every = round(self.rate / instrument.rate)
            reading[np.arange(len(reading)) % every != 0] = np.nan
        return np.asarray(reading)


def _wrench_instruments(sensors: Sensors, axes: tuple[str, ...]) -> tuple[Instrument, Instrument]:
    """Return the instruments of forces and moments; a sensor without horizontal forces is a balance board."""
    board = "fx" not in axes and "fy" not in axes
    return (sensors.board_force, sensors.board_moment) if board else (sensors.force, sensors.moment)


def _torque_range(model: Model, joint: str) -> float:
    effort = model.joint(joint).effort
    return effort if np.isfinite(effort) and effort > 0.0 else _UNLIMITED_TORQUE


def _stream(seed: int, column: str, purpose: str) -> np.random.Generator:
    """Return the random numbers of one column, independent of which other columns there are."""
    return np.random.default_rng([seed, zlib.crc32(column.encode()), zlib.crc32(purpose.encode())])
