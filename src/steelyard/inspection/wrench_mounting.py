"""Mounting and units of wrench sensors, from the base equation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.inspection.axis_permutations import is_identity, signed_permutations
from steelyard.inspection.base_equation import build_base_equation, plan_system
from steelyard.model import STANDARD_GRAVITY, WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.base_equation import BaseEquation
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan, System

UNITS = {
    "N and N m": (1.0, 1.0),
    "kg and kg m": (STANDARD_GRAVITY, STANDARD_GRAVITY),
    "kg and N m": (STANDARD_GRAVITY, 1.0),
    "N and N mm": (1.0, 1e-3),
    "kN and kN m": (1e3, 1e3),
}
"""Units of a wrench sensor, and the factors that convert its forces and moments to SI."""

DECISIVE = 60.0
"""Decrease of minus twice the log-likelihood from which another mounting is accepted. Set by judgement, far above the
25 of five standard deviations: residuals are correlated."""

_COST_RATIO = 0.25
"""Greatest cost of another mounting, relative to the setup's. Set by judgement: half the residual."""

_LEAST_SHARE, _GREATEST_SHARE = 0.6, 1.6
"""Bounds of the measured share of the force that the model requires: models and gains are not that wrong, and readings
ten times too small would always leave the least residual (decision 8)."""

_MOST_ROUNDS = 5
"""Passes over all pairs of sensors. Set by judgement: with two sensors the first finds the optimum."""

_ODDITY_COST = 10.0
"""Cost of each difference from the setup, in units of the noise variance: among equals the one nearest to the setup is
taken (decision 8). Set by judgement: three standard deviations."""


@dataclass(frozen=True, eq=False)
class Mounting:
    """Actual source, axes and unit of a wrench sensor: ``force = force_scale * axes @ readings``, moments likewise.

    Attributes:
        sensor: Name of the sensor in the setup.
        source: Name of the sensor whose columns hold its readings; another one if two are swapped.
        axes: Signed permutation, shape (3, 3).
        unit: One of `UNITS`.
        gain: Decrease of minus twice the log-likelihood relative to the setup.
        margin: The same relative to the next best candidate.
    """

    sensor: str
    source: str
    axes: FloatArray
    unit: str = "N and N m"
    gain: float = 0.0
    margin: float = np.inf

    @property
    def as_stated(self) -> bool:
        """Whether source, axes and unit are those of the setup."""
        return self.source == self.sensor and is_identity(self.axes) and self.unit == "N and N m"


@dataclass(frozen=True, eq=False)
class MountingSearch:
    """Result of `find_mountings`.

    Attributes:
        mountings: Mounting by sensor.
        misfit: RMS of the whitened residual with the setup's mountings.
        best_misfit: The same with the mountings found; about one if the assumed noise is right.
    """

    mountings: Mapping[str, Mounting]
    misfit: float
    best_misfit: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    source: str
    axes: FloatArray
    unit: str


def find_mountings(model: Model, motions: Sequence[Motion]) -> MountingSearch:
    """Find the mountings of the wrench sensors, among right-angle rotations, reflections, units and swaps.

    Each candidate is a vector of coefficients of the base equation with model errors eliminated. The best one leaves
    the least residual, of those in which the sensors carry about the robot's weight. Pairs of sensors are searched
    jointly, so that a swap is found.

    Args:
        model: The model.
        motions: Motions of the segments.

    Raises:
        EvidenceError: Unmeasured components leave no equation, or the sensor of a standing foot has no data.
    """
    system = plan_system(model, motions[0])
    sensors = _sensors(system)
    pairs = _pairs(sensors)
    numbers = {pair: number for number, pair in enumerate(pairs)}
    components, channels = np.array(pairs).T
    carried, required = np.zeros(len(pairs)), 0.0

    def columns(system: System, motion: Motion, plan: RowPlan, maps: FloatArray) -> FloatArray:
        nonlocal required
        forces = system.forces(motion)
        needed = system.required_forces(plan, motion, model.parameters)[:, :3]
        size = np.linalg.norm(needed, axis=1)
        # Each channel's contribution as each component, along the force that the model requires: mostly its weight.
        along = np.einsum("nk,nkm->nm", needed / size[:, None], maps[:, :3])
        carried[:] += np.sum(along[:, components] * forces[:, channels], axis=0)
        required += float(size.sum())
        return np.asarray(maps[:, :, components] * forces[:, None, channels])

    equation = build_base_equation(system, motions, columns)
    triangle = equation.triangle
    candidates = {name: _candidates(name, sensors) for name in sensors}
    coefficients = {
        name: np.stack([_coefficients(name, each, sensors, numbers) for each in candidates[name]]) for name in sensors
    }
    search = _Search(
        required=triangle[:, 0],
        candidates=candidates,
        vectors={name: -each @ triangle[:, 1:].T for name, each in coefficients.items()},
        shares={name: each @ carried / required for name, each in coefficients.items()},
        oddities={
            name: np.array([_oddity(name, candidate) for candidate in candidates[name]], dtype=np.float64)
            for name in sensors
        },
        freedom=equation.freedom,
    )
    chosen = dict.fromkeys(sensors, 0)
    groups: list[tuple[str, ...]] = [*combinations(sensors, 2)] or [(name,) for name in sensors]
    for _ in range(_MOST_ROUNDS):
        before = dict(chosen)
        for group in groups:
            chosen |= search.best_of(group, chosen)
        if chosen == before:
            break
    return _accept(search, chosen, equation)


