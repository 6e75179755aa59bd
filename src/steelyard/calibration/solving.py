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
    from steelyard.calibration.problem import Linear, Problem, State
    from steelyard.model.parameters import FloatArray

ITERATIONS = 60
_HALVINGS = 12
_SETTLED = 1e-10
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
    settled = False
    reduced = reduce_rows(problem.linearise(state), variances, encoder)
    number = 0
    for number in range(1, ITERATIONS + 1):
        # The covariance is that of this step's state throughout, so that costs compare.
        whitening = reduced.whitening
        before = _cost(problem, state, reduced)
        shared = shared_step(problem, state, reduced, scales, plain=plain)
        own = _pose_steps(reduced, shared)
        expected = before - _expected(problem, state, reduced, shared)
        share = 1.0
        for _ in range(_HALVINGS):
            tried = problem.move(state, share * shared, share * own)
            linear = problem.linearise(tried)
            there = _project(linear, whitening)
            if _total(problem, tried, there) <= _total(problem, state, reduced) * (1.0 + 1e-12):
                break
            share *= 0.5
        else:
            settled = expected <= 1e-6 * max(before, 1e-12)
            break
        state = tried
        reduced = reduce_rows(linear, variances, encoder)
        if (
            share == 1.0
            and np.max(np.abs(shared) / scales, initial=0.0) < 1e-8
            and expected <= _SETTLED * max(before, 1e-9)
        ):
            settled = True
            break
    return Solved(state, reduced, _cost(problem, state, reduced), number, settled)


def shared_step(
    problem: Problem, state: State, reduced: Reduced, scales: FloatArray, *, plain: bool = False
) -> FloatArray:
    """Gives the Gauss-Newton step of the shared unknowns, shape (n_shared,)."""
    triangle = with_prior(problem, state, reduced.triangle())
    left, values, right = np.linalg.svd(triangle[:, :-1] * scales)
    told = values >= (_PLAIN_RATIO * values.max(initial=0.0) if plain else 1.0)
    told &= values > 0.0
    step = right[told].T @ ((left.T[: len(values)][told] @ triangle[:, -1]) / values[told])
    return np.asarray(-scales * step)


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
    return -np.einsum("nij,njk,nk->ni", reduced.inverse, reduced.whitening, rows)


def _cost(problem: Problem, state: State, reduced: Reduced) -> float:
    """Gives the cost once the poses' unknowns are at their best, to first order."""
    return 0.5 * float(np.sum(reduced.residuals**2) + np.sum(problem.prior_residuals(state) ** 2))


def _total(problem: Problem, state: State, reduced: Reduced) -> float:
    """Gives the cost as it is, poses' unknowns as they are."""
    whitened = np.einsum("nij,nj->ni", reduced.whitening, reduced.linear.residuals)
    return 0.5 * float(np.sum(whitened**2) + np.sum(problem.prior_residuals(state) ** 2))


def _expected(problem: Problem, state: State, reduced: Reduced, shared: FloatArray) -> float:
    """Gives the cost that a step of the shared unknowns should lead to."""
    rows = reduced.residuals + reduced.by_shared @ shared
    deviations, known = problem.prior_rows
    prior = problem.prior_residuals(state) + np.where(known, shared / np.where(known, deviations, 1.0), 0.0)
    return 0.5 * float(np.sum(rows**2) + np.sum(prior**2))


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
    for number in range(1, ITERATIONS + 1):
        own = _pose_steps(reduced, still)
        state = problem.move(state, still, own)
        reduced = reduce_rows(problem.linearise(state), variances, encoder)
        if np.max(np.abs(own), initial=0.0) < 1e-11:
            settled = True
            break
    return Solved(state, reduced, _cost(problem, state, reduced), number, settled)
