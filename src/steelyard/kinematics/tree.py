"""The kinematic tree as plain arrays, the motion that drives it, and the order in which motion propagates over it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray, IntArray

JOINT_CODES = {"revolute": 0, "continuous": 1, "prismatic": 2, "ball": 3, "fixed": 4, "free": 5}
"""The number that stands for each kind of joint in `Tree.kinds`; hashes of stored Evidence contain it."""


class TreeArrays(NamedTuple):
    """The part of a `Tree` that compiled kernels take; starts count from the first joint below the root."""

    kinds: IntArray
    axes: FloatArray
    rotations: FloatArray
    translations: FloatArray
    q_starts: IntArray
    v_starts: IntArray


@dataclass(frozen=True, eq=False)
class Tree:
    """A kinematic tree as plain arrays; one row per body, parents first.

    Attributes:
        parents: Index of each parent body; −1 for the root. Shape (n_bodies,).
        kinds: Joint codes of `JOINT_CODES`, shape (n_bodies,).
        axes: Unit joint axes in the joint frames, shape (n_bodies, 3).
        rotations: From each joint frame, at position zero, to the parent's joint frame, shape (n_bodies, 3, 3).
        translations: Origin of each joint frame in the parent's, shape (n_bodies, 3), m.
        q_starts: Index of each joint's first number in ``q``, shape (n_bodies,).
        v_starts: Index of each joint's first number in ``v``, shape (n_bodies,).
        rows: Row of each body in `Model.parameters`; −1 for bodies without parameters. Shape (n_bodies,).
    """

    parents: IntArray
    kinds: IntArray
    axes: FloatArray
    rotations: FloatArray
    translations: FloatArray
    q_starts: IntArray
    v_starts: IntArray
    rows: IntArray

    @cached_property
    def sha256(self) -> str:
        """Hash of all arrays: models with equal hashes move alike."""
        digest = hashlib.sha256()
        for array in (self.parents, self.kinds, self.axes, self.rotations, self.translations, self.rows):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def arrays(self) -> TreeArrays:
        """The same tree for compiled kernels."""
        base_q, base_v = (7, 6) if self.kinds[0] == JOINT_CODES["free"] else (0, 0)
        starts = self.q_starts - base_q, self.v_starts - base_v
        return TreeArrays(self.kinds, self.axes, self.rotations, self.translations, *starts)

    @cached_property
    def subtrees(self) -> BoolArray:
        """Whether body j is body i or below it, at (i, j); shape (n_bodies, n_bodies)."""
        mask = np.eye(len(self.parents), dtype=np.bool_)
        for child in range(len(mask) - 1, 0, -1):
            mask[self.parents[child]] |= mask[child]
        return mask

    def chain(self, base: int, body: int) -> list[int]:
        """Return the bodies from `body` up to `base`, both included; empty where `base` does not carry `body`."""
        chain = [body]
        while chain[-1] != base:
            parent = int(self.parents[chain[-1]])
            if parent < 0:
                return []
            chain.append(parent)
        return chain


class TreeMotion(NamedTuple):
    """The motion of all joints and of the base link, which can be any body of the tree.

    Attributes:
        q: Joint positions without the floating base, shape (n, n_q).
        v: Joint velocities, shape (n, n_v).
        a: Joint accelerations, shape (n, n_v).
        angular_velocity: Of the base link in its own axes, shape (n, 3), rad/s.
        angular_acceleration: Of the base link in its own axes, shape (n, 3), rad/s².
        proper_acceleration: ``a − g`` of the base link's origin in its own axes, shape (n, 3), m/s².
    """

    q: FloatArray
    v: FloatArray
    a: FloatArray
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray


class Traversal(NamedTuple):
    """The order in which motion propagates over the tree from one body.

    Attributes:
        order: Every body once, the base first, each after the one it is reached from. Shape (n_bodies,).
        source: The body that each body of `order` is reached from; −1 for the base. Shape (n_bodies,).
        crossed: The body whose joint is crossed on the way; −1 for the base. Shape (n_bodies,).
        upward: Whether that joint is crossed from child to parent. Shape (n_bodies,).
    """

    order: IntArray
    source: IntArray
    crossed: IntArray
    upward: BoolArray


@lru_cache(maxsize=256)
def traverse(tree: Tree, base: int) -> Traversal:
    """Return the traversal of a tree from the body `base`."""
    neighbours: list[list[tuple[int, int, bool]]] = [[] for _ in tree.parents]
    for child, parent in enumerate(tree.parents.tolist()):
        if parent >= 0:
            neighbours[parent].append((child, child, False))
            neighbours[child].append((parent, child, True))
    steps = [(base, -1, -1, False)]
    seen = {base}
    for here, _, _, _ in steps:
        for other, crossed, upward in neighbours[here]:
            if other not in seen:
                seen.add(other)
                steps.append((other, here, crossed, upward))
    order, source, crossed_bodies, upward_steps = zip(*steps, strict=True)
    return Traversal(
        np.array(order, dtype=np.int64),
        np.array(source, dtype=np.int64),
        np.array(crossed_bodies, dtype=np.int64),
        np.array(upward_steps, dtype=np.bool_),
    )
