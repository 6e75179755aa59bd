"""The home posture of a robot: feet flat, knees slightly bent, arms clear of the body; and its range from there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import StanceError
from steelyard.stance.collision import find_clearances
from steelyard.stance.feasibility import Feasibility, Shares, planned_positions
from steelyard.stance.footing import plant_feet, resting_posture
from steelyard.stance.postures import PostureTarget, solve_posture

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.stance.footing import Footing

BENT = 0.955
"""Height of the root at home, as a share of that on straight legs. Set by judgement: away from the singularity of a
straight knee, and high enough for modest knee torques."""

_HEIGHT_CHANGES = (0.0, 0.01, -0.01, 0.02, -0.02, 0.03, -0.03, 0.035, -0.05)
"""Changes of that share, tried in turn until a posture is found. Set by judgement: nearest first, never quite
straight."""


@dataclass(frozen=True, eq=False)
class Standing:
    """A robot in its home posture.

    Attributes:
        footing: Its feet.
        feasibility: Its limits.
        home: The home configuration, shape (position_size,).
        target: The target of inverse kinematics that home reaches.
        heights: Least and greatest feasible height of the root (m), all else as at home.
        reach: Distances (m) that the zero-moment point may move from home: to the right, to the left
            (`Footing.lateral`), to the back and to the front (`Footing.forward`).
    """

    footing: Footing
    feasibility: Feasibility
    home: FloatArray
    target: PostureTarget
    heights: tuple[float, float]
    reach: tuple[float, float, float, float]


_STANDINGS: BoundedCache[Standing] = BoundedCache(16)
"""Standings by model. Set by judgement: more robots than a program uses at once."""


def stand_up(model: Model) -> Standing:
    """Stand a model on its soles; the result is the same object each time, and safe to use from several threads.

    Args:
        model: The model.

    Raises:
        StanceError: The model has no soles, or found no posture in which it can stand; the message says what is in the
            way.
    """
    return _STANDINGS.get(model, lambda: _stand_up(model))


def _stand_up(model: Model) -> Standing:
    shares = Shares()
    footing = plant_feet(model)
    straight, guess = _straight(footing)
    com = _home_com(footing)
    upper = 7 + footing.upper_columns
    # Arms at zero are at the end of their range on many robots; at home they keep the margin of a plan.
    lowest, highest = planned_positions(model, shares)
    guess[upper] = np.clip(guess[upper], lowest[footing.upper_columns], highest[footing.upper_columns])
    reasons: list[str] = []
    for step in _HEIGHT_CHANGES:
        target = PostureTarget(guess[upper], com, (BENT + step) * straight, np.zeros(3))
        posture = solve_posture(footing, target, guess)
        if not posture.meets_target:
            reasons.append("the legs cannot bend so far with the soles flat")
            continue
        clearances = find_clearances(footing, posture.q)
        target = replace(target, upper=clearances.home[upper])
        posture = solve_posture(footing, target, posture.q)
        feasibility = Feasibility(footing, clearances, shares)
        violation = feasibility.check_posture(posture.q)
        if posture.meets_target and violation is None:
            heights = _heights(feasibility, target, posture.q, straight)
            return Standing(footing, feasibility, posture.q, target, heights, _reach(feasibility, com))
        reasons.append("the legs cannot carry the arms so" if violation is None else violation.reason)
    raise StanceError(f"{model.name} found no posture to stand in: {'; '.join(dict.fromkeys(reasons))}")


def _straight(footing: Footing) -> tuple[float, FloatArray]:
    """Return the height of the root above the soles in the resting posture, and a guess with bent knees."""
    guess = resting_posture(footing.model)
    data = footing.data
    pin.framesForwardKinematics(footing.pinocchio, data, guess)
    height = -min(float(data.oMf[foot.frame].translation[2]) for foot in footing.feet)
    lower, upper = footing.leg_limits
    legs = 7 + footing.leg_columns
    middle = np.clip(0.5 * (lower + upper), -np.pi, np.pi)
    # A knee bends to one side only: towards the middle of its range. From a straight leg Newton could not tell.
    guess[legs] += 0.3 * (np.where(np.isfinite(middle), middle, 0.0) - guess[legs])
    guess[2] = height
    return height, guess


def _home_com(footing: Footing) -> FloatArray:
    """Return the centre of mass at home (2,): midway between the feet, lengthwise as in the resting posture."""
    data = footing.data
    own = pin.centerOfMass(footing.pinocchio, data, np.concatenate([[0.0, 0.0], resting_posture(footing.model)[2:]]))
    polygon = footing.support_polygon
    lengthwise = polygon @ footing.forward
    middle, half = 0.5 * (lengthwise.max() + lengthwise.min()), 0.5 * np.ptp(lengthwise)
    along = float(np.clip(own[:2] @ footing.forward, middle - 0.25 * half, middle + 0.25 * half))
    sideways = polygon @ footing.lateral
    return np.asarray(along * footing.forward + 0.5 * (sideways.max() + sideways.min()) * footing.lateral)


def _heights(feasibility: Feasibility, target: PostureTarget, home: FloatArray, straight: float) -> tuple[float, float]:
    """Return the least and the greatest feasible height of the root, m."""
    found = []
    for direction in (-1.0, 1.0):
        reached, q = target.height, home
        while True:
            height = reached + direction * 0.005 * straight
            posture = solve_posture(feasibility.footing, replace(target, height=height), q)
            if not posture.meets_target or feasibility.check_posture(posture.q) or abs(height - target.height) > 0.3:
                break
            reached, q = height, posture.q
        found.append(reached)
    return found[0], found[1]


def _reach(feasibility: Feasibility, com: FloatArray) -> tuple[float, float, float, float]:
    """Return the distances from a point inside the balance polygon to its edges, along and across the feet."""
    polygon = feasibility.balance_polygon
    edges = np.roll(polygon, -1, axis=0) - polygon
    inward = np.stack([-edges[:, 1], edges[:, 0]], axis=1)
    room = np.einsum("ij,ij->i", inward, com - polygon)
    footing = feasibility.footing
    reach = []
    for direction in (-footing.lateral, footing.lateral, -footing.forward, footing.forward):
        closing = -inward @ direction
        reach.append(float(np.min(room[closing > 1e-9] / closing[closing > 1e-9])))
    return reach[0], reach[1], reach[2], reach[3]
