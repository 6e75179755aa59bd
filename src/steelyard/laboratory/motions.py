"""The library of motions: made for any humanoid from its model, by seed, feet flat throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import StanceError
from steelyard.laboratory.choreography import Style, compose
from steelyard.model.names import did_you_mean, in_words
from steelyard.stance.standing import stand_up

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.stance.trajectory import Trajectory

STYLES = {
    "sway": Style(tempo=0.55, sway=(0.9, 0.8), squat=0.8, tilt=0.12),
    "reach": Style(tempo=0.6, upper=1.0),
    "dance": Style(tempo=0.6, upper=1.0, sway=(0.8, 0.6), squat=0.6, tilt=0.1),
    "postures": Style(tempo=0.5, stay=7, upper=0.9, sway=(0.9, 0.9), squat=0.8, tilt=0.12),
    "limp": Style(tempo=1.0, sway=(0.9, 0.9), squat=0.95, tilt=0.3),
}
"""What each motion is made of."""

DURATIONS = {"sway": 20.0, "reach": 30.0, "dance": 30.0, "postures": 60.0, "limp": 60.0}
"""Seconds that each motion lasts unless another duration is asked for."""


def plan_motion(model: Model, name: str, *, seed: int = 0, duration: float | None = None) -> Trajectory:
    """Plans a motion of the library."""
    standing = stand_up(model)
    builder = compose(standing, STYLES[name], duration or DURATIONS[name], np.random.default_rng(seed))
    return builder.trajectory(name)
