"""Reading recordings: which reader a file needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.model import Model
    from steelyard.recording.recording import Recording


def read_recording(path: str | Path, model: Model | None = None, *, mapped: bool = True) -> Recording:
    """Reads a recording."""
    raise NotImplementedError
