"""The notes of an estimate: how far to trust it, and what to do about its weak points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.methods.solution import PHYSICAL
from steelyard.model import is_possible
from steelyard.motion import GRAVITY
from steelyard.regression import GROUP_WORDS, PRIORS, belongs_to
from steelyard.wording import count, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.identification.estimate.estimate import Estimate
    from steelyard.identification.problem import Problem
    from steelyard.regression import Evidence

_WEIGHT_APART = 0.2
"""Relative difference between the measured weight and the model's above which it is noted. Set by judgement: models are
usually within that, and wrong units or a missing sensor are beyond."""

_UNLOADED_MEAN, _UNLOADED_SPREAD = 0.05, 0.01
"""Shares of the weight below which mean and standard deviation of a wrench sensor's force count as no load. The mean
may be an offset, which is larger. Set by judgement."""

_LEAST_FREEDOM, _FEW_FREEDOM = 5.0, 20.0
"""Degrees of freedom of the noise below which an estimate is weak, and below which that is noted. Set by judgement: at
20, a standard error is known to 16 %, at 5 to 32 %."""

_LEAST_GAIN = 0.08
"""Share of the observable combinations that the data must determine; below it, an estimate is weak. Standing still
determines three to four of some two hundred."""

_FROZEN = np.radians(1.0)
"""Range (rad, or m) below which a joint counts as not moved. Set by judgement: above encoder noise and sway."""

_UNKNOWN = 0.05
"""Greatest share of each of its ten parameters determined by the data, below which a link counts as not observable. Set
by judgement."""

_NOISE_APART = 2.0
"""Factor between the residual and the assumed noise beyond which it is noted. Set by judgement."""

_CORRELATED = 0.95
"""Correlation of two base parameters' errors above which they are noted. Set by judgement: a difference is then known
more than six times as well as a sum."""


def write_notes(estimate: Estimate, evidence: Evidence, problem: Problem, remarks: Sequence[str]) -> Estimate:
    """Return the estimate with its status and notes: the method's remarks, and what is doubtful about the data."""
    determined, possible = _count_determined(problem), estimate.base.rank + len(estimate.base.dropped)
    still = [joint for joint, (low, high) in evidence.travel.items() if high - low < _FROZEN]
    joints = len(estimate.model.joints)
    few = estimate.fit.freedom < _LEAST_FREEDOM
    at_rest = bool(evidence.travel) and len(still) == len(evidence.travel) == joints
    weak = at_rest or few or determined < _LEAST_GAIN * possible or not estimate.base.rank
    notes = [
        *remarks,
        *_about_excitation(estimate, determined, weak and not few),
        *_about_joints(still, joints, weak),
        *_about_weight(estimate),
        *_about_sensors(estimate, evidence),
        *_about_offsets(estimate, evidence),
        *_about_noise(estimate, evidence),
        *_about_base(estimate),
        *_about_links(estimate),
    ]
    status = "weak" if weak and estimate.status == "solved" else estimate.status
    return replace(estimate, notes=tuple(notes), status=status)


def _count_determined(problem: Problem) -> float:
    """Return the number of parameter combinations that the data determine better than the usual model error.

    ``Σ s²/(s² + noise²)`` over the singular values of the problem, with the usual model error as unit.
    """
    values = np.linalg.svd(problem.matrix @ problem.unknowns.spread, compute_uv=False)
    return float(np.sum(np.square(values) / (np.square(values) + max(problem.noise, 1e-300) ** 2)))


def _about_excitation(estimate: Estimate, determined: float, weak: bool) -> Iterator[str]:
    base, model = estimate.base, estimate.model
    if estimate.method != "geometric":
        # That method has a prior of its own, and counts what the data determine relative to it.
        yield (
            f"The data determine about {determined:.0f} of {base.rank + len(base.dropped)} combinations of parameters; "
            "in the others the model is more accurate than the noise allows."
        )
    if weak:
        yield (
            "WEAK: beside the residual, the motion excites next to nothing, and beyond the total weight the estimate "
            "is the model; record a richer motion, or find the cause of the residual."
        )
        return
    if len(base.unknowns) < estimate.reference.size and not estimate.options.get("mirror"):
        yield "Only some parameters were identified; standard errors take all others as exact."
    identified = {name.rpartition(".")[0] for name in base.unknowns}
    shares = zip(model.links, estimate.determined.max(axis=1), strict=True)
    hidden = [link for link, share in shares if share < _UNKNOWN and link in identified]
    if hidden:
        joints = [model.bodies[model.link_bodies[model.links.index(link)]].joint for link in hidden]
        moving = [joint.name for joint in joints if joint.kind not in ("fixed", "free")]
        yield (
            f"The data say next to nothing about {in_words(hidden, limit=8)}, whose values are the model's; more "
            f"motion of {in_words(moving, limit=8) if moving else 'them'} may help."
        )
    if base.dropped:
        yield (
            f"{count(len(base.dropped), 'combination of parameters is', 'combinations of parameters are')} not "
            f"observable from these data: {in_words(list(base.dropped), limit=6)}. Usual causes are a joint that did "
            "not move, and a foot below its sensor that never left the ground."
        )


