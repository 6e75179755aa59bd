"""`steelyard init`, as a user runs it."""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard.model import load_model
from tests.cli.running import run
from tests.drafting.small_models import biped, joint, link
from tests.humanoids import FILES, ROBOTS, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def here(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.urdf").write_text(biped())
    return tmp_path


def test_a_setup_appears_beside_and_loads(here) -> None:
    result = run("init", "robot.urdf")
    assert (result.code, result.told) == (0, "")
    assert result.printed.rstrip().endswith("written: robot.toml\nnext: steelyard inspect robot.toml RECORDING")
    assert sorted(path.name for path in here.iterdir()) == ["robot.toml", "robot.urdf"]
    model = load_model("robot.toml")
    assert [sole.name for sole in model.setup.soles] == ["left", "right"]
    assert 'file = "robot.urdf"' in (here / "robot.toml").read_text()
    assert run("check", "robot.toml").code == 0


def test_the_table_tells_what_is_found_guessed_and_not_found(here) -> None:
    printed = " ".join(run("init", "robot.urdf", columns=160).printed.split())
    assert "sole left found 4 corners of the underside of left_foot" in printed
    assert "wrench sensor left_foot guessed no sensor was found in this leg; a force plate or an" in printed
    assert "imu not found the file has no IMU tag and no frame named like one to do: if there is one, enter" in printed
    text = (here / "robot.toml").read_text()
    assert "# found: 4 corners of the underside of left_foot, from the collision shapes (1 box)\n[[sole]]" in text
    assert "# guessed: the model has 2 legs; check\nbase" in text
    assert "# not found: the file has no IMU tag and no frame named like one\n# [[imu]]" in text


def test_lines_fit_eighty_columns(here) -> None:
    printed = run("init", path_of("talos_full"), "-o", "t.toml").printed
    assert max(len(line) for line in printed.splitlines()) <= 80


def test_json_is_for_machines(here) -> None:
    result = run("init", f"{ROBOTS}{FILES['icub']}", "-o", "mine.toml", "--json")
    told = json.loads(result.printed)
    assert result.code == 0
    assert told["setup"] == "mine.toml"
    assert told["base"] == "floating"
    kinds = {finding["what"]: finding["kind"] for finding in told["findings"]}
    assert kinds["imu head"] == kinds["sole left"] == kinds["wrench sensor left_foot"] == "found"
    assert kinds["torque"] == "missing"
    assert list(told["links"]) == list(load_model("mine.toml").links)


def test_quiet_is_quiet(here) -> None:
    result = run("init", "robot.urdf", "--quiet")
    assert (result.code, result.printed, result.told) == (0, "", "")
    assert (here / "robot.toml").exists()


def test_a_setup_that_is_there_is_replaced_only_by_force(here) -> None:
    (here / "robot.toml").write_text("# precious")
    result = run("init", "robot.urdf")
    assert result.code == 1
    assert result.told == ("error: robot.toml already exists; name another file, or replace it with --force\n")
    assert (here / "robot.toml").read_text() == "# precious"
    assert run("init", "robot.urdf", "--force").code == 0
    assert load_model("robot.toml").setup.soles


def test_meshes_are_found_in_packages(here) -> None:
    (here / "packages" / "feet").mkdir(parents=True)
    corners = [(x, y, z) for x in (-0.05, 0.1) for y in (-0.04, 0.04) for z in (-0.06, 0.0)]
    faces = [(0, 1, 2), (1, 2, 3), (4, 5, 6), (5, 6, 7), (0, 4, 2), (4, 2, 6)]
    triangles = b"".join(struct.pack("<3f9fH", 0, 0, 0, *(x for k in face for x in corners[k]), 0) for face in faces)
    (here / "packages" / "feet" / "foot.stl").write_bytes(bytes(80) + struct.pack("<I", len(faces)) + triangles)
    mesh = '<visual><geometry><mesh filename="package://feet/foot.stl"/></geometry></visual>'
    (here / "models").mkdir()
    (here / "models" / "m.urdf").write_text(biped(foot=mesh))
    lost = " ".join(run("init", "models/m.urdf", "-o", "m.toml", columns=160).printed.split())
    assert "sole left not found the shapes of left_foot cannot be read to do: give --package-path" in lost
    run("init", "models/m.urdf", "-o", "m.toml", "--force", "--package-path", "packages")
    sole = load_model("m.toml").setup.soles[0]
    assert sorted(sole.vertices[:, 0]) == pytest.approx([-0.05, -0.05, 0.1, 0.1])


def png() -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(4))) + chunk(b"IEND", b"")


BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "empty.urdf": ("", "the file is empty"),
    "picture.urdf": (png(), "this is no text"),
    "picture.xml": (png(), "this is no text"),
    "page.urdf": ("<html><body/></html>", "the outermost element is <html>, not <robot>: this is no URDF"),
    "half.urdf": (biped()[:500], "the XML is broken"),
    "bomb.urdf": ('<!DOCTYPE r [<!ENTITY a "b">]><robot name="r"/>', "declares the entity"),
    "nothing.urdf": ('<robot name="r"/>', "the model has no links"),
    "weightless.urdf": ('<robot name="r"><link name="a"/></robot>', "has no mass"),
    "loop.urdf": (
        biped(more=joint("again", "left_foot", "right_foot", "0 0 0")),
        "the links form a loop. Steelyard identifies trees",
    ),
    "macro.urdf.xacro": ("<robot/>", "is a xacro file; expand it first"),
    "broken.xml": ("<mujoco><worldbody><body/></worldbody></mujoco>", "nothing in the model moves"),
    "table.csv": ("time,q\n0,1\n", "a model file must end in .urdf, .xml or .mjcf"),
    "setup.toml": ("[model]\n", "this is already a setup; give a URDF or MJCF"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_model_is_said_in_one_line(here, name: str) -> None:
    content, words = BAD_FILES[name]
    (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(here.iterdir())
    result = run("init", name, "-o", "new.toml")
    assert result.code == 1
    assert result.printed == ""
    assert result.told.startswith("error: ")
    assert len(result.told.splitlines()) == 1
    assert name in result.told
    assert words in result.told
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gone.urdf"], 1, "error: gone.urdf: there is no such file; check the path"),
        (["g1"], 1, "error: 'g1' is a ready setup: use it directly, or give a URDF or MJCF"),
        (["models"], 1, "error: models: a folder, not a file; name the file in it"),
        (["package://nowhere/robot.urdf"], 1, "no package 'nowhere' with this file is found"),
        (["robot.urdf", "-o", "folder.toml"], 1, "error: folder.toml is a folder; give the name of a file"),
        (["robot.urdf", "-o", "robot.urdf/mine.toml"], 1, "robot.urdf is a file, not a folder; name another folder"),
        (["robot.urdf", "-o", "locked/mine.toml"], 1, "the folder locked is not writable; name another, or change"),
        (["robot.urdf", "-o", "mine.txt"], 2, "'mine.txt' does not end in .toml"),
        ([], 2, "Missing argument"),
    ],
)
def test_mistakes_are_said_and_nothing_is_written(here, monkeypatch, arguments, code, words) -> None:
    for folder in ("models", "folder.toml", "locked"):
        (here / folder).mkdir()
    # Root may write everywhere: what the system would say of a locked folder is said for it.
    monkeypatch.setattr(
        import_module("steelyard.cli.output_folder").os, "access", lambda path, _: Path(path).name != "locked"
    )
    before = sorted(here.rglob("*"))
    result = run("init", *arguments, columns=160)
    assert result.code == code
    assert words in " ".join(result.told.split())
    assert code == 2 or len(result.told.splitlines()) == 1
    assert sorted(here.rglob("*")) == before


def test_a_full_disk_leaves_nothing_behind(here, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    result = run("init", "robot.urdf")
    assert result.code == 1
    assert "No space left on device" in result.told
    assert len(result.told.splitlines()) == 1
    assert [path.name for path in here.iterdir()] == ["robot.urdf"]


def test_names_from_files_are_text_on_the_terminal_too(here) -> None:
    more = link("[red]&lt;b&gt;_imu[/red]".replace("&lt;", "<").replace("&gt;", ">"), mass=False)
    more += joint("j", "pelvis", "[red]<b>_imu[/red]", "0 0 0.1", None)
    (here / "odd.urdf").write_text(biped(more=more))
    result = run("init", "odd.urdf", columns=160)
    assert result.code == 0
    assert "the name [red]<b>_imu[/red]" in result.printed
    assert load_model("odd.toml").setup.imus[0].frame == "[red]<b>_imu[/red]"
