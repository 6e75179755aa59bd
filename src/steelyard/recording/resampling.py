"""From one clock to another: straight lines between readings, and nothing where there are none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.columns import LazyColumns, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray

GAP_PERIODS = 2.5
"""A silence longer than this many usual periods of a sensor is a gap: nothing is put between its ends."""

_USUAL_SHARE = 0.95
_SAME_INSTANT = 1e-6
_MARGIN = 64

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
    def silence(self) -> float:
        """The longest silence (s) between two rows that is no gap."""
        return tolerated_silence(self.time)


def usual_period(time: FloatArray) -> float:
    """Gives the median step of a clock; infinite for fewer than two readings."""
    return float(np.median(np.diff(time))) if len(time) > 1 else np.inf


def tolerated_silence(time: FloatArray) -> float:
    """Gives the longest silence (s) that is no gap; infinite for fewer than two readings.

    Readings that come in bursts have a tiny median step: what 95 of 100 steps stay below is then the usual silence.
    """
    if len(time) < 2:
        return np.inf
    steps = np.diff(time)
    # A step that was really taken, not one between a usual step and a gap.
    return GAP_PERIODS * max(float(np.median(steps)), float(np.quantile(steps, _USUAL_SHARE, method="lower")))


def usual_rate(time: FloatArray) -> float:
    """Gives how many readings a second there usually are; zero for fewer than two."""
    if len(time) < 2:
        return 0.0
    steps = np.diff(time)
    between_gaps = steps[steps <= tolerated_silence(time)]
    mean = float(between_gaps.mean())
    median = float(np.median(steps))
    # Readings that come in bursts have a tiny median step.
    return 1.0 / (median if median > 0.5 * mean else mean)


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
        self._silences: dict[tuple[str, ...], float] = {}

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
                result |= self._interpolated(self._time[start:stop], stream, wanted)
        return {name: result[name] for name in names}

    def _interpolated(self, at: FloatArray, stream: Stream, names: list[str]) -> dict[str, FloatArray]:
        """Gives some columns of a stream at other times; which times are asked for together does not matter."""
        groups = dict.fromkeys(_quaternion_of(name, stream.columns) or (name,) for name in names)
        wanted = tuple(dict.fromkeys(member for group in groups for member in group))
        known, values = _read_around(stream, wanted, at, _MARGIN)
        result: dict[str, FloatArray] = {}
        for group in groups:
            time, readings = known, [values[member] for member in group]
            silence = stream.silence
            if _falls_silent(at, stream, time, readings):
                # Slower than the rows, or a gap: only the whole column can tell.
                silence = self._silence_of(stream, group)
                time, wider = _read_within(stream, group, at, silence)
                readings = [wider[member] for member in group]
            if len(group) == 1:
                result[group[0]] = interpolate(at, time, readings[0], silence)
            else:
                result |= dict(zip(group, interpolate_quaternions(at, time, readings, silence), strict=True))
        return result

    def _silence_of(self, stream: Stream, group: tuple[str, ...]) -> float:
        """Gives the longest silence of some columns that is no gap, by all their readings; looked at once."""
        if group not in self._silences:
            there = np.ones(len(stream.time), dtype=np.bool_)
            for name in group:
                there &= np.isfinite(read_rows(stream.columns, (name,), 0, len(stream.time))[name])
            known = stream.time[there]
            self._silences[group] = max(stream.silence, tolerated_silence(known)) if len(known) > 2 else stream.silence
        return self._silences[group]


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


def interpolate(at: FloatArray, time: FloatArray, values: FloatArray, silence: float) -> FloatArray:
    """Gives values at other times by straight lines between neighbouring readings, shape (len(at),).

    Not a number outside of the readings and in gaps.

    Args:
        at: Increasing times, s.
        time: Times of the readings, s.
        values: The readings; what is not finite is none.
        silence: The longest silence (s) between two readings that is no gap.
    """
    there = np.isfinite(values)
    if not there.all():
        time, values = time[there], values[there]
    if len(time) == 0:
        return np.full(len(at), np.nan)
    result = np.interp(at, time, values, left=np.nan, right=np.nan)
    after = np.clip(np.searchsorted(time, at), 1, max(len(time) - 1, 1))
    if len(time) > 1:
        on_a_reading = (at == time[after]) | (at == time[after - 1])
        result[(time[after] - time[after - 1] > silence) & ~on_a_reading] = np.nan
    return result


def interpolate_quaternions(
    at: FloatArray, time: FloatArray, components: Sequence[FloatArray], silence: float
) -> list[FloatArray]:
    """Gives orientations at other times, four arrays of shape (len(at),); a quaternion and its opposite are one."""
    quaternions = np.stack(components, axis=1)
    there = np.flatnonzero(np.isfinite(quaternions).all(axis=1))
    known, quaternions = time[there], quaternions[there]
    if len(known) < 2:
        return [interpolate(at, known, column, silence) for column in quaternions.T]
    before = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(known) - 2)
    first, second = quaternions[before], quaternions[before + 1]
    # The result has the sign of the reading before it: which rows are read together does not matter then.
    opposite = (np.einsum("ni,ni->n", first, second) < 0.0) & (at != known[before + 1])
    share = ((at - known[before]) / (known[before + 1] - known[before]))[:, None]
    turned = (1.0 - share) * first + share * np.where(opposite[:, None], -second, second)
    lengths = np.linalg.norm(turned, axis=1)
    usable = np.isfinite(interpolate(at, known, known, silence)) & (lengths > 0.0)
    return list(np.where(usable[:, None], turned / np.where(usable, lengths, 1.0)[:, None], np.nan).T)


def _quaternion_of(name: str, columns: Mapping[str, FloatArray]) -> tuple[str, ...] | None:
    """Gives the four columns of the quaternion that a column belongs to, if it belongs to one."""
    stem, _, axis = name.rpartition(".")
    group = tuple(f"{stem}.{each}" for each in "xyzw")
    return group if axis in "xyzw" and axis and all(member in columns for member in group) else None


def _read_around(
    stream: Stream, names: Sequence[str], at: FloatArray, margin: int
) -> tuple[FloatArray, Mapping[str, FloatArray]]:
    """Gives the rows of a stream around some times, and so many more on either side."""
    first, last = (int(row) for row in np.searchsorted(stream.time, [at[0], at[-1]])) if len(at) else (0, 0)
    low, high = max(0, first - margin), min(len(stream.time), last + margin)
    return stream.time[low:high], read_rows(stream.columns, names, low, high)


def _read_within(
    stream: Stream, names: Sequence[str], at: FloatArray, silence: float
) -> tuple[FloatArray, Mapping[str, FloatArray]]:
    """Gives the rows of a stream that can matter to some times: all that are no farther away than a silence."""
    low, high = (int(row) for row in np.searchsorted(stream.time, [at[0] - silence, at[-1] + silence]))
    low, high = max(0, low - 1), min(len(stream.time), high + 1)
    return stream.time[low:high], read_rows(stream.columns, names, low, high)


def _falls_silent(at: FloatArray, stream: Stream, time: FloatArray, readings: Sequence[FloatArray]) -> bool:
    """Tells whether some times lie in, or next to, a silence of a column that may be a gap."""
    there = np.logical_and.reduce([np.isfinite(column) for column in readings])
    known = time if there.all() else time[there]
    if len(at) == 0 or len(known) == 0:
        return len(at) > 0 and len(stream.time) > 0
    begins = known[0] <= at[0] or known[0] == stream.time[0]
    ends = known[-1] >= at[-1] or known[-1] == stream.time[-1]
    return not (begins and ends) or bool(np.any(np.diff(known) > stream.silence))


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
