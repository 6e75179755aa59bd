"""Survey of a recording in one pass: statistics of each column, regularity of the clock, and activity over time."""

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
"""Time bins of each column's minimum and maximum, for plots. Set by judgement: two braille dots for each of 240
characters, wider than any terminal plot."""

SEGMENT_LENGTH = 10.0
"""Length (s) of the segments of the detailed checks. Set by judgement: six of them cover different motions in a
minute."""

_MOST_BLOCKS = 20_000
"""Most blocks in which activity is counted: two days of 10 s. A bound on memory, for absurd times."""

_CLIP = 1e100
"""Bound of readings in sums, whose squares stay finite; far above any reading (`ABSURD`)."""

_LONG_STEP = 1.0
"""Step of the clock (s) that ends a freeze: nothing is known of the readings in between. Set by judgement."""


@dataclass(frozen=True)
class Clock:
    """Regularity of a clock.

    Attributes:
        start: First time, s.
        end: Last time, s.
        rate: Usual rate, Hz.
        jitter: Standard deviation of the steps without gaps, s.
        gaps: Start and length of each gap, s; a gap is longer than `tolerated_silence`.
    """

    start: float
    end: float
    rate: float
    jitter: float
    gaps: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Column:
    """Statistics of a column.

    Attributes:
        count: Number of readings.
        mean: Mean.
        spread: Standard deviation.
        low: Minimum.
        high: Maximum.
        low_time: Time of the minimum, s.
        high_time: Time of the maximum, s.
        silence: Longest time without a reading, s.
        silence_start: Its start, s.
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
    """Longest run of identical readings of a multi-axis sensor: length and start, s."""

    length: float
    start: float


@dataclass(frozen=True, eq=False)
class Survey:
    """Result of one pass over a recording.

    Attributes:
        clock: Regularity of the clock.
        columns: Statistics by column.
        freezes: By group of axes (``left_foot``, ``pelvis.gyro``), the longest freeze.
        block: Length (s) of the blocks of `activity`: `SEGMENT_LENGTH`, or longer for absurd durations.
        activity: Variance of the joint positions in each block, summed over joints, rad², shape (n_blocks,).
        lows: By column, the minimum in each of `BINS` equal bins of time; NaN without a reading.
        highs: The maximum, likewise.
    """

    clock: Clock
    columns: Mapping[str, Column]
    freezes: Mapping[str, Freeze]
    block: float
    activity: FloatArray
    lows: Mapping[str, FloatArray]
    highs: Mapping[str, FloatArray]


def survey_clock(time: FloatArray) -> Clock:
    """Return the regularity of a clock."""
    steps = np.diff(time)
    long = steps > tolerated_silence(time)
    gaps = tuple((float(time[row]), float(steps[row])) for row in np.flatnonzero(long))
    jitter = float(np.std(steps[~long])) if np.any(~long) else 0.0
    return Clock(float(time[0]), float(time[-1]), usual_rate(time), jitter, gaps)


def survey_recording(recording: Recording) -> Survey:
    """Survey a recording in one pass over its chunks."""
    names = recording.columns
    start = float(recording.time[0])
    tallies = _Statistics(len(names), start)
    freezes = {group: _FreezeTally(axes) for group, axes in axis_groups(names).items()}
    joints = [number for number, name in enumerate(names) if name.startswith("q.")]
    length = max(SEGMENT_LENGTH, recording.duration / _MOST_BLOCKS)
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
        # Relative to the first reading: small motions about large angles would cancel.
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
    """Return the columns of each multi-axis sensor: wrenches by sensor, IMUs by sensor and quantity."""
    groups: dict[str, list[str]] = {}
    for name in names:
        parts = parse_column(name)
        if parts is not None and parts.quantity in ("gyro", "accel", "wrench"):
            group = parts.owner if parts.quantity == "wrench" else f"{parts.owner}.{parts.quantity}"
            groups.setdefault(group, []).append(name)
    return {group: tuple(members) for group, members in groups.items()}


class _Statistics:
    """Counts, means, deviations, extremes and dropouts of columns, chunk by chunk."""

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
            # Absurd values, which are reported from the extremes, must not overflow.
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
            values = [np.nan] * 6
            if count:
                shift = self.sum[number] / count
                spread = np.sqrt(max(self.square[number] / count - shift**2, 0.0))
                extremes = (self.low, self.high, self.low_time, self.high_time)
                values = [self.reference[number] + shift, spread, *(each[number] for each in extremes)]
            columns.append(Column(count, *(float(value) for value in (*values, silence, began))))
        return columns


class _FreezeTally:
    """Longest run of identical readings of all axes of a sensor, chunk by chunk."""

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
        # Plates and drivers with a dead band read exact zeros: these are not a freeze.
        changed = np.any(np.diff(table, axis=1, prepend=self.last[:, None]) != 0.0, axis=0) | ~np.any(table, axis=0)
        changed |= np.diff(time, prepend=time[0]) > _LONG_STEP
        starts = np.concatenate([[self.since], time[changed]])
        # A freeze lasts from a change to the last equal reading, the one before the next change.
        before = np.concatenate([[self.since], time[:-1]])
        ends = np.concatenate([before[changed], [time[-1]]])
        longest = int(np.argmax(ends - starts))
        if ends[longest] - starts[longest] > self.longest.length:
            self.longest = Freeze(float(ends[longest] - starts[longest]), float(starts[longest]))
        self.last, self.since = table[:, -1], float(starts[-1])
