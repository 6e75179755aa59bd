"""Base parameters: the combinations of parameters that the data determine, and their statistics.

[iwasaki2012] (3), [baelemans2013] (6)-(8), (12)-(15).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr
from scipy.special import fdtri, ndtri, stdtrit

from steelyard.exceptions import IdentifiabilityError
from steelyard.regression import RANK_FLOOR, dependence_on, leading_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem

    IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]
    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

WELL_IDENTIFIED = 15.0
"""Relative standard error (percent) below which a parameter counts as well identified; Khalil and Dombre, after
[baelemans2013]."""

_STRUCTURAL, _NEARLY = 1e-9, 1e-4
"""Least norm of a unit column after projecting out those before it: in general (rounding), and where mirror pairs are
tied but are images of each other only nearly. iCub's differ by some micrometres, which must not count as observable."""

_CLEAR = 1e4
"""Ratio of two successive singular values that counts as a clear gap. Set by judgement."""

_NUMERICAL = 1e-7
"""The same as `_STRUCTURAL` for measured columns, where fewer combinations are observable. Set by judgement: above the
square root of rounding, below the weakest excitation that still tells anything."""

_NO_NOISE = 1e9
"""Degrees of freedom of the F-test where the noise is known: indistinguishable from infinitely many."""


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Base parameters ``β = grouping · φ``, estimated by least squares without any prior.

    Attributes:
        names: Name of the parameter that leads each combination, ``"<link>.<symbol>"``.
        groupings: Coefficients of the unknown parameters in each, shape (n_base, n_unknowns).
        unknowns: Names of those parameters.
        values: ``β``, shape (n_base,), SI units.
        reference: ``β`` of the reference, shape (n_base,).
        covariance: Of ``β``, shape (n_base, n_base), from the effective number of independent samples.
        effects: Root mean square, over the samples, of the effect of one unit of each on the rows (whitened as
            gathered), shape (n_base,).
        freedom: Degrees of freedom of the variance.
        condition: Condition number of the base parameters' columns, SI units.
        dropped: Names of combinations that are observable in principle, but not from these data.
    """

    names: tuple[str, ...]
    groupings: FloatArray
    unknowns: tuple[str, ...]
    values: FloatArray
    reference: FloatArray
    covariance: FloatArray
    effects: FloatArray
    freedom: float
    condition: float
    dropped: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Number of base parameters."""
        return len(self.names)

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Standard error of each, shape (n_base,)."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def rsd(self) -> FloatArray:
        """Relative standard errors, percent, [baelemans2013] (13); of little meaning where a value is near zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(100.0 * self.standard_errors / np.abs(self.values))

    @property
    def correlation(self) -> FloatArray:
        """Correlation of their errors, shape (n_base, n_base), [baelemans2013] (15)."""
        errors = np.where(self.standard_errors > 0.0, self.standard_errors, 1.0)
        return np.asarray(self.covariance / np.outer(errors, errors))

    @property
    def doubt(self) -> FloatArray:
        """Effect of each standard error on the rows, meaningful near zero too, shape (n_base,)."""
        return np.asarray(self.standard_errors * self.effects)

    @property
    def well_identified(self) -> BoolArray:
        """Which have a relative standard error below 15 %, shape (n_base,)."""
        return np.asarray(self.rsd < WELL_IDENTIFIED)

    def intervals(self, level: float = 0.95) -> FloatArray:
        """Return the confidence interval of each at `level`, shape (n_base, 2)."""
        width = half_width(level, self.freedom)
        return np.asarray(self.values[:, None] + width * np.outer(self.standard_errors, [-1.0, 1.0]))

    def describe(self, number: int, *, terms: int | None = None) -> str:
        """Return a combination as text: ``torso.m + head.m + 0.31·head.mz``.

        Args:
            number: Its number.
            terms: The most terms that are written out; None for all.
        """
        return describe_grouping(self.names[number], self.unknowns, self.groupings[number], terms=terms)

    def of(self, parameters: FloatArray) -> FloatArray:
        """Return ``β`` for other values of the unknown parameters, shape (n_unknowns,)."""
        return np.asarray(self.groupings @ parameters)

    def strongest_pairs(self, count: int = 5, *, above: float = 0.9) -> list[tuple[str, str, float]]:
        """Return the pairs with the most correlated errors, strongest first, as (name, name, correlation)."""
        upper = np.triu(np.abs(self.correlation), 1)
        order = np.argsort(-upper, axis=None)[:count]
        rows, columns = np.unravel_index(order, upper.shape)
        return [
            (self.names[i], self.names[j], float(self.correlation[i, j]))
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if upper[i, j] >= above
        ]

    @cached_property
    def essential(self) -> BoolArray:
        """Which are needed to explain the data, by an F-test at 95 %; shape (n_base,)."""
        return reduce_to_essential(self)


def half_width(level: float, freedom: float) -> float:
    """Return half the width of an interval in standard errors: Student's t, or normal where the variance is known.

    Raises:
        IdentifiabilityError: The level is not between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise IdentifiabilityError(
            f"the level of an interval is {level!r}; give a number between 0 and 1, such as 0.95"
        )
    upper = 0.5 + 0.5 * level
    # Below one degree of freedom the noise is that of the weights, and was not estimated.
    return float(ndtri(upper) if np.isinf(freedom) or freedom < 1.0 else stdtrit(freedom, upper))


