"""Legs of a model: the limbs that it stands on, and their feet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.drafting.body_tree import children_of, upward
from steelyard.drafting.undersides import LostMeshes, Underside, find_underside
from steelyard.drafting.words import ARM_WORDS, LEG_WORDS, drop_words, mentions, side_of, words_of
from steelyard.model import compute_placements
from steelyard.stance import resting_posture

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

# The four limits below were set by judgement and hold for the reference robots of tests/drafting.
_LEVEL = 0.15
"""Share of the robot's height by which a limb may end above the lowest limb and still stand on the same ground."""
_LEAST_DROP = 0.2
"""Share of the robot's height that a leg reaches below its first joint at least; casters reach less."""
_FOOT_SHARE = 0.2
"""Share of the leg's height up to which a joint belongs to the foot; ankles and toes do."""
_WHEELS = frozenset({"wheel"})
_TOUCH = 0.01
"""Height (m) above the lowest part of a foot up to which another part also touches the ground."""


@dataclass(frozen=True, eq=False)
class Leg:
    """Limb that the robot stands on.

    Attributes:
        name: "left", "right", or the words that distinguish it from the others (``lf``).
        bodies: Indices from the first body below the trunk to the end of the limb.
        foot: Index of the body that carries the sole.
        underside: Underside of the foot, or its unreadable meshes; None where it has no shapes.
        also: Names of other bodies of the foot that touch the ground: toes.
        sure: Whether names, not only geometry, identify it as a leg.
    """

    name: str
    bodies: tuple[int, ...]
    foot: int
    underside: Underside | LostMeshes | None
    also: tuple[str, ...]
    sure: bool


def find_legs(model: Model) -> list[Leg]:
    """Return the legs that a model stands on in its resting posture, in the model's order; empty where it has none.

    Limbs with leg names count. Where no limb has one, limbs with at least two joints that end lowest count, unless they
    have arm names or the trunk reaches as low.
    """
    placements = compute_placements(model, resting_posture(model))
    ends = _limbs(model)
    named = [chain for chain in ends if _mentions(model, chain, LEG_WORDS)]
    up = find_up(model)
    lows = [_low(model, index, placement, up) for index, placement in enumerate(placements)]
    height = max(lows) - min(lows)
    unnamed = [chain for chain in ends if not _mentions(model, chain, ARM_WORDS)]
    limbs = [chain for chain in named or unnamed if _moving(model, chain) >= 2]
    limbs = [
        chain
        for chain in limbs
        if float(placements[chain[0]].translation @ up) - lows[chain[-1]] >= _LEAST_DROP * height > 0.0
    ]
    if not limbs:
        return []
    ground = min(min(lows[index] for index in chain) for chain in limbs)
    limbs = [chain for chain in limbs if min(lows[index] for index in chain) <= ground + _LEVEL * height]
    if not named and (len(limbs) < 2 or _trunk_stands(model, up, ground)):
        return []
    feet = _join((chain, _foot_bodies(placements, lows, up, chain)) for chain in limbs)
    found = [_leg(model, placements, up, bodies, sure=bool(named)) for bodies in feet]
    return _with_names(model, found)


def find_up(model: Model) -> FloatArray:
    """Return the upward direction in the base link's axes, unit vector (3,).

    It comes from the root's placement in the file, else it is z. Where named legs extend more along another axis in the
    resting posture, up is opposite to them along that axis: human models often have y up.
    """
    placements = compute_placements(model, resting_posture(model))
    legs = [chain for chain in _limbs(model) if _mentions(model, chain, LEG_WORDS)]
    up = upward(model)
    if not legs:
        return up
    extent = np.mean([placements[chain[0]].translation - placements[chain[-1]].translation for chain in legs], axis=0)
    axis = int(np.argmax(np.abs(extent)))
    if abs(extent[axis]) < 1.5 * abs(extent @ up):
        return up
    return np.asarray(np.sign(extent[axis]) * np.eye(3)[axis])


def _low(model: Model, body: int, placement: pin.SE3, up: FloatArray) -> float:
    """Return the height of the lowest frame of a body, m."""
    origins = [member.placement.translation for member in model.bodies[body].members]
    return min(float(placement.act(origin) @ up) for origin in [np.zeros(3), *origins])


