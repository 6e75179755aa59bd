"""Search for loads that were added to a robot, relative to a recording without them or to the CAD model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2, norm
from scipy.stats import f as f_distribution

from steelyard.kinematics import one_blas_thread
from steelyard.payload.argument_checks import check_arguments, choose_links
from steelyard.payload.finding import FoundPayload, PayloadFinding
from steelyard.payload.finding_notes import write_payload_notes
from steelyard.payload.load_fit import fit_body, fit_loads
from steelyard.payload.load_problem import build_payload_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model
    from steelyard.payload.finding import PayloadStatus
    from steelyard.payload.load_fit import BodyFit, LoadFit
    from steelyard.payload.load_problem import PayloadProblem
    from steelyard.regression import Evidence

_LOAD, _BODY = 4, 6
"""Parameters of a point mass, and the additional ones of a rigid body."""

_POWER = 0.95
"""Probability of detection at the reported limits: the usual 19 of 20."""

_DOUBT = 0.05
"""Greatest posterior probability of no load at which one counts as found: the usual level."""

_WORTH = 0.02
"""Least load worth reporting by default, as a share of the robot's mass. Set by judgement: 0.7 kg on a G1."""

_EXACT = 0.005
"""Relative accuracy of a load's predicted effect on the rows, limited by encoders, delays and sensor gains. Twice that
share of what is explained already is neither a further load nor an extent. Set by judgement."""

_ROUNDS = 3
"""Most sweeps in which loads change links; set by judgement."""

_NEAR = 20.0
"""Difference in log probability beyond which a link is no candidate: e⁻²⁰ is 2e-9."""


