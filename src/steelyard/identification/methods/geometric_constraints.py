"""The geometric method under constraints: Newton's method, each step a quadratic programme under all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from steelyard.exceptions import SolverError
from steelyard.identification.methods.geometric_energy import factorise
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.geometric_energy import Landscape
    from steelyard.identification.methods.marginal_likelihood import PriorWeights
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution

_DIRECT, _ROUNDS = 25, 60
"""Steps that are tried at once, and those at each sharpness where data are sharpened little by little."""

_SHARPER = 3.0
_TINY = 1e-6
"""Part of the data's slope at the start below which what is left of one is taken beside that."""

NEAR = 3.0
"""Standard errors within which an edge cuts off so much of a normal law that its covariance is another."""

_INSIDE = 0.9
"""Part of the way to the edge of what can exist that a step goes at most."""


@dataclass(frozen=True, eq=False)
class Held:
    """A minimum under constraints.

    Attributes:
        place: ``x``, shape (k,).
        covariance: Of ``x`` after the data, equations held and other constraints not counted, shape (k, k).
        within: The same where all that binds is held too.
        free: Directions that equations leave, as columns.
        at_edges: Whether a constraint binds, or is nearer than three standard errors.
        active: Names of what binds.
        cascade: The last quadratic programme.
        stationarity: What is left of the gradient where nothing binds, as a share.
        rounds: Steps that were made.
    """

    place: FloatArray
    covariance: FloatArray
    within: FloatArray
    free: FloatArray
    at_edges: bool
    active: tuple[str, ...]
    cascade: CascadeSolution
    stationarity: float
    rounds: int


def share_of_slope(landscape: Landscape, weights: PriorWeights, place: FloatArray) -> float:
    """Gives what is left of the gradient as a share of the data's, or of a millionth of what that was at the start."""
    data = landscape.matrix.T @ (landscape.matrix @ place - landscape.right) / weights.noise**2
    left = landscape.slope(place, weights.by_link, weights.noise)
    return float(np.linalg.norm(left) / max(1.0, float(np.linalg.norm(data)), _least_slope(landscape, weights.noise)))


def _least_slope(landscape: Landscape, noise: float) -> float:
    """Gives the slope beside which rounding counts: where data are sharp, little of theirs is left at the minimum."""
    return _TINY * float(np.linalg.norm(landscape.matrix.T @ landscape.right)) / noise**2


def hold_constraints(problem: Problem, landscape: Landscape, weights: PriorWeights, system: ConstraintSystem) -> Held:
    """Gives the minimum under constraints, with weights as they were found without.

    Raises:
        SolverError: None was found.
    """
    search = _Search(problem, landscape, weights, system)
    try:
        return search.finish(*search.descend(weights.minimum.place, weights.noise, False, _DIRECT))
    except SolverError:
        # A step that holds the constraints may end beyond what can exist. Data no sharper than the prior keep away.
        loud = max(1.0, float(np.sqrt(np.linalg.norm(landscape.gram, 2))) / weights.noise)
        place, inside, steps = np.zeros(landscape.maps.shape[2]), False, 0
        while True:
            place, found, rounds = search.descend(place, weights.noise * loud, inside, _ROUNDS)
            inside, steps = True, steps + rounds
            if loud == 1.0:
                return search.finish(place, found, steps)
            loud = max(1.0, loud / _SHARPER)


