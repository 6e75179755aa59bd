"""Tables: what CSV, Parquet, NPZ and HDF5 files have in common, and how one becomes a recording."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import TIME_UNITS
from steelyard.recording import columns as limits
from steelyard.recording.clocks import check_range, clean_clock, read_clock
from steelyard.recording.columns import KeptRows, LazyColumns, MappedColumns, Spool, rescale
from steelyard.recording.recording import Recording
from steelyard.recording.tables.column_plan import ColumnPlan, Contents, assign_columns, heed_mark, plan_columns
from steelyard.recording.tables.time_column import guess_unit
from steelyard.wording import count, show_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap
    from steelyard.recording.tables.column_plan import OwnMark
    from steelyard.recording.tables.time_column import TimeColumn

_STANDSTILL = 10_000
_SECOND = TIME_UNITS["ns"]


class TableSource(Protocol):
    """A file of columns, of which some can be read, block by block.

    Attributes:
        contents: What the file has, under its own names.
        notes: What was noticed, a sentence each; complete when all blocks have been read.
        mark: What it says of itself, where Steelyard wrote it.
        row_estimate: About how many rows there are; zero where nobody knows.
    """

    contents: Contents
    notes: list[str]
    mark: OwnMark | None
    row_estimate: int

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Gives the rows piece by piece: times in their own type, shape (n,), and columns, shape (n, n_wanted).

        Raises:
            RecordingError: The file is damaged, or a column does not hold numbers.
        """
        ...


