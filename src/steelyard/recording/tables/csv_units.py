"""Units that a CSV file states: in its header, as in ``q.knee [deg]``, or in a row under it."""

from __future__ import annotations

import re

from steelyard.model import UNITS
from steelyard.recording.column_names import parse_column

_ENDING = re.compile(r"(?P<name>.*\S)\s*(\[(?P<square>[^\[\]]+)\]|\((?P<round>[^()]+)\))", re.DOTALL)


def split_unit(name: str) -> tuple[str, str] | None:
    """Split a column's name into the name and the unit that it ends with; None if it ends with no known one."""
    match = _ENDING.fullmatch(name) if len(name) <= 200 else None
    if match is None:
        return None
    unit = known_unit(match["square"] or match["round"], match["name"])
    return (match["name"], unit) if unit is not None else None


def known_unit(word: str, column: str) -> str | None:
    """Return the unit among `UNITS` that a word such as "[N·mm]" means for a column, or None."""
    plain = word.strip("[](){}<> ")
    unit = next((each for each in (plain, re.sub(r"\s*[·*⋅]\s*", " ", plain)) if each in UNITS), None)
    parts = parse_column(column)
    if unit == "g" and (parts is None or parts.quantity != "accel"):
        # Of anything but an accelerometer, these may be grams.
        return None
    return unit
