"""What a method has to solve and what it gives back, and what every method under constraints shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.estimate.estimate import Certificate
from steelyard.model import ComInside, Frozen, LeastMass, MassWithin, MatterWithin, MirrorWithin, PositiveInertia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.estimate.base_parameters import BaseParameters
    from steelyard.identification.estimate.estimate import LevelReport, Status
    from steelyard.identification.problem import Problem
    from steelyard.identification.sampling.posterior import Posterior
    from steelyard.identification.solvers.lexicographic import CascadeSolution
    from steelyard.model import Constraint, Model
    from steelyard.regression import Evidence

_PHYSICS = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin())
"""What holds of every body, unless it is said otherwise."""

PHYSICAL = ("conic", "geometric")
"""Methods that hold every link to what a body can be by themselves, and need no constraint for it."""

SIMPLE = ("least_mass", "mass_within", "frozen")
"""Constraints that are bounds on single parameters."""

_NARROW = 0.1
"""Half width of a band, beside how far a model is usually off, up to which it counts as known."""

_STATIONARY, _HELD = 1e-6, 1e-8
"""What a certificate must show: the share of the gradient that is left, and the violation of a constraint (SI)."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What a method found.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        covariance: Of ``z``, from noise and from nuisances that look like parameters, shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, shape (n_unknowns, n_unknowns).
        status: How it went.
        active: Bounds and constraints that bind.
        remarks: Notes of the method's own.
        options: Options as they were used, where the method chose them.
        certificate: What shows that it is the minimum.
        levels: Of a hierarchy, what became of each level.
        known: Rows on ``z`` that constraints fix, and by how much each may still vary; None where none do.
        belief: Covariances of ``z`` after the data and before them, where the method has a prior of its own; both count
            equations, and neither counts other constraints. None where a model is as far off as usual.
        errors: Mean squares and products of the errors of ``z``, by draws from the posterior; None where nothing binds,
            so that they are the first of `belief`.
        belief_freedom: Degrees of freedom behind `belief`: how many squares told how far the model is off.
        posterior: The density to draw robots from; None where there is none.
    """

    unknowns: FloatArray
    covariance: FloatArray
    response: FloatArray
    status: Status
    active: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    options: dict[str, Any] | None = None
    certificate: Certificate | None = None
    levels: tuple[LevelReport, ...] = ()
    known: tuple[FloatArray, FloatArray] | None = None
    belief: tuple[FloatArray, FloatArray] | None = None
    errors: FloatArray | None = None
    belief_freedom: float = np.inf
    posterior: Posterior | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """What a method has to solve.

    Attributes:
        model: The reference.
        problem: The problem of all motions.
        base: The base parameters.
        constraints: The setup's and the caller's, in order.
        parts: The Evidence of each motion, if it was given so.
    """

    model: Model
    problem: Problem
    base: BaseParameters
    constraints: tuple[Constraint, ...]
    parts: tuple[Evidence, ...]


def merge_constraints(model: Model, method: str, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Gives a method's usual constraints and those after them; of the setup's, those that the method takes."""
    if method == "bounded":
        return tuple(constraint for constraint in constraints if constraint.kind in SIMPLE)
    if method in PHYSICAL:
        return tuple(constraints)
    usual: list[Constraint] = list(_PHYSICS)
    if method == "hierarchical":
        usual.append(MassWithin(0.35))
        if model.setup.mirror is not None:
            usual.append(MirrorWithin())
    return (*usual, *constraints)


def cascade_certificate(cascade: CascadeSolution) -> Certificate:
    """Gives what a cascade shows of itself."""
    return Certificate(cascade.stationarity, 0.0, cascade.complementarity, cascade.rounds, cascade.generated)


def certified(task: Task, certificate: Certificate, held: ConstraintSystem, solution: Solution) -> Solution:
    """Gives the solution with what certifies it; one that does not hold is not called solved.

    Args:
        task: The task.
        certificate: What the method shows; how far constraints are broken is found here.
        held: Constraints that must hold.
        solution: The solution.
    """
    found = task.problem.unknowns.expand(solution.unknowns)
    worst, name = held.worst(found)
    certificate = replace(certificate, violation=worst)
    fixed, known = _known(task, held, found)
    solution = replace(
        solution, certificate=certificate, known=known, active=tuple(dict.fromkeys([*solution.active, *fixed]))
    )
    if worst <= _HELD and certificate.stationarity <= _STATIONARY:
        return solution
    doubt = (
        f"{name} is broken by {worst:.1e}"
        if worst > _HELD
        else f"{certificate.stationarity:.1e} of the gradient is left"
    )
    remark = f"The solver stopped before its answer was exact: {doubt}; loosen a constraint"
    remark += ", or raise alpha." if solution.options and "alpha" in solution.options else "."
    return replace(solution, status="stopped", remarks=(remark, *solution.remarks))


def _known(task: Task, held: ConstraintSystem, found: FloatArray) -> tuple[list[str], tuple[FloatArray, FloatArray]]:
    """Gives the names of equations that hold, and rows on ``z`` that are known, with half of what they may vary by.

    A band that is narrow beside how far a model is usually off is known too.
    """
    unknowns, rows = task.problem.unknowns, held.rows
    matrix = rows.matrix @ unknowns.transform
    usual = np.linalg.norm(matrix @ unknowns.spread, axis=1)
    half = 0.5 * (rows.upper - rows.lower)
    chosen = (usual > 0.0) & (half <= _NARROW * usual) & (rows.violation(found) <= _HELD)
    names = [
        f"{name.rpartition('.')[0]} frozen" if kind == Frozen.kind else name
        for name, kind, low, high in zip(rows.names, rows.kinds, rows.lower, rows.upper, strict=True)
        if low == high
    ]
    return list(dict.fromkeys(names)), (matrix[chosen], half[chosen])
