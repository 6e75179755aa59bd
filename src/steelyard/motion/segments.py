"""Segments of a recording that are evenly sampled and free of gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.motion.readings import survey_readings
from steelyard.recording import tolerated_silence, usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.motion.readings import Readings
    from steelyard.recording import Recording


LONGEST_GAP = 0.05
"""Longest dropout (s) that is interpolated linearly, unless a slower sensor's own period is longer. At the 3 Hz that
noisy recordings get, it equals `BRIDGED_SHARE` (docs/motion.md)."""

BRIDGED_SHARE = 0.15
"""Longest dropout that is interpolated, in periods of the cutoff: filtered signals are nearly straight over it. The
error grows with the third power of its length; here it is below 1 % of the accelerations, and 2 % at the worst instant
of the worst joint (docs/motion.md)."""

_UNEVEN = 0.01
"""Deviation of a time step from the median, relative, below which a clock is even. Set by judgement: one percent of a
step is far below any filter's resolution."""

_SAME_RATE = 1e-3
"""Relative difference of sample rates that count as equal. Set by judgement: 0.1 % of a derivative."""

_OWN_PERIOD = 1.5
"""Interval between readings, in usual periods, above which a reading was lost: halfway between none and one lost."""


@dataclass(frozen=True, eq=False)
class Dropouts:
    """Tolerated dropouts of columns, and a record of those that were interpolated.

    Attributes:
        bridged: Longest dropout (s) that is interpolated in any column, and in the clock.
        readings: Sampling by column; a slower sensor's own period is not a gap.
        seconds: By column, the total time (s) interpolated beyond the sensor's own period; "time" is the clock.
        longest: By column, the longest of these dropouts, s.
    """

    bridged: float
    readings: Mapping[str, Readings]
    seconds: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    def tolerated(self, name: str) -> float:
        """Return the longest interval (s) between readings of a column that is not a gap."""
        return max(self.bridged, self.readings[name].silence) if name in self.readings else self.bridged

    def most(self, columns: Iterable[str]) -> float:
        """Return the longest interval (s) tolerated in any of the columns."""
        return max((self.tolerated(name) for name in columns), default=self.bridged)

    def record(self, name: str, steps: FloatArray, period: float) -> None:
        """Record interpolated intervals (s) of a column with a usual `period` (s)."""
        lost = steps[steps > _OWN_PERIOD * period]
        if len(lost):
            self.seconds[name] = self.seconds.get(name, 0.0) + float(np.sum(lost - period))
            self.longest[name] = max(self.longest.get(name, 0.0), float(lost.max()))


def longest_bridged_gap(cutoff: float) -> float:
    """Return the longest dropout (s) that is interpolated at a filter cutoff (Hz)."""
    return min(LONGEST_GAP, BRIDGED_SHARE / cutoff)


def sample_rate(recording: Recording) -> float:
    """Return the sample rate (Hz) of an evenly sampled segment.

    Raises:
        MotionError: There are fewer than two rows.
    """
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    return (len(recording) - 1) / recording.duration


def even_segments(recording: Recording, dropouts: Dropouts | None = None) -> Iterator[Recording]:
    """Yield the segments without clock gaps, resampled to one even rate; values are not read yet.

    Args:
        recording: The recording.
        dropouts: Tolerated dropouts, where interpolated ones are recorded; by default `LONGEST_GAP`.
    """
    usual = tolerated_silence(recording.time)
    rate = usual_rate(recording.time)
    # A slow clock's own period is not a gap.
    longest = max(LONGEST_GAP if dropouts is None else dropouts.bridged, usual) + 0.5 / max(rate, 1e-9)
    cuts = np.flatnonzero(np.diff(recording.time) > longest) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(recording)], strict=True):
        if stop - start < 2:
            continue
        segment = recording.rows(int(start), int(stop))
        if _is_even(segment, rate):
            yield segment
            continue
        if dropouts is not None:
            # Longer dropouts show in the columns. Rows that arrive late or in bursts are not missing.
            steps = np.diff(segment.time)
            if segment.duration - len(steps) / rate > _OWN_PERIOD / rate:
                dropouts.record("time", steps[steps <= usual], 1.0 / rate)
        yield segment.resampled(rate)


