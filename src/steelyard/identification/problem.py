"""The reduced problem that every estimator solves: a few hundred unknowns, nuisances eliminated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.regression import singular_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.regression import Evidence

_SETTLED = 1e-3
_MOST_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class NuisanceAnswer:
    """How a problem changes where its rows become louder, and the priors of its nuisances do not.

    It is about orthonormal combinations of the nuisances, scaled by what rows and priors say of them together.

    Attributes:
        shares: How much of each combination the priors decide, 0 to 1, shape (p,).
        rows: ``[Y | f]`` along these combinations, shape (p, 10 n_links + 1).
        best: Their values where parameters are free, shape (p,).
        known: The second derivatives of the cost there, halved, shape (p, p).
        noise: Of the rows, by which priors were weighed: the problem's, but for where its search ended.
    """

    shares: FloatArray
    rows: FloatArray
    best: FloatArray
    known: FloatArray
    noise: float

    def gains(self, factor: float) -> FloatArray:
        """Gives what of the squares of `rows` comes back where rows are `factor` times as loud, shape (p,)."""
        weaker = (factor**2 - 1.0) * self.shares
        return np.asarray(weaker / (1.0 + weaker))

    def cost(self, factor: float) -> float:
        """Gives by how much the least cost is greater then."""
        weaker = (factor**2 - 1.0) * self.shares
        pull = weaker * self.best
        return float(self.best @ pull - pull @ np.linalg.solve(self.known + np.diag(weaker), pull))


@dataclass(frozen=True, eq=False)
class Problem:
    """The least-squares problem ``min ‖matrix z − right‖²`` of some Evidence, over the unknowns of a parameter set.

    Nuisance columns and their priors are eliminated: for each ``z`` they take their best values. The priors are
    weighed against the rows by the rows' variance, which the residual tells.

    Attributes:
        evidence: The Evidence.
        unknowns: The parameter set.
        system: ``[Y | f]`` for all parameters, nuisances eliminated, shape (n_rows, 10 n_links + 1).
        rank: Of the unknowns' columns, and of what nuisances took from the data.
        column_rank: Of the unknowns' columns alone.
        least: ``‖matrix z − right‖²`` at its least.
        variance: Of a row, from the residual, or as the Evidence knows it.
        freedom: Degrees of freedom of that variance; infinite where it is known.
        answer: What louder rows do to it; None without nuisances, or where it was asked already.
    """

    evidence: Evidence
    unknowns: ParameterSet
    system: FloatArray
    rank: int
    column_rank: int
    least: float
    variance: float
    freedom: float
    answer: NuisanceAnswer | None = None

    @cached_property
    def matrix(self) -> FloatArray:
        """``A``, shape (n_rows, n_unknowns)."""
        return np.asarray(self.system[:, :-1] @ self.unknowns.transform)

    @cached_property
    def right(self) -> FloatArray:
        """``b``: what the start leaves to be explained, shape (n_rows,)."""
        return np.asarray(self.system[:, -1] - self.system[:, :-1] @ self.unknowns.start)

    @cached_property
    def lengths(self) -> FloatArray:
        """Length of each column of ``A``, shape (n_unknowns,)."""
        return np.asarray(np.linalg.norm(self.matrix, axis=0))

    @property
    def noise(self) -> float:
        """Standard deviation by which a direction of unit singular value is uncertain; dependent samples count less."""
        known = self.evidence.variance is not None
        return float(np.sqrt(self.variance * (1.0 if known else _inflation(self.evidence))))

    @cached_property
    def mass_scale(self) -> float:
        """The factor on all of the reference that explains the data best, sensors taken at their word."""
        full = self.evidence.full_factor
        pushed = full[:, : self.evidence.parameter_count] @ self.unknowns.reference
        size = float(pushed @ pushed)
        return float(pushed @ full[:, -1]) / size if size > 0.0 else 1.0

    @cached_property
    def beside(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``A``, ``b`` and the nuisance columns with a prior, as they stand before these are eliminated.

        The columns are scaled by their priors, so that one means as far as the prior expects. Nuisances without a prior
        are eliminated.
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
        """Gives ``‖Y φ − f‖²`` at parameters (n_links, 10) or flat, nuisances at their best, their priors counted."""
        residual = self.system @ np.append(np.ravel(parameters), -1.0)
        return float(residual @ residual)

    @cached_property
    def whole_lengths(self) -> FloatArray:
        """Length of each unknown's column before nuisances took their part, shape (n_unknowns,)."""
        full = self.evidence.full_factor[:, : self.evidence.parameter_count]
        return np.asarray(np.linalg.norm(full @ self.unknowns.transform, axis=0))

    @property
    def touched(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which unknowns the data touch: more than rounding is left of their columns, shape (n_unknowns,)."""
        largest = np.max(self.whole_lengths, initial=0.0)
        return np.asarray((self.lengths > 1e-9 * self.whole_lengths) & (self.lengths > 1e-12 * largest))

    def louder(self, factor: float) -> Problem:
        """Gives the problem with nuisances eliminated as rows that are `factor` times as loud leave them.

        Rows are not divided by that; whoever does so finds the priors as wide as they were stated.
        """
        if self.answer is None:
            return self
        system, *_ = _eliminate(self.evidence, factor * self.answer.noise / np.array(self.evidence.key.priors))
        return replace(self, system=system, least=self.least + self.answer.cost(factor), answer=None)

    def nuisance(self, parameters: FloatArray, factor: float = 1.0) -> dict[str, float]:
        """Gives the best nuisance values, by name, at some parameters; rows are `factor` times as loud as they seem."""
        key, full = self.evidence.key, self.evidence.full_factor
        if not key.nuisance:
            return {}
        count = self.evidence.parameter_count
        left = full[:, -1] - full[:, :count] @ np.ravel(parameters)
        weights = factor * self.noise / np.array(key.priors)
        stacked = np.concatenate([full[:, count:-1], np.diag(weights)])
        values = np.linalg.lstsq(stacked, np.concatenate([left, np.zeros(len(weights))]), rcond=1e-12)[0]
        return dict(zip(key.nuisance, values.tolist(), strict=True))


def build_problem(evidence: Evidence, unknowns: ParameterSet, *, few: bool = False) -> Problem:
    """Gives the reduced problem of some Evidence.

    Args:
        evidence: The Evidence.
        unknowns: What is looked for.
        few: Whether there may be too few equations to tell the noise, for methods that have a prior: the noise is then
            what the weights say.

    Raises:
        IdentifiabilityError: There are fewer independent equations than unknowns that they can tell apart.
    """
    priors = np.array(evidence.key.priors, dtype=np.float64)
    silent = not np.any(evidence.full_factor[:, -1])
    if silent and (not few or np.any(evidence.full_factor)):
        raise IdentifiabilityError(
            "every measured force is zero: the sensors say nothing; check that they are connected"
        )
    inflation = _inflation(evidence)
    equations = evidence.row_count / inflation
    # Whitened rows have about unit variance; of plain sums nothing is known yet.
    variance, freedom = (1.0 if evidence.key.weights else 0.0), np.inf
    for _ in range(_MOST_ROUNDS):
        before = variance
        known = evidence.variance is not None
        system, taken, basis = _eliminate(evidence, np.sqrt(variance * (1.0 if known else inflation)) / priors)
        problem = Problem(evidence, unknowns, system, 0, 0, 0.0, variance, freedom)
        columns, residual, answer = _fit(problem, basis)
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
                    f"{evidence.sample_count} samples give {equations:.0f} independent equations, too few for the "
                    f"{rank} combinations of parameters that they touch; record longer, or look for fewer parameters"
                )
            variance = residual / inflation / freedom
        if not np.any(np.isfinite(priors)) or abs(variance - before) <= _SETTLED * variance:
            break
    return Problem(evidence, unknowns, system, rank, columns, residual, variance, freedom, answer)


def _inflation(evidence: Evidence) -> float:
    """Gives how many samples one independent sample is spread over."""
    return evidence.sample_count / evidence.effective_count


def _eliminate(evidence: Evidence, priors: FloatArray) -> tuple[FloatArray, int, FloatArray]:
    """Gives ``[Y | f]`` with nuisance columns projected out, how many directions that took from the data, and these.

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
    # A direction that its prior decides takes nothing from the data.
    return left, round(float(np.sum(np.square(basis[: len(full)])))), basis


def _fit(problem: Problem, taken: FloatArray) -> tuple[int, float, NuisanceAnswer | None]:
    """Gives the rank of the unknowns' columns, the cost that is left at their best values, and how nuisances answer.

    Args:
        problem: The problem.
        taken: The directions that nuisances took, as `_eliminate` gives them.
    """
    lengths, used = problem.lengths, problem.touched
    if not np.any(used):
        return 0, float(problem.right @ problem.right), None
    basis, values, right = singular_vectors(problem.matrix[:, used] / lengths[used])
    seen = values > 1e-8 * values[0]
    basis = basis[:, seen]
    explained = basis.T @ problem.right
    residual = problem.right - basis @ explained
    answer = None
    if taken.shape[1]:
        evidence, unknowns = problem.evidence, problem.unknowns
        full, count = evidence.full_factor, evidence.parameter_count
        shares, turn = np.linalg.eigh(taken[len(full) :].T @ taken[len(full) :])
        rows = turn.T @ taken[: len(full)].T @ np.column_stack([full[:, :count], full[:, -1]])
        # How far nuisances go along where unknowns go by one of what the data tell of them.
        along = (rows[:, :-1] @ unknowns.transform[:, used] / lengths[used]) @ (right[seen].T / values[seen])
        best = rows[:, -1] - rows[:, :-1] @ unknowns.start - along @ explained
        known = np.linalg.inv(np.eye(len(shares)) + along @ along.T)
        answer = NuisanceAnswer(np.clip(shares, 0.0, 1.0), rows, best, known, problem.noise)
    return basis.shape[1], float(residual @ residual), answer