def find_base_parameters(problem: Problem, *, few: bool = False) -> BaseParameters:
    """Compute the base parameters of a problem.

    The observable combinations are a property of the tree and the sensors, known exactly: the unknowns are taken in
    order, and one leads a combination if its column does not depend on those before it. So the combinations do not
    change from recording to recording. Where the data determine fewer (by QR with column pivoting), some are dropped
    and named.

    Args:
        problem: The problem.
        few: Whether none is allowed, for methods that have a prior.

    Raises:
        IdentifiabilityError: The data determine nothing.
    """
    evidence, unknowns = problem.evidence, problem.unknowns
    structure = evidence.dependence @ unknowns.transform
    able = leading_columns(structure, _structural_tolerance(structure, tied=bool(unknowns.tied)))
    lengths, touched = problem.lengths[able], problem.touched[able]
    if not np.any(touched) and few:
        none = np.zeros((0, len(unknowns)))
        empty, size = none[:, 0], none[:, :0]
        dropped = tuple(unknowns.names[column] for column in able)
        return BaseParameters(
            (), none, unknowns.names, empty, empty, size, empty, problem.freedom, float("inf"), dropped
        )
    if not np.any(touched):
        raise IdentifiabilityError(
            "the data determine nothing: nuisances or unknown forces explain every effect of the parameters; measure "
            "more, or estimate fewer nuisances"
        )
    scaled = np.where(touched, problem.matrix[:, able] / np.where(touched, lengths, 1.0), 0.0)
    rank = _numerical_rank(scaled)
    lead = able if rank == len(able) else able[leading_columns(scaled, _NUMERICAL)]
    dropped = tuple(unknowns.names[column] for column in able if column not in set(lead.tolist()))
    # Where combinations are dropped, the groupings of the others follow from the data.
    columns = structure if not dropped else problem.matrix
    groupings = dependence_on(columns, lead)
    triangle = np.asarray(np.linalg.qr(problem.matrix[:, lead] / problem.lengths[lead], mode="r"))
    inverse = np.linalg.inv(triangle) / problem.lengths[lead][:, None]
    rotated = np.linalg.lstsq(problem.matrix[:, lead] / problem.lengths[lead], problem.right, rcond=None)[0]
    start = groupings @ unknowns.start[unknowns.chosen]
    root = problem.noise * inverse
    lead_values = np.linalg.svd(problem.matrix[:, lead], compute_uv=False)
    return BaseParameters(
        names=tuple(unknowns.names[column] for column in lead),
        groupings=groupings,
        unknowns=unknowns.names,
        values=start + rotated / problem.lengths[lead],
        reference=groupings @ unknowns.reference[unknowns.chosen],
        covariance=root @ root.T,
        effects=problem.lengths[lead] / np.sqrt(evidence.sample_count),
        freedom=problem.freedom,
        condition=float(lead_values[0] / lead_values[-1]) if lead_values[-1] > 0.0 else float("inf"),
        dropped=dropped,
    )


