"""What a controller's sensors say while the robot moves: late, shifted, noisy and in steps, as the laboratory's are."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.signal import lfilter

from steelyard.laboratory.balance_control import CONTROL_PERIOD, Readings
from steelyard.laboratory.world import TIME_STEP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory.sensors import Instrument, Sensors
    from steelyard.laboratory.trial import Truth
    from steelyard.laboratory.world import World

_SOLE_AXES = ("fz", "nx", "ny")


class Senses:
    """The sensors of a true robot in a closed loop. Encoders, an inertial sensor's orientation, soles.

    Each kind has the noise, bias, step and delay of the laboratory's `Sensors`; the soles' are given at their own
    frames, as a sensor below the foot has them.

    Args:
        world: The robot on its floor.
        truth: What nobody knows outside.
        sensors: The errors of the sensors.
        known: What is added to the encoders' readings, rad or m by joint.
        seed: Of the noise.
        count: How many readings there will be.
    """

    def __init__(
        self, world: World, truth: Truth, sensors: Sensors, known: Mapping[str, float], seed: int, count: int
    ) -> None:
        model = truth.model
        self._world, self._sensors, self._seed, self._count = world, sensors, seed, count
        self._built = world.footing.pinocchio
        self._data = self._built.createData()
        self._imu = self._built.getFrameId(model.setup.imus[0].frame)
        # What remains of the encoders' offsets: a joint is there when its corrected reading says so.
        self.remaining = np.array([truth.offsets[joint] - known.get(joint, 0.0) for joint in model.joints])
        self._encoder = np.stack([self._noise(f"q.{joint}", sensors.encoder) for joint in model.joints], axis=1)
        imu = model.setup.imus[0].name
        mounting = np.array([truth.biases.get(f"{imu}.mounting.{axis}", 0.0) for axis in "xyz"])
        self._mounting = pin.exp3(mounting)
        turns = [self._noise(f"{imu}.orientation.{axis}", sensors.orientation) for axis in "xyz"]
        bias = [truth.biases.get(f"{imu}.orientation.{axis}", 0.0) for axis in "xyz"]
        self._turns = np.stack(turns, axis=1) + np.array(bias)
        self._instruments = (sensors.force, sensors.moment, sensors.moment)
        self._soles = np.array([self._sole_errors(foot.sole.wrench, truth.biases) for foot in world.footing.feet])

    def _sole_errors(self, name: str | None, biases: Mapping[str, float]) -> FloatArray:
        """Gives noise and bias of what one sole's sensor reads, shape (3, n)."""
        columns = [f"{name}.{axis}" for axis in _SOLE_AXES]
        return np.array(
            [
                self._noise(column, instrument) + biases.get(column, 0.0)
                for column, instrument in zip(columns, self._instruments, strict=True)
            ]
        )

    def _noise(self, column: str, instrument: Instrument) -> FloatArray:
        """Gives the noise of a channel, one number a reading, shape (n,)."""
        white = np.random.default_rng([self._seed, 5, zlib.crc32(column.encode())]).standard_normal(self._count)
        if instrument.correlation:
            keep = np.exp(-CONTROL_PERIOD / instrument.correlation)
            white[1:] *= np.sqrt(1.0 - keep**2)
            white = lfilter([1.0], [1.0, -keep], white)
        return np.asarray(instrument.noise * white)

    def read(self, number: int, step: int, states: FloatArray, forces: FloatArray) -> Readings:
        """Gives one reading.

        Args:
            number: Which one.
            step: How many steps the physics has done.
            states: Positions and velocities of MuJoCo so far, the first before the first step.
            forces: MuJoCo's sensor values so far, those of a state in its row; the newest state has none yet.
        """
        columns, sensors = self._world.q_columns, self._sensors
        positions = states[self._late(step, sensors.encoder), columns] - self.remaining + self._encoder[number]
        place = self._place(states[self._late(step, sensors.orientation)])
        pin.framesForwardKinematics(self._built, self._data, place)
        rotation = self._data.oMf[self._imu].rotation @ self._mounting @ pin.exp3(self._turns[number])
        felt = max(0, min(self._late(step, sensors.force), step - 1))
        return Readings(
            _in_steps(positions, sensors.encoder.resolution), rotation, self._pressed(number, felt, states, forces)
        )

    def _pressed(self, number: int, felt: int, states: FloatArray, forces: FloatArray) -> FloatArray:
        wrenches = self._world.foot_readings(forces[felt : felt + 1])[0]
        pin.framesForwardKinematics(self._built, self._data, self._place(states[felt]))
        read = np.empty((len(wrenches), 3))
        for row, (foot, wrench) in enumerate(zip(self._world.footing.feet, wrenches, strict=True)):
            own = self._data.oMf[foot.frame].actInv(pin.Force(wrench)).vector
            read[row] = own[[2, 3, 4]] + self._soles[row, :, number]
            read[row] = [
                _in_steps(value, each.resolution) for value, each in zip(read[row], self._instruments, strict=True)
            ]
        return read

    def _late(self, step: int, instrument: Instrument) -> int:
        return max(0, step - round(instrument.delay / TIME_STEP))

    def _place(self, state: FloatArray) -> FloatArray:
        """Gives a state's configuration as Pinocchio has it, shape (position_size,)."""
        return np.concatenate([state[:3], state[[4, 5, 6, 3]], state[self._world.q_columns]])


def _in_steps(values: FloatArray, step: float) -> FloatArray:
    return np.asarray(step * np.round(values / step)) if step else np.asarray(values)
