"""A quadratic programme with the CAD as prior: [jovic2015] (4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.option_checks import check_positive, check_scale
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.methods.solution import Solution
from steelyard.identification.problem import build_problem
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.identification.solvers.sensitivity import differentiate_by_data
from steelyard.model import constraint_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.option_checks import Scale
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem
    from steelyard.regression import Evidence

CANDIDATES = tuple(float(alpha) for alpha in 10.0 ** np.arange(-4.0, 4.5, 1.0))
"""Weights of the prior among which cross-validation chooses, relative to the usual one. Set by judgement: a decade
apart, and four either way."""

_PATIENCE = 3
"""Number of weights in a row, from the greatest down, that may do worse than the best before the search ends. Set by
judgement: the residual has one minimum but for noise."""


@dataclass(frozen=True, eq=False)
class QuadraticProblem:
    """``min ‖A y − b‖² + α ‖y‖²`` under constraints, as a cascade of two levels.

    Attributes:
        unknowns: The scaled unknowns ``y``.
        system: The constraints.
        alpha: The weight of the prior.
        levels: Constraints, and what is minimised under them.
        names: Of the rows of each level.
    """

    unknowns: Unknowns
    system: ConstraintSystem
    alpha: float
    levels: tuple[Level, Level]
    names: tuple[tuple[str, ...], ...]


def build_quadratic(
    problem: Problem, system: ConstraintSystem, *, alpha: float = 1.0, scale: Scale = "spread"
) -> QuadraticProblem:
    """Scale the problem and write constraints and cost as levels.

    Args:
        problem: The problem.
        system: The constraints, which do not contradict each other.
        alpha: Weight of the prior. By spread, residuals are scaled by their noise and parameters by the usual deviation
            of a model, and one is the weight that follows from the two. Without a scale it is the paper's.
        scale: "spread", or "none" for SI units, as in the paper.

    Raises:
        IdentifiabilityError: An option is invalid.
    """
    check_positive("alpha", alpha)
    unknowns = Unknowns(problem, scale)
    constraints, names = unknowns.level("constraints", system)
    return QuadraticProblem(unknowns, system, alpha, (constraints, _penalised(unknowns, alpha)), (names, ()))


def solve_quadratic(quadratic: QuadraticProblem) -> Solution:
    """Return the minimum; covariance and response take active constraints as known.

    Raises:
        SolverError: No minimum was found.
    """
    unknowns, problem = quadratic.unknowns, quadratic.unknowns.problem
    found = solve_cascade(quadratic.levels, np.zeros(len(problem.unknowns)))
    left, values, _ = unknowns.factors
    sizes = values / unknowns.unit
    # The penalised level has a row for each singular vector; this is its derivative by the data.
    answer = unknowns.root @ differentiate_by_data(quadratic.levels, found, 1, len(sizes))
    answer = answer * (sizes / _with_prior(sizes, quadratic.alpha))
    z, active = unknowns.root @ found.unknowns, unknowns.active(found, quadratic.names)
    violation, _ = quadratic.system.worst(problem.unknowns.expand(z))
    return Solution(
        z,
        problem.noise**2 * (answer @ answer.T) / unknowns.unit**2,
        answer @ (left.T @ problem.matrix) / unknowns.unit,
        "solved",
        active,
        certificate=found.certificate(violation, active),
    )


def identify_quadratic(task: Task, *, alpha: float | None = None, scale: Scale = "spread") -> Solution:
    """Return the solution of the method "quadratic"; several motions choose the weight by cross-validation."""
    check_scale(scale)
    used, system, remarks = task.resolve("quadratic")
    if alpha is None and len(task.parts) > 1:
        left = cross_validate(task.problem, task.parts, system, scale=scale)
        alpha = min(left, key=lambda candidate: left[candidate])
        remarks.insert(0, _about_alpha(alpha, left, len(task.parts)))
    elif alpha is None and scale == "spread":
        alpha = 1.0
    elif alpha is None:
        raise IdentifiabilityError(
            "without a scale, nothing says how much the prior weighs; give alpha, or several motions as a list of "
            "Evidence for cross-validation"
        )
    solution = solve_quadratic(build_quadratic(task.problem, system, alpha=alpha, scale=scale))
    options = {"alpha": alpha, "constraints": constraint_table(used)}
    return task.judge(replace(solution, remarks=tuple(remarks), options=options), system)


def _penalised(unknowns: Unknowns, alpha: float) -> Level:
    """Return ``‖A y − b‖² + α ‖y‖²`` but for a constant, as one equation for each singular vector of ``A``."""
    left, values, _ = unknowns.factors
    count = len(unknowns.transform.T)
    sizes = np.zeros(count)
    sizes[: len(values)] = values / unknowns.unit
    goal = np.zeros(count)
    goal[: len(values)] = left.T @ unknowns.problem.right / unknowns.unit
    scales = _with_prior(sizes, alpha)
    right_side = sizes / scales * goal
    return Level("data and reference", scales[:, None] * unknowns.directions, right_side, right_side)


def cross_validate(
    problem: Problem,
    parts: Sequence[Evidence],
    system: ConstraintSystem,
    *,
    scale: Scale = "spread",
    candidates: Sequence[float] | None = None,
) -> dict[float, float]:
    """Return the leave-one-motion-out residual for several weights of the prior.

    Args:
        problem: The problem of all motions together.
        parts: The Evidence of each motion.
        system: The constraints.
        scale: As `build_quadratic` takes it.
        candidates: The weights; None for `CANDIDATES`, without a scale relative to the weight of the data.

    Returns:
        The mean squared residual of an equation, by weight.
    """
    if candidates is None:
        unit = 1.0 if scale == "spread" else problem.noise**2 / float(np.mean(problem.unknowns.reference**2))
        candidates = [unit * candidate for candidate in CANDIDATES]
    folds = []
    for held in range(len(parts)):
        others = [part for index, part in enumerate(parts) if index != held]
        unknowns = Unknowns(build_problem(sum(others[1:], start=others[0]), problem.unknowns), scale)
        constraints, _ = unknowns.level("constraints", system)
        folds.append((unknowns, constraints, build_problem(parts[held], problem.unknowns)))
    rows = sum(part.row_count for part in parts)
    left: dict[float, float] = {}
    start = np.zeros(len(problem.unknowns))
    for alpha in sorted(candidates, reverse=True):
        left[alpha] = 0.0
        for unknowns, constraints, tested in folds:
            found = solve_cascade([constraints, _penalised(unknowns, alpha)], start)
            left[alpha] += tested.cost(unknowns.parameters(found.unknowns)) / rows
        if min(list(left.values())[-_PATIENCE:]) > min(left.values()):
            break
    return left


def _with_prior(sizes: FloatArray, alpha: float) -> FloatArray:
    return np.asarray(np.sqrt(np.square(sizes) + alpha))


def _about_alpha(alpha: float, left: dict[float, float], motions: int) -> str:
    candidates = sorted(left)
    words = (
        f"The prior's weight {alpha:.3g} was found by cross-validation: parameters estimated from {motions - 1} of "
        f"{motions} motions left the smallest residual, {left[alpha]:.4g} per equation, in the one left out"
    )
    worst = max(left.values())
    words += f" ({worst:.4g} with the worst weight tried)."
    if alpha in (candidates[0], candidates[-1]):
        words += " It is the last that was tried on its side; a weight further out may do better."
    return words
