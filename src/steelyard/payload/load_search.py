"""Search for loads that were added to a robot, relative to a recording without them or to the CAD model."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from steelyard.payload.load_rounds import (
    EXACT,
    POINT_SIZE,
    LoadSearch,
    cost_of,
    effect_of,
    inexactness,
    log_weight,
    moved_fits,
    p_value_of,
    search_loads,
)
from steelyard.payload.rivals import compare_explanations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model
    from steelyard.payload.finding import PayloadStatus
    from steelyard.payload.load_fit import BodyFit, LoadFit
    from steelyard.regression import Evidence

_BODY = 6
"""Parameters of a rigid body beyond those of a point mass."""

_POWER = 0.95
"""Probability of detection at the reported limits: the usual 19 of 20."""

_WORTH = 0.02
"""Least load worth reporting by default, as a share of the robot's mass. Set by judgement: 0.7 kg on a G1."""


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

    Sensors that drift, were zeroed, or lost their calibration between the recordings are rivals of a load, compared
    with it by marginal likelihood before it is named; see `steelyard.payload.rivals`. Gains, drift and encoder offsets
    are compared where the Evidence has columns for them (`RIVAL_NUISANCE`).

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
        comparison = compare_explanations(problem, chosen, removed=removed, most=most, level=level)
        search = comparison.search
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
            again = search_loads(independent, named, removed=removed, most=1, level=level)
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
        changes=comparison.by_name(),
        baseline=baseline is not None,
        notes=(),
    )
    return write_payload_notes(
        finding, problem, cad_spread=spread, worth=worth, level=level, zeroed=zeroed,
        taken=None if removed else search.taken, comparison=comparison,
    )  # fmt: skip


def _describe(search: LoadSearch, level: float) -> tuple[FoundPayload, ...]:
    """Return the loads found, most significant first."""
    fit, problem = search.fit, search.problem
    if fit is None:
        return ()
    found = []
    for number, link in enumerate(fit.links):
        fits = moved_fits(problem, fit, number, search.candidates, removed=search.removed)
        weights = np.array([log_weight(problem, each) for each in fits])
        shares = np.exp(weights - logsumexp(weights))
        order = np.argsort(-shares, kind="stable")
        names = [problem.links[each.links[number]] for each in fits]
        others = tuple(other for k, other in enumerate(fit.links) if k != number)
        without = fit_loads(problem, others, removed=search.removed, near=fit) if others else None
        ratio = max(0.0, cost_of(problem, without) - fit.cost)
        mass, position = float(fit.masses[number]), fit.positions[number]
        errors = np.sqrt(np.diagonal(fit.covariance)[POINT_SIZE * number : POINT_SIZE * (number + 1)])
        body = fit_body(problem, fit, number)
        rigid, left = _is_rigid(search, fit, number, body, level)
        if rigid:
            body = fit_body(problem.with_noise(left), fit, number)
            mass, position = float(body.parameters[0]), body.parameters[1:4] / body.parameters[0]
            errors = np.sqrt(np.diagonal(body.covariance)[:POINT_SIZE])
        found.append(
            FoundPayload(
                link=problem.links[link],
                mass=mass,
                mass_error=float(np.hypot(errors[0], EXACT * mass)),
                position=np.array(position),
                position_errors=errors[1:],
                rigid=body.parameters if rigid else None,
                candidates={names[k]: float(shares[k]) for k in order}
                | {problem.links[other]: 0.0 for other in search.candidates if problem.links[other] not in names},
                masses={names[k]: float(fits[k].masses[number]) for k in order},
                likelihood_ratio=ratio,
                p_value=p_value_of(ratio, search.freedom, len(search.candidates)),
            )
        )
    return tuple(sorted(found, key=lambda payload: -payload.likelihood_ratio))


def _is_rigid(search: LoadSearch, fit: LoadFit, number: int, body: BodyFit, level: float) -> tuple[bool, float]:
    """Return whether an extent is significant, and the share of the misfit left with it: part of it was the extent."""
    problem = search.problem
    freedom = problem.directions.shape[1] - POINT_SIZE * len(fit.links) - _BODY
    gain = body.gain - inexactness(problem, fit)
    if search.misfit == 1.0 or freedom < 1:
        return gain > chi2.isf(level, _BODY), 1.0
    change = problem.of(fit.links[number]) @ (fit.parameters(number) - body.parameters)
    shares = problem.directions.T @ (problem.right - effect_of(problem, fit) + change)
    left = min(1.0, max(float(np.sqrt(shares @ shares / freedom)), 1.0 / search.misfit))
    return gain / left**2 > _BODY * f_distribution.isf(level, _BODY, freedom), left


def _limits(search: LoadSearch, level: float) -> dict[str, float]:
    """Return the mass of a load at each link's centre that is detected in 19 of 20 cases, by link; inf if none is."""
    problem = search.problem
    share = level / max(1, len(search.candidates))
    if np.isinf(search.freedom):
        bar = float(chi2.isf(share, POINT_SIZE))
    else:
        bar = POINT_SIZE * float(f_distribution.isf(share, POINT_SIZE, search.freedom))
    masses = problem.central_mass_errors * (np.sqrt(bar) + norm.ppf(_POWER))
    return {
        problem.links[link]: float(masses[link]) if link in search.candidates else float("inf")
        for link in search.chosen
    }
