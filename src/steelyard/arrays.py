"""Types of the arrays and numbers that cross module boundaries."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite real number; booleans are not."""
    plain = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return plain and math.isfinite(value)
