"""Fields of a CSV file as text, where reading them as numbers failed: what else they may be, and which is wrong."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.recording.tables.csv_dialect import MISSING, is_date, is_missing, is_number_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray

_MISSING = pa.array(sorted(MISSING))
_NOTHING = pa.scalar(None, pa.string())


class NotANumberError(Exception):
    """A field is no number; `row` is its number in the batch, `text` its content."""

    def __init__(self, row: int, text: str) -> None:
        self.row = row
        self.text = text
        super().__init__(text)


def drop_empty_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rows in which all fields are empty."""
    if batch.column(0).null_count == 0:
        return batch
    empty = reduce(pc.and_, [column.is_null() for column in batch.columns])
    return batch.filter(pc.invert(empty))


def as_numbers(column: pa.Array) -> Any:
    """Return numbers of their own type, shape (n,), nanoseconds for dates; not a number where one is missing."""
    whole = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return whole.to_numpy(zero_copy_only=False)


def careful_numbers(cells: pa.Array, decimal: str) -> FloatArray:
    """Parse fields as numbers, shape (n,); not a number where a field is empty.

    Args:
        cells: Fields as bytes.
        decimal: The decimal sign.

    Raises:
        NotANumberError: A field is something else.
    """
    try:
        texts = _plain_texts(cells)
        if decimal == ",":
            # A point in such a file sets thousands apart, if anything: it must not become a decimal point.
            texts = pc.replace_substring(pc.replace_substring(texts, ".", "?"), ",", ".")
        return np.asarray(as_numbers(texts.cast(pa.float64())), dtype=np.float64)
    except pa.ArrowInvalid:
        _raise_first(cells, lambda text: is_number_field(text, decimal))
    return np.array([np.nan if is_missing(text) else float(text.replace(",", ".")) for text in _decoded(cells)])


def careful_times(cells: pa.Array, decimal: str) -> Any:
    """Parse fields as times, shape (n,): integers stay integers.

    Raises:
        NotANumberError: A field is no number.
    """
    try:
        return as_numbers(_plain_texts(cells).cast(pa.int64()))
    except pa.ArrowInvalid:
        return careful_numbers(cells, decimal)


def careful_dates(cells: pa.Array, kind: pa.DataType) -> Any:
    """Parse dates as nanoseconds since 1970, shape (n,).

    Raises:
        NotANumberError: A field is no date.
    """
    try:
        return as_numbers(_plain_texts(cells).cast(kind))
    except pa.ArrowInvalid:
        _raise_first(cells, is_date)
    texts = _decoded(cells)
    for row, text in enumerate(texts):
        try:
            pa.array([text.strip()]).cast(kind)
        except pa.ArrowInvalid as error:
            raise NotANumberError(row, text) from error
    return np.full(len(texts), np.nan)


def _plain_texts(cells: pa.Array) -> pa.Array:
    """Return fields as texts without surrounding blanks; null where one stands for a missing number."""
    texts = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    return pc.if_else(pc.is_in(pc.utf8_lower(texts), value_set=_MISSING), _NOTHING, texts)


def _decoded(cells: pa.Array) -> list[str]:
    return [(cell or b"").decode("utf-8", errors="replace") for cell in cells.to_pylist()]


def _raise_first(cells: pa.Array, is_good: Callable[[str], bool]) -> None:
    """Raise an error for the first field that is neither good nor missing."""
    for row, text in enumerate(_decoded(cells)):
        if not is_missing(text) and not is_good(text):
            raise NotANumberError(row, text)
