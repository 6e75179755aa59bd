"""The notes of a payload finding: what it rests on, what it leaves open, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.model import MASS_SPREAD
from steelyard.payload.load_problem import DRIFT, GUESSED
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.payload.finding import FoundPayload, PayloadFinding
    from steelyard.payload.load_problem import PayloadProblem
    from steelyard.payload.rivals import Comparison

_REMEDIES = {
    "wrench_offset": ("other offsets of the wrench sensors", "zero the sensors once, before both recordings"),
    "wrench_drift": ("a drift of the wrench sensors", "let the sensors warm up, and zero them again"),
    "wrench_gain": ("other gains of the wrench sensors", "calibrate the wrench sensors again"),
    "encoder_offset": ("other encoder offsets", "calibrate the joints again"),
    "imu": ("another bias or mounting of the IMU", "leave the IMU mounted and switched on"),
}
"""Changes of the sensors between two recordings, and what to do about them."""

_VAGUE = 0.5
"""Standard error of a position, as a share of its prior's standard deviation, above which it counts as hardly
observable: the data then took less than three quarters of the prior's variance. Set by judgement."""

_MISFIT = 1.5
"""Misfit above which it is noted. Set by judgement: standard errors are half as wide again."""


def write_payload_notes(
    finding: PayloadFinding,
    problem: PayloadProblem,
    *,
    cad_spread: float | None,
    worth: float,
    level: float,
    zeroed: float | None,
    taken: tuple[str, float] | None,
    comparison: Comparison,
) -> PayloadFinding:
    """Return the finding with its notes.

    Args:
        finding: The finding.
        problem: The problem.
        cad_spread: Relative error of the model's masses; None for the usual one.
        worth: Mass of a load worth reporting, kg.
        level: Probability of a false alarm.
        zeroed: The p-value if sensors had been zeroed in between; None where that makes no difference.
        taken: Link and mass of what was rather removed.
        comparison: The comparison of loads with changes of the sensors.
    """
    notes = [note for payload in finding.payloads for note in _about_payload(payload, problem)]
    if not finding.payloads:
        notes += _about_limits(finding, cad_spread, worth)
    elif not finding.baseline and cad_spread != 0.0:
        notes.append(
            "There is no recording without the load, so that every difference beyond "
            f"{_about_model(cad_spread)} counts as load; a baseline would separate the two."
        )
    notes += _about_changes(finding, problem, comparison)
    hidden = [link for link, limit in finding.limits.items() if not np.isfinite(limit)]
    if hidden:
        notes.append(
            f"A load on {in_words(hidden, limit=6)} is not observable: no sensor measures it, or its effect equals a "
            "sensor offset."
        )
    if taken is not None:
        notes.append(
            f"The data rather show that {-taken[1]:.2f} kg were removed from {taken[0]}; removed=True searches for it."
        )
    if zeroed is not None:
        drift = f"Sensor errors are assumed equal in both recordings, up to {100.0 * DRIFT:.0f} % of their priors"
        notes.append(
            f"{drift}. The load is significant even if the sensors were zeroed in between."
            if zeroed <= level
            else f"{drift}, and the finding depends on it: if the sensors were zeroed in between, their offsets could "
            "explain it (same_sensors=False)."
        )
    if finding.misfit > _MISFIT and finding.baseline:
        notes.append(
            f"Apart from any load, the recordings differ by {finding.misfit:.1f} times their noise (encoder errors, "
            "delays, or a large model error); standard errors include this."
        )
    if problem.guessed:
        notes.append(
            f"Forces and moments have default weights, so that their noise counts {GUESSED:.0f} times; with weights "
            "from estimate_noise, lighter loads can be detected."
        )
    return replace(finding, notes=tuple(notes))


