"""The methods behind `identify`: what each takes, and how its answer becomes a Solution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.constraints.resolve import refuse_contradictions, resolve_constraints
from steelyard.identification.methods.bounded import solve_bounded
from steelyard.identification.methods.hierarchical import DATA, LEVELS, REFERENCE, read_levels, solve_hierarchical
from steelyard.identification.methods.physical_methods import solve_by_cones, solve_by_geometry
from steelyard.identification.methods.quadratic import check_alpha, cross_validate, solve_quadratic
from steelyard.identification.methods.scaled_unknowns import check_scale
from steelyard.identification.methods.solution import (
    SIMPLE,
    Solution,
    cascade_certificate,
    certified,
    merge_constraints,
)
from steelyard.identification.methods.truncated import solve_truncated
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.model import constraint_table
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.estimate.estimate import Status
    from steelyard.identification.methods.hierarchical import HierarchicalSolution
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.methods.truncated import Scale
    from steelyard.identification.problem import Problem
    from steelyard.model import Constraint, Model

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

_CHANCE = 1e-3
"""How unlikely it must be, by noise alone, that a level costs the data so much, before it is remarked."""


def _truncated(task: Task, **options: Any) -> Solution:
    found = solve_truncated(task.problem, **options)
    rank = task.base.rank + len(task.base.dropped)
    beside = sum(np.isfinite(prior) for prior in task.problem.evidence.key.priors)
    words = f"{rank} combinations of parameters" + (f" and {beside} nuisances" if beside else "")
    remark = f"{found.kept} of {words} were taken from the data; the others stay at the start."
    return Solution(found.unknowns, found.covariance, found.response, "solved", remarks=(remark, *_unused(task)))


def _bounded(task: Task, **options: Any) -> Solution:
    given = {name: dict(options.pop(name, None) or {}) for name in ("lower", "upper")}
    for name, limits in zip(("lower", "upper"), _limits(task), strict=True):
        options[name] = {**limits, **given[name]}
    found = solve_bounded(task.problem, **options)
    remarks = []
    if not found.converged:
        remarks.append(
            f"The search stopped after {found.iterations} steps with {found.gradient:.1e} of its first gradient left; "
            "raise iterations, or lower c_max."
        )
    status: Status = "solved" if found.converged else "stopped"
    return Solution(found.unknowns, found.covariance, found.response, status, found.active, tuple(remarks))


def _base(task: Task) -> Solution:
    # The smallest change, by how far a model is usually off, that gives the base parameters their values.
    unknowns, base = task.problem.unknowns, task.base
    inverse = unknowns.spread @ np.linalg.pinv(base.groupings @ unknowns.spread, rcond=1e-12)
    change = inverse @ (base.values - base.groupings @ unknowns.start[unknowns.chosen])
    remark = (
        "Only the base parameters were found; the parameters of each link are the reference's, changed as little as "
        "gives the base parameters their values. Do not read them one by one."
    )
    response = inverse @ base.groupings
    covariance = inverse @ base.covariance @ inverse.T
    return Solution(change, covariance, response, "solved", remarks=(remark, *_unused(task)))


def _quadratic(task: Task, *, alpha: float | None = None, scale: Scale = "spread") -> Solution:
    check_scale(scale)
    used = merge_constraints(task.model, "quadratic", task.constraints)
    system = resolve_constraints(task.model, used)
    remarks = [*refuse_contradictions(system, task.problem.unknowns), *system.remarks]
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
    check_alpha(alpha)
    found = solve_quadratic(task.problem, system, alpha=alpha, scale=scale)
    return certified(
        task,
        cascade_certificate(found.cascade),
        system,
        Solution(
            found.unknowns,
            found.covariance,
            found.response,
            "solved",
            found.active,
            tuple(remarks),
            {"alpha": alpha, "constraints": constraint_table(used)},
        ),
    )


def _hierarchical(
    task: Task,
    *,
    levels: Sequence[Sequence[Any]] | None = None,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float | None = None,
) -> Solution:
    check_scale(scale)
    kinds, written = read_levels(levels)
    used = (*merge_constraints(task.model, "hierarchical", task.constraints), *written)
    wanted = {kind for level in kinds.values() for kind in level}
    homeless = [constraint.kind for constraint in task.constraints if constraint.kind not in wanted]
    if homeless:
        raise IdentifiabilityError(
            f"the constraint {homeless[0]!r} stands in no level; give it one, or leave it out", names=homeless
        )
    system = resolve_constraints(task.model, [constraint for constraint in used if constraint.kind in wanted])
    first = next(iter(kinds.values()))
    doubts = refuse_contradictions(system.of(first), task.problem.unknowns)
    found = solve_hierarchical(task.problem, system, kinds, c_max=c_max, scale=scale, tolerance=tolerance)
    remark = (
        f"The data were asked for {found.kept} combinations of parameters"
        + (f", to within {found.within:g} times their noise" if found.within else "")
        + "; what that leaves open is decided by the levels below."
    )
    remarks = (remark, *_about_levels(task.problem, system, found), *doubts, *system.remarks)
    # A first level that data or reference share is a compromise, and nothing in it is held.
    held = system.of(() if DATA in first or REFERENCE in first else first)
    options: dict[str, Any] = {"constraints": constraint_table(used)}
    if levels is not None:
        options["levels"] = [list(level) for level in kinds.values()]
    return certified(
        task,
        cascade_certificate(found.cascade),
        held,
        Solution(
            found.unknowns,
            found.covariance,
            found.response,
            "solved",
            found.active,
            remarks,
            options,
            levels=found.levels,
        ),
    )


def check_constraints(
    model: Model,
    method: str,
    constraints: Sequence[Constraint],
    *,
    parameters: str | Sequence[str] | None = None,
    mirror: bool = False,
) -> None:
    """Refuses constraints that a method does not take, that name nothing, or that contradict each other.

    All of that can be told without data.

    Args:
        model: The reference.
        method: The method.
        constraints: The caller's; the setup's and the method's usual ones count too.
        parameters: Which are looked for, as `identify` takes it.
        mirror: Whether mirror pairs are tied.

    Raises:
        IdentifiabilityError: They are refused; the message says why.
    """
    if method in UNCONSTRAINED:
        if constraints:
            raise IdentifiabilityError(
                f"the method {method!r} takes no constraints; leave them out, or use the method 'quadratic'"
            )
        return
    unknowns = choose_parameters(model, parameters, mirror=mirror)
    if method == "bounded":
        _refuse_others([constraint for constraint in constraints if constraint.kind not in SIMPLE])
    system = resolve_constraints(model, merge_constraints(model, method, (*model.setup.constraints, *constraints)))
    first = LEVELS["physics"] if method == "hierarchical" else system.kinds
    refuse_contradictions(system.of(first), unknowns)


def _refuse_others(others: Sequence[Constraint]) -> None:
    if others:
        raise IdentifiabilityError(
            f"the method 'bounded' takes bounds on single parameters ({in_words(list(SIMPLE))}), not "
            f"{others[0].kind!r}; use the method 'quadratic'",
            names=[constraint.kind for constraint in others],
        )


SOLVERS: dict[str, Callable[..., Solution]] = {
    "truncated": _truncated,
    "bounded": _bounded,
    "base": _base,
    "quadratic": _quadratic,
    "hierarchical": _hierarchical,
    "conic": solve_by_cones,
    "geometric": solve_by_geometry,
}
"""The methods."""


def _unused(task: Task) -> tuple[str, ...]:
    if not task.constraints:
        return ()
    return ("The setup's constraints were not used: this method takes none.",)


def _limits(task: Task) -> tuple[dict[str, float], dict[str, float]]:
    """Gives least and greatest values of single parameters, by name, from constraints that are such bounds."""
    lower: dict[str, float] = {}
    upper: dict[str, float] = {}
    if not task.constraints:
        return lower, upper
    asked = task.constraints[len(task.model.setup.constraints) :]
    _refuse_others([constraint for constraint in asked if constraint.kind not in SIMPLE])
    system = resolve_constraints(task.model, merge_constraints(task.model, "bounded", task.constraints))
    refuse_contradictions(system, task.problem.unknowns)
    looked_for = set(task.problem.unknowns.names)
    rows = system.rows
    for row, low, high in zip(rows.matrix, rows.lower, rows.upper, strict=True):
        name = task.model.parameter_names[int(np.flatnonzero(row)[0])]
        if name in looked_for:
            lower[name] = max(low, lower.get(name, -np.inf))
            upper[name] = min(high, upper.get(name, np.inf))
    return lower, upper


def _about_alpha(alpha: float, left: dict[float, float], motions: int) -> str:
    candidates = sorted(left)
    words = (
        f"The prior's weight {alpha:.3g} was found by cross-validation: parameters learned from {motions - 1} of "
        f"{motions} motions left the least, {left[alpha]:.4g} per equation, in the one left out"
    )
    worst = max(left.values())
    words += f" ({worst:.4g} with the worst weight tried)."
    if alpha in (candidates[0], candidates[-1]):
        words += " It is the last that was tried on its side; a weight further out may do better."
    return words


def _about_levels(problem: Problem, system: ConstraintSystem, found: HierarchicalSolution) -> list[str]:
    """Says which levels could not be held, and which cost the data more than noise explains."""
    remarks = [
        f"The level '{report.name}' could not be held beside those above it: {in_words(list(report.broken), limit=6)}."
        for report in found.levels
        if report.broken
    ]
    kinds = dict(zip(system.rows.names, system.rows.kinds, strict=True))
    for place, report in enumerate(found.levels):
        if DATA not in report.contents:
            continue
        costs = [*report.before, report.cost]
        for above in range(place):
            gained = (costs[above + 1] - costs[above]) / max(problem.noise, 1e-300) ** 2
            # No more directions of the data than these can be spoiled.
            if gained <= chi2.isf(_CHANCE, max(found.kept, 1)):
                continue
            level = found.levels[above]
            rows = system.of(level.contents).rows
            equations = [
                name for name, low, high in zip(rows.names, rows.lower, rows.upper, strict=True) if low == high
            ]
            names = [*equations, *(name for name in found.active if kinds.get(name, "inertia") in level.contents)]
            culprits = f" {in_words(names[:4])} bind." if names else ""
            remarks.append(
                f"The level '{level.name}' disagrees with the data: it raises their cost from {costs[above]:.4g} to "
                f"{costs[above + 1]:.4g}, more than noise explains.{culprits} Loosen what you are not sure of, or look "
                'for what sensors are off by (nuisance "wrench_offset").'
            )
    return remarks
