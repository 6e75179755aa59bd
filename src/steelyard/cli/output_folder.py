"""A command's files, and folders of them: all of them appear, or none."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from steelyard.cli.interrupts import hold_interrupts, written
from steelyard.exceptions import SteelyardError
from steelyard.wording import in_words


def check_folder(
    folder: Path,
    names: Iterable[str],
    *,
    folders: Mapping[str, Callable[[Path], bool]] | None = None,
    force: bool = False,
) -> None:
    """Refuses, before any work is done for it, a folder that these files cannot be written into.

    Args:
        folder: Where the files will be; it need not be there yet.
        names: Of the files.
        folders: By name of a folder to write into it, what tells of one that is there whether nothing in it is lost by
            replacing it.
        force: Whether files and such folders that are there already may be replaced.

    Raises:
        SteelyardError: The folder is a file, it may not be written, or a file is there already.
    """
    try:
        _check_place(folder)
        for path in (folder / name for name in names):
            if path.is_dir():
                raise SteelyardError(f"{path} is a folder; move it away, or name another folder for the results")
            if not force and (path.exists() or path.is_symlink()):
                raise SteelyardError(f"{path} is there already; name another folder, or replace it with --force")
        for name, ours in (folders or {}).items():
            path = folder / name
            if not (path.exists() or path.is_symlink()):
                continue
            if path.is_symlink() or not path.is_dir():
                raise SteelyardError(f"{path} is no folder; move it away, or name another folder for the results")
            if not force:
                raise SteelyardError(f"{path} is there already; name another folder, or replace it with --force")
            if not ours(path):
                raise SteelyardError(
                    f"{path} holds other files too; move them away, or name another folder for the results"
                )
    except (OSError, ValueError) as error:
        raise SteelyardError(f"{str(folder)!r} cannot be a folder ({_reason(error)}); name another") from error


def check_file(path: Path, *, force: bool = False) -> None:
    """Refuses, before any work is done for it, a file that cannot be written.

    Args:
        path: The file; its folder need not be there yet.
        force: Whether a file that is there already may be replaced.

    Raises:
        SteelyardError: It is a folder, its folder is a file or may not be written, or it is there already.
    """
    try:
        if path.is_dir():
            raise SteelyardError(f"{path} is a folder; give the name of a file")
        _check_place(path.parent)
        if not force and (path.exists() or path.is_symlink()):
            raise SteelyardError(f"{path} is there already; name another file, or replace it with --force")
    except (OSError, ValueError) as error:
        raise SteelyardError(f"{str(path)!r} cannot be a file ({_reason(error)}); name another") from error


def _check_place(folder: Path) -> None:
    """Refuses a folder that nothing can be written into; it need not be there yet."""
    standing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not standing.is_dir():
        raise SteelyardError(f"{standing} is a file, not a folder; name another folder")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise SteelyardError(f"the folder {standing} may not be written; name another, or change its permissions")


def write_together(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
    """Writes files into a folder, which is made where it is missing: all of them, or none.

    Args:
        folder: Where.
        writers: By name of the file or folder, what writes it to a path. Each gets a hidden name in the folder itself,
            so that paths within a file that are relative to it stay right.

    Returns:
        The files, in the order of `writers`.

    Raises:
        SteelyardError: One cannot be written; the folder is then as it was.
    """
    return write_files({folder / name: write for name, write in writers.items()}, place=str(folder))


def write_files(writers: Mapping[Path, Callable[[Path], object]], *, place: str | None = None) -> list[Path]:
    """Writes files, each into a folder that is made where it is missing: all of them, or none.

    Ctrl-C while they are written leaves everything as it was, too.

    Args:
        writers: By the file's or folder's path, what writes it to another path, beside it and with its ending.
        place: What they are together, in words.

    Returns:
        The files, in the order of `writers`.

    Raises:
        SteelyardError: One cannot be written; everything is then as it was.
    """
    mark = f".{secrets.token_hex(4)}-"
    place = place if place is not None else in_words([str(path) for path in writers])
    folders = list(dict.fromkeys(path.parent for path in writers))
    made: list[Path] = []
    replaced: dict[Path, tuple[Path, Path]] = {}
    stuck: list[Path] = []
    done = False
    try:
        for folder in folders:
            made += [each for each in (folder, *folder.absolute().parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        for path, write in writers.items():
            write(path.with_name(f"{mark}{path.name}"))
        try:
            with hold_interrupts():
                for path in writers:
                    aside = path.with_name(f"{mark}old.{path.name}")
                    _move(path.with_name(f"{mark}{path.name}"), path, aside, replaced)
            with hold_interrupts():
                written.extend(writers)
                done = True
        finally:
            if not done:
                with hold_interrupts():
                    stuck = _put_back(replaced)
    except OSError as error:
        raise SteelyardError(
            f"nothing was written to {place} ({_reason(error)}){_about(stuck)}; name another, or make room"
        ) from error
    except SteelyardError as error:
        raise SteelyardError(f"nothing was written to {place}: {str(error).replace(mark, '')}") from error
    finally:
        with hold_interrupts():
            _tidy(folders, mark, stuck, [] if done else made)
    return list(writers)


def write_json(path: Path, plain: Any) -> None:
    """Writes plain values as a JSON file; numbers that are none are a mistake of ours.

    Raises:
        OSError: It cannot be written.
    """
    path.write_text(json.dumps(plain, allow_nan=False) + "\n", encoding="utf-8")


def _tidy(folders: Iterable[Path], mark: str, stuck: Iterable[Path], made: Iterable[Path]) -> None:
    """Removes drafts, and folders that were made in vain."""
    for draft in (draft for folder in folders for draft in folder.glob(f"*{mark}*")):
        if draft not in stuck:
            with suppress(OSError):
                _remove(draft)
    for folder in made:
        with suppress(OSError):
            folder.rmdir()


def _move(draft: Path, path: Path, aside: Path, replaced: dict[Path, tuple[Path, Path]]) -> None:
    """Gives a draft its name; what had it before is kept aside, and `replaced` gets both by the path."""
    replaced[path] = aside, draft
    if path.is_symlink() or path.is_file() or (path.is_dir() and draft.is_dir()):
        path.replace(aside)
    draft.replace(path)


def _put_back(replaced: Mapping[Path, tuple[Path, Path]]) -> list[Path]:
    """Puts back what was replaced and removes what was new; gives those files that stay aside because it fails."""
    stuck = []
    for path, (aside, draft) in replaced.items():
        try:
            if not draft.exists():
                _remove(path)
            if aside.is_symlink() or aside.exists():
                aside.replace(path)
        except OSError:
            stuck.append(aside)
    return stuck


def _remove(path: Path) -> None:
    """Removes a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _about(stuck: Iterable[Path]) -> str:
    names = [str(path) for path in stuck]
    return f", and what was there before is now in {in_words(names)}" if names else ""


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def deliver(console: Console, plain: dict[str, Any], output: Path | None, *, as_json: bool) -> None:
    """Writes a finding as JSON where a file was named, and prints it where machines read.

    Raises:
        SteelyardError: The file cannot be written.
    """
    if output is not None:
        write_files({output: lambda path: write_json(path, plain)})
        console.print(Text(f"written: {output}", style="green"), soft_wrap=True)
    if as_json:
        typer.echo(json.dumps(plain))
