"""Acceleration spectra, split into signal and noise floor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.kinematics import without_jumps
from steelyard.motion.power_density import estimate_power_density
from steelyard.motion.segments import interpolate_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

WELCH_SEGMENT = 4.0
"""Length (s) of a Welch segment: a resolution of 0.25 Hz. Set by judgement: an eighth of the lowest cutoff."""

_SHORTEST = 1.0
"""Shortest part (s) that enters the spectra. Set by judgement: two periods of the lowest cutoff."""

_FEWEST = 16
"""Fewest rows of a part, and fewest changes of value from which a held column is recognised. Set by judgement."""

_NOISE_BAND = (0.25, 0.45)
"""Shares of a sensor's rate between which its spectrum is assumed to be noise; the cases in docs/motion.md are measured
with it."""

_PLATEAU_EXCESS = 2.0
"""Factor by which a plateau must exceed the reading in the noise band to replace it: white noise is then treated as
before (decision 9)."""

_BAND = 2.0 ** (1.0 / 3.0)
"""Ratio of the edges of a third-octave band."""

_PLATEAU_BANDS = 4
"""Adjacent third-octave bands that form a plateau: more than an octave (measured cases in docs/motion.md)."""

_FLAT = 2.0
"""Largest ratio of the bands' medians within a plateau (measured cases in docs/motion.md)."""

_REACHES = 8.0
"""Frequency (Hz) that a plateau must reach: intended motion there is weaker than an octave below; a chirp is not noise
(decision 9)."""

_MOTION_SHARE = 0.99
"""Share of the readings' power within the band of the motion, above which a plateau may begin (decision 9)."""

_STEADY = (0.55, 0.25)
"""Largest standard deviation of a held column's runs of equal values, in rows and as a share of their length; runs of a
coarse encoder vary by their own length. They recognise the held encoders of docs/motion.md."""

_HELD = 1.3
"""Mean length of the runs of equal values, in rows, above which a column is held. Set by judgement, between one row
(not held) and two."""

_TRIM = (0.1, 0.9)
"""Quantiles of the run lengths that are averaged: a standstill makes a few very long runs. Set by judgement."""


@dataclass(frozen=True, eq=False)
class ChannelGroup:
    """Columns from which accelerations are computed.

    Attributes:
        columns: Names of the columns.
        differences: Number of differentiations that give accelerations.
        weights: Weight of each column's squared acceleration, shape (n_columns,).
        quaternions: Index of the first column of each quaternion.
    """

    columns: tuple[str, ...]
    differences: int
    weights: FloatArray
    quaternions: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class AccelerationSpectra:
    """Weighted sum of all groups' acceleration power densities.

    Attributes:
        frequencies: Hz, evenly spaced from zero, shape (n,).
        signal: Power density above the noise, shape (n,); negative by chance.
        noise: Power density of the noise, shape (n,).
        moved: Frequency (Hz) below which nearly all power of the positions lies.
    """

    frequencies: FloatArray
    signal: FloatArray
    noise: FloatArray
    moved: float

    def growth(self, low: float, high: float) -> float:
        """Return the exponent with which the total power density grows from one frequency (Hz) to another."""
        low, high = (min(frequency, self.frequencies[-1] / _BAND) for frequency in (low, high))
        ends = [
            np.median((self.signal + self.noise)[_between(self.frequencies, at / _BAND, at * _BAND)])
            for at in (low, high)
        ]
        return float(np.log(ends[1] / ends[0]) / np.log(high / low)) if ends[0] > 0.0 and high > low else 0.0


