"""Which recording it is: a hash that stays the same whatever part of it is looked at."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray

_DIGITS = 64


class Identity:
    """The identity of a recording: one object that all its parts and copies share, so that it is hashed once at most.

    Reading a file knows it at once; of columns in memory it is found when it is first asked for, which reads them all.

    Args:
        compute: Gives the hash; called when the hash is first asked for, once, and let go of then.
        known: The hash, where it is known already.
    """

    def __init__(self, compute: Callable[[], str] | None, known: str = "") -> None:
        self._compute = compute
        self._known = known

    @property
    def is_known(self) -> bool:
        """Whether the hash is known already."""
        return self._compute is None

    @property
    def sha256(self) -> str:
        """The hash, 64 hexadecimal digits."""
        if self._compute is not None:
            self._known = self._compute()
            self._compute = None
        return self._known


def known_identity(sha256: str) -> Identity:
    """Gives the identity whose hash is known."""
    return Identity(None, sha256)


def stored_identity(text: object) -> Identity | None:
    """Gives the identity that a file of Steelyard's states, or None where it states none."""
    good = isinstance(text, str) and len(text) == _DIGITS and set(text) <= set("0123456789abcdef")
    return known_identity(str(text)) if good else None


def hash_columns(time: FloatArray, values: Mapping[str, FloatArray]) -> str:
    """Gives the sha256 of a clock and of columns by name, read one after the other."""
    digest = hashlib.sha256(time.tobytes())
    for name, column in values.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


def joined_identity(parts: Sequence[Identity], *, same_clock: bool) -> Identity:
    """Gives the identity of recordings one after the other.

    Args:
        parts: Their identities, in order.
        same_clock: Whether their times were left as they are: parts of one recording then are that recording again.
    """

    def compute() -> str:
        hashes = [part.sha256 for part in parts]
        if same_clock and len(set(hashes)) == 1:
            return hashes[0]
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()

    return Identity(compute)


def hash_file(path: Path) -> str:
    """Gives the sha256 of a file's content, or of all files in a folder with their names, read piece by piece.

    Raises:
        RecordingError: A file cannot be read.
    """
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        for each in sorted(each for each in path.rglob("*") if each.is_file()):
            with each.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{each.relative_to(path).as_posix()}\n{content}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be read ({error.strerror}); check the file") from error
