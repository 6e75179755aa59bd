"""The reduced least-squares problem behind every method: a few hundred unknowns, nuisances eliminated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.regression import singular_vectors

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.regression import Evidence

_SETTLED = 1e-3
"""Relative change at which a variance has converged. Set by judgement: it is known to some percent."""

_MOST_ROUNDS = 20
"""Most rounds between variance and nuisances. Set by judgement."""


@dataclass(frozen=True, eq=False)
class NuisanceResponse:
    """How a problem changes with the noise scale of its rows, the priors of its nuisances fixed.

    It is in orthonormal combinations of the nuisances, scaled by the precision of rows and priors together.

    Attributes:
        shares: Share of each combination that the priors decide, 0 to 1, shape (p,).
        rows: ``[Y | f]`` along these combinations, shape (p, 10 n_links + 1).
        best: Their values where parameters are free, shape (p,).
        known: Half the Hessian of the cost there, shape (p, p).
        noise: Of the rows, by which priors were weighted; the problem's up to convergence.
    """

    shares: FloatArray
    rows: FloatArray
    best: FloatArray
    known: FloatArray
    noise: float

    def gains(self, factor: float) -> FloatArray:
        """Return the share of the squares of `rows` that returns to the data at a noise scale, shape (p,)."""
        weaker = (factor**2 - 1.0) * self.shares
        return np.asarray(weaker / (1.0 + weaker))

    def cost(self, factor: float) -> float:
        """Return the increase of the least cost at a noise scale."""
        weaker = (factor**2 - 1.0) * self.shares
        pull = weaker * self.best
        return float(self.best @ pull - pull @ np.linalg.solve(self.known + np.diag(weaker), pull))


@dataclass(frozen=True, eq=False)
class Problem:
    """The least-squares problem ``min ‖matrix z − right‖²`` of some Evidence, over the unknowns of a parameter set.

    Nuisance columns and their priors are eliminated: for each ``z`` they take their best values. The priors are
    weighted against the rows by the rows' variance, which is estimated from the residual.

    Attributes:
        evidence: The Evidence.
        unknowns: The parameter set.
        system: ``[Y | f]`` for all parameters, nuisances eliminated, shape (n_rows, 10 n_links + 1).
        rank: Of the unknowns' columns, and of the nuisances eliminated by data.
        column_rank: Of the unknowns' columns alone.
        least: ``‖matrix z − right‖²`` at its least.
        variance: Of a row, from the residual, or as the Evidence states it.
        freedom: Degrees of freedom of that variance; infinite where it is known.
        nuisance_response: Its change with the noise scale; None without nuisances, or where it was applied.
    """

    evidence: Evidence
    unknowns: ParameterSet
    system: FloatArray
    rank: int
    column_rank: int
    least: float
    variance: float
    freedom: float
    nuisance_response: NuisanceResponse | None = None

    @cached_property
    def matrix(self) -> FloatArray:
        """``A``, shape (n_rows, n_unknowns)."""
        return np.asarray(self.system[:, :-1] @ self.unknowns.transform)

    @cached_property
    def right(self) -> FloatArray:
        """``b``: the residual of the start, shape (n_rows,)."""
        return np.asarray(self.system[:, -1] - self.system[:, :-1] @ self.unknowns.start)

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of each column of ``A``, shape (n_unknowns,)."""
        return np.asarray(np.linalg.norm(self.matrix, axis=0))

    @property
    def noise(self) -> float:
        """Standard error of a direction of unit singular value; correlated samples count less."""
        known = self.evidence.variance is not None
        return float(np.sqrt(self.variance * (1.0 if known else _inflation(self.evidence))))

    @cached_property
    def mass_scale(self) -> float:
        """The factor on the whole reference that explains the data best, without sensor errors."""
        full = self.evidence.full_factor
        pushed = full[:, : self.evidence.parameter_count] @ self.unknowns.reference
        size = float(pushed @ pushed)
        return float(pushed @ full[:, -1]) / size if size > 0.0 else 1.0

    @cached_property
    def with_nuisances(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``A``, ``b`` and the nuisance columns with a prior, before these are eliminated.

        The columns are scaled by their priors. Nuisances without a prior are eliminated.
        """
        evidence, unknowns = self.evidence, self.unknowns
        priors = np.array(evidence.key.priors, dtype=np.float64)
        held = np.isfinite(priors)
        full, count = evidence.full_factor, evidence.parameter_count
        kept = np.concatenate([full[:, :count], full[:, count:-1][:, held] * priors[held], full[:, -1:]], axis=1)
        if not np.all(held):
            basis, values, _ = singular_vectors(full[:, count:-1][:, ~held])
            basis = basis[:, values > 1e-12 * np.max(values, initial=0.0)]
            kept = kept - basis @ (basis.T @ kept)
        columns = kept[:, :count]
        return columns @ unknowns.transform, kept[:, -1] - columns @ unknowns.start, kept[:, count:-1]

    def cost(self, parameters: FloatArray) -> float:
        """Return ``‖Y φ − f‖²`` at parameters (n_links, 10) or flat, nuisances at their best, their priors counted."""
        residual = self.system @ np.append(np.ravel(parameters), -1.0)
        return float(residual @ residual)

    @cached_property
    def whole_lengths(self) -> FloatArray:
        """Length of each unknown's column before nuisances are eliminated, shape (n_unknowns,)."""
        full = self.evidence.full_factor[:, : self.evidence.parameter_count]
        return np.asarray(np.linalg.norm(full @ self.unknowns.transform, axis=0))

    @property
    def touched(self) -> BoolArray:
        """Which unknowns the data depend on: more than rounding is left of their columns, shape (n_unknowns,)."""
        largest = np.max(self.whole_lengths, initial=0.0)
        return np.asarray((self.lengths > 1e-9 * self.whole_lengths) & (self.lengths > 1e-12 * largest))

    def with_noise_scale(self, factor: float) -> Problem:
        """Return the problem with nuisances eliminated at a noise scale.

        Rows are not divided by it; once they are, the priors are as wide as stated.
        """
        if self.nuisance_response is None:
            return self
        response = self.nuisance_response
        system, *_ = _eliminate(self.evidence, factor * response.noise / np.array(self.evidence.key.priors))
        return replace(self, system=system, least=self.least + response.cost(factor), nuisance_response=None)

    def best_nuisances(self, factor: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the best nuisance values as a function of the parameters, ``constant + gain φ``, at a noise scale.

        Returns:
            The constant, shape (n_nuisances,), and the gain, shape (n_nuisances, 10 n_links).
        """
        key, full = self.evidence.key, self.evidence.full_factor
        count = self.evidence.parameter_count
        if not key.nuisance:
            return np.zeros(0), np.zeros((0, count))
        weights = factor * self.noise / np.array(key.priors)
        stacked = np.concatenate([full[:, count:-1], np.diag(weights)])
        right = np.concatenate([full[:, -1:], -full[:, :count]], axis=1)
        padded = np.concatenate([right, np.zeros((len(weights), right.shape[1]))])
        values = np.linalg.lstsq(stacked, padded, rcond=1e-12)[0]
        return values[:, 0], values[:, 1:]


def build_problem(evidence: Evidence, unknowns: ParameterSet, *, few: bool = False) -> Problem:
    """Return the reduced problem of some Evidence.

    Args:
        evidence: The Evidence.
        unknowns: What is looked for.
        few: Whether there may be too few equations to estimate the noise, for methods that have a prior: the noise is
            then that of the weights.

    Raises:
        IdentifiabilityError: There are fewer independent equations than observable combinations of unknowns.
    """
    priors = np.array(evidence.key.priors, dtype=np.float64)
    silent = not np.any(evidence.full_factor[:, -1])
    if silent and (not few or np.any(evidence.full_factor)):
        raise IdentifiabilityError("every measured force is zero; check that the sensors are connected")
    inflation = _inflation(evidence)
    equations = evidence.row_count / inflation - evidence.spent
    # Whitened rows have about unit variance; that of plain sums is not known yet.
    variance, freedom = (1.0 if evidence.key.weights else 0.0), np.inf
    for _ in range(_MOST_ROUNDS):
        before = variance
        known = evidence.variance is not None
        system, taken, basis = _eliminate(evidence, np.sqrt(variance * (1.0 if known else inflation)) / priors)
        problem = Problem(evidence, unknowns, system, 0, 0, 0.0, variance, freedom)
        columns, residual, nuisance_response = _fit(problem, basis)
        rank = columns + taken
        if evidence.variance is not None:
            variance = evidence.variance
        else:
            freedom = equations - rank
            if few and (columns == 0 or (freedom < 1.0 and evidence.key.weights)):
                freedom = max(freedom, 0.0)
                variance = 1.0
                break
            if freedom < 1.0:
                raise IdentifiabilityError(
                    f"{evidence.sample_count} samples give {equations:.0f} independent equations, too few for {rank} "
                    "observable combinations of parameters; record longer, or look for fewer parameters"
                )
            variance = residual / inflation / freedom
        if not np.any(np.isfinite(priors)) or abs(variance - before) <= _SETTLED * variance:
            break
    return Problem(evidence, unknowns, system, rank, columns, residual, variance, freedom, nuisance_response)


def _inflation(evidence: Evidence) -> float:
    """Return the number of samples per independent one."""
    return evidence.sample_count / evidence.effective_count


def _eliminate(evidence: Evidence, priors: FloatArray) -> tuple[FloatArray, int, FloatArray]:
    """Return ``[Y | f]`` with nuisance columns projected out, the rank that this took, and the directions.

    The directions are orthonormal columns over the rows and, after them, one row for each prior.
    """
    full, count = evidence.full_factor, evidence.parameter_count
    system = np.concatenate([full[:, :count], full[:, -1:]], axis=1)
    if not len(priors):
        return system, 0, np.zeros((len(full), 0))
    stacked = np.concatenate([full[:, count:-1], np.diag(priors)])
    padded = np.concatenate([system, np.zeros((len(priors), system.shape[1]))])
    basis, values, _ = singular_vectors(stacked)
    basis = basis[:, values > 1e-12 * np.max(values, initial=0.0)]
    left = padded - basis @ (basis.T @ padded)
    # A direction that its prior decides takes no rank from the data.
    return left, round(float(np.sum(np.square(basis[: len(full)])))), basis


def _fit(problem: Problem, taken: FloatArray) -> tuple[int, float, NuisanceResponse | None]:
    """Return the rank of the unknowns' columns, the least cost, and the response of nuisances to the noise scale.

    Args:
        problem: The problem.
        taken: The directions of the nuisances, as `_eliminate` returns them.
    """
    lengths, used = problem.lengths, problem.touched
    if not np.any(used):
        return 0, float(problem.right @ problem.right), None
    basis, values, right = singular_vectors(problem.matrix[:, used] / lengths[used])
    seen = values > 1e-8 * values[0]
    basis = basis[:, seen]
    explained = basis.T @ problem.right
    residual = problem.right - basis @ explained
    nuisance_response = None
    if taken.shape[1]:
        evidence, unknowns = problem.evidence, problem.unknowns
        full, count = evidence.full_factor, evidence.parameter_count
        shares, turn = np.linalg.eigh(taken[len(full) :].T @ taken[len(full) :])
        rows = turn.T @ taken[: len(full)].T @ np.column_stack([full[:, :count], full[:, -1]])
        # Derivative of the nuisances by observable combinations of the unknowns.
        along = (rows[:, :-1] @ unknowns.transform[:, used] / lengths[used]) @ (right[seen].T / values[seen])
        best = rows[:, -1] - rows[:, :-1] @ unknowns.start - along @ explained
        known = np.linalg.inv(np.eye(len(shares)) + along @ along.T)
        nuisance_response = NuisanceResponse(np.clip(shares, 0.0, 1.0), rows, best, known, problem.noise)
    return basis.shape[1], float(residual @ residual), nuisance_response
