"""Names and patterns: matching them, and offering the nearest where one is unknown."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Gives a clause that offers the names nearest to `name`, or lists what there is, or nothing."""
    known = list(dict.fromkeys(candidates))
    folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=2, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(repr(folded[match]) for match in near) + "?"
    if known and len(known) <= 12:
        return "; there are " + ", ".join(repr(candidate) for candidate in known)
    return ""


def in_words(names: Sequence[str], *, limit: int = 4) -> str:
    """Gives 'a', 'a and b', or 'a, b, c, d and 7 more'."""
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    if len(names) > 1:
        return ", ".join(names[:-1]) + " and " + names[-1]
    return "".join(names)


def match_pattern(pattern: str, names: Iterable[str]) -> list[str]:
    """Gives the names that `pattern` matches, in order; ``*`` stands for any text, case counts."""
    expression = _expression(pattern)
    return [name for name in names if expression.fullmatch(name)]


def pair_by_patterns(left: str, right: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Gives the pairs of names that match `left` and `right` with the same text in place of each ``*``."""
    expression = _expression(left)
    known = set(names)
    pairs = []
    for name in names:
        match = expression.fullmatch(name)
        if match is None:
            continue
        pieces = right.split("*")
        captured = [*match.groups(), ""]
        partner = "".join(piece + text for piece, text in zip(pieces, captured, strict=True))
        if partner in known and partner != name:
            pairs.append((name, partner))
    return pairs


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(piece) for piece in pattern.split("*")), flags=re.DOTALL)
