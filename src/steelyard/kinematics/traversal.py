"""The same tree walked from any body: base rows can be taken at the pelvis, at a foot, wherever a sensor is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.model import Model


@dataclass(frozen=True, eq=False)
class Traversal:
    """The order in which motion spreads over the tree from one body.

    Attributes:
        base: Index of the body from which it starts.
        order: Every body once, `base` first, each after the one it is reached from. Shape (n_bodies,).
        source: The body that each body of `order` is reached from; −1 for `base`. Shape (n_bodies,).
        crossed: The body whose joint is crossed on the way; −1 for `base`. Shape (n_bodies,).
        upward: Whether that joint is crossed from child to parent. Shape (n_bodies,).
    """

    base: int
    order: NDArray[np.int64]
    source: NDArray[np.int64]
    crossed: NDArray[np.int64]
    upward: NDArray[np.bool_]


def traverse(model: Model, base: int) -> Traversal:
    """Gives the traversal of a model's bodies from the body `base`."""
    neighbours: list[list[tuple[int, int, bool]]] = [[] for _ in model.bodies]
    for child, body in enumerate(model.bodies):
        if body.parent >= 0:
            neighbours[body.parent].append((child, child, False))
            neighbours[child].append((body.parent, child, True))
    steps = [(base, -1, -1, False)]
    seen = {base}
    for here, _, _, _ in steps:
        for other, crossed, upward in neighbours[here]:
            if other not in seen:
                seen.add(other)
                steps.append((other, here, crossed, upward))
    order, source, crossed_bodies, upward_steps = zip(*steps, strict=True)
    return Traversal(
        base,
        np.array(order, dtype=np.int64),
        np.array(source, dtype=np.int64),
        np.array(crossed_bodies, dtype=np.int64),
        np.array(upward_steps, dtype=np.bool_),
    )


def subtree_mask(model: Model) -> NDArray[np.bool_]:
    """Gives which bodies hang on which: entry (i, j) tells whether body j is body i or below it."""
    count = len(model.bodies)
    mask = np.eye(count, dtype=np.bool_)
    for child in range(count - 1, 0, -1):
        mask[model.bodies[child].parent] |= mask[child]
    return mask
