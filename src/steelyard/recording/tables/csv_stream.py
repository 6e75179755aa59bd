"""A text file as a stream of bytes: decompressed, in UTF-8, and with single blanks where blanks separate columns."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

_GZIP = b"\x1f\x8b"

_PACKING = 3
"""Estimate of the text's size over that of a gzip file of numbers; only the choice of memory or disk depends on it."""

_LAST = 16
"""Bytes at the end of a text that are kept: a line break, and blanks after it."""


def open_text(path: Path, encoding: str, end: LastBytes, *, careful: bool = False) -> Any:
    """Open a file as a stream of bytes.

    Args:
        path: A text file, compressed with gzip or not.
        encoding: Its encoding; the stream is in UTF-8.
        end: Receives the end of the text; of a compressed one when all is read.
        careful: Whether invalid bytes in UTF-8 are replaced.

    Raises:
        OSError: It cannot be opened.
    """
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
        if not packed:
            # Passing all of the text through `end` would take a fifth more time.
            file.seek(max(0, path.stat().st_size - _LAST))
            end(file.read(_LAST))
    stream = pa.input_stream(str(path), compression="gzip" if packed else None)
    stream = pa.TransformInputStream(stream, end) if packed else stream
    return pa.TransformInputStream(stream, Recoded(encoding)) if careful or encoding != "utf-8" else stream


def guess_size(path: Path) -> int:
    """Estimate the bytes of text in a file; columns of numbers compress to less than half."""
    with path.open("rb") as file:
        return path.stat().st_size * (_PACKING if file.read(2) == _GZIP else 1)


def read_bytes(stream: Any, count: int) -> bytes:
    """Read this many bytes of a stream, or all that are left; streams may return fewer than requested."""
    pieces = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


class LastBytes:
    """A filter that keeps the last bytes of a stream, and passes it on unchanged."""

    def __init__(self) -> None:
        self._last = b""

    def __call__(self, piece: Any) -> Any:
        """Return the next piece of text."""
        self._last = (self._last + bytes(memoryview(piece)[-_LAST:]))[-_LAST:]
        return piece

    @property
    def is_end_of_line(self) -> bool:
        """Whether what was read ended with a line break, but for blanks; of UTF-16 each second byte may be zero."""
        return self._last.replace(b"\0", b"").rstrip(b" \t")[-1:] in {b"\n", b"\r", b""}


class Recoded:
    """A filter that converts a stream to UTF-8; invalid bytes become replacement characters."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def __call__(self, piece: Any) -> bytes:
        """Return the next piece of text."""
        return self._decoder.decode(bytes(piece)).encode()


class SingleBlanks:
    """A filter that reduces each run of blanks and tabs to one blank, and to none at the ends of lines."""

    def __init__(self) -> None:
        self._held = b"\n"

    def __call__(self, piece: Any) -> bytes:
        """Return the next piece of text."""
        text = self._held + bytes(piece).replace(b"\t", b" ").replace(b"\r", b"\n")
        kept = text.rstrip(b" \n")
        # Blanks at the end of a piece may go on in the next.
        rest = text[len(kept) :]
        self._held = b"\n" if b"\n" in rest else rest[:1]
        while b"  " in kept:
            kept = kept.replace(b"  ", b" ")
        return kept.replace(b" \n", b"\n").replace(b"\n ", b"\n")
