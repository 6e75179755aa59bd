"""Columns by name that need not be in memory: each kind reads the rows it is asked for."""

from __future__ import annotations

import os
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from steelyard.exceptions import RecordingError

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray

MEMORY = 100_000_000
"""Bytes of numbers up to which a recording is kept in memory; a larger one goes to a temporary file."""

CHUNK_BYTES = 16_000_000
"""Bytes of numbers in one chunk of a recording."""


class LazyColumns(Mapping[str, "FloatArray"]):
    """Columns of equal length that are read when they are asked for.

    Looking a column up reads the whole of it; `read` reads some rows of some columns.
    """

    def __init__(self, names: Sequence[str], row_count: int) -> None:
        self.names = tuple(names)
        self.row_count = row_count
        self._places = {name: number for number, name in enumerate(self.names)}

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives rows `start` to before `stop` of some columns, each of shape (stop - start,)."""

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._places:
            raise KeyError(name)
        return self.read([name], 0, self.row_count)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def place(self, name: str) -> int:
        """Gives the number of a column."""
        return self._places[name]


def read_rows(columns: Mapping[str, FloatArray], names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
    """Gives some rows of some columns, in memory or not; views where they are."""
    if isinstance(columns, LazyColumns):
        return columns.read(names, start, stop)
    return {name: columns[name][start:stop] for name in names}


class PartOfColumns(LazyColumns):
    """Some rows of lazy columns."""

    def __init__(self, whole: LazyColumns, start: int, stop: int) -> None:
        super().__init__(whole.names, stop - start)
        self._whole = whole
        self._start = start

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        return self._whole.read(names, self._start + start, self._start + stop)


class SelectedColumns(LazyColumns):
    """Some columns of others."""

    def __init__(self, columns: Mapping[str, FloatArray], names: Sequence[str], row_count: int) -> None:
        super().__init__(names, row_count)
        self._columns = columns

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        return read_rows(self._columns, names, start, stop)


def select_columns(columns: Mapping[str, FloatArray], names: Sequence[str]) -> Mapping[str, FloatArray]:
    """Gives some columns; nothing is read."""
    if isinstance(columns, LazyColumns):
        return SelectedColumns(columns, names, columns.row_count)
    return {name: columns[name] for name in names}


class KeptRows(LazyColumns):
    """The rows of lazy columns that a clock kept."""

    def __init__(self, whole: LazyColumns, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self._rows = np.flatnonzero(keep)
        super().__init__(whole.names, len(self._rows))
        self._whole = whole

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        rows = self._rows[start:stop]
        if len(rows) == 0:
            return {name: np.empty(0) for name in names}
        part = self._whole.read(names, int(rows[0]), int(rows[-1]) + 1)
        return {name: values[rows - rows[0]] for name, values in part.items()}


class MappedColumns(LazyColumns):
    """Columns under other names, each scaled and shifted: ``scale * theirs + offset``."""

    def __init__(
        self, whole: Mapping[str, FloatArray], row_count: int, sources: Mapping[str, tuple[str, float, float]]
    ) -> None:
        super().__init__(tuple(sources), row_count)
        self._whole = whole
        self._sources = dict(sources)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        wanted = tuple(dict.fromkeys(self._sources[name][0] for name in names))
        theirs = read_rows(self._whole, wanted, start, stop)
        return {
            name: rescale(theirs[source], scale, offset)
            for name in names
            for source, scale, offset in [self._sources[name]]
        }


def rescale(values: FloatArray, scale: float, offset: float) -> FloatArray:
    """Gives ``scale * values + offset``; the values themselves where that changes nothing."""
    if scale != 1.0:
        values = values * scale
    return values + offset if offset != 0.0 else values


class JoinedColumns(LazyColumns):
    """Columns one after the other; what one part does not have is not a number there."""

    def __init__(self, parts: Sequence[Mapping[str, FloatArray]], counts: Sequence[int]) -> None:
        names = tuple(dict.fromkeys(name for part in parts for name in part))
        super().__init__(names, sum(counts))
        self._parts = tuple(parts)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        result = {name: np.full(stop - start, np.nan) for name in names}
        for part, first, last in zip(self._parts, self._starts[:-1], self._starts[1:], strict=True):
            low, high = max(start, int(first)), min(stop, int(last))
            if low < high:
                there = [name for name in names if name in part]
                for name, values in read_rows(part, there, low - int(first), high - int(first)).items():
                    result[name][low - start : high - start] = values
        return result


class SpooledColumns(LazyColumns):
    """Columns in a temporary file: blocks of rows, each column of a block in one piece."""

    def __init__(self, names: Sequence[str], file: BinaryIO, starts: Sequence[int]) -> None:
        super().__init__(names, starts[-1])
        self._file = file
        self._starts = np.asarray(starts)
        weakref.finalize(self, file.close)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        result = {name: np.empty(stop - start) for name in names}
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for block in range(max(first, 0), len(self._starts) - 1):
            begin, end = int(self._starts[block]), int(self._starts[block + 1])
            low, high = max(start, begin), min(stop, end)
            if low >= stop:
                break
            for name in names:
                place = 8 * (begin * len(self.names) + self.place(name) * (end - begin) + low - begin)
                piece = os.pread(self._file.fileno(), 8 * (high - low), place)
                result[name][low - start : high - start] = np.frombuffer(piece, dtype=np.float64)
        return result


class Spool:
    """Takes blocks of rows of unknown number; keeps them in memory until they are many, then in a temporary file.

    Args:
        names: Names of the columns.
        name: What is being read, for messages.
        memory: Bytes up to which the rows stay in memory.
        folder: Where the temporary file goes; by default where the system puts them (``TMPDIR``). It has no name
            there, and is gone with the last recording that needs it.
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
        """Takes rows, shape (n, n_columns), which must not be changed afterwards."""
        if len(rows) == 0:
            return
        self._blocks.append(rows)
        self._waiting += len(rows)
        self.row_count += len(rows)
        bound = self._memory if self._file is None else min(self._memory, CHUNK_BYTES)
        if 8 * len(self.names) * self._waiting > bound:
            self._flush()

    def finish(self) -> Mapping[str, FloatArray]:
        """Gives the columns."""
        if self._file is None:
            table = np.empty((len(self.names), self.row_count))
            for start, block in self._taken():
                table[:, start : start + len(block)] = block.T
            # What nobody can write to is taken over by the Recording without a copy.
            table.setflags(write=False)
            return {name: table[number] for number, name in enumerate(self.names)}
        self._flush()
        if self._closing is not None:
            self._closing.detach()
        return SpooledColumns(self.names, self._file, self._starts)

    def _taken(self) -> Iterator[tuple[int, FloatArray]]:
        """Gives the blocks that wait, each with the rows before it, and lets go of them one by one."""
        start = self.row_count - self._waiting
        self._waiting = 0
        blocks, self._blocks = self._blocks[::-1], []
        while blocks:
            block = blocks.pop()
            yield start, block
            start += len(block)

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
            for _, block in self._taken():
                together.append(block)
                count += len(block)
                if count >= step:
                    self._write(together, step)
                    together, count = [], 0
            if together:
                self._write(together, step)
            self._file.flush()
        except OSError as error:
            raise RecordingError(
                f"{self._name}: no room for it in the folder of temporary files ({error.strerror}); set TMPDIR to a "
                "folder with room"
            ) from error

    def _write(self, blocks: list[FloatArray], step: int) -> None:
        """Writes some blocks as pieces of at most `step` rows, each column of a piece together."""
        rows = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        for start in range(0, len(rows), step):
            piece = np.ascontiguousarray(rows[start : start + step].T)
            self._file.write(piece.data)  # type: ignore[union-attr]
            self._starts.append(self._starts[-1] + piece.shape[1])
