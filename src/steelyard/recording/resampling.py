"""From one clock to another: straight lines between readings, and nothing where there are none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.columns import LazyColumns, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.model.parameters import FloatArray

GAP_PERIODS = 2.5
"""A silence longer than this many usual periods of a sensor is a gap: nothing is put between its ends."""

_SAME_INSTANT = 1e-6
_MARGINS = (64, 512, 4096)

IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Stream:
    """What one sensor or one topic says, on its own clock.

    Attributes:
        name: Where it comes from, such as its topic.
        time: Increasing seconds, shape (n,).
        columns: Columns by name, each of shape (n,), in memory or not.
    """

    name: str
    time: FloatArray
    columns: Mapping[str, FloatArray]

    @cached_property
    def period(self) -> float:
        """Usual seconds from one reading to the next."""
        return usual_period(self.time)


def usual_period(time: FloatArray) -> float:
    """Gives the median step of a clock; infinite for fewer than two readings."""
    return float(np.median(np.diff(time))) if len(time) > 1 else np.inf


class ResampledColumns(LazyColumns):
    """Streams on one clock.

    A stream all of whose times are times of that clock, or lie outside of it, keeps its readings as they are, with
    nothing between them. Any other is joined by straight lines (orientations along the shorter way round), except over
    gaps.
    """

    def __init__(self, time: FloatArray, streams: Sequence[Stream]) -> None:
        super().__init__([name for stream in streams for name in stream.columns], len(time))
        self._time = time
        self._streams = tuple(streams)
        self._stream_of = {name: number for number, stream in enumerate(streams) for name in stream.columns}
        self._rows = [None if stream.time is time else _matching_rows(time, stream.time) for stream in streams]

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        result: dict[str, FloatArray] = {}
        for number, (stream, rows) in enumerate(zip(self._streams, self._rows, strict=True)):
            wanted = [name for name in names if self._stream_of[name] == number]
            if wanted and stream.time is self._time:
                result |= read_rows(stream.columns, wanted, start, stop)
            elif wanted and rows is not None:
                result |= _placed(rows, stream, wanted, start, stop)
            elif wanted:
                result |= _interpolated(self._time[start:stop], stream, wanted)
        return {name: result[name] for name in names}


def _placed(rows: IntArray, stream: Stream, names: list[str], start: int, stop: int) -> dict[str, FloatArray]:
    """Gives the readings of a stream at their own rows, and nothing in the others."""
    low, high = (int(place) for place in np.searchsorted(rows, [start, stop]))
    part = read_rows(stream.columns, names, low, high)
    if high - low == stop - start:
        return part
    result = {name: np.full(stop - start, np.nan) for name in names}
    for name, values in part.items():
        result[name][rows[low:high] - start] = values
    return result


def _interpolated(at: FloatArray, stream: Stream, names: list[str]) -> dict[str, FloatArray]:
    groups = {name: _quaternion_of(name, stream.columns) for name in names}
    wanted = dict.fromkeys(member for name in names for member in groups[name] or (name,))
    known, values = _read_around(stream, tuple(wanted), at)
    result: dict[str, FloatArray] = {}
    for name in names:
        group = groups[name]
        if group is None:
            result[name] = interpolate(at, known, values[name], stream.period)
        elif name not in result:
            turned = interpolate_quaternions(at, known, [values[member] for member in group], stream.period)
            result |= dict(zip(group, turned, strict=True))
    return {name: result[name] for name in names}


def interpolate(at: FloatArray, time: FloatArray, values: FloatArray, period: float) -> FloatArray:
    """Gives values at other times by straight lines between neighbouring readings, shape (len(at),).

    Not a number outside of the readings and in gaps: where the next reading is more than `GAP_PERIODS` usual periods
    after the last. A slower sensor's readings may have rows without one between them; their own usual period counts
    then.

    Args:
        at: Increasing times, s.
        time: Times of the readings, s.
        values: The readings; what is not finite is none.
        period: Usual seconds from one row to the next.
    """
    there = np.isfinite(values)
    if not there.all():
        time, values = time[there], values[there]
        period = max(period, usual_period(time)) if len(time) > 2 else period
    if len(time) == 0:
        return np.full(len(at), np.nan)
    result = np.interp(at, time, values, left=np.nan, right=np.nan)
    after = np.clip(np.searchsorted(time, at), 1, max(len(time) - 1, 1))
    if len(time) > 1:
        on_a_reading = (at == time[after]) | (at == time[after - 1])
        result[(time[after] - time[after - 1] > GAP_PERIODS * period) & ~on_a_reading] = np.nan
    return result


def interpolate_quaternions(
    at: FloatArray, time: FloatArray, components: Sequence[FloatArray], period: float
) -> list[FloatArray]:
    """Gives orientations at other times, four arrays of shape (len(at),); a quaternion and its opposite are one."""
    quaternions = np.stack(components, axis=1)
    there = np.flatnonzero(np.isfinite(quaternions).all(axis=1))
    known, quaternions = time[there], quaternions[there]
    if len(known) > 2:
        period = max(period, usual_period(known))
    if len(known) < 2:
        return [interpolate(at, known, column, period) for column in quaternions.T]
    before = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(known) - 2)
    first, second = quaternions[before], quaternions[before + 1]
    # The result has the sign of the reading before it: which rows are read together does not matter then.
    opposite = (np.einsum("ni,ni->n", first, second) < 0.0) & (at != known[before + 1])
    share = ((at - known[before]) / (known[before + 1] - known[before]))[:, None]
    turned = (1.0 - share) * first + share * np.where(opposite[:, None], -second, second)
    lengths = np.linalg.norm(turned, axis=1)
    usable = np.isfinite(interpolate(at, known, known, period)) & (lengths > 0.0)
    return list(np.where(usable[:, None], turned / np.where(usable, lengths, 1.0)[:, None], np.nan).T)


def _quaternion_of(name: str, columns: Mapping[str, FloatArray]) -> tuple[str, ...] | None:
    """Gives the four columns of the quaternion that a column belongs to, if it belongs to one."""
    stem, _, axis = name.rpartition(".")
    group = tuple(f"{stem}.{each}" for each in "xyzw")
    return group if axis in "xyzw" and axis and all(member in columns for member in group) else None


def _read_around(stream: Stream, names: Sequence[str], at: FloatArray) -> tuple[FloatArray, Mapping[str, FloatArray]]:
    """Gives the rows of a stream that some times need, and more around them where a column is slower than the rows."""
    values: Mapping[str, FloatArray] = {}
    low = high = 0
    first, last = (int(row) for row in np.searchsorted(stream.time, [at[0], at[-1]])) if len(at) else (0, 0)
    for margin in _MARGINS:
        low, high = max(0, first - margin), min(len(stream.time), last + margin)
        values = read_rows(stream.columns, names, low, high)
        before = low == 0 or _all_known(values, slice(0, first - low))
        if before and (high == len(stream.time) or _all_known(values, slice(last - low, None))):
            break
    return stream.time[low:high], values


def _all_known(values: Mapping[str, FloatArray], rows: slice) -> bool:
    """Says whether each column has a reading in some rows."""
    return all(np.isfinite(column[rows]).any() for column in values.values())


def _matching_rows(time: FloatArray, stamps: FloatArray) -> IntArray | None:
    """Gives the row of each time of a stream, or None where one is not on the clock.

    Times before the clock's first have the row −1, those after its last the number of rows: they have no place.
    """
    if len(stamps) == 0:
        return np.empty(0, dtype=np.int64)
    if stamps[0] < time[0] - _SAME_INSTANT or stamps[-1] > time[-1] + _SAME_INSTANT:
        first, last = np.searchsorted(stamps, [time[0] - _SAME_INSTANT, time[-1] + _SAME_INSTANT])
        inside = _matching_rows(time, stamps[first:last])
        return None if inside is None else np.pad(inside, (first, len(stamps) - last), constant_values=(-1, len(time)))
    after = np.clip(np.searchsorted(time, stamps), 0, len(time) - 1)
    before = np.maximum(after - 1, 0)
    rows = np.where(np.abs(time[before] - stamps) < np.abs(time[after] - stamps), before, after)
    if np.max(np.abs(time[rows] - stamps)) > _SAME_INSTANT or (len(rows) > 1 and np.any(np.diff(rows) <= 0)):
        return None
    return rows
