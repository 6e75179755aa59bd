"""CSV files in any reasonable dialect, read and written in a stream."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from steelyard.exceptions import RecordingError
from steelyard.recording.column_plan import Contents
from steelyard.recording.csv_cells import NotANumberError, careful_dates, careful_numbers, careful_times, drop_empty_rows
from steelyard.recording.csv_dialect import (
    BLANKS,
    HEAD_BYTES,
    MISSING,
    find_dialect,
    find_encoding,
    has_zone,
    is_date,
    is_missing,
    is_number,
    is_whole,
)
from steelyard.recording.tables import fill_rows
from steelyard.recording.time_column import show_name, unit_of_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.model.parameters import FloatArray
    from steelyard.recording.csv_dialect import Dialect
    from steelyard.recording.recording import Recording

_BLOCK_BYTES = 1 << 21
_GZIP = b"\x1f\x8b"
_SPELLINGS = sorted({spelled for word in MISSING for spelled in (word, word.upper(), word.capitalize())} | {"NaN"})


class CsvSource:
    """A CSV file; see `TableSource`.

    Raises:
        RecordingError: It is empty or no text, or has no header.
    """

    epoch = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = path.name
        self._has_rows = True
        self._dialect = self._look()
        self.notes: list[str] = list(self._dialect.notes)
        self.contents = self._sort_columns()

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Gives the rows piece by piece; see `TableSource`."""
        names = (time, *wanted)
        time_type = self._time_type(time)
        rows = _Rows(self._name, self._dialect)
        try:
            for batch in self._batches(names, [time_type, *[pa.float64()] * len(wanted)], rows):
                yield _as_stamps(batch.column(0)), fill_rows(map(_as_numbers, batch.columns[1:]), len(batch), len(wanted))
        except pa.ArrowInvalid:
            # A field is not as expected: go on from here field by field, and stop at the one at fault, if there is one.
            given, rows = rows.given, _Rows(self._name, self._dialect)
            yield from self._careful_blocks(names, time_type, rows, given)
        self.notes += rows.notes()

    def _careful_blocks(
        self, names: Sequence[str], time_type: pa.DataType, rows: _Rows, given: int
    ) -> Iterator[tuple[Any, FloatArray]]:
        """Gives the rows from number `given` on, each field looked at as text."""
        batches = self._batches(names, [pa.binary()] * len(names), rows)
        try:
            batch = next(batches, None)
            while batch is not None:
                first = rows.given - len(batch)
                following = next(batches, None)
                part = batch.slice(min(max(0, given - first), len(batch)))
                cut = following is None and not self._ends_with_a_line()
                yield self._convert(names, time_type, part, rows, cut=cut)
                batch = following
        except pa.ArrowInvalid as error:
            raise rows.error(str(error)) from error

    def _convert(
        self, names: Sequence[str], time_type: pa.DataType, batch: pa.RecordBatch, rows: _Rows, *, cut: bool
    ) -> tuple[Any, FloatArray]:
        decimal = self._dialect.decimal
        try:
            number = 0
            if pa.types.is_timestamp(time_type):
                stamps = careful_dates(batch.column(0), time_type)
            else:
                stamps = careful_times(batch.column(0), decimal)
            columns = []
            for number in range(1, len(names)):
                columns.append(careful_numbers(batch.column(number), decimal))  # noqa: PERF401 (its number is needed)
        except NotANumberError as error:
            if cut and error.row == len(batch) - 1:
                rows.last_is_cut = True
                return self._convert(names, time_type, batch.slice(0, error.row), rows, cut=False)
            row = rows.given - len(batch) + error.row + rows.skipped + self._dialect.rows_before + 1
            raise RecordingError(
                f"{self._name}: the column {show_name(names[number])} holds {show_name(error.text)} in row {row} below "
                "the header, where a number should be; correct it, or leave it empty",
                column=names[number],
            ) from error
        return stamps, fill_rows(columns, len(batch), len(columns))

    def _batches(self, names: Sequence[str], types: Sequence[pa.DataType], rows: _Rows) -> Iterator[pa.RecordBatch]:
        """Gives some columns piece by piece, without rows that are empty.

        Raises:
            ArrowInvalid: A field is not of its type, or rows have the wrong number of fields.
            RecordingError: The file is damaged.
        """
        if not self._has_rows:
            return
        columns = [str(self._dialect.names.index(name)) for name in names]
        separator = "\t" if self._dialect.separator == BLANKS else self._dialect.separator
        options = {
            "read_options": arrow_csv.ReadOptions(
                column_names=[str(number) for number in range(len(self._dialect.names))],
                block_size=_BLOCK_BYTES,
                use_threads=False,
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=separator, newlines_in_values=self._dialect.quoted, invalid_row_handler=rows.judge
            ),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=dict(zip(columns, types, strict=True)),
                null_values=_SPELLINGS,
                decimal_point=self._dialect.decimal,
                check_utf8=False,
            ),
        }
        stream = self._open(self._dialect.encoding)
        try:
            _read_bytes(stream, self._dialect.start)
            if self._dialect.separator == BLANKS:
                stream = pa.TransformInputStream(stream, _BlanksToTabs())
            reader = arrow_csv.open_csv(stream, memory_pool=pa.system_memory_pool(), **options)
        except (OSError, UnicodeError) as error:
            raise self._damaged(error) from error
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (OSError, UnicodeError) as error:
                raise self._damaged(error) from error
            full = drop_empty_rows(batch)
            rows.given += len(full)
            rows.skipped += len(batch) - len(full)
            rows.empty += len(batch) - len(full)
            yield full

    def _look(self) -> Dialect:
        head = self._read_head("")
        if not head.strip():
            raise RecordingError(f"{self._name} is empty; record again")
        encoding, notes = find_encoding(head, self._name)
        if encoding == "utf-16":
            head = self._read_head(encoding)
        whole = len(head) < HEAD_BYTES
        dialect = find_dialect(head, self._name, encoding, whole=whole)
        self._has_rows = not whole or bool(head[dialect.start :].strip())
        return replace(dialect, notes=(*notes, *dialect.notes))

    def _sort_columns(self) -> Contents:
        names: list[str] = []
        unusable: dict[str, str] = {}
        units: dict[str, str] = {}
        for number, name in enumerate(self._dialect.names):
            cells = self._sample(number)
            if not name:
                continue
            if not cells or any(is_number(cell, self._dialect.decimal) for cell in cells):
                names.append(name)
                unit = unit_of_word(self._dialect.units[number]) if self._dialect.units else None
                units |= {name: unit} if unit is not None else {}
            elif all(is_date(cell) for cell in cells):
                names.append(name)
                units[name] = "ns"
            else:
                unusable[name] = f"holds text, such as {show_name(cells[0])}; only numbers can be read"
        return Contents(self._name, tuple(names), {}, unusable, units)

    def _time_type(self, time: str) -> pa.DataType:
        cells = self._sample(self._dialect.names.index(time))
        if cells and all(is_date(cell) for cell in cells):
            return pa.timestamp("ns", "UTC" if has_zone(cells[0]) else None)
        return pa.int64() if cells and all(is_whole(cell) for cell in cells) else pa.float64()

    def _sample(self, number: int) -> list[str]:
        return [row[number] for row in self._dialect.sample if not is_missing(row[number])]

    def _open(self, encoding: str) -> Any:
        """Gives the file as a stream of bytes: unpacked, and UTF-8 where it is UTF-16."""
        try:
            with self._path.open("rb") as file:
                packed = file.read(2) == _GZIP
            stream = pa.input_stream(str(self._path), compression="gzip" if packed else None)
        except OSError as error:
            raise RecordingError(
                f"{self._name} cannot be read ({error.strerror or error}); check its permissions"
            ) from error
        return pa.transcoding_input_stream(stream, "utf-16", "utf-8") if encoding == "utf-16" else stream

    def _read_head(self, encoding: str) -> bytes:
        try:
            return _read_bytes(self._open(encoding), HEAD_BYTES)
        except (OSError, UnicodeError) as error:
            raise self._damaged(error) from error

    def _ends_with_a_line(self) -> bool:
        """Tells whether the last line is known to be whole."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - 2))
            return file.read().strip(b"\0")[-1:] in {b"\n", b"\r"}

    def _damaged(self, error: Exception) -> RecordingError:
        return RecordingError(f"{self._name} is damaged and cannot be unpacked ({error}); copy it again")


class _Rows:
    """Counts the rows of a CSV file, and judges those with the wrong number of fields."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self.given = 0
        self.skipped = 0
        self.empty = 0
        self.last_is_cut = False
        self._bad: Any = None
        self._name = name
        self._before = dialect.rows_before

    def judge(self, row: Any) -> str:
        """Says what to do with a row that has the wrong number of fields; the first may turn out to be the last."""
        if not row.text.strip() or row.text.lstrip().startswith(("#", "%")):
            self.skipped += 1
            return "skip"
        if self._bad is not None:
            return "error"
        self._bad = row
        return "skip"

    def error(self, reason: str) -> RecordingError:
        """Gives the error for a file that could not be read to its end."""
        if self._bad is None:
            return RecordingError(
                f"{self._name}: after row {self.given} below the header the text is no table any more ({reason}); look for "
                "a quotation mark that is not closed"
            )
        row = self._bad
        return RecordingError(
            f"{self._name}: row {(row.number or 0) + self._before} below the header has {row.actual_columns} fields, the "
            f"header has {row.expected_columns}: {show_name(row.text)}; correct the row"
        )

    def notes(self) -> list[str]:
        """Gives what was noticed, when all rows have been read.

        Raises:
            RecordingError: A row has the wrong number of fields, and is not a last one that was cut.
        """
        notes = []
        row = self._bad
        if row is not None:
            is_last = row.number == self.given + self.skipped + 1
            if not is_last or row.actual_columns > row.expected_columns:
                raise self.error("")
        if row is not None or self.last_is_cut:
            notes.append("its last line is cut and was dropped")
        if self.empty:
            notes.append(f"{self.empty} of its rows are empty and were dropped")
        return notes


