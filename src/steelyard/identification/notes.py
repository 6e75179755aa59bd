"""What a reader of an estimate has to know, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.model.consistency import is_possible
from steelyard.model.names import in_words
from steelyard.motion import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.identification.estimate import Estimate
    from steelyard.identification.problem import Problem
    from steelyard.regression import Evidence

WEIGHT_APART = 0.2
"""Share by which the weight that the sensors feel may differ from the model's before it is remarked."""

UNLOADED = 0.01
"""Share of the weight below which a wrench sensor's force counts as none."""

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
    weak = gained < LEAST_GAIN * possible
    notes = [
        *remarks,
        *_about_excitation(estimate, gained, weak),
        *_about_joints(estimate, evidence),
        *_about_weight(estimate),
        *_about_sensors(estimate, evidence),
        *_about_noise(estimate, evidence),
        *_about_base(estimate),
        *_about_links(estimate),
    ]
    status = "weak" if weak and estimate.status == "solved" else estimate.status
    return replace(estimate, notes=tuple(notes), status=status)


def decided(problem: Problem) -> float:
    """Gives how many combinations of parameters the data decide, rather than how far a model is usually off.

    ``Σ s²/(s² + noise²)`` over the singular values of the problem, each unknown measured by that spread.
    """
    values = np.linalg.svd(problem.matrix @ problem.unknowns.spread, compute_uv=False)
    return float(np.sum(np.square(values) / (np.square(values) + max(problem.noise, 1e-300) ** 2)))


def _about_excitation(estimate: Estimate, gained: float, weak: bool) -> Iterator[str]:
    possible = estimate.base.rank + len(estimate.base.dropped)
    yield (
        f"The data decide about {gained:.0f} of {possible} combinations of parameters; in the others, noise says less "
        "than the model does."
    )
    if weak:
        yield (
            "WEAK: the motion excites next to nothing, and what the estimate says beyond the weight is the model's "
            "word; record a richer motion."
        )
        return
    chosen = estimate.determined.max(axis=1)
    silent = [link for link, share in zip(estimate.model.links, chosen, strict=True) if share < UNKNOWN]
    if silent:
        yield (
            f"The data say next to nothing about {in_words(silent, limit=8)}; more motion of "
            f"{_joints(estimate, silent)} may help."
        )
    if estimate.base.dropped:
        yield (
            f"{len(estimate.base.dropped)} combinations cannot be told apart by these data at all: "
            f"{in_words(list(estimate.base.dropped), limit=6)}. A joint that did not move does this, and a foot "
            "below its sensor that never left the ground."
        )


def _about_joints(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    still = [joint for joint, (low, high) in evidence.travel.items() if high - low < FROZEN]
    if still:
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
    if estimate.model.base == "fixed":
        return
    if abs(estimate.mass_scale - 1.0) > WEIGHT_APART:
        yield (
            f"The sensors feel {estimate.mass_scale:.2f} times the model's weight of "
            f"{estimate.model.total_mass:.1f} kg. Before you believe it, check units, sensors that are missing, loads "
            "that the model does not have, and forces from outside."
        )


def _about_sensors(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    weight = GRAVITY * max(estimate.model.total_mass, 1e-9)
    loads = evidence.loads
    for sensor in estimate.model.setup.wrench_sensors:
        forces = [loads[f"{sensor.name}.{axis}"][1] for axis in ("fx", "fy", "fz") if f"{sensor.name}.{axis}" in loads]
        if forces and float(np.linalg.norm(forces)) < UNLOADED * weight:
            yield (
                f"The wrench sensor {sensor.name} carries nothing: {np.linalg.norm(forces):.2g} N rms beside a weight "
                f"of {weight:.0f} N. If a foot stood on it, it is not connected; leave it out with "
                f"withhold=[{sensor.name!r}]."
            )
    for joint in evidence.key.torques:
        if joint in loads and loads[joint][1] == 0.0:
            yield f"The torque of {joint} is zero throughout; it is not measured, or not connected."


def _about_noise(estimate: Estimate, evidence: Evidence) -> Iterator[str]:
    fit = estimate.fit
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
        yield (
            f"The mass of {in_words(negative, limit=6)} is negative; no simulator takes that. Lower c_max, or use "
            'method="bounded".'
        )
    others = [link for link in impossible if link not in negative]
    if others:
        yield (
            f"{len(others)} links are not those of any real body (their inertias do not fit their mass and centre of "
            f"mass): {in_words(others, limit=6)}. The base parameters are not touched by this."
        )
    references = np.atleast_1d(is_possible(estimate.reference))
    if not np.all(references):
        wrong = [link for link, fine in zip(estimate.model.links, references, strict=True) if not fine]
        yield f"The reference itself is impossible in {in_words(wrong, limit=6)}; see `steelyard check`."
