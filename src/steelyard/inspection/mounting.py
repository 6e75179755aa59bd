"""How wrench sensors are mounted, and in which units they read: found by what the model asks for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.inspection.base_equation import build_base_equation, plan_system
from steelyard.inspection.turns import all_turns, is_same
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
"""Units that a wrench sensor may read in, and what its forces and moments are then multiplied with."""

DECISIVE = 60.0
"""By how much minus twice the log-likelihood must fall before one way to read the sensors is believed over another."""

_WORTH = 0.25
"""To which share of what the setup's way leaves another must come down."""

_LEAST_SHARE, _GREATEST_SHARE = 0.6, 1.6
"""Of the force that the model asks for, what the sensors may carry: models and gains are not that wrong."""

_ROUNDS = 5
_EQUAL = 10.0


@dataclass(frozen=True, eq=False)
class Mounting:
    """How one wrench sensor really reads: ``force = force_scale * turn @ readings of source``, moments likewise.

    Attributes:
        sensor: Name of the sensor in the setup.
        source: Name of the sensor whose columns hold its readings; another one where two are exchanged.
        turn: Shape (3, 3), a signed permutation.
        unit: The unit, one of `UNITS`.
        gain: By how much this beats the way that the setup states, in minus twice the log-likelihood.
        margin: By how much it beats the next best way.
    """

    sensor: str
    source: str
    turn: FloatArray
    unit: str = "N and N m"
    gain: float = 0.0
    margin: float = np.inf

    @property
    def as_stated(self) -> bool:
        """Whether the sensor reads as the setup says."""
        return self.source == self.sensor and is_same(self.turn) and self.unit == "N and N m"


@dataclass(frozen=True, eq=False)
class MountingSearch:
    """What came out of `find_mountings`.

    Attributes:
        mountings: By sensor.
        misfit: Root mean square of the whitened residual as the setup states it.
        best_misfit: The same with the mountings found; about one for sensors as noisy as they are taken to be.
    """

    mountings: Mapping[str, Mounting]
    misfit: float
    best_misfit: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    source: str
    turn: FloatArray
    unit: str


def find_mountings(model: Model, motions: Sequence[Motion]) -> MountingSearch:
    """Finds how the wrench sensors are mounted, among right-angled turns, signs, units and exchanges.

    Every way is one vector of coefficients in the base equation, of which the model's errors are eliminated; the one
    that leaves the least is the best, of those in which the sensors carry about the robot's weight. Pairs of sensors
    are searched together, so that an exchange is found.

    Args:
        model: The model.
        motions: Stretches of motion; see `stretches`.

    Raises:
        EvidenceError: What is not measured explains everything, or a sensor of a standing foot has no data.
    """
    system = plan_system(model, motions[0])
    sensors = _sensors(system)
    pairs = _pairs(sensors)
    numbers = {pair: number for number, pair in enumerate(pairs)}
    components, channels = np.array(pairs).T
    carried, asked_for = np.zeros(len(pairs)), 0.0

    def columns(system: System, motion: Motion, plan: RowPlan, maps: FloatArray) -> FloatArray:
        nonlocal asked_for
        forces = system.forces(motion)
        needed = system.required_forces(plan, motion, model.parameters)[:, :3]
        size = np.linalg.norm(needed, axis=1)
        # What each channel carries in each place, along the force that the model asks for: mostly its weight.
        along = np.einsum("nk,nkm->nm", needed / size[:, None], maps[:, :3])
        carried[:] += np.sum(along[:, components] * forces[:, channels], axis=0)
        asked_for += float(size.sum())
        return np.asarray(maps[:, :, components] * forces[:, None, channels])

    equation = build_base_equation(system, motions, columns)
    triangle = equation.triangle
    candidates = {name: _candidates(name, sensors) for name in sensors}
    coefficients = {
        name: np.stack([_coefficients(name, each, sensors, numbers) for each in candidates[name]]) for name in sensors
    }
    search = _Search(
        asked=triangle[:, 0],
        candidates=candidates,
        vectors={name: -each @ triangle[:, 1:].T for name, each in coefficients.items()},
        shares={name: each @ carried / asked_for for name, each in coefficients.items()},
        oddities={
            name: np.array([_oddity(name, candidate) for candidate in candidates[name]], dtype=np.float64)
            for name in sensors
        },
        freedom=equation.freedom,
    )
    chosen = dict.fromkeys(sensors, 0)
    groups: list[tuple[str, ...]] = [*combinations(sensors, 2)] or [(name,) for name in sensors]
    for _ in range(_ROUNDS):
        before = dict(chosen)
        for group in groups:
            chosen |= search.best_of(group, chosen)
        if chosen == before:
            break
    return _verdict(search, chosen, equation)


