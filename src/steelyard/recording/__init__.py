"""Recordings: what robots really log."""

from steelyard.recording.reading import read_recording
from steelyard.recording.recording import Recording, join_recordings

__all__ = ["Recording", "join_recordings", "read_recording"]
