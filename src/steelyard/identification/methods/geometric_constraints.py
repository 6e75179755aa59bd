"""The geometric method under constraints: sequential quadratic programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from steelyard.exceptions import SolverError
from steelyard.identification.methods.geometric_energy import factor_curvature
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.geometric_energy import GeometricEnergy
    from steelyard.identification.methods.marginal_likelihood import PriorWeights
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution

_DIRECT, _ROUNDS = 25, 60
"""Most steps at the data's own noise, and at each noise scale of a continuation. Set by judgement."""

_SHARPER = 3.0
"""Factor by which a continuation lowers the noise scale. Set by judgement: half a decade a step."""

_TINY = 1e-6
"""Share of the data's gradient at the start that gradients are compared with at least; as in `conic.py`."""

NEAR = 3.0
"""Standard errors within which a bound changes the covariance of a normal law noticeably: beyond three it cuts off one
in a thousand."""

_INSIDE = 0.9
"""Share of the way to the boundary of possible bodies that a step goes at most. Set by judgement; usual in
interior-point methods are 0.9 to 0.99."""


@dataclass(frozen=True, eq=False)
class Held:
    """A minimum under constraints.

    Attributes:
        point: ``x``, shape (k,).
        covariance: Posterior, of ``x``, equations held and other constraints not counted, shape (k, k).
        within: The same with all active constraints held too.
        free: Directions that equations leave, as columns.
        at_edges: Whether a constraint is active, or within three standard errors.
        active: Names of active constraints.
        cascade: The last quadratic programme.
        stationarity: Relative norm of the gradient along directions that active constraints leave free.
        rounds: Number of steps.
    """

    point: FloatArray
    covariance: FloatArray
    within: FloatArray
    free: FloatArray
    at_edges: bool
    active: tuple[str, ...]
    cascade: CascadeSolution
    stationarity: float
    rounds: int


def gradient_share(energy: GeometricEnergy, weights: PriorWeights, point: FloatArray) -> float:
    """Return the gradient's norm relative to the data's, or to a millionth of the data's at the start."""
    data = energy.matrix.T @ (energy.matrix @ point - energy.right) / weights.noise**2
    left = energy.gradient(point, weights.by_link, weights.noise)
    return float(np.linalg.norm(left) / max(1.0, float(np.linalg.norm(data)), _least_gradient(energy, weights.noise)))


def _least_gradient(energy: GeometricEnergy, noise: float) -> float:
    """Return the least gradient to compare with: precise data leave little of theirs at the minimum."""
    return _TINY * float(np.linalg.norm(energy.matrix.T @ energy.right)) / noise**2


def hold_constraints(
    problem: Problem, energy: GeometricEnergy, weights: PriorWeights, system: ConstraintSystem
) -> Held:
    """Return the minimum under constraints, with the weights found without them.

    Raises:
        SolverError: None was found.
    """
    search = _Search(problem, energy, weights, system)
    try:
        return search.finish(*search.descend(weights.minimum.point, weights.noise, False, _DIRECT))
    except SolverError:
        # A step to the constraints may end at impossible bodies; data no more precise than the prior prevent it.
        scale = max(1.0, float(np.sqrt(np.linalg.norm(energy.gram, 2))) / weights.noise)
        point, inside, steps = np.zeros(energy.maps.shape[2]), False, 0
        while True:
            point, found, rounds = search.descend(point, weights.noise * scale, inside, _ROUNDS)
            inside, steps = True, steps + rounds
            if scale == 1.0:
                return search.finish(point, found, steps)
            scale = max(1.0, scale / _SHARPER)