def _limbs(model: Model) -> list[list[int]]:
    """Return the bodies of each limb, from its first to its end.

    A limb begins below the trunk, the last body that carries several limbs of two joints or more. Fingers and toes
    branch later.
    """
    children = children_of(model)
    depths = [1] * len(children)
    for index in range(len(children) - 1, 0, -1):  # parents come first
        parent = model.bodies[index].parent
        depths[parent] = max(depths[parent], depths[index] + 1)
    return [_limb(model, children, depths, index) for index in range(1, len(children)) if not children[index]]


def _limb(model: Model, children: list[list[int]], depths: list[int], end: int) -> list[int]:
    chain = model.carriers(end)[::-1]
    for number in range(len(chain) - 2, 0, -1):
        siblings = [child for child in children[chain[number - 1]] if child != chain[number]]
        if any(depths[sibling] >= 2 for sibling in siblings):
            return chain[number:]
    return chain


def _moving(model: Model, chain: list[int]) -> int:
    return sum(model.bodies[index].joint.kind != "fixed" for index in chain)


def _mentions(model: Model, chain: list[int], vocabulary: frozenset[str]) -> bool:
    return any(
        mentions(name, vocabulary)
        for index in chain
        for name in (model.bodies[index].joint.name, *(member.part.name for member in model.bodies[index].members))
    )


def _trunk_stands(model: Model, up: FloatArray, ground: float) -> bool:
    """Return whether the root itself reaches the ground, as the foot of an arm does."""
    underside = find_underside(model, 0, up)
    reach = min(underside.height if isinstance(underside, Underside) else 0.0, 0.0)
    return reach <= ground + _TOUCH


def _foot_bodies(placements: list[pin.SE3], lows: list[float], up: FloatArray, chain: list[int]) -> list[int]:
    """Return the bodies of a limb that belong to its foot: its end, and those not much higher."""
    lowest = min(lows[index] for index in chain)
    drop = float(placements[chain[0]].translation @ up) - lowest
    near = [index for index in chain if float(placements[index].translation @ up) <= lowest + _FOOT_SHARE * drop]
    return near or chain[-1:]


def _join(limbs: Iterable[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    """Merge limbs whose feet share a body: toes of one foot."""
    joined: list[tuple[list[int], list[int]]] = []
    for chain, feet in limbs:
        for known, shared in joined:
            if set(shared) & set(feet):
                known += [index for index in chain if index not in known]
                shared += [index for index in feet if index not in shared]
                break
        else:
            joined.append((list(chain), list(feet)))
    return joined


def _leg(
    model: Model, placements: list[pin.SE3], up: FloatArray, limb: tuple[list[int], list[int]], *, sure: bool
) -> Leg:
    bodies, candidates = limb
    origins = [float(placement.translation @ up) for placement in placements]
    lowest = min(_low(model, index, placements[index], up) for index in bodies)
    drop = origins[bodies[0]] - lowest
    seen = {
        index: find_underside(
            model,
            index,
            np.asarray(placements[index].rotation.T @ up),
            whole_foot=origins[index] <= lowest + _FOOT_SHARE * drop,
        )
        for index in candidates
        if not mentions(model.bodies[index].name, _WHEELS)
    }
    standing = {index: underside for index, underside in seen.items() if isinstance(underside, Underside)}
    if not standing:
        lost = next((entry for entry in seen.values() if isinstance(entry, LostMeshes)), None)
        return Leg("", tuple(bodies), candidates[-1], lost, (), sure)
    heights = {index: underside.height + origins[index] for index, underside in standing.items()}
    low = min(heights.values())
    touching = [index for index in standing if heights[index] <= low + _TOUCH]
    foot = max(touching, key=lambda index: standing[index].area)
    also = tuple(model.bodies[index].name for index in touching if index != foot)
    return Leg("", tuple(bodies), foot, standing[foot], also, sure)


def _with_names(model: Model, legs: list[Leg]) -> list[Leg]:
    """Name the legs left and right where their feet's names suffice, else by the words that distinguish the feet."""
    feet = [model.bodies[leg.foot].name for leg in legs]
    names = [side_of(foot) for foot in feet]
    if len(set(names)) < len(legs) or "" in names:
        common = set(words_of(feet[0])).intersection(*(words_of(foot) for foot in feet)) if len(legs) > 1 else set()
        names = [drop_words(foot, common) for foot in feet]
    if len(set(names)) < len(legs) or not all(any(map(str.isalpha, name)) for name in names):
        names = [f"foot_{number}" for number in range(1, len(legs) + 1)]
    return [replace(leg, name=name) for name, leg in zip(names, legs, strict=True)]
