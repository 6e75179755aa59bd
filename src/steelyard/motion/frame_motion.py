"""The motion of a model's frames and bodies in a Motion, as seen from its base link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exceptions import MotionError
from steelyard.kinematics import FrameMotion, TreeMotion, move_along

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.motion.motion import Motion


def tree_motion(motion: Motion) -> TreeMotion:
    """Return the arrays of a motion that kinematics takes."""
    return TreeMotion(
        motion.q, motion.v, motion.a, motion.angular_velocity, motion.angular_acceleration, motion.proper_acceleration
    )


def frame_motion(model: Model, motion: Motion, frame: str, known: dict[int, FrameMotion] | None = None) -> FrameMotion:
    """Compute the motion of a named frame; see `body_motions`."""
    body, placement = model.frame(frame)
    return body_motions(model, motion, body, known)[body].moved(placement)


def body_motions(
    model: Model, motion: Motion, body: int, known: dict[int, FrameMotion] | None = None
) -> dict[int, FrameMotion]:
    """Compute the motion of a body's joint frame, and of all between it and the base link, by index of the body.

    Args:
        model: The model.
        motion: The motion.
        body: Index of the body.
        known: Motions of bodies that are known already; those computed are added.

    Raises:
        MotionError: The base link of the motion does not carry the body.
    """
    chain = model.tree.chain(model.frame(motion.base).body, body)
    if not chain:
        raise MotionError(
            f"the motion is given at {motion.base!r}, which does not carry {model.bodies[body].name!r}; give it at "
            f"{model.bodies[0].name!r}",
            channel="base",
        )
    return move_along(model.tree, chain, tree_motion(motion), known)
