"""What a reader of an estimate has to know, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.methods.solution import PHYSICAL
from steelyard.model import is_possible
from steelyard.motion import GRAVITY
from steelyard.regression import PRIORS
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.identification.estimate.estimate import Estimate
    from steelyard.identification.problem import Problem
    from steelyard.regression import Evidence

WEIGHT_APART = 0.2
"""Share by which the weight that the sensors feel may differ from the model's before it is remarked."""

UNLOADED_MEAN, UNLOADED = 0.05, 0.01
"""Shares of the weight below which the mean of a wrench sensor's force, and what it varies by, count as none: an offset
may be left of a sensor that carries nothing."""

LEAST_FREEDOM, FEW_FREEDOM = 5.0, 20.0
"""Equations beyond the unknowns below which an estimate is weak, and below which it is remarked."""

LEAST_GAIN = 0.08
"""Share of the combinations that could be told apart which the data must decide; below it, an estimate is weak.
Standing still decides three to four of some two hundred."""

FROZEN = np.radians(1.0)
"""Way (rad, or m) that a joint must have gone to say anything about its link."""

UNKNOWN = 0.05
"""Share of each of its ten parameters that the data decide, below which a link counts as not seen."""

NOISE_APART = 2.0
"""Factor by which the residual may differ from the stated noise before it is remarked."""

_CORRELATED = 0.95


def write_notes(estimate: Estimate, evidence: Evidence, problem: Problem, remarks: Sequence[str]) -> Estimate:
    """Gives the estimate with its notes: what the method says, and what is doubtful about the data."""
    gained, possible = decided(problem), estimate.base.rank + len(estimate.base.dropped)
    still = bool(evidence.travel) and len(_still(evidence)) == len(evidence.travel) == len(estimate.model.joints)
    few = estimate.fit.freedom < LEAST_FREEDOM
    weak = still or few or gained < LEAST_GAIN * possible or not estimate.base.rank
    notes = [
        *remarks,
        *_about_excitation(estimate, gained, weak and not few),
        *_about_joints(estimate, evidence, weak),
        *_about_weight(estimate),
        *_about_sensors(estimate, evidence),
        *_about_offsets(estimate, evidence),
        *_about_noise(estimate, evidence),
        *_about_base(estimate),
        *_about_links(estimate),
    ]
    status = "weak" if weak and estimate.status == "solved" else estimate.status
    return replace(estimate, notes=tuple(notes), status=status)


def _still(evidence: Evidence) -> list[str]:
    return [joint for joint, (low, high) in evidence.travel.items() if high - low < FROZEN]


def decided(problem: Problem) -> float:
    """Gives how many combinations of parameters the data decide, rather than how far a model is usually off.

    ``Σ s²/(s² + noise²)`` over the singular values of the problem, each unknown measured by that spread.
    """
    values = np.linalg.svd(problem.matrix @ problem.unknowns.spread, compute_uv=False)
    return float(np.sum(np.square(values) / (np.square(values) + max(problem.noise, 1e-300) ** 2)))


def _about_excitation(estimate: Estimate, gained: float, weak: bool) -> Iterator[str]:
    possible = estimate.base.rank + len(estimate.base.dropped)
    if estimate.method != "geometric":
        # It has a prior of its own, and tells what the data decide beside that.
        yield (
            f"The data decide about {gained:.0f} of {possible} combinations of parameters; in the others, noise says "
            "less than the model does."
        )
    if weak:
        yield (
            "WEAK: beside what is left unexplained, the motion excites next to nothing, and what the estimate says "
            "beyond the weight is the model's word; record a richer motion, or find out what the residual is made of."
        )
        return
    if len(estimate.base.unknowns) < estimate.reference.size and not estimate.options.get("mirror"):
        yield "Only some parameters were looked for; standard errors take all others as exact."
    chosen = estimate.determined.max(axis=1)
    looked_for = {name.rpartition(".")[0] for name in estimate.base.unknowns}
    silent = [
        link for link, share in zip(estimate.model.links, chosen, strict=True) if share < UNKNOWN and link in looked_for
    ]
    if silent:
        yield (
            f"The data say next to nothing about {in_words(silent, limit=8)}; more motion of "
            f"{_joints(estimate, silent)} may help."
        )
    if estimate.base.dropped:
        yield (
            f"{_count(len(estimate.base.dropped), 'combination')} cannot be told apart by these data at all: "
            f"{in_words(list(estimate.base.dropped), limit=6)}. A joint that did not move does this, and a foot "
            "below its sensor that never left the ground."
        )


