"""Truncated singular values: the smallest change of the reference that explains what the data can tell.

[yamane2011] (17)-(21); from zero, [jovic2016] (5)-(6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.regression import singular_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem

Scale = Literal["spread", "none"]


@dataclass(frozen=True, eq=False)
class TruncatedSolution:
    """A truncated solution.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        kept: How many singular values were kept.
        values: All singular values, descending.
        threshold: Those at or below it were dropped.
        covariance: Of ``z``, from the noise of what was kept and from nuisances that look like parameters; what was
            dropped stays at the start and has none; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, shape (n_unknowns, n_unknowns): one where all is kept.
    """

    unknowns: FloatArray
    kept: int
    values: FloatArray
    threshold: float
    covariance: FloatArray
    response: FloatArray


def solve_truncated(problem: Problem, *, c_max: float | None = None, scale: Scale = "spread") -> TruncatedSolution:
    """Gives the minimum-norm change from the start that minimises ``‖A z − b‖²``, small singular values dropped.

    With ``A S = U Σ Vᵀ``, ``z = S V Σ̂⁻¹ Uᵀ b``, where ``Σ̂⁻¹`` has ``1/σ_i`` if ``σ_1/σ_i < c_max`` and else zero,
    [yamane2011] (19)-(21). The paper takes ``S = 1``: what is small then depends on units, and a kilogram is as far as
    a kilogram metre. Here ``S`` is by default how far a model is usually off, and those directions are kept in which
    the data say more than that, ``σ_i`` above the noise. Nuisances are then unknowns like the others, measured by their
    priors: an offset that looks like weight is shared out between the two by how large each usually is. Without a
    scale they are eliminated first.

    Args:
        problem: The problem.
        c_max: Greatest condition number that is kept; None for the noise to decide (needs scale="spread").
        scale: "spread", or "none" for the paper's own numbers.

    Raises:
        IdentifiabilityError: An option makes no sense.
    """
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")
    if c_max is None and scale == "none":
        raise IdentifiabilityError("without a scale, nothing says which singular values count; give c_max, such as 100")
    check_condition(c_max)
    count = len(problem.unknowns)
    columns, answer, units, beside = problem.matrix, problem.right, np.eye(count), np.zeros((len(problem.matrix), 0))
    if scale == "spread":
        units = problem.unknowns.spread
        columns, answer, beside = problem.beside
    matrix = np.concatenate([columns @ units, beside], axis=1)
    left, values, right = truncated_factors(matrix)
    largest = float(values[0]) if len(values) else 0.0
    threshold = problem.noise if c_max is None else largest / c_max
    # What no motion could tell is rounding, whatever the threshold.
    kept = int(np.count_nonzero(values > max(threshold, 1e-10 * largest)))
    inverse = right[:kept].T / values[:kept]
    answering = units @ inverse[:count] @ left[:, :kept].T
    # A nuisance that the data do not tell from the parameters shifts them by as much as its prior allows.
    root = np.concatenate([problem.noise * (units @ inverse[:count]), answering @ beside], axis=1)
    return TruncatedSolution(answering @ answer, kept, values, threshold, root @ root.T, answering @ columns)


def check_condition(c_max: float | None) -> None:
    """Refuses a greatest condition number that is none."""
    number = isinstance(c_max, int | float | np.number) and not isinstance(c_max, bool)
    if c_max is not None and not (number and c_max > 1.0):
        raise IdentifiabilityError(f"c_max is {c_max!r}; it must be a number greater than one")


def truncated_factors(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gives the thin singular value decomposition ``U, σ, Vᵀ``, values descending."""
    left, values, right = singular_vectors(matrix)
    return np.asarray(left), np.asarray(values), np.asarray(right)
