"""The column of time: finding it by its name, and its unit by its name or its size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.clocks import EPOCH, UNITS
from steelyard.recording.wording import show_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
_SPLIT = re.compile(r"(.+)([./_])(secs?)", re.DOTALL)
_NANOSECONDS = {"sec": ("nanosec", "nsec"), "secs": ("nsecs",)}
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
    named = recording_map.time
    if named is not None and named not in names:
        if "time" in names:
            return TimeColumn("time", "s")
        raise RecordingError(
            f"{name} has no column {named!r}, which the setup's [recording] names as time; it has {show_names(names)}",
            column="time",
        )
    column = named if named is not None else _called_time(names, name)
    nanoseconds = _nanoseconds_beside(column, names)
    if nanoseconds is not None:
        return TimeColumn(column, "ns", nanoseconds)
    return TimeColumn(column, recording_map.time_unit or stated.get(column) or _read_name(column)[1])


def unit_of_word(word: str) -> str | None:
    """Gives the unit of time that a word such as "[ms]" or "seconds" means, or None."""
    return _UNIT_WORDS.get(word.strip("[](){}<> ").casefold())


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
    if stamps.dtype.kind in "bf":
        with np.errstate(over="ignore"):
            stamps = stamps.astype(np.int64 if stamps.dtype.kind == "b" else np.float64)
    # Compared as two bounds: the size of the most negative number of 64 bits is itself negative.
    beyond = np.flatnonzero((stamps > _LARGEST_WHOLE) | (stamps < -_LARGEST_WHOLE))
    if len(beyond):
        raise RecordingError(
            f"{name}: the time of row {beyond[0]} is {stamps[beyond[0]]}; that is no time", column="time"
        )
    return stamps


def _called_time(names: Sequence[str], name: str) -> str:
    ranked: list[tuple[int, str]] = []
    last: list[str] = []
    for column in names:
        stem, _ = _read_name(column)
        whole = re.sub(r"[\s_/.-]+", ".", stem).strip(".")
        if whole in _WHOLE_NAMES:
            ranked.append((_WHOLE_NAMES.index(whole), column))
        elif re.split(r"[/.]", stem)[-1] in _LAST_NAMES:
            last.append(column)
    parts = {_nanoseconds_beside(column, names) for _, column in ranked} | {_nanoseconds_beside(x, names) for x in last}
    ranked = [(rank, column) for rank, column in ranked if column not in parts]
    last = [column for column in last if column not in parts]
    if ranked:
        return min(ranked, key=lambda pair: pair[0])[1]
    if not last:
        raise RecordingError(
            f"{name} has no column of time among {show_names(names)}; call one 'time', or name it in the setup: "
            '[recording] time = "..." (docs/setup.md)',
            column="time",
        )
    if len(last) > 1:
        raise RecordingError(
            f"{name}: {show_names(last)} could each be the time; name one in the setup: "
            '[recording] time = "..." (docs/setup.md)',
            column="time",
        )
    return last[0]


def _nanoseconds_beside(column: str, names: Sequence[str]) -> str | None:
    """Gives the column of nanoseconds that belongs to one of whole seconds, as ROS splits its stamps."""
    match = _SPLIT.fullmatch(column)
    beside = [f"{match[1]}{match[2]}{ending}" for ending in _NANOSECONDS[match[3]]] if match is not None else []
    return next((nanoseconds for nanoseconds in beside if nanoseconds in names), None)


def _read_name(column: str) -> tuple[str, str | None]:
    """Gives a column's name in small letters without its unit, and the unit."""
    if len(column) > 200:
        return column, None
    match = _NAME.fullmatch(column.casefold().strip().lstrip("_%#/ "))
    if match is None:
        return column, None
    word = match["bracket"] or match["suffix"]
    return match["stem"], _UNIT_WORDS[word] if word else None
