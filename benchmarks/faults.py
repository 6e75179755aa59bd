"""Deliberate faults of mounting, wiring and units in a recording, to test whether inspection finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.model import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.recording import Recording

    Change = Callable[[Model, dict[str, FloatArray]], dict[str, FloatArray]]


@dataclass(frozen=True, eq=False)
class Fault:
    """A fault of a recording.

    Attributes:
        description: What is wrong with the robot or the log.
        change: Its effect on the columns.
        code: Code of the finding that `inspect` should report.
        location: "left" or "right" for the first or second wrench sensor, "both", "imu" for the first inertial sensor,
            or "joints".
    """

    description: str
    change: Change
    code: str
    location: str

    def spoil(self, model: Model, recording: Recording) -> Recording:
        """Return the recording with the fault."""
        values = dict(recording.values)
        return recording.with_values(values | self.change(model, values))

    def expected(self, model: Model) -> set[tuple[str, str]]:
        """Return the pairs of code and name that should be found, and no others."""
        sensors = [sensor.name for sensor in model.setup.wrench_sensors[:2]]
        names = {
            "left": sensors[:1],
            "right": sensors[1:],
            "both": sensors,
            "imu": [imu.name for imu in model.setup.imus[:1]],
            "joints": ["joints"],
        }
        return {(self.code, name) for name in names[self.location]}


def _about(axis: str, degrees: float) -> FloatArray:
    """Return the rotation about an axis by a multiple of 90°, exactly."""
    number = "xyz".index(axis)
    sine, cosine = round(np.sin(np.radians(degrees))), round(np.cos(np.radians(degrees)))
    first, second = (number + 1) % 3, (number + 2) % 3
    turn = np.eye(3)
    turn[first, first] = turn[second, second] = cosine
    turn[first, second], turn[second, first] = -sine, sine
    return turn


def _misread(values: dict[str, FloatArray], units: dict[str, float], turn: FloatArray | None) -> dict[str, FloatArray]:
    """Return columns read in rotated axes (``true = turn @ reading``), in other units by prefix of three columns."""
    result: dict[str, FloatArray] = {}
    for prefix, unit in units.items():
        true = np.stack([values[prefix + axis] for axis in "xyz"], axis=1)
        read = (true if turn is None else true @ turn) / unit
        result |= {prefix + axis: read[:, column] for column, axis in enumerate("xyz")}
    return result


def _wrench_fault(number: int, turn: FloatArray | None = None, *, force: float = 1.0, moment: float = 1.0) -> Change:
    def change(model: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
        name = model.setup.wrench_sensors[number].name
        return _misread(values, {f"{name}.f": force, f"{name}.n": moment}, turn)

    return change


def _inertial_fault(turn: FloatArray | None = None, *, accel: float = 1.0, gyro: float = 1.0) -> Change:
    def change(model: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
        name = model.setup.imus[0].name
        return _misread(values, {f"{name}.accel.": accel, f"{name}.gyro.": gyro}, turn)

    return change


def _in_kilograms(model: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
    names = [sensor.name for sensor in model.setup.wrench_sensors[:2]]
    return _misread(values, {f"{name}.{kind}": UNITS["kg"] for name in names for kind in "fn"}, None)


def _exchange(model: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
    first, second = model.setup.wrench_sensors[:2]
    swapped = {first.name: second.name, second.name: first.name}
    return {f"{to}.{axis}": values[f"{name}.{axis}"] for to, name in swapped.items() for axis in first.axes}


def _offset(axis: str, size: float) -> Change:
    def change(model: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
        name = f"{model.setup.wrench_sensors[0].name}.{axis}"
        return {name: values[name] + size}

    return change


def _degrees(_: Model, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
    return {name: np.degrees(column) for name, column in values.items() if name.startswith(("q.", "q_command."))}


FAULTS = {
    "upside down": Fault(
        "the left foot's sensor is mounted upside down, turned by 180° about x",
        _wrench_fault(0, _about("x", 180.0)),
        "wrench-axes",
        "left",
    ),
    "turned about z": Fault(
        "the right foot's sensor is turned by 90° about z", _wrench_fault(1, _about("z", 90.0)), "wrench-axes", "right"
    ),
    "back to front": Fault(
        "the left foot's sensor is turned by 180° about z", _wrench_fault(0, _about("z", 180.0)), "wrench-axes", "left"
    ),
    "on its side": Fault(
        "the right foot's sensor is turned by 90° about x", _wrench_fault(1, _about("x", 90.0)), "wrench-axes", "right"
    ),
    "opposite sign": Fault(
        "the left foot's sensor reads what the robot exerts on the ground",
        _wrench_fault(0, -np.eye(3)),
        "wrench-sign",
        "left",
    ),
    "kilograms": Fault("both feet's sensors read in kilograms", _in_kilograms, "wrench-unit", "both"),
    "newton millimetres": Fault(
        "the right foot's moments are in N mm", _wrench_fault(1, moment=UNITS["N mm"]), "wrench-unit", "right"
    ),
    "exchanged": Fault("the plugs of the two feet's sensors are exchanged", _exchange, "exchanged", "left"),
    "offset": Fault(
        "the left foot's sensor was tared while something pushed it with 30 N", _offset("fx", -30.0), "offset", "left"
    ),
    "inertial sensor yawed": Fault(
        "the inertial sensor is turned by 90° about z", _inertial_fault(_about("z", 90.0)), "inertial-axes", "imu"
    ),
    "inertial sensor upside down": Fault(
        "the inertial sensor is mounted upside down, turned by 180° about x",
        _inertial_fault(_about("x", 180.0)),
        "inertial-axes",
        "imu",
    ),
    "accelerometer in g": Fault(
        "the accelerometer reads in g", _inertial_fault(accel=UNITS["g"]), "accelerometer-unit", "imu"
    ),
    "gyro in degrees": Fault(
        "the gyro reads in degrees per second", _inertial_fault(gyro=UNITS["deg/s"]), "gyro-unit", "imu"
    ),
    "joints in degrees": Fault("the joint angles were logged in degrees", _degrees, "degrees", "joints"),
}
"""Faults by name."""
