"""One pass over a recording of any length: what each column holds, how even the clock is, and where the robot moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording import parse_column, tolerated_silence, usual_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

BINS = 480
"""Bins of time over which the course of each column is kept, for plots."""

STRETCH = 10.0
"""Seconds of the stretches that are looked at closely."""

_MOST_BLOCKS = 20_000
_CLIP = 1e100
_LONG_STEP = 1.0


@dataclass(frozen=True)
class Clock:
    """How even a clock is.

    Attributes:
        start: First time, s.
        end: Last time, s.
        rate: Usual rows a second.
        jitter: Standard deviation of the steps between gaps, s.
        gaps: Beginning and length of each gap, s; a gap is longer than `tolerated_silence`.
    """

    start: float
    end: float
    rate: float
    jitter: float
    gaps: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        count: Number of readings.
        mean: Their mean.
        spread: Their standard deviation.
        low: The least.
        high: The greatest.
        low_time: When the least was, s.
        high_time: When the greatest was, s.
        silence: Longest time without a reading, s.
        silence_start: When it began, s.
    """

    count: int
    mean: float
    spread: float
    low: float
    high: float
    low_time: float
    high_time: float
    silence: float
    silence_start: float


@dataclass(frozen=True)
class Freeze:
    """How long a sensor of several axes gave the very same readings: seconds, and when that began."""

    length: float
    start: float


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a recording finds.

    Attributes:
        clock: The clock.
        columns: By name.
        freezes: By group of axes (``left_foot``, ``pelvis.gyro``), the longest freeze.
        block: Seconds of each block over which activity is counted: `STRETCH`, or longer where time is absurdly long.
        activity: How much the joints move in each block, rad², shape (n_blocks,).
        lows: By column, the least reading in each of `BINS` equal bins of time; not a number where there is none.
        highs: The greatest, likewise.
    """

    clock: Clock
    columns: Mapping[str, Column]
    freezes: Mapping[str, Freeze]
    block: float
    activity: FloatArray
    lows: Mapping[str, FloatArray]
    highs: Mapping[str, FloatArray]


def survey_clock(time: FloatArray) -> Clock:
    """Gives how even a clock is."""
    steps = np.diff(time)
    long = steps > tolerated_silence(time)
    gaps = tuple((float(time[row]), float(steps[row])) for row in np.flatnonzero(long))
    jitter = float(np.std(steps[~long])) if np.any(~long) else 0.0
    return Clock(float(time[0]), float(time[-1]), usual_rate(time), jitter, gaps)


def survey_recording(recording: Recording) -> Survey:
    """Gives what a recording holds, in one pass over its chunks."""
    names = recording.columns
    start = float(recording.time[0])
    tallies = _Tallies(len(names), start)
    freezes = {group: _FreezeTally(axes) for group, axes in axis_groups(names).items()}
    joints = [number for number, name in enumerate(names) if name.startswith("q.")]
    length = max(STRETCH, recording.duration / _MOST_BLOCKS)
    blocks = int(recording.duration // length) + 1
    sums, squares, counts = (np.zeros((blocks, len(joints))) for _ in range(3))
    lows, highs = np.full((BINS, len(names)), np.nan), np.full((BINS, len(names)), np.nan)
    per_second = BINS / max(recording.duration, 1e-9)
    for chunk in recording.chunks():
        table = np.stack([chunk.values[name] for name in names]) if names else np.empty((0, len(chunk)))
        table[~np.isfinite(table)] = np.nan
        tallies.add(chunk.time, table)
        for tally in freezes.values():
            tally.add(chunk.time, chunk.values)
        bins = np.minimum(((chunk.time - start) * per_second).astype(np.int64), BINS - 1)
        edges = np.flatnonzero(np.diff(bins, prepend=-1))
        for kept, extreme in ((lows, np.fmin), (highs, np.fmax)):
            kept[bins[edges]] = extreme(kept[bins[edges]], extreme.reduceat(table, edges, axis=1).T)
        block = ((chunk.time - start) // length).astype(np.int64)
        moving = table[joints]
        there = np.isfinite(moving)
        # About the first reading: squares of small motions on large angles would be lost.
        shifted = np.where(there, np.clip(moving, -_CLIP, _CLIP) - tallies.reference[joints, None], 0.0)
        edges = np.flatnonzero(np.diff(block, prepend=-1))
        for total, values in ((sums, shifted), (squares, shifted**2), (counts, there.astype(np.float64))):
            np.add.at(total, block[edges], np.add.reduceat(values, edges, axis=1).T)
    safe = np.maximum(counts, 1.0)
    activity = np.sum(np.maximum(squares / safe - (sums / safe) ** 2, 0.0), axis=1)
    return Survey(
        survey_clock(recording.time),
        dict(zip(names, tallies.finish(float(recording.time[-1])), strict=True)),
        {group: tally.longest for group, tally in freezes.items()},
        length,
        activity,
        {name: lows[:, number] for number, name in enumerate(names)},
        {name: highs[:, number] for number, name in enumerate(names)},
    )


def axis_groups(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Gives the columns of each sensor that has several axes: wrenches by sensor, inertial ones by sensor and kind."""
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = parse_column(name)
        if parts is not None and parts.quantity in ("gyro", "accel", "wrench"):
            group = parts.owner if parts.quantity == "wrench" else f"{parts.owner}.{parts.quantity}"
            groups.setdefault(group, []).append(name)
    return {group: tuple(members) for group, members in groups.items()}