def _accept(search: _Search, chosen: Mapping[str, int], equation: BaseEquation) -> MountingSearch:
    """Return the chosen candidates that are decisively better than the setup, and the setup's for all others."""
    stated = dict.fromkeys(chosen, 0)
    best = search.cost(chosen)
    noise = max(best / equation.freedom, 1.0)
    # If the setup's mounting is plausible at all, another one must leave a far smaller residual.
    worth = not search.is_plausible(stated) or best < _COST_RATIO * search.cost(stated)
    accepted = dict(stated)
    gains: dict[str, tuple[float, float]] = {}
    for name, number in chosen.items():
        found = search.candidates[name][number]
        costs = search.costs_of(name, chosen)
        alike = np.array([candidate.source == found.source for candidate in search.candidates[name]])
        rivals = costs[alike & (np.arange(len(costs)) != number)]
        # The two sides of a swap can only be judged together.
        other = search.cost(stated) if found.source != name else float(costs[0])
        margin = float(np.min(rivals)) - best if len(rivals) else np.inf
        gains[name] = ((other - best) / noise, margin / noise)
        if worth and min(gains[name]) > DECISIVE:
            accepted[name] = number
    sources = [search.candidates[name][number].source for name, number in accepted.items()]
    if len(set(sources)) < len(sources) or not search.is_plausible(accepted):
        accepted = stated
    mountings = {}
    for name, number in accepted.items():
        found = search.candidates[name][number]
        mountings[name] = Mounting(name, found.source, found.axes, found.unit, *gains[name])
    misfits = [float(np.sqrt(search.cost(each) / equation.freedom)) for each in (stated, accepted)]
    return MountingSearch(mountings, *misfits)


@dataclass(frozen=True, eq=False)
class _Search:
    """All candidates, with their residuals and shares of the weight.

    Attributes:
        required: The wrench that the model requires, in terms of the triangular factor.
        candidates: Candidates by sensor.
        vectors: By sensor, each candidate's term in the residual, added to `required`, shape (n_candidates, n).
        shares: By sensor, the share of the required force that each candidate carries, shape (n_candidates,).
        oddities: By sensor, the number of differences of each candidate from the setup, shape (n_candidates,).
        freedom: Number of measurement rows.
    """

    required: FloatArray
    candidates: Mapping[str, list[_Candidate]]
    vectors: Mapping[str, FloatArray]
    shares: Mapping[str, FloatArray]
    oddities: Mapping[str, FloatArray]
    freedom: int

    def is_plausible(self, chosen: Mapping[str, int]) -> bool:
        """Return whether the sensors carry about the robot's weight."""
        return bool(_is_weight(sum(self.shares[name][number] for name, number in chosen.items())))

    def cost(self, chosen: Mapping[str, int]) -> float:
        """Return the squared residual of a choice."""
        residual = self._residual(chosen)
        return float(residual @ residual)

    def _residual(self, chosen: Mapping[str, int]) -> FloatArray:
        return np.asarray(self.required + sum(self.vectors[name][number] for name, number in chosen.items()))

    def costs_of(self, name: str, chosen: Mapping[str, int]) -> FloatArray:
        """Return the cost of each candidate of a sensor, the others as chosen; infinite for implausible ones."""
        others = {other: number for other, number in chosen.items() if other != name}
        share = self.shares[name] + sum(self.shares[other][number] for other, number in others.items())
        return np.where(_is_weight(share), np.sum((self.vectors[name] + self._residual(others)) ** 2, axis=1), np.inf)

    def best_of(self, group: tuple[str, ...], chosen: Mapping[str, int]) -> dict[str, int]:
        """Return the best candidates of one sensor or of two jointly, the others as chosen."""
        if len(group) == 1:
            costs = self.costs_of(group[0], chosen)
            return {group[0]: self._simplest(costs, self.oddities[group[0]])[0]} if np.isfinite(costs).any() else {}
        first, second = group
        others = {name: number for name, number in chosen.items() if name not in group}
        left, right = self.vectors[first] + self._residual(others), self.vectors[second]
        costs = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] + 2.0 * left @ right.T
        share = self.shares[first][:, None] + self.shares[second][None, :]
        share = share + sum(self.shares[name][number] for name, number in others.items())
        # The two keep their sources, or swap them.
        now = [self.candidates[name][chosen[name]].source for name in group]
        sources = [np.array([candidate.source for candidate in self.candidates[name]]) for name in group]
        kept = (sources[0] == now[0])[:, None] & (sources[1] == now[1])[None, :]
        swapped = (sources[0] == now[1])[:, None] & (sources[1] == now[0])[None, :]
        costs[~((kept | swapped) & _is_weight(share))] = np.inf
        if not np.isfinite(costs).any():
            return {}
        best = self._simplest(costs, self.oddities[first][:, None] + self.oddities[second][None, :])
        return {first: best[0], second: best[1]}

    def _simplest(self, costs: FloatArray, oddities: FloatArray) -> tuple[int, ...]:
        """Return the index of the least cost; among near equals, of the candidate nearest to the setup."""
        noise = max(float(np.min(costs)) / self.freedom, 1.0)
        best = np.unravel_index(int(np.argmin(costs + _ODDITY_COST * noise * oddities)), costs.shape)
        return tuple(int(index) for index in best)


