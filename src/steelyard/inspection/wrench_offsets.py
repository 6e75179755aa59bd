"""Offsets of wrench sensors that no plausible model explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.base_equation import block_jackknife_covariance, build_base_equation, plan_system
from steelyard.motion import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.base_equation import BaseEquation
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan, System

USUAL = (3.0, 0.2)
"""Standard deviations (N, N m) of the residual offsets of tared sensors. Set by judgement."""

LEAST = (8.0, 0.8)
"""Smallest offsets (N, N m) that are reported: smaller ones are left to the identification (decision 8)."""

DECISIVE = 25.0
"""Decrease of minus twice the log-likelihood from which an offset is accepted: five standard deviations."""

_WIDE = (300.0, 30.0)
"""Prior standard deviations (N, N m) of an offset that is estimated. Set by judgement, a hundred times the usual ones:
no prior in effect."""

_LOADS = (0.5, 0.2)
"""Largest loads of a sensor apart from the weight itself: tangential force as a share of the weight, and lever arm (m)
of the weight about the sensor. Set by judgement: the friction of soles, and a foot's length."""

_RIVAL = 10.0
"""Difference in cost, in units of the noise variance, within which two components explain the data equally. Set by
judgement: three standard deviations."""

_CERTAIN = 6.0
"""Standard errors by which a reported offset must exceed zero. Set by judgement, above the five of `DECISIVE`: block
errors are themselves uncertain."""


@dataclass(frozen=True)
class Offset:
    """An offset of a wrench component.

    Attributes:
        column: Name of the component.
        value: Reading without load, N or N m.
        standard_error: Its standard error.
        rivals: Components of other sensors whose offset would explain the recording equally well.
        possible: Whether a sensor with this offset could have produced its readings. Errors of joint angles look like
            offsets too, often far larger ones.
    """

    column: str
    value: float
    standard_error: float
    rivals: tuple[str, ...] = ()
    possible: bool = True


def find_offsets(model: Model, motions: Sequence[Motion]) -> list[Offset]:
    """Find components with a larger offset than that of a tared sensor, ``Y φ = H (f - offset)``.

    Model errors and small offsets of all components are eliminated. Components are then selected one by one, the best
    first (forward selection). With both feet on the ground, equal offsets of either foot often have the same effect;
    such rivals are named.

    Args:
        model: The model.
        motions: Motions of the segments.
    """
    system = plan_system(model, motions[0], offsets=USUAL)

    def columns(system: System, motion: Motion, _: RowPlan, maps: FloatArray) -> FloatArray:
        forces = np.einsum("nkm,nm->nk", maps, system.forces(motion))
        return np.concatenate([-forces[:, :, None], maps], axis=2)

    equation = build_base_equation(system, motions, columns)
    sources = system.sensing.measured
    kinds = [0 if source.axis.startswith("f") else 1 for source in sources]
    precision = np.array([1.0 / _WIDE[kind] ** 2 for kind in kinds])
    triangle = equation.triangle
    residual, jacobian = triangle[:, 0] + triangle[:, 1], triangle[:, 2:]
    noise = max(float(residual @ residual) / equation.freedom, 1.0)
    bearing = _find_bearing(system, motions)
    chosen = list(bearing)
    rivals: dict[int, tuple[str, ...]] = {}
    while len(chosen) < len(sources):
        costs = np.full(len(sources), np.inf)
        for number in set(range(len(sources))) - set(chosen):
            costs[number] = _fit_offsets(residual, jacobian, precision, [*chosen, number])[0]
        before = _fit_offsets(residual, jacobian, precision, chosen)[0]
        named = [number for number in chosen if number not in bearing]
        best = _select_component(costs, noise, named, [source.name for source in sources])
        values = _fit_offsets(residual, jacobian, precision, [*chosen, best])[1]
        if (before - costs[best]) / noise < DECISIVE or abs(values[-1]) < LEAST[kinds[best]]:
            break
        rivals[best] = tuple(
            sources[number].name
            for number in np.flatnonzero(costs - costs[best] < _RIVAL * noise)
            if number != best and _sensor(sources[number].name) != _sensor(sources[best].name)
        )
        chosen.append(best)
    _, values = _fit_offsets(residual, jacobian, precision, chosen)
    errors = _standard_errors(equation, chosen, values, precision, max(1, round(motions[0].sample_rate)))
    readings = np.max(np.abs(np.concatenate([system.forces(motion) for motion in motions])), axis=0)
    loads = [GRAVITY * model.total_mass * _LOADS[kind] for kind in kinds]
    signs = {sensor.name: 1.0 if sensor.sign == "on_robot" else -1.0 for sensor in model.setup.wrench_sensors}
    return [
        Offset(
            sources[number].name,
            float(signs[_sensor(sources[number].name)] * value),
            float(error),
            rivals.get(number, ()),
            bool(abs(value) <= readings[number] + loads[number]),
        )
        for number, value, error in zip(chosen, values, errors, strict=True)
        if number not in bearing and abs(value) > _CERTAIN * error
    ]


def _find_bearing(system: System, motions: Sequence[Motion]) -> list[int]:
    """Return the component of each sensor that bears the weight.

    Its offset is not distinguishable from an error of the model's mass and centre of mass: it is estimated, but never
    reported.
    """
    means = np.mean(np.abs(np.concatenate([system.forces(motion) for motion in motions])), axis=0)
    by_sensor: dict[str, list[int]] = {}
    for number, source in enumerate(system.sensing.measured):
        if source.axis.startswith("f"):
            by_sensor.setdefault(_sensor(source.name), []).append(number)
    return [max(numbers, key=lambda number: float(means[number])) for numbers in by_sensor.values()]


def _standard_errors(
    equation: BaseEquation, chosen: Sequence[int], values: FloatArray, precision: FloatArray, block: int
) -> FloatArray:
    """Return the standard errors of offsets, for residuals that are correlated within a block of samples."""
    if not chosen:
        return np.empty(0)
    jacobian = equation.columns[:, [2 + number for number in chosen]]
    residual = equation.columns[:, 0] + equation.columns[:, 1] + jacobian @ values
    covariance, _ = block_jackknife_covariance(equation, jacobian, residual, block, precision[list(chosen)])
    return np.sqrt(np.diag(covariance))


def _select_component(costs: FloatArray, noise: float, named: Sequence[int], names: Sequence[str]) -> int:
    """Return the component with the least cost; among near equals, one of a sensor already selected."""
    best = int(np.argmin(costs))
    known = {_sensor(names[number]) for number in named}
    near = [int(number) for number in np.flatnonzero(costs - costs[best] < _RIVAL * noise)]
    equals = [number for number in near if _sensor(names[number]) in known]
    return min(equals, key=lambda number: float(costs[number])) if equals else best


def _sensor(component: str) -> str:
    return component.rpartition(".")[0]


def _fit_offsets(
    residual: FloatArray, jacobian: FloatArray, precision: FloatArray, chosen: Sequence[int]
) -> tuple[float, FloatArray]:
    """Minimise the cost over some offsets; return it with the offsets."""
    columns, weights = jacobian[:, list(chosen)], precision[list(chosen)]
    inverse = np.linalg.inv(columns.T @ columns + np.diag(weights))
    values = -inverse @ (columns.T @ residual)
    left = residual + columns @ values
    return float(left @ left + weights @ values**2), values
