"""Poses that follow each other closely share errors: how alike what is left of them is, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.calibration.solving import Reduced
    from steelyard.model.parameters import FloatArray

_LONGEST = 30.0
"""Seconds over which poses may be alike."""

_BINS = np.array([0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 22.0, 30.0])
_SURE = 3.0
_BLOCK = 2000


def likeness(time: FloatArray, residuals: FloatArray) -> tuple[float, float]:
    """Gives how alike poses are that follow each other: ``c exp(−Δt / τ)``, as the share c and the time τ (s).

    Residuals of poses at most 30 s apart are multiplied, and averaged by how far apart they are; c is zero where that
    could be chance.

    Args:
        time: Of the poses, shape (n,), s.
        residuals: Whitened, shape (n, n_rows).
    """
    order = np.argsort(time, kind="stable")
    time, residuals = time[order], residuals[order]
    sums, counts = np.zeros(len(_BINS) - 1), np.zeros(len(_BINS) - 1)
    squares = float(np.mean(np.sum(residuals**2, axis=1)))
    if squares <= 0.0 or len(time) < 8:
        return 0.0, 1.0
    for shift in range(1, len(time)):
        gaps = time[shift:] - time[:-shift]
        if gaps.min() > _LONGEST or counts.min() > 5000:
            break
        products = np.einsum("nr,nr->n", residuals[shift:], residuals[:-shift]) / squares
        where = np.digitize(gaps, _BINS) - 1
        inside = (where >= 0) & (where < len(sums)) & (gaps > 0.0)
        np.add.at(sums, where[inside], products[inside])
        np.add.at(counts, where[inside], 1.0)
    there = counts > 0
    if not there.any():
        return 0.0, 1.0
    means = sums[there] / counts[there]
    middles = 0.5 * (_BINS[1:] + _BINS[:-1])[there]
    # Independent products of r rows have the spread 1/√r at least; three of them above zero are no chance.
    rows = max(1.0, float(np.linalg.matrix_rank(residuals[: 4 * residuals.shape[1]])))
    spread = 1.0 / np.sqrt(rows * counts[there])
    best, share, fitted = np.inf, 0.0, 1.0
    for tau in np.geomspace(0.1, _LONGEST, 40):
        shape = np.exp(-middles / tau)
        weight = shape / spread**2
        amount = float(np.clip(np.sum(weight * means) / np.sum(weight * shape), 0.0, 1.0))
        misfit = float(np.sum(((means - amount * shape) / spread) ** 2))
        if misfit < best:
            best, share, fitted = misfit, amount, float(tau)
    sure = share * np.sqrt(np.sum((np.exp(-middles / fitted) / spread) ** 2))
    return (share, fitted) if sure > _SURE else (0.0, 1.0)


def score_covariance(time: FloatArray, reduced: Reduced, share: float, tau: float) -> FloatArray:
    """Gives the covariance of the shared unknowns' scores if poses are alike by ``c exp(−Δt / τ)``, (n, n).

    Args:
        time: Of the poses, shape (n_poses,), s.
        reduced: Their rows.
        share: The share c.
        tau: The time τ, s.
    """
    order = np.argsort(time, kind="stable")
    time, slopes = time[order], reduced.by_shared[order]
    count = slopes.shape[2]
    flat = slopes.reshape(-1, count)
    total = (1.0 - share) * flat.T @ flat
    reach = 8.0 * tau
    for start in range(0, len(time), _BLOCK):
        stop = min(len(time), start + _BLOCK)
        first, last = np.searchsorted(time, [time[start] - reach, time[stop - 1] + reach])
        kernel = np.exp(-np.abs(time[start:stop, None] - time[None, first:last]) / tau)
        total += share * np.einsum(
            "pri,prj->ij", slopes[start:stop], np.einsum("pq,qrj->prj", kernel, slopes[first:last])
        )
    return np.asarray(total)
