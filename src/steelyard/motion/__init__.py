"""Motions: clean, on one clock, with derivatives."""

from steelyard.motion.motion import GRAVITY, Motion, motion_from_arrays, motion_from_generalized

__all__ = ["GRAVITY", "Motion", "motion_from_arrays", "motion_from_generalized"]
