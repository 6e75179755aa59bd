"""Rows of a CSV file: how many there are, and what to do with those that have the wrong number of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.exceptions import RecordingError
from steelyard.recording.tables.csv_cells import drop_empty_rows
from steelyard.wording import count, show_name

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.recording.tables.csv_dialect import Dialect


class RowJudge:
    """Counts the rows of a CSV file, and judges those with the wrong number of fields.

    Attributes:
        seen: Rows with the right number of fields so far.
        skipped: Other rows so far that hold no numbers, such as comments.
        may_be_cut: Whether the last row may be truncated.
        last_is_cut: Whether it is.
    """

    def __init__(self, name: str, dialect: Dialect) -> None:
        self.seen = 0
        self.skipped = 0
        self.may_be_cut = False
        self.last_is_cut = False
        self._empty = 0
        self._bad: Any = None
        self._name = name
        self._before = dialect.rows_before

    def drop_empty(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop the empty rows of a batch, and count them."""
        full = drop_empty_rows(batch)
        self._empty += len(batch) - len(full)
        return full

    def judge(self, row: Any) -> str:
        """Decide about a row with the wrong number of fields; the first may turn out to be the last."""
        if not row.text.strip() or row.text.lstrip().startswith(("#", "%")):
            self.skipped += 1
            return "skip"
        if self._bad is not None:
            return "error"
        self._bad = row
        return "skip"

    def error(self, why: str) -> RecordingError:
        """Return the error for a file that could not be read to its end."""
        if self._bad is None:
            return RecordingError(
                f"{self._name}: after row {self.seen} below the header the text is no table any more ({why}); look "
                "for a quotation mark that is not closed"
            )
        row = self._bad
        if self._is_open(row):
            return RecordingError(
                f"{self._name}: row {(row.number or 0) + self._before} below the header opens a quotation mark that is "
                f"not closed: {show_name(row.text)}; close it"
            )
        return RecordingError(
            f"{self._name}: row {(row.number or 0) + self._before} below the header has {row.actual_columns} fields, "
            f"the header has {row.expected_columns}: {show_name(row.text)}; correct the row"
        )

    def notes(self, *, ended: bool) -> list[str]:
        """Return notes, when all rows have been read.

        Args:
            ended: Whether the last line has a line break.

        Raises:
            RecordingError: A row has the wrong number of fields, and is no truncated last row.
        """
        notes = []
        row = self._bad
        if row is not None:
            is_last = row.number == self.seen + self.skipped + 1
            if not is_last or row.actual_columns > row.expected_columns or self._is_open(row):
                raise self.error("")
        if row is not None or self.last_is_cut:
            notes.append("its last line is truncated and was dropped")
        elif not ended:
            notes.append("the file does not end with a line break: its last row may be truncated")
        if self._empty:
            notes.append(f"{count(self._empty, 'empty row was', 'empty rows were')} dropped")
        return notes

    def _is_open(self, row: Any) -> bool:
        """Return whether a row continues on the lines after it."""
        return "\n" in row.text.strip() or "\r" in row.text.strip()
