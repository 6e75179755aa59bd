"""Rounds of a search for loads: one is added after the other, as long as each is significant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from steelyard.payload.load_fit import fit_loads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.payload.load_fit import LoadFit
    from steelyard.payload.load_problem import PayloadProblem

POINT_SIZE = 4
"""Parameters of a point mass."""

DOUBT = 0.05
"""Greatest posterior probability of no load at which one counts as found: the usual level."""

EXACT = 0.005
"""Relative accuracy of a load's predicted effect on the rows, limited by encoders, delays and sensor gains. Twice that
share of what is explained already, by loads or by changes of the sensors (which are linearised), is neither a further
load nor an extent. Set by judgement."""

_ROUNDS = 3
"""Most sweeps in which loads change links; set by judgement."""

NEAR = 20.0
"""Difference in log probability beyond which a link is no candidate: e⁻²⁰ is 2e-9."""


@dataclass(frozen=True, eq=False)
class LoadSearch:
    """Result of a search.

    Attributes:
        problem: The problem, with its noise multiplied by the misfit.
        chosen: Links that may carry a load.
        candidates: Those of them on which a load is observable.
        fit: The loads found; None for none.
        ratio: Likelihood ratio of the best single load.
        p_value: Of that ratio.
        nothing: Probability that there is no load.
        misfit: See `PayloadFinding`.
        freedom: Degrees of freedom of the noise.
        removed: Whether loads may be negative.
        taken: Link and mass of what was rather removed, where that is not searched for.
    """

    problem: PayloadProblem
    chosen: tuple[int, ...]
    candidates: tuple[int, ...]
    fit: LoadFit | None
    ratio: float
    p_value: float
    nothing: float
    misfit: float
    freedom: float
    removed: bool
    taken: tuple[str, float] | None


def search_loads(
    problem: PayloadProblem, chosen: Sequence[int], *, removed: bool, most: int, level: float
) -> LoadSearch:
    """Add loads one by one while each is significant."""
    visible = tuple(link for link in chosen if problem.central_mass_errors[link] < 10.0 * problem.mass_scale)
    if not visible:
        return LoadSearch(problem, tuple(chosen), (), None, 0.0, 1.0, 0.5, 1.0, problem.freedom, removed, None)
    accepted: LoadFit | None = None
    first: tuple[float, float, float] | None = None
    misfit, freedom, taken = 1.0, problem.freedom, None
    while accepted is None or len(accepted.links) < most:
        fits = _next_loads(problem, accepted, visible, removed=removed, level=level)
        if not fits:
            break
        best = max(fits, key=lambda fit: log_weight(problem, fit))
        settled = _settle(problem, best, visible, removed=removed)
        if settled.links != best.links:
            # The earlier loads were a compromise: all move at once, and the comparison is of all with those before.
            fits, best = [settled], settled
        new_misfit, new_freedom = _misfit(problem, best)
        scaled = problem.with_noise(new_misfit)
        # Every near candidate is refitted with that noise: marginal likelihoods change by more than a common factor.
        near = log_weight(problem, best) - NEAR * new_misfit**2
        again = [
            fit_loads(scaled, fit.links, removed=removed, near=fit) for fit in fits if log_weight(problem, fit) > near
        ]
        best = max(again, key=lambda fit: log_weight(scaled, fit))
        known = None if accepted is None else fit_loads(scaled, accepted.links, removed=removed, near=accepted)
        allowed = [fit.cost for fit in again if removed or fit.masses[-1] > 0.0]
        ratio = max(0.0, cost_of(scaled, known) - min(allowed, default=np.inf) - inexactness(scaled, known))
        p_value = p_value_of(ratio, new_freedom, len(visible))
        nothing = _nothing(scaled, visible, again, known)
        if first is None:
            first = (ratio, p_value, nothing)
            misfit, freedom = new_misfit, new_freedom
            taken = _taken(problem, fits, len(visible), level)
        if p_value > level or nothing > DOUBT or (not removed and best.masses[-1] <= 0.0):
            break
        accepted, misfit, freedom = best, new_misfit, new_freedom
    assert first is not None  # noqa: S101  (there was a round)
    scaled = problem.with_noise(misfit)
    if accepted is not None:
        accepted = fit_loads(scaled, accepted.links, removed=removed, near=accepted)
        alone = [fit_loads(scaled, [link], removed=removed) for link in accepted.links]
        ratio = max(cost_of(scaled, None) - fit.cost for fit in alone)
        first = (ratio, p_value_of(ratio, freedom, len(visible)), first[2])
    return LoadSearch(scaled, tuple(chosen), visible, accepted, *first, misfit, freedom, removed, taken)


def _next_loads(
    problem: PayloadProblem, accepted: LoadFit | None, visible: Sequence[int], *, removed: bool, level: float
) -> list[LoadFit]:
    """Return fits with one more load, on each link that could come near the best; none if none can be significant."""
    known = () if accepted is None else accepted.links
    bounds = {link: cost_bound(problem, (*known, link)) for link in visible if link not in known}
    fits: list[LoadFit] = []
    window = 0.0
    for link in sorted(bounds, key=lambda each: bounds[each]):
        if fits and bounds[link] > min(fit.cost for fit in fits) + window:
            break
        if not fits and accepted is not None:
            before = fit_loads(problem, known, removed=removed, near=accepted).cost
            if p_value_of(before - bounds[link], problem.freedom, len(visible)) > level:
                break
        fits.append(fit_loads(problem, (*known, link), removed=removed, near=accepted))
        window = 4.0 * NEAR * min(_misfit(problem, fit)[0] for fit in fits) ** 2
    return fits


def cost_bound(problem: PayloadProblem, links: Sequence[int]) -> float:
    """Return a lower bound of the cost of loads on given links: that of ten free parameters each."""
    basis = np.linalg.qr(np.concatenate([problem.of(link) for link in links], axis=1))[0]
    shares = basis.T @ problem.right
    return float(problem.right @ problem.right - shares @ shares)


def log_weight(problem: PayloadProblem, fit: LoadFit) -> float:
    """Return the log posterior weight of a fit's links: marginal likelihood, and prior volume around their matter."""
    return fit.log_evidence + float(np.sum(np.log(np.linalg.det(problem.roots[list(fit.links)]))))


