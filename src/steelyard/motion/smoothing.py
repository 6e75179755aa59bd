"""Smoothing: one zero-phase filter for all channels, with matching derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from steelyard.arrays import is_finite_number
from steelyard.exceptions import MotionError

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

SmoothingKind = Literal["butterworth", "cubic"]
KINDS: tuple[SmoothingKind, ...] = ("butterworth", "cubic")

HIGHEST_SHARE = 0.4
"""Highest cutoff as a share of the sample rate; above it derivatives ring."""

_ORDERS = (2, 8)
"""Orders of the Butterworth filter. Set by judgement: first order does not attenuate differentiated noise, and higher
ones lengthen the edges."""

_TAIL = 1e-4
"""Share of a kernel's weight that is truncated at its ends; its response is then that of the filter to 2e-4."""

_FLAT = 0.9
"""Share of the truncated kernel that the taper leaves unchanged. Set by judgement: it only avoids a step at the end."""

_PERIODS = 8
"""Half length of the full impulse response, in periods of the cutoff for each order. Set by judgement: at order 4 all
but 1e-4 has decayed within 3.6 of these 32 periods (decision 9)."""

_FIRST_DIFFERENCE = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
"""Central difference of eighth order: its error is below 1e-5 up to a tenth of the sample rate."""

_SECOND_DIFFERENCE = (-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0)
"""Second central difference of eighth order, the middle first."""

_SHORTEST_SIDE = 2
"""Fewest samples on each side of a local cubic: five points are needed to fit four coefficients and smooth."""

_HALF_POWER_OF_BIWEIGHT = 0.3437113420093496
"""Cutoff times window of a local cubic: where ``15 ((3 - x²) sin x - 3 x cos x) / x⁵ = √½``, over 2π."""


