"""Compiled kernels that project unknown forces out of each sample's rows and whiten what is left."""

from __future__ import annotations

import numpy as np

from steelyard.kinematics import compiled


@compiled
def reduce_rows(rows, noise, unknown, present, kept):
    """Project unknown forces out of each sample's rows, then whiten what is left, in place.

    ``rows`` of a sample become ``L⁻¹ N rows`` with ``N`` an orthonormal basis of the null space of ``H_uᵀ``
    [yamane2011] (14)-(16), by Householder reflections, and ``L Lᵀ = N C Nᵀ`` the covariance of the noise that is left
    there. Rows that are used up are zero; `kept` counts the others.

    Args:
        rows: ``[Y | f]``, shape (n_samples, n_rows, n_columns).
        noise: Root of the noise, ``C = noise noiseᵀ``, shape (n_samples, n_rows, n_noise), overwritten; without
            columns, there is none.
        unknown: ``H_uᵀ``, shape (n_samples, n_rows, n_unknown), overwritten.
        present: Which unknown forces act, shape (n_samples, n_unknown).
        kept: Number of rows left, shape (n_samples,), written to.
    """
    count = rows.shape[1]
    width = rows.shape[2]
    factor = np.empty((count, count))
    reflector = np.empty(count)
    totals = np.empty(max(width, unknown.shape[2], noise.shape[2]))
    for sample in range(rows.shape[0]):
        size = 0.0
        for c in range(unknown.shape[2]):
            if present[sample, c]:
                for i in range(count):
                    size = max(size, abs(unknown[sample, i, c]))
        used = 0
        for c in range(unknown.shape[2]):
            if not present[sample, c] or used == count:
                continue
            norm = 0.0
            for i in range(used, count):
                norm += unknown[sample, i, c] * unknown[sample, i, c]
            norm = np.sqrt(norm)
            # Already in the span of earlier unknown forces, up to rounding.
            if norm <= 1e-9 * size:
                continue
            pivot = unknown[sample, used, c]
            shifted = pivot + (norm if pivot >= 0.0 else -norm)
            reflector[used] = 1.0
            for i in range(used + 1, count):
                reflector[i] = unknown[sample, i, c] / shifted
            scale = abs(shifted) / norm
            _reflect(unknown, sample, reflector, used, scale, totals)
            _reflect(rows, sample, reflector, used, scale, totals)
            _reflect(noise, sample, reflector, used, scale, totals)
            used += 1
        for i in range(used):
            for j in range(width):
                rows[sample, i, j] = 0.0
        if noise.shape[2] > 0:
            _whiten(rows, noise, sample, used, factor)
        left = 0
        for i in range(used, count):
            for j in range(width):
                if rows[sample, i, j] != 0.0:
                    left += 1
                    break
        kept[sample] = left


@compiled
def _reflect(array, sample, reflector, first, scale, totals):
    """Apply ``1 − scale · r rᵀ`` to a sample's rows from `first` on; rows outside, so that columns vectorise."""
    width = array.shape[2]
    for j in range(width):
        totals[j] = 0.0
    for i in range(first, array.shape[1]):
        weight = reflector[i]
        for j in range(width):
            totals[j] += weight * array[sample, i, j]
    for i in range(first, array.shape[1]):
        weight = scale * reflector[i]
        for j in range(width):
            array[sample, i, j] -= weight * totals[j]


@compiled
def _whiten(rows, noise, sample, first, factor):
    """Divide a sample's rows from `first` on by the Cholesky factor of their noise, in place."""
    count = rows.shape[1]
    for i in range(first, count):
        for j in range(first, i + 1):
            total = 0.0
            for k in range(noise.shape[2]):
                total += noise[sample, i, k] * noise[sample, j, k]
            for k in range(first, j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = np.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(first, count):
        for k in range(first, i):
            weight = factor[i, k]
            for j in range(rows.shape[2]):
                rows[sample, i, j] -= weight * rows[sample, k, j]
        inverse = 1.0 / factor[i, i]
        for j in range(rows.shape[2]):
            rows[sample, i, j] *= inverse