def _about_joints(estimate: Estimate, evidence: Evidence, weak: bool) -> Iterator[str]:
    still = _still(evidence)
    if still and len(still) == len(estimate.model.joints):
        yield "No joint moved (less than 1°, or 17 mm): one posture cannot weigh links one by one."
    elif still and not (weak and len(still) > len(estimate.model.joints) // 2):
        yield (
            f"{in_words(still, limit=8)} did not move (less than 1°, or 17 mm): what is behind and what is before such "
            "a joint cannot be told apart, and how the two share mass is the model's word."
        )


def _joints(estimate: Estimate, links: Sequence[str]) -> str:
    model = estimate.model
    names = []
    for link in links:
        joint = model.bodies[model.link_bodies[model.links.index(link)]].joint
        if joint.kind not in ("fixed", "free"):
            names.append(joint.name)
    return in_words(names, limit=8) if names else "them"


def _about_weight(estimate: Estimate) -> Iterator[str]:
    if abs(estimate.mass_scale - 1.0) <= WEIGHT_APART:
        return
    felt = "The sensors feel" if estimate.model.base == "floating" else "The torques are"
    yield (
        f"{felt} {estimate.mass_scale:.2f} times what the model's {estimate.model.total_mass:.1f} kg ask for. Before "
        "you believe it, check units, sensors that are missing, loads that the model does not have, and forces from "
        "outside."
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
        if mean < UNLOADED_MEAN * weight and spread < UNLOADED * weight:
            yield (
                f"The wrench sensor {sensor.name} carries nothing: {mean:.2g} ± {spread:.2g} N beside a weight of "
                f"{weight:.0f} N. If a foot stood on it, it is not connected; leave it out with "
                f"withhold=[{sensor.name!r}]."
            )
    for joint in evidence.key.torques:
        if joint in loads and loads[joint][1] == 0.0:
            yield f"The torque of {joint} is zero throughout; it is not measured, or not connected."


def _about_offsets(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    """Says what offsets that were not looked for could do to the weight."""
    key = evidence.key
    vertical = [name for name in key.measured if name.endswith(".fz")]
    if estimate.model.base != "floating" or not vertical or any(name.endswith(".offset") for name in key.nuisance):
        return
    usual = PRIORS["wrench_offset"]
    force = usual[0] if isinstance(usual, tuple) else usual
    kilograms = force * np.sqrt(len(vertical)) / GRAVITY
    yield (
        f"Offsets of the wrench sensors were not looked for, and no standard error counts them: {force:g} N on each, "
        "as "
        f'they drift between two zeroings, are {kilograms:.1f} kg. nuisance=["wrench_offset"] counts them.'
    )


def _about_noise(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    fit = estimate.fit
    if fit.freedom < FEW_FREEDOM:
        yield (
            f"Only {fit.freedom:.0f} equations more than unknowns tell how large the noise is; standard errors are a "
            "guess. Record longer, or look for fewer parameters."
        )
    if fit.effective_count < 0.9 * fit.sample_count:
        yield (
            f"{fit.sample_count} samples are worth {fit.effective_count:.0f} independent ones (they were filtered); "
            "standard errors count those."
        )
    if evidence.key.weights and evidence.variance is None:
        factor = float(np.sqrt(fit.variance))
        if not 1.0 / NOISE_APART < factor < NOISE_APART:
            yield (
                f"The residual is {factor:.2g} times the noise that the weights state. Standard errors follow the "
                "residual; how sensors count against each other does not: estimate their noise with estimate_noise."
            )


def _about_base(estimate: Estimate) -> Iterator[str]:
    base = estimate.base
    well = int(np.count_nonzero(base.well_identified))
    yield f"{well} of {base.rank} base parameters have a relative standard error below 15 %."
    for one, other, value in base.strongest_pairs(3, above=_CORRELATED):
        # Errors that go together leave the difference sure.
        shown = "difference" if value > 0.0 else "sum"
        yield (
            f"{one} and {other} are hard to tell apart (correlation of their errors {value:+.3f}): the motion shows "
            f"their {shown}, each in units of its standard error, far better than either."
        )


def _about_links(estimate: Estimate) -> Iterator[str]:
    possible = is_possible(estimate.solution)
    impossible = [link for link, fine in zip(estimate.model.links, np.atleast_1d(possible), strict=True) if not fine]
    negative = [link for link, mass in zip(estimate.model.links, estimate.solution[:, 0], strict=True) if mass < 0.0]
    if negative:
        remedies = {"truncated": 'Lower c_max, or use method="geometric".', "bounded": "Raise its lower bound."}
        yield (
            f"The mass of {in_words(negative, limit=6)} is negative; no simulator takes that. "
            + remedies.get(estimate.method, 'method="geometric" forbids it.')
        )
    others = [link for link in impossible if link not in negative]
    if others:
        remedy = (
            "They are the reference's, and were not looked for."
            if estimate.method in PHYSICAL
            else 'The base parameters are not touched by this; the methods "geometric" and "conic" give none like it.'
        )
        yield (
            f"{_count(len(others), 'link')} could be no real body (inertias do not fit mass and centre of "
            f"mass): {in_words(others, limit=6)}. {remedy}"
        )
    references = np.atleast_1d(is_possible(estimate.reference))
    if not np.all(references) and estimate.method not in PHYSICAL:
        wrong = [link for link, fine in zip(estimate.model.links, references, strict=True) if not fine]
        yield f"The reference itself is impossible in {in_words(wrong, limit=6)}; see `steelyard check`."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
