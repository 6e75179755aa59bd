"""From a problem to its best fit: noise found on the way, and what does not fit set aside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from steelyard.calibration.noise import DEGREE, PoseNoise, Weights, find_noise, row_variances, without
from steelyard.calibration.problem import size_of
from steelyard.calibration.solving import Solved, settle_poses, solve
from steelyard.calibration.start import starting_states
from steelyard.calibration.suspects import find_aside, hold_against_others, parts_of
from steelyard.kinematics import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.problem import Linear, Problem, State

USUAL_ANGLE, USUAL_LENGTH = 5.0 * DEGREE, 0.01
"""How far encoders are usually off (rad, and m where they slide). What data tell less well counts as undetermined."""

_USUAL = {"mounting": 0.1, "marker": 0.5, "laboratory": 1.0, "touch": 1.0}
_ROUNDS = 20
_SOFT_ROUNDS = 2
_HUBER = 1.5
_ALIKE = 0.02


@dataclass(frozen=True, eq=False)
class Fit:
    """The best fit of a problem.

    Attributes:
        problem: The problem.
        solved: Its minimum.
        weights: The noise, given or found, or plain sums.
        found: Whether the noise was found from the data.
        aside: Which blocks were set aside in each pose, shape (n_poses, n_blocks).
        variances: Of each row as they were counted, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """

    problem: Problem
    solved: Solved
    weights: Weights
    found: bool
    aside: NDArray[np.bool_]
    variances: FloatArray
    encoder: float

    @property
    def unit(self) -> float:
        """What counts as one standard deviation of a whitened row: one, or with plain sums what the fit leaves."""
        if isinstance(self.weights, PoseNoise):
            return 1.0
        return float(np.sqrt(2.0 * self.solved.cost / max(self.freedoms, 1)))

    @property
    def freedoms(self) -> int:
        """How many independent errors are left to tell of the noise."""
        values = np.linalg.norm(self.solved.reduced.range, axis=1) > 0.5
        rows = sum(
            int((block.there & ~self.aside[:, number]).sum()) * size_of(block.rows)
            for number, block in enumerate(self.problem.blocks)
        )
        return rows - int(values.sum()) - self.problem.shared_count


def usual_sizes(problem: Problem) -> FloatArray:
    """Gives the usual size of each shared unknown, shape (n_shared,)."""
    sizes = np.ones(problem.shared_count)
    for name, columns in problem.shared_columns.items():
        if name == "offsets":
            sliding = problem.chains.sliding[problem.free]
            sizes[columns] = np.where(sliding, USUAL_LENGTH, USUAL_ANGLE)
        else:
            sizes[columns] = _USUAL[name.split(".")[0]]
    return sizes


@one_blas_thread()
def fit(problem: Problem, weights: Weights | None = None, *, robust: bool = True) -> Fit:
    """Fits a problem.

    Args:
        problem: The problem.
        weights: Noise that is known, or plain sums; by default noise is found from what the fit leaves.
        robust: Whether what does not fit is set aside, pose by pose.
    """
    chosen: Weights = PoseNoise() if weights is None else weights
    sizes = usual_sizes(problem)
    variances, encoder = row_variances(problem, chosen)
    aside = np.zeros((len(problem.poses), len(problem.blocks)), dtype=bool)
    counted = variances
    plain = not isinstance(chosen, PoseNoise)
    starts = starting_states(problem)
    tries = [solve(problem, state, counted, encoder, sizes, plain=plain) for state in starts]
    solved = min(tries, key=lambda each: each.cost)
    for number in range(_ROUNDS):
        if not isinstance(chosen, PoseNoise) or (weights is not None and not robust):
            break
        before, last = aside, chosen
        linear = solved.reduced.linear
        if robust:
            judged = row_variances(problem, chosen if weights is not None else _at_least_usual(chosen))
            # Until noise is found, by how much usual poses are noisier than usual noise.
            new = weights is None and number < _SOFT_ROUNDS
            scale = max(1.0, _scale(problem, linear, *judged)) if new else 1.0
            aside = find_aside(problem, linear, *judged, scale)
        if weights is None:
            chosen = find_noise(problem, linear, chosen, aside)
            variances, encoder = row_variances(problem, chosen)
        counted = without(problem, variances, aside)
        if robust and number < _SOFT_ROUNDS:
            # What is not set aside yet, but not at ease either, pulls less until the fit is nearly right.
            counted = counted / _soft(problem, linear, *judged)
        solved = solve(problem, solved.state, counted, encoder, sizes)
        if number >= _SOFT_ROUNDS and np.array_equal(aside, before) and _alike(chosen, last):
            break
    return Fit(problem, solved, chosen, weights is None, aside, counted, encoder)


def _alike(first: Weights, second: Weights) -> bool:
    return all(abs(value - getattr(second, name)) <= _ALIKE * value for name, value in vars(first).items())


def _at_least_usual(noise: PoseNoise) -> PoseNoise:
    """Gives the noise by which misfits are judged: what is off by no more than usual does no harm.

    Errors that last for seconds would otherwise be taken for misfits where they are large, and the rest for quiet.
    """
    usual = vars(PoseNoise())
    return PoseNoise(**{name: max(value, usual[name]) for name, value in vars(noise).items()})


def _soft(problem: Problem, linear: Linear, variances: FloatArray, encoder: float) -> FloatArray:
    """Gives weights of rows by [Huber 1964]: one within 1.5 standard deviations, less for what is farther off."""
    tests = hold_against_others(problem, linear, variances, encoder)
    away = np.sqrt(tests.squares / np.maximum(tests.freedoms, 1))
    weights = np.ones_like(variances)
    for number, (_, rows) in enumerate(parts_of(problem)):
        weights[:, rows] = np.minimum(1.0, _HUBER / np.maximum(away[:, number], 1e-12))[:, None]
    return weights


def _scale(problem: Problem, linear: Linear, variances: FloatArray, encoder: float) -> float:
    """Gives by how much usual poses are noisier than said: the median of squares over what it should be."""
    tests = hold_against_others(problem, linear, variances, encoder)
    ratios = tests.squares / chi2.median(np.maximum(tests.freedoms, 1))
    return float(np.median(ratios[tests.freedoms > 0])) if np.any(tests.freedoms > 0) else 1.0


def settle(problem: Problem, shared: State, weights: Weights) -> Solved:
    """Gives poses with given values of the shared unknowns; only their own are searched."""
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
    return settle_poses(problem, state, variances, encoder)
