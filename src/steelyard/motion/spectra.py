"""Spectra of what tells of accelerations: what moves, and the floor of noise that it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import welch

from steelyard.kinematics import without_jumps
from steelyard.motion.stretches import filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

SEGMENT = 4.0
"""Seconds of a segment whose spectrum is taken."""

_OF_POSITIONS = 2
_SHORTEST = 1.0
_FEWEST = 16

_HIGH = (0.25, 0.45)
"""Shares of a sensor's rate between which there is taken to be noise alone."""

_CLEARLY = 2.0
"""By how much a plateau must lie above what is read there to be taken for the floor in its place."""

_BAND = 2.0 ** (1.0 / 3.0)
_PLATEAU = 4
_FLAT = 2.0
"""A plateau is so many third-octave bands in a row whose medians differ by less than this factor."""

_REACHES = 8.0
"""Frequency (Hz) that a plateau reaches: what a robot means to do is not as large there as an octave below."""

_MOVED = 0.99
"""Share of a group's readings' power in front of the noise: below where it is reached, there may be no plateau."""

_STEADY = (0.55, 0.25)
"""A held column's runs of equal values vary by less than so many rows, or this share of their length; those of a
reading that is repeated by chance (a coarse encoder's) vary by their own length."""

_HELD = 1.3
_TRIM = (0.1, 0.9)


@dataclass(frozen=True, eq=False)
class Group:
    """Columns that tell of accelerations.

    Attributes:
        columns: Their names.
        differences: How often they are differentiated to give accelerations.
        weights: Square of the acceleration that counts, for a unit of each, shape (n_columns,).
        quaternions: The first of each four columns that are one orientation.
    """

    columns: tuple[str, ...]
    differences: int
    weights: FloatArray
    quaternions: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Spectra:
    """Power densities of accelerations, all groups together, by what they do.

    Attributes:
        frequencies: Hz, evenly spaced from zero, shape (n,).
        signal: What is above the noise, shape (n,); below zero by chance.
        noise: Shape (n,).
        moved: Frequency (Hz) below which nearly all of the power of positions lies.
    """

    frequencies: FloatArray
    signal: FloatArray
    noise: FloatArray
    moved: float

    def growth(self, low: float, high: float) -> float:
        """Gives by which power of the frequency everything together grows from one frequency (Hz) to another."""
        low, high = (min(frequency, self.frequencies[-1] / _BAND) for frequency in (low, high))
        ends = [
            np.median((self.signal + self.noise)[_between(self.frequencies, at / _BAND, at * _BAND)])
            for at in (low, high)
        ]
        return float(np.log(ends[1] / ends[0]) / np.log(high / low)) if ends[0] > 0.0 and high > low else 0.0


