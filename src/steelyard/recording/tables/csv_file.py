"""CSV files of many dialects, read and written in a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from steelyard.exceptions import RecordingError
from steelyard.recording.file_errors import unreadable
from steelyard.recording.tables.column_plan import Contents
from steelyard.recording.tables.csv_cells import (
    NotANumberError,
    as_numbers,
    careful_dates,
    careful_numbers,
    careful_times,
)
from steelyard.recording.tables.csv_dialect import (
    BLANKS,
    HEAD_BYTES,
    MISSING,
    find_dialect,
    find_encoding,
    has_zone,
    is_date,
    is_missing,
    is_number_field,
    is_whole,
)
from steelyard.recording.tables.csv_rows import RowJudge
from steelyard.recording.tables.csv_stream import LastBytes, SingleBlanks, guess_size, open_text, read_bytes
from steelyard.recording.tables.csv_units import known_unit, split_unit
from steelyard.recording.tables.table import fill_rows
from steelyard.recording.tables.time_column import unit_of_word
from steelyard.wording import reason, show_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.recording.file_mark import FileMark
    from steelyard.recording.recording import Recording
    from steelyard.recording.tables.csv_dialect import Dialect

_BLOCK_BYTES = 1 << 19
"""Bytes of text that pyarrow parses at a time. Set by judgement: it keeps dozens of blocks in memory."""

_ROWS_IN_BLOCK = 8
"""Average rows in a block at least: pyarrow refuses a row that spans more than two blocks, and some are longer."""

_SPELLINGS = sorted({spelled for word in MISSING for spelled in (word, word.upper(), word.capitalize())} | {"NaN"})


class CsvSource:
    """A CSV file; see `TableSource`.

    Raises:
        RecordingError: It is empty or no text, or has no header.
    """

    mark: FileMark | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = path.name
        self._has_rows = True
        self._end = LastBytes()
        self.row_estimate = 0
        self._block_bytes = _BLOCK_BYTES
        self._dialect = self._look()
        self.notes: list[str] = list(self._dialect.notes)
        self.contents = self._sort_columns()

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks; see `TableSource`."""
        names = (time, *wanted)
        time_type = self._time_type(time)
        rows = RowJudge(self._name, self._dialect)
        try:
            for batch in self._batches(names, [time_type, *[pa.float64()] * len(wanted)], rows, careful=False):
                full = rows.drop_empty(batch)
                yield as_numbers(full.column(0)), fill_rows(map(as_numbers, full.columns[1:]), len(full), len(wanted))
        except pa.ArrowInvalid:
            # A field is unexpected: continue field by field, to convert it or to name it.
            given = rows.seen
            rows.seen = 0
            yield from self._careful_blocks(names, time_type, rows, given)
        self.notes += rows.notes(ended=self._end.is_end_of_line)

    def _careful_blocks(
        self, names: Sequence[str], time_type: pa.DataType, rows: RowJudge, given: int
    ) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows from number `given` on, each field parsed as text."""
        batches = self._batches(names, [pa.binary()] * len(names), rows, careful=True)
        try:
            batch = next(batches, None)
            while batch is not None:
                first = rows.seen - len(batch)
                row = first + rows.skipped + self._dialect.rows_before + 1
                known = min(max(0, given - first), len(batch))
                following = next(batches, None)
                rows.may_be_cut = following is None and not self._end.is_end_of_line
                yield self._convert(names, time_type, rows.drop_empty(batch.slice(known)), row + known, rows)
                batch = following
        except pa.ArrowInvalid as error:
            raise rows.error(reason(error)) from error

    def _convert(
        self, names: Sequence[str], time_type: pa.DataType, batch: pa.RecordBatch, row: int, rows: RowJudge
    ) -> tuple[Any, FloatArray]:
        """Convert the rows of a batch, the first of which is number `row` below the header."""
        decimal = self._dialect.decimal
        try:
            number = 0
            if pa.types.is_timestamp(time_type):
                stamps = careful_dates(batch.column(0), time_type)
            else:
                stamps = careful_times(batch.column(0), decimal)
            columns = []
            for number in range(1, len(names)):
                columns.append(careful_numbers(batch.column(number), decimal))
        except NotANumberError as error:
            if rows.may_be_cut and error.row == len(batch) - 1:
                rows.may_be_cut, rows.last_is_cut = False, True
                return self._convert(names, time_type, batch.slice(0, error.row), row, rows)
            raise RecordingError(
                f"{self._name}: the column {show_name(names[number])} holds {show_name(error.text)} in row "
                f"{row + error.row} below the header instead of a number; correct it, or leave it empty",
                column=names[number],
            ) from error
        return stamps, fill_rows(columns, len(batch), len(columns))

    def _batches(
        self, names: Sequence[str], types: Sequence[pa.DataType], rows: RowJudge, *, careful: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns in batches.

        Args:
            names: Of the columns.
            types: To read them as.
            rows: Counts what is read.
            careful: Whether rows with the wrong number of fields are judged, and invalid bytes replaced.

        Raises:
            ArrowInvalid: A field is not of its type, or a row has the wrong number of fields.
            RecordingError: The file is damaged.
        """
        if not self._has_rows:
            return
        columns = [str(self._dialect.names.index(name)) for name in names]
        options = {
            "read_options": arrow_csv.ReadOptions(
                column_names=[str(number) for number in range(len(self._dialect.names))],
                block_size=self._block_bytes,
                use_threads=False,
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self._dialect.separator,
                newlines_in_values=self._dialect.quoted,
                invalid_row_handler=rows.judge if careful else None,
            ),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=dict(zip(columns, types, strict=True)),
                null_values=_SPELLINGS,
                strings_can_be_null=True,
                decimal_point=self._dialect.decimal,
                check_utf8=False,
            ),
        }
        stream = self._open(self._dialect.encoding, careful=careful)
        try:
            read_bytes(stream, self._dialect.start)
            if self._dialect.separator == BLANKS:
                stream = pa.TransformInputStream(stream, SingleBlanks())
            reader = arrow_csv.open_csv(stream, memory_pool=pa.system_memory_pool(), **options)
        except OSError as error:
            raise self._damaged(error) from error
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except OSError as error:
                raise self._damaged(error) from error
            rows.seen += len(batch)
            yield batch

    def _look(self) -> Dialect:
        head = self._read_head("utf-8")
        if not head.strip():
            raise RecordingError(f"{self._name} is empty; record again")
        encoding, notes = find_encoding(head, self._name)
        if encoding != "utf-8":
            head = self._read_head(encoding)
        whole = len(head) < HEAD_BYTES
        dialect = find_dialect(head, self._name, encoding, whole=whole)
        self._has_rows = not whole or bool(head[dialect.start :].strip())
        bytes_in_row = max(1, len(head) - dialect.start) // max(1, head[dialect.start :].count(b"\n")) + 1
        self.row_estimate = guess_size(self._path) // bytes_in_row

        self._block_bytes = max(_BLOCK_BYTES, _ROWS_IN_BLOCK * bytes_in_row)
        return replace(dialect, notes=(*notes, *dialect.notes))

    def _sort_columns(self) -> Contents:
        names: list[str] = []
        unusable: dict[str, str] = {}
        units: dict[str, str] = {}
        stated: dict[str, str] = {}
        bare: dict[str, str] = {}
        for number, name in enumerate(self._dialect.names):
            cells = self._sample(number)
            if not name:
                continue
            if not cells or any(is_number_field(cell, self._dialect.decimal) for cell in cells):
                names.append(name)
                word = self._dialect.units[number] if self._dialect.units else ""
                unit = unit_of_word(word)
                units |= {name: unit} if unit is not None else {}
                split = split_unit(name)
                if split is not None and split[0] not in self._dialect.names:
                    bare[name], stated[name] = split
                elif (known := known_unit(word, name)) is not None:
                    stated[name] = known
            elif all(is_date(cell) for cell in cells):
                names.append(name)
                units[name] = "ns"
            else:
                unusable[name] = f"holds text, such as {show_name(cells[0])}; only numbers can be read"
        return Contents(self._name, tuple(names), {}, unusable, units, stated, bare)

    def _time_type(self, time: str) -> pa.DataType:
        cells = self._sample(self._dialect.names.index(time))
        if cells and all(is_date(cell) for cell in cells):
            return pa.timestamp("ns", "UTC" if has_zone(cells[0]) else None)
        return pa.int64() if cells and all(is_whole(cell) for cell in cells) else pa.float64()

    def _sample(self, number: int) -> list[str]:
        return [row[number] for row in self._dialect.sample if not is_missing(row[number])]

    def _open(self, encoding: str, *, careful: bool = False) -> Any:
        self._end = LastBytes()
        try:
            return open_text(self._path, encoding, self._end, careful=careful)
        except OSError as error:
            raise unreadable(self._name, error) from error

    def _read_head(self, encoding: str) -> bytes:
        try:
            return read_bytes(self._open(encoding), HEAD_BYTES)
        except OSError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> RecordingError:
        return RecordingError(f"{self._name} is damaged and cannot be decompressed ({reason(error)}); copy it again")


def write_csv(recording: Recording, path: Path, *, packed: bool) -> None:
    """Write a recording as CSV: time first, numbers to the last bit, empty where there is no measurement.

    Time is written as it is: the second since 1970 that it counts from is lost.

    Args:
        recording: What to write.
        path: Where; an existing file is overwritten.
        packed: Whether to compress it with gzip.

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
