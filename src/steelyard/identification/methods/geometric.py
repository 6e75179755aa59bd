"""The geometric method: every link a body that can exist, as near to its reference as the data allow.

It minimises the data's cost and each link's log-det distance to its reference, with weights found from the data: how
far the model is off, group by group, and how much louder the data are than they seem. The minimum is the mode of a
posterior density, and its curvature there the posterior's; neither depends on units, frames, or the order of links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.estimate.estimate import Certificate
from steelyard.identification.methods.geometric_constraints import hold_constraints, inverse_within, share_of_slope
from steelyard.identification.methods.geometric_energy import build_landscape, invert
from steelyard.identification.methods.marginal_likelihood import find_prior_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.link_groups import LinkGroup
    from steelyard.identification.methods.geometric_energy import Landscape
    from steelyard.identification.methods.marginal_likelihood import PriorWeights
    from steelyard.identification.problem import Problem


@dataclass(frozen=True, eq=False)
class GeometricSolution:
    """The likeliest robot, and how sure it is.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        landscape: What was minimised.
        weights: How far each group of links, and the noise, is trusted.
        groups: The groups, in the weights' order.
        posterior: Covariance of ``z`` after the data, shape (n_unknowns, n_unknowns); equations are counted, other
            constraints are not.
        prior: The same before them.
        at_edges: Whether a constraint binds, or nearly does, so that the posterior is narrower than that.
        covariance: Of ``z`` by noise alone; what binds is taken to go on binding.
        response: How ``z`` answers to the true one on average.
        active: Names of constraints that bind.
        certificate: What shows that it is the minimum.
    """

    unknowns: FloatArray
    landscape: Landscape
    weights: PriorWeights
    groups: tuple[LinkGroup, ...]
    posterior: FloatArray
    prior: FloatArray
    at_edges: bool
    covariance: FloatArray
    response: FloatArray
    active: tuple[str, ...]
    certificate: Certificate


def solve_geometric(
    problem: Problem,
    system: ConstraintSystem,
    links: Sequence[str],
    groups: Sequence[LinkGroup],
    *,
    noise_factor: float | None = None,
) -> GeometricSolution:
    """Gives the likeliest robot.

    Args:
        problem: The problem; its start is of bodies that can exist.
        system: Constraints, which do not contradict each other; there need be none.
        links: Names of all links.
        groups: Which of them share one measure of how far the model is off.
        noise_factor: How much louder the data are than what no parameters explain; by default found.

    Raises:
        IdentifiabilityError: An option makes no sense.
        SolverError: No minimum was found.
    """
    check_noise_factor(noise_factor)
    landscape = build_landscape(problem if noise_factor is None else problem.louder(noise_factor))
    owners = {link: number for number, group in enumerate(groups) for link in group.links}
    numbers = np.array([owners[links[place]] for place in landscape.links.tolist()], dtype=np.int64)
    given = np.array([np.nan if group.spread is None else group.spread**-2 for group in groups])
    weights = find_prior_weights(landscape, numbers, weights=given, noise=noise_factor)
    landscape, minimum = weights.landscape, weights.minimum
    place, posterior, steps = minimum.place, minimum.covariance, minimum.steps + weights.rounds
    within, free, at_edges = posterior, None, False
    active: tuple[str, ...] = ()
    certificate = Certificate(share_of_slope(landscape, weights, place), 0.0, 0.0, steps, 0)
    if len(system.rows) or system.separators:
        held = hold_constraints(problem, landscape, weights, system)
        place, posterior, active = held.place, held.covariance, held.active
        within, free, at_edges = held.within, held.free, held.at_edges
        worst, _ = system.worst(problem.unknowns.expand(landscape.root @ place))
        certificate = Certificate(
            held.stationarity, worst, held.cascade.complementarity, steps + held.rounds, held.cascade.generated
        )
    answer = within @ landscape.gram / weights.noise**2
    before = landscape.spread_out(weights.by_link[:, None, None] * landscape.blocks(np.zeros(len(place))))
    return GeometricSolution(
        unknowns=landscape.root @ place,
        landscape=landscape,
        weights=weights,
        groups=tuple(groups),
        posterior=landscape.outward(posterior),
        prior=landscape.outward(invert(before) if free is None else inverse_within(before, free)),
        at_edges=at_edges,
        covariance=landscape.outward(answer @ within),
        response=np.asarray(landscape.left @ answer) @ landscape.back,
        active=active,
        certificate=certificate,
    )


def check_noise_factor(factor: float | None) -> None:
    """Refuses a factor that is none."""
    number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
    if factor is not None and not (number and np.isfinite(factor) and factor > 0.0):
        raise IdentifiabilityError(f"noise_factor is {factor!r}; it must be a number greater than zero")
