"""HDF5 files, also MATLAB's .mat of version 7.3: datasets at any depth, read and written in pieces."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.file_errors import damaged, needing, unreadable
from steelyard.recording.file_mark import EPOCH_KEY, MAPPED_KEY, MARK, ORIGIN_KEY, FileMark, restrict_map
from steelyard.recording.identity import parse_identity
from steelyard.recording.tables.array_table import ArrayLayout, ArrayTable, StoredArray, is_numeric, lay_out
from steelyard.wording import show_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap
    from steelyard.recording.recording import Recording

_TIME, _VALUES, _COLUMNS = "time", "values", "columns"

_MATLAB_5 = b"MATLAB 5.0 MAT-file"
_MATLAB_INTERNALS = ("#refs#", "#subsystem#")
_MATLAB_NUMBERS = re.compile(r"u?int(8|16|32|64)|double|single|logical")

_MOST_CHUNK_BYTES = 1 << 28
"""Bytes of an HDF5 chunk at most, which is read as a whole. Set by judgement: h5py writes up to 1 MB by default."""

_MOST_DATASETS = 20_000
"""Datasets of a file at most: as many as an array may have channels."""

_ROWS_IN_CHUNK = 4096
"""Rows of a chunk that is written; with `_COLUMNS_IN_CHUNK` 512 kB, which h5py's cache of 1 MB holds."""

_COLUMNS_IN_CHUNK = 16
"""Columns of a chunk that is written, so that reading a few columns need not read all of them."""

# What h5py raises where a file is damaged.
_DAMAGE = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError)


class Hdf5Source:
    """An HDF5 file; see `TableSource`.

    Links to other files, and datasets that are stored in other files, are not followed: a recording is one file.

    Raises:
        RecordingError: It is no HDF5 file, or has no time.
    """

    def __init__(self, path: Path, recording_map: RecordingMap) -> None:
        self._name = path.name
        self.notes: list[str] = []
        self._file = _open(path)
        self._datasets, unusable = self._list_datasets()
        arrays = {
            key: StoredArray(dataset.shape, dataset.dtype, _matlab_class(dataset) is not None)
            for key, dataset in self._datasets.items()
        }
        self.mark = self._read_mark() if MARK in self._file.attrs else None
        self._table = lay_out(arrays, restrict_map(recording_map, self.mark), self._name, unusable)
        if self.mark is not None:
            self._table = self._name_columns(self._table)
        self.contents = self._table.contents
        self.row_estimate = self._table.row_count

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks; see `TableSource`."""
        return self._table.blocks(time, wanted, self._open_reader)

    def _open_reader(self, key: str) -> _DatasetReader:
        return _DatasetReader(self._datasets[key], self._table.layouts[key], f"{self._name}: {show_name(key)}")

    def _list_datasets(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the numeric datasets by path, and all others with the reason why they cannot be columns."""
        found: dict[str, Any] = {}
        unusable: dict[str, str] = {}

        def visit(key: str, entry: Any) -> bool | None:
            if isinstance(entry, _h5py().Dataset) and not key.startswith(_MATLAB_INTERNALS):
                reason = _why_unusable(entry)
                if reason is None:
                    found[key] = entry
                elif reason:
                    unusable[key] = reason
            return True if len(found) + len(unusable) > _MOST_DATASETS else None

        try:
            stopped = self._file.visititems(visit)
        except _DAMAGE as error:
            raise damaged(self._name, error) from error
        if stopped:
            raise RecordingError(f"{self._name} has more than {_MOST_DATASETS} datasets; remove those not needed")
        return found, unusable

    def _name_columns(self, table: ArrayTable) -> ArrayTable:
        """Return the table of a file that Steelyard wrote, which names the channels of its values."""
        try:
            names = [name.decode() for name in self._file[_COLUMNS][()]]
        except (*_DAMAGE, AttributeError) as error:
            raise damaged(self._name, error) from error
        layout = table.layouts.get(_VALUES)
        if (
            layout is None
            or _TIME not in table.layouts
            or layout.channel_count != len(names)
            or len(set(names) | {_TIME}) != len(names) + 1
        ):
            raise RecordingError(f"{self._name}: its time, names and values do not match; write the file again")
        places = {_TIME: (_TIME, 0)} | {name: (_VALUES, number) for number, name in enumerate(names)}
        contents = replace(table.contents, names=tuple(places), arrays={_TIME: 1}, unusable={})
        return replace(table, contents=contents, places=places)

    def _read_mark(self) -> FileMark:
        try:
            attributes = self._file.attrs
            origin = parse_identity(attributes.get(ORIGIN_KEY))
            return FileMark(int(attributes[EPOCH_KEY]), bool(attributes.get(MAPPED_KEY, False)), origin)
        except _DAMAGE as error:
            raise damaged(self._name, error) from error


