"""The errors of sensors: noise, bias, resolution, delay and rate.

The defaults are those of real instruments, named beside each number.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.signal import lfilter

from steelyard.arrays import FloatArray, is_finite_number
from steelyard.exceptions import LaboratoryError
from steelyard.wording import did_you_mean


@dataclass(frozen=True)
class Instrument:
    """The errors of one kind of sensor, in SI units of what it measures.

    Attributes:
        noise: Standard deviation of each reading.
        correlation: Correlation time of the noise, s; zero for white noise.
        bias: Standard deviation of a constant error, drawn once for each true robot.
        resolution: Step of the readings; zero for none.
        delay: Delay of the readings, s.
        rate: Readings per second; None for that of the recording.
    """

    noise: float = 0.0
    correlation: float = 0.0
    bias: float = 0.0
    resolution: float = 0.0
    delay: float = 0.0
    rate: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.name == "rate":
                continue
            if not is_finite_number(value) or value < 0.0:
                raise LaboratoryError(f"the {each.name} of a sensor is {value!r}; it must be a number, zero or more")
        if self.rate == 0.0:
            raise LaboratoryError("the rate of a sensor is zero; leave it out, or give readings per second")


def correlate(white: FloatArray, keep: float) -> FloatArray:
    """Return a first-order autoregressive series of unit variance from white noise; changes `white`."""
    white[1:] *= np.sqrt(1.0 - keep**2)
    return np.asarray(lfilter([1.0], [1.0, -keep], white))


_DEGREE = np.pi / 180.0
"""Radians."""

_PERFECT = Instrument()


@dataclass(frozen=True)
class Sensors:
    """The errors of all sensors of the laboratory; without arguments, none.

    Attributes:
        rate: Sample rate of the recording, Hz.
        encoder: Joint positions, rad or m.
        gyro: Angular velocity, rad/s.
        accelerometer: Proper acceleration, m/s².
        orientation: Orientation of the inertial sensor, as small rotations about its own axes, rad.
        mounting: Constant rotation (`bias`) of the inertial sensor against its frame, rad.
        force: Forces of a six-axis sensor, N.
        moment: Its moments, N m.
        board_force: Vertical force of a balance board (a wrench sensor without horizontal forces), N.
        board_moment: Its moments, N m.
        torque: Joint torques at the output of the gear, as shares of each joint's greatest torque.
    """

    rate: float = 500.0
    encoder: Instrument = _PERFECT
    gyro: Instrument = _PERFECT
    accelerometer: Instrument = _PERFECT
    orientation: Instrument = _PERFECT
    mounting: Instrument = _PERFECT
    force: Instrument = _PERFECT
    moment: Instrument = _PERFECT
    board_force: Instrument = _PERFECT
    board_moment: Instrument = _PERFECT
    torque: Instrument = _PERFECT

    def __post_init__(self) -> None:
        if not is_finite_number(self.rate) or self.rate <= 0.0:
            raise LaboratoryError(f"the rate of the recording is {self.rate!r}; give rows per second")
        for name in self.kinds():
            instrument = getattr(self, name)
            if not isinstance(instrument, Instrument):
                raise LaboratoryError(f"the sensor {name!r} is {instrument!r}; give an Instrument", names=[name])
            extra = [each.name for each in fields(instrument) if getattr(instrument, each.name) and each.name != "bias"]
            if name == "mounting" and extra:
                raise LaboratoryError(f"the mounting of a sensor has a bias, but no {extra[0]}", names=[name])
            if name == "encoder" and instrument.bias:
                raise LaboratoryError(
                    "encoders have offsets instead of a bias; give simulate(offsets=...)", names=[name]
                )
            steps = self.rate / (instrument.rate or self.rate)
            if abs(steps - round(steps)) > 1e-9 or steps < 1.0:
                raise LaboratoryError(
                    f"the rate of the {name}, {instrument.rate:g} Hz, does not divide that of the recording, "
                    f"{self.rate:g} Hz; choose a rate that does",
                    names=[name],
                )

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the names of the kinds of sensors."""
        return tuple(each.name for each in fields(cls) if each.name != "rate")

    def only(self, *kinds: str) -> Sensors:
        """Return the same sensors with all but some kinds perfect.

        Raises:
            LaboratoryError: A kind is unknown.
        """
        for kind in kinds:
            if kind not in self.kinds():
                raise LaboratoryError(
                    f"there is no sensor {kind!r}{did_you_mean(str(kind), self.kinds())}", names=[str(kind)]
                )
        perfect: dict[str, Any] = {kind: _PERFECT for kind in self.kinds() if kind not in kinds}
        return replace(self, **perfect)


PERFECT_SENSORS = Sensors()
"""The perfect laboratory."""

_DENSITY = np.sqrt(500.0 / 2.0)
"""From a noise density per √Hz to a standard deviation: white up to half of 500 Hz."""

DEFAULT_SENSORS = Sensors(
    rate=500.0,
    # ams AS5048A: 14 bits, 0.0219° a step; AS5045, of the same family: 0.03° rms of noise in slow mode.
    encoder=Instrument(noise=0.03 * _DEGREE, resolution=2.0 * np.pi / 2**14),
    # Xsens MTi 100-series: 0.01 °/s/√Hz, 0.2 °/s bias repeatability over a year, under 2 ms of latency.
    gyro=Instrument(noise=0.01 * _DEGREE * _DENSITY, bias=0.2 * _DEGREE, delay=0.002),
    # Xsens MTi 100-series: 60 µg/√Hz, 0.03 m/s² bias repeatability over a year.
    accelerometer=Instrument(noise=60e-6 * 9.81 * _DENSITY, bias=0.03, delay=0.002),
    # Xsens MTi 100-series: 0.2° (roll and pitch); the error of a filter drifts over seconds.
    orientation=Instrument(noise=0.2 * _DEGREE, correlation=5.0, delay=0.002, rate=250.0),
    # Xsens MTi 100-series: 0.05° between housing and sensing axes.
    mounting=Instrument(bias=0.05 * _DEGREE),
    # ATI Mini45 SI-580-20: steps of 1/4 N and 1/188 N m; noise of two steps; offsets that remain after taring, which
    # drift with temperature, of one part in 500 of the range.
    force=Instrument(noise=0.5, bias=1.2, resolution=0.25, delay=0.001),
    moment=Instrument(noise=2.0 / 188.0, bias=0.04, resolution=1.0 / 188.0, delay=0.001),
    # Wii Balance Board, Bartlett et al., Gait & Posture 39 (2014): 4.5 N and 1.5 mm repeatability, 9.1 N and 4.1 mm in
    # all (taken as two standard deviations; moments under 400 N); 100 readings a second, 0.1 kg a step.
    board_force=Instrument(noise=2.25, bias=4.0, resolution=1.0, rate=100.0),
    board_moment=Instrument(noise=0.3, bias=0.8, rate=100.0),
    # A strain-gauge transducer of class 0.5: within 0.5 % of its range, which is the joint's greatest torque.
    torque=Instrument(noise=0.001, bias=0.0025, resolution=0.0001),
)
"""Sensors of a well-kept humanoid."""


def choose_sensors(noise: Any) -> Sensors:
    """Return the sensors of an argument `noise`.

    Raises:
        LaboratoryError: It is neither "default", None nor `Sensors`.
    """
    if noise is None:
        return PERFECT_SENSORS
    if isinstance(noise, Sensors):
        return noise
    if isinstance(noise, str) and noise == "default":
        return DEFAULT_SENSORS
    raise LaboratoryError(f'noise is {noise!r}; write "default", None for perfect sensors, or give Sensors')
