"""How links move with the base link: placements, rates and accelerations along a chain, for all samples at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError

if TYPE_CHECKING:
    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion


def cross(first: FloatArray, second: FloatArray) -> FloatArray:
    """Gives the vector products of two arrays of vectors, shape (n, 3); many times faster than ``np.cross``."""
    result = np.empty(np.broadcast_shapes(first.shape, second.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.multiply(first[..., j], second[..., k], out=result[..., i])
        result[..., i] -= first[..., k] * second[..., j]
    return result


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
        """Gives the motion of another frame of the same body, placed in this one."""
        arm = self.rotation @ placement.translation
        rate, turn = self.angular_velocity, self.angular_acceleration
        return FrameMotion(
            self.rotation @ placement.rotation,
            self.position + arm,
            rate,
            turn,
            self.proper_acceleration + cross(turn, arm) + cross(rate, cross(rate, arm)),
        )

    def in_own_axes(self, vectors: FloatArray) -> FloatArray:
        """Gives vectors of the base link's axes in the frame's axes, shape (n, 3)."""
        return np.asarray(np.einsum("nji,nj->ni", self.rotation, vectors))


def frame_motion(model: Model, motion: Motion, frame: str, known: dict[int, FrameMotion] | None = None) -> FrameMotion:
    """Gives the motion of a named frame; see `body_motions`."""
    place = model.frame(frame)
    return body_motions(model, motion, place.body, known)[place.body].moved(place.placement)


def body_motions(
    model: Model, motion: Motion, body: int, known: dict[int, FrameMotion] | None = None
) -> dict[int, FrameMotion]:
    """Gives the motion of a body's joint frame, and of all between it and the base link, by index of the body.

    Args:
        model: The model.
        motion: The motion.
        body: Index of the body.
        known: Motions of bodies that are known already; what is found is added.

    Raises:
        MotionError: The base link of the motion does not carry the body.
    """
    chain = [body]
    base = model.frame(motion.base).body
    while chain[-1] != base:
        parent = model.bodies[chain[-1]].parent
        if parent < 0:
            raise MotionError(
                f"the motion is given at {motion.base!r}, which does not carry {model.bodies[body].name!r}; give it at "
                f"{model.bodies[0].name!r}",
                channel="base",
            )
        chain.append(parent)
    motions = {} if known is None else known
    if base not in motions:
        count = len(motion)
        motions[base] = FrameMotion(
            np.broadcast_to(np.eye(3), (count, 3, 3)),
            np.zeros((count, 3)),
            motion.angular_velocity,
            motion.angular_acceleration,
            motion.proper_acceleration,
        )
    base_q, base_v = (7, 6) if model.base == "floating" else (0, 0)
    for index in reversed(chain[:-1]):
        if index not in motions:
            carried = model.bodies[index]
            at = motions[carried.parent].moved(carried.placement)
            q_start = int(model.tree.q_starts[index]) - base_q
            v_start = int(model.tree.v_starts[index]) - base_v
            motions[index] = _across(at, carried.joint.kind, carried.joint.axis, motion, q_start, v_start)
    return {index: motions[index] for index in chain}


def _across(at: FrameMotion, kind: str, axis: FloatArray, motion: Motion, q_start: int, v_start: int) -> FrameMotion:
    """Gives the motion on the far side of a joint from that on its near side."""
    if kind == "fixed":
        return at
    rate, turn = at.angular_velocity, at.angular_acceleration
    if kind == "prismatic":
        along = at.rotation @ axis
        slid = along * motion.q[:, q_start, None]
        speed, push = along * motion.v[:, v_start, None], along * motion.a[:, v_start, None]
        pull = cross(turn, slid) + cross(rate, cross(rate, slid)) + 2.0 * cross(rate, speed) + push
        return FrameMotion(at.rotation, at.position + slid, rate, turn, at.proper_acceleration + pull)
    if kind == "ball":
        rotation = at.rotation @ quaternion_rotations(motion.q[:, q_start : q_start + 4])
        spin = np.einsum("nij,nj->ni", rotation, motion.v[:, v_start : v_start + 3])
        push = np.einsum("nij,nj->ni", rotation, motion.a[:, v_start : v_start + 3])
    else:
        rotation = at.rotation @ axis_rotations(axis, motion.q[:, q_start])
        along = at.rotation @ axis
        spin, push = along * motion.v[:, v_start, None], along * motion.a[:, v_start, None]
    return FrameMotion(rotation, at.position, rate + spin, turn + push + cross(rate, spin), at.proper_acceleration)


def axis_rotations(axis: FloatArray, angles: FloatArray) -> FloatArray:
    """Gives rotations about one axis, shape (n, 3, 3)."""
    x, y, z = axis
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    return np.asarray(np.eye(3) + sine * skew + (1.0 - cosine) * (skew @ skew))


def quaternion_rotations(quaternions: FloatArray) -> FloatArray:
    """Gives the rotation matrices of quaternions x y z w, which need not have length one, shape (n, 3, 3)."""
    x, y, z, w = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    return np.stack(
        [
            np.stack([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)], axis=1),
            np.stack([2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)], axis=1),
            np.stack([2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)], axis=1),
        ],
        axis=1,
    )
