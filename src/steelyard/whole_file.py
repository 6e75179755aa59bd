"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a path to write a file to, which replaces `path` at the end; after an error, `path` is unchanged.

    The draft has the file's own name, in a hidden folder beside it. A symbolic link stays, and the permissions of a
    file that is replaced are kept.

    Raises:
        OSError: The folder is missing or not writable, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    with tempfile.TemporaryDirectory(prefix=".steelyard-", dir=target.parent) as folder:
        draft = Path(folder) / target.name
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