class _Search:
    """A search for the minimum under constraints."""

    def __init__(self, problem: Problem, landscape: Landscape, weights: PriorWeights, system: ConstraintSystem) -> None:
        self.landscape, self.weights = landscape, weights
        self.unknowns = Unknowns(problem, "spread")
        self.constraints, self.names = self.unknowns.level("constraints", system)
        self.turn = np.linalg.solve(landscape.root, self.unknowns.root)  # from the cascade's unknowns y to x
        self.back = np.linalg.inv(self.turn)

    def descend(
        self, place: FloatArray, noise: float, feasible: bool, most: int
    ) -> tuple[FloatArray, CascadeSolution, int]:
        """Gives the minimum with some noise, from a point at which constraints hold or do not."""
        landscape, weights = self.landscape, self.weights.by_link
        energy = landscape.energy(place, weights, noise)
        for number in range(most):
            curvature = landscape.curvature(place, weights, noise)
            slope = landscape.slope(place, weights, noise)
            lower = np.tril(factorise(curvature)[0])
            goal = lower.T @ place - solve_triangular(lower, slope, lower=True)
            level = Level("energy", lower.T @ self.turn, goal, goal)
            found = solve_cascade([self.constraints, level], self.back @ place)
            step = self.turn @ found.unknowns - place
            if float(step @ curvature @ step) <= 1e-16 * max(1.0, energy) and feasible:
                return place, found, number
            place, energy, feasible = self._step(place, step, slope, energy, feasible, noise)
        raise SolverError("the likeliest robot under these constraints was not found; loosen a constraint")

    def _step(
        self, place: FloatArray, step: FloatArray, slope: FloatArray, energy: float, feasible: bool, noise: float
    ) -> tuple[FloatArray, float, bool]:
        """Goes along a step as far as links stay possible and, once constraints hold, the energy falls."""
        length = 1.0
        while length > 1e-12:
            moved = place + length * step
            found = self.landscape.energy(moved, self.weights.by_link, noise)
            falls = found <= energy + 1e-4 * length * float(slope @ step) + 1e-12 * (1.0 + abs(energy))
            if np.isfinite(found) and (falls or not feasible):
                # The whole step ends where constraints hold; from there on all do.
                return moved, found, feasible or length == 1.0
            length *= _INSIDE if length == 1.0 else 0.5
        raise SolverError("the constraints leave no body that can exist; loosen one")

    def finish(self, place: FloatArray, found: CascadeSolution, rounds: int) -> Held:
        """Gives the minimum with what is known of it."""
        landscape, weights, level = self.landscape, self.weights, self.constraints
        slope = landscape.slope(place, weights.by_link, weights.noise)
        tight = [binding.direction for binding in found.bindings if binding.level == 0]
        # Rows on y are rows on x through the turn.
        rows = np.reshape(tight, (-1, len(place))) @ self.back
        equal = level.lower == level.upper
        equations = level.matrix[equal] @ self.back
        bound = _free(np.concatenate([rows, equations]), len(place))
        whole = max(1.0, float(np.linalg.norm(slope)), _least_slope(landscape, weights.noise))
        share = float(np.linalg.norm(bound.T @ slope)) / whole
        curvature = landscape.curvature(place, weights.by_link, weights.noise)
        free = _free(equations, len(place))
        covariance = inverse_within(curvature, free)
        values = level.matrix @ (self.back @ place)
        margins = np.minimum(values - level.lower, level.upper - values)
        bands = level.matrix[~equal] @ self.back
        deviations = np.sqrt(np.maximum(np.sum(bands @ covariance * bands, axis=1), 0.0))
        return Held(
            place=place,
            covariance=covariance,
            within=inverse_within(curvature, bound),
            free=free,
            at_edges=len(rows) > 0 or bool(np.any(margins[~equal] < NEAR * deviations)),
            active=self.unknowns.active(found, [self.names, ()]),
            cascade=found,
            stationarity=share,
            rounds=rounds,
        )


def inverse_within(curvature: FloatArray, free: FloatArray) -> FloatArray:
    """Gives the covariance where only some directions are free, columns of `free`."""
    if not free.shape[1]:
        return np.zeros_like(curvature)
    return np.asarray(free @ np.linalg.inv(free.T @ curvature @ free) @ free.T)


def _free(rows: FloatArray, count: int) -> FloatArray:
    """Gives the directions that no row holds, as columns, shape (count, free)."""
    if not len(rows):
        return np.eye(count)
    lengths = np.linalg.norm(rows, axis=1)
    _, values, right = complete_vectors(rows[lengths > 0.0] / lengths[lengths > 0.0][:, None])
    seen = int(np.count_nonzero(values > 1e-9 * np.max(values, initial=0.0)))
    return np.asarray(right[seen:].T)
