"""What users give the laboratory: numbers that are numbers, seeds that are seeds."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from steelyard.exceptions import LaboratoryError


def is_number(value: Any) -> TypeGuard[float]:
    """Tells whether something is a finite real number; truth values are none."""
    plain = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return plain and math.isfinite(value)


def as_seed(seed: Any) -> int:
    """Gives a seed as a whole number.

    Raises:
        LaboratoryError: It is none.
    """
    if not is_number(seed) or isinstance(seed, float | np.floating) or seed < 0:
        raise LaboratoryError(f"the seed is {seed!r}; give a whole number, zero or more")
    return int(seed)
