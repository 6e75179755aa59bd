"""The 48 signed axis permutations of a three-axis sensor, and their descriptions."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_AXES = "xyz"


@lru_cache(maxsize=1)
def signed_permutations() -> tuple[FloatArray, ...]:
    """Return all signed permutation matrices ``A`` of ``true = A reading``, the identity first."""
    matrices = []
    for order in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            matrix = np.zeros((3, 3))
            matrix[range(3), order] = signs
            matrix.setflags(write=False)
            matrices.append(matrix)
    return tuple(matrices)


def is_identity(axes: FloatArray) -> bool:
    """Return whether a permutation is the identity."""
    return bool(np.array_equal(axes, np.eye(3)))


def describe_permutation(axes: FloatArray) -> str:
    """Describe how a sensor is mounted relative to its frame: the end of a sentence that begins with "it is"."""
    if np.array_equal(axes, -np.eye(3)):
        return "of the opposite sign"
    if np.linalg.det(axes) < 0.0:
        reversed_axes = [axis for axis, sign in zip(_AXES, np.diag(axes), strict=True) if sign < 0.0]
        if np.count_nonzero(np.diag(axes)) == 3 and len(reversed_axes) == 1:
            return f"of the opposite sign along {reversed_axes[0]}"
        return f"mounted with {describe_axes(axes)}, which is not a right-handed frame"
    angle = round(np.degrees(np.arccos(np.clip((np.trace(axes) - 1.0) / 2.0, -1.0, 1.0))))
    skew = np.array([axes[2, 1] - axes[1, 2], axes[0, 2] - axes[2, 0], axes[1, 0] - axes[0, 1]])
    if angle == 90:
        number = int(np.argmax(np.abs(skew)))
        return f"rotated by {'+' if skew[number] > 0.0 else '-'}90° about {_AXES[number]}"
    if angle == 180 and np.count_nonzero(np.diag(axes)) == 3:
        number = int(np.argmax(np.diag(axes)))
        return f"rotated by 180° about {_AXES[number]}{', upside down' if number < 2 else ''}"
    return f"mounted with {describe_axes(axes)}"


def describe_mounting(axes: FloatArray) -> str:
    """Describe how a sensor is mounted relative to its frame, as a rotation and axis by axis."""
    rotation, order = describe_permutation(axes), describe_axes(axes)
    return rotation if order in rotation else f"{rotation} relative to its frame ({order})"


def describe_axes(axes: FloatArray) -> str:
    """Describe each true axis by the reading that holds it, such as ``x read as -y, y read as x, z read as z``."""
    parts = []
    for row, axis in enumerate(_AXES):
        column = int(np.argmax(np.abs(axes[row])))
        parts.append(f"{axis} read as {'-' if axes[row, column] < 0.0 else ''}{_AXES[column]}")
    return ", ".join(parts)
