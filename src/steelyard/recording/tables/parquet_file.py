"""Parquet files, read in place where they are large and their row groups small."""

from __future__ import annotations

import threading
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.exceptions import RecordingError
from steelyard.recording import columns as limits
from steelyard.recording.columns import LazyColumns, MappedColumns, find_blocks
from steelyard.recording.file_errors import damaged, unreadable
from steelyard.recording.file_mark import EPOCH_KEY, MAPPED_KEY, MARK, ORIGIN_KEY, FileMark, restrict_map
from steelyard.recording.identity import parse_identity
from steelyard.recording.tables.column_plan import Contents, plan_columns
from steelyard.recording.tables.table import block_rows, fill_rows, finish_recording, join_stamps, read_table
from steelyard.wording import reason, show_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap
    from steelyard.recording.recording import Recording

_CHUNKS_IN_PIECE = 4
"""Chunks that a row group of a file read in place may hold: 64 MB. Set by judgement: one group is kept in memory."""


# What pyarrow raises where a file is damaged, or is stored in a way that it cannot read.
_DAMAGE = (pa.ArrowException, OSError, UnicodeError, ValueError)


def read_parquet(path: Path, recording_map: RecordingMap, joints: Sequence[str] = ()) -> Recording:
    """Read a recording from a Parquet file; of a large one only the times are read, and its columns on request.

    Of those, infinite numbers are treated as missing without a note.

    Raises:
        RecordingError: The file cannot be used; the message says why.
    """
    source = ParquetSource(path)
    plan = plan_columns(source.contents, restrict_map(recording_map, source.mark), joints)
    if 8 * source.row_estimate * len(plan.columns) <= limits.MEMORY or not source.has_small_pieces(len(plan.columns)):
        return read_table(source, recording_map, joints)
    nanoseconds = [] if plan.time.nanoseconds is None else [plan.time.nanoseconds]
    stamps = [
        join_stamps(times, rows, plan.time, nanoseconds, source.contents.name)
        for times, rows in source.blocks(plan.time.name, nanoseconds)
    ]
    values = MappedColumns(ParquetColumns(source, plan.wanted), source.row_estimate, plan.columns)
    return finish_recording(source, plan, stamps, values)


class ParquetSource:
    """A Parquet file; see `TableSource`.

    Raises:
        RecordingError: It is no Parquet file.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self.notes: list[str] = []
        try:
            self._file = pq.ParquetFile(path, memory_map=False, buffer_size=1 << 16)
            schema = self._file.schema_arrow
        except PermissionError as error:
            raise unreadable(self._name, error) from error
        except _DAMAGE as error:
            raise RecordingError(
                f"{self._name} is no Parquet file, or is damaged ({reason(error)}); copy it again"
            ) from error
        metadata = self._file.metadata
        self.row_estimate = int(metadata.num_rows)
        self.piece_lengths = [int(metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]
        self.contents = _sort_columns(schema, self._name)
        self.mark = _read_mark(schema.metadata or {})
        # Several threads may share the file.
        self._lock = threading.Lock()

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks; see `TableSource`."""
        names = [time, *wanted]
        batches = self._file.iter_batches(block_rows(len(names)), columns=names, use_threads=False)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except _DAMAGE as error:
                raise damaged(self._name, error) from error
            columns = (_as_floats(batch.column(name)) for name in wanted)
            yield _as_stamps(batch.column(time)), fill_rows(columns, len(batch), len(wanted))

    def has_small_pieces(self, column_count: int) -> bool:
        """Return whether this many columns of any row group take little memory."""
        return 8 * column_count * max(self.piece_lengths, default=0) <= _CHUNKS_IN_PIECE * limits.CHUNK_BYTES

    def read_piece(self, number: int, names: Sequence[str]) -> dict[str, FloatArray]:
        """Read some columns of a row group."""
        with self._lock:
            try:
                table = self._file.read_row_group(number, columns=list(names), use_threads=False)
            except _DAMAGE as error:
                raise damaged(self._name, error) from error
        return {name: _as_floats(table.column(name).combine_chunks()) for name in names}


class ParquetColumns(LazyColumns):
    """Columns that stay in a Parquet file; infinite numbers there are missing here."""

    def __init__(self, source: ParquetSource, names: Sequence[str]) -> None:
        super().__init__(names, source.row_estimate)
        self._source = source
        self._starts = [0, *accumulate(source.piece_lengths)]
        # Chunks are smaller than row groups, so that the last one is often requested again.
        self._last: tuple[int, dict[str, FloatArray]] = (-1, {})

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        result = {name: np.empty(stop - start) for name in names}
        for number, low, high in find_blocks(self._starts, start, stop):
            begin = self._starts[number]
            piece = self._read_piece(number, names)
            for name in names:
                values = piece[name][low - begin : high - begin]
                result[name][low - start : high - start] = np.where(np.isinf(values), np.nan, values)
        return result

    def _read_piece(self, number: int, names: Sequence[str]) -> dict[str, FloatArray]:
        kept, piece = self._last
        if kept != number or any(name not in piece for name in names):
            piece = self._source.read_piece(number, names)
            self._last = (number, piece)
        return piece


def write_parquet(recording: Recording, path: Path, version: str) -> None:
    """Write a recording as Parquet: "time" first, null where there is no measurement.

    The epoch, whether it was mapped, and its origin are among the metadata.

    Args:
        recording: What to write.
        path: Where; an existing file is overwritten.
        version: Steelyard's.

    Raises:
        OSError: The file cannot be written.
    """
    schema = pa.schema(
        [(name, pa.float64()) for name in ("time", *recording.columns)],
        metadata={
            MARK: version,
            EPOCH_KEY: str(recording.epoch),
            MAPPED_KEY: str(recording.mapped).lower(),
            ORIGIN_KEY: recording.origin,
        },
    )
    # Readings differ in their last bits from row to row: there are no words to make a dictionary of.
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for part in recording.chunks():
            columns = [pa.array(values, from_pandas=True) for values in (part.time, *part.values.values())]
            writer.write_batch(pa.record_batch(columns, schema=schema), row_group_size=max(1, len(part)))


def _sort_columns(schema: pa.Schema, name: str) -> Contents:
    names: list[str] = []
    unusable: dict[str, str] = {}
    units: dict[str, str] = {}
    for field in schema:
        if field.name in names or field.name in unusable:
            raise RecordingError(
                f"{name} has two columns called {show_name(field.name)}; rename one", column=field.name
            )
        kind = field.type
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            units[field.name] = kind.unit
            names.append(field.name)
        elif any(is_kind(kind) for is_kind in _NUMBERS):
            names.append(field.name)
        else:
            unusable[field.name] = f"holds {kind}, not numbers"
    return Contents(name, tuple(names), {}, unusable, units)


# A column in which nothing was ever measured has no type.
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


def _read_mark(metadata: dict[bytes, bytes]) -> FileMark | None:
    texts = {key: value.decode("ascii", errors="replace") for key, value in metadata.items()}
    if MARK.encode() not in texts:
        return None
    epoch = texts.get(EPOCH_KEY.encode(), "")
    return FileMark(
        int(epoch) if epoch.removeprefix("-").isdecimal() and len(epoch) < 16 else 0,
        texts.get(MAPPED_KEY.encode()) == "true",
        parse_identity(texts.get(ORIGIN_KEY.encode())),
    )


def _as_stamps(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _as_floats(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
