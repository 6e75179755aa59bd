"""Motions: smoothed, on one clock, with derivatives."""

from steelyard.motion.base_choice import BASES
from steelyard.motion.base_state import neutral_posture, sole_normal
from steelyard.motion.channels import smooth_columns
from steelyard.motion.encoder_offsets import (
    OffsetsLike,
    as_offsets,
    read_offsets,
    units_of,
    write_calibrated_model,
    write_offsets,
)
from steelyard.motion.frame_motion import body_motions, frame_motion, tree_motion
from steelyard.motion.joint_state import check_offsets
from steelyard.motion.motion import GRAVITY, Motion, motion_from_arrays, motion_from_generalized
from steelyard.motion.power_density import estimate_power_density
from steelyard.motion.reconstruct import Base, reconstruct_motion, stream_motion
from steelyard.motion.segments import LONGEST_GAP, interpolate_gaps, longest_bridged_gap, sample_rate, split_at_gaps
from steelyard.motion.smoothing import butterworth

__all__ = [
    "BASES",
    "GRAVITY",
    "LONGEST_GAP",
    "Base",
    "Motion",
    "OffsetsLike",
    "as_offsets",
    "body_motions",
    "butterworth",
    "check_offsets",
    "estimate_power_density",
    "frame_motion",
    "interpolate_gaps",
    "longest_bridged_gap",
    "motion_from_arrays",
    "motion_from_generalized",
    "neutral_posture",
    "read_offsets",
    "reconstruct_motion",
    "sample_rate",
    "smooth_columns",
    "sole_normal",
    "split_at_gaps",
    "stream_motion",
    "tree_motion",
    "units_of",
    "write_calibrated_model",
    "write_offsets",
]
