"""The library of motions: planned for any humanoid from its model and a seed, with the feet flat throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import LaboratoryError, StanceError
from steelyard.stance.collision import joint_ranges
from steelyard.stance.motion_builder import MotionBuilder, Style, build_motion, shortest_duration
from steelyard.stance.postures import describe_posture
from steelyard.stance.standing import stand_up
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.stance.trajectory import Trajectory

STYLES = {
    "sway": Style(tempo=0.6, sway=(0.75, 0.7), squat=0.8, tilt=0.12),
    "reach": Style(tempo=0.8, upper=1.0),
    "dance": Style(tempo=0.8, upper=1.0, sway=(0.75, 0.6), squat=0.6, tilt=0.1),
    "postures": Style(tempo=0.7, stay=6, upper=0.9, sway=(0.8, 0.8), squat=0.8, tilt=0.12),
    "limp": Style(tempo=1.25, sway=(0.8, 0.8), squat=0.95, tilt=0.3),
}
"""The style of each motion: `sway` shifts weight and squats, `reach` moves the upper body, `dance` all of it,
`postures` goes from one static posture to the next and holds it, `limp` moves the legs slowly through many poses. Set
by judgement; docs/measured.md has how four humanoids follow them."""

MOTIONS = tuple(STYLES)
"""Names of the motions. Walking is not among them."""

MOTION_DURATIONS = {"sway": 20.0, "reach": 30.0, "dance": 30.0, "postures": 60.0, "limp": 60.0}
"""Default duration of each motion, s. Set by judgement: long enough to move every joint several times."""

LONGEST = 600.0
"""Greatest duration of a motion, s: all states of a trial are held in memory, 8 MB a second."""

LEAST_COVERAGE = 0.4
"""Least share of its range that each upper joint covers in a long `dance`; a plan with less is an error. Set by
judgement."""

_COVERED = 0.46
"""Coverage from which no further plan is drawn; set by judgement, above `LEAST_COVERAGE` with a margin."""

_LONG_ENOUGH = 20.0
"""Duration (s) from which coverage is asked for. Set by judgement: a dozen drawn points at the tempo of `dance`."""

_QUICKEST_MOVE = 0.5
"""Least time (s) from one given posture to the next. Set by judgement."""

_ATTEMPTS = 5
"""Plans of which the one with the best coverage is taken. Set by judgement: each takes about a second."""

_PLANS: BoundedCache[Trajectory] = BoundedCache(32)
"""Plans by model, name, seed and duration. Set by judgement: all motions of a handful of robots."""


def plan_motion(model: Model, name: str, *, seed: int = 0, duration: float | None = None) -> Trajectory:
    """Plan a motion of the library for a model.

    Args:
        model: The model, with soles in its setup.
        name: One of `MOTIONS`.
        seed: Seed of the random motion.
        duration: Seconds; by default `MOTION_DURATIONS`.

    Raises:
        LaboratoryError: The motion is unknown, or the duration is not possible.
        StanceError: The model cannot stand or move; the message says why.
    """
    if not isinstance(name, str) or name not in STYLES:
        raise LaboratoryError(f"there is no motion {name!r}{did_you_mean(str(name), MOTIONS)}", names=[str(name)])
    key = (model, name, as_seed(seed), _checked_duration(name, duration))
    return _PLANS.get(key, lambda: _plan(*key))


def _plan(model: Model, name: str, seed: int, duration: float) -> Trajectory:
    standing = stand_up(model)
    style = STYLES[name]
    builders: list[MotionBuilder] = []
    for attempt in range(_ATTEMPTS):
        builders.append(build_motion(standing, style, duration, np.random.default_rng([seed, 2, attempt])))
        if style.upper == 0.0 or duration < _LONG_ENOUGH or _coverage(builders[-1]) >= _COVERED:
            break
    best = max(builders, key=_coverage)
    if name == "dance" and duration >= _LONG_ENOUGH and _coverage(best) < LEAST_COVERAGE:
        joint, reasons = _least_covered(best), " and ".join(reason for reason, _ in best.refusals.most_common(2))
        raise StanceError(
            f"{model.name} cannot {name}: {joint!r} came through {100.0 * _coverage(best):.0f} % of its range at most, "
            f"because {reasons or 'there is no room'}; lock it with [lock], or choose another motion",
            names=[joint],
        )
    return best.trajectory(name)


def plan_postures(model: Model, postures: Any, *, hold: float = 2.0, move: float = 2.0) -> Trajectory:
    """Plan a motion that visits given postures in turn and holds each, with the soles flat throughout.

    Args:
        model: The model, with soles in its setup.
        postures: Joint positions in the model's order, shape (n, n_joints); both soles flat in each.
        hold: Least time for which each is held, s.
        move: Seconds from one to the next.

    Raises:
        LaboratoryError: An argument is not valid.
        StanceError: A posture is not flat-footed, or no path to it is feasible; the message says which and why.
    """
    try:
        array = np.asarray(postures, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LaboratoryError("the postures are not an array of numbers") from error
    if array.ndim != 2 or array.shape[1] != len(model.joints) or not len(array) or not np.all(np.isfinite(array)):
        raise LaboratoryError(
            f"postures have the shape {array.shape}; {model.name} needs (n, {len(model.joints)}) finite numbers"
        )
    if not (is_finite_number(hold) and is_finite_number(move)) or hold < 0.0 or move < _QUICKEST_MOVE:
        raise LaboratoryError(
            f"postures are held for {hold!r} s and reached in {move!r} s; hold for 0 s or more, move in "
            f"{_QUICKEST_MOVE:g} s or more"
        )
    standing = stand_up(model)
    # Three spans of the curve lie between two points, and one for each further control point at a point.
    tempo = move / 3.0
    style = Style(tempo=tempo, stay=3 + int(np.ceil(hold / tempo)))
    builder = MotionBuilder(standing, style, np.random.default_rng(0), tempo)
    for number, positions in enumerate(array):
        try:
            target = describe_posture(standing.footing, positions)
        except StanceError as error:
            raise StanceError(f"posture {number} is not flat-footed: {error}", names=error.names) from error
        violation = builder.visit(builder.point(target))
        if violation is not None:
            raise StanceError(f"there is no safe way to posture {number}: {violation}")
    builder.go_home(count=6, keep=True)
    return builder.trajectory("postures")


def as_seed(seed: Any) -> int:
    """Return a seed as an integer.

    Raises:
        LaboratoryError: It is not a whole number, or negative.
    """
    if not is_finite_number(seed) or isinstance(seed, float | np.floating) or seed < 0:
        raise LaboratoryError(f"the seed is {seed!r}; give a whole number, zero or more")
    return int(seed)


def _shares(builder: MotionBuilder) -> FloatArray:
    """Return the share of its range that each upper joint covers, shape (n_upper,)."""
    footing = builder.standing.footing
    lower, upper = joint_ranges(footing.model)
    return np.asarray((np.ptp(np.array(builder.path)[:, 7:], axis=0) / (upper - lower))[footing.upper_columns])


def _coverage(builder: MotionBuilder) -> float:
    return float(np.min(_shares(builder), initial=1.0))


def _least_covered(builder: MotionBuilder) -> str:
    return builder.standing.footing.upper_joints[int(np.argmin(_shares(builder)))]


def _checked_duration(name: str, duration: Any) -> float:
    if duration is None:
        return MOTION_DURATIONS[name]
    shortest = shortest_duration(STYLES[name])
    if not is_finite_number(duration) or not shortest <= duration <= LONGEST:
        raise LaboratoryError(
            f"the duration is {duration!r}; {name!r} takes {shortest:g} s at least, to leave home and come back to "
            f"rest, and {LONGEST:g} s at most"
        )
    return float(duration)