def _about_payload(payload: FoundPayload, problem: PayloadProblem) -> Iterator[str]:
    if len(payload.links) > 1:
        masses = [payload.masses[link] for link in payload.links]
        least, greatest, error = min(masses), max(masses), payload.mass_error
        span = f"{0.5 * (least + greatest):.2f}" if greatest - least < error else f"{least:.2f} to {greatest:.2f}"
        first, *others = payload.links
        yield (
            f"The data do not distinguish {first} from {in_words(others, limit=6)}: the joints between them hardly "
            f"moved, or the load is at a point that moves with both. On any of them it weighs {span} ± {error:.2f} kg."
        )
    root = problem.roots[problem.links.index(payload.link)]
    spreads = np.sqrt(np.sum(np.square(root), axis=1))
    vague = [axis for axis, hard in zip("xyz", payload.position_errors > _VAGUE * spreads, strict=True) if hard]
    if vague:
        yield (
            f"The position of the load on {payload.link} along {in_words(vague)} is hardly observable; rotate the link "
            "further."
        )
    if payload.rigid is not None:
        yield f"The load on {payload.link} is larger than a point mass: `rigid` holds its ten parameters."


def _about_changes(finding: PayloadFinding, problem: PayloadProblem, comparison: Comparison) -> Iterator[str]:
    fit = None if comparison.suspect is None else comparison.suspect.fit
    load = "" if fit is None else f"{fit.masses[0]:.2f} kg on {problem.links[fit.links[0]]}"
    words = in_words([_REMEDIES[name][0] for name in comparison.changes])
    remedy = in_words([_REMEDIES[name][1] for name in comparison.changes])
    if words and finding.payloads:
        yield (
            f"Beside the load, the recordings differ by {words}; standard errors include that. For a more exact mass, "
            f"{remedy}, and record both again."
        )
    elif words and load:
        yield (f"What looks like {load} is better explained by {words}. To be sure, {remedy}, and record both again.")
    elif words:
        yield f"The recordings differ by {words}. To detect lighter loads, {remedy}, and record both again."
    elif load:
        yield (
            f"There may be {load}, but the data do not distinguish it from changes of the sensors between the "
            "recordings; zero and calibrate them, and record both again."
        )
    missing = [name for name in ("wrench_gain", "wrench_drift", "encoder_offset") if name not in problem.changes]
    if finding.payloads and finding.baseline and missing:
        yield (
            f"Errors of the sensors were not compared with a load: the evidence has no {in_words(missing)}; gather it "
            "with these as nuisance."
        )


def _about_limits(finding: PayloadFinding, cad_spread: float | None, worth: float) -> Iterator[str]:
    limits = {link: limit for link, limit in finding.limits.items() if np.isfinite(limit)}
    if not limits:
        yield "No load is observable on any link: its effect equals a sensor offset, or no sensor measures it."
        return
    least, greatest = min(limits, key=limits.__getitem__), max(limits, key=limits.__getitem__)
    if finding.status == "nothing":
        yield (
            f"A load heavier than the limit of its link, from {limits[least]:.2g} kg ({least}) to "
            f"{limits[greatest]:.2g} kg ({greatest}), would have been detected in 19 of 20 cases."
        )
        return
    blind = sorted((link for link in limits if limits[link] > worth), key=lambda link: -limits[link])
    if blind:
        low, high = limits[blind[-1]], limits[blind[0]]
        span = f"{low:.2g}" if len(blind) == 1 else f"{low:.2g} to {high:.2g}"
        reason = (
            f"is within {_about_model(cad_spread)}; record the robot without the load, and give that as the baseline"
            if not finding.baseline and cad_spread != 0.0
            else "could be hidden by the noise; record longer, or move the links that carry it more"
        )
        yield f"On {in_words(blind, limit=6)}, a load of less than {span} kg {reason}."
    if least not in blind:
        yield f"On {least}, a load of more than {limits[least]:.2g} kg would have been detected."


def _about_model(cad_spread: float | None) -> str:
    if cad_spread is None:
        return f"the usual model error ({100.0 * MASS_SPREAD:.0f} % of each link's mass)"
    return f"the given model error ({100.0 * cad_spread:.0f} % of each link's mass)"
