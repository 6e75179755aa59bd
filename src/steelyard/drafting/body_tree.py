"""The tree that a model's bodies form, and its upward direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model


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
