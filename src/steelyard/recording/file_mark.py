"""The mark of a file that Steelyard wrote: its names and units need no map, and it states which recording it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from steelyard.model import RecordingMap
from steelyard.recording.identity import parse_identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.recording.identity import Identity
    from steelyard.recording.recording import Recording

MARK = "steelyard"
"""Key under which a file of Steelyard's states the version that wrote it."""

EPOCH_KEY = "epoch"
MAPPED_KEY = "steelyard_mapped"
ORIGIN_KEY = "steelyard_origin"

_TEXTS = ("false", "true")


@dataclass(frozen=True)
class FileMark:
    """What a file that Steelyard wrote states about itself; the time in a marked table is in seconds.

    Attributes:
        epoch: The second since 1970 that its times count from.
        mapped: Whether the recording in it was `mapped`.
        origin: Which recording it is, where that is stated; see `Recording.origin`.
    """

    epoch: int = 0
    mapped: bool = False
    origin: Identity | None = None


def restrict_map(recording_map: RecordingMap, mark: FileMark | None) -> RecordingMap:
    """Return the part of a map that applies to a table: all, unless Steelyard wrote it."""
    if mark is None:
        return recording_map
    return replace(RecordingMap() if mark.mapped else recording_map, time=None, time_unit="s")


def parse_bag_mark(texts: Mapping[str, str]) -> FileMark:
    """Return the mark of a bag from its metadata; see `describe_for_bag`."""
    return FileMark(mapped=texts.get("mapped") == _TEXTS[True], origin=parse_identity(texts.get("origin")))


def describe_for_bag(recording: Recording) -> dict[str, str]:
    """Return the metadata that mark a bag: the version, whether a setup's map was applied, and the origin.

    The times of a bag are read as counting from its first second: the origin is stated only where those of the
    recording do.
    """
    from steelyard import __version__  # noqa: PLC0415 (the package itself imports this room)

    mark = {"version": __version__, "mapped": _TEXTS[recording.mapped]}
    same_times = recording.epoch == 0 or 0.0 <= recording.time[0] < 1.0
    return {**mark, "origin": recording.origin} if same_times else mark