@dataclass(frozen=True)
class Smoothing:
    """A zero-phase filter for all channels. It preserves constants and straight lines.

    ``butterworth``: a Butterworth filter forwards and backwards. It is designed for the response of *both passes*,
    ``1 / (1 + (√2 − 1) (tan(π f / r) / tan(π cutoff / r))^(2 order))`` at the sample rate r, which is at half power at
    `cutoff`. Its impulse response is truncated where all but 1e-4 of it has decayed.

    ``cubic``: local cubic polynomials over `window` seconds on each side [yamane2011, section III-E: 125 points at
    500 Hz]. The value, the first and the second derivative of a local cubic have three different responses; a force
    smoothed by the first does not match an acceleration from the third. Here accelerations are exactly those of the
    local cubics, and everything else is smoothed with their response: the kernel whose second difference gives the
    weights of the second derivative (``(1 − t²)²`` for a dense window).

    Attributes:
        kind: "butterworth" or "cubic".
        cutoff: Frequency (Hz) at half power.
        order: Order of the Butterworth filter, which is applied twice.
        window: Half width (s) of a local cubic; zero for a Butterworth filter.
    """

    kind: SmoothingKind
    cutoff: float
    order: int = 4
    window: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MotionError(f"the smoothing is {self.kind!r}; choose 'butterworth' or 'cubic'")
        if not (is_finite_number(self.cutoff) and self.cutoff > 0.0):
            raise MotionError(f"the cutoff is {self.cutoff!r} Hz; it must be a positive number")
        if self.kind == "butterworth" and not (
            isinstance(self.order, int | np.integer) and _ORDERS[0] <= self.order <= _ORDERS[1]
        ):
            raise MotionError(
                f"the order of the filter is {self.order!r}; choose one from {_ORDERS[0]} to {_ORDERS[1]}"
            )

    def weights(self, rate: float) -> FloatArray:
        """Return the filter weights of value, first and second derivative, shape (3, 2 edge + 1).

        Units are 1, 1/s and 1/s²; the earliest sample of the window comes first.

        Raises:
            MotionError: The filter is impossible at this sample rate; the message says what is possible.
        """
        return _weights(self, float(rate))

    def edge(self, rate: float) -> int:
        """Return the number of samples at each end without a smoothed value: half the kernel's length."""
        return int(self.weights(rate).shape[1] // 2)

    def bandwidth(self, rate: float) -> float:
        """Return the noise-equivalent bandwidth (Hz): white noise keeps ``2 bandwidth / rate`` of its variance."""
        return float(0.5 * rate * np.sum(self.weights(rate)[0] ** 2))

    def decimation(self, rate: float) -> int:
        """Return the downsampling factor that leaves about two samples per period of the cutoff."""
        return max(1, int(rate / (2.0 * self.cutoff) + 0.02))

    def __str__(self) -> str:
        if self.kind == "cubic":
            return f"local cubics over {self.window:.3g} s on each side (-3 dB at {self.cutoff:.3g} Hz)"
        return f"a zero-phase Butterworth filter of order {self.order}, -3 dB at {self.cutoff:.4g} Hz"


def butterworth(cutoff: float, order: int = 4) -> Smoothing:
    """Return the zero-phase Butterworth filter with an effective cutoff (Hz)."""
    return Smoothing("butterworth", cutoff, order)


def local_cubic(window: float) -> Smoothing:
    """Return local cubic polynomials over a window: seconds on each side."""
    if not (is_finite_number(window) and window > 0.0):
        raise MotionError(f"the window is {window!r}; give seconds on each side, more than zero")
    return Smoothing("cubic", _HALF_POWER_OF_BIWEIGHT / window, window=window)


def local_cubic_of_cutoff(cutoff: float) -> Smoothing:
    """Return the local cubic polynomials with a cutoff (Hz)."""
    if not (is_finite_number(cutoff) and cutoff > 0.0):
        raise MotionError(f"the cutoff is {cutoff!r} Hz; it must be a positive number")
    return Smoothing("cubic", cutoff, window=_HALF_POWER_OF_BIWEIGHT / cutoff)


def convolve(values: Any, weights: FloatArray, step: int = 1) -> FloatArray:
    """Filter channels with kernels, at every sample with a full window.

    Args:
        values: Shape (n, n_channels), evenly sampled along the first axis.
        weights: Kernels, shape (n_kernels, 2 edge + 1); see `Smoothing.weights`.
        step: Downsampling factor, counted from the first result.

    Returns:
        Shape (n_kernels, n_kept, n_channels); empty if there are fewer samples than a kernel is long.
    """
    array = np.asarray(values, dtype=np.float64)
    length = weights.shape[1]
    count = max(0, len(array) - length + 1)
    kept = -(-count // step)
    if kept == 0 or array.shape[1] == 0:
        return np.zeros((len(weights), kept, array.shape[1]))
    size = next_fast_len(len(array), real=True)
    spectrum = rfft(array, size, axis=0)
    result = np.empty((len(weights), kept, array.shape[1]))
    for number, kernel in enumerate(weights):
        response = rfft(kernel[::-1], size)
        result[number] = irfft(spectrum * response[:, None], size, axis=0)[length - 1 : len(array) : step]
    return result


@lru_cache(maxsize=64)
def _weights(smoothing: Smoothing, rate: float) -> FloatArray:
    weights = _cubic_weights(smoothing, rate) if smoothing.kind == "cubic" else _butterworth_weights(smoothing, rate)
    weights.setflags(write=False)
    return weights


def _cubic_weights(smoothing: Smoothing, rate: float) -> FloatArray:
    side = round(smoothing.window * rate)
    if side < _SHORTEST_SIDE:
        raise MotionError(
            f"a window of {smoothing.window:g} s on each side holds {side} samples at {rate:g} Hz; choose one of at "
            f"least {_SHORTEST_SIDE / rate:g} s"
        )
    offsets = np.arange(-side, side + 1, dtype=np.float64)
    second = offsets**2 - np.mean(offsets**2)
    second *= 2.0 / np.sum(offsets**2 * second)
    # Its double sum vanishes outside the window, because the weights annihilate constants and straight lines.
    value = np.cumsum(np.cumsum(second))[:-2]
    value = np.pad(0.5 * (value + value[::-1]), 1)
    first = np.zeros_like(value)
    first[1:-1] = 0.5 * (value[:-2] - value[2:])
    first[[0, -1]] = -0.5 * value[1], 0.5 * value[-2]
    return np.stack([value, first * rate, second * rate**2])


def _butterworth_weights(smoothing: Smoothing, rate: float) -> FloatArray:
    cutoff, order = smoothing.cutoff, smoothing.order
    if cutoff > HIGHEST_SHARE * rate:
        raise MotionError(
            f"a cutoff of {cutoff:g} Hz is too high for a sample rate of {rate:g} Hz; choose one below "
            f"{HIGHEST_SHARE * rate:g} Hz"
        )
    size = 2 * int(np.ceil(_PERIODS * order * rate / cutoff))
    phase = np.pi * np.arange(size // 2 + 1) / (size // 2)
    ratio = np.zeros_like(phase)
    ratio[:-1] = (np.tan(0.5 * phase[:-1]) / np.tan(np.pi * cutoff / rate)) ** 2
    gain = 1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * ratio**order)
    gain[-1] = 0.0
    half = irfft(gain, size)[: size // 2]
    tail = np.cumsum(np.abs(half[::-1]))[::-1]
    edge = max(1, int(np.searchsorted(-tail, -0.5 * _TAIL * np.sum(np.abs(half)))))
    distance = np.arange(edge + 1) / (edge + 1)
    taper = np.asarray(np.cos(0.5 * np.pi * np.clip((distance - _FLAT) / (1.0 - _FLAT), 0.0, 1.0)) ** 2)
    half = half[: edge + 1] * taper
    value = np.concatenate([half[:0:-1], half])
    value = np.pad(value / value.sum(), len(_FIRST_DIFFERENCE))
    first, second = np.zeros_like(value), _SECOND_DIFFERENCE[0] * value
    for lag, (odd, even) in enumerate(zip(_FIRST_DIFFERENCE, _SECOND_DIFFERENCE[1:], strict=True), start=1):
        # The padded kernel is zero at its ends: nothing wraps around.
        earlier, later = np.roll(value, -lag), np.roll(value, lag)
        first += odd * (later - earlier)
        second += even * (later + earlier)
    return np.stack([value, first * rate, second * rate**2])