class _Search:
    """A search for the minimum under constraints."""

    def __init__(
        self, problem: Problem, energy: GeometricEnergy, weights: PriorWeights, system: ConstraintSystem
    ) -> None:
        self.energy, self.weights = energy, weights
        self.unknowns = Unknowns(problem, "spread")
        self.constraints, self.names = self.unknowns.level("constraints", system)
        self.turn = np.linalg.solve(energy.root, self.unknowns.root)  # from the cascade's unknowns y to x
        self.back = np.linalg.inv(self.turn)

    def descend(
        self, point: FloatArray, noise: float, feasible: bool, most: int
    ) -> tuple[FloatArray, CascadeSolution, int]:
        """Return the minimum with some noise, from a point that is feasible or not."""
        energy, weights = self.energy, self.weights.by_link
        value = energy.value(point, weights, noise)
        for number in range(most):
            curvature = energy.curvature(point, weights, noise)
            gradient = energy.gradient(point, weights, noise)
            lower = np.tril(factor_curvature(curvature)[0])
            goal = lower.T @ point - solve_triangular(lower, gradient, lower=True)
            level = Level("energy", lower.T @ self.turn, goal, goal)
            found = solve_cascade([self.constraints, level], self.back @ point)
            step = self.turn @ found.unknowns - point
            if float(step @ curvature @ step) <= 1e-16 * max(1.0, value) and feasible:
                return point, found, number
            point, value, feasible = self._step(point, step, gradient, value, feasible, noise)
        raise SolverError("the most probable robot under these constraints was not found; loosen a constraint")

    def _step(
        self, point: FloatArray, step: FloatArray, gradient: FloatArray, value: float, feasible: bool, noise: float
    ) -> tuple[FloatArray, float, bool]:
        """Search along a step: links stay possible and, once constraints hold, the energy falls."""
        length = 1.0
        while length > 1e-12:
            moved = point + length * step
            found = self.energy.value(moved, self.weights.by_link, noise)
            falls = found <= value + 1e-4 * length * float(gradient @ step) + 1e-12 * (1.0 + abs(value))
            if np.isfinite(found) and (falls or not feasible):
                # A full step ends at a feasible point, and so do all after it.
                return moved, found, feasible or length == 1.0
            length *= _INSIDE if length == 1.0 else 0.5
        raise SolverError("no possible body satisfies the constraints; loosen one")

    def finish(self, point: FloatArray, found: CascadeSolution, rounds: int) -> Held:
        """Return the minimum with its covariances and residuals."""
        energy, weights, level = self.energy, self.weights, self.constraints
        gradient = energy.gradient(point, weights.by_link, weights.noise)
        tight = [active_row.direction for active_row in found.active_rows if active_row.level == 0]
        rows = np.reshape(tight, (-1, len(point))) @ self.back
        equal = level.lower == level.upper
        equations = level.matrix[equal] @ self.back
        bound = _free(np.concatenate([rows, equations]), len(point))
        whole = max(1.0, float(np.linalg.norm(gradient)), _least_gradient(energy, weights.noise))
        share = float(np.linalg.norm(bound.T @ gradient)) / whole
        curvature = energy.curvature(point, weights.by_link, weights.noise)
        free = _free(equations, len(point))
        covariance = inverse_within(curvature, free)
        values = level.matrix @ (self.back @ point)
        margins = np.minimum(values - level.lower, level.upper - values)
        bands = level.matrix[~equal] @ self.back
        deviations = np.sqrt(np.maximum(np.sum(bands @ covariance * bands, axis=1), 0.0))
        return Held(
            point=point,
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
    """Return the covariance where only the columns of `free` can vary."""
    if not free.shape[1]:
        return np.zeros_like(curvature)
    return np.asarray(free @ np.linalg.inv(free.T @ curvature @ free) @ free.T)


def _free(rows: FloatArray, count: int) -> FloatArray:
    """Return a basis of the null space of rows, as columns, shape (count, free)."""
    if not len(rows):
        return np.eye(count)
    lengths = np.linalg.norm(rows, axis=1)
    _, values, right = complete_vectors(rows[lengths > 0.0] / lengths[lengths > 0.0][:, None])
    seen = int(np.count_nonzero(values > 1e-9 * np.max(values, initial=0.0)))
    return np.asarray(right[seen:].T)
