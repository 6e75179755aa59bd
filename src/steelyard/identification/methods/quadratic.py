"""A quadratic program with the CAD as prior: [jovic2015] (4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.problem import build_problem
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.identification.solvers.sensitivity import answer_to_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.methods.truncated import Scale
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution
    from steelyard.regression import Evidence

CANDIDATES = tuple(float(alpha) for alpha in 10.0 ** np.arange(-4.0, 4.5, 1.0))
"""Weights of the prior among which cross-validation chooses, in units of the usual one."""

_PATIENCE = 3
"""How many weights in a row may do worse than the best, from the greatest down, before no smaller ones are tried."""


@dataclass(frozen=True, eq=False)
class QuadraticSolution:
    """A minimum of [jovic2015] (4).

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        alpha: The weight of the prior.
        cascade: The constraints, and the minimum under them.
        covariance: Of ``z``, from noise, what binds taken as known; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, likewise.
        active: Names of the constraints that bind.
    """

    unknowns: FloatArray
    alpha: float
    cascade: CascadeSolution
    covariance: FloatArray
    response: FloatArray
    active: tuple[str, ...]


def solve_quadratic(
    problem: Problem, system: ConstraintSystem, *, alpha: float = 1.0, scale: Scale = "spread"
) -> QuadraticSolution:
    """Gives what minimises ``‖A z − b‖² + α ‖z‖²`` under constraints.

    Args:
        problem: The problem.
        system: The constraints, which do not contradict each other.
        alpha: Weight of the prior. By spread, residuals are measured by their noise and parameters by how far a model
            is usually off, and one is the weight that follows from the two. Without a scale it is the paper's.
        scale: "spread", or "none" for SI units, as in the paper.

    Raises:
        IdentifiabilityError: An option makes no sense.
        SolverError: No minimum was found.
    """
    check_alpha(alpha)
    unknowns = Unknowns(problem, scale)
    constraints, names = unknowns.level("constraints", system)
    levels = [constraints, _penalised(unknowns, alpha)]
    found = solve_cascade(levels, np.zeros(len(problem.unknowns)))
    left, values, _ = unknowns.factors
    sizes = values / unknowns.unit
    # The penalised level has a row for each singular vector, which data move by so much.
    answer = unknowns.root @ answer_to_data(levels, found, 1, len(sizes)) * (sizes / _with_prior(sizes, alpha))
    return QuadraticSolution(
        unknowns.root @ found.unknowns,
        alpha,
        found,
        problem.noise**2 * (answer @ answer.T) / unknowns.unit**2,
        answer @ (left.T @ problem.matrix) / unknowns.unit,
        unknowns.active(found, [names, ()]),
    )


def _penalised(unknowns: Unknowns, alpha: float) -> Level:
    """Gives ``‖A y − b‖² + α ‖y‖²`` but for a constant, as one equation for each singular vector of ``A``."""
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
    """Gives, for weights of the prior, what parameters learned from all motions but one leave unexplained in that one.

    Args:
        problem: The problem of all motions together.
        parts: The Evidence of each motion.
        system: The constraints.
        scale: As `solve_quadratic` takes it.
        candidates: The weights; None for `CANDIDATES`, without a scale in units of the data's own weight.

    Returns:
        The mean square of what is left of an equation, by weight.
    """
    if candidates is None:
        unit = 1.0 if scale == "spread" else problem.noise**2 / float(np.mean(problem.unknowns.reference**2))
        candidates = [unit * candidate for candidate in CANDIDATES]
    folds = []
    for held in range(len(parts)):
        others = [part for place, part in enumerate(parts) if place != held]
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


def check_alpha(alpha: float) -> None:
    """Refuses a weight that is none."""
    number = isinstance(alpha, int | float | np.number) and not isinstance(alpha, bool)
    if not (number and np.isfinite(alpha) and alpha > 0.0):
        raise IdentifiabilityError(f"alpha is {alpha!r}; it must be a number greater than zero")
