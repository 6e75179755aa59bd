"""LDLᵀ factors and inverses of many symmetric 4 × 4 matrices at once, in a few dozen array operations.

A symmetric matrix is given by its lower triangle, row by row: ten entries along the first axis. Links and chains follow
it, so that each operation runs over thousands of matrices that are contiguous in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

ROWS = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
"""Row of each entry."""

COLUMNS = np.array([0, 0, 1, 0, 1, 2, 0, 1, 2, 3])
"""Column of each entry."""

COUNTS = np.where(ROWS == COLUMNS, 1.0, 2.0)
"""Number of times each entry occurs in the full matrix."""

DIAGONAL = np.flatnonzero(ROWS == COLUMNS)
"""Numbers of the entries on the diagonal."""


def to_matrices(entries: FloatArray) -> FloatArray:
    """Return full matrices, shape (..., 4, 4), of entries of shape (..., 10); here the entries come last."""
    matrices = np.empty((*entries.shape[:-1], 4, 4))
    matrices[..., ROWS, COLUMNS] = entries
    matrices[..., COLUMNS, ROWS] = entries
    return matrices


def factor_ldl(entries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``L`` and ``d`` of ``X = L diag(d) Lᵀ``: entries below the diagonal (6, ...), and pivots (4, ...).

    A matrix is positive definite exactly where all four pivots are positive; where one is not, those after it are
    undefined.
    """
    a00, a10, a11, a20, a21, a22, a30, a31, a32, a33 = entries
    below, pivots = np.empty((6, *a00.shape)), np.empty((4, *a00.shape))
    with np.errstate(all="ignore"):
        pivots[0] = a00
        below[0] = a10 / a00
        below[1] = a20 / a00
        below[3] = a30 / a00
        pivots[1] = a11 - below[0] * a10
        c21, c31 = a21 - below[1] * a10, a31 - below[3] * a10
        below[2] = c21 / pivots[1]
        below[4] = c31 / pivots[1]
        pivots[2] = a22 - below[1] * a20 - below[2] * c21
        c32 = a32 - below[3] * a20 - below[4] * c21
        below[5] = c32 / pivots[2]
        pivots[3] = a33 - below[3] * a30 - below[4] * c31 - below[5] * c32
    return below, pivots


def are_positive(pivots: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which matrices are positive definite, shape (...,), by their pivots (4, ...)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.all(pivots > 0.0, axis=0))


def invert_ldl(below: FloatArray, pivots: FloatArray) -> FloatArray:
    """Return the entries of ``X⁻¹``, shape (10, ...), from the factors of positive definite matrices."""
    l10, l20, l21, l30, l31, l32 = below
    with np.errstate(all="ignore"):
        e0, e1, e2, e3 = 1.0 / pivots
        # The rows of L⁻¹.
        m20 = l10 * l21 - l20
        m31 = l21 * l32 - l31
        m30 = -l30 + l20 * l32 - l10 * m31
        inverse = np.empty((10, *l10.shape))
        f31, f30, f20, f32 = e3 * m31, e3 * m30, e2 * m20, e3 * l32
        inverse[0] = e0 + e1 * l10 * l10 + f20 * m20 + f30 * m30
        inverse[1] = -e1 * l10 - f20 * l21 + f30 * m31
        inverse[2] = e1 + e2 * l21 * l21 + f31 * m31
        inverse[3] = f20 - f30 * l32
        inverse[4] = -e2 * l21 - f31 * l32
        inverse[5] = e2 + f32 * l32
        inverse[6] = f30
        inverse[7] = f31
        inverse[8] = -f32
        inverse[9] = e3
    return inverse
