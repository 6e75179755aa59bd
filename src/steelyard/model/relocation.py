"""Relative file names in a model that is written into another folder."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath


def relative_reference(reference: str, old_file: Path, new_file: Path) -> str | None:
    """Return the path by which `new_file` refers to what `old_file` calls `reference`; None if it stays the same.

    Only relative paths change, and only when the folder does.
    """
    if "://" in reference or PurePosixPath(reference).is_absolute():
        return None
    old_folder, new_folder = old_file.resolve().parent, new_file.resolve().parent
    if old_folder == new_folder:
        return None
    return Path(os.path.relpath(old_folder / reference, new_folder)).as_posix()
