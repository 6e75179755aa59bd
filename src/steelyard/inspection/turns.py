"""The 48 ways in which a three-axis sensor can be mounted at right angles, and what to call them."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_AXES = "xyz"


@lru_cache(maxsize=1)
def all_turns() -> tuple[FloatArray, ...]:
    """Gives all signed permutations: matrices ``A`` with ``true = A reading``, the one that changes nothing first."""
    turns = []
    for order in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            turn = np.zeros((3, 3))
            turn[range(3), order] = signs
            turn.setflags(write=False)
            turns.append(turn)
    return tuple(turns)


def is_same(turn: FloatArray) -> bool:
    """Tells whether a turn changes nothing."""
    return bool(np.array_equal(turn, np.eye(3)))


def describe_turn(turn: FloatArray) -> str:
    """Gives in words how a sensor is mounted against its frame: the end of a sentence that begins with "it is"."""
    if np.array_equal(turn, -np.eye(3)):
        return "of the opposite sign"
    if np.linalg.det(turn) < 0.0:
        reversed_axes = [axis for axis, sign in zip(_AXES, np.diag(turn), strict=True) if sign < 0.0]
        if np.count_nonzero(np.diag(turn)) == 3 and len(reversed_axes) == 1:
            return f"of the opposite sign along {reversed_axes[0]}"
        return f"mounted with {describe_order(turn)}, which is not a right-handed frame"
    angle = round(np.degrees(np.arccos(np.clip((np.trace(turn) - 1.0) / 2.0, -1.0, 1.0))))
    skew = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    if angle == 90:
        number = int(np.argmax(np.abs(skew)))
        return f"turned by {'+' if skew[number] > 0.0 else '-'}90° about {_AXES[number]}"
    if angle == 180 and np.count_nonzero(np.diag(turn)) == 3:
        number = int(np.argmax(np.diag(turn)))
        return f"turned by 180° about {_AXES[number]}{', upside down' if number < 2 else ''}"
    return f"mounted with {describe_order(turn)}"


def describe_mounting(turn: FloatArray) -> str:
    """Gives how a sensor is mounted against its frame, in words and axis by axis."""
    words, order = describe_turn(turn), describe_order(turn)
    return f"{words}" if order in words else f"{words} against its frame ({order})"


def describe_order(turn: FloatArray) -> str:
    """Gives what each true axis is read as, such as ``x read as -y, y read as x, z read as z``."""
    parts = []
    for row, axis in enumerate(_AXES):
        column = int(np.argmax(np.abs(turn[row])))
        parts.append(f"{axis} read as {'-' if turn[row, column] < 0.0 else ''}{_AXES[column]}")
    return ", ".join(parts)
