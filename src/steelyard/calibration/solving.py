"""The sparse least-squares problem, solved: unknowns of each pose are eliminated there, so that time grows with poses.

Minimises ``½ Σ_k r_kᵀ V_k⁻¹ r_k`` over all unknowns, with ``V_k`` the covariance of a pose's rows: noise of its
sensors, and what noise of its encoders does to them. Gauss-Newton: rows are whitened, the pose's own unknowns projected
out of them (their range, by singular values), and one small triangular system is left for what all poses share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.problem import Linear, Problem, State

ITERATIONS = 60
_TRIES = 15
_SETTLED = 1e-9
_STILL = 1e-12
_FIRST_DAMPING = 1e-4
_NULL = 1e-9
_PLAIN_RATIO = 1e-5


@dataclass(frozen=True, eq=False)
class Reduced:
    """The rows of all poses, whitened, without what each pose's own unknowns explain.

    Attributes:
        linear: The rows as they were.
        whitening: Inverse factor of each pose's covariance, shape (n_poses, n_rows, n_rows).
        range: Orthonormal basis of what the pose's unknowns reach; zero columns where they do not. Shape (n_poses,
            n_rows, n_pose).
        inverse: From whitened rows to the pose's unknowns, shape (n_poses, n_pose, n_rows).
        residuals: Shape (n_poses, n_rows).
        by_shared: Shape (n_poses, n_rows, n_shared).
    """

    linear: Linear
    whitening: FloatArray
    range: FloatArray
    inverse: FloatArray
    residuals: FloatArray
    by_shared: FloatArray

    def triangle(self) -> FloatArray:
        """Gives the triangular factor of ``[by_shared | residuals]`` over all poses, shape (n_shared + 1, same)."""
        count = self.by_shared.shape[2]
        stacked = np.concatenate([self.by_shared, self.residuals[:, :, None]], axis=2).reshape(-1, count + 1)
        if len(stacked) < count + 1:
            stacked = np.concatenate([stacked, np.zeros((count + 1 - len(stacked), count + 1))])
        return np.asarray(np.linalg.qr(stacked, mode="r"))

    @property
    def precision(self) -> FloatArray:
        """What a pose's rows say with its own unknowns free: ``Wᵀ (1 − U Uᵀ) W``, shape (n_poses, n_rows, n_rows)."""
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
        settled: Whether the last step changed nothing any more.
    """

    state: State
    reduced: Reduced
    cost: float
    iterations: int
    settled: bool

    @property
    def mean_cost(self) -> float:
        """Half the sum of squares of the usual pose, without any prior."""
        return 0.5 * float(np.mean(np.sum(self.reduced.residuals**2, axis=1)))


def reduce_rows(linear: Linear, variances: FloatArray, encoder: float) -> Reduced:
    """Whitens the rows, and takes out of them what each pose's own unknowns explain.

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


def _project(linear: Linear, whitening: FloatArray) -> Reduced:
    residuals = np.einsum("nij,nj->ni", whitening, linear.residuals)
    by_shared = whitening @ linear.by_shared
    by_pose = whitening @ linear.by_pose
    # Heights are metres and turns are radians; scaled alike, "nothing" means nothing in either.
    sizes = np.linalg.norm(by_pose, axis=1)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    left, values, right = np.linalg.svd(by_pose / sizes[:, None, :], full_matrices=False)
    there = values > _NULL
    left = left * there[:, None, :]
    inverse = np.swapaxes(right, 1, 2) @ (np.swapaxes(left, 1, 2) / np.where(there, values, 1.0)[:, :, None])
    inverse /= sizes[:, :, None]
    return Reduced(
        linear,
        whitening,
        left,
        inverse,
        residuals - np.einsum("nij,nj->ni", left, np.einsum("nji,nj->ni", left, residuals)),
        by_shared - left @ (np.swapaxes(left, 1, 2) @ by_shared),
    )


