"""Tables: what CSV, Parquet, NPZ and HDF5 files have in common, and how they become recordings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import TIME_UNITS
from steelyard.recording import columns as limits
from steelyard.recording.clocks import check_range, clean_clock, read_clock
from steelyard.recording.columns import LazyColumns, MappedColumns, Spool, rescale, take_rows
from steelyard.recording.file_mark import FileMark, restrict_map
from steelyard.recording.recording import Recording
from steelyard.recording.tables.column_plan import ColumnPlan, Contents, assign_columns, plan_columns
from steelyard.recording.tables.time_column import guess_unit
from steelyard.wording import count, show_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap
    from steelyard.recording.tables.time_column import TimeColumn

_STANDSTILL = 10_000
"""Equal times at the head of a block that mean a wrong column, not a coarse clock.

Set by judgement: a coarse clock repeats a time for a few rows, a constant column for all of them. Found early, so that
a long file of them need not be read to its end.
"""

_SECOND = TIME_UNITS["ns"]


class TableSource(Protocol):
    """A file of columns, some of which can be read block by block.

    Attributes:
        contents: What the file has, under its own names.
        notes: What was unusual, a sentence each; complete when all blocks have been read.
        mark: Its mark, where Steelyard wrote it.
        row_estimate: About how many rows there are; zero where that is unknown.
    """

    contents: Contents
    notes: list[str]
    mark: FileMark | None
    row_estimate: int

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks: times in their own type, shape (n,), and columns, shape (n, n_wanted).

        Raises:
            RecordingError: The file is damaged, or a column does not hold numbers.
        """
        ...


def block_rows(column_count: int) -> int:
    """Return how many rows to read at a time: a quarter of a chunk, because several copies exist at once."""
    return max(1, limits.CHUNK_BYTES // (4 * 8 * max(1, column_count)))


def read_table(source: TableSource, recording_map: RecordingMap, joints: Sequence[str] = ()) -> Recording:
    """Read a recording from a file of columns, into memory or, where it is large, into a temporary file.

    Args:
        source: The file.
        recording_map: The setup's; ignored where the columns were mapped before the file was written.
        joints: The model's; see `plan_columns`.

    Raises:
        RecordingError: The file cannot be used; the message says why.
    """
    name = source.contents.name
    plan = plan_columns(source.contents, restrict_map(recording_map, source.mark), joints)
    numbers = {wanted: number for number, wanted in enumerate(plan.wanted)}
    # What will not stay in memory need not be collected there first.
    fits = 8 * source.row_estimate * len(plan.columns) <= limits.MEMORY
    spool = Spool(tuple(plan.columns), name, memory=limits.MEMORY if fits else 0)
    stamps: list[Any] = []
    infinite = Infinite()
    for times, rows in source.blocks(plan.time.name, plan.wanted):
        table = np.empty((len(rows), len(plan.columns)))
        with np.errstate(over="ignore", invalid="ignore"):
            for number, wanted in enumerate(plan.columns.values()):
                table[:, number] = rescale(rows[:, numbers[wanted.name]], wanted)
        infinite.remove(table, spool.names, spool.row_count)
        spool.append(table)
        stamps.append(join_stamps(times, rows, plan.time, plan.wanted, name))
    return finish_recording(source, plan, stamps, spool.finish(), infinite)


def join_stamps(times: Any, rows: FloatArray, column: TimeColumn, wanted: Sequence[str], name: str) -> Any:
    """Return the times of a block; whole seconds and nanoseconds in two columns become nanoseconds.

    Args:
        times: Of the block, shape (n,).
        rows: Its columns, shape (n, n_wanted), the nanoseconds among them.
        column: Where time comes from.
        wanted: Names of the columns.
        name: The file, for messages.

    Raises:
        RecordingError: The time is constant, or the nanoseconds are out of range.
    """
    if len(times) >= _STANDSTILL and times[0] == times[-1] and np.all(times == times[0]):
        raise RecordingError(
            f"{name}: time stays at {times[0]} for {len(times)} rows; check that {show_name(column.name)} is the time",
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
    """Build the recording of some columns, with its clock read and cleaned.

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
        values = take_rows(values, np.flatnonzero(keep))
    mark = source.mark or FileMark()
    return Recording(time, values, name, epoch + mark.epoch, tuple(notes), mark.mapped, mark.origin)


@dataclass
class Infinite:
    """A count of infinite numbers, which are no measurements."""

    count: int = 0
    first: tuple[str, int] = field(default=("", 0))

    def remove(self, table: FloatArray, names: Sequence[str], start: int) -> None:
        """Replace infinite numbers by missing ones, in place; `start` is the number of the first row."""
        infinite = np.isinf(table)
        count = int(np.count_nonzero(infinite))
        if count:
            row, column = np.argwhere(infinite)[0]
            self.first = self.first if self.count else (names[column], start + int(row))
            self.count += count
            table[infinite] = np.nan

    def notes(self, time: FloatArray) -> list[str]:
        """Return a sentence if there were any; `time` holds the times of all rows."""
        if not self.count:
            return []
        name, row = self.first
        return [
            f"{count(self.count, 'number is', 'numbers are')} infinite, first in {show_name(name)} at {time[row]:.4f} "
            "s, and treated as missing"
        ]


def apply_map(recording: Recording, recording_map: RecordingMap) -> Recording:
    """Apply a map's columns to a recording, by the rules of `plan_columns`; for bags, which are no tables.

    Args:
        recording: Its own columns are the map's sources.
        recording_map: The setup's, of which only the columns are used.

    Raises:
        RecordingError: A column that the map names is missing, or its target is no name of Steelyard's.
    """
    if not recording_map.columns:
        return recording
    sources = assign_columns(Contents(recording.name, recording.columns), replace(recording_map, arrays={}))
    mapped = MappedColumns(recording.values, len(recording), sources)
    return replace(recording, values=mapped if isinstance(recording.values, LazyColumns) else mapped.load())


def fill_rows(columns: Iterable[Any], row_count: int, column_count: int) -> FloatArray:
    """Return columns side by side as 64-bit floats, shape (row_count, column_count)."""
    rows = np.empty((row_count, column_count))
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns):
            rows[:, number] = column
    return rows
