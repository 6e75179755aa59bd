"""Singular values that do not fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import svd

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray


def singular_vectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gives ``U``, the singular values in descending order, and ``Vᵀ``, thin.

    LAPACK's divide and conquer, which numpy calls, was seen to give up on a finite 282 × 59 matrix with a null space
    of fourteen dimensions; its older brother, half as fast, does not.
    """
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, values, right = svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, values, right
