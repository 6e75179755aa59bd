"""Smoothing: one response for all channels, without a shift in time, and derivatives that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from steelyard.exceptions import MotionError

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

SmoothingKind = Literal["butterworth", "cubic"]
KINDS: tuple[SmoothingKind, ...] = ("butterworth", "cubic")

HIGHEST_SHARE = 0.4
"""Highest cutoff as a share of the sample rate; above it derivatives ring."""

_ORDERS = (2, 8)
_TAIL = 1e-4
"""Share of a kernel's weight that is cut off at its ends; its response is then that of the filter to 2e-4."""

_FLAT = 0.9
_PERIODS = 8
_SLOPE = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
_CURVE = (-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0)
"""Central differences of eighth order: their error is below 1e-5 up to a tenth of the sample rate."""

_SHORTEST_SIDE = 2
_HALF_POWER_OF_BIWEIGHT = 0.3437113420093496
"""Cutoff times window of a local cubic: where ``15 ((3 - x²) sin x - 3 x cos x) / x⁵ = √½``, over 2π."""


@dataclass(frozen=True)
class Smoothing:
    """A filter, the same for every channel. It passes constants and straight lines as they are, and shifts nothing.

    ``butterworth``: a Butterworth filter forwards and backwards. It is designed for the response of the *whole*,
    ``1 / (1 + (√2 − 1) (tan(π f / r) / tan(π cutoff / r))^(2 order))`` at the sample rate r, whose power is halved at
    `cutoff`. Its impulse response is cut off where all but 1e-4 of it has died away.

    ``cubic``: local cubic polynomials over `window` seconds on each side [yamane2011, section III-E: 125 points at
    500 Hz]. The value, the first and the second derivative of a local cubic have three different responses, and a force
    that is smoothed by the first does not belong to an acceleration from the third. Here accelerations are those of the
    local cubics, exactly; everything else is smoothed by the response that these have: the kernel whose second
    difference gives the weights of the second derivative (``(1 − t²)²`` for a dense window).

    Attributes:
        kind: "butterworth" or "cubic".
        cutoff: Frequency (Hz) at which the power is halved.
        order: Of the Butterworth filter that passes twice.
        window: Seconds on each side of a local cubic; zero for a Butterworth filter.
    """

    kind: SmoothingKind
    cutoff: float
    order: int = 4
    window: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MotionError(f"the smoothing is {self.kind!r}; choose 'butterworth' or 'cubic'")
        if not (is_number(self.cutoff) and self.cutoff > 0.0):
            raise MotionError(f"the cutoff is {self.cutoff!r} Hz; it must be a positive number")
        if self.kind == "butterworth" and not (
            isinstance(self.order, int | np.integer) and _ORDERS[0] <= self.order <= _ORDERS[1]
        ):
            raise MotionError(
                f"the order of the filter is {self.order!r}; choose one from {_ORDERS[0]} to {_ORDERS[1]}"
            )

    def weights(self, rate: float) -> FloatArray:
        """Gives what neighbouring samples are multiplied with, shape (3, 2 edge + 1): value, rate, acceleration.

        Units are 1, 1/s and 1/s²; the first sample of a window comes first.

        Raises:
            MotionError: The filter cannot be had at this sample rate; the message says what can.
        """
        return _weights(self, float(rate))

    def edge(self, rate: float) -> int:
        """Gives how many samples at each end have no smoothed value: half the kernel's length."""
        return int(self.weights(rate).shape[1] // 2)

    def bandwidth(self, rate: float) -> float:
        """Gives the noise-equivalent bandwidth (Hz): white noise keeps ``2 bandwidth / rate`` of its variance."""
        return float(0.5 * rate * np.sum(self.weights(rate)[0] ** 2))

    def decimation(self, rate: float) -> int:
        """Gives every how many-th sample is to be kept, so that about two are left for each period of the cutoff."""
        return max(1, int(rate / (2.0 * self.cutoff) + 0.02))

    def __str__(self) -> str:
        if self.kind == "cubic":
            return f"local cubics over {self.window:.3g} s on each side (-3 dB at {self.cutoff:.3g} Hz)"
        return f"a zero-phase Butterworth filter of order {self.order}, -3 dB at {self.cutoff:.4g} Hz"


def butterworth(cutoff: float, order: int = 4) -> Smoothing:
    """Gives the zero-phase Butterworth filter of an effective cutoff (Hz)."""
    return Smoothing("butterworth", cutoff, order)


def local_cubic(window: float) -> Smoothing:
    """Gives local cubic polynomials over a window: seconds on each side."""
    if not (is_number(window) and window > 0.0):
        raise MotionError(f"the window is {window!r}; give seconds on each side, more than none")
    return Smoothing("cubic", _HALF_POWER_OF_BIWEIGHT / window, window=window)


def local_cubic_of_cutoff(cutoff: float) -> Smoothing:
    """Gives the local cubic polynomials whose cutoff (Hz) is given."""
    if not (is_number(cutoff) and cutoff > 0.0):
        raise MotionError(f"the cutoff is {cutoff!r} Hz; it must be a positive number")
    return Smoothing("cubic", cutoff, window=_HALF_POWER_OF_BIWEIGHT / cutoff)


def convolve(values: Any, weights: FloatArray, step: int = 1) -> FloatArray:
    """Gives channels through kernels, for every sample that has all its neighbours.

    Args:
        values: Shape (n, n_channels), evenly sampled along the first axis.
        weights: Of each kernel, shape (n_kernels, 2 edge + 1); see `Smoothing.weights`.
        step: Only every so many-th of the results is given, beginning with the first.

    Returns:
        Shape (n_kernels, n_kept, n_channels); none where there are fewer samples than a kernel is long.
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
            f"a window of {smoothing.window:g} s on each side holds {side} samples at {rate:g} a second; choose one of "
            f"at least {_SHORTEST_SIDE / rate:g} s"
        )
    places = np.arange(-side, side + 1, dtype=np.float64)
    curve = places**2 - np.mean(places**2)
    curve *= 2.0 / np.sum(places**2 * curve)
    # Its double sum is zero outside the window too, because it is blind to constants and straight lines.
    value = np.cumsum(np.cumsum(curve))[:-2]
    value = np.pad(0.5 * (value + value[::-1]), 1)
    slope = np.zeros_like(value)
    slope[1:-1] = 0.5 * (value[:-2] - value[2:])
    slope[[0, -1]] = -0.5 * value[1], 0.5 * value[-2]
    return np.stack([value, slope * rate, curve * rate**2])


def _butterworth_weights(smoothing: Smoothing, rate: float) -> FloatArray:
    cutoff, order = smoothing.cutoff, smoothing.order
    if cutoff > HIGHEST_SHARE * rate:
        raise MotionError(
            f"a cutoff of {cutoff:g} Hz cannot be had from {rate:g} samples a second; choose one below "
            f"{HIGHEST_SHARE * rate:g} Hz"
        )
    size = 2 * int(np.ceil(_PERIODS * order * rate / cutoff))
    turn = np.pi * np.arange(size // 2 + 1) / (size // 2)
    ratio = np.zeros_like(turn)
    ratio[:-1] = (np.tan(0.5 * turn[:-1]) / np.tan(np.pi * cutoff / rate)) ** 2
    gain = 1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * ratio**order)
    gain[-1] = 0.0
    half = irfft(gain, size)[: size // 2]
    left = np.cumsum(np.abs(half[::-1]))[::-1]
    edge = max(1, int(np.searchsorted(-left, -0.5 * _TAIL * np.sum(np.abs(half)))))
    half = half[: edge + 1] * _taper(edge)
    value = np.concatenate([half[:0:-1], half])
    value = np.pad(value / value.sum(), len(_SLOPE))
    slope, curve = np.zeros_like(value), _CURVE[0] * value
    for distance, (by_slope, by_curve) in enumerate(zip(_SLOPE, _CURVE[1:], strict=True), start=1):
        # The kernel is zero at its ends: nothing comes round.
        earlier, later = np.roll(value, -distance), np.roll(value, distance)
        slope += by_slope * (later - earlier)
        curve += by_curve * (later + earlier)
    return np.stack([value, slope * rate, curve * rate**2])


def _taper(edge: int) -> FloatArray:
    """Gives a window from one in the middle to nearly zero at the edge, flat over most of it, shape (edge + 1,)."""
    place = np.arange(edge + 1) / (edge + 1)
    return np.asarray(np.cos(0.5 * np.pi * np.clip((place - _FLAT) / (1.0 - _FLAT), 0.0, 1.0)) ** 2)


def is_number(value: Any) -> bool:
    """Tells whether a value is a finite number, not a truth value."""
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, int | float | np.integer | np.floating) and bool(np.isfinite(value))
