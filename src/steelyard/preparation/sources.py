"""Recordings as users give them: paths, or Recordings in memory."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError, RecordingWarning, SteelyardError
from steelyard.recording import Recording, read_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard.model import Model

RecordingLike = str | Path | Recording
"""A recording, or the path of its file."""


def open_recording(model: Model, source: RecordingLike) -> Recording:
    """Return a recording, read from its file if it is a path; its notes are kept, not shown as warnings.

    Raises:
        RecordingError: The file cannot be read, or the source is neither a path nor a Recording.
    """
    if isinstance(source, Recording):
        return source
    if not isinstance(source, str | Path):
        raise RecordingError(f"a recording or the path of its file is needed, not a {type(source).__name__}")
    with warnings.catch_warnings():
        # The notes of the recording hold the same sentences.
        warnings.simplefilter("ignore", RecordingWarning)
        return read_recording(source, model)


@contextmanager
def naming(name: str | Callable[[], str]) -> Iterator[None]:
    """Add the name of a recording to errors that do not mention it.

    Args:
        name: The name, or what returns it when an error occurs; no name adds nothing.
    """
    try:
        yield
    except SteelyardError as error:
        known = name if isinstance(name, str) else name()
        if known and known not in str(error):
            error.args = (f"{known}: {error}",)
        raise
