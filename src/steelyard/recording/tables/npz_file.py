"""NPZ files: NumPy arrays in a zip archive, each streamed, and never unpickled."""

from __future__ import annotations

import lzma
import os
import struct
import tempfile
import tokenize
import warnings
import weakref
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from steelyard.exceptions import RecordingError
from steelyard.recording.file_errors import damaged, no_temporary_space, unreadable
from steelyard.recording.file_mark import EPOCH_KEY, MAPPED_KEY, MARK, ORIGIN_KEY, FileMark, restrict_map
from steelyard.recording.identity import parse_identity
from steelyard.recording.tables.array_table import ArrayLayout, StoredArray, is_numeric, lay_out
from steelyard.wording import reason, show_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model import RecordingMap
    from steelyard.recording.recording import Recording

_PIECE = 1 << 20
"""Bytes that are read at a time, so that a header that states too much does not claim memory. Set by judgement."""


# What reading a zip archive raises where it is damaged, encrypted, or compressed by an unknown method.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
)
_BAD_HEADER = (*_DAMAGE, SyntaxError, TypeError, MemoryError, tokenize.TokenError)


class NpzSource:
    """An NPZ file; see `TableSource`.

    Raises:
        RecordingError: It is no NPZ file, or has no time.
    """

    def __init__(self, path: Path, recording_map: RecordingMap) -> None:
        self._name = path.name
        self.notes: list[str] = []
        try:
            self._zip = zipfile.ZipFile(path)
        except PermissionError as error:
            raise unreadable(self._name, error) from error
        except _DAMAGE as error:
            raise RecordingError(
                f"{self._name} is no NPZ file, or is damaged ({reason(error)}); copy it again"
            ) from error
        self._members = self._read_headers()
        arrays = {
            key: StoredArray(member.shape, member.dtype)
            for key, member in self._members.items()
            if is_numeric(member.dtype) and len(member.shape) in (1, 2)
        }
        unusable = {
            key: f"holds {member.dtype} of the shape {member.shape}, not a column of numbers"
            for key, member in self._members.items()
            if key not in arrays and member.shape
        }
        self.mark = self._read_mark()
        self._table = lay_out(arrays, restrict_map(recording_map, self.mark), self._name, unusable)
        self.contents = self._table.contents
        self.row_estimate = self._table.row_count

    def blocks(self, time: str, wanted: Sequence[str]) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the rows in blocks; see `TableSource`."""
        return self._table.blocks(time, wanted, self._open_reader)

    def _open_reader(self, key: str) -> _RowsInPieces | _ChannelsInPieces:
        member, layout = self._members[key], self._table.layouts[key]
        stream = _MemberStream(self._zip, member, f"{self._name}: the array {show_name(key)}")
        # An array in Fortran order is stored the other way round.
        if layout.channels_first != (member.fortran and len(member.shape) == 2):
            return _ChannelsInPieces(stream, member.dtype, layout)
        return _RowsInPieces(stream, member.dtype, layout)

    def _read_headers(self) -> dict[str, _Member]:
        members: dict[str, _Member] = {}
        for info in self._zip.infolist():
            if not info.filename.endswith(".npy"):
                continue
            key = info.filename.removesuffix(".npy")
            if key in members:
                raise RecordingError(f"{self._name} has two arrays called {show_name(key)}; rename one", column=key)
            try:
                with self._zip.open(info) as stream:
                    members[key] = _read_header(stream, info)
            except _BAD_HEADER as error:
                raise RecordingError(
                    f"{self._name}: the array {show_name(key)} has a damaged header ({reason(error)}); copy it again",
                    column=key,
                ) from error
        return members

    def _read_mark(self) -> FileMark | None:
        if MARK not in self._members:
            return None
        return FileMark(
            int.from_bytes(self._read_scalar(EPOCH_KEY, "<i8"), "little", signed=True),
            any(self._read_scalar(MAPPED_KEY, "|b1")),
            parse_identity(self._read_scalar(ORIGIN_KEY, "<U64").decode("utf-32-le", errors="replace")),
        )

    def _read_scalar(self, key: str, kind: str) -> bytes:
        """Read the bytes of a scalar; none where there is no scalar of this kind."""
        member = self._members.get(key)
        if member is None or member.shape or member.dtype != np.dtype(kind):
            return b""
        return _MemberStream(self._zip, member, f"{self._name}: the array {key!r}").read(member.dtype.itemsize)


@dataclass(frozen=True)
class _Member:
    """An array in the archive: where it is, and what its header states."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


