"""Channels of a segment of a recording, filtered and differentiated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics import angular_motion, normalised, without_jumps
from steelyard.motion.segments import LONGEST_GAP, context_rows, interpolate_gaps, sample_rate
from steelyard.motion.smoothing import convolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.motion.smoothing import Smoothing
    from steelyard.recording import Recording


@dataclass(frozen=True, eq=False)
class Channels:
    """Rows of a recording in memory, and the filter for all channels.

    Attributes:
        recording: The rows, with context rows on both sides that may hold a slower sensor's readings.
        start: First row that is used.
        stop: End of the rows that are used (exclusive).
        smoothing: The filter.
        rate: Row rate, Hz.
        step: Downsampling factor, counted from the first sample with a full filter window.
    """

    recording: Recording
    start: int
    stop: int
    smoothing: Smoothing
    rate: float
    step: int

    @property
    def time(self) -> FloatArray:
        """Times of the smoothed samples, s, shape (n,)."""
        edge = self.smoothing.edge(self.rate)
        return self.recording.time[self.start + edge : self.stop - edge : self.step]

    def values(self, names: Sequence[str], derivatives: int = 0) -> FloatArray:
        """Return smoothed columns and their first `derivatives` derivatives, shape (1 + derivatives, n, k)."""
        return self._smoothed(self._columns(names), derivatives)

    def orientation(self, names: Sequence[str]) -> FloatArray:
        """Return the smoothed orientations of four columns, as unit quaternions x y z w, shape (n, 4)."""
        return normalised(self._smoothed(without_jumps(self._columns(names)), 0)[0])

    def rotation(self, names: Sequence[str]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return orientations (n, 4) with angular velocity and acceleration in body axes (n, 3)."""
        smoothed = self._smoothed(without_jumps(self._columns(names)), 2)
        return normalised(smoothed[0]), *angular_motion(*smoothed)

    def _columns(self, names: Sequence[str]) -> FloatArray:
        return np.stack([self.recording.column(name) for name in names], axis=1)

    def _smoothed(self, values: FloatArray, derivatives: int) -> FloatArray:
        rows = interpolate_gaps(self.recording.time, values)[self.start : self.stop]
        return convolve(rows, self.smoothing.weights(self.rate)[: 1 + derivatives], self.step)


def read_channels(
    segment: Recording, start: int, stop: int, smoothing: Smoothing, step: int = 1, silence: float = LONGEST_GAP
) -> Channels:
    """Load rows of an evenly sampled segment into memory.

    Args:
        segment: The segment, in memory or not.
        start: The first row.
        stop: End of the rows (exclusive).
        smoothing: The filter.
        step: Downsampling factor.
        silence: Longest time (s) between two readings of a column.
    """
    around = context_rows(segment, silence)
    first = max(0, start - around)
    window = segment.rows(first, min(len(segment), stop + around)).loaded()
    return Channels(window, start - first, stop - first, smoothing, sample_rate(segment), step)


def smooth_columns(segment: Recording, names: Sequence[str], smoothing: Smoothing, derivative: int = 0) -> FloatArray:
    """Filter columns of an evenly sampled segment without gaps; return shape (n - 2 edge, len(names)).

    Args:
        segment: The segment.
        names: Names of the columns.
        smoothing: The filter.
        derivative: Order of the derivative to return.

    Raises:
        RecordingError: A column is missing.
    """
    return np.asarray(read_channels(segment, 0, len(segment), smoothing).values(names, derivative)[derivative])
