"""The main findings in sentences: verdict, changes, what the data did not determine, and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.identification import half_width
from steelyard.report.sections.section import Section
from steelyard.validation import describe_verdict, judge, rows_with, together
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.report.report import Report

_CLEAR = 0.99
"""Confidence from which a change of mass is called clear: among thirty links, one in three reports then names one by
chance."""

_HARDLY, _MOSTLY = 0.1, 0.5
"""Shares determined by the data below which a link is hardly, and from which it is mostly determined. Set by
judgement."""

_MOVED = 0.1
"""Relative change of mass from which a link that the data hardly determine is listed. Set by judgement."""

_LOOSE = 0.005
"""Half width of the total mass's interval, as a share of it, from which a scale is advised. Set by judgement: a
scale to 50 g is several times better on a humanoid."""


class Card(NamedTuple):
    """A key number.

    Attributes:
        value: The number with its unit.
        words: Its meaning.
        detail: More about it.
    """

    value: str
    words: str
    detail: str


def describe_findings(report: Report) -> Section:
    """Write the headline, the verdict, key numbers and sentences."""
    verdict = judge(report.estimate, report.validation)
    context = {
        "headline": _headline(report),
        "tone": "good" if verdict.overall == "good" else "caution",
        "verdict": describe_verdict(verdict),
        "cards": [card._asdict() for card in _cards(report)],
        "sentences": [*_changes(report), *_reach(report), *_prediction(report), *_advice(report)],
    }
    return Section("found", "Found", "findings.html", context)


def sum_up(report: Report) -> tuple[str, ...]:
    """Summarise the estimate in one sentence, and the verdict on the model in others."""
    return _headline(report), *describe_verdict(judge(report.estimate, report.validation))


def _interval(report: Report) -> float:
    estimate = report.estimate
    return half_width(0.95, estimate.freedom) * estimate.total_mass_error


def _headline(report: Report) -> str:
    estimate = report.estimate
    before = float(estimate.reference[:, 0].sum())
    change = estimate.total_mass - before
    kind = "mass of its moving links" if estimate.model.base == "fixed" else "total mass"
    more = f"{abs(change):.2f} kg {'more' if change > 0 else 'less'}"
    if abs(change) < 0.005:
        compared = "the same as in its model file"
    elif abs(change) < _interval(report):
        compared = f"{more} than in its model file, which is within the uncertainty"
    else:
        compared = f"{more} than in its model file"
    return f"{estimate.model.name}: {kind} {estimate.total_mass:.2f} kg, {compared}."


def _cards(report: Report) -> list[Card]:
    estimate, validation = report.estimate, report.validation
    before = float(estimate.reference[:, 0].sum())
    cards = [
        Card(
            f"{estimate.total_mass:.2f} kg",
            "total mass",
            f"± {_interval(report):.2f} kg (95 %); model file: {before:.2f} kg",
        )
    ]
    gain, fairer = (None if validation is None else together(validation, each) for each in ("reference", "corrected"))
    motion = "unseen motion" if validation is not None and validation.kind == "cross" else "motion partly used"
    if gain is not None and fairer is not None and np.isfinite(gain.ratio):
        cards.append(
            Card(
                _percent(gain.ratio),
                f"of the model file's error on {motion}",
                f"{_percent(fairer.ratio)} of the error of the model file scaled by one factor",
            )
        )
    determined = estimate.determined[:, :4].mean(axis=1)
    cards.append(
        Card(
            f"{int(np.count_nonzero(determined >= _MOSTLY))} of {len(determined)}",
            "links mostly determined by the data",
            "masses and centres of mass; the rest comes from the model file",
        )
    )
    if report.truth is not None:
        errors = [np.sqrt(np.mean(np.square(each[:, 0] - report.truth[:, 0]))) for each in _both(report)]
        cards.append(
            Card(
                f"{1e3 * errors[1]:.0f} g",
                "RMS error of the links' masses",
                f"model file: {1e3 * errors[0]:.0f} g; known because this robot is virtual",
            )
        )
    return cards


def _percent(ratio: float) -> str:
    return f"{100.0 * ratio:.0f} %" if ratio >= 0.095 else f"{100.0 * ratio:.2g} %"


def _both(report: Report) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(report.estimate.reference), np.asarray(report.estimate.parameters)


def _changes(report: Report) -> list[str]:
    """List the links whose masses differ significantly from the model file."""
    estimate = report.estimate
    before, after = _both(report)
    change = after[:, 0] - before[:, 0]
    errors, width = estimate.standard_errors[:, 0], half_width(_CLEAR, estimate.freedom)
    clear = [
        row
        for row in np.argsort(-np.abs(change)).tolist()
        if abs(change[row]) > width * errors[row] and abs(change[row]) > 0.005
    ]
    if not clear:
        return ["No single link's mass differs from the model file by significantly more than its uncertainty."]
    changes = [
        f"{estimate.model.links[row]} by {change[row]:+.2f} kg ({100.0 * change[row] / before[row, 0]:+.0f} %)"
        if before[row, 0] > 0.0
        else f"{estimate.model.links[row]} by {change[row]:+.2f} kg"
        for row in clear
    ]
    return [f"Masses significantly different from the model file: {in_words(changes, limit=6)}."]


def _reach(report: Report) -> list[str]:
    """List the links that the data hardly determined: those close to the model file, and those that changed."""
    estimate = report.estimate
    before, after = _both(report)
    hardly = [row for row, share in enumerate(estimate.determined[:, :4].mean(axis=1)) if share < _HARDLY]
    moved = [row for row in hardly if abs(after[row, 0] - before[row, 0]) > _MOVED * abs(before[row, 0])]
    kept = [estimate.model.links[row] for row in hardly if row not in moved]
    sentences = []
    if kept:
        sentences.append(
            f"The recordings hardly determine {in_words(kept, limit=6)}: "
            f"{'its' if len(kept) == 1 else 'their'} parameters stay close to the model file."
        )
    if moved:
        changes = [f"{estimate.model.links[row]} ({after[row, 0] - before[row, 0]:+.2f} kg)" for row in moved]
        sentences.append(
            "Changed although the recordings hardly determine them one by one, only their sums with neighbours: "
            f"{in_words(changes, limit=6)}."
        )
    return sentences


def _prediction(report: Report) -> list[str]:
    """List, axis by axis, what is predicted better or worse than by the scaled model file."""
    validation = report.validation
    if validation is None:
        return []
    verdicts = [
        f"{words} in {in_words(rows, limit=6)}"
        for verdict, words in (("real", "better"), ("worse", "worse"), ("undecided", "no significant difference"))
        if (rows := rows_with(validation, verdict))
    ]
    return [f"By axis, against the model file scaled by one factor: {', '.join(verdicts)}."] if verdicts else []


def _advice(report: Report) -> list[str]:
    """Return the advice to use a scale, if offsets of force sensors make the total mass uncertain."""
    estimate = report.estimate
    loose = _interval(report) > _LOOSE * estimate.total_mass
    offsets = any(name.endswith(".offset") for name in estimate.nuisance)
    if not (loose and offsets) or "total_mass" in estimate.options.get("constraints", {}):
        return []
    return [
        "The total mass is uncertain because force sensors may have offsets of some newtons, which look like weight: "
        "put the robot on a scale, and give its mass, here to 50 g, with "
        "--constraint 'total_mass={mass=..., tolerance=0.05}'."
    ]
