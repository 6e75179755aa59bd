"""Placements of a model's bodies in a posture, and the tree that they form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model


def compute_placements(model: Model, q: FloatArray) -> list[pin.SE3]:
    """Compute the placement of every body's joint frame in the base link's frame.

    Args:
        model: The model.
        q: Configuration, shape (position_size,); the pose of the base is ignored.
    """
    placements: list[pin.SE3] = []
    for index, body in enumerate(model.bodies):
        if body.parent < 0:
            placements.append(pin.SE3.Identity())
            continue
        start = int(model.tree.q_starts[index])
        motion = body.joint.motion(np.asarray(q[start : start + body.joint.position_size]))
        placements.append(placements[body.parent] * body.placement * motion)
    return placements


def upward(model: Model) -> FloatArray:
    """Return the upward direction in the base link's axes, unit vector (3,).

    It comes from the root's placement in the file, else it is z.
    """
    return np.asarray(model.description.root_placement.rotation[2])


def children_of(model: Model) -> list[list[int]]:
    """Return the indices of the children of every body."""
    children: list[list[int]] = [[] for _ in model.bodies]
    for index, body in enumerate(model.bodies):
        if body.parent >= 0:
            children[body.parent].append(index)
    return children


def chain_from_root(model: Model, body: int) -> list[int]:
    """Return the bodies from the first below the root to `body`; empty for the root itself."""
    chain: list[int] = []
    while body > 0:
        chain.append(body)
        body = model.bodies[body].parent
    return chain[::-1]
