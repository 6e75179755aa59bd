"""Formatting of TOML: quoted names, comments, arrays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.arrays import FloatArray

_WIDEST = 118
"""Columns of a line: two less than the source's 120. Layout only."""


def quoted(text: str) -> str:
    """Return any text as a TOML string."""
    # JSON's escapes are TOML's too, except that TOML also refuses the delete character as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def plain(text: str) -> str:
    """Return a text on one line, with unprintable characters replaced by ``?``."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def comment(text: str) -> list[str]:
    """Return a text as wrapped comment lines."""
    lines = ["#"]
    for word in plain(text).split(" "):
        if len(lines[-1]) + 1 + len(word) > _WIDEST and lines[-1] != "#":
            lines.append("#")
        lines[-1] += " " + word
    return lines


def commented_out(lines: Iterable[str]) -> list[str]:
    """Return lines of TOML as comments."""
    return [f"# {line}".rstrip() for line in lines]


def format_points(points: FloatArray, *, per_row: int = 4) -> list[str]:
    """Format points (m) as rows of a TOML array, rounded to 0.1 mm."""
    texts = ["[" + ", ".join(_length(value) for value in point) + "]" for point in points]
    return [", ".join(texts[start : start + per_row]) + "," for start in range(0, len(texts), per_row)]


def name_pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Format pairs of names as the lines of ``pairs``."""
    texts = [f"[{quoted(left)}, {quoted(right)}]" for left, right in pairs]
    whole = f"pairs = [{', '.join(texts)}]"
    return [whole] if len(whole) <= _WIDEST else ["pairs = [", *(f"    {text}," for text in texts), "]"]


def _length(value: float) -> str:
    return repr(round(float(value), 4) + 0.0)
