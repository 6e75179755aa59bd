"""Autocorrelated noise: the covariance of estimates from oversampled or coloured data.

The standard error of a least-squares estimate assumes rows with independent noise. A filter, quantised or
differentiated encoders, and a vibrating floor leave noise that is not. With ``Q`` an orthonormal basis of the
regressor's columns and ``Γ_l`` the covariance of the residual's rows `l` samples apart, the noise in ``Qᵀ f`` has

    Ω = Σ_l Σ_t Q_tᵀ Γ_l Q_{t+l},

whatever its spectrum. The sum runs over lags up to √n with Parzen's window, which keeps Ω positive definite [Priestley,
Spectral Analysis and Time Series, 1981, 6.2; Newey and West, Econometrica 55, 1987], and is computed as a product of
spectra. At each frequency the residual is corrected for the share of noise that the fitted parameters absorbed: a few
hundred parameters that all act below 2 Hz leave less of the noise there than above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.regression.second_pass.motion_rows import CHUNK, gapless_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.motion import Motion

GREATEST_SHARE = 0.8
"""Greatest share of the noise at one frequency that is corrected for as absorbed by the parameters. Set by judgement:
beyond it, the fifth that is left is too small a sample of the noise."""

_FEWEST_LAGS = 4
"""Fewest lags, for short series. Set by judgement."""


@dataclass(frozen=True, eq=False)
class Autocovariance:
    """Autocovariance of the noise of rows.

    Attributes:
        lags: ``w_l Γ_l``, ``Γ_l = E e_t e_{t+l}ᵀ``, tapered, shape (n_lags, n_rows, n_rows).
        taken: Share that the fit absorbed, ``w_l / n Σ_t Q_t Q_{t+l}ᵀ``, shape (n_lags, n_rows, n_rows).
    """

    lags: FloatArray
    taken: FloatArray

    def density(self, size: int) -> np.ndarray:
        """Compute the cross-spectral density ``Σ_l Γ_l exp(−iωl)`` at frequencies of a transform of `size` samples.

        Shape (size // 2 + 1, n_rows, n_rows), complex, Hermitian and not negative.
        """
        spectrum = _transform(self.lags, size)
        shares, directions = np.linalg.eigh(_transform(self.taken, size))
        corrected = directions / np.sqrt(1.0 - np.clip(shares, 0.0, GREATEST_SHARE))[:, None, :]
        factor = corrected @ directions.conj().swapaxes(1, 2)
        return np.asarray(factor @ spectrum @ factor)


def default_lags(count: int) -> int:
    """Return the number of lags to use in `count` samples."""
    return min(max(_FEWEST_LAGS, int(np.ceil(np.sqrt(count)))), max(1, count // 4))


def estimate_autocovariance(
    motion: Motion,
    residual: FloatArray,
    basis: Callable[[int, int], FloatArray] | None = None,
    *,
    lags: int | None = None,
) -> Autocovariance:
    """Estimate the autocovariance of the noise in a residual.

    Args:
        motion: The motion whose residual it is; samples across its gaps count as independent.
        residual: Shape (n, n_rows).
        basis: Returns the rows ``Q`` of the fit from one sample to before another, shape (m, n_rows, n_columns): what
            the fit has absorbed of the noise. Without it, nothing was fitted.
        lags: Number of lags; by default √n.
    """
    count, width = residual.shape
    reach = default_lags(count) if lags is None else lags
    covariances, taken = np.zeros((2, reach + 1, width, width))
    for start, stop in gapless_ranges(motion):
        piece = residual[start:stop]
        for lag in range(min(reach, len(piece) - 1) + 1):
            covariances[lag] += piece[: len(piece) - lag].T @ piece[lag:]
        if basis is None:
            continue
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            rows = np.ascontiguousarray(basis(first, min(last + reach, stop)).swapaxes(0, 1))
            for lag in range(min(reach, rows.shape[1] - 1) + 1):
                ahead = rows[:, lag : last - first + lag]
                taken[lag] += rows[:, : ahead.shape[1]].reshape(width, -1) @ ahead.reshape(width, -1).T
    scale = (_taper(reach) / count)[:, None, None]
    return Autocovariance(covariances * scale, taken * scale)


def correlated_products(
    motion: Motion, basis: Callable[[int, int], FloatArray], noise: Autocovariance, columns: int
) -> FloatArray:
    """Compute ``Ω = Qᵀ C Q``: the covariance of ``Qᵀ f`` under autocorrelated noise.

    Args:
        motion: The motion.
        basis: Returns the rows ``Q`` from one sample to before another, shape (m, n_rows, n_columns).
        noise: Autocovariance of the noise.
        columns: Number of columns of ``Q``.

    Returns:
        Shape (n_columns, n_columns), symmetric.
    """
    reach = len(noise.lags) - 1
    total = np.zeros((columns, columns))
    size = _round_up(CHUNK + 4 * reach)
    density = noise.density(size)
    for start, stop in gapless_ranges(motion):
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            # Chunks overlap by the longest lag, so that correlation across their boundary is counted.
            low, high = max(start, first - reach), min(stop, last + reach)
            rows = basis(low, high)
            spectrum = np.fft.rfft(rows, size, axis=0)
            mixed = np.fft.irfft(density @ spectrum, size, axis=0)
            here = slice(first - low, last - low)
            total += rows[here].reshape(-1, columns).T @ mixed[here].reshape(-1, columns)
    return 0.5 * (total + total.T)


def long_run_variances(motion: Motion, series: FloatArray) -> FloatArray:
    """Estimate the variance of the sum of each of some series from their scatter, shape (n_series,).

    Unlike in `correlated_products`, the noise need not be stationary: each sample's contribution enters as it is [Newey
    and West, 1987].

    Args:
        motion: The motion; samples across its gaps count as independent.
        series: Shape (n, n_series).
    """
    taper = _taper(default_lags(len(series)))
    total = np.zeros(series.shape[1])
    for start, stop in gapless_ranges(motion):
        piece = series[start:stop]
        for lag, weight in enumerate(taper[: len(piece)]):
            both = np.einsum("nc,nc->c", piece[: len(piece) - lag], piece[lag:])
            total += both if lag == 0 else 2.0 * weight * both
    return np.asarray(np.maximum(total, 0.0))


def correct_leverage(rows: FloatArray, residual: FloatArray) -> FloatArray:
    """Return a residual corrected for what the fit absorbed of each sample, ``(1 − Q_t Q_tᵀ)^(−1/2) e_t``, (n, n_rows).

    Args:
        rows: ``Q``, shape (n, n_rows, n_columns).
        residual: Shape (n, n_rows).
    """
    shares, directions = np.linalg.eigh(rows @ rows.swapaxes(1, 2))
    turned = np.einsum("nij,ni->nj", directions, residual) / np.sqrt(1.0 - np.clip(shares, 0.0, GREATEST_SHARE))
    return np.asarray(np.einsum("nij,nj->ni", directions, turned))


def effective_samples(count: float, variance: float, products: FloatArray) -> float:
    """Return the effective number of independent samples of correlated ones.

    Args:
        count: Samples.
        variance: Of a row.
        products: ``Ω``; with independent rows it would be `variance` times one.

    Returns:
        More than `count` where the noise of neighbours cancels.
    """
    return float(count * variance * len(products) / max(np.trace(products), np.finfo(np.float64).tiny))


def positive_root(products: FloatArray) -> FloatArray:
    """Compute ``L`` with ``L Lᵀ`` a covariance that rounding and finite samples may have left slightly indefinite."""
    values, vectors = np.linalg.eigh(products)
    floor = np.finfo(np.float64).eps * len(values) * max(values[-1], np.finfo(np.float64).tiny)
    return np.asarray(vectors * np.sqrt(np.maximum(values, floor)))


def _taper(reach: int) -> FloatArray:
    """Return Parzen's weights of the lags up to `reach`."""
    share = np.arange(reach + 1) / (reach + 1.0)
    return np.where(share <= 0.5, 1.0 - 6.0 * share**2 * (1.0 - share), 2.0 * (1.0 - share) ** 3)


def _transform(lags: FloatArray, size: int) -> np.ndarray:
    """Compute ``Σ_l A_l exp(−iωl)`` of matrices with ``A_{−l} = A_lᵀ``, shape (size // 2 + 1, n, n)."""
    count = len(lags)
    wrapped = np.zeros((size, *lags.shape[1:]))
    wrapped[:count] = lags
    wrapped[size - count + 1 :] = lags[:0:-1].swapaxes(1, 2)
    return np.asarray(np.fft.rfft(wrapped, axis=0))


def _round_up(size: int) -> int:
    return 1 << int(np.ceil(np.log2(size)))
