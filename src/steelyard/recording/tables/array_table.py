"""Files of arrays (NPZ, HDF5) as tables: which axis of each array is time, and how its channels are named."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import TIME_UNITS
from steelyard.recording.tables.column_plan import Contents
from steelyard.recording.tables.table import block_rows, fill_rows
from steelyard.recording.tables.time_column import find_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap

MOST_CHANNELS = 20_000
"""Channels of an array at most. Set by judgement: a header can state any number, and each channel becomes a name."""


@dataclass(frozen=True)
class StoredArray:
    """An array of numbers as its file describes it.

    Attributes:
        shape: One or two lengths.
        dtype: Type of its numbers.
        samples_last: Whether, of two equal lengths, the last is that of time.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    samples_last: bool = False


@dataclass(frozen=True)
class ArrayLayout:
    """The layout of an array: its rows and channels, and which axis comes first.

    Attributes:
        row_count: Its length over time.
        channel_count: Its channels.
        channels_first: Whether the first axis is that of the channels.
    """

    row_count: int
    channel_count: int
    channels_first: bool


class ArrayReader(Protocol):
    """A reader of an array from its first row to its last."""

    def read(self, start: int, stop: int) -> Any:
        """Read rows, shape (stop - start, n_channels), in their own type; each call continues after the last."""
        ...

    def finish(self) -> None:
        """Check that there is nothing left, and release the file."""
        ...


@dataclass(frozen=True)
class ArrayTable:
    """A file of arrays as a table.

    Attributes:
        contents: What it has, for planning.
        layouts: How each array lies.
        places: By column, its array and the number of its channel there.
    """

    contents: Contents
    layouts: Mapping[str, ArrayLayout]
    places: Mapping[str, tuple[str, int]]

    @property
    def row_count(self) -> int:
        """Number of times."""
        return max((layout.row_count for layout in self.layouts.values()), default=0)

    def blocks(
        self, time: str, wanted: Sequence[str], open_reader: Callable[[str], ArrayReader]
    ) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks; see `TableSource`."""
        places = [self.places[name] for name in (time, *wanted)]
        arrays = dict.fromkeys(array for array, _ in places)
        readers = {array: open_reader(array) for array in arrays}
        step = block_rows(sum(self.layouts[array].channel_count for array in arrays))
        for start in range(0, self.row_count, step):
            stop = min(self.row_count, start + step)
            tables = {array: reader.read(start, stop) for array, reader in readers.items()}
            first, *others = (tables[array][:, number] for array, number in places)
            yield as_stamps(first), fill_rows(others, stop - start, len(wanted))
        for reader in readers.values():
            reader.finish()


def as_stamps(column: Any) -> Any:
    """Return times in their own type with native byte order, dates as integers."""
    native = column.astype(column.dtype.newbyteorder("="))
    return native.view(np.int64) if native.dtype.kind in "Mm" else native


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Return whether an array holds real numbers, or dates in a supported unit."""
    return dtype.kind in "biuf" or _unit_of(dtype) is not None


def lay_out(
    arrays: Mapping[str, StoredArray], recording_map: RecordingMap, name: str, unusable: Mapping[str, str]
) -> ArrayTable:
    """Lay out the arrays of a file as a table: the length of time is that of all columns.

    Args:
        arrays: Its arrays of numbers by name.
        recording_map: The setup's.
        name: The file, for messages.
        unusable: What else there is, and why it cannot be a column.

    Raises:
        RecordingError: There is no time, or there are too many channels.
    """
    reasons = dict(unusable)
    rows = _row_count(arrays, recording_map, name, unusable)
    layouts: dict[str, ArrayLayout] = {}
    for key, array in arrays.items():
        layout = _lie(array, rows)
        if layout is None and math.prod(array.shape) == 1:
            # A single number is a setting, not a column.
            continue
        if layout is None:
            reasons[key] = f"has the shape {array.shape}, which does not fit the {rows} times"
        elif layout.channel_count > MOST_CHANNELS:
            reasons[key] = f"has {layout.channel_count} channels; at most {MOST_CHANNELS} can be read"
        else:
            layouts[key] = layout
    if sum(layout.channel_count for layout in layouts.values()) > 5 * MOST_CHANNELS:
        raise RecordingError(f"{name} has more than {5 * MOST_CHANNELS} channels; remove those not needed")
    places: dict[str, tuple[str, int]] = {}
    for key, layout in layouts.items():
        for number in range(layout.channel_count):
            places[key if layout.channel_count == 1 else f"{key}[{number}]"] = (key, number)
    units = {key: _unit_of(arrays[key].dtype) for key in layouts}
    contents = Contents(
        name,
        tuple(places),
        {key: layout.channel_count for key, layout in layouts.items()},
        reasons,
        {key: unit for key, unit in units.items() if unit is not None},
    )
    return ArrayTable(contents, layouts, places)


def _row_count(
    arrays: Mapping[str, StoredArray], recording_map: RecordingMap, name: str, unusable: Mapping[str, str]
) -> int:
    """Return the number of times."""
    channel = re.fullmatch(r"(.+)\[\d+\]", recording_map.time or "", re.DOTALL)
    if channel is not None and channel[1] in arrays:
        return max(arrays[channel[1]].shape)
    single = [key for key, array in arrays.items() if len(array.shape) == 1 or 1 in array.shape]
    time = find_time(single or tuple(arrays), recording_map, name, unusable=unusable)
    return max(arrays[time.name].shape)


def _lie(array: StoredArray, rows: int) -> ArrayLayout | None:
    if len(array.shape) == 1:
        return ArrayLayout(rows, 1, channels_first=False) if array.shape[0] == rows else None
    first, last = array.shape
    if first == rows and not (array.samples_last and last == rows):
        return ArrayLayout(rows, last, channels_first=False)
    return ArrayLayout(rows, first, channels_first=True) if last == rows else None


def _unit_of(dtype: np.dtype[Any]) -> str | None:
    """Return the unit of dates or durations."""
    if dtype.kind not in "Mm":
        return None
    unit, count = np.datetime_data(dtype)
    return unit if unit in TIME_UNITS and count == 1 else None
