"""The column of time: found by its name; its unit by its name or its magnitude."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import TIME_UNITS
from steelyard.recording.clocks import EPOCH
from steelyard.wording import show_name, show_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.model import RecordingMap

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

_LONGEST = 200
"""Characters of a name at most that is searched for words of time. Set by judgement: bounds the time of a search."""

_LOOKED_AT = 10_000
"""Times from which the unit is guessed. Set by judgement: enough for a median."""

_USUAL_STEPS = (1e-5, 1.0)
"""Usual steps of a robot's clock in seconds, 100 kHz to 1 Hz.

Set by judgement: no logger of joints is outside of them.
"""

_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True)
class TimeColumn:
    """Where time comes from.

    Attributes:
        name: The file's own name of the column.
        unit: Its unit; None where it must be guessed from the magnitude.
        nanoseconds: The column of nanoseconds to be added, where whole seconds and nanoseconds are two columns.
    """

    name: str
    unit: str | None = None
    nanoseconds: str | None = None


def find_time(
    names: Sequence[str],
    recording_map: RecordingMap,
    name: str,
    units: Mapping[str, str] | None = None,
    unusable: Mapping[str, str] | None = None,
) -> TimeColumn:
    """Find the column of time: the one that the map names, else one with a usual name.

    Args:
        names: The file's columns.
        recording_map: The setup's; its time and unit go first, except that a file which has no such column, but has
            "time", is read as one of Steelyard's.
        name: The file, for messages.
        units: Units that the file itself states, by column.
        unusable: What cannot be a column, and why.

    Raises:
        RecordingError: There is none, or it is ambiguous.
    """
    stated = units or {}
    named = recording_map.time
    if named is not None and named in (unusable or {}):
        raise _unusable_time(named, unusable or {}, name)
    if named is not None and named not in names:
        if "time" in names:
            return TimeColumn("time", "s")
        raise RecordingError(
            f"{name} has no column {named!r}, which the setup's [recording] names as time; it has {show_names(names)}",
            column="time",
        )
    beside = _nanosecond_columns(names)
    column = named if named is not None else _called_time(names, beside, name, unusable or {})
    nanoseconds = beside.get(column)
    if nanoseconds is not None:
        return TimeColumn(column, "ns", nanoseconds)
    return TimeColumn(column, recording_map.time_unit or stated.get(column) or _read_name(column)[1])


def unit_of_word(word: str) -> str | None:
    """Return the unit of time that a word such as "[ms]" or "seconds" means, or None."""
    return _UNIT_WORDS.get(word.strip("[](){}<> ").casefold())


def guess_unit(stamps: Any) -> tuple[str, list[str]]:
    """Guess the unit of times from their magnitude; return it with notes if that, or their usual step, is doubtful."""
    head = stamps[:_LOOKED_AT]
    finite = (head[np.isfinite(head)] if head.dtype.kind == "f" else head).astype(np.float64)
    size = abs(float(np.median(finite))) if len(finite) else 0.0
    unit = next((unit for unit in ("ns", "us", "ms") if size > EPOCH * float(TIME_UNITS[unit])), "s")
    notes = [] if unit == "s" else [f"its times are read as {_WORDS[unit]} since 1970, by their magnitude"]
    steps = np.diff(finite)
    steps = steps[steps > 0.0] / TIME_UNITS[unit]
    if len(steps):
        step = float(np.median(steps))
        # A step of one second may be off by rounding.
        if not _USUAL_STEPS[0] * (1.0 - 1e-6) <= step <= _USUAL_STEPS[1] * (1.0 + 1e-6):
            notes.append(
                f"the usual step of the clock is {step:.6g} s; if time is not in {_WORDS[unit]}, set time_unit in "
                "[recording] of the setup"
            )
    return unit, notes


def _called_time(names: Sequence[str], beside: Mapping[str, str], name: str, unusable: Mapping[str, str]) -> str:
    parts = set(beside.values())
    ranked, last = _candidates([column for column in names if column not in parts])
    if ranked:
        return min(ranked, key=lambda pair: pair[0])[1]
    if not last:
        called, ending = _candidates(unusable)
        if called or ending:
            raise _unusable_time(min(called)[1] if called else ending[0], unusable, name)
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


def _candidates(names: Iterable[str]) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the columns with a usual name of time, each with its rank, and those whose names end with one."""
    ranked: list[tuple[int, str]] = []
    last: list[str] = []
    for column in names:
        stem, _ = _read_name(column)
        whole = re.sub(r"[\s_/.-]+", ".", stem).strip(".")
        if whole in _WHOLE_NAMES:
            ranked.append((_WHOLE_NAMES.index(whole), column))
        elif re.split(r"[/.]", stem)[-1] in _LAST_NAMES:
            last.append(column)
    return ranked, last


def _unusable_time(column: str, unusable: Mapping[str, str], name: str) -> RecordingError:
    return RecordingError(
        f"{name}: the column {show_name(column)} cannot be the time: it {unusable[column]}", column="time"
    )


def _nanosecond_columns(names: Sequence[str]) -> dict[str, str]:
    """Return the column of nanoseconds that belongs to each column of seconds, as ROS splits its stamps."""
    small = {name.casefold(): name for name in reversed(names) if len(name) <= _LONGEST}
    found: dict[str, str] = {}
    for name in names:
        match = _SPLIT.fullmatch(name.casefold()) if len(name) <= _LONGEST else None
        if match is not None:
            beside = (small.get(f"{match[1]}{match[2]}{ending}") for ending in _NANOSECONDS[match[3]])
            nanoseconds = next(filter(None, beside), None)
            if nanoseconds is not None:
                found[name] = nanoseconds
    return found


def _read_name(column: str) -> tuple[str, str | None]:
    """Return a column's name in lower case without its unit, and the unit."""
    if len(column) > _LONGEST:
        return column, None
    match = _NAME.fullmatch(column.casefold().strip().lstrip("_%#/ "))
    if match is None:
        return column, None
    word = match["bracket"] or match["suffix"]
    return match["stem"], _UNIT_WORDS[word] if word else None
