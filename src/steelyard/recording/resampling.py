"""Resampling from one clock to another: linear interpolation between readings, and none across gaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.columns import LazyColumns, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray

GAP_PERIODS = 2.5
"""Usual periods of a sensor from which a step between readings is a gap, which is not interpolated.

Set by judgement: one lost reading makes a step of two periods, and half a period is left for jitter.
"""

_USUAL_SHARE = 0.95
"""Quantile of the steps that is usual where readings come in bursts.

Set by judgement: real gaps are rarer than 1 in 20.
"""

_SAME_INSTANT = 1e-6
"""Seconds within which two times are the same.

Set by judgement: above the rounding of printed times, below any period.
"""

_MARGIN = 64
"""Rows read beyond either end first. Set by judgement: more than a gap has; wider reads follow where it is too few."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The readings of one sensor or one topic, on its own clock.

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
        """The longest step (s) between two rows that is no gap."""
        return tolerated_silence(self.time)


def usual_period(time: FloatArray) -> float:
    """Return the median step of a clock; infinite for fewer than two readings."""
    return float(np.median(np.diff(time))) if len(time) > 1 else np.inf


def tolerated_silence(time: FloatArray) -> float:
    """Return the longest step (s) that is no gap; infinite for fewer than two readings.

    Readings that come in bursts have a tiny median step: the 95 % quantile is then the usual one.
    """
    if len(time) < 2:
        return np.inf
    steps = np.diff(time)
    # An actual step, not one interpolated between a usual step and a gap.
    return GAP_PERIODS * max(float(np.median(steps)), float(np.quantile(steps, _USUAL_SHARE, method="lower")))


def usual_rate(time: FloatArray) -> float:
    """Return the usual sample rate of a clock, gaps apart, in Hz; zero for fewer than two readings."""
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
    nothing between them. Any other is interpolated linearly (orientations along the shorter arc), except across gaps.
    """

    def __init__(self, time: FloatArray, streams: Sequence[Stream]) -> None:
        super().__init__([name for stream in streams for name in stream.columns], len(time))
        self._time = time
        self._streams = tuple(streams)
        self._stream_of = {name: number for number, stream in enumerate(streams) for name in stream.columns}
        self._rows = [None if stream.time is time else _matching_rows(time, stream.time) for stream in streams]
        self._silences: dict[tuple[str, ...], float] = {}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
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
        """Interpolate some columns of a stream; the result does not depend on which times are read together."""
        groups = dict.fromkeys(_quaternion_of(name, stream.columns) or (name,) for name in names)
        wanted = tuple(dict.fromkeys(member for group in groups for member in group))
        known, values = _read_around(stream, wanted, at, _MARGIN)
        result: dict[str, FloatArray] = {}
        for group in groups:
            time, readings = known, [values[member] for member in group]
            silence = stream.silence
            if _falls_silent(at, stream, time, readings):
                # Slower than the rows, or a gap: that depends on the whole column.
                silence = self._silence_of(stream, group)
                time, wider = _read_within(stream, group, at, silence)
                readings = [wider[member] for member in group]
            if len(group) == 1:
                result[group[0]] = interpolate(at, time, readings[0], silence)
            else:
                result |= dict(zip(group, interpolate_quaternions(at, time, readings, silence), strict=True))
        return result

    def _silence_of(self, stream: Stream, group: tuple[str, ...]) -> float:
        """Return the longest step of some columns that is no gap, by all their readings; computed once."""
        if group not in self._silences:
            there = np.ones(len(stream.time), dtype=np.bool_)
            for name in group:
                there &= np.isfinite(read_rows(stream.columns, (name,), 0, len(stream.time))[name])
            known = stream.time[there]
            self._silences[group] = max(stream.silence, tolerated_silence(known)) if len(known) > 2 else stream.silence
        return self._silences[group]


def _placed(rows: IntArray, stream: Stream, names: list[str], start: int, stop: int) -> dict[str, FloatArray]:
    """Return the readings of a stream at their own rows, not a number in the others."""
    low, high = (int(row) for row in np.searchsorted(rows, [start, stop]))
    part = read_rows(stream.columns, names, low, high)
    if high - low == stop - start:
        return part
    result = {name: np.full(stop - start, np.nan) for name in names}
    for name, values in part.items():
        result[name][rows[low:high] - start] = values
    return result


def interpolate(at: FloatArray, time: FloatArray, values: FloatArray, silence: float) -> FloatArray:
    """Interpolate values linearly between neighbouring readings, shape (len(at),).

    Not a number outside of the readings and in gaps.

    Args:
        at: Increasing times, s.
        time: Times of the readings, s.
        values: The readings; those that are not finite are missing.
        silence: The longest step (s) between two readings that is no gap.
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
    """Interpolate orientations, four arrays of shape (len(at),); a quaternion and its negative are the same."""
    quaternions = np.stack(components, axis=1)
    there = np.flatnonzero(np.isfinite(quaternions).all(axis=1))
    known, quaternions = time[there], quaternions[there]
    if len(known) < 2:
        return [interpolate(at, known, column, silence) for column in quaternions.T]
    before = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(known) - 2)
    first, second = quaternions[before], quaternions[before + 1]
    # The result has the sign of the reading before it, so that it does not depend on which rows are read together.
    opposite = (np.einsum("ni,ni->n", first, second) < 0.0) & (at != known[before + 1])
    share = ((at - known[before]) / (known[before + 1] - known[before]))[:, None]
    turned = (1.0 - share) * first + share * np.where(opposite[:, None], -second, second)
    lengths = np.linalg.norm(turned, axis=1)
    usable = np.isfinite(interpolate(at, known, known, silence)) & (lengths > 0.0)
    return list(np.where(usable[:, None], turned / np.where(usable, lengths, 1.0)[:, None], np.nan).T)


