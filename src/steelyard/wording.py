"""Wording of messages: lists of names, the nearest known name, counts, and other libraries' errors on one line."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a clause that offers the names nearest to `name`, lists all if they are few, or is empty."""
    known = list(dict.fromkeys(candidates))
    folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=2, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(repr(folded[match]) for match in near) + "?"
    if known and len(known) <= 12:
        return "; there are " + ", ".join(repr(candidate) for candidate in known)
    return ""


def in_words(names: Sequence[str], *, limit: int = 4) -> str:
    """Return 'a', 'a and b', or 'a, b, c, d and 7 more'."""
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    if len(names) > 1:
        return ", ".join(names[:-1]) + " and " + names[-1]
    return "".join(names)


def show_name(name: str) -> str:
    """Return a name quoted for a message, cut to 60 characters."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def show_names(names: Iterable[str], *, limit: int = 4) -> str:
    """Return names quoted and listed for a message, each cut to 60 characters."""
    return in_words([show_name(name) for name in names], limit=limit) or "no columns"


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun, such as '1 column is' or '3 columns are'."""
    return f"{number} {one if number == 1 else many}"


def reason(error: BaseException) -> str:
    """Return another library's error message on one line, cut to 160 characters."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 160 else words[:157] + "..."
