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
from steelyard.payload.load_rounds import DOUBT, LoadSearch, cost_of, log_volume, log_weight, search_loads

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
        suspect: The search without any changes, which found loads although they are not accepted; else None.
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
    searches = [
        search_loads(problem.explained_by(each), chosen, removed=removed, most=most, level=level) for each in sets
    ]
    if len(sets) == 1:
        (search,) = searches
        return Comparison(search, (), {(): 1.0}, search.nothing, None)
    scaled = problem.with_noise(min(search.misfit for search in searches))
    empty, full = np.full(len(sets), -np.inf), np.full(len(sets), -np.inf)
    for place, (each, search) in enumerate(zip(sets, searches, strict=True)):
        same = scaled.explained_by(each)
        empty[place] = -0.5 * cost_of(same, None) - same.log_volume
        if search.fit is not None:
            fit = fit_loads(same, search.fit.links, removed=removed, near=search.fit)
            prior = len(fit.links) * log_volume(same, search.candidates)
            full[place] = log_weight(same, fit) - prior - same.log_volume
    total = logsumexp([empty, full])
    nothing = float(np.exp(logsumexp(empty) - total))
    shares = np.exp(np.logaddexp(empty, full) - total)
    found = nothing <= DOUBT
    best = int(np.argmax(full if found else empty))
    search = replace(searches[best], nothing=nothing) if found else replace(searches[best], fit=None, nothing=nothing)
    suspect = searches[0] if not found and searches[0].fit is not None else None
    return Comparison(search, sets[best], dict(zip(sets, shares.tolist(), strict=True)), nothing, suspect)
