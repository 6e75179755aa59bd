"""Where the bodies of a model are in a posture, and which of them hang on which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray


def place_bodies(model: Model, q: FloatArray) -> list[pin.SE3]:
    """Gives the placement of every body's joint frame in the base link's frame.

    Args:
        model: The model.
        q: The configuration, shape (position_size,); where the base stands in it does not count.
    """
    places: list[pin.SE3] = []
    for index, body in enumerate(model.bodies):
        if body.parent < 0:
            places.append(pin.SE3.Identity())
            continue
        start = int(model.tree.q_starts[index])
        motion = body.joint.motion(np.asarray(q[start : start + body.joint.position_size]))
        places.append(places[body.parent] * body.placement * motion)
    return places


def upward(model: Model) -> FloatArray:
    """Gives the direction that is up, in the base link's axes: what the file says of how its root stands, else z."""
    return np.asarray(model.description.root_placement.rotation[2])


def children_of(model: Model) -> list[list[int]]:
    """Gives the children of every body."""
    children: list[list[int]] = [[] for _ in model.bodies]
    for index, body in enumerate(model.bodies):
        if body.parent >= 0:
            children[body.parent].append(index)
    return children


def chain_to(model: Model, body: int) -> list[int]:
    """Gives the bodies from below the root to `body`, which comes last; none for the root itself."""
    chain: list[int] = []
    while body > 0:
        chain.append(body)
        body = model.bodies[body].parent
    return chain[::-1]
