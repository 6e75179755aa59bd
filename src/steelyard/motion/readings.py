"""Sampling of each column of a recording: count and rate of readings, and the longest interval that is not a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording import tolerated_silence, usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

_FEWEST = 8
"""Readings of a column below which its rate is unknown. Set by judgement: a median of fewer intervals is unreliable."""

_MOST_STEPS = 200_000
"""Readings from which a column's rate is estimated, at most. Set by judgement: minutes of data at 1.6 MB a column."""


@dataclass(frozen=True)
class Readings:
    """Sampling of a column.

    Attributes:
        count: Number of readings.
        rate: Usual rate, Hz; zero if there are too few readings.
        silence: Longest interval (s) between two readings that is not a gap: one reading may be lost.
    """

    count: int
    rate: float
    silence: float


class _Steps:
    """Times of the readings of a column that does not have one in every row."""

    def __init__(self) -> None:
        self.count = 0
        self.kept = 0
        self.times: list[FloatArray] = []

    def add(self, time: FloatArray, there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self.count += int(np.count_nonzero(there))
        if self.kept < _MOST_STEPS:
            self.times.append(time[there])
            self.kept += len(self.times[-1])


def survey_readings(recording: Recording, columns: Iterable[str]) -> dict[str, Readings]:
    """Return the sampling of columns, from one pass over a recording.

    Args:
        recording: The recording, in memory or not.
        columns: Names of the columns; those that are not recorded are left out.
    """
    names = [name for name in dict.fromkeys(columns) if name in recording.values]
    found = {name: _Steps() for name in names}
    start = 0
    for piece in recording.select(names).chunks() if names else ():
        everywhere = np.ones(len(piece), dtype=np.bool_)
        for name in names:
            there = np.isfinite(piece.column(name))
            # A column with a reading in every row so far has the clock's times: they need no copy.
            if there.all() and found[name].count == start:
                found[name].count += len(piece)
                continue
            if found[name].count == start and start:
                found[name].add(recording.time[:start], np.ones(start, dtype=np.bool_))
                found[name].count -= start
            found[name].add(piece.time, there if not there.all() else everywhere)
        start += len(piece)
    clock = Readings(len(recording), usual_rate(recording.time), tolerated_silence(recording.time))
    return {name: clock if steps.count == len(recording) else _readings(steps) for name, steps in found.items()}


def _readings(steps: _Steps) -> Readings:
    time = np.concatenate(steps.times)
    if len(time) < _FEWEST:
        return Readings(steps.count, 0.0, 0.0)
    return Readings(steps.count, usual_rate(time), tolerated_silence(time))


def find_slowest(readings: Mapping[str, Readings], columns: Iterable[str]) -> tuple[str, float]:
    """Return the column with the lowest rate, and that rate (Hz); an empty name if none has a rate."""
    rates = {name: readings[name].rate for name in columns if name in readings and readings[name].rate > 0.0}
    return min(rates.items(), key=lambda item: item[1], default=("", np.inf))