def _quaternion_of(name: str, columns: Mapping[str, FloatArray]) -> tuple[str, ...] | None:
    """Return the four columns of the quaternion that a column belongs to, if it belongs to one."""
    stem, _, axis = name.rpartition(".")
    group = tuple(f"{stem}.{each}" for each in "xyzw")
    return group if axis in "xyzw" and axis and all(member in columns for member in group) else None


def _read_around(
    stream: Stream, names: Sequence[str], at: FloatArray, margin: int
) -> tuple[FloatArray, Mapping[str, FloatArray]]:
    """Read the rows of a stream around some times, and `margin` more on either side."""
    first, last = (int(row) for row in np.searchsorted(stream.time, [at[0], at[-1]])) if len(at) else (0, 0)
    low, high = max(0, first - margin), min(len(stream.time), last + margin)
    return stream.time[low:high], read_rows(stream.columns, names, low, high)


def _read_within(
    stream: Stream, names: Sequence[str], at: FloatArray, silence: float
) -> tuple[FloatArray, Mapping[str, FloatArray]]:
    """Read the rows of a stream that can affect some times: all within `silence` of them."""
    low, high = (int(row) for row in np.searchsorted(stream.time, [at[0] - silence, at[-1] + silence]))
    low, high = max(0, low - 1), min(len(stream.time), high + 1)
    return stream.time[low:high], read_rows(stream.columns, names, low, high)


def _falls_silent(at: FloatArray, stream: Stream, time: FloatArray, readings: Sequence[FloatArray]) -> bool:
    """Return whether some times lie in, or next to, a step between readings that may be a gap."""
    there = np.logical_and.reduce([np.isfinite(column) for column in readings])
    known = time if there.all() else time[there]
    if len(at) == 0 or len(known) == 0:
        return len(at) > 0 and len(stream.time) > 0
    begins = known[0] <= at[0] or known[0] == stream.time[0]
    ends = known[-1] >= at[-1] or known[-1] == stream.time[-1]
    return not (begins and ends) or bool(np.any(np.diff(known) > stream.silence))


def _matching_rows(time: FloatArray, stamps: FloatArray) -> IntArray | None:
    """Return the row of each time of a stream, or None if one is not on the clock.

    Times before the clock's first have the row −1, those after its last the number of rows: they match no row.
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
