"""Gauss-Newton on the sparse least-squares problem: unknowns of each pose are eliminated, so time is linear in poses.

Minimises ``½ Σ_k r_kᵀ V_k⁻¹ r_k`` over all unknowns, with ``V_k`` the covariance of a pose's rows: noise of its
sensors and propagated noise of its encoders. Rows are whitened, the pose's own unknowns projected out of them (their
range, by singular values), and one small triangular system is left for the shared unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, Linearisation, State

_ITERATIONS, _TRIES = 60, 15
"""Steps at most, and damping factors tried for each. Set by judgement."""

_GAIN, _STEP = 1e-9, 1e-12
"""Expected decrease of the cost (relative) and step (in prior sizes) below which the solver has converged; both near
rounding."""

_FIRST_DAMPING = 1e-4
"""First Levenberg-Marquardt damping, relative to the largest squared column; ten times more at each further try."""

_NULL = 1e-9
"""Singular value of the scaled columns below which a pose does not determine its own unknowns: near rounding."""

_PLAIN_RATIO = 1e-5
"""Singular value, relative to the largest, below which plain sums leave a direction alone; set by judgement."""


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """The whitened rows of all poses, each pose's own unknowns projected out.

    Attributes:
        linear: The rows as they were.
        whitening: Inverse factor of each pose's covariance, shape (n_poses, n_rows, n_rows).
        range: Orthonormal basis of the range of the pose's unknowns, with zero columns beyond its rank, shape (n_poses,
            n_rows, n_pose).
        inverse: From whitened rows to the pose's unknowns, shape (n_poses, n_pose, n_rows).
        residuals: Shape (n_poses, n_rows).
        by_shared: Shape (n_poses, n_rows, n_shared).
    """

    linear: Linearisation
    whitening: FloatArray
    range: FloatArray
    inverse: FloatArray
    residuals: FloatArray
    by_shared: FloatArray

    def triangle(self) -> FloatArray:
        """Return the triangular factor of ``[by_shared | residuals]`` over all poses, shape (n_shared + 1, same)."""
        count = self.by_shared.shape[2]
        stacked = np.concatenate([self.by_shared, self.residuals[:, :, None]], axis=2).reshape(-1, count + 1)
        if len(stacked) < count + 1:
            stacked = np.concatenate([stacked, np.zeros((count + 1 - len(stacked), count + 1))])
        return np.asarray(np.linalg.qr(stacked, mode="r"))

    @property
    def precision(self) -> FloatArray:
        """Precision of a pose's rows, its own unknowns free: ``Wᵀ (1 − U Uᵀ) W``, shape (n_poses, n_rows, n_rows)."""
        half = self.whitening - self.range @ (np.swapaxes(self.range, 1, 2) @ self.whitening)
        return np.asarray(np.swapaxes(half, 1, 2) @ half)


@dataclass(frozen=True, eq=False)
class Solved:
    """A minimum.

    Attributes:
        state: Values of all unknowns.
        reduced: The rows there.
        cost: Half the sum of squares, prior included.
        iterations: Steps that were taken.
        converged: Whether the last step was negligible.
    """

    state: State
    reduced: ReducedRows
    cost: float
    iterations: int
    converged: bool

    @property
    def mean_cost(self) -> float:
        """Half the mean sum of squares of a pose, without priors."""
        return 0.5 * float(np.mean(np.sum(self.reduced.residuals**2, axis=1)))


def eliminate_pose_unknowns(linear: Linearisation, variances: FloatArray, encoder: float) -> ReducedRows:
    """Whiten the rows and project out each pose's own unknowns.

    Args:
        linear: The rows.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings, rad² (m² where they slide).
    """
    count, rows = linear.residuals.shape
    covariance = (
        encoder * (linear.by_joint @ np.swapaxes(linear.by_joint, 1, 2)) if encoder else np.zeros((count, rows, rows))
    )
    covariance[:, np.arange(rows), np.arange(rows)] += variances
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    return _project(linear, whitening)


def _project(linear: Linearisation, whitening: FloatArray) -> ReducedRows:
    residuals = np.einsum("nij,nj->ni", whitening, linear.residuals)
    by_shared = whitening @ linear.by_shared
    by_pose = whitening @ linear.by_pose
    # Heights are in metres and turns in radians: scaled columns make the tolerance unit-free.
    sizes = np.linalg.norm(by_pose, axis=1)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    left, values, right = np.linalg.svd(by_pose / sizes[:, None, :], full_matrices=False)
    there = values > _NULL
    left = left * there[:, None, :]
    inverse = np.swapaxes(right, 1, 2) @ (np.swapaxes(left, 1, 2) / np.where(there, values, 1.0)[:, :, None])
    inverse /= sizes[:, :, None]
    return ReducedRows(
        linear,
        whitening,
        left,
        inverse,
        residuals - np.einsum("nij,nj->ni", left, np.einsum("nji,nj->ni", left, residuals)),
        by_shared - left @ (np.swapaxes(left, 1, 2) @ by_shared),
    )