class _DatasetReader:
    """A reader of a dataset; see `ArrayReader`."""

    def __init__(self, dataset: Any, layout: ArrayLayout, what: str) -> None:
        self._dataset = dataset
        self._layout = layout
        self._what = what

    def read(self, start: int, stop: int) -> Any:
        """Read rows; see `ArrayReader`."""
        try:
            if self._layout.channels_first:
                return self._dataset[:, start:stop].T
            return self._dataset[start:stop].reshape(stop - start, self._layout.channel_count)
        except _DAMAGE as error:
            raise damaged(self._what, error) from error

    def finish(self) -> None:
        """Leave the file open for the other datasets."""


def write_hdf5(recording: Recording, path: Path, version: str) -> None:
    """Write a recording as HDF5: "time", "values" (rows, columns), and their names in "columns".

    The epoch, whether it was mapped, and its origin are attributes of the file. Names of columns are data, not names of
    datasets: they may contain a slash, which HDF5 would take for a group.

    Args:
        recording: What to write.
        path: Where; an existing file is overwritten.
        version: Steelyard's.

    Raises:
        RecordingError: The package h5py is missing.
        OSError: The file cannot be written.
    """
    h5py = _h5py("writing .h5 files")
    width = len(recording.columns)
    chunk = (min(_ROWS_IN_CHUNK, len(recording)), max(1, min(_COLUMNS_IN_CHUNK, width)))
    with h5py.File(path, "w") as file:
        file.attrs[MARK] = version
        file.attrs[EPOCH_KEY] = recording.epoch
        file.attrs[MAPPED_KEY] = recording.mapped
        file.attrs[ORIGIN_KEY] = recording.origin
        file.create_dataset(_TIME, data=recording.time)
        file.create_dataset(_COLUMNS, data=list(recording.columns), dtype=h5py.string_dtype())
        values = file.create_dataset(_VALUES, (len(recording), width), dtype="<f8", chunks=chunk if width else None)
        start = 0
        for part in recording.chunks():
            if width:
                values[start : start + len(part)] = np.stack(list(part.values.values()), axis=1)
            start += len(part)


def _h5py(doing: str = "reading .h5 and .mat files") -> Any:
    with needing("h5py", doing):
        import h5py  # noqa: PLC0415  (only some users have it)
    return h5py


def _open(path: Path) -> Any:
    h5py = _h5py()
    try:
        with path.open("rb") as file:
            old = file.read(len(_MATLAB_5)) == _MATLAB_5
    except OSError as error:
        raise unreadable(path.name, error) from error
    if old:
        raise RecordingError(f"{path.name} is of an older MATLAB format; save it with save(..., '-v7.3')")
    try:
        return h5py.File(path, "r")
    except _DAMAGE as error:
        raise RecordingError(f"{path.name} is no HDF5 file, or is damaged; copy it again") from error


def _why_unusable(dataset: Any) -> str | None:
    """Return why a dataset cannot be columns; None where it can, an empty text where that needs no mention."""
    try:
        if dataset.shape in {None, ()} or "MATLAB_empty" in dataset.attrs:
            return ""
        return next(_reasons(dataset), None)
    except _DAMAGE:
        return "is damaged"


def _reasons(dataset: Any) -> Iterator[str]:
    """Yield what keeps a dataset from being columns."""
    kind = _matlab_class(dataset)
    if kind is not None and not _MATLAB_NUMBERS.fullmatch(kind):
        yield f"holds MATLAB's {kind!r}, not numbers"
    if not is_numeric(dataset.dtype):
        yield f"holds {dataset.dtype}, not numbers"
    if len(dataset.shape) > 2:
        yield f"has {len(dataset.shape)} dimensions; one or two can be columns"
    if dataset.is_virtual or dataset.external:
        yield "lies in another file, which is not followed"
    if dataset.chunks and math.prod(dataset.chunks) * dataset.dtype.itemsize > _MOST_CHUNK_BYTES:
        yield "is stored in pieces too large to be read one at a time"


def _matlab_class(dataset: Any) -> str | None:
    kind = dataset.attrs.get("MATLAB_class")
    return kind.decode("ascii", errors="replace") if isinstance(kind, bytes) else None
