"""Rivals of a load: changes of the sensors between two recordings, compared with loads by marginal likelihood.

A hypothesis is a set of changes (`CHANGES`: none, each by itself, all at once) with or without loads. Changes are
Gaussian with known priors and belong to the noise, whose volume grows with them: the marginal likelihood of the forces
``y`` under a set with the covariance ``C`` is ``−½ yᵀ C⁻¹ y − ½ log det C``, and with loads that of their fit in the
same noise, by Laplace's approximation. A priori, all sets are equally likely, and loads as likely as none in each.

The noise has one scale in all hypotheses: that which the best explanation of all leaves. Otherwise a hypothesis that
explains little would have noise enough to explain everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from steelyard.payload.load_fit import fit_loads
from steelyard.payload.load_rounds import (
    DOUBT,
    NEAR,
    LoadSearch,
    cost_bound,
    cost_of,
    log_prior_volume,
    log_weight,
    search_loads,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.payload.load_problem import PayloadProblem


@dataclass(frozen=True, eq=False)
class Comparison:
    """Result of the comparison of loads with changes of the sensors.

    Attributes:
        search: The search under the most probable set of changes, without loads where they are not accepted.
        changes: That set, entries of `CHANGES`.
        probabilities: Posterior probability of each set of changes, with or without loads, by its entries.
        nothing: Posterior probability of no load, whatever changed.
        suspect: Where no load is accepted, the search under other changes that found the most significant one, if any.
    """

    search: LoadSearch
    changes: tuple[str, ...]
    probabilities: Mapping[tuple[str, ...], float]
    nothing: float
    suspect: LoadSearch | None

    def by_name(self) -> dict[str, float]:
        """Return the probabilities by the name of a change; "none" and "several" for none and for all at once."""
        names = {names: names[0] if len(names) == 1 else "several" if names else "none" for names in self.probabilities}
        return {names[each]: probability for each, probability in self.probabilities.items()}


def compare_explanations(
    problem: PayloadProblem, chosen: Sequence[int], *, removed: bool, most: int, level: float
) -> Comparison:
    """Search for loads under every set of changes, and return the most probable explanation.

    Args:
        problem: The problem, with changes of the sensors beside it.
        chosen: Links that may carry a load.
        removed: Whether loads may be negative.
        most: The greatest number of loads.
        level: Probability of a false alarm.
    """
    names = tuple(problem.changes)
    sets = [(), *((name,) for name in names), *([names] if len(names) > 1 else [])]
    done: dict[tuple[str, ...], LoadSearch] = {}
    loads: tuple[int, ...] = ()
    scale, least = 1.0, -np.inf
    for each in sorted(sets, key=lambda each: -_bound(problem.explained_by(each), chosen, ())):
        if _bound(problem.with_noise(scale).explained_by(each), chosen, loads) < least - NEAR:
            continue
        search = search_loads(problem.explained_by(each), chosen, removed=removed, most=most, level=level)
        done[each] = search
        scale = min(search.misfit for search in done.values())
        weights = _weights(problem.with_noise(scale), done, removed=removed)
        best = max(done, key=lambda each: max(weights[each]))
        likeliest = done[best].fit
        least, loads = max(weights[best]), () if likeliest is None else likeliest.links
    if len(sets) == 1:
        return Comparison(done[()], (), {(): 1.0}, done[()].nothing, None)
    total = logsumexp([*weights.values()])
    nothing = float(np.exp(logsumexp([empty for empty, _ in weights.values()]) - total))
    found = nothing <= DOUBT
    best = max(done, key=lambda each: weights[each][found])
    search = done[best] if found else replace(done[best], fit=None)
    shares = {each: float(np.exp(logsumexp(weights[each]) - total)) if each in done else 0.0 for each in sets}
    suspects = [] if found else [search for each, search in done.items() if each != best and search.fit is not None]
    suspect = max(suspects, key=lambda search: search.ratio, default=None)
    return Comparison(replace(search, nothing=nothing), best, shares, nothing, suspect)


def _bound(problem: PayloadProblem, chosen: Sequence[int], loads: tuple[int, ...]) -> float:
    """Return an upper bound of the log marginal likelihood with a load on any link, or with those on given ones."""
    costs = [cost_bound(problem, (link,)) for link in chosen]
    costs += [cost_bound(problem, loads)] if len(loads) > 1 else []
    return -0.5 * min(costs) - problem.log_volume


def _weights(
    problem: PayloadProblem, searches: Mapping[tuple[str, ...], LoadSearch], *, removed: bool
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return the log marginal likelihood of each set of changes without loads, and with those that were found."""
    weights = {}
    for each, search in searches.items():
        same = problem.explained_by(each)
        empty, full = -0.5 * cost_of(same, None) - same.log_volume, -np.inf
        if search.fit is not None:
            fit = fit_loads(same, search.fit.links, removed=removed, near=search.fit)
            full = log_weight(same, fit) - len(fit.links) * log_prior_volume(same, search.candidates) - same.log_volume
        weights[each] = (empty, full)
    return weights
