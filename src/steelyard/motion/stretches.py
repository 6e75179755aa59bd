"""The stretches of a recording that a motion can be made of: evenly sampled, without gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.motion.readings import survey_readings
from steelyard.recording import tolerated_silence, usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.motion.readings import Readings
    from steelyard.recording import Recording

    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

LONGEST_GAP = 0.05
"""Seconds of silence that are bridged by a straight line at most, but for a slower sensor's own period."""

BRIDGED_SHARE = 0.15
"""Of a period of the cutoff: a silence so long is bridged, because what passes the filter is nearly straight over it.
The error of what is bridged grows with the third power; it is below 1 % of the accelerations here."""

_UNEVEN = 0.01
_SAME_RATE = 1e-3
_OWN_PERIOD = 1.5
"""Periods from which on a silence is more than the sensor's own."""


@dataclass(frozen=True, eq=False)
class Silences:
    """How long columns may be silent.

    Attributes:
        bridged: Seconds that any column may be, and the clock.
        readings: By column, how often it has readings; a slower sensor's own silence is no gap.
        seconds: By column, what was bridged but for a sensor's own period, found by `find_runs`; "time" is the clock.
        longest: By column, the longest silence (s) among these.
    """

    bridged: float
    readings: Mapping[str, Readings]
    seconds: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    def tolerated(self, name: str) -> float:
        """Gives the longest silence (s) of a column that is no gap."""
        return max(self.bridged, self.readings[name].silence) if name in self.readings else self.bridged

    def most(self, columns: Iterable[str]) -> float:
        """Gives the longest silence (s) that any of some columns may have."""
        return max((self.tolerated(name) for name in columns), default=self.bridged)

    def tell(self, name: str, steps: FloatArray, period: float) -> None:
        """Takes note of silences (s) that are bridged, of a column that usually has a reading every `period`."""
        lost = steps[steps > _OWN_PERIOD * period]
        if len(lost):
            self.seconds[name] = self.seconds.get(name, 0.0) + float(np.sum(lost - period))
            self.longest[name] = max(self.longest.get(name, 0.0), float(lost.max()))


def bridged_at(cutoff: float) -> float:
    """Gives the silence (s) that is bridged where everything passes a filter with a cutoff (Hz)."""
    return min(LONGEST_GAP, BRIDGED_SHARE / cutoff)


def sample_rate(recording: Recording) -> float:
    """Gives how many rows a second an evenly sampled stretch has.

    Raises:
        MotionError: There are fewer than two rows.
    """
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    return (len(recording) - 1) / recording.duration


def even_stretches(recording: Recording, silences: Silences | None = None) -> Iterator[Recording]:
    """Gives the stretches over which the clock has no gap, all on even times of one rate; nothing is read yet.

    Args:
        recording: The recording.
        silences: How long the clock may be silent, and where what is bridged is told; by default `LONGEST_GAP`.
    """
    usual = tolerated_silence(recording.time)
    rate = usual_rate(recording.time)
    # A slow clock's own period is no gap.
    longest = max(LONGEST_GAP if silences is None else silences.bridged, usual) + 0.5 / max(rate, 1e-9)
    cuts = np.flatnonzero(np.diff(recording.time) > longest) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(recording)], strict=True):
        if stop - start < 2:
            continue
        stretch = recording.rows(int(start), int(stop))
        if _is_even(stretch, rate):
            yield stretch
            continue
        if silences is not None:
            # Longer ones are seen in the columns. Rows that come late or in bursts are not missing.
            steps = np.diff(stretch.time)
            if stretch.duration - len(steps) / rate > _OWN_PERIOD / rate:
                silences.tell("time", steps[steps <= usual], 1.0 / rate)
        yield stretch.resampled(rate)


def _is_even(recording: Recording, rate: float) -> bool:
    steps = np.diff(recording.time)
    even = np.all(np.abs(steps / np.median(steps) - 1.0) <= _UNEVEN)
    return bool(even) and abs(sample_rate(recording) / rate - 1.0) <= _SAME_RATE


def rows_around(recording: Recording, silence: float = LONGEST_GAP) -> int:
    """Gives how many rows next to others must be looked at to know whether these lie in a gap."""
    return int(np.ceil(silence * sample_rate(recording))) + 2


def find_runs(
    recording: Recording, columns: Sequence[str], rows: int, silences: Silences | None = None
) -> list[tuple[int, int]]:
    """Gives the runs of rows, first and behind the last, in which none of some columns has a gap.

    Such a row has a reading of each column, or lies between two that are no further apart than the column may be
    silent, and half a row.

    Args:
        recording: An evenly sampled stretch, in memory or not.
        columns: Names of the columns that are needed.
        rows: How many are in memory at once.
        silences: How long each may be silent, and where what is bridged is told; by default `LONGEST_GAP`, or its usual
            silence.
    """
    allowed = silences if silences is not None else Silences(LONGEST_GAP, survey_readings(recording, columns))
    heard = np.empty(len(recording) + 2, dtype=np.bool_)
    heard[[0, -1]] = False
    around = rows_around(recording, allowed.most(columns))
    period = 1.0 / sample_rate(recording)
    chosen = recording.select(columns)
    for start in range(0, len(recording), rows):
        stop = min(len(recording), start + rows)
        first = max(0, start - around)
        window = chosen.rows(first, min(len(recording), stop + around)).loaded()
        part = slice(start - first, stop - first)
        heard[1 + start : 1 + stop] = _heard(window, allowed, period, part)[part]
    edges = np.flatnonzero(np.diff(heard.astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _heard(window: Recording, silences: Silences, period: float, part: slice) -> BoolArray:
    """Gives in which rows of a window all columns are heard; silences that begin in a part of it are told."""
    time = window.time
    heard = np.ones(len(time), dtype=np.bool_)
    for name, values in window.values.items():
        finite = np.isfinite(values)
        if finite.all():
            continue
        there = np.flatnonzero(finite)
        if len(there) == 0:
            heard[:] = False
            break
        heard[: there[0]] = False
        heard[there[-1] + 1 :] = False
        steps = np.diff(time[there])
        gaps = steps > silences.tolerated(name) + 0.5 * period
        for before in np.flatnonzero(gaps):
            heard[there[before] + 1 : there[before + 1]] = False
        begins = (there[:-1] >= part.start) & (there[:-1] < part.stop)
        own = silences.readings[name].rate if name in silences.readings else 0.0
        silences.tell(name, steps[begins & ~gaps], 1.0 / own if own > 0.0 else period)
    return heard


def clean_parts(recording: Recording, bridged: float = LONGEST_GAP) -> list[Recording]:
    """Gives the parts of a recording in memory, each evenly sampled, in which neither clock nor columns have gaps.

    Args:
        recording: The recording.
        bridged: Seconds that any column may be silent, and the clock; a slower sensor may be for its own period.
    """
    silences = Silences(bridged, survey_readings(recording, recording.columns))
    return [
        even.rows(start, stop)
        for even in even_stretches(recording, silences)
        for start, stop in find_runs(even, even.columns, len(even), silences)
    ]


def filled(time: FloatArray, values: FloatArray) -> FloatArray:
    """Gives columns with the rows between a slower sensor's readings filled by straight lines, shape (n, k).

    Args:
        time: Seconds, shape (n,).
        values: Shape (n, k); a row is a reading where all its numbers are finite.
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    result = np.empty_like(values)
    for number in range(values.shape[1]):
        there = np.flatnonzero(finite[:, number])
        result[:, number] = np.interp(time, time[there], values[there, number]) if len(there) else np.nan
    return result
