"""The noise floor and the signal band of each channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import welch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording import Recording

_WINDOW = 2.0
_FLOOR_BAND = (0.6, 0.95)
_ABOVE = 4.0
_LEAST_READINGS = 32
_DENSE = 0.7


@dataclass(frozen=True)
class Spectrum:
    """What a channel's spectrum says.

    Attributes:
        rate: Readings a second.
        noise: Standard deviation of white noise as high as the floor of the spectrum, in the channel's unit.
        band: Highest frequency (Hz) at which the signal stands above the noise; zero where it never does.
    """

    rate: float
    noise: float
    band: float


def find_spectra(stretches: Sequence[Recording]) -> dict[str, Spectrum]:
    """Gives the spectrum of each column, averaged over evenly sampled stretches.

    The floor is the median of the power between 60 and 95 % of half the rate; the signal is what is four times as high.
    A slower sensor's rows without readings are left out: its own rate counts.
    """
    result: dict[str, Spectrum] = {}
    groups: dict[tuple[float, bytes], list[str]] = {}
    for name in stretches[0].columns:
        # Columns that are measured in the same rows are looked at together.
        rows = b"" if _is_dense(stretches[0], name) else np.packbits(np.isfinite(stretches[0].values[name])).tobytes()
        groups.setdefault((_own_rate(stretches[0], name), rows), []).append(name)
    for (rate, _), names in groups.items():
        size = round(_WINDOW * rate)
        powers = [
            welch(_readings(stretch, names), fs=rate, nperseg=size, axis=0, detrend="linear")
            for stretch in stretches
            if _own_rate(stretch, names[0]) == rate and len(_readings(stretch, names[:1])) >= max(size, _LEAST_READINGS)
        ]
        if not powers or size < _LEAST_READINGS:
            result |= dict.fromkeys(names, Spectrum(rate, np.nan, np.nan))
            continue
        frequency, power = powers[0][0], np.mean([each[1] for each in powers], axis=0)
        result |= {name: _read_spectrum(rate, frequency, power[:, number]) for number, name in enumerate(names)}
    return result


def _read_spectrum(rate: float, frequency: FloatArray, power: FloatArray) -> Spectrum:
    low, high = (share * 0.5 * rate for share in _FLOOR_BAND)
    floor = float(np.median(power[(frequency >= low) & (frequency <= high)]))
    # Single lines above the floor are chance: three in a row are signal.
    smooth = np.convolve(power, np.ones(3) / 3.0, mode="same")
    signal = np.flatnonzero(smooth[1:] > _ABOVE * floor) + 1
    contiguous = signal[: int(np.argmax(np.diff(signal, append=len(power) + 9) > 2)) + 1] if len(signal) else signal
    return Spectrum(rate, float(np.sqrt(floor * 0.5 * rate)), float(frequency[contiguous[-1]]) if len(signal) else 0.0)


def _is_dense(stretch: Recording, name: str) -> bool:
    """Tells whether a column has readings in most rows."""
    return float(np.isfinite(stretch.values[name]).mean()) > _DENSE


def _own_rate(stretch: Recording, name: str) -> float:
    """Gives how many readings a second a column has, to a thousandth; those of a few dropouts count."""
    if _is_dense(stretch, name):
        return float(f"{(len(stretch) - 1) / stretch.duration:.3g}")
    times = stretch.time[np.isfinite(stretch.values[name])]
    rate = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 1.0
    return float(f"{rate:.3g}")


def _readings(stretch: Recording, names: Sequence[str]) -> FloatArray:
    """Gives columns side by side: a slower sensor's readings alone, a dense one's with dropouts joined by lines."""
    if not _is_dense(stretch, names[0]):
        table = np.stack([stretch.values[name] for name in names], axis=1)
        return table[np.isfinite(table).all(axis=1)]
    columns = []
    for name in names:
        values = stretch.values[name]
        there = np.isfinite(values)
        columns.append(values if there.all() else np.interp(stretch.time, stretch.time[there], values[there]))
    return np.stack(columns, axis=1)
