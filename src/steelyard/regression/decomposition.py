"""Singular value decompositions with a fallback, and linear dependence between columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import svd

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray


def singular_vectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute ``U``, the singular values in descending order, and ``Vᵀ``, thin.

    LAPACK's divide and conquer (gesdd), which numpy calls, was seen not to converge on a finite 282 × 59 matrix with a
    null space of 14 dimensions; gesvd, half as fast, did.
    """
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, values, right = svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, values, right


def complete_vectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute ``U`` (thin), the singular values in descending order, and all of ``Vᵀ``, square."""
    count = matrix.shape[1]
    if not len(matrix):
        return np.zeros((0, 0)), np.zeros(0), np.eye(count)
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=True)
    except np.linalg.LinAlgError:
        left, values, right = svd(matrix, full_matrices=True, lapack_driver="gesvd")
    return left[:, : len(values)], values, right


def leading_columns(matrix: FloatArray, tolerance: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the columns, in order, that are linearly independent of those before them.

    Args:
        matrix: Shape (n_rows, n_columns).
        tolerance: Least norm that a unit column must keep after projection onto the complement of those before it.
    """
    scaled, _ = _scaled(matrix)
    directions = np.empty((scaled.shape[0], min(scaled.shape)), order="F")
    kept: list[int] = []
    for number, column in enumerate(scaled.T):
        if len(kept) == directions.shape[1]:
            break
        before = directions[:, : len(kept)]
        rest = np.array(column)
        for _ in range(2):  # twice is enough: the second pass removes the rounding of the first
            rest -= before @ (rest @ before)
        size = float(np.linalg.norm(rest))
        if size > tolerance:
            directions[:, len(kept)] = rest / size
            kept.append(number)
    return np.array(kept, dtype=np.int64)


def dependence_on(matrix: FloatArray, leading: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """Compute ``K`` with ``matrix = matrix[:, leading] K``, rounding set to zero, shape (n_leading, n_columns)."""
    scaled, lengths = _scaled(matrix)
    dependence = np.linalg.lstsq(scaled[:, leading], scaled, rcond=None)[0]
    dependence *= lengths[None, :] / lengths[leading][:, None]
    dependence[np.abs(dependence) < 1e-10 * np.max(np.abs(dependence), axis=0, initial=1e-300)] = 0.0
    dependence[:, leading] = np.eye(len(leading))
    return np.asarray(dependence)


def _scaled(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the columns scaled to unit norm, and their norms; columns that are zero beside the others stay zero."""
    lengths = np.linalg.norm(matrix, axis=0)
    busy = lengths > 1e-12 * np.max(lengths, initial=0.0)
    lengths = np.where(busy, lengths, 1.0)
    return np.where(busy, matrix / lengths, 0.0), lengths