class _BlanksToTabs:
    """Makes one tab of each run of blanks, and none at the ends of lines, in a stream of bytes."""

    def __init__(self) -> None:
        self._held = b"\n"

    def __call__(self, piece: Any) -> bytes:
        text = self._held + bytes(piece)
        kept = text.rstrip(b" \t\r\n")
        # Blanks at the end of a piece may go on in the next.
        self._held = text[len(kept) :]
        kept = re.sub(rb"[ \t]*[\r\n]+[ \t\r\n]*", b"\n", kept)
        return re.sub(rb"[ \t]+", b"\t", kept)


def write_csv(recording: Recording, path: Path, *, packed: bool) -> None:
    """Writes a recording as CSV: time first, numbers to the last bit, nothing where nothing was measured.

    Time is written as it is: the second since 1970 that it counts from is lost.

    Args:
        recording: What to write.
        path: A file that is there already, to be written over.
        packed: Whether to pack it with gzip.

    Raises:
        RecordingError: A name cannot be written.
        OSError: The file cannot be written.
    """
    for name in recording.columns:
        if name != name.strip() or "\0" in name:
            raise RecordingError(f"the column {name!r} cannot be named in a CSV file; write .parquet", column=name)
    schema = pa.schema([(name, pa.float64()) for name in ("time", *recording.columns)])
    with (
        pa.output_stream(str(path), compression="gzip" if packed else None) as stream,
        arrow_csv.CSVWriter(stream, schema, memory_pool=pa.system_memory_pool()) as writer,
    ):
        for part in recording.chunks():
            columns = [pa.array(values, from_pandas=True) for values in (part.time, *part.values.values())]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _read_bytes(stream: Any, count: int) -> bytes:
    """Gives so many bytes of a stream, or all that there are; streams may give fewer than asked for at a time."""
    pieces = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _as_stamps(column: pa.Array) -> Any:
    """Gives times as numbers of their own type; nanoseconds for dates."""
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return whole.to_numpy(zero_copy_only=False)


def _as_numbers(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)
