"""The channels of a stretch of a recording through one filter, with their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics import angular_motion, normalised, without_jumps
from steelyard.motion.smoothing import convolve
from steelyard.motion.stretches import LONGEST_GAP, filled, rows_around, sample_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.motion.smoothing import Smoothing
    from steelyard.recording import Recording


@dataclass(frozen=True, eq=False)
class Channels:
    """Rows of a recording in memory, and the filter that everything passes.

    Attributes:
        recording: The rows, and some around them that may hold a slower sensor's readings.
        start: The first row that is used.
        stop: The row behind the last that is used.
        smoothing: The filter.
        rate: Rows a second.
        step: Every so many-th smoothed sample is kept, beginning with the first that has all its neighbours.
    """

    recording: Recording
    start: int
    stop: int
    smoothing: Smoothing
    rate: float
    step: int

    @property
    def time(self) -> FloatArray:
        """Seconds of the smoothed samples, shape (n,)."""
        edge = self.smoothing.edge(self.rate)
        return self.recording.time[self.start + edge : self.stop - edge : self.step]

    def read(self, names: Sequence[str]) -> FloatArray:
        """Gives columns as they were recorded, slower sensors' filled by straight lines, shape (stop - start, k)."""
        return self._cut(self._columns(names))

    def values(self, names: Sequence[str], derivatives: int = 0) -> FloatArray:
        """Gives smoothed columns and so many of their derivatives, shape (1 + derivatives, n, k)."""
        return self._smoothed(self.read(names), derivatives)

    def orientation(self, names: Sequence[str]) -> FloatArray:
        """Gives the smoothed orientations of four columns, as quaternions x y z w of length one, shape (n, 4)."""
        return normalised(self._smoothed(self._quaternions(names), 0)[0])

    def turning(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gives orientations (n, 4) with their angular velocity and acceleration in their own axes (n, 3)."""
        quaternions, slopes, curves = self._smoothed(self._quaternions(names), 2)
        return normalised(quaternions), *angular_motion(quaternions, slopes, curves)

    def _columns(self, names: Sequence[str]) -> FloatArray:
        values = np.stack([self.recording.column(name) for name in names], axis=1)
        return filled(self.recording.time, values)

    def _quaternions(self, names: Sequence[str]) -> FloatArray:
        readings = np.stack([self.recording.column(name) for name in names], axis=1)
        return self._cut(filled(self.recording.time, without_jumps(readings)))

    def _cut(self, values: FloatArray) -> FloatArray:
        return values[self.start : self.stop]

    def _smoothed(self, values: FloatArray, derivatives: int) -> FloatArray:
        return convolve(values, self.smoothing.weights(self.rate)[: 1 + derivatives], self.step)


def read_channels(
    stretch: Recording, start: int, stop: int, smoothing: Smoothing, step: int = 1, silence: float = LONGEST_GAP
) -> Channels:
    """Gives rows of an evenly sampled stretch, in memory.

    Args:
        stretch: The stretch, in memory or not.
        start: The first row.
        stop: The row behind the last.
        smoothing: The filter.
        step: Every so many-th smoothed sample is kept.
        silence: Seconds that a column may be silent between two readings.
    """
    around = rows_around(stretch, silence)
    first = max(0, start - around)
    window = stretch.rows(first, min(len(stretch), stop + around)).loaded()
    return Channels(window, start - first, stop - first, smoothing, sample_rate(stretch), step)


def smooth_columns(stretch: Recording, names: Sequence[str], smoothing: Smoothing, derivative: int = 0) -> FloatArray:
    """Gives columns of an evenly sampled stretch without gaps through a filter, shape (n - 2 edge, len(names)).

    Args:
        stretch: The stretch.
        names: Of the columns.
        smoothing: The filter.
        derivative: Which derivative is given.

    Raises:
        RecordingError: A column is missing.
    """
    return np.asarray(read_channels(stretch, 0, len(stretch), smoothing).values(names, derivative)[derivative])
