"""How late sensors are: the lag that leaves the least of the base equation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from steelyard.exceptions import MotionError
from steelyard.inspection.base_equation import build_base_equation, plan_system, spread_by_blocks
from steelyard.motion import reconstruct_motion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.base_equation import BaseEquation
    from steelyard.model import Model
    from steelyard.motion import Base, Motion
    from steelyard.recording import Recording
    from steelyard.regression import RowPlan, System

LONGEST_DELAY = 0.3
"""Seconds beyond which a delay is not looked for."""

_CONFIDENCE = 0.95
_SETTLED = 2e-5
_STEPS = 12
_STEP_LIMIT = 0.05
_PROBE = 1e-3
_BLOCK = 1.0
_PRIOR = 0.2


@dataclass(frozen=True)
class Delay:
    """How late one sensor's readings are against the encoders'.

    Attributes:
        sensor: Its name.
        value: Seconds; negative where the readings are early.
        low: Lower end of the 95 % interval, s.
        high: Upper end, s.
    """

    sensor: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        half = 0.5e3 * (self.high - self.low)
        return f"{self.sensor} {1e3 * self.value:+.1f} ± {half:.1f} ms"


@dataclass(frozen=True)
class Delays:
    """How late the sensors are.

    Attributes:
        by_sensor: The delay of each inertial and wrench sensor.
        settled: Whether the search ended at a minimum within `LONGEST_DELAY`.
        misfit: Root mean square of the whitened residual before.
        best_misfit: The same with the delays taken out.
    """

    by_sensor: Mapping[str, Delay]
    settled: bool
    misfit: float
    best_misfit: float

    @property
    def values(self) -> dict[str, float]:
        """Seconds by sensor, as `Recording.without_delays` takes them."""
        return {name: delay.value for name, delay in self.by_sensor.items()}


def estimate_lags(model: Model, stretches: Sequence[Recording], *, imu: str | None, cutoff: float) -> Delays:
    """Estimates the delays of an inertial sensor and of all wrench sensors against the encoders.

    Minimises the residual of the base equation over all lags together, with the model's errors and the sensors' offsets
    eliminated, by Gauss-Newton steps. Intervals hold for residuals that are alike over up to a second: rows are added
    up by seconds before their spread is taken.

    Args:
        model: The model.
        stretches: Evenly sampled stretches in memory, without gaps.
        imu: The inertial sensor whose link is the base link; None stands on the first sole instead, and gives the
            delays of the wrench sensors alone.
        cutoff: Frequency (Hz) up to which the motion is kept.

    Raises:
        MotionError: The stretches are too short, or there is no wrench sensor in them.
    """
    sensors = _wrench_sensors(model, stretches[0])
    if not sensors:
        raise MotionError("delays show in the base equation, which needs a wrench sensor; none is recorded")
    names = sensors if imu is None else [*sensors, imu]
    lags = dict.fromkeys(names, 0.0)
    first: BaseEquation | None = None
    settled = False
    for _ in range(_STEPS):
        equation = _linearised(model, stretches, lags, sensors, imu, cutoff)
        first = first or equation
        step = _solve(equation.triangle)
        for name, change in zip(names, np.clip(step, -_STEP_LIMIT, _STEP_LIMIT), strict=True):
            lags[name] = float(np.clip(lags[name] + change, -LONGEST_DELAY, LONGEST_DELAY))
        if np.max(np.abs(step)) < _SETTLED:
            settled = True
            break
    halves = _half_widths(equation, cutoff)
    found = {
        name: Delay(name, lags[name], lags[name] - half, lags[name] + half)
        for name, half in zip(names, halves, strict=True)
    }
    return Delays(found, settled, _misfit(first or equation), _misfit(equation))


def residual_over_lag(
    model: Model,
    stretches: Sequence[Recording],
    sensor: str,
    lags: Sequence[float],
    *,
    others: Mapping[str, float],
    imu: str | None,
    cutoff: float,
) -> FloatArray:
    """Gives the whitened residual of the base equation as a function of one sensor's lag, shape (len(lags),).

    Args:
        model: The model.
        stretches: As for `estimate_lags`.
        sensor: The sensor whose lag is tried.
        lags: Seconds.
        others: Lags of the other sensors.
        imu: As for `estimate_lags`.
        cutoff: As for `estimate_lags`.
    """
    sensors = _wrench_sensors(model, stretches[0])
    names = sensors if imu is None else [*sensors, imu]
    result = []
    for lag in lags:
        tried = {name: float(others.get(name, 0.0)) for name in names} | {sensor: float(lag)}
        result.append(_misfit(_linearised(model, stretches, tried, sensors, imu, cutoff)))
    return np.array(result)


def _wrench_sensors(model: Model, stretch: Recording) -> list[str]:
    return [sensor.name for sensor in model.setup.wrench_sensors if f"{sensor.name}.{sensor.axes[0]}" in stretch.values]


def _linearised(
    model: Model,
    stretches: Sequence[Recording],
    lags: Mapping[str, float],
    sensors: Sequence[str],
    imu: str | None,
    cutoff: float,
) -> BaseEquation:
    """Gives the base equation at some lags: what is asked for, what is measured, and its change with each lag."""
    motions, speeds = [], []
    for stretch in stretches:
        moved = _trimmed(stretch.without_delays(lags), LONGEST_DELAY)
        base: Base = "imu" if imu is not None else "sole"
        motion = reconstruct_motion(model, moved, base=base, imu=imu, cutoff=cutoff, decimate=False)
        step = max(1, round(motion.sample_rate / (3.0 * cutoff)))
        speeds.append(_rates_of_change(motion).thinned(step))
        motions.append(motion.thinned(step))
    system = plan_system(model, motions[0])
    by_sensor = [
        [number for number, source in enumerate(system.sensing.measured) if source.name.rpartition(".")[0] == sensor]
        for sensor in sensors
    ]
    parameters = model.parameters
    of_motion = {id(motion): speed for motion, speed in zip(motions, speeds, strict=True)}

    def columns(system: System, motion: Motion, plan: RowPlan, maps: FloatArray) -> FloatArray:
        speed = of_motion[id(motion)]
        forces, changes = system.forces(motion), system.forces(speed)
        given = [np.einsum("nkm,nm->nk", maps, forces)]
        given += [np.einsum("nkm,nm->nk", maps[:, :, each], changes[:, each]) for each in by_sensor]
        if imu is not None:
            later, earlier = (
                system.required_forces(plan, _base_moved(motion, speed, sign * _PROBE), parameters)
                for sign in (1.0, -1.0)
            )
            given.append((earlier - later) / (2.0 * _PROBE))
        return -np.stack(given, axis=2)

    return build_base_equation(system, motions, columns)


def _trimmed(recording: Recording, margin: float) -> Recording:
    """Gives a stretch without its ends, where readings that were moved are missing."""
    return recording.between(recording.time[0] + margin, recording.time[-1] - margin)


def _rates_of_change(motion: Motion) -> Motion:
    """Gives the time derivatives of what is measured, in a Motion's fields."""

    def change(values: FloatArray) -> FloatArray:
        return np.asarray(np.gradient(values, 1.0 / motion.sample_rate, axis=0))

    return replace(
        motion,
        angular_velocity=change(motion.angular_velocity),
        angular_acceleration=change(motion.angular_acceleration),
        proper_acceleration=change(motion.proper_acceleration),
        wrenches={name: change(values) for name, values in motion.wrenches.items()},
    )


