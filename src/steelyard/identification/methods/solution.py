"""What a method is given, what it returns, and what methods under constraints share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.constraints.contradictions import refuse_contradictions
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.model import ComInside, Frozen, LeastMass, MassWithin, MatterWithin, MirrorWithin, PositiveInertia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.estimate.base_parameters import BaseParameters
    from steelyard.identification.estimate.estimate import LevelReport, Status
    from steelyard.identification.methods.marginal_likelihood import PriorWeights
    from steelyard.identification.problem import Problem
    from steelyard.identification.sampling.posterior import Posterior
    from steelyard.identification.solvers.certificate import Certificate
    from steelyard.model import Constraint, Model
    from steelyard.regression import Evidence

_PHYSICS = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin())
"""Default constraints on every body."""

PHYSICAL = ("conic", "geometric")
"""Methods that keep every link physically possible by themselves, without a constraint."""

SIMPLE = ("least_mass", "mass_within", "frozen")
"""Kinds of constraints that bound single parameters."""

_NARROW = 0.1
"""Half width of an interval, relative to the usual deviation of a model, up to which a constraint counts as known. Set
by judgement: a tenth of a standard deviation adds half a percent to an uncertainty."""

SILENT = "The data decide nothing: the estimate is the reference. Record a motion, with sensors that respond to it."

STATIONARY, HELD = 1e-6, 1e-8
"""Greatest dual residual (relative) and primal residual (SI units) of an exact solution. Set by judgement: solvers
reach 1e-9 and better, and sensors are far coarser."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What every method returns.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        covariance: Of ``z``, from noise and from nuisances that correlate with parameters, shape
            (n_unknowns, n_unknowns).
        response: Derivative of the expected ``z`` by the true one, shape (n_unknowns, n_unknowns).
        status: How the solve ended.
        active: Names of active bounds and constraints, largest multiplier first.
        remarks: Notes of the method.
        options: Options that the method chose itself.
        certificate: Residuals of the optimality conditions; None only where the solve failed.
        levels: Of a hierarchy, the result of each level.
        known: Rows on ``z`` that constraints fix, and half the width that each leaves; None without constraints.
        belief: Posterior and prior covariance of ``z`` of a method with its own prior; both count equations, neither
            counts other constraints. None where the prior is the usual deviation of a model.
        errors: Mean squares and products of the errors of ``z``, from posterior draws; None where no constraint is
            active, so that they equal the first of `belief`.
        belief_freedom: Degrees of freedom behind `belief`.
        posterior: The density to draw robots from; None where there is none.
        at_edges: Whether a constraint is active, or within three standard errors: then curvature gives no errors.
        cost: The minimised expression at the solution; None where the method does not compute it.
        weights: Of "geometric", the prior's weights.
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
    at_edges: bool = False
    cost: float | None = None
    weights: PriorWeights | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given.

    Attributes:
        model: The reference.
        problem: The problem of all motions.
        base: The base parameters.
        constraints: The setup's and the caller's, in order.
        parts: The Evidence of each motion, where it was given so.
    """

    model: Model
    problem: Problem
    base: BaseParameters
    constraints: tuple[Constraint, ...]
    parts: tuple[Evidence, ...]

    def resolve(self, method: str) -> tuple[tuple[Constraint, ...], ConstraintSystem, list[str]]:
        """Return the constraints of a method, their rows, and remarks on them.

        Raises:
            IdentifiabilityError: Constraints contradict each other.
        """
        used = merge_constraints(self.model, method, self.constraints)
        system = resolve_constraints(self.model, used)
        if not used:
            return used, system, []
        return used, system, [*refuse_contradictions(system, self.problem.unknowns), *system.remarks]

    def ignored(self) -> tuple[str, ...]:
        """Return a remark where the setup has constraints, for methods that take none."""
        return ("The setup's constraints were not used: this method takes none.",) if self.constraints else ()

    def judge(self, solution: Solution, held: ConstraintSystem) -> Solution:
        """Return a solution with what constraints fix, its status lowered to "stopped" where it is not exact.

        Args:
            solution: The solution, with its certificate.
            held: Constraints that must hold.
        """
        found, certificate = self.problem.unknowns.expand(solution.unknowns), solution.certificate
        assert certificate is not None  # noqa: S101  (every solver fills it in)
        worst, name = held.worst(found)
        fixed, known = self._fixed(held, found)
        solution = replace(
            solution,
            certificate=replace(certificate, violation=worst),
            known=known,
            active=tuple(dict.fromkeys([*solution.active, *fixed])),
        )
        if worst <= HELD and certificate.stationarity <= STATIONARY:
            return solution
        doubt = (
            f"{name} is broken by {worst:.1e}"
            if worst > HELD
            else f"{certificate.stationarity:.1e} of the gradient is left"
        )
        remark = f"The solver stopped before its answer was exact: {doubt}; loosen a constraint"
        remark += ", or raise alpha." if solution.options and "alpha" in solution.options else "."
        return replace(solution, status="stopped", remarks=(remark, *solution.remarks))

    def _fixed(self, held: ConstraintSystem, found: FloatArray) -> tuple[list[str], tuple[FloatArray, FloatArray]]:
        """Return the names of equations, and the rows on ``z`` that are known with half the width of each.

        An interval that is narrow relative to the usual deviation of a model counts as known.
        """
        unknowns, rows = self.problem.unknowns, held.rows
        matrix = rows.matrix @ unknowns.transform
        usual = np.linalg.norm(matrix @ unknowns.spread, axis=1)
        half = 0.5 * (rows.upper - rows.lower)
        chosen = (usual > 0.0) & (half <= _NARROW * usual) & (rows.violation(found) <= HELD)
        names = [
            f"{name.rpartition('.')[0]} frozen" if kind == Frozen.kind else name
            for name, kind, low, high in zip(rows.names, rows.kinds, rows.lower, rows.upper, strict=True)
            if low == high
        ]
        return list(dict.fromkeys(names)), (matrix[chosen], half[chosen])


def merge_constraints(model: Model, method: str, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Return a method's default constraints and those given after them; of the setup's, those that it takes."""
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
