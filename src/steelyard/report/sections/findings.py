"""What was found, in sentences for those who have to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.identification import half_width
from steelyard.model import is_possible
from steelyard.report.sections.section import Section
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.report.report import Report
    from steelyard.validation import Gain, Validation

_CLEAR = 0.99
"""How sure a change of mass must be to be called clear: among thirty links, chance then names one in three reports."""

_HARDLY, _MOSTLY = 0.1, 0.5
_MOVED = 0.1
"""Share of its mass by which a link must have changed to be called moved."""

_CONTRADICTED = 3.0
"""How much more than by noise the data may contradict each other before that comes first."""

_LOOSE = 0.005
"""Share of the total mass by which half its interval is wide where a scale would help."""


TONES = {"good": "Good", "caution": "With care"}


_FEWEST_FREEDOMS = 60.0


class Card(NamedTuple):
    """A number that stands for much.

    Attributes:
        value: The number with its unit.
        words: What it is.
        detail: What else to know.
    """

    value: str
    words: str
    detail: str


def describe_findings(report: Report) -> Section:
    """Gives the headline, a few numbers, and sentences."""
    tone, verdict = _verdict(report)
    context = {
        "headline": _headline(report),
        "tone": tone,
        "called": TONES[tone],
        "verdict": verdict,
        "cards": [card._asdict() for card in _cards(report)],
        "sentences": [*_changes(report), *_reach(report), *_prediction(report), *_advice(report)],
    }
    return Section("found", "Found", "findings.html", context)


def sum_up(report: Report) -> tuple[str, str]:
    """Gives what was found in one sentence, and whether the model may be used in another."""
    tone, verdict = _verdict(report)
    return _headline(report), f"{TONES[tone]}. {verdict}"


def _interval(report: Report) -> float:
    estimate = report.estimate
    return half_width(0.95, estimate.freedom) * estimate.total_mass_error


def _headline(report: Report) -> str:
    estimate = report.estimate
    before = float(estimate.reference[:, 0].sum())
    change = estimate.total_mass - before
    kind = "its links that move weigh" if estimate.model.base == "fixed" else "it weighs"
    more = f"{abs(change):.2f} kg {'more' if change > 0 else 'less'}"
    if abs(change) < 0.005:
        compared = "as much as its model file says"
    elif abs(change) < _interval(report):
        compared = f"{more} than its model file says, which is within what is not known"
    else:
        compared = f"{more} than its model file says"
    return f"{estimate.model.name}: {kind} {estimate.total_mass:.2f} kg, {compared}."


def _verdict(report: Report) -> tuple[str, str]:
    """Gives the tone ("good", "caution") and one sentence: may this model be used?"""
    doubt = _doubt_in_data(report) or _doubt_in_validation(report)
    return ("caution", doubt) if doubt else ("good", _GAINS["real"])


def _doubt_in_data(report: Report) -> str:
    """Gives what speaks against an estimate before anything is predicted with it; nothing where all is well."""
    contradiction = _contradiction(report)
    if report.estimate.status in _STATUS:
        return _STATUS[report.estimate.status]
    impossible = int(np.count_nonzero(~is_possible(np.asarray(report.estimate.parameters))))
    if impossible:
        return (
            f"{impossible} of {len(report.estimate.model.links)} links could be no real body; simulators and "
            "controllers may refuse them. Identify with --method geometric."
        )
    if contradiction > _CONTRADICTED:
        return (
            f"The data contradict each other {contradiction:.1f} times as much as their noise explains: encoders may "
            "be off (steelyard calibrate finds out), a foot may have slipped, or the model's lengths are wrong."
        )
    return ""


def _doubt_in_validation(report: Report) -> str:
    """Gives what speaks against an estimate after the validation; nothing where it is really better."""
    validation = report.validation
    if validation is None:
        return "Not yet validated: predict a recording that was not used (--validate) before relying on it."
    if validation.kind != "cross":
        return "Validated on data that the estimate was made from; that proves little. Predict another recording."
    gain = _together(validation, "corrected")
    if gain is None:
        return "No row of the unseen motion was measured in full; what is predicted could not be compared."
    worse = _rows_with(validation, "worse")
    if gain.verdict == "real" and worse:
        return (
            "On a motion that it never saw, all axes together are predicted better than by the scaled model file, but "
            f"{in_words(worse, limit=6)} worse."
        )
    plain = _together(validation, "reference")
    if gain.verdict == "real" and plain is not None and plain.verdict != "real":
        return (
            "On a motion that it never saw, it predicts better than the model file scaled by one factor; beside the "
            "model file as it is, the recording is too short to tell. Predict a longer one."
        )
    return "" if gain.verdict == "real" else _GAINS[gain.verdict]


def _contradiction(report: Report) -> float:
    """Gives how much more the data contradict each other than their noise explains; 1 where that is not known."""
    estimate = report.estimate
    factor = estimate.options.get("noise_factor")
    # Hardly more equations than unknowns do not contradict each other: nothing tells what noise explains.
    if not isinstance(factor, int | float) or estimate.fit.freedom < _FEWEST_FREEDOMS:
        return 1.0
    return float(factor)


def _rows_with(validation: Validation, verdict: str) -> list[str]:
    """Gives the axes with some verdict beside the scaled model file."""
    gains = validation.improvement["corrected"]
    together = ("total", "torques", "projected")
    return [row for row, gain in gains.items() if row not in together and gain.verdict == verdict]


_STATUS = {
    "weak": "The recordings say little: what is new here is hardly more than the weight. See the notes.",
    "stopped": "The search stopped before it settled; the numbers are not the best that these data give.",
}
_GAINS = {
    "real": "On a motion that it never saw, it predicts better than the model file, and better than the model file "
    "scaled by the one factor that suits it best; that is not chance.",
    "worse": "On a motion that it never saw, it predicts worse than the model file scaled by one factor.",
    "undecided": "On a motion that it never saw, chance could explain whether it predicts better than the model file "
    "scaled by one factor; predict a longer recording.",
}


def _together(validation: Validation, other: str) -> Gain | None:
    """Gives how much better all rows together are predicted than by another candidate."""
    gains = validation.improvement[other]
    return next((gains[row] for row in ("total", "torques", "projected") if row in gains), None)


def _cards(report: Report) -> list[Card]:
    estimate, validation = report.estimate, report.validation
    before = float(estimate.reference[:, 0].sum())
    cards = [
        Card(
            f"{estimate.total_mass:.2f} kg",
            "total mass",
            f"± {_interval(report):.2f} kg (95 %); the model file says {before:.2f} kg",
        )
    ]
    gain, fairer = (None if validation is None else _together(validation, each) for each in ("reference", "corrected"))
    motion = "unseen motion" if validation is not None and validation.kind == "cross" else "motion partly learned from"
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
            "links mostly decided by the data",
            "masses and centres of mass; the rest leans on the model file",
        )
    )
    if report.truth is not None:
        errors = [np.sqrt(np.mean(np.square(each[:, 0] - report.truth[:, 0]))) for each in _both(report)]
        cards.append(
            Card(
                f"{1e3 * errors[1]:.0f} g",
                "error of a link's mass (rms), against the truth",
                f"the model file's was {1e3 * errors[0]:.0f} g; known because this robot is virtual",
            )
        )
    return cards


def _percent(ratio: float) -> str:
    return f"{100.0 * ratio:.0f} %" if ratio >= 0.095 else f"{100.0 * ratio:.2g} %"


def _both(report: Report) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(report.estimate.reference), np.asarray(report.estimate.parameters)


def _changes(report: Report) -> list[str]:
    """Tells which links clearly differ from the model file."""
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
        return ["No single link's mass differs from the model file by clearly more than its own uncertainty."]
    said = [
        f"{estimate.model.links[row]} by {change[row]:+.2f} kg ({100.0 * change[row] / before[row, 0]:+.0f} %)"
        if before[row, 0] > 0.0
        else f"{estimate.model.links[row]} by {change[row]:+.2f} kg"
        for row in clear
    ]
    return [f"Clearly different from the model file in mass: {in_words(said, limit=6)}."]


def _reach(report: Report) -> list[str]:
    """Tells what the data did not say: which links stayed as the model file has them, and which were moved."""
    estimate = report.estimate
    before, after = _both(report)
    hardly = [row for row, share in enumerate(estimate.determined[:, :4].mean(axis=1)) if share < _HARDLY]
    moved = [row for row in hardly if abs(after[row, 0] - before[row, 0]) > _MOVED * abs(before[row, 0])]
    kept = [estimate.model.links[row] for row in hardly if row not in moved]
    sentences = []
    if kept:
        sentences.append(
            f"The recordings hardly tell anything about {in_words(kept, limit=6)}: "
            f"{'its' if len(kept) == 1 else 'their'} numbers are nearly the model file's."
        )
    if moved:
        said = [f"{estimate.model.links[row]} ({after[row, 0] - before[row, 0]:+.2f} kg)" for row in moved]
        sentences.append(
            "Not told by the recordings, yet moved so that the sums that they do tell come out: "
            f"{in_words(said, limit=6)}."
        )
    return sentences


def _prediction(report: Report) -> list[str]:
    """Tells, axis by axis, what is predicted better or worse than by the scaled model file."""
    validation = report.validation
    if validation is None:
        return []
    said = [
        f"{words} in {in_words(rows, limit=6)}"
        for verdict, words in (("real", "better"), ("worse", "worse"), ("undecided", "no clear difference"))
        if (rows := _rows_with(validation, verdict))
    ]
    return [f"Axis by axis, beside the model file scaled by one factor: {', '.join(said)}."] if said else []


def _advice(report: Report) -> list[str]:
    """Tells what would help most, where the total mass is loose because force sensors may be off by some newtons."""
    estimate = report.estimate
    loose = _interval(report) > _LOOSE * estimate.total_mass
    offsets = any(name.endswith(".offset") for name in estimate.nuisance)
    if not (loose and offsets) or "total_mass" in estimate.options.get("constraints", {}):
        return []
    return [
        "The total mass is not known better because force sensors may be off by some newtons, which looks like weight: "
        "put the robot on a scale, and say what it shows, to 50 g, with "
        "--constraint 'total_mass={mass=..., tolerance=0.05}'."
    ]
