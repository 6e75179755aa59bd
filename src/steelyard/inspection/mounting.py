"""How wrench sensors are mounted, and in which units they read: found by what the model asks for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

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
"""By how much minus twice the log-likelihood must fall before one reading of the sensors is believed over another."""

_WORTH = 0.5
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
    # What each candidate of each sensor leaves, as vectors that add up with the model's own.
    vectors = {
        name: np.stack([_coefficients(name, each, sensors, numbers) for each in candidates[name]]) @ triangle[:, 1:].T
        for name in sensors
    }
    chosen = dict.fromkeys(sensors, 0)
    costs: dict[str, FloatArray] = {}
    for _ in range(_ROUNDS):
        before = dict(chosen)
        groups: list[tuple[str, ...]] = [*combinations(sensors, 2)] or [(name,) for name in sensors]
        for group in groups:
            _improve(triangle[:, 0], vectors, candidates, chosen, group)
        if chosen == before:
            break
    for name in sensors:
        costs[name] = _costs_of(triangle[:, 0], vectors, chosen, name)
    stated = _cost(triangle[:, 0], vectors, dict.fromkeys(sensors, 0))
    best = _cost(triangle[:, 0], vectors, chosen)
    return _verdict(equation, sensors, candidates, chosen, (stated, best), costs)


def _verdict(
    equation: BaseEquation,
    sensors: Mapping[str, Mapping[str, int]],
    candidates: Mapping[str, list[_Candidate]],
    chosen: Mapping[str, int],
    totals: tuple[float, float],
    costs: Mapping[str, FloatArray],
) -> MountingSearch:
    stated, best = totals
    # The misfit of the best way is taken for the noise: it holds what no hypothesis explains.
    noise = max(best / equation.freedom, 1.0)
    mountings = {}
    for name in sensors:
        found = candidates[name][chosen[name]]
        rivals = np.delete(costs[name], chosen[name])
        exchanged = found.source != name
        # Of an exchange, only both sides together can be judged.
        gain = (stated - best if exchanged else costs[name][0] - best) / noise
        margin = (float(np.min(rivals)) - best) / noise if len(rivals) else np.inf
        believed = gain > DECISIVE and best < _WORTH * stated and margin > 0.0
        if believed or chosen[name] == 0:
            mountings[name] = Mounting(name, found.source, found.turn, found.unit, gain, margin)
        else:
            mountings[name] = Mounting(name, name, np.eye(3), gain=gain, margin=margin)
    return MountingSearch(mountings, np.sqrt(stated / equation.freedom), np.sqrt(best / equation.freedom))


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


def _cost(asked: FloatArray, vectors: Mapping[str, FloatArray], chosen: Mapping[str, int]) -> float:
    rest = asked + sum(vectors[name][number] for name, number in chosen.items())
    return float(rest @ rest)


def _costs_of(asked: FloatArray, vectors: Mapping[str, FloatArray], chosen: Mapping[str, int], name: str) -> FloatArray:
    """Gives the cost of each candidate of a sensor, the others as they are chosen."""
    rest = asked + sum(vectors[other][number] for other, number in chosen.items() if other != name)
    return np.asarray(np.sum((vectors[name] + rest) ** 2, axis=1))


def _improve(
    asked: FloatArray,
    vectors: Mapping[str, FloatArray],
    candidates: Mapping[str, list[_Candidate]],
    chosen: dict[str, int],
    group: tuple[str, ...],
) -> None:
    """Chooses the best candidates of one sensor or of two together, the others as they are chosen."""
    if len(group) == 1:
        chosen[group[0]] = int(np.argmin(_costs_of(asked, vectors, chosen, group[0])))
        return
    first, second = group
    rest = asked + sum(vectors[name][number] for name, number in chosen.items() if name not in group)
    left, right = vectors[first] + rest, vectors[second]
    costs = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] + 2.0 * left @ right.T
    sources = [np.array([candidate.source for candidate in candidates[name]]) for name in group]
    own = (sources[0] == first)[:, None] & (sources[1] == second)[None, :]
    exchanged = (sources[0] == second)[:, None] & (sources[1] == first)[None, :]
    costs[~(own | exchanged)] = np.inf
    best = np.unravel_index(int(np.argmin(costs)), costs.shape)
    chosen[first], chosen[second] = int(best[0]), int(best[1])
