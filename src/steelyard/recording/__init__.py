"""Recordings: what robots really log."""

from steelyard.recording.reading import read_recording
from steelyard.recording.recording import Recording, concatenate

__all__ = ["Recording", "concatenate", "read_recording"]
