"""Motion along one chain of a tree, for all samples at once; the pass over all bodies is `spread_motion`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics.rotations import cross, quaternion_rotations, times_constant, turn_about
from steelyard.kinematics.tree import JOINT_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.kinematics.tree import Tree, TreeMotion

_PRISMATIC, _BALL, _FIXED = (JOINT_CODES[kind] for kind in ("prismatic", "ball", "fixed"))


class JointPlacement(NamedTuple):
    """A body's joint frame at some samples, and the axis of its joint, all in the axes that the chain starts from.

    Attributes:
        rotation: From the body's axes, shape (n, 3, 3).
        position: Of its origin, shape (n, 3), m.
        axis: Unit axis of its joint, shape (n, 3); zeros where it has none.
        origin: Of the joint frame at position zero, shape (n, 3), m: a point on the axis.
    """

    rotation: FloatArray
    position: FloatArray
    axis: FloatArray
    origin: FloatArray


def place_joint(tree: Tree, body: int, rotation: FloatArray, position: FloatArray, q: FloatArray) -> JointPlacement:
    """Compute the placement of a body's joint frame from that of its parent's.

    Args:
        tree: The tree.
        body: Index of the body.
        rotation: From the parent's axes, shape (n, 3, 3).
        position: Of the parent's origin, shape (n, 3), m.
        q: Joint positions without the floating base, shape (n, n_q).
    """
    kind, start = tree.kinds[body], tree.arrays.q_starts[body]
    turned = times_constant(rotation, tree.rotations[body])
    origin = moved = position + rotation @ tree.translations[body]
    axis = turned @ tree.axes[body]
    if kind == _PRISMATIC:
        moved = origin + axis * q[:, start, None]
    elif kind == _BALL:
        turned = turned @ quaternion_rotations(q[:, start : start + 4])
    elif kind != _FIXED:
        turned = turn_about(turned, tree.axes[body], q[:, start])
    return JointPlacement(turned, moved, axis, origin)


def place_bodies(tree: Tree, bodies: Iterable[int], q: FloatArray) -> dict[int, JointPlacement]:
    """Compute the placements of some bodies in the root link, by index of the body.

    Args:
        tree: The tree.
        bodies: Parents first, complete up to the root, which is not among them.
        q: Joint positions without the floating base, shape (n, n_q).
    """
    zeros = np.zeros((len(q), 3))
    placed = {0: JointPlacement(np.broadcast_to(np.eye(3), (len(q), 3, 3)), zeros, zeros, zeros)}
    for body in bodies:
        parent = placed[int(tree.parents[body])]
        placed[body] = place_joint(tree, body, parent.rotation, parent.position, q)
    return placed


@dataclass(frozen=True, eq=False)
class FrameMotion:
    """The motion of a frame as seen from the base link, in the base link's axes.

    Attributes:
        rotation: From the frame's axes to the base link's, shape (n, 3, 3).
        position: Of the frame's origin from the base link's, shape (n, 3), m.
        angular_velocity: Shape (n, 3), rad/s.
        angular_acceleration: Shape (n, 3), rad/s².
        proper_acceleration: ``a − g`` of the frame's origin, shape (n, 3), m/s².
    """

    rotation: FloatArray
    position: FloatArray
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray

    def moved(self, placement: pin.SE3) -> FrameMotion:
        """Return the motion of another frame of the same body, placed in this one."""
        arm = self.rotation @ placement.translation
        return FrameMotion(
            times_constant(self.rotation, placement.rotation),
            self.position + arm,
            self.angular_velocity,
            self.angular_acceleration,
            self.acceleration_at(arm),
        )

    def acceleration_at(self, arm: FloatArray) -> FloatArray:
        """Return the proper acceleration of a point of the body, `arm` from the frame's origin in base axes."""
        rate, turn = self.angular_velocity, self.angular_acceleration
        return np.asarray(self.proper_acceleration + cross(turn, arm) + cross(rate, cross(rate, arm)))

    def in_own_axes(self, vectors: FloatArray) -> FloatArray:
        """Return vectors of the base link's axes in the frame's axes, shape (n, 3)."""
        return np.asarray(np.einsum("nji,nj->ni", self.rotation, vectors))


def move_along(
    tree: Tree, chain: Sequence[int], motion: TreeMotion, known: dict[int, FrameMotion] | None = None
) -> dict[int, FrameMotion]:
    """Compute the motion of the joint frames of a chain's bodies, by index of the body.

    Args:
        tree: The tree.
        chain: Bodies from the last one up to the base link, as `Tree.chain` returns them.
        motion: The motion.
        known: Motions that are known already; those computed are added.
    """
    motions = {} if known is None else known
    base = chain[-1]
    if base not in motions:
        count = len(motion.q)
        motions[base] = FrameMotion(np.broadcast_to(np.eye(3), (count, 3, 3)), np.zeros((count, 3)), *motion[3:])
    for body in reversed(chain[:-1]):
        if body not in motions:
            motions[body] = _cross_joint(tree, body, motions[int(tree.parents[body])], motion)
    return {body: motions[body] for body in chain}


def _cross_joint(tree: Tree, body: int, parent: FrameMotion, motion: TreeMotion) -> FrameMotion:
    """Compute the motion of a body's joint frame from that of its parent's."""
    kind, start = tree.kinds[body], tree.arrays.v_starts[body]
    rate, turn = parent.angular_velocity, parent.angular_acceleration
    rotation, position, axis, _ = place_joint(tree, body, parent.rotation, parent.position, motion.q)
    pull = parent.acceleration_at(parent.rotation @ tree.translations[body])
    if kind == _FIXED:
        return FrameMotion(rotation, position, rate, turn, pull)
    if kind == _BALL:
        speed, change = (np.einsum("nij,nj->ni", rotation, each[:, start : start + 3]) for each in (motion.v, motion.a))
    else:
        speed, change = (axis * each[:, start, None] for each in (motion.v, motion.a))
    if kind == _PRISMATIC:
        slid = axis * motion.q[:, tree.arrays.q_starts[body], None]
        pull = pull + (cross(turn, slid) + cross(rate, cross(rate, slid)) + 2.0 * cross(rate, speed) + change)
        return FrameMotion(rotation, position, rate, turn, pull)
    return FrameMotion(rotation, position, rate + speed, turn + change + cross(rate, speed), pull)