def _verdict(search: _Search, chosen: Mapping[str, int], equation: BaseEquation) -> MountingSearch:
    stated = dict.fromkeys(chosen, 0)
    best = search.cost(chosen)
    noise = max(best / equation.freedom, 1.0)
    # Where what the setup states is possible at all, another way must leave far less.
    worth = not search.is_plausible(stated) or best < _WORTH * search.cost(stated)
    believed = dict(stated)
    gains: dict[str, tuple[float, float]] = {}
    for name, number in chosen.items():
        found = search.candidates[name][number]
        costs = search.costs_of(name, chosen)
        alike = np.array([candidate.source == found.source for candidate in search.candidates[name]])
        rivals = costs[alike & (np.arange(len(costs)) != number)]
        # Of an exchange, only both sides together can be judged.
        other = search.cost(stated) if found.source != name else float(costs[0])
        margin = float(np.min(rivals)) - best if len(rivals) else np.inf
        gains[name] = ((other - best) / noise, margin / noise)
        if worth and min(gains[name]) > DECISIVE:
            believed[name] = number
    sources = [search.candidates[name][number].source for name, number in believed.items()]
    if len(set(sources)) < len(sources) or not search.is_plausible(believed):
        believed = stated
    mountings = {}
    for name, number in believed.items():
        found = search.candidates[name][number]
        mountings[name] = Mounting(name, found.source, found.turn, found.unit, *gains[name])
    misfits = [float(np.sqrt(search.cost(each) / equation.freedom)) for each in (stated, believed)]
    return MountingSearch(mountings, *misfits)


@dataclass(frozen=True, eq=False)
class _Search:
    """All candidates, what they leave, and what they carry.

    Attributes:
        asked: What the model asks for, as a vector of the triangular factor.
        candidates: By sensor.
        vectors: By sensor, what each candidate adds to `asked`, shape (n_candidates, n).
        shares: By sensor, the share of the force asked for that each candidate carries, shape (n_candidates,).
        oddities: By sensor, in how many things each candidate differs from what the setup states, shape
        (n_candidates,). freedom: How many rows there are.
    """

    asked: FloatArray
    candidates: Mapping[str, list[_Candidate]]
    vectors: Mapping[str, FloatArray]
    shares: Mapping[str, FloatArray]
    oddities: Mapping[str, FloatArray]
    freedom: int

    def is_plausible(self, chosen: Mapping[str, int]) -> bool:
        """Tells whether the sensors carry about the robot's weight."""
        return bool(_is_weight(sum(self.shares[name][number] for name, number in chosen.items())))

    def cost(self, chosen: Mapping[str, int]) -> float:
        """Gives the squares that a choice leaves."""
        rest = self.asked + sum(self.vectors[name][number] for name, number in chosen.items())
        return float(rest @ rest)

    def costs_of(self, name: str, chosen: Mapping[str, int]) -> FloatArray:
        """Gives the cost of each candidate of a sensor, the others as they are chosen; infinite for impossible ones."""
        others = {other: number for other, number in chosen.items() if other != name}
        rest = self.asked + sum(self.vectors[other][number] for other, number in others.items())
        share = self.shares[name] + sum(self.shares[other][number] for other, number in others.items())
        return np.where(_is_weight(share), np.sum((self.vectors[name] + rest) ** 2, axis=1), np.inf)

    def best_of(self, group: tuple[str, ...], chosen: Mapping[str, int]) -> dict[str, int]:
        """Gives the best candidates of one sensor or of two together, the others as they are chosen."""
        if len(group) == 1:
            costs = self.costs_of(group[0], chosen)
            return {group[0]: self._simplest(costs, self.oddities[group[0]])[0]} if np.isfinite(costs).any() else {}
        first, second = group
        others = {name: number for name, number in chosen.items() if name not in group}
        rest = self.asked + sum(self.vectors[name][number] for name, number in others.items())
        left, right = self.vectors[first] + rest, self.vectors[second]
        costs = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] + 2.0 * left @ right.T
        share = self.shares[first][:, None] + self.shares[second][None, :]
        share = share + sum(self.shares[name][number] for name, number in others.items())
        # The two read what they read now, or what the other reads.
        now = [self.candidates[name][chosen[name]].source for name in group]
        sources = [np.array([candidate.source for candidate in self.candidates[name]]) for name in group]
        kept = (sources[0] == now[0])[:, None] & (sources[1] == now[1])[None, :]
        exchanged = (sources[0] == now[1])[:, None] & (sources[1] == now[0])[None, :]
        costs[~((kept | exchanged) & _is_weight(share))] = np.inf
        if not np.isfinite(costs).any():
            return {}
        best = self._simplest(costs, self.oddities[first][:, None] + self.oddities[second][None, :])
        return {first: best[0], second: best[1]}

    def _simplest(self, costs: FloatArray, oddities: FloatArray) -> tuple[int, ...]:
        """Gives the place of the least cost; among about equals, of what differs least from the setup."""
        noise = max(float(np.min(costs)) / self.freedom, 1.0)
        best = np.unravel_index(int(np.argmin(costs + _EQUAL * noise * oddities)), costs.shape)
        return tuple(int(place) for place in best)


