"""Noise floor and signal band of each channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.motion import estimate_power_density, interpolate_gaps, longest_bridged_gap, split_at_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

_WINDOW = 2.0
"""Length (s) of a Welch segment: a resolution of 0.5 Hz. Set by judgement, half of the shortest segment."""

_FLOOR_BAND = (0.6, 0.95)
"""Shares of the Nyquist frequency between which the spectrum is taken for noise. Set by judgement: motion is far below,
and anti-aliasing acts above."""

_SIGNAL_RATIO = 4.0
"""Power relative to the floor from which a frequency holds signal. Set by judgement: 6 dB."""

_LEAST_READINGS = 32
"""Fewest readings of a Welch segment. Set by judgement: the floor's band then holds some five frequencies."""

_DENSE = 0.7
"""Share of rows with a reading above which a column has the rows' rate. Set by judgement: a slower sensor has at most
half."""


@dataclass(frozen=True)
class ChannelSpectrum:
    """Noise and band of a channel.

    Attributes:
        rate: Rate of the readings, Hz.
        noise: Standard deviation of white noise at the level of the spectrum's floor, in the channel's unit.
        band: Highest frequency (Hz) at which the signal exceeds the noise; zero if it never does.
    """

    rate: float
    noise: float
    band: float


def estimate_channel_spectra(segments: Sequence[Recording]) -> dict[str, ChannelSpectrum]:
    """Estimate the spectrum of each column, averaged over evenly sampled segments.

    The floor is the median power between 60 and 95 % of the Nyquist frequency; signal is four times as high. A slower
    sensor is analysed at its own rate, without the rows between its readings.
    """
    result: dict[str, ChannelSpectrum] = {}
    groups: dict[tuple[float, bytes], list[str]] = {}
    for name in segments[0].columns:
        # Columns measured in the same rows are analysed together.
        rows = b"" if _is_dense(segments[0], name) else np.packbits(np.isfinite(segments[0].values[name])).tobytes()
        groups.setdefault((_own_rate(segments[0], name), rows), []).append(name)
    for (rate, _), names in groups.items():
        size = round(_WINDOW * rate)
        powers = [
            estimate_power_density(_readings(segment, names), rate, size, detrend="linear")
            for segment in segments
            if _own_rate(segment, names[0]) == rate and len(_readings(segment, names[:1])) >= max(size, _LEAST_READINGS)
        ]
        if not powers or size < _LEAST_READINGS:
            result |= dict.fromkeys(names, ChannelSpectrum(rate, np.nan, np.nan))
            continue
        frequency, power = powers[0][0], np.mean([each[1] for each in powers], axis=0)
        result |= {name: _read_spectrum(rate, frequency, power[:, number]) for number, name in enumerate(names)}
    return result


def estimate_white_noise(recording: Recording, columns: Sequence[str], cutoff: float) -> dict[str, float]:
    """Return the standard deviation of the white noise of columns, by name; those whose floor is not observable lack.

    Args:
        recording: The recording.
        columns: The columns; a gap in one of them ends a segment.
        cutoff: Cutoff (Hz) of the filter of its motion: what is a gap to that is one here too.
    """
    parts = split_at_gaps(recording.select(columns).loaded(), longest_bridged_gap(cutoff))
    segments = [part for part in parts if part.duration >= _WINDOW]
    spectra = estimate_channel_spectra(segments) if segments else {}
    return {name: spectrum.noise for name, spectrum in spectra.items() if np.isfinite(spectrum.noise)}


def _read_spectrum(rate: float, frequency: FloatArray, power: FloatArray) -> ChannelSpectrum:
    low, high = (share * 0.5 * rate for share in _FLOOR_BAND)
    floor = float(np.median(power[(frequency >= low) & (frequency <= high)]))
    # Single lines above the floor occur by chance: three in a row are signal.
    smooth = np.convolve(power, np.ones(3) / 3.0, mode="same")
    signal = np.flatnonzero(smooth[1:] > _SIGNAL_RATIO * floor) + 1
    contiguous = signal[: int(np.argmax(np.diff(signal, append=len(power) + 9) > 2)) + 1] if len(signal) else signal
    return ChannelSpectrum(
        rate, float(np.sqrt(floor * 0.5 * rate)), float(frequency[contiguous[-1]]) if len(signal) else 0.0
    )


def _is_dense(segment: Recording, name: str) -> bool:
    """Return whether a column has readings in most rows."""
    return float(np.isfinite(segment.values[name]).mean()) > _DENSE


def _own_rate(segment: Recording, name: str) -> float:
    """Return a column's rate (Hz), to three digits; a few dropouts do not lower it."""
    if _is_dense(segment, name):
        return float(f"{(len(segment) - 1) / segment.duration:.3g}")
    times = segment.time[np.isfinite(segment.values[name])]
    rate = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 1.0
    return float(f"{rate:.3g}")


def _readings(segment: Recording, names: Sequence[str]) -> FloatArray:
    """Return columns side by side: a slower sensor's readings alone, a dense one's with dropouts interpolated."""
    table = np.stack([segment.values[name] for name in names], axis=1)
    if not _is_dense(segment, names[0]):
        return table[np.isfinite(table).all(axis=1)]
    return interpolate_gaps(segment.time, table)