class _MemberStream:
    """The bytes of an array, in order, exactly as many as its header states."""

    def __init__(self, archive: zipfile.ZipFile, member: _Member, what: str) -> None:
        self.what = what
        try:
            self._stream = archive.open(member.info)
            _read_header(self._stream, member.info)
        except _BAD_HEADER as error:
            raise damaged(self.what, error) from error

    def read(self, count: int) -> bytes:
        """Read this many bytes."""
        pieces = []
        while count > 0:
            try:
                piece = self._stream.read(min(count, _PIECE))
            except _DAMAGE as error:
                raise damaged(self.what, error) from error
            if not piece:
                raise RecordingError(f"{self.what} is truncated: its header states more; copy the file again")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def finish(self) -> None:
        """Check the end, where the archive compares the checksum."""
        try:
            rest = self._stream.read(1)
        except _DAMAGE as error:
            raise damaged(self.what, error) from error
        if rest:
            raise RecordingError(f"{self.what} is longer than its header states; write the file again")
        self._stream.close()


class _RowsInPieces:
    """A reader of an array that is stored row by row."""

    def __init__(self, stream: _MemberStream, dtype: np.dtype[Any], layout: ArrayLayout) -> None:
        self._stream = stream
        self._dtype = dtype
        self._width = layout.channel_count

    def read(self, start: int, stop: int) -> Any:
        """Read rows; see `ArrayReader`."""
        piece = self._stream.read((stop - start) * self._width * self._dtype.itemsize)
        return np.frombuffer(piece, dtype=self._dtype).reshape(stop - start, self._width)

    def finish(self) -> None:
        """Check the end; see `ArrayReader`."""
        self._stream.finish()


class _ChannelsInPieces:
    """A reader of an array that is stored channel by channel, through a temporary file for random access."""

    def __init__(self, stream: _MemberStream, dtype: np.dtype[Any], layout: ArrayLayout) -> None:
        self._dtype = dtype
        self._layout = layout
        left = layout.row_count * layout.channel_count * dtype.itemsize
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(prefix="steelyard-")  # noqa: SIM115 (lives on)
            weakref.finalize(self, self._file.close)
            while left > 0:
                piece = stream.read(min(left, _PIECE))
                self._file.write(piece)
                left -= len(piece)
            self._file.flush()
        except OSError as error:
            raise no_temporary_space(stream.what, error) from error
        stream.finish()

    def read(self, start: int, stop: int) -> Any:
        """Read rows; see `ArrayReader`."""
        rows = np.empty((stop - start, self._layout.channel_count), dtype=self._dtype)
        size = self._dtype.itemsize
        for number in range(self._layout.channel_count):
            position = size * (number * self._layout.row_count + start)
            piece = os.pread(self._file.fileno(), size * (stop - start), position)
            rows[:, number] = np.frombuffer(piece, dtype=self._dtype)
        return rows

    def finish(self) -> None:
        """Close the temporary file."""
        self._file.close()


def write_npz(recording: Recording, path: Path, version: str) -> None:
    """Write a recording as NPZ: "time", each column under its name, epoch, origin, and whether it was mapped.

    Args:
        recording: What to write.
        path: Where; an existing file is overwritten.
        version: Steelyard's.

    Raises:
        RecordingError: A name cannot be written.
        OSError: The file cannot be written.
    """
    for name in recording.columns:
        if name in {MARK, EPOCH_KEY, MAPPED_KEY, ORIGIN_KEY}:
            raise RecordingError(f"the column {name!r} cannot be named in an NPZ file; write .parquet", column=name)
    with zipfile.ZipFile(path, "w") as archive:
        _write_array(archive, MARK, np.array(version))
        _write_array(archive, EPOCH_KEY, np.array(recording.epoch, dtype="<i8"))
        _write_array(archive, MAPPED_KEY, np.array(recording.mapped, dtype=np.bool_))
        _write_array(archive, ORIGIN_KEY, np.array(recording.origin, dtype="<U64"))
        _write_array(archive, "time", recording.time)
        for name in recording.columns:
            _write_array(archive, name, recording.values[name])


def _write_array(archive: zipfile.ZipFile, name: str, values: Any) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
        npy.write_array(stream, np.asarray(values), allow_pickle=False)


def _read_header(stream: Any, info: zipfile.ZipInfo) -> _Member:
    """Read the header of an array; what it states is trusted only when the data are there."""
    version = npy.read_magic(stream)
    if version not in {(1, 0), (2, 0)}:
        raise ValueError(f"version {version} is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        # Headers of old Python versions are read too, without the warning that they are old.
        warnings.simplefilter("ignore")
        shape, fortran, dtype = read(stream)
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"the shape {shape} is impossible")
    return _Member(info, tuple(int(length) for length in shape), dtype, bool(fortran))