def _base_moved(motion: Motion, speed: Motion, lag: float) -> Motion:
    fields: dict[str, Any] = {
        name: getattr(motion, name) + lag * getattr(speed, name)
        for name in ("angular_velocity", "angular_acceleration", "proper_acceleration")
    }
    return replace(motion, **fields)


def _solve(triangle: FloatArray) -> FloatArray:
    """Gives the change of all lags that leaves the least, shape (n_lags,)."""
    rest, change = triangle[:, 0] + triangle[:, 1], triangle[:, 2:]
    damped = np.concatenate([change, np.eye(change.shape[1]) / _PRIOR])
    right = np.concatenate([-rest, np.zeros(change.shape[1])])
    return np.asarray(np.linalg.lstsq(damped, right)[0])


def _half_widths(equation: BaseEquation, cutoff: float) -> FloatArray:
    """Gives half the width of each lag's interval, s, from the spread of its score from second to second."""
    change = equation.columns[:, 2:]
    rest = equation.columns[:, 0] + equation.columns[:, 1]
    precision = np.full(change.shape[1], 1.0 / _PRIOR**2)
    spread, freedom = spread_by_blocks(equation, change, rest, max(1, round(_BLOCK * 3.0 * cutoff)), precision)
    return np.asarray(student.ppf(0.5 + 0.5 * _CONFIDENCE, freedom) * np.sqrt(np.diag(spread)))


def _misfit(equation: BaseEquation) -> float:
    rest = equation.columns[:, 0] + equation.columns[:, 1]
    return float(np.sqrt(rest @ rest / equation.freedom))
