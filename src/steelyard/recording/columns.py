"""Columns by name that need not be in memory: each kind reads only the rows that are requested."""

from __future__ import annotations

import os
import tempfile
import weakref
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from steelyard.recording.file_errors import no_temporary_space

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.model import ColumnSource


MEMORY = 100_000_000
"""Bytes of numbers up to which a recording is kept in memory; a larger one goes to a temporary file.

Set by judgement: four minutes of a humanoid fit (90 columns at 500 Hz), and several recordings together fit a laptop.
"""

CHUNK_BYTES = 16_000_000
"""Bytes of numbers in one chunk of a recording.

Set by judgement: large enough that the cost per chunk is negligible, small enough that several copies of a chunk stay
far below `MEMORY`.
"""


class LazyColumns(Mapping[str, "FloatArray"]):
    """Columns of equal length that are read on request.

    Looking up a column reads all of it; `read` reads some rows of some columns.
    """

    def __init__(self, names: Sequence[str], row_count: int) -> None:
        self.names = tuple(names)
        self.row_count = row_count
        self._numbers = {name: number for number, name in enumerate(self.names)}

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read rows `start` to before `stop` of some columns, each of shape (stop - start,)."""

    def load(self) -> dict[str, FloatArray]:
        """Read all columns into memory."""
        return self.read(self.names, 0, self.row_count)

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._numbers:
            raise KeyError(name)
        return self.read([name], 0, self.row_count)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def read_rows(columns: Mapping[str, FloatArray], names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
    """Read some rows of some columns, lazy or in memory; those in memory are views."""
    if isinstance(columns, LazyColumns):
        return columns.read(names, start, stop)
    return {name: columns[name][start:stop] for name in names}


def slice_rows(columns: Mapping[str, FloatArray], start: int, stop: int) -> Mapping[str, FloatArray]:
    """Return the rows `start` to before `stop`; lazy columns stay lazy."""
    if isinstance(columns, LazyColumns):
        return _SlicedRows(columns, start, stop)
    return {name: values[start:stop] for name, values in columns.items()}


class _SlicedRows(LazyColumns):
    """A range of rows of lazy columns."""

    def __init__(self, whole: LazyColumns, start: int, stop: int) -> None:
        super().__init__(whole.names, stop - start)
        self._whole = whole
        self._start = start

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        return self._whole.read(names, self._start + start, self._start + stop)


def take_rows(columns: Mapping[str, FloatArray], rows: IntArray) -> Mapping[str, FloatArray]:
    """Return the rows of these numbers, in this order; lazy columns stay lazy.

    Args:
        columns: Columns of equal length.
        rows: Numbers of rows, shape (n,); of lazy columns, neighbours should not be far apart.
    """
    if isinstance(columns, LazyColumns):
        return TakenRows(columns, rows)
    return {name: values[rows] for name, values in columns.items()}


class TakenRows(LazyColumns):
    """Some rows of lazy columns, in any order."""

    def __init__(self, whole: LazyColumns, rows: IntArray) -> None:
        super().__init__(whole.names, len(rows))
        self._whole = whole
        self._rows = rows

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        rows = self._rows[start:stop]
        if len(rows) == 0:
            return {name: np.empty(0) for name in names}
        first = int(rows.min())
        part = self._whole.read(names, first, int(rows.max()) + 1)
        return {name: values[rows - first] for name, values in part.items()}


def select_columns(columns: Mapping[str, FloatArray], names: Sequence[str]) -> Mapping[str, FloatArray]:
    """Return some columns; lazy columns stay lazy."""
    if isinstance(columns, LazyColumns):
        return _SelectedColumns(columns, names)
    return {name: columns[name] for name in names}


class _SelectedColumns(LazyColumns):
    """Some of other lazy columns."""

    def __init__(self, whole: LazyColumns, names: Sequence[str]) -> None:
        super().__init__(names, whole.row_count)
        self._whole = whole

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        return self._whole.read(names, start, stop)


class MappedColumns(LazyColumns):
    """Columns under other names, each scaled and shifted: ``scale * theirs + offset``."""

    def __init__(self, whole: Mapping[str, FloatArray], row_count: int, sources: Mapping[str, ColumnSource]) -> None:
        super().__init__(tuple(sources), row_count)
        self._whole = whole
        self._sources = dict(sources)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        theirs = read_rows(self._whole, list(dict.fromkeys(self._sources[name].name for name in names)), start, stop)
        return {name: rescale(theirs[self._sources[name].name], self._sources[name]) for name in names}


def rescale(values: FloatArray, source: ColumnSource) -> FloatArray:
    """Return ``scale * values + offset`` of a source; the values themselves where that changes nothing."""
    if source.scale != 1.0:
        values = values * source.scale
    return values + source.offset if source.offset != 0.0 else values


class PatchedColumns(LazyColumns):
    """Columns some of whose values are replaced: by name, their rows (increasing) and the new values."""

    def __init__(
        self, whole: Mapping[str, FloatArray], row_count: int, patches: Mapping[str, tuple[IntArray, FloatArray]]
    ) -> None:
        super().__init__(tuple(whole), row_count)
        self._whole = whole
        self._patches = dict(patches)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        result = read_rows(self._whole, names, start, stop)
        for name in names:
            if name not in self._patches:
                continue
            rows, values = self._patches[name]
            low, high = (int(place) for place in np.searchsorted(rows, [start, stop]))
            if low < high:
                result[name] = result[name].copy()
                result[name][rows[low:high] - start] = values[low:high]
        return result

    def simplified(self) -> Mapping[str, FloatArray]:
        """Return the columns in memory where the whole is; those without a replacement are not copied."""
        return self if isinstance(self._whole, LazyColumns) else self.load()


def find_blocks(starts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Find the blocks of rows that a range of rows meets.

    Args:
        starts: First row of each block, and the number of rows.
        start: First row of the range.
        stop: Row after its last.

    Yields:
        Number of the block, and the first row of the range in it and the row after the last.
    """
    for number in range(max(0, bisect_right(starts, start) - 1), len(starts) - 1):
        low, high = max(start, starts[number]), min(stop, starts[number + 1])
        if low >= stop:
            return
        if low < high:
            yield number, low, high