def estimate_acceleration_spectra(
    parts: Sequence[Recording], groups: Sequence[ChannelGroup], rate: float
) -> AccelerationSpectra | None:
    """Estimate the spectra of gap-free parts of a recording in memory; None if all are too short.

    The noise of each column is assumed white before differentiation. Its power is read at the highest frequencies of
    the sensor; a column that is held for several rows, or has no reading in some, comes from a slower sensor. If the
    spectrum has a plateau below these (a drive smooths its readings, or the logger resampled them to a faster clock),
    the noise is read there: third-octave bands of equal level, over more than an octave, above the band of the motion.

    Args:
        parts: Evenly sampled parts.
        groups: The columns to analyse.
        rate: Row rate, Hz.
    """
    length = round(WELCH_SEGMENT * rate)
    long = [part for part in parts if part.duration >= _SHORTEST and len(part) >= _FEWEST]
    if length < _FEWEST or not long:
        return None
    frequencies = np.arange(length // 2 + 1) * rate / length
    signal, noise = np.zeros_like(frequencies), np.zeros_like(frequencies)
    moved = 0.0
    for group in groups:
        power, rates = _powers(long, group, rate, length)
        # The power gain of the finite differences.
        gain = (2.0 * rate * np.sin(np.pi * frequencies / rate)) ** (2 * group.differences)
        readings = power[1:] / gain[1:, None]
        cumulative = np.cumsum(readings @ group.weights)
        start = float(frequencies[1:][np.searchsorted(cumulative, _MOTION_SHARE * cumulative[-1])])
        # Two differentiations: positions.
        moved = max(moved, start) if group.differences == 2 else moved
        floors = np.empty(len(rates))
        for own_rate in np.unique(rates):
            alike = rates == own_rate
            floors[alike] = _noise_floors(frequencies[1:], readings[:, alike], float(own_rate), start)
        group_noise = gain * float(floors @ group.weights)
        noise += group_noise
        signal += power @ group.weights - group_noise
    return AccelerationSpectra(frequencies, signal, noise, moved)


def _powers(parts: Sequence[Recording], group: ChannelGroup, rate: float, length: int) -> tuple[FloatArray, FloatArray]:
    """Return the power densities of accelerations, shape (n, n_columns), and the sensors' own rates, Hz."""
    power = np.zeros((length // 2 + 1, len(group.columns)))
    rates = np.zeros(len(group.columns))
    seconds = 0.0
    for part in parts:
        values = np.stack([part.column(name) for name in group.columns], axis=1)
        rates += part.duration * rate * np.array([_readings_per_row(column) for column in values.T])
        for first in group.quaternions:
            values[:, first : first + 4] = without_jumps(values[:, first : first + 4])
        changes = np.diff(interpolate_gaps(part.time, values), n=group.differences, axis=0) * rate**group.differences
        # Subtracting the mean of a fast swing would add low-frequency power; only an accelerometer has one, gravity.
        detrend: Literal["none", "constant"] = "none" if group.differences else "constant"
        size = min(length, len(changes))
        power += part.duration * estimate_power_density(changes, rate, size, length=length, detrend=detrend)[1]
        seconds += part.duration
    return power / seconds, rates / seconds


def _readings_per_row(column: FloatArray) -> float:
    """Return the number of readings per row of a column: less than one if it is slower than the rows, or held."""
    readings = column[np.isfinite(column)]
    share = len(readings) / len(column)
    changes = np.flatnonzero(np.diff(readings) != 0.0)
    if len(changes) < _FEWEST:
        return share
    lengths = np.sort(np.diff(changes))
    lengths = lengths[int(_TRIM[0] * len(lengths)) : int(np.ceil(_TRIM[1] * len(lengths)))]
    usual = float(lengths.mean())
    if usual < _HELD or float(lengths.std()) > max(_STEADY[0], _STEADY[1] * usual):
        return share
    return share / usual


def _noise_floors(frequencies: FloatArray, readings: FloatArray, rate: float, start: float) -> FloatArray:
    """Estimate the power densities of columns' noise before differentiation, shape (n_columns,).

    Args:
        frequencies: Hz.
        readings: Power densities of the readings, shape (n, n_columns).
        rate: Rate of the sensors, Hz.
        start: Frequency (Hz) above which there may be a plateau.
    """
    low, high = _NOISE_BAND[0] * rate, _NOISE_BAND[1] * rate
    # The median of a chi-square is below its mean; a tenth more compensates, for a handful of segments.
    floors = 1.1 * np.median(readings[_between(frequencies, low, high)], axis=0)
    count = int(np.log(max(1.0, high / start)) / np.log(_BAND))
    edges = start * _BAND ** np.arange(count + 1)
    levels = [np.median(readings[_between(frequencies, *ends)], axis=0) for ends in pairwise(edges)]
    highest = np.zeros_like(floors)
    for first in range(count - _PLATEAU_BANDS + 1):
        if edges[first + _PLATEAU_BANDS] >= _REACHES:
            bands = np.stack(levels[first : first + _PLATEAU_BANDS])
            flat = np.max(bands, axis=0) < _FLAT * np.min(bands, axis=0)
            highest = np.where(flat, np.maximum(highest, 1.1 * np.median(bands, axis=0)), highest)
    return np.asarray(np.where(highest > _PLATEAU_EXCESS * floors, highest, floors))


def _between(frequencies: FloatArray, low: float, high: float) -> slice:
    """Return the slice of the frequencies between two, or of the nearest if there are none."""
    first, last = np.searchsorted(frequencies, [low, high])
    first = min(int(first), len(frequencies) - 1)
    return slice(first, max(first + 1, int(last)))
