"""The geometric method: every link a body that can exist, as near to its reference as the data allow.

It minimises the data's cost and each link's log-det distance to its reference, with weights found from the data: how
far the model is off, group by group, and how much louder the data are than they seem. The minimum is the mode of a
posterior density, and its curvature there the posterior's; neither depends on units, frames, or the order of links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.cascade import Level, solve_cascade
from steelyard.identification.constrained import Unknowns
from steelyard.identification.estimate import Certificate
from steelyard.identification.landscape import build_landscape
from steelyard.identification.prior_weights import find_prior_weights
from steelyard.regression.decomposition import complete_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.cascade import CascadeSolution
    from steelyard.identification.constraint_system import ConstraintSystem
    from steelyard.identification.landscape import Landscape
    from steelyard.identification.link_groups import LinkGroup
    from steelyard.identification.prior_weights import PriorWeights
    from steelyard.identification.problem import Problem
    from steelyard.model.parameters import FloatArray

_ROUNDS = 60
_HELD = 1e-9
"""What may be left of a row, scaled to length one, for it to count as held."""

_TINY = 1e-6
"""Part of the data's slope at the start below which what is left of one is taken beside that."""

_INSIDE = 0.9
"""Part of the way to the edge of what can exist that a step goes at most."""


@dataclass(frozen=True, eq=False)
class GeometricSolution:
    """The likeliest robot, and how sure it is.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        landscape: What was minimised.
        weights: How far each group of links, and the noise, is trusted.
        groups: The groups, in the weights' order.
        posterior: Covariance of ``z`` after the data, shape (n_unknowns, n_unknowns).
        prior: The same before them.
        covariance: Of ``z`` by noise alone.
        response: How ``z`` answers to the true one on average.
        active: Names of constraints that bind.
        certificate: What shows that it is the minimum.
    """

    unknowns: FloatArray
    landscape: Landscape
    weights: PriorWeights
    groups: tuple[LinkGroup, ...]
    posterior: FloatArray
    prior: FloatArray
    covariance: FloatArray
    response: FloatArray
    active: tuple[str, ...]
    certificate: Certificate


def solve_geometric(
    problem: Problem,
    system: ConstraintSystem,
    links: Sequence[str],
    groups: Sequence[LinkGroup],
    *,
    noise_factor: float | None = None,
) -> GeometricSolution:
    """Gives the likeliest robot.

    Args:
        problem: The problem; its start is of bodies that can exist.
        system: Constraints, which do not contradict each other; there need be none.
        links: Names of all links.
        groups: Which of them share one measure of how far the model is off.
        noise_factor: How much louder the data are than what no parameters explain; by default found.

    Raises:
        IdentifiabilityError: An option makes no sense.
        SolverError: No minimum was found.
    """
    check_noise_factor(noise_factor)
    landscape = build_landscape(problem)
    owners = {link: number for number, group in enumerate(groups) for link in group.links}
    numbers = np.array([owners[links[place]] for place in landscape.links.tolist()], dtype=np.int64)
    given = np.array([np.nan if group.spread is None else group.spread**-2 for group in groups])
    weights = find_prior_weights(landscape, numbers, weights=given, noise=noise_factor)
    minimum = weights.minimum
    place, curvature, steps = minimum.place, minimum.curvature, minimum.steps + weights.rounds
    active: tuple[str, ...] = ()
    left, worst, push, generated = _stationarity(landscape, weights, place), 0.0, 0.0, 0
    free = None
    if len(system.rows) or system.separators:
        held = _hold(problem, landscape, weights, system)
        place, free, active = held.place, held.free, held.active
        curvature = landscape.curvature(place, weights.by_link, weights.noise)
        left, push, generated = held.stationarity, held.cascade.complementarity, held.cascade.generated
        steps += held.rounds
        worst, _ = system.worst(problem.unknowns.expand(landscape.root @ place))
    root = landscape.root
    posterior = minimum.covariance if free is None else _inverse_within(curvature, free)
    answer = posterior @ landscape.gram / weights.noise**2
    before = landscape.spread_out(weights.by_link[:, None, None] * landscape.blocks(np.zeros(len(place))))
    return GeometricSolution(
        unknowns=root @ place,
        landscape=landscape,
        weights=weights,
        groups=tuple(groups),
        posterior=_symmetric(root @ posterior @ root.T),
        prior=_symmetric(root @ np.linalg.inv(before) @ root.T),
        covariance=_symmetric(root @ answer @ posterior @ root.T),
        response=root @ answer @ np.linalg.inv(root),
        active=active,
        certificate=Certificate(left, worst, push, steps, generated),
    )


def check_noise_factor(factor: float | None) -> None:
    """Refuses a factor that is none."""
    number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
    if factor is not None and not (number and np.isfinite(factor) and factor > 0.0):
        raise IdentifiabilityError(f"noise_factor is {factor!r}; it must be a number greater than zero")


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (matrix + matrix.T))


