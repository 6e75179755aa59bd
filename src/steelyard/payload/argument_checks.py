"""Entry checks of `find_payload`: its arguments, before the data are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError, IdentifiabilityError
from steelyard.model import match_pattern
from steelyard.regression import Evidence
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model


def choose_links(model: Model, patterns: str | Sequence[str] | None) -> list[int]:
    """Return the numbers of the links that may carry a load; None for all.

    Raises:
        IdentifiabilityError: A pattern matches no link, or there is no pattern.
    """
    if patterns is None:
        return list(range(len(model.links)))
    wanted = [patterns] if isinstance(patterns, str) else [str(pattern) for pattern in patterns]
    if not wanted:
        raise IdentifiabilityError("links names no link that may carry a load; name some, or leave it out for all")
    chosen: set[str] = set()
    for pattern in wanted:
        matched = match_pattern(pattern, model.links)
        if not matched:
            near = did_you_mean(pattern, model.links) or f"; there are {in_words(model.links)}"
            raise IdentifiabilityError(f"no link is called {pattern!r}{near}", names=[pattern])
        chosen |= set(matched)
    return [number for number, link in enumerate(model.links) if link in chosen]


def check_arguments(evidence: Any, baseline: Any, cad_spread: Any, most: Any, level: Any, least_mass: Any) -> None:
    """Raise where an argument of `find_payload` is invalid.

    Raises:
        EvidenceError: The evidence or the baseline is not Evidence.
        IdentifiabilityError: Another argument is invalid.
    """
    for name, given in (("evidence", evidence), ("baseline", baseline)):
        if not isinstance(given, Evidence) and not (name == "baseline" and given is None):
            raise EvidenceError(f"the {name} is {type(given).__name__}, not Evidence; gather it with gather_evidence")
    if cad_spread is not None and not _is_positive(cad_spread):
        raise IdentifiabilityError(
            f"cad_spread is {cad_spread!r}; give the relative error of the model's masses, such as 0.2, or None"
        )
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise IdentifiabilityError(f"most is {most!r}; give the greatest number of loads to search for, 1 or more")
    if not _is_positive(level) or not 0.0 < level < 1.0:
        raise IdentifiabilityError(f"the level is {level!r}; give a probability between 0 and 1, such as 0.01")
    if least_mass is not None and not _is_positive(least_mass):
        raise IdentifiabilityError(f"least_mass is {least_mass!r}; give kilograms, zero or more")


def _is_positive(value: Any) -> bool:
    """Return whether a value is a finite number, zero or more."""
    real = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    return bool(real and np.isfinite(value) and value >= 0.0)
