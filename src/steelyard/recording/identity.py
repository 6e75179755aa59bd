"""Which recording it is: a hash that all parts and copies of a recording share."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from steelyard.recording.file_errors import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray


class Identity:
    """The identity of a recording: one object that all its parts and copies share, so that it is hashed at most once.

    Args:
        sha256: The hash, or a function that computes it; it is called once, when the hash is first requested.
    """

    def __init__(self, sha256: str | Callable[[], str]) -> None:
        self._sha256 = sha256

    @property
    def is_known(self) -> bool:
        """Whether the hash is known already."""
        return isinstance(self._sha256, str)

    @property
    def sha256(self) -> str:
        """The hash, 64 hexadecimal digits."""
        if not isinstance(self._sha256, str):
            self._sha256 = self._sha256()
        return self._sha256


def parse_identity(text: object) -> Identity | None:
    """Return the identity that a file of Steelyard's states, or None where it states none."""
    return Identity(text) if isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) else None


def hash_columns(time: FloatArray, values: Mapping[str, FloatArray]) -> str:
    """Compute the sha256 of a clock and of columns by name, read one after the other."""
    digest = hashlib.sha256(time.tobytes())
    for name, column in values.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


def join_identities(parts: Sequence[Identity], *, same_clock: bool) -> Identity:
    """Return the identity of recordings one after the other.

    Args:
        parts: Their identities, in order.
        same_clock: Whether their times are unchanged: parts of one recording are then that recording again.
    """

    def compute() -> str:
        hashes = [part.sha256 for part in parts]
        if same_clock and len(set(hashes)) == 1:
            return hashes[0]
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()

    return Identity(compute)


def hash_file(path: Path) -> str:
    """Compute the sha256 of a file's content, or of all files in a folder with their names.

    Raises:
        RecordingError: A file cannot be read.
    """
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        for each in sorted(each for each in path.rglob("*") if each.is_file()):
            digest.update(f"{each.relative_to(path).as_posix()}\n{hash_file(each)}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise unreadable(path.name, error) from error