def _oddity(name: str, candidate: _Candidate) -> int:
    return (candidate.source != name) + (not is_identity(candidate.axes)) + (candidate.unit != next(iter(UNITS)))


def _is_weight(share: Any) -> Any:
    """Return which shares of the required force are plausible."""
    return (share > _LEAST_SHARE) & (share < _GREATEST_SHARE)


def _sensors(system: System) -> dict[str, dict[str, int]]:
    """Return the index of each measured component, by sensor and axis."""
    sensors: dict[str, dict[str, int]] = {}
    for number, source in enumerate(system.sensing.measured):
        sensors.setdefault(source.name.rpartition(".")[0], {})[source.axis] = number
    return sensors


def _pairs(sensors: Mapping[str, Mapping[str, int]]) -> list[tuple[int, int]]:
    """Return the pairs of components and channels that may hold them: forces for forces, moments for moments."""
    return [
        (component, channel)
        for target in sensors.values()
        for source in sensors.values()
        if source.keys() == target.keys()
        for axis, component in target.items()
        for other, channel in source.items()
        if axis[0] == other[0]
    ]


def _candidates(name: str, sensors: Mapping[str, Mapping[str, int]]) -> list[_Candidate]:
    """Return all candidate mountings of a sensor; the first is the setup's."""
    axes = sensors[name].keys()
    alike = [name, *(other for other in sensors if other != name and sensors[other].keys() == axes)]
    matrices = [matrix for matrix in signed_permutations() if _stays_within(matrix, tuple(axes))]
    # If only forces are measured, units that differ in the moments are equal.
    kinds = {0 if axis.startswith("f") else 1 for axis in axes}
    units = {tuple(scales[kind] for kind in sorted(kinds)): unit for unit, scales in reversed(UNITS.items())}
    ordered = [unit for unit in UNITS if unit in units.values()]
    return [_Candidate(source, matrix, unit) for source in alike for unit in ordered for matrix in matrices]


def _stays_within(matrix: FloatArray, axes: tuple[str, ...]) -> bool:
    """Return whether a permutation maps measured axes to measured axes, and is the identity on the others."""
    measured = [axis in axes for axis in WRENCH_AXES]
    for first in (0, 3):
        there = np.array(measured[first : first + 3])
        if np.any(matrix[there][:, ~there]) or np.any(matrix[~there][:, there]):
            return False
    unmeasured = ~(np.array(measured[:3]) | np.array(measured[3:]))
    return bool(np.all(matrix[unmeasured][:, unmeasured] == np.eye(3)[unmeasured][:, unmeasured]))


def _coefficients(
    name: str, candidate: _Candidate, sensors: Mapping[str, Mapping[str, int]], numbers: Mapping[tuple[int, int], int]
) -> FloatArray:
    """Return a candidate's coefficients of the pairs."""
    vector = np.zeros(len(numbers))
    for axis, component in sensors[name].items():
        kind, row = axis[0], "xyz".index(axis[1])
        for other, channel in sensors[candidate.source].items():
            if other[0] == kind:
                scale = UNITS[candidate.unit][0 if kind == "f" else 1]
                vector[numbers[component, channel]] = scale * candidate.axes[row, "xyz".index(other[1])]
    return vector
