"""Sensor delays: the lags that minimise the residual of the base equation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from steelyard.exceptions import MotionError
from steelyard.inspection.base_equation import block_jackknife_covariance, build_base_equation, plan_system
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
"""Bound of the search for delays, s. Set by judgement: longer ones are lost messages rather than latency."""

_CONFIDENCE = 0.95  # the level that all intervals of the package have

_CONVERGED = 2e-5
"""Step (s) below which the search has converged. Set by judgement: far below the 5 ms that are worth correcting."""

_MOST_ITERATIONS = 12
"""Iterations of the search. Set by judgement: Gauss-Newton needs a handful, plus six to cross the range by limited
steps."""

_STEP_LIMIT = 0.05
"""Longest step (s) of an iteration: a quarter period at the 5 Hz of the comparison, over which the linearisation
holds."""

_PROBE = 1e-3
"""Half step (s) of the central difference over the IMU's lag. Set by judgement: short beside a period of 0.2 s."""

_BLOCK = 1.0
"""Block length (s) of the covariance. Set by judgement: residuals of a motion cut off at 5 Hz are correlated over
less."""

_PRIOR = 0.2
"""Prior standard deviation (s) of a lag: two thirds of `LONGEST_DELAY`, so that only unobservable lags are affected."""


_BASE_FIELDS = ("angular_velocity", "angular_acceleration", "proper_acceleration")
"""Fields of a Motion that an IMU measures."""


@dataclass(frozen=True)
class Delay:
    """Delay of one sensor relative to the encoders.

    Attributes:
        sensor: Name of the sensor.
        value: Seconds; negative if the readings are early.
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
    """Delays of the sensors.

    Attributes:
        by_sensor: The delay of each IMU and wrench sensor.
        settled: Whether the search converged.
        misfit: RMS of the whitened residual before correction.
        best_misfit: The same after correction of the delays.
    """

    by_sensor: Mapping[str, Delay]
    settled: bool
    misfit: float
    best_misfit: float

    @property
    def values(self) -> dict[str, float]:
        """Seconds by sensor, as `Recording.without_delays` takes them."""
        return {name: delay.value for name, delay in self.by_sensor.items()}


def estimate_lags(
    model: Model,
    segments: Sequence[Recording],
    *,
    imu: str | None,
    cutoff: float,
    offsets: Mapping[str, float] | None = None,
) -> Delays:
    """Estimate the delays of an IMU and of all wrench sensors relative to the encoders.

    Minimises the residual of the base equation over all lags jointly, with model errors and sensor offsets eliminated,
    by Gauss-Newton. Intervals account for residuals correlated over up to a second.

    Args:
        model: The model.
        segments: Evenly sampled segments in memory, without gaps.
        imu: The IMU whose link is the base link; None uses the first sole instead, and estimates the delays of the
            wrench sensors alone.
        cutoff: Cutoff of the motion, Hz.
        offsets: Encoder offsets, added to the readings, rad or m by joint.

    Raises:
        MotionError: The segments are too short, or there is no wrench sensor in them.
    """
    sensors = _wrench_sensors(model, segments[0])
    if not sensors:
        raise MotionError("delays are estimated from the base equation, which needs a wrench sensor; none is recorded")
    lags = dict.fromkeys(sensors if imu is None else [*sensors, imu], 0.0)
    misfits: list[float] = []
    settled = False
    for _ in range(_MOST_ITERATIONS):
        equation = _linearise(model, segments, lags, imu, cutoff, offsets)
        misfits.append(_misfit(equation))
        step = _solve_step(equation.triangle)
        for name, change in zip(lags, np.clip(step, -_STEP_LIMIT, _STEP_LIMIT), strict=True):
            lags[name] = float(np.clip(lags[name] + change, -LONGEST_DELAY, LONGEST_DELAY))
        if np.max(np.abs(step)) < _CONVERGED:
            settled = True
            break
    found = {
        name: Delay(name, lag, lag - half, lag + half)
        for (name, lag), half in zip(lags.items(), _half_widths(equation, cutoff), strict=True)
    }
    return Delays(found, settled, misfits[0], misfits[-1])


def _wrench_sensors(model: Model, segment: Recording) -> list[str]:
    return [sensor.name for sensor in model.setup.wrench_sensors if f"{sensor.name}.{sensor.axes[0]}" in segment.values]


def _linearise(
    model: Model,
    segments: Sequence[Recording],
    lags: Mapping[str, float],
    imu: str | None,
    cutoff: float,
    offsets: Mapping[str, float] | None,
) -> BaseEquation:
    """Build the base equation at some lags: required wrench, measured wrench, and its derivative by each lag."""
    motions: list[Motion] = []
    derivatives: dict[Motion, Motion] = {}
    for segment in segments:
        # The ends, where shifted readings are missing, are left out.
        shifted = segment.without_delays(lags).between(
            segment.time[0] + LONGEST_DELAY, segment.time[-1] - LONGEST_DELAY
        )
        base: Base = "imu" if imu is not None else "sole"
        motion = reconstruct_motion(model, shifted, base=base, imu=imu, cutoff=cutoff, offsets=offsets, decimate=False)
        step = max(1, round(motion.sample_rate / (3.0 * cutoff)))
        motions.append(motion.thinned(step))
        derivatives[motions[-1]] = differentiate_measured(motion).thinned(step)
    system = plan_system(model, motions[0])
    owners = [source.name.rpartition(".")[0] for source in system.sensing.measured]
    by_sensor = [[number for number, owner in enumerate(owners) if owner == name] for name in lags if name != imu]

    def columns(system: System, motion: Motion, plan: RowPlan, maps: FloatArray) -> FloatArray:
        derivative = derivatives[motion]
        forces, changes = system.forces(motion), system.forces(derivative)
        given = [np.einsum("nkm,nm->nk", maps, forces)]
        given += [np.einsum("nkm,nm->nk", maps[:, :, each], changes[:, each]) for each in by_sensor]
        if imu is not None:
            later, earlier = (
                system.required_forces(plan, _shift_base(motion, derivative, sign * _PROBE), model.parameters)
                for sign in (1.0, -1.0)
            )
            given.append((earlier - later) / (2.0 * _PROBE))
        return -np.stack(given, axis=2)

    return build_base_equation(system, motions, columns)


def differentiate_measured(motion: Motion) -> Motion:
    """Return the time derivatives of the measured quantities, in a Motion's fields."""

    def slope(values: FloatArray) -> FloatArray:
        # By the times: a dropout that was just short enough may be too long once its sensor is shifted.
        return np.asarray(np.gradient(values, motion.time - motion.time[0], axis=0))

    wrenches = {name: slope(values) for name, values in motion.wrenches.items()}
    fields: dict[str, Any] = {name: slope(getattr(motion, name)) for name in _BASE_FIELDS}
    return replace(motion, wrenches=wrenches, **fields)


