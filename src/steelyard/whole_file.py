"""Files that appear complete or not at all, and what is left of them when a process is killed.

Drafts have hidden names in the folder of the file that they become. Beside them is a lock file, which the system
unlocks when the process ends, however it ends: a later call removes the drafts whose lock file nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREFIX, _LOCK, _BACKUP = ".steelyard-", ".lock", "old."
"""Names: ``.steelyard-<mark>.lock`` beside ``.steelyard-<mark>-<name>`` and ``.steelyard-<mark>-old.<name>``."""


class Drafts:
    """Hidden names for drafts and backups of files in some folders, for as long as they are open.

    Args:
        folders: The folders, which exist. What killed processes left in them is removed.

    Attributes:
        mark: What all names begin with.

    Raises:
        OSError: A folder is missing or not writable, or the disk is full.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(dict.fromkeys(folders))
        self._locks = ExitStack()
        token = secrets.token_hex(4)
        self.mark = f"{_PREFIX}{token}-"
        try:
            for folder in self._folders:
                remove_stale_drafts(folder)
                self._locks.enter_context(_locked(folder / f"{_PREFIX}{token}{_LOCK}"))
        except BaseException:
            self._locks.close()
            raise

    def draft(self, path: Path) -> Path:
        """Return where to write a file or folder before it is put in place."""
        return path.with_name(f"{self.mark}{path.name}")

    def backup(self, path: Path) -> Path:
        """Return where to move what a file or folder replaces; after a kill, a later call moves it back."""
        return path.with_name(f"{self.mark}{_BACKUP}{path.name}")

    def close(self, keep: Iterable[Path] = ()) -> None:
        """Remove all drafts and backups, except some to keep."""
        kept = set(keep)
        for left in (left for folder in self._folders for left in folder.glob(f"*{self.mark}*") if left not in kept):
            with suppress(OSError):
                remove_path(left)
        self._locks.close()


def remove_stale_drafts(folder: Path) -> None:
    """Remove the drafts that killed processes left in a folder; drafts of running ones stay.

    A file that was moved away to be replaced, but was not replaced, is moved back.
    """
    for lock in folder.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError), open(os.open(lock, os.O_RDWR | os.O_NOFOLLOW), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where a process holds it
            mark = f"{lock.name.removesuffix(_LOCK)}-"
            for left in folder.glob(f"*{mark}*"):
                name = left.name.removeprefix(f"{mark}{_BACKUP}")
                if name != left.name and not os.path.lexists(folder / name):
                    left.replace(folder / name)
                else:
                    remove_path(left)
            lock.unlink(missing_ok=True)


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a path to write a file to, which replaces `path` at the end; after an error, `path` is unchanged.

    The draft has the file's own name, in a hidden folder beside it. A symbolic link stays, and the permissions of a
    file that is replaced are kept.

    Raises:
        OSError: The folder is missing or not writable, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    with draft_folder(target.parent) as folder:
        draft = folder / target.name
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """Yield a hidden folder in another, which is removed at the end with what is left in it.

    Raises:
        OSError: The folder is missing or not writable, or the disk is full.
    """
    drafts = Drafts([parent])
    try:
        folder = drafts.draft(parent / "drafts")
        folder.mkdir()
        yield folder
    finally:
        drafts.close()


def remove_path(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing where there is none.

    Raises:
        OSError: It cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a new lock file, which is removed at the end.

    On file systems without locks there is none, and nothing that a killed process leaves there is ever removed.
    """
    while True:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:
                path.unlink(missing_ok=True)
                yield
                return
            # Another process may have taken the file for a stale one before it was locked, and removed it.
            if not _is_same(path, file.fileno()):
                continue
            try:
                yield
            finally:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            return


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