def reduce_to_essential(base: BaseParameters, *, level: float = 0.95) -> BoolArray:
    """Return which base parameters are needed to explain the data.

    Backward elimination: the least significant parameter (by its own standard error, given those left) is set to zero,
    one after the other, while all those eliminated so far are jointly insignificant at `level` by an F-test,
    ``F = (increase of the cost / number eliminated) / variance``.

    Returns:
        Shape (n_base,); False for those that may be zero.
    """
    needed = np.ones(base.rank, dtype=np.bool_)
    covariance, values = base.covariance.copy(), base.values.copy()
    increase = 0.0
    for taken in range(1, base.rank + 1):
        left = np.flatnonzero(needed)
        scores = np.square(values[left]) / np.diagonal(covariance)[left]
        place = int(left[np.argmin(scores)])
        increase += float(np.min(scores))
        limit = fdtri(taken, min(base.freedom, _NO_NOISE), level)
        if np.isnan(limit):
            limit = fdtri(taken, _NO_NOISE, level)
        if increase / taken > limit:
            break
        # Conditioning on zero changes the other values and their covariance.
        gain = covariance[:, place] / covariance[place, place]
        values = values - gain * values[place]
        covariance = covariance - np.outer(gain, covariance[place])
        needed[place] = False
    return needed


def describe_grouping(leader: str, names: Sequence[str], coefficients: FloatArray, *, terms: int | None = None) -> str:
    """Return a combination as text: its leader, then terms with coefficients ±1, then the largest others.

    Args:
        leader: Name of the parameter that leads it, with coefficient one.
        names: Names of all parameters.
        coefficients: Of each, shape (n,).
        terms: The most terms that are written out; None for all.
    """
    others = [place for place in np.flatnonzero(coefficients).tolist() if names[place] != leader]
    others.sort(key=lambda place: (not _is_one(float(coefficients[place])), -abs(float(coefficients[place]))))
    shown = others if terms is None else others[: max(0, terms - 1)]
    words = [leader] + [_term(names[place], float(coefficients[place])) for place in shown]
    rest = len(others) - len(shown)
    return " ".join(words) + (f" + {rest} more" if rest else "")


def _structural_tolerance(structure: FloatArray, *, tied: bool) -> float:
    """Return the least norm of an independent column: within the first clear gap of the singular values, if any."""
    if not tied:
        return _STRUCTURAL
    lengths = np.linalg.norm(structure, axis=0)
    used = lengths > 1e-12 * np.max(lengths, initial=0.0)
    values = np.linalg.svd(structure[:, used] / lengths[used], compute_uv=False)
    values = np.maximum(values / values[0], 1e-16)
    gaps = np.flatnonzero((values[1:] < _NEARLY) & (values[:-1] > _CLEAR * values[1:]))
    return float(np.sqrt(values[gaps[0]] * values[gaps[0] + 1])) if len(gaps) else _NEARLY


def _numerical_rank(scaled: FloatArray) -> int:
    diagonal = np.abs(np.diagonal(qr(scaled, mode="r", pivoting=True)[0]))
    return int(np.count_nonzero(diagonal > RANK_FLOOR * np.max(diagonal, initial=0.0)))


def _is_one(coefficient: float) -> bool:
    return abs(abs(coefficient) - 1.0) < 1e-9


def _term(name: str, coefficient: float) -> str:
    sign = "+" if coefficient > 0.0 else "-"
    return f"{sign} {name}" if _is_one(coefficient) else f"{sign} {abs(coefficient):.3g}·{name}"
