"""Placements of a model's bodies in a posture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model.model import Model


def compute_placements(model: Model, q: FloatArray) -> list[pin.SE3]:
    """Compute the placement of every body's joint frame in the base link's frame.

    Args:
        model: The model.
        q: Configuration, shape (position_size,); the pose of the base is ignored.
    """
    placements = [pin.SE3.Identity()]
    for start, body in zip(model.tree.q_starts[1:].tolist(), model.bodies[1:], strict=True):
        motion = body.joint.motion(np.asarray(q[start : start + body.joint.position_size]))
        placements.append(placements[body.parent] * body.placement * motion)
    return placements
