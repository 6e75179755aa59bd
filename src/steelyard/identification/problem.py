"""The reduced problem that every estimator solves: a few hundred unknowns, nuisances eliminated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError

if TYPE_CHECKING:
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.model.parameters import FloatArray
    from steelyard.regression import Evidence

_SETTLED = 1e-3
_MOST_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Problem:
    """The least-squares problem ``min ‖matrix z − right‖²`` of some Evidence, over the unknowns of a parameter set.

    Nuisance columns and their priors are eliminated: for each ``z`` they take their best values. The priors are
    weighed against the rows by the rows' variance, which the residual tells.

    Attributes:
        evidence: The Evidence.
        unknowns: The parameter set.
        matrix: ``A``, shape (n_rows, n_unknowns).
        right: ``b``: what the start leaves to be explained, shape (n_rows,).
        rest: The part of the cost that no ``z`` can explain.
        rank: Of ``A``, nuisances counted.
        variance: Of a row, from the residual, or as the Evidence knows it.
        freedom: Degrees of freedom of that variance; infinite where it is known.
        nuisance_map: How nuisance values follow: ``ν = nuisance_map @ [z, 1]``, shape (n_nuisance, n_unknowns + 1).
    """

    evidence: Evidence
    unknowns: ParameterSet
    matrix: FloatArray
    right: FloatArray
    rest: float
    rank: int
    variance: float
    freedom: float
    nuisance_map: FloatArray

    @property
    def inflation(self) -> float:
        """How many samples one independent sample is spread over."""
        return self.evidence.sample_count / self.evidence.effective_count

    @property
    def noise(self) -> float:
        """Standard deviation by which a direction of unit singular value is uncertain."""
        return float(np.sqrt(self.variance * (1.0 if self.evidence.variance is not None else self.inflation)))

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of each column, shape (n_unknowns,)."""
        return np.asarray(np.linalg.norm(self.matrix, axis=0))

    def cost(self, unknowns: FloatArray) -> float:
        """Gives ``‖Y φ − f‖²`` at values of the unknowns, nuisances at their best."""
        return self.rest + float(np.sum(np.square(self.matrix @ unknowns - self.right)))

    def nuisance(self, unknowns: FloatArray) -> dict[str, float]:
        """Gives the best nuisance values, by name, at values of the unknowns."""
        values = self.nuisance_map @ np.append(unknowns, 1.0)
        return dict(zip(self.evidence.key.nuisance, values.tolist(), strict=True))


def build_problem(evidence: Evidence, unknowns: ParameterSet) -> Problem:
    """Gives the reduced problem of some Evidence.

    Raises:
        IdentifiabilityError: There are fewer independent equations than unknowns that they can tell apart.
    """
    full = evidence.full_factor
    count = evidence.parameter_count
    columns = full[:, :count] @ unknowns.transform
    right = full[:, -1] - full[:, :count] @ unknowns.start
    beside = full[:, count:-1]
    priors = np.array(evidence.key.priors, dtype=np.float64)
    inflation = evidence.sample_count / evidence.effective_count
    equations = evidence.row_count / inflation
    variance, freedom, rank = 0.0, np.inf, 0
    for _ in range(_MOST_ROUNDS):
        before = variance
        system, weighed = _eliminate(columns, beside, right, np.sqrt(variance) / priors)
        kept = np.asarray(np.linalg.qr(system, mode="r"))
        matrix, answer = kept[:, :-1], kept[:, -1]
        rank = _rank(matrix) + weighed
        if evidence.variance is not None:
            variance = evidence.variance
        else:
            freedom = equations - rank
            if freedom < 1.0:
                raise IdentifiabilityError(
                    f"{evidence.sample_count} samples give {equations:.0f} independent equations, too few for the "
                    f"{rank} combinations of parameters that they touch; record longer, or look for fewer parameters"
                )
            residual = answer - matrix @ np.linalg.lstsq(matrix, answer, rcond=1e-12)[0]
            variance = float(residual @ residual) / inflation / freedom
        if not np.any(np.isfinite(priors)) or abs(variance - before) <= _SETTLED * variance:
            break
    explained = matrix[: len(unknowns)], answer[: len(unknowns)]
    rest = float(np.sum(np.square(answer[len(unknowns) :])))
    prior_rows = np.diag(np.sqrt(variance) / priors) if len(priors) else np.zeros((0, 0))
    stacked = np.concatenate([beside, prior_rows])
    asked = np.concatenate(
        [np.concatenate([-columns, right[:, None]], axis=1), np.zeros((len(priors), len(unknowns) + 1))]
    )
    nuisance_map = np.linalg.lstsq(stacked, asked, rcond=1e-12)[0] if len(priors) else np.zeros((0, len(unknowns) + 1))
    return Problem(evidence, unknowns, *explained, rest, rank, variance, freedom, nuisance_map)


def _eliminate(
    columns: FloatArray, beside: FloatArray, right: FloatArray, priors: FloatArray
) -> tuple[FloatArray, int]:
    """Gives ``[A | b]`` with nuisance columns projected out, and how many directions that took from the data."""
    system = np.concatenate([columns, right[:, None]], axis=1)
    if beside.shape[1] == 0:
        return system, 0
    stacked = np.concatenate([beside, np.diag(priors)])
    padded = np.concatenate([system, np.zeros((len(priors), system.shape[1]))])
    basis, values, _ = np.linalg.svd(stacked, full_matrices=False)
    basis = basis[:, values > 1e-12 * np.max(values, initial=0.0)]
    left = padded - basis @ (basis.T @ padded)
    # A direction that its prior decides takes nothing from the data.
    return left, round(float(np.sum(np.square(basis[: len(beside)]))))


def _rank(matrix: FloatArray) -> int:
    lengths = np.linalg.norm(matrix, axis=0)
    used = lengths > 1e-12 * np.max(lengths, initial=0.0)
    if not np.any(used):
        return 0
    values = np.linalg.svd(matrix[:, used] / lengths[used], compute_uv=False)
    return int(np.count_nonzero(values > 1e-8 * values[0]))