def _oddity(name: str, candidate: _Candidate) -> int:
    return (candidate.source != name) + (not is_same(candidate.turn)) + (candidate.unit != next(iter(UNITS)))


def _is_weight(share: Any) -> Any:
    """Tells which shares of the force asked for are plausible."""
    return (share > _LEAST_SHARE) & (share < _GREATEST_SHARE)


def _sensors(system: System) -> dict[str, dict[str, int]]:
    """Gives the number of each measured component, by sensor and axis."""
    sensors: dict[str, dict[str, int]] = {}
    for number, source in enumerate(system.sensing.measured):
        sensors.setdefault(source.name.rpartition(".")[0], {})[source.axis] = number
    return sensors


def _pairs(sensors: Mapping[str, Mapping[str, int]]) -> list[tuple[int, int]]:
    """Gives the components and the channels that might be theirs: forces for forces, moments for moments."""
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
    """Gives every way in which a sensor may be mounted; the first is as the setup states it."""
    axes = sensors[name].keys()
    alike = [name, *(other for other in sensors if other != name and sensors[other].keys() == axes)]
    turns = [turn for turn in all_turns() if _stays_within(turn, tuple(axes))]
    # Where only forces are measured, units that differ in the moments are the same.
    kinds = {0 if axis.startswith("f") else 1 for axis in axes}
    units = {tuple(scales[kind] for kind in sorted(kinds)): unit for unit, scales in reversed(UNITS.items())}
    ordered = [unit for unit in UNITS if unit in units.values()]
    return [_Candidate(source, turn, unit) for source in alike for unit in ordered for turn in turns]


def _stays_within(turn: FloatArray, axes: tuple[str, ...]) -> bool:
    """Tells whether a turn leads from measured axes to measured axes, and is not the same as another there."""
    measured = [axis in axes for axis in WRENCH_AXES]
    for first in (0, 3):
        there = np.array(measured[first : first + 3])
        if np.any(turn[there][:, ~there]) or np.any(turn[~there][:, there]):
            return False
    unmeasured = ~(np.array(measured[:3]) | np.array(measured[3:]))
    return bool(np.all(turn[unmeasured][:, unmeasured] == np.eye(3)[unmeasured][:, unmeasured]))


def _coefficients(
    name: str, candidate: _Candidate, sensors: Mapping[str, Mapping[str, int]], numbers: Mapping[tuple[int, int], int]
) -> FloatArray:
    """Gives a candidate as coefficients of the pairs."""
    vector = np.zeros(len(numbers))
    for axis, component in sensors[name].items():
        kind, row = axis[0], "xyz".index(axis[1])
        for other, channel in sensors[candidate.source].items():
            if other[0] == kind:
                scale = UNITS[candidate.unit][0 if kind == "f" else 1]
                vector[numbers[component, channel]] = scale * candidate.turn[row, "xyz".index(other[1])]
    return vector
