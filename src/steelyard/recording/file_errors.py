"""Errors that all formats share: files that cannot be opened, are damaged, or need a package that is missing."""

from __future__ import annotations

from steelyard.exceptions import RecordingError
from steelyard.wording import reason


def missing_package(doing: str, package: str) -> RecordingError:
    """Return the error that says how to install a package that only some formats need."""
    return RecordingError(f'{doing} needs the package {package}; install it with: pip install "steelyard[ros]"')


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
