"""Errors that all formats share: files that cannot be opened, are damaged, or need a package that is missing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError
from steelyard.wording import reason

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needing(package: str, doing: str) -> Iterator[None]:
    """Say how to install a package that only some formats need, where an import of it fails.

    Raises:
        RecordingError: It fails.
    """
    try:
        yield
    except ImportError as error:
        raise RecordingError(
            f'{doing} needs the package {package}; install it with: pip install "steelyard[ros]"'
        ) from error


def unreadable(name: str, error: OSError) -> RecordingError:
    """Return the error for a file that the system does not let us read."""
    return RecordingError(f"{name} cannot be read ({error.strerror or reason(error)}); check the path and permissions")


def unwritable(name: str, error: OSError) -> RecordingError:
    """Return the error for a file that the system does not let us write."""
    why = error.strerror or reason(error)
    return RecordingError(f"{name} cannot be written ({why}); choose another folder, or free space on the disk")


def damaged(what: str, error: BaseException) -> RecordingError:
    """Return the error for a file, or a part of one, whose content is invalid."""
    return RecordingError(f"{what} is damaged ({reason(error)}); copy the file again")


def no_temporary_space(name: str, error: OSError) -> RecordingError:
    """Return the error for a recording that does not fit the folder of temporary files."""
    return RecordingError(
        f"{name}: no space in the folder of temporary files ({error.strerror}); set TMPDIR to a folder with space"
    )
