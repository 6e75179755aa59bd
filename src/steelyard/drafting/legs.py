"""The legs of a model: which of its limbs it stands on, and their feet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.drafting.places import chain_to, children_of, place_bodies, upward
from steelyard.drafting.undersides import LostMeshes, Underside, find_underside
from steelyard.drafting.words import ARM_WORDS, LEG_WORDS, side_of, speaks_of, without, words_of
from steelyard.stance.footing import resting_posture

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pinocchio as pin

    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray

_LEVEL = 0.15
"""How much higher than the lowest a limb may end, as a share of the robot's height, to stand on the same ground."""
_LEAST_DROP = 0.2
"""How far below its first joint a leg reaches at least, as a share of the robot's height: casters do not."""
_FOOT_SHARE = 0.2
"""Up to what share of its leg's height a joint belongs to the foot: ankles and toes do."""
_WHEELS = frozenset({"wheel"})
_TOUCH = 0.01
"""How much higher (m) than the lowest part of a foot another may be to be a part of what touches the ground."""


@dataclass(frozen=True, eq=False)
class Leg:
    """A limb that the robot stands on.

    Attributes:
        name: "left", "right", or what tells it from the others (``lf``).
        bodies: From below the trunk to the end of the limb.
        foot: The body that carries the sole.
        underside: Of the foot; or which meshes of it were lost; None where it has no shapes.
        also: Names of other bodies of the foot that touch the ground: toes.
        sure: Whether names say that it is a leg, or only its shape.
    """

    name: str
    bodies: tuple[int, ...]
    foot: int
    underside: Underside | LostMeshes | None
    also: tuple[str, ...]
    sure: bool


def find_legs(model: Model) -> list[Leg]:
    """Gives the legs that a model stands on with its joints at rest, in the model's order; none where it has none.

    Limbs whose joints and links have the names of legs count; where no limb has, those with at least two joints that
    end at the lowest height, unless they have the names of arms or the trunk reaches as low.
    """
    places = place_bodies(model, resting_posture(model))
    ends = _limbs(model)
    named = [chain for chain in ends if _speaks(model, chain, LEG_WORDS)]
    up = find_up(model)
    lows = [_low(model, index, place, up) for index, place in enumerate(places)]
    height = max(lows) - min(lows)
    plain = [chain for chain in ends if not _speaks(model, chain, ARM_WORDS)]
    limbs = [chain for chain in named or plain if _moving(model, chain) >= 2]
    limbs = [
        chain
        for chain in limbs
        if float(places[chain[0]].translation @ up) - lows[chain[-1]] >= _LEAST_DROP * height > 0.0
    ]
    if not limbs:
        return []
    ground = min(min(lows[index] for index in chain) for chain in limbs)
    limbs = [chain for chain in limbs if min(lows[index] for index in chain) <= ground + _LEVEL * height]
    if not named and (len(limbs) < 2 or _trunk_stands(model, up, ground)):
        return []
    feet = _join((chain, _foot_bodies(places, lows, up, chain)) for chain in limbs)
    found = [_leg(model, places, up, bodies, sure=bool(named)) for bodies in feet]
    return _with_names(model, found)


def find_up(model: Model) -> FloatArray:
    """Gives the direction that is up, in the base link's axes.

    It is what the file says of how its root stands, else z; but where legs, by their names, stretch more along another
    axis when all joints are at rest, away from them along that one: models of people often have y up.
    """
    places = place_bodies(model, resting_posture(model))
    legs = [chain for chain in _limbs(model) if _speaks(model, chain, LEG_WORDS)]
    up = upward(model)
    if not legs:
        return up
    stretch = np.mean([places[chain[0]].translation - places[chain[-1]].translation for chain in legs], axis=0)
    axis = int(np.argmax(np.abs(stretch)))
    if abs(stretch[axis]) < 1.5 * abs(stretch @ up):
        return up
    return np.asarray(np.sign(stretch[axis]) * np.eye(3)[axis])


def _low(model: Model, body: int, place: pin.SE3, up: FloatArray) -> float:
    """Gives the height of the lowest frame of a body."""
    origins = [member.placement.translation for member in model.bodies[body].members]
    return min(float((place.act(origin)) @ up) for origin in [np.zeros(3), *origins])


