"""Kinematics of a tree of bodies, for all samples at once: frames, velocities, accelerations; quaternions."""

from steelyard.kinematics.blas import one_blas_thread
from steelyard.kinematics.frame_motion import (
    FrameMotion,
    axis_rotations,
    body_motions,
    cross,
    frame_motion,
    quaternion_rotations,
)
from steelyard.kinematics.quaternions import angular_motion, multiply, normalised, without_jumps
from steelyard.kinematics.traversal import subtree_mask, traverse

__all__ = [
    "FrameMotion",
    "angular_motion",
    "axis_rotations",
    "body_motions",
    "cross",
    "frame_motion",
    "multiply",
    "normalised",
    "one_blas_thread",
    "quaternion_rotations",
    "subtree_mask",
    "traverse",
    "without_jumps",
]