class JoinedColumns(LazyColumns):
    """Columns of several tables one after the other; not a number where a table lacks the column."""

    def __init__(self, parts: Sequence[Mapping[str, FloatArray]], counts: Sequence[int]) -> None:
        names = tuple(dict.fromkeys(name for part in parts for name in part))
        super().__init__(names, sum(counts))
        self._parts = tuple(parts)
        self._starts = [0, *np.cumsum(counts).tolist()]

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        result = {name: np.full(stop - start, np.nan) for name in names}
        for number, low, high in find_blocks(self._starts, start, stop):
            part, begin = self._parts[number], self._starts[number]
            there = [name for name in names if name in part]
            for name, values in read_rows(part, there, low - begin, high - begin).items():
                result[name][low - start : high - start] = values
        return result


class SpooledColumns(LazyColumns):
    """Columns in a temporary file: blocks of rows, each column of a block in one piece."""

    def __init__(self, names: Sequence[str], file: BinaryIO, starts: Sequence[int]) -> None:
        super().__init__(names, starts[-1])
        self._file = file
        self._starts = starts
        weakref.finalize(self, file.close)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        result = {name: np.empty(stop - start) for name in names}
        for block, low, high in find_blocks(self._starts, start, stop):
            begin, end = self._starts[block], self._starts[block + 1]
            for name in names:
                position = 8 * (begin * len(self.names) + self._numbers[name] * (end - begin) + low - begin)
                piece = os.pread(self._file.fileno(), 8 * (high - low), position)
                result[name][low - start : high - start] = np.frombuffer(piece, dtype=np.float64)
        return result


class Spool:
    """A buffer for blocks of rows of unknown number: in memory while they are few, then in a temporary file.

    Args:
        names: Names of the columns.
        name: The file that is read, for messages.
        memory: Bytes up to which the rows stay in memory.
        folder: Folder of the temporary file; by default the system's (``TMPDIR``). The file has no name there, and is
            deleted with the last recording that needs it.
    """

    def __init__(self, names: Sequence[str], name: str, *, memory: int = MEMORY, folder: Path | None = None) -> None:
        self.names = tuple(names)
        self.row_count = 0
        self._name = name
        self._memory = memory
        self._folder = folder
        self._blocks: list[FloatArray] = []
        self._waiting = 0
        self._file: BinaryIO | None = None
        self._closing: weakref.finalize[..., Any] | None = None
        self._starts = [0]

    def append(self, rows: FloatArray) -> None:
        """Append rows, shape (n, n_columns), which must not be changed afterwards."""
        if len(rows) == 0:
            return
        self._blocks.append(rows)
        self._waiting += len(rows)
        self.row_count += len(rows)
        bound = self._memory if self._file is None else min(self._memory, CHUNK_BYTES)
        if 8 * len(self.names) * self._waiting > bound:
            self._flush()

    def finish(self) -> Mapping[str, FloatArray]:
        """Return the columns."""
        if self._file is None:
            table = np.empty((len(self.names), self.row_count))
            start = 0
            for block in self._take_blocks():
                table[:, start : start + len(block)] = block.T
                start += len(block)
            # A Recording takes over arrays that nobody can write to without a copy.
            table.setflags(write=False)
            return {name: table[number] for number, name in enumerate(self.names)}
        self._flush()
        if self._closing is not None:
            self._closing.detach()
        return SpooledColumns(self.names, self._file, self._starts)

    def _take_blocks(self) -> Iterator[FloatArray]:
        """Yield the blocks in memory, releasing each after its turn."""
        self._waiting = 0
        blocks, self._blocks = self._blocks[::-1], []
        while blocks:
            yield blocks.pop()

    def _flush(self) -> None:
        if not self._waiting:
            return
        step = max(1, CHUNK_BYTES // (8 * max(1, len(self.names))))
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="steelyard-", dir=self._folder)  # noqa: SIM115 (lives on)
                self._closing = weakref.finalize(self, self._file.close)
            together: list[FloatArray] = []
            count = 0
            for block in self._take_blocks():
                together.append(block)
                count += len(block)
                if count >= step:
                    self._write(together, step)
                    together, count = [], 0
            if together:
                self._write(together, step)
            self._file.flush()
        except OSError as error:
            raise no_temporary_space(self._name, error) from error

    def _write(self, blocks: list[FloatArray], step: int) -> None:
        """Write some blocks as pieces of at most `step` rows, each column of a piece together."""
        rows = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        for start in range(0, len(rows), step):
            piece = np.ascontiguousarray(rows[start : start + step].T)
            self._file.write(piece.data)  # type: ignore[union-attr]
            self._starts.append(self._starts[-1] + piece.shape[1])
