"""Motions: clean, on one clock, with derivatives."""

from steelyard.motion.motion import GRAVITY, Motion, motion_from_arrays, motion_from_generalized
from steelyard.motion.reconstruct import reconstruct_motion, stream_motion

__all__ = ["GRAVITY", "Motion", "motion_from_arrays", "motion_from_generalized", "reconstruct_motion", "stream_motion"]
