"""Pieces of TOML text: names from files quoted, comments on one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.model.parameters import FloatArray

_WIDEST = 118


def quoted(text: str) -> str:
    """Gives a text as a TOML string, whatever it holds."""
    # JSON's escapes are TOML's too, except that TOML also refuses the delete character as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def plain(text: str) -> str:
    """Gives a text on one line, without characters that a terminal or a comment cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def comment(text: str) -> list[str]:
    """Gives a text as the lines of a comment."""
    lines = ["#"]
    for word in plain(text).split(" "):
        if len(lines[-1]) + 1 + len(word) > _WIDEST and lines[-1] != "#":
            lines.append("#")
        lines[-1] += " " + word
    return lines


def commented_out(lines: Iterable[str]) -> list[str]:
    """Gives lines of TOML as comments, to be used by taking the ``#`` away."""
    return [f"# {line}".rstrip() for line in lines]


def point_rows(points: FloatArray, *, per_row: int = 4) -> list[str]:
    """Gives points as the rows of a TOML array, in metres to a tenth of a millimetre."""
    texts = ["[" + ", ".join(_length(value) for value in point) + "]" for point in points]
    return [", ".join(texts[start : start + per_row]) + "," for start in range(0, len(texts), per_row)]


def name_pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Gives pairs of names as the lines of ``pairs``."""
    texts = [f"[{quoted(left)}, {quoted(right)}]" for left, right in pairs]
    whole = f"pairs = [{', '.join(texts)}]"
    return [whole] if len(whole) <= _WIDEST else ["pairs = [", *(f"    {text}," for text in texts), "]"]


def _length(value: float) -> str:
    return repr(round(float(value), 4) + 0.0)
