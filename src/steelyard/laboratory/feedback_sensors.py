"""The controller's sensors in a closed loop, with the delay, bias, noise and resolution of the laboratory's."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.laboratory.balance_control import CONTROL_PERIOD, FeedbackReadings
from steelyard.laboratory.sensors import correlate
from steelyard.laboratory.world import TIME_STEP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory.sensors import Instrument, Sensors
    from steelyard.laboratory.trial import Truth
    from steelyard.laboratory.world import World

_SOLE_AXES = ("fz", "nx", "ny")


class FeedbackSensors:
    """The sensors of a true robot in a closed loop: encoders, orientation of an inertial sensor, soles.

    Each kind has the errors of the laboratory's `Sensors`; wrenches are measured in the soles' own frames.

    Args:
        world: The robot on its floor.
        truth: The true robot.
        sensors: The errors of the sensors.
        known: Offsets that are added to the encoder readings, rad or m by joint.
        seed: Seed of the noise.
        count: Number of readings.
    """

    def __init__(
        self, world: World, truth: Truth, sensors: Sensors, known: Mapping[str, float], seed: int, count: int
    ) -> None:
        model = truth.model
        self._world, self._sensors, self._seed, self._count = world, sensors, seed, count
        self._built = world.footing.pinocchio
        self._data = self._built.createData()
        self._imu = self._built.getFrameId(model.setup.imus[0].frame)
        # Encoder offsets that remain after correction; servos act on corrected readings.
        self.remaining = np.array([truth.offsets[joint] - known.get(joint, 0.0) for joint in model.joints])
        self._encoder = np.stack([self._noise(f"q.{joint}", sensors.encoder) for joint in model.joints], axis=1)
        imu = model.setup.imus[0].name
        mounting = np.array([truth.biases.get(f"{imu}.mounting.{axis}", 0.0) for axis in "xyz"])
        self._mounting = pin.exp3(mounting)
        turns = [self._noise(f"{imu}.orientation.{axis}", sensors.orientation) for axis in "xyz"]
        bias = [truth.biases.get(f"{imu}.orientation.{axis}", 0.0) for axis in "xyz"]
        self._turns = np.stack(turns, axis=1) + np.array(bias)
        self._instruments = (sensors.force, sensors.moment, sensors.moment)
        self._resolutions = np.array([each.resolution for each in self._instruments])
        # From MuJoCo's positions to Pinocchio's configuration.
        self._order = np.concatenate([[0, 1, 2, 4, 5, 6, 3], world.q_columns])
        self._soles = np.array([self._sole_errors(foot.sole.wrench, truth.biases) for foot in world.footing.feet])

    def _sole_errors(self, name: str | None, biases: Mapping[str, float]) -> FloatArray:
        """Return noise plus bias of one sole's sensor, shape (3, n)."""
        columns = {f"{name}.{axis}": each for axis, each in zip(_SOLE_AXES, self._instruments, strict=True)}
        return np.array([self._noise(column, each) + biases.get(column, 0.0) for column, each in columns.items()])

    def _noise(self, column: str, instrument: Instrument) -> FloatArray:
        """Return the noise of a channel for each reading, shape (n,)."""
        white = np.random.default_rng([self._seed, 5, zlib.crc32(column.encode())]).standard_normal(self._count)
        if instrument.correlation:
            white = correlate(white, np.exp(-CONTROL_PERIOD / instrument.correlation))
        return np.asarray(instrument.noise * white)

    def read(self, number: int, step: int, states: FloatArray, forces: FloatArray) -> FeedbackReadings:
        """Return one reading.

        Args:
            number: Its index.
            step: Number of physics steps so far.
            states: Positions and velocities of MuJoCo so far, the first before the first step.
            forces: MuJoCo's sensor values so far, in the row of their state; the newest state has none yet.
        """
        columns, sensors = self._world.q_columns, self._sensors
        positions = states[self._late(step, sensors.encoder), columns] - self.remaining + self._encoder[number]
        self._place(states[self._late(step, sensors.orientation)])
        placed = pin.updateFramePlacement(self._built, self._data, self._imu)
        rotation = placed.rotation @ self._mounting @ pin.exp3(self._turns[number])
        row = max(0, min(self._late(step, sensors.force), step - 1))
        soles = self._read_soles(number, row, states, forces)
        return FeedbackReadings(_quantise(positions, sensors.encoder.resolution), rotation, soles)

    def _read_soles(self, number: int, row: int, states: FloatArray, forces: FloatArray) -> FloatArray:
        self._place(states[row])
        read = np.empty((len(self._world.footing.feet), 3))
        for sole, (foot, wrench) in enumerate(
            zip(self._world.footing.feet, self._world.foot_wrenches(forces[row]), strict=True)
        ):
            read[sole] = pin.updateFramePlacement(self._built, self._data, foot.frame).actInv(wrench).vector[2:5]
        return _quantise(read + self._soles[:, :, number], self._resolutions)

    def _late(self, step: int, instrument: Instrument) -> int:
        return max(0, step - round(instrument.delay / TIME_STEP))

    def _place(self, state: FloatArray) -> None:
        """Compute the placements of the joints in a state of MuJoCo."""
        pin.forwardKinematics(self._built, self._data, state[self._order])


def _quantise(values: FloatArray, step: float | FloatArray) -> FloatArray:
    """Round values to multiples of a step; a step of zero leaves them as they are."""
    if not np.any(step):
        return np.asarray(values)
    return np.where(step, step * np.round(values / np.where(step, step, 1.0)), values)
