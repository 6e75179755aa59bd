"""Ceilings: readings of a sensor at the end of its range, all equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray, IntArray

_CHANCE = 1e-6
"""Expected number of runs of equal readings as long by chance, below which a run is none. Set by judgement."""

_SHORTEST = 4
"""Fewest equal readings in a row at a ceiling. Set by judgement, for channels whose readings hardly ever repeat."""

_PILE, _PILE_REPEATING = 15, 300
"""Fewest readings at a ceiling that need no run, in all and per share of repeated readings. Measured: of 2000 clean
channels of 20 s, with shares up to 0.14, none has more than 11 at an extreme."""

_CROWDED = 1.5
"""Fewest of them at one place, on average. Set by judgement: extremes that noise reached are apart, also where a motion
is repeated many times."""

_BESIDE = 3
"""Readings between two runs at a ceiling that count with them: noise lifts single readings off it. Set by judgement."""

_REPEATING = 0.5
"""Share of repeated readings from which equal ones prove nothing, as in a channel that is coarse or held. Set by
judgement."""


class CeilingTally:
    """Readings at the highest and the lowest value of a channel, block by block."""

    def __init__(self) -> None:
        self._count = 0
        self._repeated = 0
        self._last = np.nan
        self._extremes = [-np.inf, -np.inf]
        self._rows: list[list[IntArray]] = [[], []]
        self._places: list[list[IntArray]] = [[], []]

    def add(self, values: FloatArray, rows: IntArray) -> None:
        """Add readings of a block, and their rows."""
        if len(values) == 0:
            return
        self._repeated += int(np.count_nonzero(np.diff(values, prepend=self._last) == 0.0))
        for number, sign in enumerate((1.0, -1.0)):
            extreme = float(np.max(sign * values))
            if extreme > self._extremes[number]:
                self._extremes[number], self._rows[number], self._places[number] = extreme, [], []
            if extreme == self._extremes[number]:
                there = np.flatnonzero(sign * values == extreme)
                self._rows[number].append(rows[there])
                self._places[number].append(there + self._count)
        self._count += len(values)
        self._last = float(values[-1])

    def finish(self) -> list[tuple[int, int, int, float]]:
        """Return the runs at a ceiling: first row, row after the last, number of readings, and the ceiling."""
        if self._count == 0 or self._extremes[0] == -self._extremes[1]:
            return []
        result = []
        for number, sign in enumerate((1.0, -1.0)):
            rows, places = np.concatenate(self._rows[number]), np.concatenate(self._places[number])
            level = sign * self._extremes[number]
            together = np.diff(places) == 1
            # Those at the ceiling itself say nothing of how often readings repeat by chance.
            share = (self._repeated - np.count_nonzero(together)) / max(1, self._count - len(places))
            if level == 0.0 or share > _REPEATING:
                continue
            least = max(_SHORTEST, 1.0 + np.log(self._count / _CHANCE) / -np.log(max(share, 1e-6)))
            longest = max(len(run) for run in np.split(places, np.flatnonzero(~together) + 1))
            runs = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) > _BESIDE) + 1)
            is_pile = len(places) >= _PILE + _PILE_REPEATING * share and len(places) >= _CROWDED * len(runs)
            if longest < least and not is_pile:
                continue
            result += [(int(rows[run[0]]), int(rows[run[-1]]) + 1, len(run), level) for run in runs]
        return result
