"""The notes of a validation: training data among the samples, and what is not measured or not significant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.regression import GROUP_WORDS, merge_origins, shared_seconds
from steelyard.validation.prediction import AXES
from steelyard.validation.recording_fit import RESET_GROUPS
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.identification import Estimate
    from steelyard.validation.prediction import Predictor
    from steelyard.validation.tally import Gains, Tally

_BELOW_TRUTH = 0.9
"""Ratio to the RMSE of the true parameters below which an estimate's RMSE is noted. Set by judgement."""

_ALL = 0.99
"""Share of the duration from which a validation counts as direct: origins of chunks do not meet exactly."""


def note_applied(predictor: Predictor, estimate: Estimate, notes: list[str], *, told: bool) -> None:
    """Note which errors of sensors and joints the candidates predict with.

    Args:
        predictor: The candidates.
        estimate: The estimate.
        notes: Where notes are appended.
        told: Whether it was said that sensors were zeroed.
    """
    groups = list(dict.fromkeys(column.group for column in predictor.nuisance))
    if not groups:
        return
    if estimate.nuisance_fit is None and not predictor.own:
        notes.append(f"All candidates predict with the estimate's {in_words([GROUP_WORDS[each] for each in groups])}.")
        return
    reset = [GROUP_WORDS[group] for group in groups if group in RESET_GROUPS]
    if not predictor.own:
        reset = []
    kept = [GROUP_WORDS[group] for group in groups if GROUP_WORDS[group] not in reset]
    if kept:
        notes.append(f"Each candidate predicts with the {in_words(kept)} that fit it best on the training data.")
    if reset:
        notes.append(f"Each candidate predicts with the {in_words(reset)} that fit it best on this recording.")
        if not told:
            notes.append(
                "The wrench sensors' offsets differ from those of the training data, as after zeroing (zeroed=False "
                "uses those of the training data all the same)."
            )


def note_sharing(estimate: Estimate, tally: Tally, repeated: float, notes: list[str]) -> tuple[str, float]:
    """Return the kind of validation and the seconds shared with the training data.

    Args:
        estimate: The estimate.
        tally: The accumulated motions.
        repeated: Seconds that were given more than once.
        notes: Where notes are appended.
    """
    duration = tally.duration - repeated
    if repeated > 0.0:
        notes.append(
            f"{repeated:.2f} s of motion are given more than once: they count each time in the error statistics, but "
            "once in the significance test."
        )
    ours = merge_origins(tally.origins)
    if not estimate.origins or any(not origin.sha256 for origin in tally.origins):
        whose = "this motion" if estimate.origins else "the training data"
        notes.append(f"The origin of {whose} is unknown, so that samples in both cannot be detected.")
        if not ours or not estimate.origins:
            return "cross, as far as is known", float("nan")
    shared = min(shared_seconds(ours, estimate.origins), duration)
    if shared <= 0.0:
        if {origin.sha256 for origin in ours} & {origin.sha256 for origin in estimate.origins}:
            notes.append("The motion is another part of a recording that the estimate was identified from.")
        return "cross", 0.0
    notes.append(
        f"{shared:.2f} s of {duration:.2f} s are training data of the estimate, on which a good fit proves nothing."
    )
    return ("direct" if shared >= _ALL * duration else "partly direct"), shared


def note_unmeasured(tally: Tally, notes: list[str]) -> None:
    """Note what is not measured in full, and the links whose wrench is compared."""
    predictor, plan = tally.predictor, tally.plan
    links, weighed = len(predictor.model.links), predictor.links(plan)
    hidden = [axis for axis, known in zip(AXES, tally.wrench.known, strict=True) if not known]
    names = zip(predictor.unknown(plan), tally.touching, strict=True)
    unknown = in_words(list(dict.fromkeys(name for name, touches in names if touches)))
    if not predictor.sensing.measured:
        notes.append("No wrench sensor is used: joint torques alone are compared.")
    elif not predictor.part(plan).any():
        notes.append(
            "An unmeasured force acts on every part of the robot that has a wrench sensor, so that no wrench can be "
            "compared and all six axes are NaN."
        )
    elif hidden:
        world = [] if tally.world is None else np.array(AXES)[tally.world.known].tolist()
        also = f" In world axes {in_words(world, limit=6)} {'is' if len(world) == 1 else 'are'} known." if world else ""
        verb = "is" if len(hidden) == 1 else "are"
        notes.append(
            f"{in_words(hidden, limit=6)} at {predictor.base} {verb} not measured in full ({unknown} unknown) and "
            f"{verb} NaN; the projected residual compares the candidates in the remaining equations.{also}"
        )
    elif weighed < links:
        notes.append(
            f"The wrench is that on {weighed} of {links} links: those above the wrench sensors; the forces on the "
            "others are not measured."
        )
    unpredicted = [joint for joint, known in zip(tally.joints, tally.torque.known, strict=True) if not known]
    if unpredicted:
        notes.append(
            f"The torque of {in_words(unpredicted)} cannot be predicted: unmeasured forces act beyond the joint."
        )
    if tally.wrench.count < 2:
        notes.append("A correlation needs more than one sample.")


def note_beaten_truth(tally: Tally, notes: list[str]) -> None:
    """Note the axes on which the estimate has smaller errors than the true parameters."""
    if not tally.truth:
        return
    estimate, truth = tally.wrench.statistics(0).rmse, tally.wrench.statistics(3).rmse
    beaten = [axis for axis, mine, true in zip(AXES, estimate, truth, strict=True) if mine < _BELOW_TRUTH * true]
    if beaten:
        notes.append(
            f"On {in_words(beaten, limit=6)} the estimate has smaller errors than the true parameters: it has learned "
            "errors that the sensors make in both recordings (offsets, mounting), or the motion is training data."
        )


def note_too_few(tally: Tally, gains: Gains, notes: list[str]) -> None:
    """Note the rows that have too few independent blocks."""
    if gains.unresolved:
        notes.append(
            f"{tally.wrench.count} samples are too few to tell an improvement in {in_words(gains.unresolved, limit=8)} "
            f"from chance: their errors amount to {gains.blocks:.1f} independent blocks of {gains.block:.2g} s; record "
            "longer."
        )