def _shift_base(motion: Motion, derivative: Motion, lag: float) -> Motion:
    fields: dict[str, Any] = {name: getattr(motion, name) + lag * getattr(derivative, name) for name in _BASE_FIELDS}
    return replace(motion, **fields)


def _solve_step(triangle: FloatArray) -> FloatArray:
    """Return the Gauss-Newton step of all lags, shape (n_lags,)."""
    residual, jacobian = triangle[:, 0] + triangle[:, 1], triangle[:, 2:]
    damped = np.concatenate([jacobian, np.eye(jacobian.shape[1]) / _PRIOR])
    right = np.concatenate([-residual, np.zeros(jacobian.shape[1])])
    return np.asarray(np.linalg.lstsq(damped, right)[0])


def _half_widths(equation: BaseEquation, cutoff: float) -> FloatArray:
    """Return half the width of each lag's confidence interval, s."""
    jacobian = equation.columns[:, 2:]
    residual = equation.columns[:, 0] + equation.columns[:, 1]
    precision = np.full(jacobian.shape[1], 1.0 / _PRIOR**2)
    size = max(1, round(_BLOCK * 3.0 * cutoff))
    covariance, freedom = block_jackknife_covariance(equation, jacobian, residual, size, precision)
    return np.asarray(stdtrit(freedom, 0.5 + 0.5 * _CONFIDENCE) * np.sqrt(np.diag(covariance)))


def _misfit(equation: BaseEquation) -> float:
    residual = equation.columns[:, 0] + equation.columns[:, 1]
    return float(np.sqrt(residual @ residual / equation.freedom))
