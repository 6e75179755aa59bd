"""Placements of frames in the root link, and their Jacobians, for all poses at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics import cross, place_bodies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.model import Model


@dataclass(frozen=True, eq=False)
class FramePlacements:
    """Placements of the frames of some chains in the root link, for each pose.

    Attributes:
        rotations: From each frame's axes to the root's, shape (n_frames, n_poses, 3, 3).
        positions: Of each frame's origin, shape (n_frames, n_poses, 3), m.
        axes: Of each joint, shape (n_joints, n_poses, 3).
        origins: A point on the axis of each joint, shape (n_joints, n_poses, 3), m.
    """

    rotations: FloatArray
    positions: FloatArray
    axes: FloatArray
    origins: FloatArray


@dataclass(frozen=True, eq=False)
class FrameChains:
    """The joints between the root and some frames.

    Attributes:
        model: The model.
        frames: Names of the frames.
    """

    model: Model
    frames: tuple[str, ...]

    @cached_property
    def bodies(self) -> tuple[int, ...]:
        """Index of each body on the way from the root to a frame, parents first; the root is not among them."""
        return tuple(sorted({body for way in self._ways for body in way}))

    @cached_property
    def _ways(self) -> list[list[int]]:
        return [self.model.carriers(self.model.frame(frame).body) for frame in self.frames]

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """Joints of one angle or length on the way to a frame, in the model's order."""
        return tuple(self.model.bodies[body].joint.name for body in self._joint_bodies)

    @cached_property
    def _joint_bodies(self) -> tuple[int, ...]:
        return tuple(body for body in self.bodies if self.model.bodies[body].joint.position_size == 1)

    @cached_property
    def sliding(self) -> NDArray[np.bool_]:
        """Whether each joint is prismatic, shape (n_joints,)."""
        return np.array([self.model.bodies[body].joint.kind == "prismatic" for body in self._joint_bodies], dtype=bool)

    @cached_property
    def carries(self) -> NDArray[np.bool_]:
        """Whether a joint moves a frame, shape (n_frames, n_joints)."""
        return np.array([[body in way for body in self._joint_bodies] for way in self._ways], dtype=bool).reshape(
            len(self.frames), len(self._joint_bodies)
        )

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """Index of each joint among the positions of all joints, shape (n_joints,)."""
        return self.model.tree.arrays.q_starts[list(self._joint_bodies)]

    def place(self, positions: FloatArray) -> FramePlacements:
        """Compute the placements of the frames.

        Args:
            positions: Of all joints in the model's order, shape (n_poses, n_positions), rad or m.
        """
        count = len(positions)
        placed = place_bodies(self.model.tree, self.bodies, positions)
        frames = [(placed[body], placement) for body, placement in map(self.model.frame, self.frames)]
        moving = [placed[body] for body in self._joint_bodies]
        return FramePlacements(
            np.array([at.rotation @ placement.rotation for at, placement in frames]).reshape(-1, count, 3, 3),
            np.array([at.position + at.rotation @ placement.translation for at, placement in frames]).reshape(
                -1, count, 3
            ),
            np.array([at.axis for at in moving]).reshape(-1, count, 3),
            np.array([at.origin for at in moving]).reshape(-1, count, 3),
        )

    def point_jacobian(self, places: FramePlacements, frame: int, points: FloatArray) -> FloatArray:
        """Compute the Jacobian of points of a frame, in the root's axes, shape (n_poses, 3, n_joints).

        Args:
            places: Placements of the frames.
            frame: Number of the frame.
            points: In the root's axes, shape (n_poses, 3), m.
        """
        slopes = np.zeros((len(points), 3, len(self.joints)))
        for number in np.flatnonzero(self.carries[frame]):
            axis = places.axes[number]
            slopes[:, :, number] = axis if self.sliding[number] else cross(axis, points - places.origins[number])
        return slopes

    def rotation_jacobian(self, places: FramePlacements, frame: int) -> FloatArray:
        """Compute the rotational Jacobian of a frame, in the root's axes, shape (n_poses, 3, n_joints)."""
        moving = self.carries[frame] & ~self.sliding
        return np.asarray(np.moveaxis(np.where(moving[:, None, None], places.axes, 0.0), 0, 2))


def chains_to(model: Model, frames: Sequence[str]) -> FrameChains:
    """Return the chains from the root to some frames; repeated names count once."""
    return FrameChains(model, tuple(dict.fromkeys(frames)))