def _limbs(model: Model) -> list[list[int]]:
    """Gives the bodies of each limb, its end last.

    A limb begins where the trunk, which carries several limbs of two joints or more, ends. Fingers and toes part later.
    """
    children = children_of(model)
    depths = [1] * len(children)
    for index in range(len(children) - 1, 0, -1):  # parents come first
        parent = model.bodies[index].parent
        depths[parent] = max(depths[parent], depths[index] + 1)
    return [_limb(model, children, depths, index) for index in range(1, len(children)) if not children[index]]


def _limb(model: Model, children: list[list[int]], depths: list[int], end: int) -> list[int]:
    chain = chain_to(model, end)
    for number in range(len(chain) - 2, 0, -1):
        siblings = [child for child in children[chain[number - 1]] if child != chain[number]]
        if any(depths[sibling] >= 2 for sibling in siblings):
            return chain[number:]
    return chain


def _moving(model: Model, chain: list[int]) -> int:
    return sum(model.bodies[index].joint.kind != "fixed" for index in chain)


def _speaks(model: Model, chain: list[int], vocabulary: frozenset[str]) -> bool:
    return any(
        speaks_of(name, vocabulary)
        for index in chain
        for name in (model.bodies[index].joint.name, *(member.part.name for member in model.bodies[index].members))
    )


def _trunk_stands(model: Model, up: FloatArray, ground: float) -> bool:
    """Tells whether the root itself reaches down to where the limbs end, as the foot of an arm does."""
    underside = find_underside(model, 0, up)
    reach = min(underside.height if isinstance(underside, Underside) else 0.0, 0.0)
    return reach <= ground + _TOUCH


def _foot_bodies(places: list[pin.SE3], lows: list[float], up: FloatArray, chain: list[int]) -> list[int]:
    """Gives the bodies of a limb that belong to its foot: its end, and what is not much higher."""
    bottom = min(lows[index] for index in chain)
    drop = float(places[chain[0]].translation @ up) - bottom
    near = [index for index in chain if float(places[index].translation @ up) <= bottom + _FOOT_SHARE * drop]
    return near or chain[-1:]


def _join(limbs: Iterable[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    """Joins limbs, each with the bodies of its foot, that share one of these: toes of one foot."""
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


def _leg(model: Model, places: list[pin.SE3], up: FloatArray, limb: tuple[list[int], list[int]], *, sure: bool) -> Leg:
    bodies, candidates = limb
    bottom = min(_low(model, index, places[index], up) for index in bodies)
    drop = float(places[bodies[0]].translation @ up) - bottom
    seen = {
        index: find_underside(
            model,
            index,
            np.asarray(places[index].rotation.T @ up),
            whole_foot=float(places[index].translation @ up) <= bottom + _FOOT_SHARE * drop,
        )
        for index in candidates
        if not speaks_of(model.bodies[index].name, _WHEELS)
    }
    standing = {index: underside for index, underside in seen.items() if isinstance(underside, Underside)}
    if not standing:
        lost = next((entry for entry in seen.values() if isinstance(entry, LostMeshes)), None)
        return Leg("", tuple(bodies), candidates[-1], lost, (), sure)
    heights = {index: underside.height + float(places[index].translation @ up) for index, underside in standing.items()}
    low = min(heights.values())
    touching = [index for index in standing if heights[index] <= low + _TOUCH]
    foot = max(touching, key=lambda index: standing[index].area)
    also = tuple(model.bodies[index].name for index in touching if index != foot)
    return Leg("", tuple(bodies), foot, standing[foot], also, sure)


def _with_names(model: Model, legs: list[Leg]) -> list[Leg]:
    """Names the legs: left and right where names say it and it is enough, else by what tells their feet apart."""
    feet = [model.bodies[leg.foot].name for leg in legs]
    names = [side_of(foot) for foot in feet]
    if len(set(names)) < len(legs) or "" in names:
        common = set(words_of(feet[0])).intersection(*(words_of(foot) for foot in feet)) if len(legs) > 1 else set()
        names = [without(foot, common) for foot in feet]
    if len(set(names)) < len(legs) or not all(any(map(str.isalpha, name)) for name in names):
        names = [f"foot_{number}" for number in range(1, len(legs) + 1)]
    return [replace(leg, name=name) for name, leg in zip(names, legs, strict=True)]