def log_prior_volume(problem: PayloadProblem, links: Sequence[int]) -> float:
    """Return the logarithm of the prior volume around the matter of some links."""
    return float(logsumexp(np.log(np.linalg.det(problem.roots[list(links)]))))


def _nothing(problem: PayloadProblem, visible: Sequence[int], fits: Sequence[LoadFit], known: LoadFit | None) -> float:
    """Return the probability of no load beyond those known, with a prior of one half."""
    volume = log_prior_volume(problem, visible)
    none = -0.5 * cost_of(problem, None) if known is None else log_weight(problem, known)
    some = float(logsumexp([log_weight(problem, fit) for fit in fits])) - volume
    return float(1.0 / (1.0 + np.exp(np.clip(some - none, -700.0, 700.0))))


def _misfit(problem: PayloadProblem, fit: LoadFit) -> tuple[float, float]:
    """Return the rms of what the loads leave, in units of the noise (at least 1), and its degrees of freedom."""
    shares = problem.directions.T @ (problem.right - effect_of(problem, fit))
    freedom = len(shares) - POINT_SIZE * len(fit.links)
    if freedom < 1 or float(shares @ shares) <= freedom:
        return 1.0, problem.freedom
    return float(np.sqrt(shares @ shares / freedom)), min(problem.freedom, float(freedom))


def effect_of(problem: PayloadProblem, fit: LoadFit) -> Any:
    """Return what the loads of a fit add to the rows, shape (n_rows,)."""
    return np.sum([problem.of(link) @ fit.parameters(number) for number, link in enumerate(fit.links)], axis=0)


def cost_of(problem: PayloadProblem, fit: LoadFit | None) -> float:
    """Return the cost of a fit; without one, that of no load."""
    return float(problem.right @ problem.right) if fit is None else fit.cost


def inexactness(problem: PayloadProblem, fit: LoadFit | None) -> float:
    """Return the cost that known loads, and changes in the noise, may leave unexplained although they are right."""
    return (2.0 * EXACT) ** 2 * (problem.explained + max(0.0, cost_of(problem, None) - cost_of(problem, fit)))


def p_value_of(ratio: float, freedom: float, count: int) -> float:
    """Return the probability of such a ratio by chance on any of some links, by Bonferroni's bound."""
    if np.isinf(freedom):
        return float(min(1.0, count * chi2.sf(ratio, POINT_SIZE)))
    return float(min(1.0, count * f_distribution.sf(ratio / POINT_SIZE, POINT_SIZE, freedom)))


def _taken(problem: PayloadProblem, fits: Sequence[LoadFit], count: int, level: float) -> tuple[str, float] | None:
    """Return link and mass of what was removed, where that explains the data significantly better than a load."""
    below, above = ([fit for fit in fits if (fit.masses[-1] < 0.0) == negative] for negative in (True, False))
    if not below:
        return None
    best = min(below, key=lambda fit: fit.cost)
    misfit, freedom = _misfit(problem, best)
    empty = cost_of(problem, None)
    gain, other = empty - best.cost, empty - min((fit.cost for fit in above), default=empty)
    if gain - other < NEAR * misfit**2 or p_value_of(gain / misfit**2, freedom, count) > level:
        return None
    return problem.links[best.links[-1]], float(best.masses[-1])


def _settle(problem: PayloadProblem, fit: LoadFit, visible: Sequence[int], *, removed: bool) -> LoadFit:
    """Move loads to other links, one at a time, while that makes all together more probable."""
    for _ in range(_ROUNDS if len(fit.links) > 1 else 0):
        before = fit
        for number in range(len(fit.links)):
            fit = max(
                moved_fits(problem, fit, number, visible, removed=removed), key=lambda each: log_weight(problem, each)
            )
        if fit.links == before.links:
            break
    return fit


def moved_fits(
    problem: PayloadProblem, fit: LoadFit, number: int, visible: Sequence[int], *, removed: bool
) -> list[LoadFit]:
    """Return the fit, and those with one load moved to each other link that could come near."""
    fits = [fit]
    for link in visible:
        links = tuple(link if k == number else other for k, other in enumerate(fit.links))
        if link not in fit.links and cost_bound(problem, links) < fit.cost + 4.0 * NEAR:
            fits.append(fit_loads(problem, links, removed=removed, near=fit))
    return fits
