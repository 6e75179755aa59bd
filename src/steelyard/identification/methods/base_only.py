"""Least squares on base parameters alone, without a prior: [iwasaki2012] (3), [baelemans2013] (6)-(8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.methods.solution import Solution
from steelyard.identification.methods.truncated import relative_norm
from steelyard.identification.solvers.certificate import Certificate

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.estimate.base_parameters import BaseParameters
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem

_RANK = 1e-12
"""Share of the greatest singular value of the groupings below which one is zero: they are combinations of a few
parameters with coefficients near one, so that nothing but rounding is so small."""


@dataclass(frozen=True, eq=False)
class BaseProblem:
    """The smallest change of the reference that gives base parameters their least-squares values.

    Attributes:
        problem: The problem of the Evidence.
        base: The base parameters, found by least squares.
        inverse: From base parameters to that change, shape (n_unknowns, n_base).
    """

    problem: Problem
    base: BaseParameters
    inverse: FloatArray


def build_base(problem: Problem, base: BaseParameters) -> BaseProblem:
    """Return the problem, changes scaled by the usual deviation of a model."""
    spread = problem.unknowns.spread
    return BaseProblem(problem, base, spread @ np.linalg.pinv(base.groupings @ spread, rcond=_RANK))


def solve_base(given: BaseProblem) -> Solution:
    """Return the change, certified by the residual of the base parameters' normal equations."""
    problem, base, inverse = given.problem, given.base, given.inverse
    unknowns = problem.unknowns
    change = inverse @ (base.values - base.groupings @ unknowns.start[unknowns.chosen])
    scaled = problem.matrix @ inverse
    share = relative_norm(scaled.T @ (problem.matrix @ change - problem.right), scaled.T @ problem.right)
    covariance = inverse @ base.covariance @ inverse.T
    return Solution(change, covariance, inverse @ base.groupings, "solved", certificate=Certificate(share))


def identify_base(task: Task) -> Solution:
    """Return the solution of the method "base"."""
    remark = (
        "Only the base parameters were found; the parameters of each link are the reference's, changed as little as "
        "gives the base parameters their values. Do not read them one by one."
    )
    return replace(solve_base(build_base(task.problem, task.base)), remarks=(remark, *task.ignored()))
