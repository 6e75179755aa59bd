"""Checks of the options that methods share."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.exceptions import IdentifiabilityError

Scale = Literal["spread", "none"]


def check_scale(scale: Scale) -> None:
    """Refuse an unknown scale."""
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")


def check_condition(c_max: float | None) -> None:
    """Refuse a greatest condition number that is not above one."""
    number = isinstance(c_max, int | float | np.number) and not isinstance(c_max, bool)
    if c_max is not None and not (number and c_max > 1.0):
        raise IdentifiabilityError(f"c_max is {c_max!r}; it must be a number greater than one")


def check_positive(name: str, value: Any) -> None:
    """Refuse what is no finite number above zero."""
    if not (is_finite_number(value) and value > 0.0):
        raise IdentifiabilityError(f"{name} is {value!r}; it must be a number greater than zero")


def check_between(name: str, value: Any, low: float, high: float = np.inf) -> None:
    """Refuse what is no finite number between two limits."""
    if not (is_finite_number(value) and low <= value <= high):
        wanted = f"from {low:g} to {high:g}" if np.isfinite(high) else f"of at least {low:g}"
        raise IdentifiabilityError(f"{name} is {value!r}; it must be a number {wanted}")
