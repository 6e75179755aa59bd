"""Motions: clean, on one clock, with derivatives."""

from steelyard.motion.encoder_offsets import read_offsets, write_calibrated_model, write_offsets
from steelyard.motion.motion import GRAVITY, Motion, motion_from_arrays, motion_from_generalized
from steelyard.motion.reconstruct import reconstruct_motion, stream_motion

__all__ = [
    "GRAVITY",
    "Motion",
    "motion_from_arrays",
    "motion_from_generalized",
    "read_offsets",
    "reconstruct_motion",
    "stream_motion",
    "write_calibrated_model",
    "write_offsets",
]