def _stationarity(landscape: Landscape, weights: PriorWeights, place: FloatArray) -> float:
    """Gives what is left of the gradient as a share of the data's, or of a millionth of what that was at the start."""
    data = landscape.matrix.T @ (landscape.matrix @ place - landscape.right) / weights.noise**2
    left = landscape.slope(place, weights.by_link, weights.noise)
    return float(np.linalg.norm(left) / max(1.0, float(np.linalg.norm(data)), _least_slope(landscape, weights)))


def _least_slope(landscape: Landscape, weights: PriorWeights) -> float:
    """Gives the slope beside which rounding counts: where data are sharp, little of theirs is left at the minimum."""
    return _TINY * float(np.linalg.norm(landscape.matrix.T @ landscape.right)) / weights.noise**2


def _inverse_within(curvature: FloatArray, free: FloatArray) -> FloatArray:
    """Gives the covariance where only some directions are free, columns of `free`."""
    if not free.shape[1]:
        return np.zeros_like(curvature)
    return np.asarray(free @ np.linalg.inv(free.T @ curvature @ free) @ free.T)


# ---- constraints -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Held:
    place: FloatArray
    free: FloatArray
    active: tuple[str, ...]
    cascade: CascadeSolution
    stationarity: float
    rounds: int


def _hold(problem: Problem, landscape: Landscape, weights: PriorWeights, system: ConstraintSystem) -> _Held:
    """Gives the minimum under constraints: Newton's method, each step a quadratic programme under all of them."""
    unknowns = Unknowns(problem, "spread")
    constraints, names = unknowns.level("constraints", system)
    turn = np.linalg.solve(landscape.root, unknowns.root)  # from the cascade's unknowns y to x
    place = weights.minimum.place
    energy, feasible = weights.minimum.energy, False
    for number in range(_ROUNDS):
        curvature = landscape.curvature(place, weights.by_link, weights.noise)
        slope = landscape.slope(place, weights.by_link, weights.noise)
        upper = np.linalg.cholesky(curvature).T
        goal = upper @ place - np.linalg.solve(upper.T, slope)
        level = Level("energy", upper @ turn, goal, goal)
        found = solve_cascade([constraints, level], np.linalg.solve(turn, place))
        step = turn @ found.unknowns - place
        gain = float(step @ curvature @ step)
        if gain <= 1e-16 * max(1.0, energy) and feasible:
            tight = [binding.direction for binding in found.bindings if binding.level == 0]
            # Rows on y are rows on x through the turn.
            rows = np.linalg.solve(turn.T, np.reshape(tight, (-1, len(place))).T).T
            equal = constraints.matrix[constraints.lower == constraints.upper]
            rows = np.concatenate([rows, np.linalg.solve(turn.T, equal.T).T])
            free = _free(rows, len(place))
            left = free.T @ landscape.slope(place, weights.by_link, weights.noise)
            whole = max(1.0, float(np.linalg.norm(slope)), _least_slope(landscape, weights))
            share = float(np.linalg.norm(left)) / whole
            return _Held(place, free, unknowns.active(found, [names, ()]), found, share, number)
        place, energy, feasible = _step(landscape, weights, place, step, slope, energy, feasible)
    raise SolverError("the likeliest robot under these constraints was not found; loosen a constraint")


def _step(
    landscape: Landscape,
    weights: PriorWeights,
    place: FloatArray,
    step: FloatArray,
    slope: FloatArray,
    energy: float,
    feasible: bool,
) -> tuple[FloatArray, float, bool]:
    """Goes along a step as far as links stay possible and, once constraints hold, the energy falls."""
    length = 1.0
    while length > 1e-12:
        moved = place + length * step
        found = landscape.energy(moved, weights.by_link, weights.noise)
        falls = found <= energy + 1e-4 * length * float(slope @ step) + 1e-12 * (1.0 + abs(energy))
        if np.isfinite(found) and (falls or not feasible):
            # The whole step ends where constraints hold; from there on all do.
            return moved, found, feasible or length == 1.0
        length *= _INSIDE if length == 1.0 else 0.5
    raise SolverError("the constraints leave no body that can exist; loosen one")


def _free(rows: FloatArray, count: int) -> FloatArray:
    """Gives the directions that no row holds, as columns, shape (count, free)."""
    if not len(rows):
        return np.eye(count)
    lengths = np.linalg.norm(rows, axis=1)
    _, values, right = complete_vectors(rows[lengths > 0.0] / lengths[lengths > 0.0][:, None])
    seen = int(np.count_nonzero(values > 1e-9 * np.max(values, initial=0.0)))
    return np.asarray(right[seen:].T)
