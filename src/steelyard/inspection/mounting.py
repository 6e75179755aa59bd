"""How wrench sensors are mounted, and in which units they read: found by what the model asks for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.inspection.base_equation import build_base_equation, plan_system
from steelyard.inspection.turns import all_turns, is_same
from steelyard.model.recording_map import STANDARD_GRAVITY
from steelyard.model.setup import WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.inspection.base_equation import BaseEquation
    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray
    from steelyard.motion import Motion
    from steelyard.regression.sensing import RowPlan
    from steelyard.regression.system import System

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

_WORTH = 0.7
"""By how much the logarithm of what is left must fall: to a half."""

_ROUNDS = 5


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
    that leaves the least is the best. Pairs of sensors are searched together, so that an exchange is found.

    Args:
        model: The model.
        motions: Stretches of motion; see `stretches`.
    """
    system = plan_system(model, motions[0])
    sensors = _sensors(system)
    pairs = _pairs(sensors)
    numbers = {pair: number for number, pair in enumerate(pairs)}

    def columns(system: System, motion: Motion, _: RowPlan, maps: FloatArray) -> FloatArray:
        forces = system.forces(motion)
        components, channels = np.array(pairs).T
        return np.asarray(maps[:, :, components] * forces[:, None, channels])

    equation = build_base_equation(system, motions, columns)
    triangle = equation.triangle
    candidates = {name: _candidates(name, sensors) for name in sensors}
    search = _Search(
        asked=triangle[:, 0],
        candidates=candidates,
        vectors={
            name: np.stack([_coefficients(name, each, sensors, numbers) for each in candidates[name]])
            @ triangle[:, 1:].T
            for name in sensors
        },
        scales={name: np.log([UNITS[each.unit][0] for each in candidates[name]]) for name in sensors},
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
    as_stated = dict.fromkeys(chosen, 0)
    stated, best = search.score(as_stated), search.score(chosen)
    mountings = {}
    for name in chosen:
        found = search.candidates[name][chosen[name]]
        scores = search.scores_of(name, chosen)
        alike = [candidate.source == found.source for candidate in search.candidates[name]]
        rivals = scores[np.array(alike) & (np.arange(len(scores)) != chosen[name])]
        # Of an exchange, only both sides together can be judged.
        gain = (stated if found.source != name else float(scores[0])) - best
        margin = float(np.min(rivals)) - best if len(rivals) else np.inf
        gain, margin = equation.freedom * gain, equation.freedom * margin
        believed = gain > DECISIVE and margin > DECISIVE and stated - best > _WORTH
        if believed or chosen[name] == 0:
            mountings[name] = Mounting(name, found.source, found.turn, found.unit, gain, margin)
        else:
            mountings[name] = Mounting(name, name, np.eye(3), gain=gain, margin=margin)
    misfits = (np.sqrt(search.cost(each) / equation.freedom) for each in (as_stated, chosen))
    return MountingSearch(mountings, *(float(misfit) for misfit in misfits))


@dataclass(frozen=True, eq=False)
class _Search:
    """All candidates, and what they leave.

    How noisy the sensors are is not known: a way is scored by the logarithm of what it leaves, in the unit that all
    sensors would then read in. Otherwise readings that are all ten times too small would win, for what they leave is
    small too.

    Attributes:
        asked: What the model asks for, as a vector of the triangular factor.
        candidates: By sensor.
        vectors: By sensor, what each candidate adds to `asked`, shape (n_candidates, n).
        scales: By sensor, the logarithm of each candidate's scale of forces, shape (n_candidates,).
    """

    asked: FloatArray
    candidates: Mapping[str, list[_Candidate]]
    vectors: Mapping[str, FloatArray]
    scales: Mapping[str, FloatArray]

    def cost(self, chosen: Mapping[str, int]) -> float:
        """Gives the squares that a choice leaves."""
        rest = self.asked + sum(self.vectors[name][number] for name, number in chosen.items())
        return float(rest @ rest)

    def score(self, chosen: Mapping[str, int]) -> float:
        """Gives the logarithm of what a choice leaves, in its own unit."""
        scales = [self.scales[name][number] for name, number in chosen.items()]
        return float(np.log(self.cost(chosen)) - 2.0 * _common(scales))

    def scores_of(self, name: str, chosen: Mapping[str, int]) -> FloatArray:
        """Gives the score of each candidate of a sensor, the others as they are chosen."""
        others = {other: number for other, number in chosen.items() if other != name}
        rest = self.asked + sum(self.vectors[other][number] for other, number in others.items())
        scale = _common([self.scales[name], *(self.scales[other][number] for other, number in others.items())])
        return np.asarray(np.log(np.sum((self.vectors[name] + rest) ** 2, axis=1)) - 2.0 * scale)

    def best_of(self, group: tuple[str, ...], chosen: Mapping[str, int]) -> dict[str, int]:
        """Gives the best candidates of one sensor or of two together, the others as they are chosen."""
        if len(group) == 1:
            return {group[0]: int(np.argmin(self.scores_of(group[0], chosen)))}
        first, second = group
        others = {name: number for name, number in chosen.items() if name not in group}
        rest = self.asked + sum(self.vectors[name][number] for name, number in others.items())
        left, right = self.vectors[first] + rest, self.vectors[second]
        costs = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] + 2.0 * left @ right.T
        scales = [self.scales[first][:, None], self.scales[second][None, :]]
        scale = _common([*scales, *(self.scales[name][number] for name, number in others.items())])
        # Rounding may leave what should be tiny negative.
        scores = np.log(np.maximum(costs, 1e-300)) - 2.0 * scale
        sources = [np.array([candidate.source for candidate in self.candidates[name]]) for name in group]
        own = (sources[0] == first)[:, None] & (sources[1] == second)[None, :]
        exchanged = (sources[0] == second)[:, None] & (sources[1] == first)[None, :]
        scores[~(own | exchanged)] = np.inf
        best = np.unravel_index(int(np.argmin(scores)), scores.shape)
        return {first: int(best[0]), second: int(best[1])}


def _common(scales: Sequence[Any]) -> Any:
    """Gives the logarithm of the scale that all sensors share: the nearest to none, and none where they disagree."""
    common = scales[0]
    for other in scales[1:]:
        same_way = np.sign(common) == np.sign(other)
        common = np.where(same_way, np.sign(common) * np.minimum(np.abs(common), np.abs(other)), 0.0)
    return common


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
    return [_Candidate(source, turn, unit) for source in alike for unit in UNITS for turn in turns]


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
    """Gives a candidate as coefficients of the pairs, with the sign of forces that are subtracted from ``Y φ``."""
    vector = np.zeros(len(numbers))
    for axis, component in sensors[name].items():
        kind, row = axis[0], "xyz".index(axis[1])
        for other, channel in sensors[candidate.source].items():
            if other[0] == kind:
                scale = UNITS[candidate.unit][0 if kind == "f" else 1]
                vector[numbers[component, channel]] = -scale * candidate.turn[row, "xyz".index(other[1])]
    return vector
