"""Decompressing the chunks of bags: never beyond their stated size, and never beyond a bound."""

from __future__ import annotations

import bz2

from steelyard.recording.file_errors import needing

MOST_CHUNK_BYTES = 256_000_000
"""Bytes of a chunk at most.

Set by judgement: writers use 1 to 4 MB by default, and a damaged length may be anything.
"""

_PIECE = 4_000_000
"""Bytes that are decompressed at a time, so that memory grows with the data; 4 MB is the usual size of a chunk."""


class DamagedChunkError(ValueError):
    """A chunk that cannot be decompressed."""


def decompress(contents: bytes, compression: str, size: int) -> bytes:
    """Unpack the contents of a chunk.

    Args:
        contents: The chunk as stored in the file.
        compression: "none", "zstd", "lz4" or "bz2".
        size: Its decompressed size in bytes, as the file states it.

    Raises:
        DamagedChunkError: It cannot be decompressed, has another size, or is larger than `MOST_CHUNK_BYTES`.
        RecordingError: The package that decompresses it is not installed.
    """
    if size > MOST_CHUNK_BYTES:
        raise DamagedChunkError(f"a chunk of {size} bytes is too large")
    unpack = {"none": _copy, "zstd": _unpack_zstd, "lz4": _unpack_lz4, "bz2": _unpack_bz2}.get(compression)
    if unpack is None:
        raise DamagedChunkError(f"the compression {compression!r} is not known")
    unpacked = unpack(contents, size)
    if len(unpacked) != size:
        raise DamagedChunkError(f"a chunk has {len(unpacked)} bytes instead of {size}")
    return unpacked


def _copy(contents: bytes, size: int) -> bytes:
    return contents


def _unpack_zstd(contents: bytes, size: int) -> bytes:
    with needing("zstandard", "reading bags packed with zstd"):
        import zstandard  # noqa: PLC0415 (comes with an extra)
    # The size in a frame's own header is not used: it may be any number.
    pieces: list[bytes] = []
    left = size + 1
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(contents)
        while left > 0 and (piece := reader.read(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedChunkError(f"a chunk cannot be unpacked ({error})") from error
    return b"".join(pieces)


def _unpack_lz4(contents: bytes, size: int) -> bytes:
    with needing("lz4", "reading bags packed with lz4"):
        import lz4.frame  # noqa: PLC0415 (comes with an extra)
    try:
        unpacked: bytes = lz4.frame.LZ4FrameDecompressor().decompress(contents, max_length=size + 1)
    except (RuntimeError, EOFError, ValueError, MemoryError) as error:
        raise DamagedChunkError(f"a chunk cannot be unpacked ({error})") from error
    return unpacked


def _unpack_bz2(contents: bytes, size: int) -> bytes:
    try:
        return bz2.BZ2Decompressor().decompress(contents, max_length=size + 1)
    except (OSError, EOFError, ValueError) as error:
        raise DamagedChunkError(f"a chunk cannot be unpacked ({error})") from error
