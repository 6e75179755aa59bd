"""Clocks: units, repeated and decreasing times, and times since 1970 counted from a whole second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import TIME_UNITS

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray

EPOCH = 100_000_000
"""Seconds from which a clock counts from 1970: three years, more than any uptime.

Its first whole second becomes zero.
"""

RESTART = 1.0
"""Seconds by which a clock that jumps back was restarted.

Set by judgement: messages out of order are off by far less.
"""

_LARGEST_WHOLE = 2**62  # half the range of 64 bits: differences of two times do not overflow

_BACKWARD_SHARE = 0.01
"""Share of decreasing times from which a clock is refused.

Set by judgement: loggers with several threads swap a few.
"""

_REPEATED_SHARE = 0.6
"""Share of repeated times from which a clock is too coarse.

Set by judgement: a logger that writes each row twice has 0.5.
"""

_LEAP_PERIODS = 1000.0
"""Usual periods from which a step forward is a leap, if it exceeds `_LEAP` too.

Set by judgement: slow logs pause longer.
"""

_LEAP = 60.0
"""Seconds from which a step forward may be a leap to another clock. Set by judgement: shorter steps are pauses."""


def check_range(stamps: Any, name: str) -> Any:
    """Return times as numbers that fit 64-bit integers.

    Raises:
        RecordingError: One does not fit.
    """
    if stamps.dtype.kind in "bf":
        with np.errstate(over="ignore"):
            stamps = stamps.astype(np.int64 if stamps.dtype.kind == "b" else np.float64)
    # Two comparisons: the absolute value of the most negative 64-bit integer is itself negative.
    beyond = np.flatnonzero((stamps > _LARGEST_WHOLE) | (stamps < -_LARGEST_WHOLE))
    if len(beyond):
        raise RecordingError(
            f"{name}: the time of row {beyond[0]} is {stamps[beyond[0]]}, which is out of range", column="time"
        )
    return stamps


def read_clock(stamps: Any, unit: str, name: str) -> tuple[FloatArray, int]:
    """Convert times to seconds, and return the epoch: the whole second since 1970 that they count from, or zero.

    The epoch is subtracted from integers before they become floats: no nanosecond is lost.

    Args:
        stamps: Numbers in `unit`, shape (n,).
        unit: One of `TIME_UNITS`.
        name: The file, for messages.

    Raises:
        RecordingError: A time is missing, or out of range.
    """
    if len(stamps) == 0:
        return np.empty(0), 0
    parts = TIME_UNITS[unit]
    stamps = check_range(stamps, name)
    if stamps.dtype.kind in "iu":
        whole = stamps.astype(np.int64)
        epoch = _find_epoch(whole, parts)
        return (whole - epoch * parts).astype(np.float64) / parts, epoch
    missing = np.flatnonzero(~np.isfinite(stamps))
    if len(missing):
        raise RecordingError(
            f"{name}: the time of row {missing[0]} is missing ({len(missing)} such rows); drop these rows",
            column="time",
        )
    seconds = np.asarray(stamps, dtype=np.float64) / parts
    epoch = _find_epoch(seconds, 1)
    return seconds - epoch, epoch


def _find_epoch(stamps: Any, parts: int) -> int:
    """Return the first whole second of a clock that counts from 1970, else zero; a few stamps of zero are ignored."""
    since = (stamps > EPOCH * parts) | (stamps < -EPOCH * parts)
    return int(stamps[np.argmax(since)] // parts) if 2 * np.count_nonzero(since) > len(stamps) else 0


def clean_clock(time: FloatArray, name: str) -> tuple[BoolArray | None, list[str]]:
    """Return which rows to keep so that time increases, None for all, and notes on the others.

    A row whose time repeats the previous one, or lies before it, is dropped. A clock that jumps back by a second or
    more, is often out of order, or mostly repeats itself, is refused: which of its times are right is unknown.

    Raises:
        RecordingError: The clock was restarted, runs backwards, or is too coarse.
    """
    steps = np.diff(time)
    leaps = _find_leaps(time, steps)
    if len(time) == 0 or np.all(steps > 0.0):
        return None, leaps
    restart = int(np.argmin(steps))
    if steps[restart] <= -RESTART:
        raise RecordingError(
            f"{name}: the clock jumps back by {-steps[restart]:.3f} s after {time[restart]:.3f} s (row {restart}); cut "
            'the recording there, or read a bag by the times of receipt (clock = "receive")',
            column="time",
        )
    latest = np.maximum.accumulate(time)
    keep = np.ones(len(time), dtype=np.bool_)
    keep[1:] = time[1:] > latest[:-1]
    repeated = int(np.count_nonzero(steps == 0.0))
    dropped = int(np.count_nonzero(~keep))
    backward = dropped - int(np.count_nonzero((~keep[1:]) & (time[1:] == latest[:-1])))
    if backward > max(1.0, _BACKWARD_SHARE * len(time)):
        where = int(np.flatnonzero(steps < 0.0)[0])
        raise RecordingError(
            f"{name}: time runs backwards in {backward} of {len(time)} rows, first after {time[where]:.4f} s (row "
            f"{where}); sort the rows by time",
            column="time",
        )
    if repeated > _REPEATED_SHARE * len(time):
        raise RecordingError(
            f"{name}: the clock is too coarse: {repeated} of {len(time)} rows repeat the time before them; record "
            "finer times",
            column="time",
        )
    first = int(np.flatnonzero(~keep)[0])
    kinds = [
        text for count, text in ((repeated, f"{repeated} repeated"), (backward, f"{backward} out of order")) if count
    ]
    note = (
        f"{dropped} of {len(time)} rows have times that do not increase ({' and '.join(kinds)}), first after "
        f"{time[first - 1]:.4f} s; they were dropped"
    )
    return keep, [note, *leaps]


def _find_leaps(time: FloatArray, steps: FloatArray) -> list[str]:
    """Return a note if time leaps forward by more than any pause explains."""
    forward = steps[steps > 0.0]
    if len(forward) == 0 or np.max(forward) <= _LEAP:
        return []
    leaps = np.flatnonzero(steps > max(_LEAP, _LEAP_PERIODS * float(np.median(forward))))
    if len(leaps) == 0:
        return []
    more = f", and {len(leaps) - 1} more times" if len(leaps) > 1 else ""
    return [
        f"time leaps by {steps[leaps[0]]:.3f} s after {time[leaps[0]]:.4f} s (row {leaps[0]}){more}; two clocks may be "
        "mixed"
    ]
