"""Files and folders of them that appear together, or not at all."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.cli.output_folder import write_together


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
        write_together(folder, writers)
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c", "d"]
    assert (folder / "a").read_text() == "old a"
    assert [(path.name, path.read_text()) for path in (folder / "d").iterdir()] == [("e", "old e")]
    assert (folder / "c").is_symlink()
    monkeypatch.undo()
    write_together(folder, writers)
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
        write_together(tmp_path, {"a": partial(_write_new, name="a")})
    (kept,) = tmp_path.iterdir()
    assert str(kept) in str(caught.value)
    assert kept.read_text() == "old a"
