"""The geometric method: possible bodies, as near to their references as the data allow.

It minimises the data's cost and each link's log-det distance to its reference, with weights found from the data: the
deviation of the model, group by group, and the noise scale. The minimum is the mode of a posterior density, and its
curvature there the posterior's; neither depends on units, frames, or the order of links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.link_groups import group_links
from steelyard.identification.methods.drawn_errors import DRAWS, check_draws, with_drawn_errors
from steelyard.identification.methods.geometric_constraints import gradient_share, hold_constraints, inverse_within
from steelyard.identification.methods.geometric_energy import build_geometric_energy, invert_curvature
from steelyard.identification.methods.marginal_likelihood import VOLUME, find_prior_weights
from steelyard.identification.methods.option_checks import check_positive
from steelyard.identification.methods.solution import SILENT, Solution
from steelyard.identification.sampling.posterior import build_posterior
from steelyard.identification.solvers.certificate import Certificate
from steelyard.model import PARAMETER_COUNT, constraint_table
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.link_groups import LinkGroup
    from steelyard.identification.methods.geometric_energy import GeometricEnergy
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem
    from steelyard.identification.sampling.posterior import Posterior

_NOTHING = 0.05
"""Number of combinations of parameters below which the data decide nothing. Set by judgement: a twentieth of one."""

_COARSER = 1.01
"""Factor by which rounding must have raised the noise before it is remarked. Set by judgement: a percent of a
standard error is not worth a note."""

_NOISY = 1.5
"""Noise scale above which it is remarked. Set by judgement: half again as much as the residual shows."""


@dataclass(frozen=True, eq=False)
class GeometricProblem:
    """An energy to minimise under constraints, and the weights in it that are unknown.

    Attributes:
        problem: The problem of the Evidence; its start is of possible bodies.
        system: Constraints.
        energy: The energy, for weights that are not known yet.
        groups: Groups of links with one weight each.
        group_of_link: Index of the group of each of the energy's links.
        weights: Of each group; NaN where it is unknown.
        noise_factor: The noise scale; None where it is unknown.
    """

    problem: Problem
    system: ConstraintSystem
    energy: GeometricEnergy
    groups: tuple[LinkGroup, ...]
    group_of_link: IntArray
    weights: FloatArray
    noise_factor: float | None


def build_geometric(
    problem: Problem,
    system: ConstraintSystem,
    links: Sequence[str],
    groups: Sequence[LinkGroup],
    *,
    noise_factor: float | None = None,
) -> GeometricProblem:
    """Return the energy, and which weights are unknown.

    Args:
        problem: The problem; its start is of possible bodies.
        system: Constraints, which do not contradict each other; there need be none.
        links: Names of all links.
        groups: Groups of links whose models deviate alike.
        noise_factor: The noise scale relative to the residual's; by default found from the data.

    Raises:
        IdentifiabilityError: An option is invalid.
    """
    if noise_factor is not None:
        check_positive("noise_factor", noise_factor)
    energy = build_geometric_energy(problem if noise_factor is None else problem.with_noise_scale(noise_factor))
    owners = {link: number for number, group in enumerate(groups) for link in group.links}
    numbers = np.array([owners[links[index]] for index in energy.links.tolist()], dtype=np.int64)
    weights = np.array([np.nan if group.spread is None else group.spread**-2 for group in groups])
    return GeometricProblem(problem, system, energy, tuple(groups), numbers, weights, noise_factor)


def solve_geometric(given: GeometricProblem) -> Solution:
    """Return the most probable robot, its posterior included.

    Covariance and response are by noise alone and take active constraints to stay active; `belief` counts equations and
    no other constraint.

    Raises:
        SolverError: No minimum was found.
    """
    problem, system = given.problem, given.system
    weights = find_prior_weights(given.energy, given.group_of_link, weights=given.weights, noise=given.noise_factor)
    energy, minimum = weights.energy, weights.minimum
    x, posterior, steps = minimum.point, minimum.covariance, minimum.steps + weights.rounds
    within, free, at_edges = posterior, None, False
    active: tuple[str, ...] = ()
    certificate = Certificate(gradient_share(energy, weights, x), problems=steps)
    if len(system.rows) or system.cut_families:
        held = hold_constraints(problem, energy, weights, system)
        x, posterior, active = held.point, held.covariance, held.active
        within, free, at_edges = held.within, held.free, held.at_edges
        worst, _ = system.worst(problem.unknowns.expand(energy.root @ x))
        certificate = replace(
            held.cascade.certificate(worst, active), stationarity=held.stationarity, problems=steps + held.rounds
        )
    answer = within @ energy.gram / weights.noise**2
    before = energy.assemble(weights.by_link[:, None, None] * energy.blocks(np.zeros(len(x))))
    solution = Solution(
        energy.root @ x,
        energy.unscale_covariance(answer @ within),
        np.asarray(energy.left @ answer) @ energy.back,
        "solved",
        active,
        certificate=certificate,
        belief=(
            energy.unscale_covariance(posterior),
            energy.unscale_covariance(invert_curvature(before) if free is None else inverse_within(before, free)),
        ),
        belief_freedom=weights.freedom,
        at_edges=at_edges,
        weights=weights,
    )
    return replace(solution, posterior=_density(problem, solution, system))


def identify_geometric(
    task: Task, *, spread: Any = None, noise_factor: float | None = None, draws: int = DRAWS
) -> Solution:
    """Return the solution of the method "geometric", with remarks; see `with_drawn_errors` for `draws`."""
    check_draws(draws)
    used, system, remarks = task.resolve("geometric")
    problem, links = task.problem, task.model.links
    sought = {links[index] for index in (problem.unknowns.chosen // PARAMETER_COUNT).tolist()}
    groups = [group for group in group_links(task.model, spread) if sought.intersection(group.links)]
    given = build_geometric(problem, system, links, groups, noise_factor=noise_factor)
    solution = solve_geometric(given)
    weights = solution.weights
    assert weights is not None  # noqa: S101  (this method fills it in)
    if weights.energy.noise > _COARSER * problem.noise > 0.0:
        remarks.append(
            "The data are more precise than double precision can weigh against the model; standard errors are those of "
            "data that resolve a parameter to a millionth."
        )
    options: dict[str, Any] = {
        "spread": {group.name: float(weight**-0.5) for group, weight in zip(groups, weights.by_group, strict=True)},
        "noise_factor": float(weights.noise),
        "draws": int(draws),
        "constraints": constraint_table(used),
    }
    remarks = [*_about_weights(given, solution, task.base.rank + len(task.base.dropped)), *remarks]
    solution = task.judge(replace(solution, remarks=tuple(remarks), options=options), system)
    return with_drawn_errors(solution, system, draws) if solution.at_edges else solution


def _density(problem: Problem, found: Solution, system: ConstraintSystem) -> Posterior:
    """Return the posterior by ordinary volume: ``w tr X − (w − 5/2) log det X``, which is a distance of its own.

    It has the weight ``w − 5/2`` and the reference ``P₀ (w − 5/2)/w``. Of links of which only some parameters are
    looked for, the volume is left as it is.
    """
    assert found.weights is not None  # noqa: S101  (this method fills it in)
    energy, by_link, noise = found.weights.energy, found.weights.by_link, found.weights.noise
    chosen = energy.links
    weights = np.zeros(len(energy.reference))
    reference = energy.reference.copy()
    volume = np.where(energy.sizes == PARAMETER_COUNT, VOLUME, 0.0)
    weights[chosen] = by_link - volume
    reference[chosen] *= (weights[chosen] / by_link)[:, None]
    # A link and its tied image deviate alike: each counts half, and both stay possible.
    unknowns = problem.unknowns
    moved = np.any(unknowns.transform.reshape(len(weights), PARAMETER_COUNT, -1) != 0.0, axis=1)
    for image in np.setdiff1d(np.flatnonzero(np.any(moved, axis=1)), chosen).tolist():
        link = int(unknowns.chosen[np.flatnonzero(moved[image])[0]]) // PARAMETER_COUNT
        weights[link] = weights[image] = 0.5 * weights[link]
        reference[image] *= reference[link, 0] / energy.reference[link, 0]
    scale = energy.noise * noise / (problem.noise or 1.0)
    noisier = replace(problem.with_noise_scale(noise), variance=(problem.variance or 1.0) * scale**2)
    return build_posterior(noisier, found.unknowns, reference, weights=weights, rows=system.rows)


def _called(group: LinkGroup) -> str:
    """Return a group's name for a sentence; a limb has that of its first link."""
    name = f"from {group.name} on" if group.name in group.links and len(group.links) > 1 else group.name
    return f"{name}, as given" if group.spread is not None else name


def _about_weights(given: GeometricProblem, found: Solution, able: int) -> list[str]:
    """Return remarks on the weights; `able` combinations of parameters are observable."""
    weights = found.weights
    assert weights is not None  # noqa: S101  (this method fills it in)
    shares = [
        f"{100.0 * weight**-0.5:.0f} % ({_called(group)})"
        for group, weight in zip(given.groups, weights.by_group, strict=True)
    ]
    decided = float(np.trace(found.response))
    words = f"The model deviates by about {in_words(shares)} of a link's mass and extent"
    if decided >= _NOTHING:
        number = f"about {decided:.0f}" if decided >= 1.0 else "less than one"
        remarks = [f"{words}; the data decide {number} of {able} combinations of parameters."]
    elif weights.energy.rank and found.active:
        remarks = [f"{words}; the constraints leave the data nothing to decide."]
    else:
        remarks = [SILENT]
    if weights.noise > _NOISY:
        remarks.append(
            f"The data contradict each other {weights.noise:.1f} times as much as the residual shows (errors of "
            "encoders or delays correlate with parameters); standard errors include it."
        )
    if not weights.settled:
        remarks.append("The model's deviation had not converged; standard errors are a guess.")
    return remarks
