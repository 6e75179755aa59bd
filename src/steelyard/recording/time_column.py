"""The column of time: finding it by its name, and its unit by its name or its size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model.names import in_words
from steelyard.recording.clocks import EPOCH, UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.model.recording_map import RecordingMap

_WHOLE_NAMES = ("time", "t", "timestamp", "times", "timestamps", "stamp", "header.stamp", "elapsed", "elapsed.time")
_LAST_NAMES = ("time", "timestamp", "stamp", "times")

_UNIT_WORDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "usec", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanosec", "nanosecs", "nanosecond", "nanoseconds"), "ns"),
}
_UNIT = "|".join(sorted(_UNIT_WORDS, key=len, reverse=True))
_NAME = re.compile(
    rf"(?P<stem>.+?)(?:[\s_./-]*[\[(<{{]\s*(?P<bracket>{_UNIT})\s*[\])>}}]|[\s_./-]+(?P<suffix>{_UNIT}))?", re.DOTALL
)
_LARGEST_WHOLE = 2**62


@dataclass(frozen=True)
class TimeColumn:
    """Where time comes from.

    Attributes:
        name: The file's own name of the column.
        unit: Its unit; None where only its size can tell.
        nanoseconds: The column of nanoseconds to be added, where whole seconds and nanoseconds are two columns.
    """

    name: str
    unit: str | None = None
    nanoseconds: str | None = None


def find_time(
    names: Sequence[str], recording_map: RecordingMap, name: str, units: Mapping[str, str] | None = None
) -> TimeColumn:
    """Gives the column of time: the one that the map names, else the one that is called like it.

    Args:
        names: The file's columns.
        recording_map: The setup's; its time and unit go first, except that a file which has no such column, but has
            "time", is taken to be Steelyard's own.
        name: The file, for messages.
        units: Units that the file itself states, by column.

    Raises:
        RecordingError: There is none, or nobody can tell which.
    """
    stated = units or {}
    if recording_map.time is not None and recording_map.time in names:
        unit = recording_map.time_unit or stated.get(recording_map.time) or _read_name(recording_map.time)[1]
        return TimeColumn(recording_map.time, unit)
    if recording_map.time is not None:
        if "time" in names:
            return TimeColumn("time", "s")
        raise RecordingError(
            f"{name} has no column {recording_map.time!r}, which the setup's [recording] names as time; it has "
            f"{show_names(names)}",
            column="time",
        )
    found = _called_time(names, name)
    return TimeColumn(found.name, recording_map.time_unit or stated.get(found.name) or found.unit, found.nanoseconds)


def guess_unit(stamps: Any) -> tuple[str, list[str]]:
    """Gives the unit of times by their size, and a note where they count from 1970 in a small unit."""
    finite = stamps[np.isfinite(stamps)] if stamps.dtype.kind == "f" else stamps
    size = abs(float(finite[0])) if len(finite) else 0.0
    for unit in ("ns", "us", "ms"):
        if size * UNITS[unit] > EPOCH:
            words = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds"}[unit]
            return unit, [f"its times are taken for {words} since 1970, by their size"]
    return "s", []


def check_range(stamps: Any, name: str) -> Any:
    """Gives times that whole numbers of 64 bits can count.

    Raises:
        RecordingError: One is beyond all reason.
    """
    if stamps.dtype.kind == "b":
        stamps = stamps.astype(np.int64)
    # Compared as two bounds: the size of the most negative number of 64 bits is itself negative.
    beyond = np.flatnonzero((stamps > _LARGEST_WHOLE) | (stamps < -_LARGEST_WHOLE))
    if len(beyond):
        raise RecordingError(
            f"{name}: the time of row {beyond[0]} is {stamps[beyond[0]]}; that is no time", column="time"
        )
    return stamps


def show_names(names: Iterable[str], *, limit: int = 4) -> str:
    """Gives names in words for a message, quoted, cut where they are long."""
    return in_words([show_name(name) for name in names], limit=limit) or "no columns"


def show_name(name: str) -> str:
    """Gives a name for a message, quoted, cut where it is long."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def _called_time(names: Sequence[str], name: str) -> TimeColumn:
    ranked: list[tuple[int, TimeColumn]] = []
    last: list[TimeColumn] = []
    for column in names:
        stem, unit = _read_name(column)
        whole = re.sub(r"[\s_/.-]+", ".", stem).strip(".")
        if whole in _WHOLE_NAMES:
            ranked.append((_WHOLE_NAMES.index(whole), TimeColumn(column, unit)))
        elif re.split(r"[/.]", stem)[-1] in _LAST_NAMES:
            last.append(TimeColumn(column, unit))
    if ranked:
        best = min(rank for rank, _ in ranked)
        candidates = [column for rank, column in ranked if rank == best]
    else:
        candidates = last
    split = _split_stamp(candidates)
    if split is not None:
        return split
    if not candidates:
        raise RecordingError(
            f"{name} has no column of time among {show_names(names)}; call one 'time', or name it in the setup: "
            '[recording] time = "..." (docs/setup.md)',
            column="time",
        )
    if not ranked and len(candidates) > 1:
        raise RecordingError(
            f"{name}: {show_names([column.name for column in candidates])} could each be the time; name one in the "
            'setup: [recording] time = "..." (docs/setup.md)',
            column="time",
        )
    return candidates[0]


def _split_stamp(candidates: Sequence[TimeColumn]) -> TimeColumn | None:
    """Gives the stamp that is split into whole seconds and nanoseconds, as ROS has it."""
    by_stem: dict[str, dict[str, str]] = {}
    for column in candidates:
        by_stem.setdefault(_read_name(column.name)[0], {}).setdefault(column.unit or "", column.name)
    for found in by_stem.values():
        if "s" in found and "ns" in found and "" not in found:
            return TimeColumn(found["s"], "ns", found["ns"])
    return None


def _read_name(column: str) -> tuple[str, str | None]:
    """Gives a column's name in small letters without its unit, and the unit."""
    if len(column) > 200:
        return column, None
    match = _NAME.fullmatch(column.casefold().strip().lstrip("_%#/ "))
    if match is None:
        return column, None
    word = match["bracket"] or match["suffix"]
    return match["stem"], _UNIT_WORDS[word] if word else None
