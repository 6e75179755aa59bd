"""Name patterns that cover a set of mirror pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.drafting.words import SideMark, side_patterns
from steelyard.model import pair_by_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST = 2
"""Fewest pairs that a pattern must cover. One pair is written out by name, which is as short and easier to check."""


def cover_pairs(pairs: Sequence[tuple[str, str, tuple[SideMark, ...]]], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return few patterns, plus single pairs where no pattern fits, that match the given pairs and no others.

    Args:
        pairs: Left name, right name, and the side marks in the left name.
        names: All names that the patterns will be matched against.
    """
    wanted = {frozenset((left, right)) for left, right, _ in pairs}
    candidates: dict[tuple[str, str], set[frozenset[str]]] = {}
    patterns = dict.fromkeys(pattern for left, _, marks in pairs if marks for pattern in side_patterns(left, marks))
    for pattern in patterns:
        matched = {frozenset(pair) for pair in pair_by_patterns(*pattern, names)}
        if matched <= wanted:
            candidates[pattern] = matched
    chosen: list[tuple[str, str]] = []
    open_pairs = set(wanted)
    while candidates:
        best = max(candidates, key=lambda pattern: len(candidates[pattern] & open_pairs))
        if len(candidates[best] & open_pairs) < min(_LEAST, len(wanted)):
            break
        chosen.append(best)
        open_pairs -= candidates.pop(best)
    return chosen + [(left, right) for left, right, _ in pairs if frozenset((left, right)) in open_pairs]
