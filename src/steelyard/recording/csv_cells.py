"""Fields of a CSV file looked at one by one, where reading them as numbers failed."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.recording.csv_dialect import MISSING, is_missing, is_number, is_whole

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray


class NotANumberError(Exception):
    """A field is no number; `row` is its number in the batch, `text` what stands there."""

    def __init__(self, row: int, text: str) -> None:
        self.row = row
        self.text = text
        super().__init__(text)


def drop_empty_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Gives the rows in which something stands; the first column tells whether one need be looked at."""
    if batch.column(0).null_count == 0:
        return batch
    empty = reduce(pc.and_, [column.is_null() for column in batch.columns])
    return batch.filter(pc.invert(empty))


def careful_numbers(cells: pa.Array, decimal: str) -> FloatArray:
    """Gives fields as numbers, shape (n,); not a number where nothing stands.

    Raises:
        NotANumberError: A field is something else.
    """
    texts = _texts(cells)
    result = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if is_missing(text):
            continue
        if not is_number(text, decimal):
            raise NotANumberError(row, text)
        result[row] = float(text.replace(",", "."))
    return result


def careful_times(cells: pa.Array, decimal: str) -> Any:
    """Gives fields as times, shape (n,): whole numbers stay whole.

    Raises:
        NotANumberError: A field is no number.
    """
    texts = _texts(cells)
    if texts and all(is_whole(text) for text in texts):
        try:
            return np.array([int(text) for text in texts], dtype=np.int64)
        except OverflowError:
            return careful_numbers(cells, decimal)
    return careful_numbers(cells, decimal)
