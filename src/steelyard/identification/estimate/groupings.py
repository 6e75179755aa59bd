"""Combinations of parameters in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray


def describe_grouping(leader: str, names: Sequence[str], coefficients: FloatArray, *, terms: int | None = None) -> str:
    """Gives a combination in words, its leader first, then whole coefficients, then the largest others.

    Args:
        leader: Name of the parameter that leads it, with coefficient one.
        names: Names of all parameters.
        coefficients: Of each, shape (n,).
        terms: How many terms at most are written out; None for all.
    """
    others = [place for place in np.flatnonzero(coefficients).tolist() if names[place] != leader]
    others.sort(key=lambda place: (not _is_one(float(coefficients[place])), -abs(float(coefficients[place]))))
    shown = others if terms is None else others[: max(0, terms - 1)]
    words = [leader] + [_term(names[place], float(coefficients[place])) for place in shown]
    rest = len(others) - len(shown)
    return " ".join(words) + (f" + {rest} more" if rest else "")


def _is_one(coefficient: float) -> bool:
    return abs(abs(coefficient) - 1.0) < 1e-9


def _term(name: str, coefficient: float) -> str:
    sign = "+" if coefficient > 0.0 else "-"
    return f"{sign} {name}" if _is_one(coefficient) else f"{sign} {abs(coefficient):.3g}·{name}"
