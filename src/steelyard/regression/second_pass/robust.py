"""Robust weights of samples by Huber's method, as a second pass.

A foot that was kicked, a bit that was lost, a plug that was touched: a few outliers ruin least squares, which squares
them. Here a sample whose whitened residual is large counts in proportion to its norm instead of its square [Huber,
Annals of Mathematical Statistics 35, 1964]. All rows of a sample are weighed together, because whitening mixes them.
After convergence, gross outliers are left out [Hampel et al., Robust Statistics, 1986]: each still has the greatest
influence that the weights allow, and those of a faulty sensor all have the same sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincinv

from steelyard.exceptions import IdentifiabilityError
from steelyard.kinematics import one_blas_thread
from steelyard.regression.second_pass.motion_rows import CHUNK, begin_second_pass, least_squares

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import Evidence
    from steelyard.regression.second_pass.motion_rows import SecondPass

FULL = 0.95
"""Share of samples with Gaussian noise that keep full weight; for a single row it makes Huber's constant 1.96. Without
outliers the estimate is then within a few percent as precise as least squares."""

GROSS = 4.0
"""Multiple of the distance at which weights begin to fall, beyond which a sample is left out. Set by judgement: some
eight standard deviations of a single row, which Gaussian noise never reaches."""

SETTLED = 0.01
"""Change of any weight below which they have converged. Set by judgement: far below its effect on the estimate."""

_MOST_ROUNDS = 30
"""Most rounds. Set by judgement: weights that have not converged by then are reported as such."""

_FEWEST_SAMPLES = 8
"""Fewest samples whose median is used as a scale. Set by judgement."""


@dataclass(frozen=True, eq=False)
class HuberWeights:
    """Weights of the samples of a motion.

    Attributes:
        weights: From 0 to 1, and 0 for gross outliers, shape (n,); `sample_weights` of `gather_evidence`.
        distances: Norm of each sample's final residual, as a multiple of where weights begin to fall, shape (n,).
        scale: Standard deviation of a whitened row, by the median of all samples: the noise without outliers.
        rounds: Number of rounds.
        settled: Whether the last round changed no weight by more than `SETTLED`.
    """

    weights: FloatArray
    distances: FloatArray
    scale: float
    rounds: int
    settled: bool

    def summary(self) -> str:
        """Return a summary in one sentence."""
        usual = f"{100.0 * np.mean(self.weights < 1.0):.0f} % of {len(self.weights)} samples count less than fully"
        ending = "" if self.settled else f"; the weights did not settle in {self.rounds} rounds"
        out = int(np.count_nonzero(self.weights == 0.0))
        return f"{usual} ({100.0 * (1.0 - FULL):.0f} % would without outliers), {out} of them not at all{ending}."


def huber_weights(model: Model, motion: Motion, **options: Any) -> HuberWeights:
    """Compute robust weights of samples.

    Fits alternate with weights ``min(1, c / d)`` from the distances ``d = ‖e_t‖ / s`` of their residuals, until they
    converge; then the same without samples beyond ``4 c``. ``c²`` is the 95 % quantile of χ² with as many degrees of
    freedom as the sample has rows. The scale ``s`` comes from the median distance, which is robust to outliers.

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.

    Raises:
        IdentifiabilityError: There are too few samples to separate outliers from parameters.
        EvidenceError: As `gather_evidence`.
    """
    with one_blas_thread():
        first = begin_second_pass(model, motion, **options)
        rows = _count_rows(first)
        spare = int(rows.sum()) - first.system.width
        if np.count_nonzero(rows) < _FEWEST_SAMPLES or spare < first.system.width // 5:
            raise IdentifiabilityError(
                f"{len(motion)} samples give {int(rows.sum())} equations, too few to separate outliers from "
                f"{first.system.width - 1} parameters; record longer"
            )
        limits = np.sqrt(_chi_squared(FULL, rows))
        # The median sample of Gaussian noise, less the share of its residual that the parameters absorb.
        middles = np.sqrt(_chi_squared(0.5, rows) * spare / rows.sum())
        weights, current = np.ones(len(motion)), first
        rounds, change, greatest = 0, np.inf, np.inf
        while rounds < _MOST_ROUNDS:
            rounds += 1
            lengths = np.linalg.norm(first.residual(least_squares(current.evidence)), axis=1)
            scale = float(np.median((lengths / middles)[rows > 0]))
            distances = lengths / (max(scale, np.finfo(np.float64).tiny) * limits)
            wanted = np.where(distances > greatest, 0.0, 1.0 / np.maximum(distances, 1.0))
            change = float(np.max(np.abs(wanted - weights)))
            weights = wanted
            if change <= SETTLED:
                if greatest == GROSS or not np.any(distances > GROSS):
                    break
                greatest = GROSS
                weights = np.where(distances > greatest, 0.0, weights)
            current = begin_second_pass(model, motion, sample_weights=weights, **options)
    weights.setflags(write=False)
    return HuberWeights(weights, distances, scale, rounds, change <= SETTLED)


def gather_robust(model: Model, motion: Motion, **options: Any) -> Evidence:
    """Gather the Evidence of a motion with robust weights, and the variance that goes with them.

    The variance is Huber's: with ``ψ = w e`` the residual as it counts, ``mean(w) Σ ψ² / (n − p) / mean(ψ')²``. The sum
    of the weighted squares, which `identify` would use by default, still contains the outliers' distances.

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.
    """
    found = huber_weights(model, motion, **options)
    with one_blas_thread():
        last = begin_second_pass(model, motion, sample_weights=found.weights, **options)
        rows = _count_rows(last)
        rows = np.where(found.weights > 0.0, rows, 0)
        counted = found.weights[:, None] * last.residual(least_squares(last.evidence))
        total = float(rows.sum())
        # Beyond the limit a residual counts by its direction alone: one of its components is lost.
        slopes = np.where(found.weights < 1.0, found.weights * np.maximum(rows - 1, 0), rows)
        slope = float(slopes.sum()) / total
        freedom = max(1.0, total - (last.system.width - 1))
        mean = float(rows @ found.weights) / total
        variance = mean * float(np.sum(np.square(counted))) / freedom / slope**2
        # A known variance is that of independent samples.
        variance *= len(motion) / motion.effective_count
    return replace(last.evidence, variance=variance)


def _count_rows(first: SecondPass) -> FloatArray:
    """Return how many rows of each sample are not used up by unknown forces, shape (n,)."""
    return np.concatenate(
        [np.any(first.rows(piece) != 0.0, axis=2).sum(axis=1) for piece in first.motion.chunks(CHUNK)]
    )


def _chi_squared(share: float, freedoms: FloatArray) -> FloatArray:
    """Return quantiles of chi-squared distributions; scipy.stats, which has them too, is slow to import."""
    return np.asarray(2.0 * gammaincinv(0.5 * np.maximum(freedoms, 1), share))
