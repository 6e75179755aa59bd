"""Clocks: units, repeated and backward times, and times since 1970 counted from a whole second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of time, in seconds."""

_PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

EPOCH = 100_000_000
"""Seconds beyond which a clock counts from 1970; its times are then given from the first whole second."""

_RESTART = 1.0
_BACKWARD_SHARE = 0.01

BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]


def read_clock(stamps: Any, unit: str, name: str) -> tuple[FloatArray, int]:
    """Gives seconds, and the epoch: the whole second since 1970 that they count from, or zero.

    Whole numbers are counted from the epoch before they become seconds: no nanosecond is lost.

    Args:
        stamps: Numbers in `unit`, shape (n,).
        unit: One of `UNITS`.
        name: What is being read, for messages.

    Raises:
        RecordingError: A time is missing.
    """
    if len(stamps) == 0:
        return np.empty(0), 0
    parts = _PARTS_OF_A_SECOND[unit]
    if stamps.dtype.kind in "iu":
        first = int(stamps[0]) // parts
        epoch = first if abs(first) > EPOCH else 0
        return (stamps.astype(np.int64) - epoch * parts).astype(np.float64) / parts, epoch
    missing = np.flatnonzero(~np.isfinite(stamps))
    if len(missing):
        raise RecordingError(
            f"{name}: the time of row {missing[0]} is missing ({len(missing)} such rows); drop these rows",
            column="time",
        )
    seconds = np.asarray(stamps, dtype=np.float64) / parts
    epoch = int(seconds[0] // 1.0) if abs(seconds[0]) > EPOCH else 0
    return seconds - epoch, epoch


def clean_clock(time: FloatArray, name: str) -> tuple[BoolArray | None, list[str]]:
    """Gives which rows to keep so that time increases, and what was wrong; None keeps all.

    A row whose time repeats the last one's, or lies before it, is dropped. A clock that jumps back by a second or more,
    or is often out of order, is refused: nobody can know which of its times are right.

    Raises:
        RecordingError: The clock started again, or runs backwards.
    """
    steps = np.diff(time)
    if len(time) == 0 or np.all(steps > 0.0):
        return None, []
    restart = int(np.argmin(steps))
    if steps[restart] <= -_RESTART:
        raise RecordingError(
            f"{name}: the clock jumps back by {-steps[restart]:.3f} s after {time[restart]:.3f} s (row {restart}); cut "
            'the recording there, or, for a bag, read it by the time of receipt (clock = "receive")',
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
    first = int(np.flatnonzero(~keep)[0])
    kinds = [
        text for count, text in ((repeated, f"{repeated} repeated"), (backward, f"{backward} out of order")) if count
    ]
    note = (
        f"{dropped} of {len(time)} rows have times that do not increase ({' and '.join(kinds)}), first after "
        f"{time[first - 1]:.4f} s; they were dropped"
    )
    return keep, [note]
