"""Degrees of freedom of a mean square error whose samples are correlated in time and between rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import next_fast_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

_MOST_SAMPLES = 2000
"""Samples whose correlations are computed at most: errors with so few independent blocks change slowly, and every other
sample of them has the same correlations. Set by judgement."""

_CONSTANT = 0.5
"""Subtracted from the degrees of freedom: the estimate counts a constant error, which is one number, as 1.5."""


def count_freedom(segments: Sequence[FloatArray]) -> float:
    """Return the degrees of freedom of ``Σ ‖e‖²`` of Gaussian errors.

    ``Σ ‖e‖²`` has the mean ``n tr C₀`` and the variance ``2 n Σ_h ‖C_h‖²``, with ``C_h`` the covariance of errors ``h``
    samples apart; it is distributed about as χ² with ``ν = n (tr C₀)² / Σ_h ‖C_h‖²`` [satterthwaite1946]. The mean is
    not subtracted from the errors: one that is constant is one number, not many.

    Args:
        segments: Errors without gaps, shape (n, n_rows) each; errors of different segments count as independent.
    """
    every = max(1, sum(len(each) for each in segments) // _MOST_SAMPLES)
    total = variance = 0.0
    for segment in segments:
        errors = segment[::every]
        count = len(errors)
        spectrum = np.fft.rfft(errors, next_fast_len(2 * count, real=True), axis=0)
        products = np.zeros(count)
        # One row at a time, so that only the spectra of one row with all others are held.
        for row in range(errors.shape[1]):
            lagged = np.fft.irfft(
                spectrum[:, row : row + 1].conj() * spectrum, next_fast_len(2 * count, real=True), axis=0
            )
            products += np.square(lagged[:count]).sum(axis=1)
        total += float(np.sum(np.square(errors)))
        variance += float(2.0 * products.sum() - products[0]) / count
    return max(0.0, total**2 / variance - _CONSTANT) if variance > 0.0 else 0.0
