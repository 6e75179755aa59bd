"""The dialect of a CSV file: its encoding, separator, decimal sign, header and row of units, detected from its head."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError
from steelyard.wording import count, show_name, show_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD_BYTES = 1 << 20
"""Bytes at the start of a file from which its dialect is detected. Set by judgement: a header of 10 000 names fits."""

_NOT_A_NUMBER_IN_C = ("nan(ind)", "-nan(ind)", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind")

MISSING = frozenset(("", "nan", "-nan", "na", "n/a", "#n/a", "null", "none", "-", "--", *_NOT_A_NUMBER_IN_C))
"""Texts that stand for a missing number, in lower case."""

BLANKS = " "
"""The separator of columns between which there are runs of blanks and tabs."""

_SEPARATORS = (",", ";", "\t", "|", BLANKS)

_ROWS = 40
"""Rows by which separators are compared.

Set by judgement: enough for a share of numbers, few enough to try all of them.
"""

_PREAMBLE = 40
"""Lines above the header at most. Set by judgement: loggers write up to a page of settings there."""

_GOOD_SHARE = 0.6
"""Share of fields that are numbers from which a separator fits. Set by judgement: some columns may hold text."""

_NUMBER = re.compile(r"[+-]?((\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_BLANK_FIELDS = re.compile(r'"((?:[^"]|"")*)"|(\S+)')


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Attributes:
        encoding: Of its text.
        separator: Between its columns.
        decimal: "." or ",".
        names: Of its columns, in order; empty where one has none.
        start: Byte of the text, in UTF-8, at which the rows begin.
        rows_before: Rows under the header that hold no numbers, such as units.
        quoted: Whether quotes occur, so that a field may span lines.
        sample: The first rows, a text for each column.
        units: The row of units, in order; empty if there is none.
        notes: What was unusual, a sentence each.
    """

    encoding: str
    separator: str
    decimal: str
    names: tuple[str, ...]
    start: int
    rows_before: int
    quoted: bool
    sample: tuple[tuple[str, ...], ...]
    units: tuple[str, ...]
    notes: tuple[str, ...]


