"""Recordings: what robots really log."""

from steelyard.recording.recording import Recording

__all__ = ["Recording"]