def find_payload(
    model: Model,
    evidence: Evidence,
    baseline: Evidence | None = None,
    *,
    cad_spread: float | None = None,
    same_sensors: bool = True,
    links: str | Sequence[str] | None = None,
    removed: bool = False,
    most: int = 3,
    level: float = 0.01,
    least_mass: float | None = None,
) -> PayloadFinding:
    """Find what was added to a robot, on which link, and how heavy it is.

    For each link, a point mass is fitted to what neither the robot nor its sensors' errors explain; see
    `steelyard.payload.load_problem`. Links are compared by marginal likelihood, with a uniform prior over the volume
    around the robot's matter. A load counts as found where its likelihood ratio is significant at `level`, corrected
    for the number of links; then the next is searched for, and all are refitted. A load is described as a rigid body
    where that is significantly better than a point mass.

    Args:
        model: The robot without the load, with which the Evidence was gathered.
        evidence: Of the robot with the load.
        baseline: Of the same robot without it, in the same or another motion. Without a baseline the load is measured
            relative to the model.
        cad_spread: Relative standard deviation of the model's masses (0.2: 20 %; centres of mass and inertias
            accordingly); 0 for an exact model; None for the usual model error. With a baseline it matters little.
        same_sensors: Whether the sensors were neither zeroed nor mounted anew between the two recordings. Their errors
            are then the same, up to a drift of a tenth of their priors; otherwise they are independent, and a mass is
            known no better than two zeroings are.
        links: Names or patterns of the links that may carry a load; None for all.
        removed: Whether mass may have been removed as well.
        most: The greatest number of loads to search for.
        level: Probability of a false alarm.
        least_mass: Mass (kg) of a load worth reporting: status "nothing" means that it would have been detected on any
            link; None for 2 % of the model's.

    Raises:
        EvidenceError: The evidence or the baseline is of another robot or other sensors, or nuisances differ.
        IdentifiabilityError: There are too few data, or an argument is invalid.
    """
    check_arguments(evidence, baseline, cad_spread, most, level, least_mass)
    chosen = choose_links(model, links)
    spread = None if cad_spread is None else float(cad_spread)
    with one_blas_thread():
        problem = build_payload_problem(model, evidence, baseline, cad_spread=spread, same_sensors=same_sensors)
        search = _search(problem, chosen, removed=removed, most=most, level=level)
        found = _describe(search, level)
        limits = _limits(search, level)
        worth = _WORTH * model.total_mass if least_mass is None else float(least_mass)
        status: PayloadStatus
        if found:
            status = "found" if all(len(payload.links) == 1 for payload in found) else "ambiguous"
        else:
            status = "nothing" if max(limits.values()) <= worth else "cannot tell"
        zeroed = None
        if found and baseline is not None and same_sensors and evidence.key.nuisance:
            independent = build_payload_problem(model, evidence, baseline, cad_spread=spread, same_sensors=False)
            named = [model.link_index(payload.link) for payload in found]
            again = _search(independent, named, removed=removed, most=1, level=level)
            zeroed = again.p_value * len(chosen) / len(named)
    finding = PayloadFinding(
        robot=model.name,
        status=status,
        payloads=found,
        likelihood_ratio=search.ratio,
        p_value=search.p_value,
        nothing=search.nothing,
        limits=limits,
        misfit=float(search.misfit),
        baseline=baseline is not None,
        notes=(),
    )
    return write_payload_notes(
        finding, problem, cad_spread=spread, worth=worth, level=level, zeroed=zeroed,
        taken=None if removed else search.taken,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Search:
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


def _search(problem: PayloadProblem, chosen: Sequence[int], *, removed: bool, most: int, level: float) -> _Search:
    """Add loads one by one while each is significant."""
    visible = tuple(link for link in chosen if problem.central_mass_errors[link] < 10.0 * problem.mass_scale)
    if not visible:
        return _Search(problem, tuple(chosen), (), None, 0.0, 1.0, 0.5, 1.0, problem.freedom, removed, None)
    accepted: LoadFit | None = None
    first: tuple[float, float, float] | None = None
    misfit, freedom, taken = 1.0, problem.freedom, None
    while accepted is None or len(accepted.links) < most:
        fits = _rivals(problem, accepted, visible, removed=removed, level=level)
        if not fits:
            break
        best = max(fits, key=lambda fit: _weight(problem, fit))
        settled = _settle(problem, best, visible, removed=removed)
        if settled.links != best.links:
            # The earlier loads were a compromise: all move at once, and the comparison is of all with those before.
            fits, best = [settled], settled
        new_misfit, new_freedom = _misfit(problem, best)
        scaled = problem.with_noise(new_misfit)
        # Every near candidate is refitted with that noise: marginal likelihoods change by more than a common factor.
        near = _weight(problem, best) - _NEAR * new_misfit**2
        again = [
            fit_loads(scaled, fit.links, removed=removed, near=fit) for fit in fits if _weight(problem, fit) > near
        ]
        best = max(again, key=lambda fit: _weight(scaled, fit))
        known = None if accepted is None else fit_loads(scaled, accepted.links, removed=removed, near=accepted)
        allowed = [fit.cost for fit in again if removed or fit.masses[-1] > 0.0]
        ratio = max(0.0, _cost(scaled, known) - min(allowed, default=np.inf) - _inexactness(scaled, known))
        p_value = _p_value(ratio, new_freedom, len(visible))
        nothing = _nothing(scaled, visible, again, known)
        if first is None:
            first = (ratio, p_value, nothing)
            misfit, freedom = new_misfit, new_freedom
            taken = _taken(problem, fits, len(visible), level)
        if p_value > level or nothing > _DOUBT or (not removed and best.masses[-1] <= 0.0):
            break
        accepted, misfit, freedom = best, new_misfit, new_freedom
    assert first is not None  # noqa: S101  (there was a round)
    scaled = problem.with_noise(misfit)
    if accepted is not None:
        accepted = fit_loads(scaled, accepted.links, removed=removed, near=accepted)
        alone = [fit_loads(scaled, [link], removed=removed) for link in accepted.links]
        ratio = max(_cost(scaled, None) - fit.cost for fit in alone)
        first = (ratio, _p_value(ratio, freedom, len(visible)), first[2])
    return _Search(scaled, tuple(chosen), visible, accepted, *first, misfit, freedom, removed, taken)


def _rivals(
    problem: PayloadProblem, accepted: LoadFit | None, visible: Sequence[int], *, removed: bool, level: float
) -> list[LoadFit]:
    """Return fits with one more load, on each link that could come near the best; none if none can be significant."""
    known = () if accepted is None else accepted.links
    bounds = {link: _cost_bound(problem, (*known, link)) for link in visible if link not in known}
    fits: list[LoadFit] = []
    window = 0.0
    for link in sorted(bounds, key=lambda each: bounds[each]):
        if fits and bounds[link] > min(fit.cost for fit in fits) + window:
            break
        if not fits and accepted is not None:
            before = fit_loads(problem, known, removed=removed, near=accepted).cost
            if _p_value(before - bounds[link], problem.freedom, len(visible)) > level:
                break
        fits.append(fit_loads(problem, (*known, link), removed=removed, near=accepted))
        window = 4.0 * _NEAR * min(_misfit(problem, fit)[0] for fit in fits) ** 2
    return fits


def _cost_bound(problem: PayloadProblem, links: Sequence[int]) -> float:
    """Return a lower bound of the cost of loads on given links: that of ten free parameters each."""
    basis = np.linalg.qr(np.concatenate([problem.of(link) for link in links], axis=1))[0]
    shares = basis.T @ problem.right
    return float(problem.right @ problem.right - shares @ shares)


def _weight(problem: PayloadProblem, fit: LoadFit) -> float:
    """Return the log posterior weight of a fit's links: marginal likelihood, and prior volume around their matter."""
    return fit.log_evidence + float(np.sum(np.log(np.linalg.det(problem.roots[list(fit.links)]))))


def _nothing(problem: PayloadProblem, visible: Sequence[int], fits: Sequence[LoadFit], known: LoadFit | None) -> float:
    """Return the probability of no load beyond those known, with a prior of one half."""
    volume = float(logsumexp(np.log(np.linalg.det(problem.roots[list(visible)]))))
    none = -0.5 * _cost(problem, None) if known is None else _weight(problem, known)
    some = float(logsumexp([_weight(problem, fit) for fit in fits])) - volume
    return float(1.0 / (1.0 + np.exp(np.clip(some - none, -700.0, 700.0))))


def _misfit(problem: PayloadProblem, fit: LoadFit) -> tuple[float, float]:
    """Return the rms of what the loads leave, in units of the noise (at least 1), and its degrees of freedom."""
    shares = problem.directions.T @ (problem.right - _effect(problem, fit))
    freedom = len(shares) - _LOAD * len(fit.links)
    if freedom < 1 or float(shares @ shares) <= freedom:
        return 1.0, problem.freedom
    return float(np.sqrt(shares @ shares / freedom)), min(problem.freedom, float(freedom))


def _effect(problem: PayloadProblem, fit: LoadFit) -> Any:
    return np.sum([problem.of(link) @ fit.parameters(number) for number, link in enumerate(fit.links)], axis=0)


def _cost(problem: PayloadProblem, fit: LoadFit | None) -> float:
    return float(problem.right @ problem.right) if fit is None else fit.cost


def _inexactness(problem: PayloadProblem, fit: LoadFit | None) -> float:
    """Return the cost that known loads may leave unexplained although they are right."""
    return (2.0 * _EXACT) ** 2 * max(0.0, _cost(problem, None) - _cost(problem, fit))


def _p_value(ratio: float, freedom: float, count: int) -> float:
    """Return the probability of such a ratio by chance on any of some links, by Bonferroni's bound."""
    if np.isinf(freedom):
        return float(min(1.0, count * chi2.sf(ratio, _LOAD)))
    return float(min(1.0, count * f_distribution.sf(ratio / _LOAD, _LOAD, freedom)))


def _taken(problem: PayloadProblem, fits: Sequence[LoadFit], count: int, level: float) -> tuple[str, float] | None:
    """Return link and mass of what was removed, where that explains the data significantly better than a load."""
    below, above = ([fit for fit in fits if (fit.masses[-1] < 0.0) == negative] for negative in (True, False))
    if not below:
        return None
    best = min(below, key=lambda fit: fit.cost)
    misfit, freedom = _misfit(problem, best)
    empty = _cost(problem, None)
    gain, other = empty - best.cost, empty - min((fit.cost for fit in above), default=empty)
    if gain - other < _NEAR * misfit**2 or _p_value(gain / misfit**2, freedom, count) > level:
        return None
    return problem.links[best.links[-1]], float(best.masses[-1])


def _settle(problem: PayloadProblem, fit: LoadFit, visible: Sequence[int], *, removed: bool) -> LoadFit:
    """Move loads to other links, one at a time, while that makes all together more probable."""
    for _ in range(_ROUNDS if len(fit.links) > 1 else 0):
        before = fit
        for number in range(len(fit.links)):
            fit = max(_moved(problem, fit, number, visible, removed=removed), key=lambda each: _weight(problem, each))
        if fit.links == before.links:
            break
    return fit


def _moved(
    problem: PayloadProblem, fit: LoadFit, number: int, visible: Sequence[int], *, removed: bool
) -> list[LoadFit]:
    """Return the fit, and those with one load moved to each other link that could come near."""
    fits = [fit]
    for link in visible:
        links = tuple(link if k == number else other for k, other in enumerate(fit.links))
        if link not in fit.links and _cost_bound(problem, links) < fit.cost + 4.0 * _NEAR:
            fits.append(fit_loads(problem, links, removed=removed, near=fit))
    return fits


def _describe(search: _Search, level: float) -> tuple[FoundPayload, ...]:
    """Return the loads found, most significant first."""
    fit, problem = search.fit, search.problem
    if fit is None:
        return ()
    found = []
    for number, link in enumerate(fit.links):
        fits = _moved(problem, fit, number, search.candidates, removed=search.removed)
        weights = np.array([_weight(problem, each) for each in fits])
        shares = np.exp(weights - logsumexp(weights))
        order = np.argsort(-shares, kind="stable")
        names = [problem.links[each.links[number]] for each in fits]
        others = tuple(other for k, other in enumerate(fit.links) if k != number)
        without = fit_loads(problem, others, removed=search.removed, near=fit) if others else None
        ratio = max(0.0, _cost(problem, without) - fit.cost)
        mass, position = float(fit.masses[number]), fit.positions[number]
        errors = np.sqrt(np.diagonal(fit.covariance)[_LOAD * number : _LOAD * (number + 1)])
        body = fit_body(problem, fit, number)
        rigid, left = _is_rigid(search, fit, number, body, level)
        if rigid:
            body = fit_body(problem.with_noise(left), fit, number)
            mass, position = float(body.parameters[0]), body.parameters[1:4] / body.parameters[0]
            errors = np.sqrt(np.diagonal(body.covariance)[:_LOAD])
        found.append(
            FoundPayload(
                link=problem.links[link],
                mass=mass,
                mass_error=float(np.hypot(errors[0], _EXACT * mass)),
                position=np.array(position),
                position_errors=errors[1:],
                rigid=body.parameters if rigid else None,
                candidates={names[k]: float(shares[k]) for k in order}
                | {problem.links[other]: 0.0 for other in search.candidates if problem.links[other] not in names},
                masses={names[k]: float(fits[k].masses[number]) for k in order},
                likelihood_ratio=ratio,
                p_value=_p_value(ratio, search.freedom, len(search.candidates)),
            )
        )
    return tuple(sorted(found, key=lambda payload: -payload.likelihood_ratio))


def _is_rigid(search: _Search, fit: LoadFit, number: int, body: BodyFit, level: float) -> tuple[bool, float]:
    """Return whether an extent is significant, and the share of the misfit left with it: part of it was the extent."""
    problem = search.problem
    freedom = problem.directions.shape[1] - _LOAD * len(fit.links) - _BODY
    gain = body.gain - _inexactness(problem, fit)
    if search.misfit == 1.0 or freedom < 1:
        return gain > chi2.isf(level, _BODY), 1.0
    change = problem.of(fit.links[number]) @ (fit.parameters(number) - body.parameters)
    shares = problem.directions.T @ (problem.right - _effect(problem, fit) + change)
    left = min(1.0, max(float(np.sqrt(shares @ shares / freedom)), 1.0 / search.misfit))
    return gain / left**2 > _BODY * f_distribution.isf(level, _BODY, freedom), left


def _limits(search: _Search, level: float) -> dict[str, float]:
    """Return the mass of a load at each link's centre that is detected in 19 of 20 cases, by link; inf if none is."""
    problem = search.problem
    share = level / max(1, len(search.candidates))
    if np.isinf(search.freedom):
        bar = float(chi2.isf(share, _LOAD))
    else:
        bar = _LOAD * float(f_distribution.isf(share, _LOAD, search.freedom))
    masses = problem.central_mass_errors * (np.sqrt(bar) + norm.ppf(_POWER))
    return {
        problem.links[link]: float(masses[link]) if link in search.candidates else float("inf")
        for link in search.chosen
    }
