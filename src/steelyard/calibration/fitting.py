"""Robust fit of a calibration problem: noise estimated on the way, outliers set aside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from steelyard.calibration.calibration_problem import size_of
from steelyard.calibration.gauss_newton import Solved, solve, solve_pose_unknowns
from steelyard.calibration.pose_noise import (
    DEGREE,
    PoseNoise,
    Weights,
    estimate_pose_noise,
    inflate_set_aside,
    row_variances,
)
from steelyard.calibration.starting_states import starting_states
from steelyard.calibration.suspects import find_outliers, parts_of, score_misfits
from steelyard.kinematics import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, Linearisation, State

USUAL_ANGLE, USUAL_LENGTH = 5.0 * DEGREE, 0.01
"""Prior size of joint offsets (rad; m for prismatic joints), set by judgement. A direction with a larger standard error
is undetermined."""

_USUAL = {"mounting": 0.1, "marker": 0.5, "laboratory": 1.0, "touch": 1.0}
"""Prior size of the other shared unknowns (rad and m): no smaller than a mounting, a body and a room can be."""

_ROUNDS, _HUBER_ROUNDS = 20, 2
"""Rounds of noise and outliers at most, and of Huber weights before outliers are set aside; set by judgement."""

_HUBER = 1.5
"""Residual (standard deviations) beyond which [Huber 1964] weights fall; 95 % efficient with normal errors at 1.345."""

_SAME_NOISE = 0.02
"""Relative change of every noise level below which the rounds end: far less than the levels are known to."""


@dataclass(frozen=True, eq=False)
class CalibrationFit:
    """The best fit of a problem.

    Attributes:
        problem: The problem.
        solved: Its minimum.
        weights: The noise, given or found, or plain sums.
        found: Whether the noise was estimated from the data.
        aside: Which blocks were set aside in each pose, shape (n_poses, n_blocks).
        variances: Of each row as used, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """

    problem: CalibrationProblem
    solved: Solved
    weights: Weights
    found: bool
    aside: NDArray[np.bool_]
    variances: FloatArray
    encoder: float

    @property
    def unit(self) -> float:
        """Standard deviation of a whitened row: one, or with plain sums that of the residuals."""
        if isinstance(self.weights, PoseNoise):
            return 1.0
        return float(np.sqrt(2.0 * self.solved.cost / max(self.freedoms, 1)))

    @property
    def freedoms(self) -> int:
        """Degrees of freedom of the residuals."""
        values = np.linalg.norm(self.solved.reduced.range, axis=1) > 0.5
        rows = sum(
            int((block.there & ~self.aside[:, number]).sum()) * size_of(block.rows)
            for number, block in enumerate(self.problem.blocks)
        )
        return rows - int(values.sum()) - self.problem.shared_count


def usual_sizes(problem: CalibrationProblem) -> FloatArray:
    """Return the prior size of each shared unknown, shape (n_shared,)."""
    sizes = np.ones(problem.shared_count)
    for name, columns in problem.shared_columns.items():
        if name == "offsets":
            sliding = problem.chains.sliding[problem.free]
            sizes[columns] = np.where(sliding, USUAL_LENGTH, USUAL_ANGLE)
        else:
            sizes[columns] = _USUAL[name.split(".")[0]]
    return sizes


@one_blas_thread()
def fit(
    problem: CalibrationProblem, weights: Weights | None = None, *, robust: bool = True, start: State | None = None
) -> CalibrationFit:
    """Fit a problem.

    Args:
        problem: The problem.
        weights: Known noise, or plain sums; by default the noise is estimated from the residuals.
        robust: Whether outliers are set aside, pose by pose.
        start: Where to start; by default all `starting_states` are tried.
    """
    chosen: Weights = PoseNoise() if weights is None else weights
    sizes = usual_sizes(problem)
    variances, encoder = row_variances(problem, chosen)
    aside = np.zeros((len(problem.poses), len(problem.blocks)), dtype=bool)
    counted = variances
    plain = not isinstance(chosen, PoseNoise)
    starts = starting_states(problem) if start is None else [start]
    tries = [solve(problem, state, counted, encoder, sizes, plain=plain) for state in starts]
    solved = min(tries, key=lambda each: each.cost)
    for number in range(_ROUNDS):
        if not isinstance(chosen, PoseNoise) or (weights is not None and not robust):
            break
        before, last = aside, chosen
        linear = solved.reduced.linear
        if robust:
            judged = row_variances(problem, chosen if weights is not None else _at_least_usual(chosen))
            # Until the noise is estimated, misfits are judged relative to the median pose.
            new = weights is None and number < _HUBER_ROUNDS
            scale = max(1.0, _scale(problem, linear, *judged)) if new else 1.0
            aside = find_outliers(problem, linear, *judged, scale)
        if weights is None:
            chosen = estimate_pose_noise(problem, linear, chosen, aside)
            variances, encoder = row_variances(problem, chosen)
        counted = inflate_set_aside(problem, variances, aside)
        if robust and number < _HUBER_ROUNDS:
            # Large residuals that are not set aside yet weigh less until the fit is nearly right.
            counted = counted / _huber_weights(problem, linear, *judged)
        solved = solve(problem, solved.state, counted, encoder, sizes)
        if number >= _HUBER_ROUNDS and np.array_equal(aside, before) and _is_same_noise(chosen, last):
            break
    return CalibrationFit(problem, solved, chosen, weights is None, aside, counted, encoder)


def _is_same_noise(first: Weights, second: Weights) -> bool:
    return all(abs(value - getattr(second, name)) <= _SAME_NOISE * value for name, value in vars(first).items())


def _at_least_usual(noise: PoseNoise) -> PoseNoise:
    """Return the noise by which misfits are judged: at least the usual one.

    Correlated errors would otherwise be taken for outliers where they are large, and the rest for low noise.
    """
    usual = vars(PoseNoise())
    return PoseNoise(**{name: max(value, usual[name]) for name, value in vars(noise).items()})


def _huber_weights(
    problem: CalibrationProblem, linear: Linearisation, variances: FloatArray, encoder: float
) -> FloatArray:
    """Compute weights of rows by [Huber 1964]: one within 1.5 standard deviations, less beyond."""
    tests = score_misfits(problem, linear, variances, encoder)
    away = np.sqrt(tests.squares / np.maximum(tests.freedoms, 1))
    weights = np.ones_like(variances)
    for number, (_, rows) in enumerate(parts_of(problem)):
        weights[:, rows] = np.minimum(1.0, _HUBER / np.maximum(away[:, number], 1e-12))[:, None]
    return weights


def _scale(problem: CalibrationProblem, linear: Linearisation, variances: FloatArray, encoder: float) -> float:
    """Compute the noise scale of the median pose: the median of squares over its expectation."""
    tests = score_misfits(problem, linear, variances, encoder)
    ratios = tests.squares / chi2.median(np.maximum(tests.freedoms, 1))
    return float(np.median(ratios[tests.freedoms > 0])) if np.any(tests.freedoms > 0) else 1.0


def fit_pose_unknowns(problem: CalibrationProblem, shared: State, weights: Weights) -> Solved:
    """Solve for the unknowns of each pose, with the shared unknowns given."""
    start = starting_states(problem)[0]
    state = replace(
        start,
        offsets=shared.offsets,
        mountings=shared.mountings,
        markers=shared.markers,
        laboratory=shared.laboratory,
        touched=shared.touched,
    )
    variances, encoder = row_variances(problem, weights)
    return solve_pose_unknowns(problem, state, variances, encoder)