def find_spectra(parts: Sequence[Recording], groups: Sequence[Group], rate: float) -> Spectra | None:
    """Gives the spectra of parts of a recording in memory, none with a gap; None where all are short.

    The noise of each column is taken to be white before it is differentiated. Its power is read off at the highest
    frequencies that the sensor knows: behind a column that is held for several rows, or has no reading in some, there
    is a slower sensor. Where the spectrum has a plateau before it (a drive smoothes what it sends, or what was recorded
    was put on a faster clock), it is read off there: third-octave bands that are alike, over more than an octave,
    behind what moves.

    Args:
        parts: Evenly sampled.
        groups: The columns to look at.
        rate: Rows a second.
    """
    length = round(SEGMENT * rate)
    long = [part for part in parts if part.duration >= _SHORTEST and len(part) >= _FEWEST]
    if length < _FEWEST or not long:
        return None
    frequencies = np.arange(length // 2 + 1) * rate / length
    signal, noise = np.zeros_like(frequencies), np.zeros_like(frequencies)
    moved = 0.0
    for group in groups:
        power, rates = _powers(long, group, rate, length)
        # The power gain of the differences that were taken.
        gain = (2.0 * rate * np.sin(np.pi * frequencies / rate)) ** (2 * group.differences)
        readings = power[1:] / gain[1:, None]
        start = _end_of_motion(frequencies[1:], readings @ group.weights)
        moved = max(moved, start) if group.differences == _OF_POSITIONS else moved
        floors = [
            _floor(frequencies[1:], column, own_rate, start) for column, own_rate in zip(readings.T, rates, strict=True)
        ]
        of_noise = gain * float(np.array(floors) @ group.weights)
        noise += of_noise
        signal += power @ group.weights - of_noise
    return Spectra(frequencies, signal, noise, moved)


def _powers(parts: Sequence[Recording], group: Group, rate: float, length: int) -> tuple[FloatArray, FloatArray]:
    """Gives the power densities of accelerations, shape (n, n_columns), and the sensors' own rates."""
    power = np.zeros((length // 2 + 1, len(group.columns)))
    rates = np.zeros(len(group.columns))
    seconds = 0.0
    for part in parts:
        values = np.stack([part.column(name) for name in group.columns], axis=1)
        rates += part.duration * rate * np.array([_readings_a_row(column) for column in values.T])
        for first in group.quaternions:
            values[:, first : first + 4] = without_jumps(values[:, first : first + 4])
        changes = np.diff(filled(part.time, values), n=group.differences, axis=0) * rate**group.differences
        # Taking a mean off a fast swing would put slow power there; only an accelerometer has one, of gravity.
        detrend = False if group.differences else "constant"
        size = min(length, len(changes))
        power += part.duration * welch(changes, rate, nperseg=size, nfft=length, detrend=detrend, axis=0)[1]
        seconds += part.duration
    return power / seconds, rates / seconds


def _readings_a_row(column: FloatArray) -> float:
    """Gives how many readings a row of a column has: less than one where it is slower than the rows, or held."""
    told = column[np.isfinite(column)]
    share = len(told) / len(column)
    changes = np.flatnonzero(np.diff(told) != 0.0)
    if len(changes) < _FEWEST:
        return share
    lengths = np.sort(np.diff(changes))
    lengths = lengths[int(_TRIM[0] * len(lengths)) : int(np.ceil(_TRIM[1] * len(lengths)))]
    usual = float(lengths.mean())
    if usual < _HELD or float(lengths.std()) > max(_STEADY[0], _STEADY[1] * usual):
        return share
    return share / usual


def _end_of_motion(frequencies: FloatArray, readings: FloatArray) -> float:
    """Gives the frequency (Hz) below which nearly all power of some readings lies."""
    power = np.cumsum(readings)
    return float(frequencies[np.searchsorted(power, _MOVED * power[-1])])


def _floor(frequencies: FloatArray, readings: FloatArray, rate: float, start: float) -> float:
    """Gives the power density of a column's noise, as it was read.

    Args:
        frequencies: Hz.
        readings: Power densities of the readings.
        rate: Of the sensor.
        start: The frequency (Hz) behind which there may be a plateau.
    """
    # The median of a chi-square is below its mean; a tenth more covers that, for a handful of segments.
    floor = 1.1 * float(np.median(readings[_between(frequencies, _HIGH[0] * rate, _HIGH[1] * rate)]))
    count = int(np.log(max(1.0, _HIGH[1] * rate / start)) / np.log(_BAND))
    edges = start * _BAND ** np.arange(count + 1)
    levels = [np.median(readings[_between(frequencies, *ends)]) for ends in pairwise(edges)]
    plateaus = [
        1.1 * float(np.median(levels[first : first + _PLATEAU]))
        for first in range(count - _PLATEAU + 1)
        if edges[first + _PLATEAU] >= _REACHES
        and max(levels[first : first + _PLATEAU]) < _FLAT * min(levels[first : first + _PLATEAU])
    ]
    highest = max(plateaus, default=0.0)
    return highest if highest > _CLEARLY * floor else floor


def _between(frequencies: FloatArray, low: float, high: float) -> slice:
    """Gives the places of the frequencies between two, of the nearest where there are none."""
    first, last = np.searchsorted(frequencies, [low, high])
    first = min(int(first), len(frequencies) - 1)
    return slice(first, max(first + 1, int(last)))
