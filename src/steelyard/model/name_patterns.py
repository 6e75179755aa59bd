"""Name patterns with ``*``: matching names, pairing them, and translating the names of one side into the other's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def match_pattern(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that `pattern` matches, in order; ``*`` stands for any text, case counts."""
    expression = _expression(pattern)
    return [name for name in names if expression.fullmatch(name)]


def pair_by_patterns(left: str, right: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of names that match `left` and `right` with the same text in place of each ``*``."""
    known = set(names)
    partners = ((name, translate(name, left, right)) for name in names)
    return [(name, partner) for name, partner in partners if partner in known and partner != name]


def translate(name: str, pattern: str, other: str) -> str | None:
    """Return `other` with the texts that each ``*`` of `pattern` stands for in `name`; None where it does not match."""
    match = _expression(pattern).fullmatch(name)
    if match is None:
        return None
    return "".join(piece + text for piece, text in zip(other.split("*"), [*match.groups(), ""], strict=True))


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(piece) for piece in pattern.split("*")), flags=re.DOTALL)
