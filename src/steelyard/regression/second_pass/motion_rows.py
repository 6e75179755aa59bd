"""Rows of a motion beside its Evidence, for second passes that need samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.motion import Motion, tree_motion
from steelyard.regression import gather_evidence
from steelyard.regression.gathering import build_system
from steelyard.regression.system import present_forces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.regression import Evidence
    from steelyard.regression.sensing import RowPlan
    from steelyard.regression.system import System

CHUNK = 512
"""Samples whose rows are held at a time. Set by judgement: 6 MB for a G1."""

SMALLEST = 1e-10
"""Share of the greatest singular value (of unit columns) below which one counts as zero: four digits above rounding."""

_GAP = 1.5
"""Sample periods beyond which a step of time is a gap: halfway between one sample and a missing one."""

_ROUNDS = 10
"""Most rounds of `least_squares`. Set by judgement: priors hardly change the variance."""

_SETTLED = 1e-3
"""Relative change of the variance at which `least_squares` has converged: far below its own uncertainty."""


@dataclass(frozen=True, eq=False)
class SecondPass:
    """A motion, the Evidence of a first pass over it, and the system that gives its rows again.

    Attributes:
        motion: The motion.
        evidence: The Evidence that was gathered from it.
        system: The map from samples to rows.
    """

    motion: Motion
    evidence: Evidence
    system: System

    @cached_property
    def plan(self) -> RowPlan:
        """The rows of every sample: those of the whole motion, of which some are zero in some stretches."""
        return self.system.plan(self.motion)

    def rows(self, motion: Motion) -> FloatArray:
        """Compute the rows ``[Y | nuisance | f]`` of some samples, shape (n, n_rows, n_columns)."""
        present, readings = present_forces(self.plan, motion), self.system.readings(motion)
        rows, _ = self.system.rows_of(self.plan, tree_motion(motion), present, readings)
        return rows.reshape(len(motion), -1, self.system.width)

    def residual(self, unknowns: FloatArray) -> FloatArray:
        """Compute ``f − [Y | nuisance] x``, projected and whitened as the rows are, shape (n, n_rows).

        Args:
            unknowns: ``x``: the independent parameters and the nuisance values, as `least_squares` returns them.
        """
        full = np.append(-unknowns, 1.0)
        return np.concatenate([self.rows(piece) @ full for piece in self.motion.chunks(CHUNK)])


def begin_second_pass(model: Model, motion: Motion, *, sample_weights: Any = None, **options: Any) -> SecondPass:
    """Gather Evidence from a motion, and keep what a second pass over its samples needs.

    Args:
        model: The model.
        motion: A single Motion.
        sample_weights: As `gather_evidence` takes them.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.

    Raises:
        EvidenceError: The motion is not a single Motion, or as `gather_evidence` raises.
    """
    if not isinstance(motion, Motion):
        raise EvidenceError(f"a second pass takes a single Motion, not {type(motion).__name__}")
    evidence = gather_evidence(model, motion, sample_weights=sample_weights, drift=False, **options)
    options.pop("workers", None)
    return SecondPass(motion, evidence, build_system(model, motion, **options))


def least_squares(evidence: Evidence) -> FloatArray:
    """Compute the least-squares estimate of independent parameters and nuisance values, side by side.

    Nuisances have their priors, weighed by the variance of the rows, which is known or estimated from the residual.
    Directions that the data do not excite stay at zero.
    """
    priors = np.concatenate([np.full(len(evidence.independent), np.inf), np.array(evidence.key.priors)])
    matrix, right = evidence.factor[:, :-1], evidence.factor[:, -1]
    freedom = max(1.0, evidence.row_count - matrix.shape[1])
    held = np.isfinite(priors)
    variance = 1.0 if evidence.variance is None else evidence.variance
    found = np.zeros(matrix.shape[1])
    for _ in range(_ROUNDS):
        before = variance
        holds = np.diag(np.sqrt(variance) / priors)[held]
        found = solve_scaled(np.concatenate([matrix, holds]), np.append(right, np.zeros(len(holds))))
        if evidence.variance is None:
            variance = float(np.sum(np.square(right - matrix @ found))) / freedom
        if not held.any() or abs(variance - before) <= _SETTLED * variance:
            break
    return found


def solve_scaled(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve least squares with columns scaled to unit length; shape (n_columns,) or (n_columns, m)."""
    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0.0] = 1.0
    solution = np.linalg.lstsq(matrix / lengths, right, rcond=SMALLEST)[0]
    return np.asarray(solution / (lengths if right.ndim == 1 else lengths[:, None]))


def whitening_basis(triangle: FloatArray) -> FloatArray:
    """Compute ``T`` with ``(Z T)ᵀ (Z T) = 1`` for rows ``Z`` whose triangular factor is given, shape (n, rank)."""
    lengths = np.linalg.norm(triangle, axis=0)
    lengths[lengths == 0.0] = 1.0
    _, values, right = np.linalg.svd(triangle / lengths)
    kept = values > SMALLEST * values[0] if values[0] > 0.0 else np.zeros(len(values), dtype=np.bool_)
    return np.asarray(right[kept].T / values[kept] / lengths[:, None])


def gapless_ranges(motion: Motion) -> Iterator[tuple[int, int]]:
    """Yield the ranges of samples without a gap between them: first sample, and one after the last."""
    cuts = np.flatnonzero(np.diff(motion.time) > _GAP / motion.sample_rate) + 1
    yield from zip([0, *cuts.tolist()], [*cuts.tolist(), len(motion)], strict=True)
