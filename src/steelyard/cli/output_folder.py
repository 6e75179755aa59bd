"""Output files and folders of a command: checked before any work is done, and written all together or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from steelyard.cli.interrupts import hold_interrupts, written
from steelyard.cli.terminal import print_files
from steelyard.exceptions import SteelyardError
from steelyard.model import Model
from steelyard.whole_file import Drafts, remove_path
from steelyard.wording import in_words

Writer = Callable[[Path], object]


def check_folder(
    folder: Path,
    names: Iterable[str],
    *,
    folders: Mapping[str, Callable[[Path], bool]] | None = None,
    force: bool = False,
) -> None:
    """Check, before any work is done, that files can be written into a folder.

    Args:
        folder: The folder; it need not exist yet.
        names: Names of the files.
        folders: Folders to be written into it, by name: a function that returns whether an existing one may be
            replaced without losing anything else.
        force: Whether existing files and such folders may be replaced.

    Raises:
        SteelyardError: The folder is a file or not writable, or a file exists already.
    """
    elsewhere = "move it away, or name another folder for the results"
    with _explain_bad_path(folder, "folder"):
        _check_writable(folder)
        for path in (folder / name for name in names):
            if path.is_dir():
                raise SteelyardError(f"{path} is a folder; {elsewhere}")
            _check_absent(path, "folder", force=force)
        for path, is_replaceable in ((folder / name, check) for name, check in (folders or {}).items()):
            if not _exists(path):
                continue
            if path.is_symlink() or not path.is_dir():
                raise SteelyardError(f"{path} is not a folder; {elsewhere}")
            _check_absent(path, "folder", force=force)
            if not is_replaceable(path):
                raise SteelyardError(
                    f"{path} holds other files too; move them away, or name another folder for the results"
                )


def check_file(path: Path, *, force: bool = False) -> None:
    """Check, before any work is done, that a file can be written.

    Args:
        path: The file; its folder need not exist yet.
        force: Whether an existing file may be replaced.

    Raises:
        SteelyardError: It is a folder, its folder is a file or not writable, or it exists already.
    """
    with _explain_bad_path(path, "file"):
        if path.is_dir():
            raise SteelyardError(f"{path} is a folder; give the name of a file")
        _check_writable(path.parent)
        _check_absent(path, "file", force=force)


@contextmanager
def _explain_bad_path(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise SteelyardError(f"{str(path)!r} cannot be a {kind} ({_reason(error)}); name another") from error


def _check_absent(path: Path, kind: str, *, force: bool) -> None:
    if not force and _exists(path):
        raise SteelyardError(f"{path} already exists; name another {kind}, or replace it with --force")


def _check_writable(folder: Path) -> None:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise SteelyardError(f"{existing} is a file, not a folder; name another folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SteelyardError(f"the folder {existing} is not writable; name another, or change its permissions")


def write_together(folder: Path, writers: Mapping[str, Writer], *, force: bool) -> list[Path]:
    """Write files into a folder, which is created if missing: all of them, or none.

    Args:
        folder: The folder.
        writers: A function that writes to a path, by name of the file or folder. It is called with a hidden name in
            the same folder, so that paths within a file that are relative to it stay right.
        force: As for `write_files`.

    Returns:
        The files, in the order of `writers`.

    Raises:
        SteelyardError: One cannot be written; the folder is then as it was.
    """
    return write_files({folder / name: write for name, write in writers.items()}, target=str(folder), force=force)


def write_files(writers: Mapping[Path, Writer], *, force: bool, target: str | None = None) -> list[Path]:
    """Write files, each into a folder that is created if missing: all of them, or none, also after Ctrl-C.

    Args:
        writers: A function that writes to a path, by path of the file or folder. It is called with another name in the
            same folder and with the same ending.
        force: Whether files and folders that exist are replaced. Otherwise they are an error, also if another process
            made them after `check_folder`: of several processes that write the same file, one succeeds.
        target: What messages call the files together; by default all their paths.

    Returns:
        The files, in the order of `writers`.

    Raises:
        SteelyardError: One cannot be written; everything is then as it was.
    """
    target = target if target is not None else in_words([str(path) for path in writers])
    folders = list(dict.fromkeys(path.parent for path in writers))
    created: list[Path] = []
    placed: list[Path] = []
    lost: list[Path] = []
    drafts: Drafts | None = None
    done = False
    try:
        for folder in folders:
            created += [each for each in (folder, *folder.absolute().parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        drafts = Drafts(folders)
        for path, write in writers.items():
            write(drafts.draft(path))
        try:
            with hold_interrupts():
                for path in writers:
                    placed.append(path)
                    _put_in_place(path, drafts, force=force)
            with hold_interrupts():
                written.extend(writers)
                done = True
        finally:
            if not done:
                with hold_interrupts():
                    lost = _restore(placed, drafts)
    except OSError as error:
        moved = f", and what was there before is now in {in_words([str(path) for path in lost])}" if lost else ""
        raise SteelyardError(
            f"nothing was written to {target} ({_reason(error)}){moved}; name another, or free space on the disk"
        ) from error
    except SteelyardError as error:
        words = str(error).replace(drafts.mark, "") if drafts is not None else str(error)
        raise SteelyardError(f"nothing was written to {target}: {words}") from error
    finally:
        with hold_interrupts():
            if drafts is not None:
                drafts.close(keep=lost)
            for folder in created if not done else ():
                with suppress(OSError):
                    folder.rmdir()
    return list(writers)


def name_model_file(model: Model, suffix: str) -> str:
    """Return the name of a model file to write: the name of its setup, or else of its model file, with a suffix."""
    source = model.description.file
    return f"{(model.setup.path or source.path).stem}_{suffix}{'.urdf' if source.format == 'URDF' else '.xml'}"


def write_json(path: Path, plain: Any) -> None:
    """Write plain values as a JSON file, in which NaN and infinity are bugs.

    Raises:
        OSError: It cannot be written.
    """
    path.write_text(json.dumps(plain, allow_nan=False) + "\n", encoding="utf-8")


def write_result(console: Console, plain: dict[str, Any], output: Path | None, *, as_json: bool, force: bool) -> None:
    """Write a result as a JSON file, if one is named, and print it as JSON, if asked for.

    Raises:
        SteelyardError: The file cannot be written, or exists and `force` is not given.
    """
    if output is not None:
        print_files(console, write_files({output: lambda path: write_json(path, plain)}, force=force))
    if as_json:
        typer.echo(json.dumps(plain))


def _put_in_place(path: Path, drafts: Drafts, *, force: bool) -> None:
    """Rename a draft to its file; where that exists, replace it or raise an error."""
    draft = drafts.draft(path)
    if force:
        if path.is_symlink() or path.is_file() or (path.is_dir() and draft.is_dir()):
            path.replace(drafts.backup(path))
        draft.replace(path)
        return
    try:
        # Renaming would replace a file that another process has made since the check.
        _give_free_name(draft, path)
    except FileExistsError as error:
        raise SteelyardError(
            f"{path} already exists, made by another process meanwhile; name another, or replace it with --force"
        ) from error


def _give_free_name(draft: Path, path: Path) -> None:
    """Rename a draft to a name that must be free.

    Raises:
        FileExistsError: It is not.
    """
    if not draft.is_dir():
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            path.touch(exist_ok=False)
        else:
            draft.unlink()
            return
    else:
        path.mkdir()
    # An empty file or folder of ours has the name: it alone may be replaced.
    try:
        draft.replace(path)
    except OSError:
        remove_path(path)
        raise


def _restore(placed: Iterable[Path], drafts: Drafts) -> list[Path]:
    """Restore what was replaced and remove what is new; return the backups for which that failed."""
    lost = []
    for path in placed:
        backup = drafts.backup(path)
        try:
            if not drafts.draft(path).exists():
                remove_path(path)
            if _exists(backup):
                backup.replace(path)
        except OSError:
            lost.append(backup)
    return lost


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
