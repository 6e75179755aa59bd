"""Files and folders of them that appear together, or not at all."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.cli.output_folder import write_together
from tests.cli.running import run
from tests.laboratory.trials import robot


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_what_cannot_be_put_in_place_leaves_everything_as_it_was(tmp_path, monkeypatch, at, error):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "a").write_text("old a")
    (folder / "c").symlink_to("a")
    rename = Path.replace
    left = [at]

    def fails(path: Path, target: Path) -> Path:
        if Path(target).name in "abcd" and "old" not in path.name:
            left[0] -= 1
            if left[0] < 0:
                left[0] = 99
                raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    writers = {name: partial(_write_new, name=name) for name in "abc"}
    writers["d"] = _write_folder
    (folder / "d").mkdir()
    (folder / "d" / "e").write_text("old e")
    wanted = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else sy.exceptions.SteelyardError
    with pytest.raises(wanted, match="^$" if wanted is KeyboardInterrupt else r"nothing was written .*No space left"):
        write_together(folder, writers, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c", "d"]
    assert (folder / "a").read_text() == "old a"
    assert [(path.name, path.read_text()) for path in (folder / "d").iterdir()] == [("e", "old e")]
    assert (folder / "c").is_symlink()
    monkeypatch.undo()
    write_together(folder, writers, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c", "d"]
    assert [path.name for path in (folder / "d").iterdir()] == ["f"]
    assert [(folder / name).read_text() for name in "abc"] == ["new a", "new b", "new c"]
    assert not (folder / "c").is_symlink()


def _write_new(path: Path, *, name: str) -> None:
    path.write_text(f"new {name}")


def _write_folder(path: Path) -> None:
    path.mkdir()
    (path / "f").write_text("new f")


def test_what_cannot_be_put_back_either_is_said_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old a")
    rename = Path.replace

    def fails(path: Path, target: Path) -> Path:
        if Path(target).name == "a":
            raise OSError(errno.EROFS, "Read-only file system")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(sy.exceptions.SteelyardError, match="what was there before is now in") as caught:
        write_together(tmp_path, {"a": partial(_write_new, name="a")}, force=True)
    (kept,) = tmp_path.iterdir()
    assert str(kept) in str(caught.value)
    assert kept.read_text() == "old a"


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_of_several_that_write_the_same_files_one_succeeds(tmp_path, monkeypatch, links):
    # All have passed the check and written their drafts before the first puts anything in place.
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    count = 6
    ready = threading.Barrier(count)

    def write(path: Path, number: int, *, last: bool) -> None:
        if last:
            path.mkdir()
            (path / "f").write_text(str(number))
            ready.wait(timeout=30)
        else:
            path.write_text(str(number))

    def attempt(number: int) -> str | None:
        writers = {name: partial(write, number=number, last=name == "d") for name in ("a", "b", "d")}
        try:
            write_together(tmp_path / "out", writers, force=False)
        except sy.exceptions.SteelyardError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(count) as pool:
        errors = list(pool.map(attempt, range(count)))
    (winner,) = [number for number, error in enumerate(errors) if error is None]
    out = tmp_path / "out"
    assert [path.read_text() for path in (out / "a", out / "b", out / "d" / "f")] == [str(winner)] * 3
    assert sorted(path.name for path in out.iterdir()) == ["a", "b", "d"]
    for error in errors:
        assert error is None or "a already exists, made by another process meanwhile; name another" in error


def _no_links(*paths: object, **options: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_command_that_comes_second_ends_in_one_sentence(tmp_path, monkeypatch):
    module = import_module("steelyard.cli.init")
    check = module.check_file

    def check_then_lose(path: Path, *, force: bool) -> None:
        check(path, force=force)
        path.write_text("of another process")

    monkeypatch.setattr(module, "check_file", check_then_lose)
    setup = tmp_path / "g1.toml"
    ran = run("init", robot("g1").description.file.path, "-o", setup)
    assert ran.code == 1
    (line,) = ran.told.splitlines()
    assert line.startswith("error: nothing was written")
    assert line.endswith("name another, or replace it with --force")
    assert setup.read_text() == "of another process"
    assert [path.name for path in tmp_path.iterdir()] == ["g1.toml"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_another_process_made_after_the_check_is_not_replaced(tmp_path, kind):
    def write(path: Path) -> None:
        path.write_text("mine") if kind == "file" else _write_folder(path)
        (tmp_path / "b").write_text("theirs") if kind == "file" else _write_folder(tmp_path / "b")

    with pytest.raises(sy.exceptions.SteelyardError, match=r"nothing was written .*b already exists"):
        write_together(tmp_path, {"a": partial(_write_new, name="a"), "b": write}, force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert kind == "folder" or (tmp_path / "b").read_text() == "theirs"