def block_rows(column_count: int) -> int:
    """Gives how many rows to read at a time: a part of a chunk, for several copies of them are there at once."""
    return max(1, limits.CHUNK_BYTES // (4 * 8 * max(1, column_count)))


def read_table(source: TableSource, recording_map: RecordingMap, joints: Sequence[str] = ()) -> Recording:
    """Reads a recording from a file of columns, in memory or, where it is large, through a temporary file.

    Args:
        source: The file.
        recording_map: How it names things; not looked at where the columns were mapped before they were written.
        joints: The model's; see `plan_columns`.

    Raises:
        RecordingError: The file cannot be used; the message says why.
    """
    name = source.contents.name
    plan = plan_columns(source.contents, heed_mark(recording_map, source.mark), joints)
    places = {wanted: number for number, wanted in enumerate(plan.wanted)}
    # What will not stay in memory need not be gathered there first.
    fits = 8 * source.row_estimate * len(plan.columns) <= limits.MEMORY
    spool = Spool(tuple(plan.columns), name, memory=limits.MEMORY if fits else 0)
    stamps: list[Any] = []
    infinite = Infinite()
    for times, rows in source.blocks(plan.time.name, plan.wanted):
        table = np.empty((len(rows), len(plan.columns)))
        with np.errstate(over="ignore", invalid="ignore"):
            for number, wanted in enumerate(plan.columns.values()):
                table[:, number] = rescale(rows[:, places[wanted.name]], wanted.scale, wanted.offset)
        infinite.remove(table, spool.names, spool.row_count)
        spool.append(table)
        stamps.append(join_stamps(times, rows, plan.time, plan.wanted, name))
    return finish_recording(source, plan, stamps, spool.finish(), infinite)


def join_stamps(times: Any, rows: FloatArray, column: TimeColumn, wanted: Sequence[str], name: str) -> Any:
    """Gives the times of a block; whole seconds and nanoseconds in two columns become nanoseconds.

    Args:
        times: Of the block, shape (n,).
        rows: Its columns, shape (n, n_wanted), the nanoseconds among them.
        column: Where time comes from.
        wanted: Names of the columns.
        name: The file, for messages.

    Raises:
        RecordingError: The clock stands still, or the nanoseconds are none.
    """
    if len(times) >= _STANDSTILL and times[0] == times[-1] and np.all(times == times[0]):
        raise RecordingError(
            f"{name}: time stands still at {times[0]} for {len(times)} rows; is {show_name(column.name)} the time?",
            column="time",
        )
    if column.nanoseconds is None:
        return times
    rest = rows[:, list(wanted).index(column.nanoseconds)]
    if not (np.all(np.isfinite(times)) and np.all((rest >= 0.0) & (rest < _SECOND))):
        raise RecordingError(
            f"{name}: {show_name(column.nanoseconds)} must be the nanoseconds after {show_name(column.name)}, from 0 "
            "to before 1e9, in every row; name another column of time in the setup's [recording]",
            column="time",
        )
    check_range(times * float(_SECOND), name)
    return np.rint(times).astype(np.int64) * _SECOND + np.rint(rest).astype(np.int64)


def finish_recording(
    source: TableSource,
    plan: ColumnPlan,
    stamps: Sequence[Any],
    values: Mapping[str, FloatArray],
    infinite: Infinite | None = None,
) -> Recording:
    """Gives the recording of some columns, with its clock read and cleaned.

    Raises:
        RecordingError: There are no rows, or the clock cannot be used.
    """
    name = source.contents.name
    if sum(len(block) for block in stamps) == 0:
        raise RecordingError(f"{name} has no rows, only names of columns; record again")
    whole = check_range(np.concatenate(stamps), name)
    unit, notes = (plan.time.unit, []) if plan.time.unit is not None else guess_unit(whole)
    time, epoch = read_clock(whole, unit, name)
    keep, dropped = clean_clock(time, name)
    notes = [*source.notes, *plan.notes, *notes, *(infinite.notes(time) if infinite else ()), *dropped]
    if keep is not None:
        time = time[keep]
        if isinstance(values, LazyColumns):
            values = KeptRows(values, keep)
        else:
            values = {column: numbers[keep] for column, numbers in values.items()}
    mark = source.mark
    if mark is None:
        return Recording(time, values, name, epoch, tuple(notes))
    return Recording(time, values, name, epoch + mark.epoch, tuple(notes), mark.mapped, mark.origin)


@dataclass
class Infinite:
    """Counts infinite numbers, which are no measurements."""

    count: int = 0
    first: tuple[str, int] = field(default=("", 0))

    def remove(self, table: FloatArray, names: Sequence[str], start: int) -> None:
        """Makes infinite numbers missing, in place; `start` is the number of the first row."""
        infinite = np.isinf(table)
        count = int(np.count_nonzero(infinite))
        if count:
            row, column = np.argwhere(infinite)[0]
            self.first = self.first if self.count else (names[column], start + int(row))
            self.count += count
            table[infinite] = np.nan

    def notes(self, time: FloatArray) -> list[str]:
        """Gives a sentence where there were some; `time` is of all rows."""
        if not self.count:
            return []
        name, row = self.first
        return [
            f"{count(self.count, 'number is', 'numbers are')} infinite, first in {show_name(name)} at {time[row]:.4f} "
            "s, and taken as missing"
        ]


def apply_map(recording: Recording, recording_map: RecordingMap) -> Recording:
    """Gives a recording with the map's columns, by the rules of `plan_columns`; for files of messages, not tables.

    Args:
        recording: Its own columns are the map's sources.
        recording_map: Of which the columns alone are looked at.

    Raises:
        RecordingError: A column that the map names is not there, or is none of Steelyard's.
    """
    if not recording_map.columns:
        return recording
    contents = Contents(recording.name, recording.columns)
    sources = assign_columns(contents, replace(recording_map, arrays={}))
    mapped = MappedColumns(
        recording.values,
        len(recording),
        {name: (source.name, source.scale, source.offset) for name, source in sources.items()},
    )
    lazy = isinstance(recording.values, LazyColumns)
    return replace(recording, values=mapped if lazy else mapped.read(mapped.names, 0, mapped.row_count))


def fill_rows(columns: Iterable[Any], row_count: int, column_count: int) -> FloatArray:
    """Gives columns side by side as numbers of 64 bits, shape (row_count, column_count)."""
    rows = np.empty((row_count, column_count))
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns):
            rows[:, number] = column
    return rows