def _about_joints(still: Sequence[str], joints: int, weak: bool) -> Iterator[str]:
    if still and len(still) == joints:
        yield "No joint moved (less than 1°, or 17 mm): one posture does not determine the masses of single links."
    elif still and not (weak and len(still) > joints // 2):
        yield (
            f"{in_words(still, limit=8)} did not move (less than 1°, or 17 mm): of the links on the two sides of such "
            "a joint only the sum is observable, and how they share the mass comes from the model."
        )


def _about_weight(estimate: Estimate) -> Iterator[str]:
    if abs(estimate.mass_scale - 1.0) > _WEIGHT_APART:
        measured = "forces" if estimate.model.base == "floating" else "torques"
        yield (
            f"The measured {measured} are {estimate.mass_scale:.2f} times those of the model's "
            f"{estimate.model.total_mass:.1f} kg. Before you believe it, check units, missing sensors, loads that the "
            "model lacks, and external forces."
        )


def _about_sensors(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    weight = GRAVITY * max(estimate.model.total_mass, 1e-9)
    loads = evidence.loads
    for sensor in estimate.model.setup.wrench_sensors:
        names = [f"{sensor.name}.{axis}" for axis in ("fx", "fy", "fz") if f"{sensor.name}.{axis}" in loads]
        if not names:
            continue
        means, squares = np.array([loads[name] for name in names]).T
        mean = float(np.linalg.norm(means))
        spread = float(np.sqrt(max(0.0, float(np.sum(squares**2 - means**2)))))
        if mean < _UNLOADED_MEAN * weight and spread < _UNLOADED_SPREAD * weight:
            yield (
                f"The wrench sensor {sensor.name} carries nothing: {mean:.2g} ± {spread:.2g} N, beside a weight of "
                f"{weight:.0f} N. If a foot stood on it, it is not connected; exclude it with "
                f"withhold=[{sensor.name!r}]."
            )
    for joint in evidence.key.torques:
        if joint in loads and loads[joint][1] == 0.0:
            yield f"The torque of {joint} is zero throughout; it is not measured, or not connected."


def _about_offsets(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    key = evidence.key
    vertical = [name for name in key.measured if name.endswith(".fz")]
    estimated = (*key.nuisance, *key.own)
    if estimated and not evidence.preparation:
        groups = [group for group in GROUP_WORDS if any(belongs_to(name, group) for name in estimated)]
        found = in_words([GROUP_WORDS[group] for group in groups])
        yield f"Estimated beside the parameters: {found}. nuisance=() trusts the sensors instead."
    found_offsets = any(belongs_to(name, "wrench_offset") for name in estimated)
    if estimate.model.base != "floating" or not vertical or found_offsets:
        return
    usual = PRIORS["wrench_offset"]
    force = usual[0] if isinstance(usual, tuple) else usual
    kilograms = force * np.sqrt(len(vertical)) / GRAVITY
    yield (
        "Offsets of the wrench sensors were not estimated, and no standard error includes them: the usual drift "
        f"between two zeroings, {force:g} N each, amounts to {kilograms:.1f} kg. "
        'nuisance=["wrench_offset"] estimates them.'
    )


def _about_noise(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    fit = estimate.fit
    if fit.freedom < _FEW_FREEDOM:
        yield (
            f"The noise is estimated from only {fit.freedom:.0f} equations more than unknowns, and standard errors are "
            "a guess. Record longer, or identify fewer parameters."
        )
    if fit.effective_count < 0.9 * fit.sample_count:
        yield (
            f"{fit.sample_count} samples are worth {fit.effective_count:.0f} independent ones, because they were "
            "filtered; standard errors account for that."
        )
    if evidence.key.weights and evidence.variance is None:
        factor = float(np.sqrt(fit.variance))
        if not 1.0 / _NOISE_APART < factor < _NOISE_APART:
            yield (
                f"The residual is {factor:.2g} times the noise that the weights assume. Standard errors follow the "
                "residual, but the relative weights of the sensors do not: estimate their noise with estimate_noise."
            )


def _about_base(estimate: Estimate) -> Iterator[str]:
    base = estimate.base
    well = int(np.count_nonzero(base.well_identified))
    yield f"{well} of {base.rank} base parameters have a relative standard error below 15 %."
    for one, other, value in base.strongest_pairs(3, above=_CORRELATED):
        known = "difference" if value > 0.0 else "sum"
        yield (
            f"The errors of {one} and {other} are strongly correlated ({value:+.3f}): their {known}, each in units of "
            "its standard error, is known far better than either."
        )


def _about_links(estimate: Estimate) -> Iterator[str]:
    links = estimate.model.links
    impossible = [link for link, fine in zip(links, is_possible(estimate.solution), strict=True) if not fine]
    negative = [link for link, mass in zip(links, estimate.solution[:, 0], strict=True) if mass < 0.0]
    if negative:
        remedies = {"truncated": 'Lower c_max, or use method="geometric".', "bounded": "Raise its lower bound."}
        yield (
            f"The mass of {in_words(negative, limit=6)} is negative, which no simulator accepts. "
            + remedies.get(estimate.method, 'method="geometric" prevents it.')
        )
    others = [link for link in impossible if link not in negative]
    if others:
        remedy = (
            "Their parameters are the reference's, and were not identified."
            if estimate.method in PHYSICAL
            else 'The base parameters are not affected; the methods "geometric" and "conic" prevent it.'
        )
        yield (
            f"{count(len(others), 'link is', 'links are')} physically impossible (the inertia does not fit mass and "
            f"centre of mass): {in_words(others, limit=6)}. {remedy}"
        )
    if estimate.method not in PHYSICAL:
        wrong = [link for link, fine in zip(links, is_possible(estimate.reference), strict=True) if not fine]
        if wrong:
            yield f"The reference itself is impossible in {in_words(wrong, limit=6)}; see `steelyard check`."
