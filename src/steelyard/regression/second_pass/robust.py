"""Samples that do not fit with the others count less: Huber's weights, as a second pass.

A foot that was kicked, a bit that was lost, a plug that was touched: a few samples far outside the noise wreck least
squares, which squares them. Here a sample whose whitened residual is farther out than usual counts in proportion to its
distance instead of its square [Huber, Annals of Mathematical Statistics 35, 1964]. All rows of a sample are judged
together, because whitening mixes them. Once that has settled, samples that are grossly off are left out [Hampel et al.,
Robust Statistics, 1986]: they still pull, each as hard as the limit allows, and a faulty sensor pulls one way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

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
"""Share of samples with plain Gaussian noise that keep their full weight; for a single row it would make Huber's
constant 1.96. The estimate is then within a few percent as precise as least squares where all samples fit."""

GROSS = 4.0
"""Multiple of the distance from which weights fall, beyond which a sample is no measurement and is left out."""

SETTLED = 0.01
"""Change of any weight below which they count as settled."""

_MOST_ROUNDS = 30
_FEWEST_SAMPLES = 8


@dataclass(frozen=True, eq=False)
class HuberWeights:
    """How much each sample counts.

    Attributes:
        weights: Shape (n,), from 0 to 1, and 0 for samples that are grossly off; what `gather_evidence` takes as
            `sample_weights`.
        distances: How far out each sample is at the end, as a multiple of where weights begin to fall, shape (n,).
        scale: Standard deviation of a whitened row, by the median of all samples: what the noise is without outliers.
        rounds: How many rounds it took.
        settled: Whether the last round changed no weight by more than 0.01.
    """

    weights: FloatArray
    distances: FloatArray
    scale: float
    rounds: int
    settled: bool

    def summary(self) -> str:
        """Gives in one sentence what was found."""
        usual = f"{100.0 * np.mean(self.weights < 1.0):.0f} % of {len(self.weights)} samples count less than fully"
        ending = "" if self.settled else f"; the weights did not settle in {self.rounds} rounds"
        out = int(np.count_nonzero(self.weights == 0.0))
        return f"{usual} ({100.0 * (1.0 - FULL):.0f} % would without outliers), {out} of them not at all{ending}."


def huber_weights(model: Model, motion: Motion, **options: Any) -> HuberWeights:
    """Gives the weights by which samples that do not fit count less.

    In turn, a fit with the weights so far, and weights ``min(1, c / d)`` from the distances ``d = ‖e_t‖ / s`` of its
    residual, until they settle; then the same without samples beyond ``4 c``. ``c²`` is the 95 % quantile of χ² with as
    many degrees of freedom as the sample has rows. The scale ``s`` comes from the median distance, which outliers
    hardly move.

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.

    Raises:
        IdentifiabilityError: There are too few samples to tell outliers from parameters.
        EvidenceError: As `gather_evidence`.
    """
    with one_blas_thread():
        first = begin_second_pass(model, motion, **options)
        said = _rows_that_say(first)
        spare = int(said.sum()) - first.system.width
        if np.count_nonzero(said) < _FEWEST_SAMPLES or spare < first.system.width // 5:
            raise IdentifiabilityError(
                f"{len(motion)} samples give {int(said.sum())} equations, too few to tell outliers from "
                f"{first.system.width - 1} parameters; record longer"
            )
        limits = np.sqrt(chi2.ppf(FULL, np.maximum(said, 1)))
        # The median sample of Gaussian noise, of whose residual the parameters took their share.
        middles = np.sqrt(chi2.median(np.maximum(said, 1)) * spare / said.sum())
        weights, current = np.ones(len(motion)), first
        rounds, change, greatest = 0, np.inf, np.inf
        while rounds < _MOST_ROUNDS:
            rounds += 1
            lengths = np.linalg.norm(first.residual(least_squares(current.evidence)), axis=1)
            scale = float(np.median((lengths / middles)[said > 0]))
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
    """Gives the Evidence of a motion in which samples that do not fit count less, with the variance that goes with it.

    The variance is Huber's: with ``ψ = w e`` the residual as it counts, ``mean(w) Σ ψ² / (n − p) / mean(ψ')²``. The sum
    of the weighted squares, which `identify` would take by itself, still has the outliers' distances in it.

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.
    """
    found = huber_weights(model, motion, **options)
    with one_blas_thread():
        last = begin_second_pass(model, motion, sample_weights=found.weights, **options)
        said = _rows_that_say(last)
        said = np.where(found.weights > 0.0, said, 0)
        counted = found.weights[:, None] * last.residual(least_squares(last.evidence))
        total = float(said.sum())
        # Beyond the limit a residual counts by its direction alone: one of its components in `said` is lost.
        slopes = np.where(found.weights < 1.0, found.weights * np.maximum(said - 1, 0), said)
        slope = float(slopes.sum()) / total
        freedom = max(1.0, total - (last.system.width - 1))
        mean = float(said @ found.weights) / total
        variance = mean * float(np.sum(np.square(counted))) / freedom / slope**2
        # A known variance is taken as that of independent samples.
        variance *= len(motion) / motion.effective_count
    return replace(last.evidence, variance=variance)


def _rows_that_say(first: SecondPass) -> FloatArray:
    """Gives how many rows of each sample are not used up by unknown forces, shape (n,)."""
    return np.concatenate(
        [np.any(first.rows(piece) != 0.0, axis=2).sum(axis=1) for piece in first.motion.chunks(CHUNK)]
    )
