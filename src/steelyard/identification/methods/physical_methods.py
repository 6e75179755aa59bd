"""The methods that hold every link to what a body can be, as `identify` calls them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.constraints.resolve import refuse_contradictions, resolve_constraints
from steelyard.identification.estimate.estimate import Certificate
from steelyard.identification.link_groups import group_links
from steelyard.identification.methods.conic import FLOOR, solve_conic
from steelyard.identification.methods.geometric import solve_geometric
from steelyard.identification.methods.marginal_likelihood import VOLUME
from steelyard.identification.methods.solution import Solution, certified, merge_constraints
from steelyard.identification.sampling.drawn_families import with_separators
from steelyard.identification.sampling.draws import draw_errors
from steelyard.identification.sampling.posterior import build_posterior
from steelyard.model import (
    EXTENT_FLOOR,
    PARAMETER_COUNT,
    Frozen,
    constraint_table,
    find_pairs,
    is_possible,
    project_to_interior,
)
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.link_groups import LinkGroup
    from steelyard.identification.methods.geometric import GeometricSolution
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.identification.problem import Problem
    from steelyard.identification.sampling.posterior import Posterior
    from steelyard.model import Constraint, Model

_NOTHING = 0.05
"""Combinations of parameters below which the data decide nothing."""

_SILENT = "The data decide nothing: the estimate is the reference. Record a motion, with sensors that feel it."

DRAWS = 64
"""Independent draws that standard errors rest on at least where constraints bind. Chains come to some hundreds, which
tell a standard error to 5 %."""

_SEED = 0
"""Of the chance in them: the same data give the same standard errors."""

_COARSER = 1.01
LOUD = 1.5
"""Factor by which the data may be louder than they seem before it is remarked."""


def possible_model(model: Model, unknowns: ParameterSet) -> tuple[Model, list[str]]:
    """Gives the model with links that can exist, and the names of those that had to be changed for it.

    Links thinner than 1 mm are among them: their prior would be as narrow as they are, or have no curvature at all.
    Links of which nothing is looked for stay as they are.
    """
    # A link that was projected before, and is at the edge but for rounding, stays too.
    fine = np.atleast_1d(is_possible(model.parameters, extent=0.99 * EXTENT_FLOOR))
    fine |= ~np.any(unknowns.transform.reshape(len(fine), -1) != 0.0, axis=1)
    if np.all(fine):
        return model, []
    projected = np.where(fine[:, None], model.parameters, project_to_interior(model.parameters))
    return model.with_parameters(projected), [
        link for link, possible in zip(model.links, fine, strict=True) if not possible
    ]


def impossible_frozen(model: Model, constraints: Sequence[Constraint], unknowns: ParameterSet) -> list[int]:
    """Gives the links that are frozen as no body could be, by row: neither a prior nor draws can have them so.

    They are better not looked for. Links that are tied to an image are not among them: neither is as the model has it.
    """
    fine = np.atleast_1d(is_possible(model.parameters, extent=0.99 * EXTENT_FLOOR))
    if np.all(fine):
        return []
    rows = resolve_constraints(model, [each for each in constraints if each.kind == Frozen.kind]).rows
    held = np.unique(np.nonzero(rows.matrix)[1] // PARAMETER_COUNT)
    images = {link for pair in find_pairs(model) for link in (pair.left, pair.right)} if unknowns.tied else set()
    return [link for link in held.tolist() if not fine[link] and link not in images]


def about_projection(projected: list[str], model: Model) -> list[str]:
    """Says which links of the reference were moved to what a body can be."""
    if not projected:
        return []
    empty = [link for link in projected if model.masses[link] <= 0.0]
    missing = [
        f"The model has no mass for {in_words(empty, limit=6)}; how far it is off is counted in shares, and of none "
        "nothing can be found. Write one into the model."
    ]
    return [
        *(missing if empty else []),
        f"The reference is impossible, or thinner than 1 mm, in {in_words(projected, limit=6)}; the nearest bodies "
        "that can exist, at least 1 mm thick, stood in for them; see `steelyard check`.",
    ]


def solve_by_cones(task: Task, *, alpha: float = 1.0, floor: float = FLOOR, draws: int = DRAWS) -> Solution:
    """Gives the answer of the method "conic"; see `_with_draws` for `draws`."""
    _check_draws(draws)
    used = merge_constraints(task.model, "conic", task.constraints)
    system = resolve_constraints(task.model, used)
    remarks = [*refuse_contradictions(system, task.problem.unknowns), *system.remarks]
    problem = task.problem
    found = solve_conic(problem, system, alpha=alpha, floor=floor)
    remarks = [*about_projection(list(found.projected), task.model), *remarks]
    if not problem.column_rank:
        held = bool(len(system.rows) or system.separators)
        remarks.insert(0, "The data decide nothing: all is the constraints' word." if held else _SILENT)
    certificate = Certificate(
        found.stationarity, found.violation, found.complementarity, found.problems, found.generated
    )
    solution = Solution(
        found.unknowns,
        found.covariance,
        found.response,
        "solved",
        found.active,
        tuple(remarks),
        {"alpha": alpha, "draws": int(draws), "constraints": constraint_table(used)},
    )
    solution = certified(task, certificate, system, solution)
    if found.status == "stopped":
        solution = replace(solution, status="stopped")
    if problem.noise > 0.0 and alpha > 0.0:
        spread = problem.unknowns.spread
        density = build_posterior(
            problem,
            found.unknowns,
            project_to_interior(task.model.parameters),
            prior_root=np.sqrt(alpha) * np.linalg.inv(spread),
            rows=system.rows,
        )
        solution = replace(solution, posterior=density, belief=found.belief)
        if found.at_edges:
            solution = _with_draws(solution, system, draws)
    return solution


def solve_by_geometry(
    task: Task, *, spread: Any = None, noise_factor: float | None = None, draws: int = DRAWS
) -> Solution:
    """Gives the answer of the method "geometric"; see `_with_draws` for `draws`."""
    _check_draws(draws)
    used = merge_constraints(task.model, "geometric", task.constraints)
    system = resolve_constraints(task.model, used)
    problem, links = task.problem, task.model.links
    remarks = [*refuse_contradictions(system, problem.unknowns), *system.remarks] if used else []
    sought = {links[place] for place in (problem.unknowns.chosen // PARAMETER_COUNT).tolist()}
    groups = [group for group in group_links(task.model, spread) if sought.intersection(group.links)]
    found = solve_geometric(problem, system, links, groups, noise_factor=noise_factor)
    if found.landscape.noise > _COARSER * problem.noise > 0.0:
        remarks.append(
            "The data are sharper than double precision can weigh against the model; standard errors are those of "
            "data that tell a parameter to a millionth."
        )
    options: dict[str, Any] = {
        "spread": {
            group.name: float(weight**-0.5) for group, weight in zip(groups, found.weights.by_group, strict=True)
        },
        "noise_factor": float(found.weights.noise),
        "draws": int(draws),
        "constraints": constraint_table(used),
    }
    solution = Solution(
        found.unknowns,
        found.covariance,
        found.response,
        "solved",
        found.active,
        (*_about_weights(found, task.base.rank + len(task.base.dropped)), *remarks),
        options,
        belief=(found.posterior, found.prior),
        belief_freedom=found.weights.freedom,
    )
    solution = certified(task, found.certificate, system, solution)
    solution = replace(solution, posterior=_density(problem, found, system))
    return _with_draws(solution, system, draws) if found.at_edges else solution


def _check_draws(draws: Any) -> None:
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 0:
        raise IdentifiabilityError(f"draws is {draws!r}; it must be a whole number from 0")


def _with_draws(solution: Solution, system: ConstraintSystem, draws: int) -> Solution:
    """Gives the solution with its errors as draws from the posterior have them: at an edge, no curvature tells them.

    Args:
        solution: The solution, with its posterior.
        system: What must hold.
        draws: How many independent draws they must be worth. Zero leaves the errors to the curvature, which counts
            equations and no other constraint, nor what a body can be: mostly too wide, but at once.
    """
    blind = (
        "Standard errors do not count constraints that bind (nor the edge of what bodies can be), and are mostly too "
        "wide"
    )
    if not draws or solution.posterior is None:
        return replace(solution, remarks=(*solution.remarks, f"{blind}; draws={DRAWS} takes them from draws."))
    try:
        posterior, holds = with_separators(solution.posterior, system.separators)
        generator = np.random.default_rng(_SEED)
        errors, mixing = draw_errors(posterior, solution.unknowns, draws, generator, holds=holds)
    except SolverError as error:
        return replace(solution, remarks=(*solution.remarks, f"{blind}: {error}."))
    remark = (
        "Something binds, or nearly so: standard errors are those of robots drawn from what is possible, worth "
        f"{mixing.effective_count:.0f} independent ones."
    )
    return replace(solution, errors=errors, remarks=(*solution.remarks, remark))


def _density(problem: Problem, found: GeometricSolution, system: ConstraintSystem) -> Posterior:
    """Gives the posterior by ordinary volume: ``w tr X − (w − 5/2) log det X``, which is a distance of its own.

    It has the weight ``w − 5/2`` and the reference ``P₀ (w − 5/2)/w``. Of links of which only some parameters are
    looked for, the volume is left as it is.
    """
    landscape, chosen = found.landscape, found.landscape.links
    weights = np.zeros(len(landscape.reference))
    reference = landscape.reference.copy()
    volume = np.where(landscape.sizes == PARAMETER_COUNT, VOLUME, 0.0)
    weights[chosen] = found.weights.by_link - volume
    reference[chosen] *= (weights[chosen] / found.weights.by_link)[:, None]
    # A link and its tied image are equally far off: each counts half, and both stay away from what cannot be.
    unknowns = problem.unknowns
    moved = np.any(unknowns.transform.reshape(len(weights), PARAMETER_COUNT, -1) != 0.0, axis=1)
    for image in np.setdiff1d(np.flatnonzero(np.any(moved, axis=1)), chosen).tolist():
        link = int(unknowns.chosen[np.flatnonzero(moved[image])[0]]) // PARAMETER_COUNT
        weights[link] = weights[image] = 0.5 * weights[link]
        reference[image] *= reference[link, 0] / landscape.reference[link, 0]
    scale = landscape.noise * found.weights.noise / (problem.noise or 1.0)
    louder = replace(problem.louder(found.weights.noise), variance=(problem.variance or 1.0) * scale**2)
    return build_posterior(louder, found.unknowns, reference, weights=weights, rows=system.rows)


def _called(group: LinkGroup) -> str:
    """Gives a group's name in words; a limb has that of its first link."""
    name = f"from {group.name} on" if group.name in group.links and len(group.links) > 1 else group.name
    return f"{name}, as given" if group.spread is not None else name


def _about_weights(found: GeometricSolution, able: int) -> list[str]:
    """Says how far the model is off and how loud the data are, as these tell; `able` combinations can be told apart."""
    weights = found.weights
    shares = [
        f"{100.0 * weight**-0.5:.0f} % ({_called(group)})"
        for group, weight in zip(found.groups, weights.by_group, strict=True)
    ]
    decided = float(np.trace(found.response))
    words = f"The model is off by about {in_words(shares)} of a link's mass and extent"
    if decided >= _NOTHING:
        number = f"about {decided:.0f}" if decided >= 1.0 else "less than one"
        remarks = [f"{words}; the data decide {number} of {able} combinations of parameters."]
    elif found.landscape.rank and found.active:
        remarks = [f"{words}; the constraints leave the data nothing to decide."]
    else:
        remarks = [_SILENT]
    if weights.noise > LOUD:
        remarks.append(
            f"The data contradict each other {weights.noise:.1f} times as much as their noise explains (errors of "
            "encoders or of delays look like parameters); standard errors count it."
        )
    if not weights.settled:
        remarks.append("How far the model is off had not settled; standard errors are a guess.")
    return remarks
