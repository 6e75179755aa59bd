"""Recordings: what robots really log."""

from steelyard.recording.column_names import (
    BASE,
    BASE_AXES,
    IMU_AXES,
    JOINT_QUANTITIES,
    MARKER,
    QUATERNION_AXES,
    VECTOR_AXES,
    joint_columns,
    marker_columns,
    parse_column,
)
from steelyard.recording.columns import MappedColumns, PatchedColumns
from steelyard.recording.reading import find_format, read_recording
from steelyard.recording.recording import Recording, join_recordings, sensor_of
from steelyard.recording.resampling import tolerated_silence, usual_period, usual_rate
from steelyard.recording.writing import check_ending

__all__ = [
    "BASE",
    "BASE_AXES",
    "IMU_AXES",
    "JOINT_QUANTITIES",
    "MARKER",
    "QUATERNION_AXES",
    "VECTOR_AXES",
    "MappedColumns",
    "PatchedColumns",
    "Recording",
    "check_ending",
    "find_format",
    "join_recordings",
    "joint_columns",
    "marker_columns",
    "parse_column",
    "read_recording",
    "sensor_of",
    "tolerated_silence",
    "usual_period",
    "usual_rate",
]
