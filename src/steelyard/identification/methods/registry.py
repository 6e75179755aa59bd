"""The methods behind `identify`: their options, and which constraints they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.constraints.contradictions import refuse_contradictions
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.methods.base_only import identify_base
from steelyard.identification.methods.bounded import identify_bounded, refuse_others
from steelyard.identification.methods.conic import identify_conic
from steelyard.identification.methods.geometric import identify_geometric
from steelyard.identification.methods.hierarchical import identify_hierarchical
from steelyard.identification.methods.priority_levels import LEVELS
from steelyard.identification.methods.quadratic import identify_quadratic
from steelyard.identification.methods.solution import SIMPLE, merge_constraints
from steelyard.identification.methods.truncated import identify_truncated
from steelyard.identification.parameter_sets import choose_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.identification.methods.solution import Solution
    from steelyard.model import Constraint, Model

SOLVERS: dict[str, Callable[..., Solution]] = {
    "truncated": identify_truncated,
    "bounded": identify_bounded,
    "base": identify_base,
    "quadratic": identify_quadratic,
    "hierarchical": identify_hierarchical,
    "conic": identify_conic,
    "geometric": identify_geometric,
}
"""From a Task and options to a Solution, by method."""

OPTIONS = {
    "truncated": ("c_max", "scale", "start"),
    "bounded": ("c_max", "scale", "start", "lower", "upper", "tolerance", "iterations"),
    "base": ("start",),
    "quadratic": ("alpha", "scale", "start"),
    "hierarchical": ("levels", "c_max", "scale", "tolerance", "start"),
    "conic": ("alpha", "floor", "draws", "start"),
    "geometric": ("spread", "noise_factor", "draws"),
}
"""Options of each method."""

UNCONSTRAINED = ("truncated", "base")
"""Methods that take no constraints."""


def check_constraints(
    model: Model,
    method: str,
    constraints: Sequence[Constraint],
    *,
    parameters: str | Sequence[str] | None = None,
    mirror: bool = False,
) -> None:
    """Refuse constraints that a method does not take, that name nothing, or that contradict each other.

    None of that needs data.

    Args:
        model: The reference.
        method: The method.
        constraints: The caller's; the setup's and the method's default ones count too.
        parameters: Which are looked for, as `identify` takes it.
        mirror: Whether mirror pairs are tied.

    Raises:
        IdentifiabilityError: A constraint is refused; the message says why.
    """
    if method in UNCONSTRAINED:
        refuse_any(method, constraints)
        return
    unknowns = choose_parameters(model, parameters, mirror=mirror)
    if method == "bounded":
        refuse_others([constraint for constraint in constraints if constraint.kind not in SIMPLE])
    system = resolve_constraints(model, merge_constraints(model, method, (*model.setup.constraints, *constraints)))
    first = LEVELS["physics"] if method == "hierarchical" else system.kinds
    refuse_contradictions(system.of(first), unknowns)


def refuse_any(method: str, constraints: Sequence[Constraint | str]) -> None:
    """Refuse all constraints where a method takes none."""
    if constraints and method in UNCONSTRAINED:
        raise IdentifiabilityError(
            f"the method {method!r} takes no constraints; leave them out, or use the method 'quadratic'"
        )