def find_encoding(head: bytes, name: str) -> tuple[str, list[str]]:
    """Detect the encoding of a text from its first bytes; return a note if that is a guess.

    Raises:
        RecordingError: It is no text.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", []
    if b"\0" in head:
        raise RecordingError(f"{name} is no text: it holds zero bytes; save it as UTF-8, or correct its ending")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        if sum(byte < 32 and byte not in b"\t\n\v\f\r" for byte in head[:4096]) > 0:
            raise RecordingError(
                f"{name} is no text: it holds control characters; save it as UTF-8, or correct its ending"
            ) from None
        return "latin-1", ["it is not UTF-8; its names were read as Latin-1 (save it as UTF-8 if they look odd)"]
    return "utf-8", []


def find_dialect(head: bytes, name: str, encoding: str, *, whole: bool) -> Dialect:
    """Detect the dialect of a CSV file.

    Args:
        head: The first bytes of its text, in UTF-8.
        name: The file, for messages.
        encoding: Of the file.
        whole: Whether the head is all of it.

    Raises:
        RecordingError: It has no header, or a broken one.
    """
    text = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(head)
    mark = 1 if text.startswith("\ufeff") else 0
    if not whole:
        # The last line may be cut.
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    stated, begin = _stated_separator(text, mark)
    comments, body = _skip_comments(text, begin)
    if not whole and body >= len(text):
        raise RecordingError(
            f"{name}: its header does not end within the first {HEAD_BYTES // 2**20} MiB; remove columns that are not "
            "needed"
        )
    separators = stated or _SEPARATORS
    table = _best_table(text, body, comments, separators)
    above, table = _look_below(text, body, separators, table)
    if table is None:
        raise RecordingError(
            f"{name} has no header of several names in its first line; write one such as 'time,q.left_knee', with "
            ", ; | tabs or blanks between the columns"
        )
    names = _clean_names(table.header, name)
    rows, rows_before, units, start = _skip_units(table)
    # Between commas, a comma in quotes may separate thousands or decimals: that is ambiguous.
    commas = table.separator != "," and any("," in cell and _is_number(cell) for row in rows for cell in row)
    decimal = "," if commas else "."
    notes = [f"{count(above, 'line', 'lines')} above the header skipped"] if above else []
    if units:
        notes.append(
            f"the row under the header ({show_names(unit for unit in units if unit)}) is read as units; the known ones "
            "are converted to SI"
        )
    return Dialect(
        encoding=encoding,
        separator=table.separator,
        decimal=decimal,
        names=names,
        start=len(text[:start].encode()),
        rows_before=rows_before,
        quoted='"' in text[start:],
        sample=tuple(tuple(row) for row in rows if len(row) == len(names)),
        units=units,
        notes=tuple(notes),
    )


def is_missing(cell: str) -> bool:
    """Return whether a field stands for a missing number."""
    return cell.strip().lower() in MISSING


def is_whole(cell: str) -> bool:
    """Return whether a field is a 64-bit integer."""
    return _WHOLE.fullmatch(cell.strip()) is not None


def is_date(cell: str) -> bool:
    """Return whether a field is a date and a time of day as in ISO 8601."""
    return _DATE.fullmatch(cell.strip()) is not None


def has_zone(cell: str) -> bool:
    """Return whether a date states its time zone."""
    return cell.strip().endswith("Z") or re.search(r"[+-]\d\d(:?\d\d)?$", cell.strip()[16:]) is not None


def is_number_field(cell: str, decimal: str) -> bool:
    """Return whether a field is a number with this decimal sign."""
    return _is_number(cell) and ("," if decimal == "." else ".") not in cell


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None


@dataclass(frozen=True)
class _Table:
    """A text split by one separator: its header, and the first rows with the position after each."""

    separator: str
    header: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], int], ...]
    start: int

    @property
    def score(self) -> tuple[float, int, int]:
        """How well the separator fits: the share of fields that are numbers in rows of the right length."""
        cells = [cell for row, _ in self.rows for cell in row]
        fitting = [cell for row, _ in self.rows if len(row) == len(self.header) for cell in row]
        good = sum(_is_number(cell) or is_missing(cell) for cell in fitting)
        return good / max(1, len(cells)), len(self.header), -_SEPARATORS.index(self.separator)


def _stated_separator(text: str, begin: int) -> tuple[str, int]:
    """Return the separator that a first line such as ``sep=;`` of spreadsheets states, and the next position."""
    match = re.compile(r"sep=([,;|\t])\r?\n").match(text, begin)
    return (match[1], match.end()) if match else ("", begin)


def _skip_comments(text: str, begin: int) -> tuple[str, int]:
    """Return the last comment before the table, and where the table begins."""
    comment = ""
    for line, end in _lines(text, begin):
        if line.strip() and not line.lstrip().startswith(("#", "%")):
            return comment, end - len(line)
        comment = line if line.strip() else comment
    return comment, len(text)


def _best_table(text: str, body: int, comment: str, separators: Sequence[str]) -> _Table | None:
    """Return the text split by the separator that fits best; None if none does."""
    found = [_try_separator(text, body, comment, separator) for separator in separators]
    return max((table for table in found if table and len(table.header) > 1), key=lambda each: each.score, default=None)


def _look_below(text: str, body: int, separators: Sequence[str], usual: _Table | None) -> tuple[int, _Table | None]:
    """Return the number of lines above the header, and the table, if the first line heads no numbers."""
    if usual is not None and usual.score[0] >= _GOOD_SHARE:
        return 0, usual
    for above, (_, end) in enumerate(_lines(text, body), start=1):
        if above > _PREAMBLE:
            break
        table = _best_table(text, end, "", separators)
        if table is not None and table.score[0] >= _GOOD_SHARE and not any(map(_is_number, table.header)):
            return above, table
    return 0, usual


def _try_separator(text: str, body: int, comment: str, separator: str) -> _Table | None:
    rows = _split_rows(text, body, separator)
    first = next(rows, None)
    named_in_comment = next(_split_rows(comment.lstrip("#% \t"), 0, separator), None)
    if first is None:
        header, start = named_in_comment, len(text)
    elif named_in_comment is not None and _stands_above(named_in_comment[0], first[0]):
        header, start = named_in_comment, body
    else:
        header, start = first, first[1]
    if header is None:
        return None
    following: list[tuple[tuple[str, ...], int]] = []
    for row, end in _split_rows(text, start, separator):
        if row[0].lstrip().startswith(("#", "%")) and not following:
            start = end
            continue
        following.append((row, end))
        if len(following) == _ROWS:
            break
    return _Table(separator, *_fit_ends(header[0], following), start)


def _stands_above(names: Sequence[str], row: Sequence[str]) -> bool:
    """Return whether a comment names the columns of the first row, rather than preceding a header."""
    some = any(_is_number(cell) for cell in row)
    return some and not _holds_numbers(names) and (_holds_numbers(row) or len(names) == len(row))


def _fit_ends(
    header: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], int]]
) -> tuple[tuple[str, ...], tuple[tuple[tuple[str, ...], int], ...]]:
    """Fit the header's length to that of the rows, where only one of them ends with a separator."""
    lengths = [len(row) for row, _ in rows]
    usual = max(set(lengths), key=lengths.count) if lengths else len(header)
    if usual == len(header) + 1 and all(not row[-1].strip() for row, _ in rows if len(row) == usual):
        header = (*header, "")
    elif usual == len(header) - 1 and not header[-1].strip():
        header = header[:-1]
    return header, tuple(rows)