class _Tallies:
    """Counts, means, spreads, extremes and silences of columns, chunk by chunk."""

    def __init__(self, count: int, start: float) -> None:
        self.reference = np.full(count, np.nan)
        self.count = np.zeros(count)
        self.sum = np.zeros(count)
        self.square = np.zeros(count)
        self.low, self.high = np.full(count, np.inf), np.full(count, -np.inf)
        self.low_time, self.high_time = np.full(count, np.nan), np.full(count, np.nan)
        self.last = np.full(count, start)
        self.silence, self.silence_start = np.zeros(count), np.full(count, start)

    def add(self, time: FloatArray, table: FloatArray) -> None:
        there = np.isfinite(table)
        for number, mask in enumerate(there):
            if mask.all():
                values, times = table[number], time
            else:
                values, times = table[number][mask], time[mask]
            if len(values) == 0:
                continue
            if np.isnan(self.reference[number]):
                self.reference[number] = np.clip(values[0], -_CLIP, _CLIP)
            self._add_silence(number, times)
            # Absurd numbers, which are told of by their extremes, must not overflow.
            shifted = np.clip(values, -_CLIP, _CLIP) - self.reference[number]
            self.count[number] += len(values)
            self.sum[number] += shifted.sum()
            self.square[number] += shifted @ shifted
            for better, extreme, when, place in (
                (np.less, self.low, self.low_time, int(np.argmin(values))),
                (np.greater, self.high, self.high_time, int(np.argmax(values))),
            ):
                if better(values[place], extreme[number]):
                    extreme[number], when[number] = values[place], times[place]

    def _add_silence(self, number: int, times: FloatArray) -> None:
        steps = np.diff(times, prepend=self.last[number])
        longest = int(np.argmax(steps))
        if steps[longest] > self.silence[number]:
            self.silence[number] = steps[longest]
            self.silence_start[number] = times[longest] - steps[longest]
        self.last[number] = times[-1]

    def finish(self, end: float) -> list[Column]:
        columns = []
        for number in range(len(self.count)):
            count = int(self.count[number])
            rest = end - self.last[number]
            silence, began = self.silence[number], self.silence_start[number]
            if rest > silence:
                silence, began = rest, self.last[number]
            if count == 0:
                columns.append(Column(0, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, float(silence), float(began)))
                continue
            shift = self.sum[number] / count
            columns.append(
                Column(
                    count,
                    float(self.reference[number] + shift),
                    float(np.sqrt(max(self.square[number] / count - shift**2, 0.0))),
                    float(self.low[number]),
                    float(self.high[number]),
                    float(self.low_time[number]),
                    float(self.high_time[number]),
                    float(silence),
                    float(began),
                )
            )
        return columns


class _FreezeTally:
    """The longest time over which all axes of a sensor gave the very same readings, chunk by chunk."""

    def __init__(self, axes: tuple[str, ...]) -> None:
        self.axes = axes
        self.last: FloatArray | None = None
        self.since = np.nan
        self.longest = Freeze(0.0, np.nan)

    def add(self, time: FloatArray, values: Mapping[str, FloatArray]) -> None:
        table = np.stack([values[axis] for axis in self.axes])
        there = np.isfinite(table).all(axis=0)
        table, time = table[:, there], time[there]
        if table.shape[1] == 0:
            return
        if self.last is None:
            self.last, self.since = table[:, 0], time[0]
        # Plates and drivers that cut small forces off read exact zeros: these are no freeze.
        changed = np.any(np.diff(table, axis=1, prepend=self.last[:, None]) != 0.0, axis=0) | ~np.any(table, axis=0)
        changed |= np.diff(time, prepend=time[0]) > _LONG_STEP
        starts = np.concatenate([[self.since], time[changed]])
        # A freeze lasts from a change to the last equal reading, which is the one before the next change.
        before = np.concatenate([[self.since], time[:-1]])
        ends = np.concatenate([before[changed], [time[-1]]])
        longest = int(np.argmax(ends - starts))
        if ends[longest] - starts[longest] > self.longest.length:
            self.longest = Freeze(float(ends[longest] - starts[longest]), float(starts[longest]))
        self.last, self.since = table[:, -1], float(starts[-1])
