"""Recordings as users give them: paths, or Recordings in memory."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError, RecordingWarning, SteelyardError
from steelyard.inspection import detect_outliers, mask_outliers
from steelyard.recording import Recording, read_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from steelyard.model import Model

RecordingLike = str | Path | Recording
"""A recording, or the path of its file."""


KEPT_BYTES = 1_000_000_000
"""Bytes of recordings in memory that are kept between passes, so that each file is read once. Set by judgement: half an
hour of a humanoid at 500 Hz in short files; of more, the rest is read again for each pass."""


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


def open_masked(model: Model, source: RecordingLike, *, mask: bool = True) -> Recording:
    """Return a recording as `open_recording` does, without its outliers; its notes name them.

    Raises:
        RecordingError: The file cannot be read, or the source is neither a path nor a Recording.
    """
    recording = open_recording(model, source)
    return mask_outliers(recording, detect_outliers(recording)) if mask else recording


class Shelf:
    """Recordings without outliers in the order of their content, so that the order of the sources does not matter.

    Files beyond `KEPT_BYTES` are not kept, but read again whenever they are needed.
    """

    def __init__(
        self, model: Model, sources: Iterable[RecordingLike], on_open: Callable[[str], None], *, mask: bool = True
    ) -> None:
        self._model = model
        self._mask = mask
        self._kept: dict[str, Recording] = {}
        self._paths: dict[str, str] = {}
        total = 0
        for source in sources:
            on_open(source.name if isinstance(source, Recording) else str(source).rpartition("/")[2])
            recording = open_masked(model, source, mask=mask)
            if recording.origin in self._paths:
                raise RecordingError(f"{recording.name} is given twice; give each recording once")
            self._paths[recording.origin] = "" if isinstance(source, Recording) else str(Path(source).resolve())
            total += recording.memory_size
            if isinstance(source, Recording) or total <= KEPT_BYTES:
                self._kept[recording.origin] = recording

    def __iter__(self) -> Iterator[Recording]:
        for origin in sorted(self._paths):
            if origin in self._kept:
                yield self._kept[origin]
            else:
                yield open_masked(self._model, self._paths[origin], mask=self._mask)

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, recording: Recording) -> str:
        """Return the file of a recording; empty for one in memory."""
        return self._paths[recording.origin]

    def keeps(self, recording: Recording) -> bool:
        """Return whether a recording stays in memory."""
        return recording.origin in self._kept


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
