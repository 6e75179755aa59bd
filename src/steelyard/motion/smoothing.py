"""Zero-phase smoothing and derivatives of evenly sampled channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.signal import butter, sosfiltfilt

from steelyard.exceptions import MotionError

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray

EDGE_PERIODS = 3.0
"""Periods of the cutoff frequency at each end in which a smoothed channel is not to be trusted."""


def smooth(values: Any, rate: float, cutoff: float, *, order: int = 4) -> FloatArray:
    """Gives channels through a Butterworth filter, forwards and backwards, so that nothing is shifted in time.

    Passing twice squares the response; the filter is designed so that the *whole* has its −3 dB at `cutoff`.

    Args:
        values: Shape (n, ...), evenly sampled along the first axis.
        rate: Samples a second.
        cutoff: Frequency (Hz) at which the power is halved.
        order: Of the filter that passes twice.

    Raises:
        MotionError: The cutoff is not below half the sample rate, or there are too few samples.
    """
    design = cutoff / (np.sqrt(2.0) - 1.0) ** (1.0 / (2.0 * order))
    if not 0.0 < design < 0.5 * rate:
        raise MotionError(
            f"a cutoff of {cutoff:g} Hz cannot be had from {rate:g} samples a second; choose one below "
            f"{0.4 * rate:g} Hz"
        )
    array = np.asarray(values, dtype=np.float64)
    padding = round(EDGE_PERIODS / cutoff * rate)
    if len(array) <= padding:
        raise MotionError(
            f"{len(array)} samples are too few for a cutoff of {cutoff:g} Hz, which needs more than {padding}; record "
            "longer, or raise the cutoff"
        )
    sections = butter(order, design, fs=rate, output="sos")
    return np.asarray(sosfiltfilt(sections, array, axis=0, padlen=padding))


def differentiate(values: FloatArray, rate: float) -> FloatArray:
    """Gives first derivatives by central differences of fourth order, shape (n, ...); the two ends are not numbers."""
    result = np.full_like(values, np.nan)
    result[2:-2] = (values[:-4] - values[4:] + 8.0 * (values[3:-1] - values[1:-3])) * (rate / 12.0)
    return result


def differentiate_twice(values: FloatArray, rate: float) -> FloatArray:
    """Gives second derivatives by central differences of fourth order, shape (n, ...); the two ends are not numbers."""
    result = np.full_like(values, np.nan)
    result[2:-2] = (16.0 * (values[1:-3] + values[3:-1]) - values[:-4] - values[4:] - 30.0 * values[2:-2]) * (
        rate**2 / 12.0
    )
    return result
