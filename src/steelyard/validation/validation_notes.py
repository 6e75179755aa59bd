"""What to know about a validation, in words: shared samples, and what is not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.regression import merge_origins, shared_seconds
from steelyard.validation.prediction import AXES
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.identification import Estimate
    from steelyard.validation.tally import Gains, Tally

_BEATEN = 0.9
"""Share of what the truth leaves, below which less is no chance."""


def note_sharing(estimate: Estimate, tally: Tally, twice: float, notes: list[str]) -> tuple[str, float]:
    """Tells how many seconds are shared with the training data, and what that makes of the validation.

    Args:
        estimate: The estimate.
        tally: What the motions add up to.
        twice: Seconds that were given more than once.
        notes: Where notes go.
    """
    duration = tally.duration - twice
    if twice > 0.0:
        notes.append(
            f"{twice:.2f} s of motion are given more than once: errors there count as often, but are taken for one "
            "where chance is judged."
        )
    ours = merge_origins(tally.origins)
    if not estimate.origins or any(not origin.sha256 for origin in tally.origins):
        whose = "of this motion" if estimate.origins else "of the data behind the estimate"
        notes.append(f"The origin {whose} is not known: whether samples are shared cannot be noticed.")
        if not ours or not estimate.origins:
            return "cross, as far as is known", float("nan")
    shared = min(shared_seconds(ours, estimate.origins), duration)
    if shared <= 0.0:
        same = {origin.sha256 for origin in ours} & {origin.sha256 for origin in estimate.origins}
        if same:
            notes.append("The motion is another stretch of a recording that the estimate was made from.")
        return "cross", 0.0
    notes.append(
        f"{shared:.2f} s of {duration:.2f} s are among the data that the estimate was made from: on those, a "
        "good fit proves nothing."
    )
    return ("direct" if shared >= 0.99 * duration else "partly direct"), shared


def note_unmeasured(tally: Tally, notes: list[str]) -> None:
    """Says what is not measured in full, and of which links the wrench is."""
    predictor, plan = tally.predictor, tally.plan
    links, weighed = len(predictor.model.links), predictor.links(plan)
    hidden = [axis for axis, known in zip(AXES, tally.wrench.known, strict=True) if not known]
    names = zip(predictor.unknown(plan), tally.touching, strict=True)
    unknown = in_words(list(dict.fromkeys(name for name, touches in names if touches)))
    if not predictor.sensing.measured:
        notes.append("No wrench sensor is used: joint torques alone are compared.")
    elif not predictor.part(plan).any():
        notes.append(
            "Each part of the robot that a wrench sensor is on also feels a force that nobody measures: its wrench "
            "cannot be compared, and the six axes are NaN."
        )
    elif hidden:
        world = [] if tally.world is None else np.array(AXES)[tally.world.known].tolist()
        also = f" In world axes {in_words(world, limit=6)} {'is' if len(world) == 1 else 'are'} known." if world else ""
        notes.append(
            f"{in_words(hidden, limit=6)} at {predictor.base} {'is' if len(hidden) == 1 else 'are'} not measured in "
            f"full ({unknown} unknown) and {'is' if len(hidden) == 1 else 'are'} NaN; the projected residual compares "
            f"the candidates in what is left.{also}"
        )
    elif weighed < links:
        notes.append(
            f"The wrench is that on {weighed} of {links} links: those above the wrench sensors; nobody measures what "
            "acts on the others."
        )
    dark = [joint for joint, known in zip(tally.joints, tally.torque.known, strict=True) if not known]
    if dark:
        notes.append(f"The torque of {in_words(dark)} cannot be predicted: unmeasured forces act behind it.")
    if tally.wrench.count < 2:
        notes.append("One sample has no correlation.")


def note_beaten_truth(tally: Tally, notes: list[str]) -> None:
    """Says where the estimate fits better than the truth does: that is no merit."""
    if not tally.truth:
        return
    estimate, truth = tally.wrench.fit(0).rmse, tally.wrench.fit(3).rmse
    beaten = [axis for axis, mine, true in zip(AXES, estimate, truth, strict=True) if mine < _BEATEN * true]
    if beaten:
        notes.append(
            f"On {in_words(beaten, limit=6)} the estimate leaves less than the true parameters do: it has learned "
            "errors that the sensors make in both recordings (offsets, mounting), or the motion was among its data."
        )


def note_too_few(tally: Tally, gains: Gains, notes: list[str]) -> None:
    """Says which rows have too few stretches that do not remember each other."""
    if gains.dark:
        notes.append(
            f"{tally.wrench.count} samples are too few to tell an improvement in {in_words(gains.dark, limit=8)} from "
            f"chance: their errors fill {gains.blocks:.1f} stretches of {gains.block:.2g} s that do not remember each "
            "other; record longer."
        )