def solve(
    problem: CalibrationProblem,
    state: State,
    variances: FloatArray,
    encoder: float,
    scales: FloatArray,
    *,
    plain: bool = False,
) -> Solved:
    """Find the minimum nearest to a state.

    Directions of the shared unknowns whose standard error exceeds `scales`, their prior size, keep their values.

    Args:
        problem: The problem.
        state: Where to start.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
        scales: Prior size of each shared unknown, shape (n_shared,).
        plain: Whether variances are weights without units; directions are then left out by their ratio to the best.
    """
    reduced = eliminate_pose_unknowns(problem.linearise(state), variances, encoder)
    told = _observable_directions(with_prior(problem, state, reduced.triangle())[:, :-1] * scales, plain=plain) * scales
    damping, converged, number = 0.0, False, 0
    while number < _ITERATIONS and not converged:
        number += 1
        factor = with_prior(problem, state, reduced.triangle())
        gradient, rows = factor[:, :-1], factor[:, -1]
        along = gradient @ told.T
        before = _total(problem, state, reduced)
        for _ in range(_TRIES):
            damped = np.concatenate([along, np.sqrt(damping) * np.eye(len(told))])
            step = -np.linalg.lstsq(damped, np.concatenate([rows, np.zeros(len(told))]), rcond=None)[0]
            shared = step @ told
            gain = (
                0.5 * float(rows @ rows - np.sum((rows + along @ step) ** 2)) + before - _cost(problem, state, reduced)
            )
            tried = problem.move(state, shared, _pose_steps(reduced, shared))
            linear = problem.linearise(tried)
            # The covariance of this step's state is kept, so that costs are comparable.
            after = _total(problem, tried, _project(linear, reduced.whitening))
            converged = gain <= _GAIN * (before if plain else before + 1.0) or np.max(np.abs(step), initial=0.0) < _STEP
            if converged or after <= before:
                break
            damping = max(10.0 * damping, _FIRST_DAMPING * float(np.max(np.sum(along**2, axis=0), initial=1.0)))
        else:
            break
        if after <= before:
            state, damping = tried, 0.1 * damping if damping > 1e-12 else 0.0
            reduced = eliminate_pose_unknowns(linear, variances, encoder)
    return Solved(state, reduced, _cost(problem, state, reduced), number, converged)


def _observable_directions(factor: FloatArray, *, plain: bool) -> FloatArray:
    """Return the directions of the shared unknowns determined better than their prior size, shape (n, n_shared).

    Args:
        factor: Triangular factor in units of the prior sizes.
        plain: Whether rows have no units; the ratio to the largest singular value then decides.
    """
    _, values, right = np.linalg.svd(factor)
    least = _PLAIN_RATIO * values.max(initial=0.0) if plain else 1.0
    return np.asarray(right[: len(values)][(values >= least) & (values > 0.0)])


def with_prior(problem: CalibrationProblem, state: State, triangle: FloatArray) -> FloatArray:
    """Return a triangular factor with the priors added, shape (n_shared + 1, n_shared + 1)."""
    deviations, known = problem.prior_rows
    if not known.any():
        return triangle
    rows = np.zeros((int(known.sum()), triangle.shape[1]))
    rows[np.arange(len(rows)), np.flatnonzero(known)] = 1.0 / deviations[known]
    rows[:, -1] = problem.prior_residuals(state)[known]
    return np.asarray(np.linalg.qr(np.concatenate([triangle, rows]), mode="r"))


def _pose_steps(reduced: ReducedRows, shared: FloatArray) -> FloatArray:
    """Compute the steps of the poses' own unknowns for a step of the shared ones, shape (n_poses, n_pose)."""
    rows = reduced.linear.residuals + reduced.linear.by_shared @ shared
    return np.asarray(-np.einsum("nij,njk,nk->ni", reduced.inverse, reduced.whitening, rows))


def _cost(problem: CalibrationProblem, state: State, reduced: ReducedRows) -> float:
    """Compute the cost with the poses' unknowns at their optimum, to first order."""
    return 0.5 * float(np.sum(reduced.residuals**2) + np.sum(problem.prior_residuals(state) ** 2))


def _total(problem: CalibrationProblem, state: State, reduced: ReducedRows) -> float:
    """Compute the cost at the current unknowns of the poses."""
    whitened = np.einsum("nij,nj->ni", reduced.whitening, reduced.linear.residuals)
    return 0.5 * float(np.sum(whitened**2) + np.sum(problem.prior_residuals(state) ** 2))


def solve_pose_unknowns(problem: CalibrationProblem, state: State, variances: FloatArray, encoder: float) -> Solved:
    """Solve for the poses' own unknowns, the shared ones kept.

    Args:
        problem: The problem.
        state: Where to start.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """
    still = np.zeros(problem.shared_count)
    converged = False
    number = 0
    reduced = eliminate_pose_unknowns(problem.linearise(state), variances, encoder)
    while number < _ITERATIONS:
        number += 1
        own = _pose_steps(reduced, still)
        state = problem.move(state, still, own)
        reduced = eliminate_pose_unknowns(problem.linearise(state), variances, encoder)
        if np.max(np.abs(own), initial=0.0) < 1e-11:
            converged = True
            break
    return Solved(state, reduced, _cost(problem, state, reduced), number, converged)