def _is_even(recording: Recording, rate: float) -> bool:
    steps = np.diff(recording.time)
    even = np.all(np.abs(steps / np.median(steps) - 1.0) <= _UNEVEN)
    return bool(even) and abs(sample_rate(recording) / rate - 1.0) <= _SAME_RATE


def context_rows(recording: Recording, silence: float = LONGEST_GAP) -> int:
    """Return the number of neighbouring rows needed to decide whether a row lies in a gap."""
    return int(np.ceil(silence * sample_rate(recording))) + 2


def find_runs(
    recording: Recording, columns: Sequence[str], rows: int, dropouts: Dropouts | None = None
) -> list[tuple[int, int]]:
    """Return the runs of rows, as (start, stop), in which no column has a gap.

    In such a row each column has a reading, or lies between two that are no further apart than the tolerated dropout
    and half a row.

    Args:
        recording: An evenly sampled segment, in memory or not.
        columns: Names of the required columns.
        rows: Number of rows in memory at once.
        dropouts: Tolerated dropouts, where interpolated ones are recorded; by default `LONGEST_GAP`, or the column's
            usual period.
    """
    allowed = dropouts if dropouts is not None else Dropouts(LONGEST_GAP, survey_readings(recording, columns))
    valid = np.empty(len(recording) + 2, dtype=np.bool_)
    valid[[0, -1]] = False
    around = context_rows(recording, allowed.most(columns))
    period = 1.0 / sample_rate(recording)
    chosen = recording.select(columns)
    for start in range(0, len(recording), rows):
        stop = min(len(recording), start + rows)
        first = max(0, start - around)
        window = chosen.rows(first, min(len(recording), stop + around)).loaded()
        part = slice(start - first, stop - first)
        valid[1 + start : 1 + stop] = _find_valid(window, allowed, period, part)[part]
    edges = np.flatnonzero(np.diff(valid.astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _find_valid(window: Recording, dropouts: Dropouts, period: float, part: slice) -> BoolArray:
    """Return the rows of a window in which no column has a gap; record dropouts that begin in `part`."""
    time = window.time
    valid = np.ones(len(time), dtype=np.bool_)
    for name, values in window.values.items():
        finite = np.isfinite(values)
        if finite.all():
            continue
        there = np.flatnonzero(finite)
        if len(there) == 0:
            valid[:] = False
            break
        valid[: there[0]] = False
        valid[there[-1] + 1 :] = False
        steps = np.diff(time[there])
        gaps = steps > dropouts.tolerated(name) + 0.5 * period
        for before in np.flatnonzero(gaps):
            valid[there[before] + 1 : there[before + 1]] = False
        begins = (there[:-1] >= part.start) & (there[:-1] < part.stop)
        own = dropouts.readings[name].rate if name in dropouts.readings else 0.0
        dropouts.record(name, steps[begins & ~gaps], 1.0 / own if own > 0.0 else period)
    return valid


def split_at_gaps(recording: Recording, bridged: float = LONGEST_GAP) -> list[Recording]:
    """Split a recording in memory at the gaps of its clock and columns, into evenly sampled parts.

    Args:
        recording: The recording.
        bridged: Longest dropout (s) that is interpolated; a slower sensor's own period is not a gap.
    """
    dropouts = Dropouts(bridged, survey_readings(recording, recording.columns))
    return [
        even.rows(start, stop)
        for even in even_segments(recording, dropouts)
        for start, stop in find_runs(even, even.columns, len(even), dropouts)
    ]


def interpolate_gaps(time: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate columns linearly where they have no reading, shape (n, k).

    Args:
        time: Times, s, shape (n,).
        values: Shape (n, k); finite where there is a reading.
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    result = np.empty_like(values)
    for number in range(values.shape[1]):
        there = np.flatnonzero(finite[:, number])
        result[:, number] = np.interp(time, time[there], values[there, number]) if len(there) else np.nan
    return result
