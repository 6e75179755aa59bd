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
    known = set(names)
    partners = ((name, translate(name, left, right)) for name in names)
    return [(name, partner) for name, partner in partners if partner in known and partner != name]


def translate(name: str, pattern: str, other: str) -> str | None:
    """Gives `other` with the texts that each ``*`` of `pattern` stands for in `name`; None where it does not match."""
    match = _expression(pattern).fullmatch(name)
    if match is None:
        return None
    return "".join(piece + text for piece, text in zip(other.split("*"), [*match.groups(), ""], strict=True))


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(piece) for piece in pattern.split("*")), flags=re.DOTALL)
