"""The offsets of wrench sensors, as far as no plausible model explains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.base_equation import build_base_equation, plan_system, spread_by_blocks
from steelyard.motion import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.base_equation import BaseEquation
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan, System

USUAL = (3.0, 0.2)
"""Standard deviations (N, N m) of the offsets that sound, tared sensors keep."""

LEAST = (8.0, 0.8)
"""Offsets (N, N m) below which nobody needs to be told."""

DECISIVE = 25.0
"""By how much minus twice the log-likelihood must fall before an offset is believed: five standard deviations."""

_WIDE = (300.0, 30.0)
_LOADS = (0.5, 0.2)
"""What a sensor carries at most apart from the weight itself: shares of the weight sideways (friction), and metres of
lever arm that the weight has about it."""

_RIVAL = 10.0
_CERTAIN = 6.0


@dataclass(frozen=True)
class Offset:
    """An offset that was found.

    Attributes:
        column: The component.
        value: What the sensor reads when nothing pulls, N or N m.
        standard_error: Of that.
        rivals: Components of other sensors whose offset would explain the recording as well.
        possible: Whether a sensor that is off by so much could have read what it did. Errors of joint angles look like
            offsets too, and like far greater ones.
    """

    column: str
    value: float
    standard_error: float
    rivals: tuple[str, ...] = ()
    possible: bool = True


def find_offsets(model: Model, motions: Sequence[Motion]) -> list[Offset]:
    """Finds components with an offset that is more than a sound sensor keeps, ``Y φ = H (f - offset)``.

    The model's errors and small offsets of all components are eliminated. Components are then freed one after the
    other, the one that explains most first, as long as it explains much. While both feet stand, the same offset of
    either foot often does the same to the robot; such rivals are named.

    Args:
        model: The model.
        motions: Stretches of motion.
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
    rest, change = triangle[:, 0] + triangle[:, 1], triangle[:, 2:]
    noise = max(float(rest @ rest) / equation.freedom, 1.0)
    bearing = _bearing(system, motions)
    chosen = list(bearing)
    rivals: dict[int, tuple[str, ...]] = {}
    while len(chosen) < len(sources):
        costs = np.full(len(sources), np.inf)
        for number in set(range(len(sources))) - set(chosen):
            costs[number] = _fit(rest, change, precision, [*chosen, number])[0]
        before = _fit(rest, change, precision, chosen)[0]
        named = [number for number in chosen if number not in bearing]
        best = _preferred(costs, noise, named, [source.name for source in sources])
        values = _fit(rest, change, precision, [*chosen, best])[1]
        if (before - costs[best]) / noise < DECISIVE or abs(values[-1]) < LEAST[kinds[best]]:
            break
        rivals[best] = tuple(
            sources[number].name
            for number in np.flatnonzero(costs - costs[best] < _RIVAL * noise)
            if number != best and _sensor(sources[number].name) != _sensor(sources[best].name)
        )
        chosen.append(best)
    _, values, _ = _fit(rest, change, precision, chosen)
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


def _bearing(system: System, motions: Sequence[Motion]) -> list[int]:
    """Gives the component of each sensor that bears the weight.

    Its offset cannot be told from the model's own weight and centre of mass: it is freed, but never named.
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
    """Gives the standard errors of some offsets, for residuals that are alike over a block of samples."""
    if not chosen:
        return np.empty(0)
    change = equation.columns[:, [2 + number for number in chosen]]
    rest = equation.columns[:, 0] + equation.columns[:, 1] + change @ values
    spread, _ = spread_by_blocks(equation, change, rest, block, precision[list(chosen)])
    return np.sqrt(np.diag(spread))


def _preferred(costs: FloatArray, noise: float, named: Sequence[int], names: Sequence[str]) -> int:
    """Gives the component that explains most; among equals, one of a sensor that is known to be off."""
    best = int(np.argmin(costs))
    known = {_sensor(names[number]) for number in named}
    near = [int(number) for number in np.flatnonzero(costs - costs[best] < _RIVAL * noise)]
    equals = [number for number in near if _sensor(names[number]) in known]
    return min(equals, key=lambda number: float(costs[number])) if equals else best


def _sensor(component: str) -> str:
    return component.rpartition(".")[0]


def _fit(
    rest: FloatArray, change: FloatArray, precision: FloatArray, chosen: Sequence[int]
) -> tuple[float, FloatArray, FloatArray]:
    """Gives the least cost over some offsets, these, and their standard errors at unit noise."""
    columns, weights = change[:, list(chosen)], precision[list(chosen)]
    inverse = np.linalg.inv(columns.T @ columns + np.diag(weights))
    values = -inverse @ (columns.T @ rest)
    left = rest + columns @ values
    return float(left @ left + weights @ values**2), values, np.sqrt(np.diag(inverse))
