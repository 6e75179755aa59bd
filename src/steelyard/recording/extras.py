"""Packages that only some formats need."""

from __future__ import annotations

from steelyard.exceptions import RecordingError


def missing_package(doing: str, package: str) -> RecordingError:
    """Gives the error that says how to install what is missing."""
    return RecordingError(f'{doing} needs the package {package}; install it with: pip install "steelyard[ros]"')
