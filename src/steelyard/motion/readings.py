"""How often each column of a recording has a reading, and how long it may be silent before that is a gap."""

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
_MOST_STEPS = 200_000
"""Steps from one reading to the next that tell of a column's rate."""


@dataclass(frozen=True)
class Readings:
    """The readings of a column.

    Attributes:
        count: How many there are.
        rate: How many a second there usually are; zero for fewer than two.
        silence: The longest time (s) between two that is no gap in itself: its usual period, or a lost one.
    """

    count: int
    rate: float
    silence: float


class _Steps:
    """The steps from reading to reading of one column, as far as not every row has one."""

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
    """Gives how often columns have readings, from one pass over a recording in memory or not.

    Args:
        recording: The recording.
        columns: Names of the columns; those that are not recorded are left out.
    """
    names = [name for name in dict.fromkeys(columns) if name in recording.values]
    found = {name: _Steps() for name in names}
    start = 0
    for piece in recording.select(names).chunks() if names else ():
        everywhere = np.ones(len(piece), dtype=np.bool_)
        for name in names:
            there = np.isfinite(piece.column(name))
            # What has a reading in each row so far is not kept: it has the clock's steps.
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


def slowest(readings: Mapping[str, Readings], columns: Iterable[str]) -> tuple[str, float]:
    """Gives which of some columns comes most slowly, and its readings a second; an empty name where none has any."""
    rates = {name: readings[name].rate for name in columns if name in readings and readings[name].rate > 0.0}
    return min(rates.items(), key=lambda item: item[1], default=("", np.inf))
