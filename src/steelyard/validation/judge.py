"""The verdict on an estimate: prediction, links and total mass, judged apart, and what speaks against each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr

from steelyard.identification import half_width
from steelyard.model import PARAMETER_COUNT, is_possible
from steelyard.regression import PRIORS
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from steelyard.identification import Estimate
    from steelyard.validation.bootstrap import Gain
    from steelyard.validation.validation import Validation

Grade = Literal["good", "weak", "bad"]
"""Grades, best first."""

LIKELY = 0.9
"""Probability that the links' masses are nearer to the truth than the model file's from which they count as good."""

EXPLAINED = 2.0
"""Error on unseen motion, as a multiple of what the sensors' white noise explains, up to which the model explains the
data. The true parameters had 1.0 to 2.0 on 16 sound recordings of four robots; estimates from encoders off by up to 2°,
4.8 to 27 (`python -m benchmarks.fairness`)."""

CONTRADICTED = 3.0
"""Residual, as a multiple of the estimated noise, from which data and model contradict each other. Set by judgement:
smaller ones are common where friction or flexibility is not modelled."""

LARGE_OFFSETS = 0.6
"""RMS of the estimated offsets of wrench sensors, in standard deviations of their priors, from which they may stand for
something else. True offsets after zeroing have about 0.2; of 32 sound recordings three had more than 0.6, and total
masses 1.3 to 1.6 kg too light."""

FEWEST_FREEDOMS = 60.0
"""Degrees of freedom of the noise below which a recording counts as short, and its residuals tell nothing about noise.
Set by judgement: the relative standard error of a noise scale, 1/√(2·60), is then 9 %."""

NARROW, WIDE = 0.01, 0.1
"""Half widths of the total mass's interval, as shares of it, up to which it is good, and from which it is bad. Set by
judgement: a robot on a bathroom scale is known to 0.3 %, and CAD models are wrong by some percent."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an estimate.

    Attributes:
        overall: "good": use it; "weak": use it with care, for the reasons given; "bad": do not use it.
        prediction: Of unseen motion, against the model file as it is and scaled by one factor: "better", "undecided" or
            "worse"; empty without a validation on unseen motion.
        links: Whether the masses of single links can be relied on.
        total_mass: Whether the total mass can be.
        reasons: What decided, a sentence each, the most important first.
    """

    overall: Grade
    prediction: Literal["better", "undecided", "worse", ""]
    links: Grade
    total_mass: Grade
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain text, ready for JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}


_WORDS: dict[Grade, str] = {"good": "Good", "weak": "Weak", "bad": "Bad"}


def describe_verdict(verdict: Verdict) -> tuple[str, ...]:
    """Return a verdict in sentences, the first of which begins with its grade."""
    first, *others = verdict.reasons
    return f"{_WORDS[verdict.overall]}. {first}", *others


@dataclass(frozen=True)
class _Doubt:
    """What speaks against an estimate.

    Attributes:
        sentence: What it is, and what to do.
        links: The best grade that the links can have.
        total_mass: The best grade that the total mass can have.
        overall: The best grade of all.
    """

    sentence: str
    links: Grade = "good"
    total_mass: Grade = "good"
    overall: Grade = "weak"


def judge(estimate: Estimate, validation: Validation | None = None) -> Verdict:
    """Judge an estimate: the one verdict that the terminal, the report and JSON give.

    It is capped by contradictions among the data, short recordings, offsets that are not observable, and links that the
    data did not decide; a validation on training data counts as none.

    Args:
        estimate: The estimate.
        validation: Its validation.
    """
    doubts = [*_doubts_about_data(estimate), *_doubts_about_masses(estimate)]
    doubts += [] if validation is None else _doubts_about_fit(validation)
    prediction, about_prediction = _judge_prediction(validation)
    doubts.append(about_prediction)
    overall = _worst(doubt.overall for doubt in doubts)
    # What decided comes first; those alike keep their order, except that praise precedes remarks.
    praise = about_prediction if about_prediction.overall == "good" else None
    ranked = sorted(doubts, key=lambda doubt: (-_rank(doubt.overall), doubt is not praise))
    return Verdict(
        overall=overall,
        prediction=prediction,
        links=_worst(doubt.links for doubt in doubts),
        total_mass=_worst(doubt.total_mass for doubt in doubts),
        reasons=tuple(doubt.sentence for doubt in ranked),
    )


def _rank(grade: Grade) -> int:
    return ("good", "weak", "bad").index(grade)


def _worst(grades: Iterable[Grade]) -> Grade:
    return max(grades, key=_rank, default="good")


def _doubts_about_data(estimate: Estimate) -> Iterator[_Doubt]:
    """Yield what is wrong with the data or the solution."""
    if estimate.status == "failed":
        yield _Doubt("The estimate failed. See the notes.", "bad", "bad", "bad")
        return
    if estimate.status == "weak":
        yield _Doubt("The recordings determine little more than the total mass. See the notes.", links="bad")
    if estimate.status == "stopped":
        yield _Doubt(
            "The solver stopped before it converged; the parameters are not the optimum for these data.",
            "bad", "weak", "bad",
        )  # fmt: skip
    impossible = int(np.count_nonzero(~is_possible(np.asarray(estimate.parameters))))
    if impossible:
        yield _Doubt(
            f"{impossible} of {len(estimate.model.links)} links are physically impossible; simulators and controllers "
            "may refuse them. Identify with --method geometric.",
            links="bad",
        )
    contradiction = contradiction_of(estimate)
    if contradiction > CONTRADICTED:
        yield _Doubt(
            f"The residuals are {contradiction:.1f} times larger than sensor noise explains: encoders may have offsets "
            "(run steelyard calibrate), a foot may have slipped, or the model's lengths are wrong.",
            "weak", "weak",
        )  # fmt: skip
    if estimate.fit.freedom < FEWEST_FREEDOMS:
        yield _Doubt(
            f"The recordings are short: their {estimate.fit.effective_count:.0f} independent samples do not show "
            "whether the uncertainties are right. Record longer.",
            "weak", "weak",
        )  # fmt: skip


def contradiction_of(estimate: Estimate) -> float:
    """Return the residual as a multiple of the estimated noise; 1 where that is not known."""
    factor = estimate.options.get("noise_factor")
    # With hardly more equations than unknowns, the residual says nothing about noise.
    if not isinstance(factor, int | float) or estimate.fit.freedom < FEWEST_FREEDOMS:
        return 1.0
    return float(factor)


def _doubts_about_masses(estimate: Estimate) -> Iterator[_Doubt]:
    """Yield what makes single masses or their sum uncertain."""
    if estimate.status == "failed":
        return
    nearer = nearer_probability(estimate)
    if nearer < LIKELY:
        yield _Doubt(
            f"The data did not decide the masses of single links: the chance that they are nearer to the truth than "
            f"the model file's is {100.0 * nearer:.0f} %. Record more, and richer, motion.",
            links="weak",
        )
    offsets = [value / _offset_prior(name) for name, value in estimate.nuisance.items() if name.endswith(".offset")]
    if offsets and float(np.sqrt(np.mean(np.square(offsets)))) > LARGE_OFFSETS:
        yield _Doubt(
            "The offsets found for the wrench sensors are larger than those of zeroed sensors, and may stand for "
            "weight or for errors that are not modelled: zero the sensors before recording, or put the robot on a "
            "scale and give its mass as a constraint.",
            "weak", "weak",
        )  # fmt: skip
    share = half_width(0.95, estimate.freedom) * estimate.total_mass_error / max(estimate.total_mass, 1e-9)
    if share > NARROW:
        # Worth a word, but single links and predictions can be good all the same.
        yield _Doubt(
            f"The total mass is known to ± {100.0 * share:.1f} % only.",
            total_mass="bad" if share > WIDE else "weak",
            overall="weak" if share > WIDE else "good",
        )


def nearer_probability(estimate: Estimate) -> float:
    """Return the probability that the identified masses are nearer to the true ones than the reference's.

    With a posterior ``N(m̂, Σ)`` of the masses and ``Δ = m̂ − m_ref``, ``‖m̂ − m‖ < ‖m_ref − m‖`` holds with the
    probability ``Φ(‖Δ‖² / (2 √(Δᵀ Σ Δ)))``.
    """
    change = np.asarray(estimate.parameters)[:, 0] - np.asarray(estimate.reference)[:, 0]
    covariance = np.asarray(estimate.covariance)[::PARAMETER_COUNT, ::PARAMETER_COUNT]
    spread = float(np.sqrt(max(0.0, float(change @ covariance @ change))))
    moved = float(change @ change)
    return 0.5 if moved <= 0.0 else float(ndtr(moved / max(2.0 * spread, 1e-300)))


def _offset_prior(name: str) -> float:
    force, moment = PRIORS["wrench_offset"]  # type: ignore[misc]
    return float(force if name.split(".")[-2].startswith("f") else moment)


def _doubts_about_fit(validation: Validation) -> Iterator[_Doubt]:
    """Yield whether more than noise is left on the validated motion."""
    if validation.misfit > EXPLAINED:
        yield _Doubt(
            f"On the validated motion, errors are {validation.misfit:.1f} times what the sensors' noise explains: "
            "something is not modelled, such as encoder offsets (run steelyard calibrate), gains, slip or flexibility.",
            "weak", "weak",
        )  # fmt: skip


def _judge_prediction(validation: Validation | None) -> tuple[Literal["better", "undecided", "worse", ""], _Doubt]:
    """Return the verdict on predictions, and the sentence about it."""
    if validation is None:
        return "", _Doubt("Not validated: validate on a recording that was not used (--validate) before relying on it.")
    if not validation.kind.startswith("cross"):
        return "", _Doubt(
            "Validated on data that the estimate was made from, which proves little. Validate on another recording."
        )
    scaled, plain = together(validation, "corrected"), together(validation, "reference")
    if scaled is None or plain is None:
        return "undecided", _Doubt(
            "No row of the unseen motion was measured completely, so that predictions could not be compared."
        )
    if scaled.verdict == "worse":
        return "worse", _Doubt(
            "On unseen motion, it predicts worse than the model file scaled by one factor.", overall="bad"
        )
    if scaled.verdict == "real" and plain.verdict == "real":
        return "better", _praise(rows_with(validation, "worse"))
    few = " It has too few independent samples to tell." if np.isnan(scaled.low) else ""
    sentence = (
        "On unseen motion, it predicts better than the model file scaled by one factor; against the model file as it "
        "is, the difference is not significant. Validate on a longer recording."
        if scaled.verdict == "real"
        else "On unseen motion, the difference from the model file scaled by one factor is not significant; validate "
        f"on a longer recording.{few}"
    )
    return "undecided", _Doubt(sentence)


def _praise(worse: list[str]) -> _Doubt:
    """Return the sentence about a better prediction, with the axes in which it is worse."""
    if worse:
        return _Doubt(
            "On unseen motion, all axes together are predicted better than by the scaled model file, but "
            f"{in_words(worse, limit=6)} worse."
        )
    return _Doubt(
        "On unseen motion, it predicts significantly better than the model file, and than the model file scaled by the "
        "best factor.",
        overall="good",
    )


def together(validation: Validation, other: str) -> Gain | None:
    """Return the gain over another candidate in all rows together."""
    gains = validation.improvement[other]
    return next((gains[row] for row in ("total", "torques", "projected") if row in gains), None)


def rows_with(validation: Validation, verdict: str) -> list[str]:
    """Return the axes and joints with a verdict against the scaled model file."""
    gains = validation.improvement["corrected"]
    all_rows = ("total", "torques", "projected")
    return [row for row, gain in gains.items() if row not in all_rows and gain.verdict == verdict]