def _split_rows(text: str, begin: int, separator: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the fields of each row that is not empty, and the position after it."""
    if separator == BLANKS:
        for line, end in _lines(text, begin):
            fields = tuple(
                match[2] if match[2] is not None else match[1].replace('""', '"')
                for match in _BLANK_FIELDS.finditer(line)
            )
            if fields:
                yield fields, end
        return
    position = begin

    def feed() -> Iterator[str]:
        nonlocal position
        for line, end in _lines(text, begin):
            position = end
            yield line

    reader = csv.reader(feed(), delimiter=separator, skipinitialspace=True)
    while True:
        try:
            row = next(reader)
        except (StopIteration, csv.Error):
            return
        if any(field.strip() for field in row) or len(row) > 1:
            yield tuple(row), position


def _lines(text: str, begin: int) -> Iterator[tuple[str, int]]:
    """Yield each line with its end, and the position after it."""
    stream = io.StringIO(text, newline="")
    stream.seek(begin)
    for line in stream:
        begin += len(line)
        yield line, begin


def _holds_numbers(row: Sequence[str]) -> bool:
    """Return whether a row consists of numbers, not of names."""
    return any(_is_number(cell) for cell in row) and all(_is_number(cell) or is_missing(cell) for cell in row)


def _clean_names(header: Sequence[str], name: str) -> tuple[str, ...]:
    names = [field.strip() for field in header]
    if _holds_numbers(names):
        raise RecordingError(
            f"{name} has no header: its first row holds numbers; write the columns' names above it, such as "
            "'time,q.left_knee,q.right_knee'"
        )
    if all(len(field) > 1 and field[0] == field[-1] == "'" for field in names if field):
        names = [field[1:-1] for field in names]
    seen: set[str] = set()
    for field in names:
        if field and field in seen:
            raise RecordingError(f"{name} has two columns called {show_name(field)}; rename one", column=field)
        seen.add(field)
    return tuple(names)


def _skip_units(table: _Table) -> tuple[list[tuple[str, ...]], int, tuple[str, ...], int]:
    """Return the rows, how many were skipped before them, the units that one of those states, and where they begin."""
    rows = list(table.rows)
    if len(rows) > 1 and len(rows[0][0]) == len(table.header):
        first, second = rows[0][0], rows[1][0]
        written = [cell for cell in first if not is_missing(cell)]
        if written and not any(_is_number(cell) or is_date(cell) for cell in written) and any(map(_is_number, second)):
            return [row for row, _ in rows[1:]], 1, tuple(cell.strip() for cell in first), rows[0][1]
    return [row for row, _ in rows], 0, (), table.start
