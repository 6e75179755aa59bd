"""Names and units of a robot's recordings: the table ``[recording]`` of a setup file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model.toml_table import TomlTable

STANDARD_GRAVITY = 9.80665
"""Standard gravity, m/s² (CGPM 1901): newtons of a force in kilograms, and one g of an accelerometer."""

UNITS = {
    **dict.fromkeys(("rad", "rad/s", "m", "N", "N m", "Nm", "m/s^2", "m/s²"), 1.0),
    "deg": np.pi / 180.0,
    "deg/s": np.pi / 180.0,
    "rpm": np.pi / 30.0,
    "g": STANDARD_GRAVITY,
    "kg": STANDARD_GRAVITY,
    "kg m": STANDARD_GRAVITY,
    "kN": 1e3,
    "N mm": 1e-3,
    "N cm": 1e-2,
    "lbf": 4.4482216152605,
    "mm": 1e-3,
    "cm": 1e-2,
}
"""Units that a column may be in, as multiples of the SI unit."""

TIME_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of time, as parts of a second."""

CLOCKS = ("message", "receive")
"""Time of a bag's samples: the time stamps of the messages, or the times of their receipt."""


@dataclass(frozen=True)
class ColumnSource:
    """Where a column comes from: ``scale * theirs + offset``, in SI units."""

    name: str
    scale: float = 1.0
    offset: float = 0.0

    def after(self, before: ColumnSource) -> ColumnSource:
        """Return the source that applies `before` first, and this one to its result."""
        return ColumnSource(before.name, self.scale * before.scale, self.scale * before.offset + self.offset)


@dataclass(frozen=True)
class ArraySource:
    """The columns that the channels of an array hold, in order, and their scale to SI units."""

    names: tuple[str, ...]
    scale: float = 1.0


@dataclass(frozen=True)
class RecordingMap:
    """Names and units of recordings, where they are not Steelyard's.

    Attributes:
        time: The column or array of time, if it is not found by its name.
        time_unit: Its unit, if its name does not state it.
        clock: Of a bag: the time stamps of messages ("message"), or the times of their receipt ("receive").
        columns: By Steelyard's name, or pattern of it, where a column comes from; ``*`` is the same text in both.
        arrays: By the name of an array of several channels, the columns that these are.
        topics: By topic of a bag, the sensor that it belongs to, or "joints", "commands", "base" or "ignore".
    """

    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    clock: Literal["message", "receive"] | None = None
    columns: Mapping[str, ColumnSource] = field(default_factory=dict)
    arrays: Mapping[str, ArraySource] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_columns(self) -> bool:
        """Whether it renames or scales columns, or defines time, so that it must not be applied twice."""
        return bool(self.columns or self.arrays or self.time or self.time_unit)


def parse_recording_map(table: TomlTable) -> RecordingMap:
    """Return the map that the table ``[recording]`` describes.

    Raises:
        ModelError: Something in it is wrong; the message says what and where.
    """
    columns, arrays, topics = (table.table(key) for key in ("columns", "arrays", "topics"))
    return RecordingMap(
        time=table.text("time", None),
        time_unit=table.choice("time_unit", tuple(TIME_UNITS), None),
        clock=table.choice("clock", CLOCKS, None),
        columns={key: _column(columns, key) for key in columns},
        arrays={key: _array(arrays, key) for key in arrays},
        topics={key: topics.text(key) for key in topics},
    )


def _column(table: TomlTable, key: str) -> ColumnSource:
    if isinstance(table.contents[key], str):
        source = ColumnSource(table.text(key))
    else:
        source = table.table(key).parse(
            lambda inner: ColumnSource(inner.text("from"), _scale(inner), inner.number("offset", 0.0))
        )
    if key.count("*") != source.name.count("*"):
        raise table.error(f"the patterns {key!r} and {source.name!r} must have the same number of '*'", key)
    return source


def _array(table: TomlTable, key: str) -> ArraySource:
    if isinstance(table.contents[key], list):
        return ArraySource(_names(table, key))
    return table.table(key).parse(lambda inner: ArraySource(_names(inner, "columns"), _scale(inner)))


def _names(table: TomlTable, key: str) -> tuple[str, ...]:
    names = table.texts(key, ...)  # type: ignore[arg-type]
    repeated = [name for name in names if name and names.count(name) > 1]
    if repeated:
        raise table.error(f"{key!r} names {repeated[0]!r} twice; an empty text skips a channel", repeated[0])
    return names


def _scale(table: TomlTable) -> float:
    unit = table.text("unit", None)
    scale = table.number("scale", 1.0)
    if unit is None:
        return scale
    if "scale" in table.contents:
        raise table.error("write 'unit' or 'scale', not both", "scale")
    if unit not in UNITS:
        raise table.error(f"the unit {unit!r} is not known{did_you_mean(unit, UNITS)}; write 'scale' instead", unit)
    return UNITS[unit]
