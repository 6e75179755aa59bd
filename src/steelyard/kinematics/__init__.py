"""Kinematics of a tree of bodies, for all samples at once: frames, velocities, accelerations; quaternions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.kinematics.blas import one_blas_thread
from steelyard.kinematics.chain_motion import FrameMotion, move_along, place_bodies
from steelyard.kinematics.quaternions import angular_motion, multiply, normalised, without_jumps
from steelyard.kinematics.rotations import cross, quaternion_rotations
from steelyard.kinematics.tree import JOINT_CODES, Tree, TreeArrays, TreeMotion, traverse

if TYPE_CHECKING:
    from steelyard.kinematics.kernel_cache import compile_kernel
    from steelyard.kinematics.tree_pass import (
        ANGULAR_ACCELERATION,
        ANGULAR_VELOCITY,
        BLOCK,
        POSITION,
        PROPER_ACCELERATION,
        ROTATION,
        STATE_SIZE,
        VELOCITY,
        compiled,
        spread_blocks,
        spread_motion,
    )

__all__ = [
    "ANGULAR_ACCELERATION",
    "ANGULAR_VELOCITY",
    "BLOCK",
    "JOINT_CODES",
    "POSITION",
    "PROPER_ACCELERATION",
    "ROTATION",
    "STATE_SIZE",
    "VELOCITY",
    "FrameMotion",
    "Tree",
    "TreeArrays",
    "TreeMotion",
    "angular_motion",
    "compile_kernel",
    "compiled",
    "cross",
    "move_along",
    "multiply",
    "normalised",
    "one_blas_thread",
    "place_bodies",
    "quaternion_rotations",
    "spread_blocks",
    "spread_motion",
    "traverse",
    "without_jumps",
]


def __getattr__(name: str) -> Any:
    # A model is loaded without numba, whose import takes half a second: what is compiled is imported when it is used.
    if name in __all__:
        from steelyard.kinematics import tree_pass  # noqa: PLC0415

        return getattr(tree_pass, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
