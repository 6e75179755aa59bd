"""Truncated singular values: the smallest change of the reference that explains what the data can observe.

[yamane2011] (17)-(21); from zero, [jovic2016] (5)-(6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.option_checks import check_condition, check_scale
from steelyard.identification.methods.solution import Solution
from steelyard.identification.solvers.certificate import Certificate
from steelyard.regression import singular_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.methods.option_checks import Scale
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem

ROUNDING = 1e-10
"""Share of the greatest singular value below which one is rounding, whatever the threshold. Set by judgement: well
above double precision, well below any threshold of use."""


@dataclass(frozen=True, eq=False)
class TruncatedProblem:
    """Least squares ``‖[A S, N] x − b‖²`` with small singular values dropped; ``z = S x`` but for the nuisances ``N``.

    Attributes:
        problem: The problem of the Evidence.
        units: ``S``, shape (n_unknowns, n_unknowns).
        columns: ``A``.
        right: ``b``.
        nuisances: ``N``: nuisance columns with a prior, scaled by it; none without a scale.
        factors: ``U, σ, Vᵀ`` of ``[A S, N]``, values descending.
        kept: Number of singular values that are kept.
    """

    problem: Problem
    units: FloatArray
    columns: FloatArray
    right: FloatArray
    nuisances: FloatArray
    factors: tuple[FloatArray, FloatArray, FloatArray]
    kept: int


def build_truncated(problem: Problem, *, c_max: float | None = None, scale: Scale = "spread") -> TruncatedProblem:
    """Decompose the problem and choose the singular values to keep, [yamane2011] (19)-(21).

    The paper takes ``S = 1``: what is small then depends on units, and a kilogram counts as much as a kilogram metre.
    Here ``S`` is by default the usual deviation of a model, and those directions are kept in which the data are more
    precise than that, ``σ_i`` above the noise. Nuisances are then unknowns like the others, scaled by their priors: an
    offset that correlates with weight is divided between the two by their usual sizes. Without a scale they are
    eliminated first.

    Args:
        problem: The problem.
        c_max: Greatest condition number that is kept; None for the noise to decide (needs scale="spread").
        scale: "spread", or "none" for the paper's own numbers.

    Raises:
        IdentifiabilityError: An option is invalid.
    """
    check_scale(scale)
    if c_max is None and scale == "none":
        raise IdentifiabilityError("without a scale, nothing says which singular values count; give c_max, such as 100")
    check_condition(c_max)
    columns, right, nuisances = problem.matrix, problem.right, np.zeros((len(problem.matrix), 0))
    units = np.eye(len(problem.unknowns))
    if scale == "spread":
        units = problem.unknowns.spread
        columns, right, nuisances = problem.with_nuisances
    factors = singular_vectors(np.concatenate([columns @ units, nuisances], axis=1))
    largest = float(np.max(factors[1], initial=0.0))
    threshold = problem.noise if c_max is None else largest / c_max
    kept = int(np.count_nonzero(factors[1] > max(threshold, ROUNDING * largest)))
    return TruncatedProblem(problem, units, columns, right, nuisances, factors, kept)


def solve_truncated(truncated: TruncatedProblem) -> Solution:
    """Return the minimum-norm ``z = S V Σ̂⁻¹ Uᵀ b``, where ``Σ̂⁻¹`` is zero for what is dropped.

    The covariance counts the noise of what is kept, and nuisances that correlate with parameters; dropped directions
    stay at the start and have none.
    """
    count, kept, units = len(truncated.problem.unknowns), truncated.kept, truncated.units
    left, values = truncated.factors[0][:, :kept], truncated.factors[1][:kept]
    inverse = truncated.factors[2][:kept].T / values
    answering = units @ inverse[:count] @ left.T
    # A nuisance that is not observable apart from the parameters shifts them by as much as its prior allows.
    root = np.concatenate(
        [truncated.problem.noise * (units @ inverse[:count]), answering @ truncated.nuisances], axis=1
    )
    unknowns = answering @ truncated.right
    whole = inverse @ (left.T @ truncated.right)
    residual = truncated.columns @ (units @ whole[:count]) + truncated.nuisances @ whole[count:] - truncated.right
    share = relative_norm(values * (left.T @ residual), values * (left.T @ truncated.right))
    return Solution(unknowns, root @ root.T, answering @ truncated.columns, "solved", certificate=Certificate(share))


def identify_truncated(task: Task, *, c_max: float | None = None, scale: Scale = "spread") -> Solution:
    """Return the solution of the method "truncated", with a remark on how much of it comes from the data."""
    truncated = build_truncated(task.problem, c_max=c_max, scale=scale)
    solution = solve_truncated(truncated)
    rank = task.base.rank + len(task.base.dropped)
    beside = sum(np.isfinite(prior) for prior in task.problem.evidence.key.priors)
    words = f"{rank} combinations of parameters" + (f" and {beside} nuisances" if beside else "")
    remark = f"{truncated.kept} of {words} were taken from the data; the others stay at the start."
    return replace(solution, remarks=(remark, *task.ignored()))


def relative_norm(vector: FloatArray, other: FloatArray) -> float:
    """Return the norm of a vector relative to another's; zero where that is zero."""
    size = float(np.linalg.norm(other))
    return float(np.linalg.norm(vector)) / size if size > 0.0 else 0.0
