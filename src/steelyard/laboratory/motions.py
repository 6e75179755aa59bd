"""The library of motions: made for any humanoid from its model, by seed, feet flat throughout."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import LaboratoryError
from steelyard.laboratory.choreography import Builder, Style, compose
from steelyard.model.names import did_you_mean, in_words
from steelyard.stance.collision import joint_ranges
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
"""What each motion is made of: `sway` shifts weight and squats, `reach` moves the upper body, `dance` all of it,
`postures` goes from one static posture to the next and holds it, `limp` takes the legs slowly through many poses."""

MOTIONS = tuple(STYLES)
"""Names of the motions. Walking is not among them yet."""

DURATIONS = {"sway": 20.0, "reach": 30.0, "dance": 30.0, "postures": 60.0, "limp": 60.0}
"""Seconds that each motion lasts unless another duration is asked for."""

SHORTEST = 6.0
"""Seconds that a motion takes at least, to leave home and to come back to rest."""

LONGEST = 3600.0

_COVERED = 0.5
"""Share of its range through which each upper joint goes in a long enough `reach` or `dance`."""

_LONG_ENOUGH = 20.0
_ATTEMPTS = 5


def plan_motion(model: Model, name: str, *, seed: int = 0, duration: float | None = None) -> Trajectory:
    """Plans a motion of the library for a model.

    Args:
        model: The model, with soles in its setup.
        name: One of `MOTIONS`.
        seed: What is drawn differs from seed to seed.
        duration: Seconds.

    Raises:
        LaboratoryError: There is no such motion, or no such duration.
        StanceError: The model cannot stand, or cannot move; the message says what is in the way.
    """
    if name not in STYLES:
        raise LaboratoryError(
            f"there is no motion {name!r}{did_you_mean(str(name), MOTIONS)}; there are {in_words(MOTIONS)}",
            names=[str(name)],
        )
    return _plan(model, name, seed, _checked_duration(name, duration))


@lru_cache(maxsize=32)
def _plan(model: Model, name: str, seed: int, duration: float) -> Trajectory:
    standing = stand_up(model)
    style = STYLES[name]
    best: Builder | None = None
    for attempt in range(_ATTEMPTS):
        builder = compose(standing, style, duration, np.random.default_rng([seed, 2, attempt]))
        if best is None or _coverage(builder) > _coverage(best):
            best = builder
        if style.upper == 0.0 or duration < _LONG_ENOUGH or _coverage(best) >= _COVERED:
            break
    return best.trajectory(name)


def _coverage(builder: Builder) -> float:
    """Gives the least share of its range that an upper joint goes through."""
    footing = builder.standing.footing
    columns = footing.upper_columns
    lower, upper = joint_ranges(footing.model)
    share = np.ptp(np.array(builder.path)[:, 7:], axis=0) / (upper - lower)
    return float(np.min(share[columns], initial=1.0))


def _checked_duration(name: str, duration: Any) -> float:
    if duration is None:
        return DURATIONS[name]
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not SHORTEST <= duration <= LONGEST:
        raise LaboratoryError(
            f"the duration is {duration!r}; {name!r} takes from {SHORTEST:g} s, to leave home and come back to rest, to "
            f"{LONGEST:g} s"
        )
    return float(duration)
