"""What to know about a finding of `find_payload`, in words."""

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

_VAGUE = 0.5
"""Share of how far a load may be from its link's centre, above which its position counts as hardly known."""

_MISFIT = 1.5
"""Misfit above which it is remarked."""


def write_payload_notes(
    finding: PayloadFinding,
    problem: PayloadProblem,
    *,
    cad_spread: float | None,
    same_sensors: bool,
    worth: float,
    level: float,
    zeroed: float | None,
    taken: tuple[str, float] | None,
) -> PayloadFinding:
    """Gives the finding with its notes.

    Args:
        finding: The finding.
        problem: The problem.
        cad_spread: How far the model is off; None for the usual.
        same_sensors: Whether sensors were not zeroed in between.
        worth: Mass of a load worth mentioning, kg.
        level: Of a false alarm.
        zeroed: The p-value if sensors had been zeroed in between; None where that makes no difference.
        taken: Link and mass of what looks rather as taken away.
    """
    notes: list[str] = []
    for payload in finding.payloads:
        notes += _about(payload, problem)
    if not finding.payloads:
        notes += _unseen(finding, cad_spread, worth)
    if finding.payloads and not finding.baseline and cad_spread != 0.0:
        notes.append(
            f"There is no recording without the load: what is beyond how far {_off(cad_spread)} counts as load. A "
            "baseline would tell both apart."
        )
    silent = [link for link, limit in finding.limits.items() if not np.isfinite(limit)]
    if silent:
        notes.append(
            f"A load on {in_words(silent, limit=6)} would not show at all: no sensor feels it, or what it does looks "
            "like a sensor's offset."
        )
    if taken is not None:
        notes.append(
            f"It looks rather as if {-taken[1]:.2f} kg had been taken away from {taken[0]}; removed=True looks for "
            "that."
        )
    if zeroed is not None:
        notes.append(
            f"The sensors' errors count as the same in both recordings, give or take {100.0 * DRIFT:.0f} % of their "
            + (
                "priors. If the sensors were zeroed in between, there is a load all the same."
                if zeroed <= level
                else "priors, and the finding rests on that: if they were zeroed in between, it could be their offsets "
                "(same_sensors=False)."
            )
        )
    if finding.misfit > _MISFIT and finding.baseline:
        notes.append(
            f"Beside any load, the recordings differ by {finding.misfit:.1f} times the noise of their rows (encoders, "
            "delays, or a model that is further off than usual); standard errors count that in."
        )
    if problem.guessed:
        notes.append(
            f"Forces and moments are weighed as is usual, so that their noise counts {GUESSED:.0f} times. Weights of "
            "estimate_noise would show lighter loads."
        )
    return replace(finding, notes=tuple(notes))


def _about(payload: FoundPayload, problem: PayloadProblem) -> Iterator[str]:
    if len(payload.links) > 1:
        masses = [payload.masses[link] for link in payload.links]
        least, greatest = min(masses), max(masses)
        error = payload.mass_error
        first, *others = payload.links
        yield (
            f"The data cannot tell {first} from {in_words(others, limit=6)}: what lies between them hardly moved, or "
            "the load is where both would carry it alike. Whichever it is, the load weighs "
            f"{_span(least, greatest, error)} kg."
        )
    root = problem.roots[problem.links.index(payload.link)]
    wide = np.sqrt(np.sum(np.square(root), axis=1))
    errors = zip("xyz", payload.position_errors, wide, strict=True)
    vague = [axis for axis, error, most in errors if error > _VAGUE * most]
    if vague:
        axes = in_words(vague)
        yield (f"Where on {payload.link} the load is along {axes} is hardly known: the link would have to turn more.")
    if payload.rigid is not None:
        yield f"The load on {payload.link} is more than a point: `rigid` holds its ten parameters."


def _span(least: float, greatest: float, error: float) -> str:
    if greatest - least < error:
        return f"{0.5 * (least + greatest):.2f} ± {error:.2f}"
    return f"{least:.2f} to {greatest:.2f} ± {error:.2f}"


def _unseen(finding: PayloadFinding, cad_spread: float | None, worth: float) -> Iterator[str]:
    seen = {link: limit for link, limit in finding.limits.items() if np.isfinite(limit)}
    if not seen:
        yield "No link would show a load: what it does looks like a sensor's offset, or no sensor feels it."
        return
    least, greatest = min(seen, key=lambda link: seen[link]), max(seen, key=lambda link: seen[link])
    if finding.status == "nothing":
        yield (
            f"A load would have been seen from {seen[least]:.2g} kg ({least}) to {seen[greatest]:.2g} kg ({greatest}) "
            "on, in 19 of 20 cases."
        )
        return
    blind = sorted((link for link, limit in seen.items() if limit > worth), key=lambda link: -seen[link])
    if blind:
        lightest, heaviest = seen[blind[-1]], seen[blind[0]]
        span = f"{lightest:.2g}" if len(blind) == 1 else f"{lightest:.2g} to {heaviest:.2g}"
        why = (
            f"is within what {_off(cad_spread)}; record the robot without the load, and give that as the baseline"
            if not finding.baseline and cad_spread != 0.0
            else "could hide in the noise; record longer, or move what carries it more"
        )
        yield f"On {in_words(blind, limit=6)}, a load of less than {span} kg {why}."
    if least not in blind:
        yield f"On {least}, a load of more than {seen[least]:.2g} kg would have been seen."


def _off(cad_spread: float | None) -> str:
    if cad_spread is None:
        return f"a model is usually off ({100.0 * MASS_SPREAD:.0f} % of each link's mass)"
    return f"the model may be off ({100.0 * cad_spread:.0f} % of each link's mass)"