def solve(
    problem: Problem, state: State, variances: FloatArray, encoder: float, scales: FloatArray, *, plain: bool = False
) -> Solved:
    """Finds the minimum nearest to a state.

    Directions of the shared unknowns that the data tell less well than `scales`, the usual size of each, are left where
    they are.

    Args:
        problem: The problem.
        state: Where to start.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
        scales: Usual size of each shared unknown, shape (n_shared,).
        plain: Whether variances are weights of no known unit; directions are then left out by their ratio to the best.
    """
    reduced = reduce_rows(problem.linearise(state), variances, encoder)
    told = _told_directions(with_prior(problem, state, reduced.triangle())[:, :-1] * scales, plain=plain) * scales
    damping, settled, number = 0.0, False, 0
    while number < ITERATIONS and not settled:
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
            # The covariance is that of this step's state throughout, so that costs compare.
            after = _total(problem, tried, _project(linear, reduced.whitening))
            settled = (
                gain <= _SETTLED * (before if plain else before + 1.0) or np.max(np.abs(step), initial=0.0) < _STILL
            )
            if settled or after <= before:
                break
            damping = max(10.0 * damping, _FIRST_DAMPING * float(np.max(np.sum(along**2, axis=0), initial=1.0)))
        else:
            break
        if after <= before:
            state, damping = tried, 0.1 * damping if damping > 1e-12 else 0.0
            reduced = reduce_rows(linear, variances, encoder)
    return Solved(state, reduced, _cost(problem, state, reduced), number, settled)


def _told_directions(factor: FloatArray, *, plain: bool) -> FloatArray:
    """Gives the directions of the shared unknowns that data tell at least as well as their usual size, (n, n_shared).

    Args:
        factor: Triangular factor in units of the usual sizes.
        plain: Whether rows have no known unit; the ratio to what is told best then decides.
    """
    _, values, right = np.linalg.svd(factor)
    least = _PLAIN_RATIO * values.max(initial=0.0) if plain else 1.0
    return np.asarray(right[: len(values)][(values >= least) & (values > 0.0)])


def with_prior(problem: Problem, state: State, triangle: FloatArray) -> FloatArray:
    """Gives a triangular factor with what is known beforehand added, shape (n_shared + 1, n_shared + 1)."""
    deviations, known = problem.prior_rows
    if not known.any():
        return triangle
    rows = np.zeros((int(known.sum()), triangle.shape[1]))
    rows[np.arange(len(rows)), np.flatnonzero(known)] = 1.0 / deviations[known]
    rows[:, -1] = problem.prior_residuals(state)[known]
    return np.asarray(np.linalg.qr(np.concatenate([triangle, rows]), mode="r"))


def _pose_steps(reduced: Reduced, shared: FloatArray) -> FloatArray:
    """Gives the steps of the poses' own unknowns that go with a step of the shared ones, shape (n_poses, n_pose)."""
    rows = reduced.linear.residuals + reduced.linear.by_shared @ shared
    return np.asarray(-np.einsum("nij,njk,nk->ni", reduced.inverse, reduced.whitening, rows))


def _cost(problem: Problem, state: State, reduced: Reduced) -> float:
    """Gives the cost once the poses' unknowns are at their best, to first order."""
    return 0.5 * float(np.sum(reduced.residuals**2) + np.sum(problem.prior_residuals(state) ** 2))


def _total(problem: Problem, state: State, reduced: Reduced) -> float:
    """Gives the cost as it is, poses' unknowns as they are."""
    whitened = np.einsum("nij,nj->ni", reduced.whitening, reduced.linear.residuals)
    return 0.5 * float(np.sum(whitened**2) + np.sum(problem.prior_residuals(state) ** 2))


def settle_poses(problem: Problem, state: State, variances: FloatArray, encoder: float) -> Solved:
    """Finds the poses' own unknowns alone, all that is shared as it is.

    Args:
        problem: The problem.
        state: Where to start.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """
    still = np.zeros(problem.shared_count)
    settled = False
    number = 0
    reduced = reduce_rows(problem.linearise(state), variances, encoder)
    while number < ITERATIONS:
        number += 1
        own = _pose_steps(reduced, still)
        state = problem.move(state, still, own)
        reduced = reduce_rows(problem.linearise(state), variances, encoder)
        if np.max(np.abs(own), initial=0.0) < 1e-11:
            settled = True
            break
    return Solved(state, reduced, _cost(problem, state, reduced), number, settled)
