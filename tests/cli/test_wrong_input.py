"""Wrong input, for each command: exit code 1, one line (what, where, what to do), and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numba.core.caching
import numpy as np
import pytest

import steelyard as sy
from steelyard.cli.command_group import COMMANDS
from tests.cli.running import Ran, run, short_estimate
from tests.laboratory.trials import robot, short_trial

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c636060606000000005"
    "0001a5f645400000000049454e44ae426082"
)

READERS = {
    "inspect": ["inspect", "g1", "FILE"],
    "calibrate": ["calibrate", "g1", "FILE", "-o", "out"],
    "identify": ["identify", "g1", "FILE", "-o", "out"],
    "identify --validate": ["identify", "g1", "dance.npz", "--validate", "FILE", "-o", "out"],
    "validate": ["validate", "estimate.json", "FILE", "-o", "out.json"],
    "payload": ["payload", "g1", "FILE", "-o", "out.json"],
    "payload --baseline": ["payload", "g1", "dance.npz", "--baseline", "FILE", "-o", "out.json"],
}
"""Commands that read a recording, with where it goes."""

SETUPS = {
    "init": ["init", "FILE", "-o", "out.toml"],
    "check": ["check", "FILE"],
    "inspect": ["inspect", "FILE", "dance.npz"],
    "calibrate": ["calibrate", "FILE", "dance.npz", "-o", "out"],
    "identify": ["identify", "FILE", "dance.npz", "-o", "out"],
    "payload": ["payload", "FILE", "dance.npz", "-o", "out.json"],
    "simulate": ["simulate", "FILE", "sway", "-o", "out.npz"],
}
"""Commands that read a setup or a model."""

WRITERS = {
    "init": ["init", "robot.urdf", "-o", "PLACE/out.toml"],
    "demo": ["demo", "-o", "PLACE"],
    "inspect": ["inspect", "g1", "dance.npz", "--png", "PLACE"],
    "calibrate": ["calibrate", "g1", "limp.npz", "-o", "PLACE"],
    "identify": ["identify", "g1", "dance.npz", "-o", "PLACE", "--no-report"],
    "validate": ["validate", "estimate.json", "dance.npz", "-o", "PLACE/out.json"],
    "payload": ["payload", "g1", "dance.npz", "--nuisance", "wrench_offset", "-o", "PLACE/out.json"],
    "simulate": ["simulate", "g1", "sway", "--duration", "6", "-o", "PLACE/out.npz", "--truth", "truth.json"],
}
"""Commands that write, with where."""

COMMANDS = {*COMMANDS}
WRITTEN_LATE = sorted((set(WRITERS) & COMMANDS) - {"demo"})
"""The demo plays for most of a minute before it writes; its own tests fill its disk."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    """Gives a folder with everything that is right, and everything that is wrong."""
    place = tmp_path_factory.mktemp("stock")
    dance = short_trial("g1", "dance", noise="default").recording
    dance.write(place / "dance.npz")
    short_trial("g1", "limp", noise="default").recording.write(place / "limp.npz")
    names = [f"q.{joint}" for joint in robot("talos").joints]
    angles = (column for name, column in dance.values.items() if name.startswith("q."))
    sy.Recording(dance.time, dict(zip(names, angles, strict=False))).write(place / "other_robot.npz")
    dance.select([name for name in dance.columns if "_foot." not in name]).write(place / "no_wrench.npz")
    silent = np.full(len(dance), np.nan)
    dance.with_values({**dance.values, "q.left_knee_joint": silent}).write(place / "nan_joint.npz")
    dance.with_values(dict.fromkeys(dance.values, silent)).write(place / "nan.npz")
    short_estimate().save(place / "estimate.json")
    for name in ("empty.csv", "empty.npz", "empty.mcap", "empty.urdf", "empty.toml", "empty.json"):
        (place / name).write_bytes(b"")
    for name in ("png.csv", "png.mcap", "png.bag", "png.urdf", "png.toml", "png.json"):
        (place / name).write_bytes(PNG)
    (place / "other.json").write_text('{"links": []}')
    (place / "folder").mkdir()
    (place / "file").write_text("mine")
    shutil.copy(robot("g1").description.file.path, place / "robot.urdf")
    return place


@pytest.fixture
def here(stock, monkeypatch) -> Path:
    monkeypatch.chdir(stock)
    return stock


def tree(place: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_size if path.is_file() else 0) for path in place.rglob("*"))


def check_refusal(ran: Ran, words: str) -> None:
    """One line: what it is about, and after a colon, semicolon or question what to do."""
    assert ran.code == 1, ran
    (line,) = ran.told.splitlines()
    assert line.startswith("error: ")
    assert re.search(words, line), line
    assert re.search(r"[;?:] ?\S", line.removeprefix("error: ").partition(" ")[2]), f"no remedy: {line}"


def refused(here: Path, arguments: list[str], words: str) -> Ran:
    before = tree(here)
    ran = run(*arguments)
    check_refusal(ran, words)
    assert tree(here) == before
    return ran


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("gone.npz", r"there is no file 'gone\.npz'; check the path"),
        ("folder", r"the folder 'folder' holds no ROS 2 bag .*; give a file in it"),
        ("empty.csv", r"empty\.csv is empty; record again"),
        ("empty.npz", r"empty\.npz is no NPZ file, or is damaged .*; copy it again"),
        ("empty.mcap", r"empty\.mcap is no MCAP file: its first bytes are wrong; copy it again, or"),
        ("png.csv", r"png\.csv is no text: it holds zero bytes; save it as UTF-8, or correct its ending"),
        ("png.mcap", r"png\.mcap is no MCAP file: its first bytes are wrong; copy it again, or correct its end"),
        ("png.bag", r"png\.bag is no ROS 1 bag: its first bytes are wrong; copy it again, or correct its ending"),
    ],
)
@pytest.mark.parametrize("reader", [name for name in READERS if name != "identify --validate"])
def test_no_recording(here, reader, file, words):
    refused(here, [file if each == "FILE" else each for each in READERS[reader]], words)


@pytest.mark.parametrize(("file", "words"), [("gone.npz", "check the path"), ("png.csv", "correct its ending")])
def test_no_recording_to_validate_on(here, file, words):
    """It is opened after the estimate is made; those two stand for all."""
    refused(here, [file if each == "FILE" else each for each in READERS["identify --validate"]], words)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("other_robot.npz", r"other_robot\.npz has no column 'q\.left_\w+_joint'.*; .*\[recording\.columns\]"),
        ("no_wrench.npz", r"no_wrench\.npz: the wrench sensors? .* (has|have) no data in this motion; record"),
        ("nan_joint.npz", r"nan_joint\.npz .*'q\.left_knee_joint'.*(lock the joint|look at the logger)"),
        ("nan.npz", r"nan\.npz .*'q\.left_hip_pitch_joint'.*(lock the joint|look at the logger)"),
    ],
)
@pytest.mark.parametrize("reader", ["calibrate", "identify", "validate", "payload"])
def test_a_recording_that_does_not_fit(here, reader, file, words):
    if reader == "calibrate" and file == "no_wrench.npz":
        assert run("calibrate", "g1", file).code == 0, "encoders and an inertial sensor are enough"
        return
    refused(here, [file if each == "FILE" else each for each in READERS[reader]], words)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("other_robot.npz", "fault: there is no position of any joint; record it, map it"),
        ("nan_joint.npz", "fault: there is no position of 'left_knee_joint'; record it, map it"),
        ("nan.npz", "fault: there is no position of any joint; record it, map it"),
        ("no_wrench.npz", "warning: there are no columns of the sensor 'left_foot'"),
    ],
)
def test_inspect_tells_what_does_not_fit_among_its_findings(here, file, words):
    ran = run("inspect", "g1", file, columns=200)
    assert (ran.code, ran.told) == (0 if words.startswith("warning") else 1, "")
    assert words in ran.printed


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("gone.urdf", r"gone\.urdf: there is no such file; check the path"),
        ("gone.toml", r"gone\.toml: (there is no such setup file; check the path|this is already a setup; give a)"),
        ("folder", r"folder.* a folder.*; name the"),
        ("empty.urdf", r"empty\.urdf: the file is empty; "),
        ("empty.toml", r"empty\.toml: (in \[model\]: 'file' is missing; write|this is already a setup; give a)"),
        ("png.urdf", r"png\.urdf: this is no text: it holds zero bytes; give a URDF or MJCF"),
        ("png.toml", r"png\.toml: (the setup is not UTF-8 text; save it as|this is already a setup; give a)"),
    ],
)
@pytest.mark.parametrize("command", sorted(set(SETUPS) & COMMANDS))
def test_no_setup(here, command, file, words):
    refused(here, [file if each == "FILE" else each for each in SETUPS[command]], words)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("calibrate", r"dance\.npz has no column 'q\.\w+'"),
        ("identify", r"dance\.npz has no column 'q\.leg_left_1_joint'.*\[recording\.columns\]"),
        ("payload", r"dance\.npz has no column 'q\.leg_left_1_joint'.*\[recording\.columns\]"),
    ],
)
def test_the_setup_of_another_robot(here, command, words):
    refused(here, ["talos" if each == "FILE" else each for each in SETUPS[command]], words)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("gone.json", r"gone\.json: there is no such file; check the path"),
        ("folder", r"folder is a folder; give the estimate\.json in it"),
        ("empty.json", r"empty\.json is not an estimate: it is no JSON text; give the estimate\.json that"),
        ("png.json", r"png\.json is not an estimate: it is no JSON text; give the estimate\.json that"),
        ("other.json", r"other\.json is not an estimate; "),
    ],
)
def test_no_estimate(here, file, words):
    refused(here, ["validate", file, "dance.npz", "-o", "out.json"], words)


def at(place: str, command: str) -> list[str]:
    return [each.replace("PLACE", place) for each in WRITERS[command]]


@pytest.mark.parametrize("command", sorted(set(WRITERS) & COMMANDS))
def test_a_place_below_a_file(here, command):
    refused(here, at("file/deeper", command), r"file is a file, not a folder; name another")


@pytest.mark.parametrize("command", sorted(set(WRITERS) & COMMANDS))
def test_a_place_that_may_not_be_written(here, command, monkeypatch):
    """Root may write everywhere, so that the answer of the system is simulated here; the next test asks it in truth."""
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "folder" and asked(path, mode))
    refused(here, at("folder/new", command), r"folder is not writable; name another, or change its permissions")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody, whom the system itself refuses")
def test_a_place_that_truly_may_not_be_written(here):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "closed").mkdir()
        for name in ("dance.npz", "estimate.json"):
            shutil.copy(here / name, place / name)
        for path in (place, *place.iterdir()):
            path.chmod(0o755)
        arguments = ["validate", place / "estimate.json", place / "dance.npz", "-o"]
        assert run(*arguments, place / "once.json").code == 0, "all that is imported late is there"
        before = tree(place)
        os.seteuid(65534)
        try:
            ran = run(*arguments, place / "closed" / "new" / "out.json")
        finally:
            os.seteuid(0)
        check_refusal(ran, r"closed/new/out\.json \(Permission denied\); name another, or free space on the disk")
        assert tree(place) == before


@pytest.fixture
def little_room(monkeypatch):
    """Lets no file grow beyond a few bytes: the system itself refuses to write more, in whatever library."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Kernels that are compiled here first would be stored beside the source, which is not what the command writes.
    monkeypatch.setattr(numba.core.caching.Cache, "save_overload", lambda *_: None)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("command", WRITTEN_LATE)
def test_a_disk_without_room(here, command, little_room):
    before = tree(here)
    little_room()
    ran = run(*at("new/place", command))
    check_refusal(ran, r"new/place.*File too large.*; (name another|choose another|check)")
    assert tree(here) == before


@pytest.mark.parametrize("command", ["init", "validate", "simulate"])
def test_a_full_disk(here, command, tmp_path):
    """A real one, where the system allows to mount it; these commands stand for all."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)],  # noqa: S607
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        with suppress(OSError), (disk / "mine").open("wb", buffering=0) as file:
            while file.write(bytes(512)):
                pass
        before = tree(disk), tree(here)
        ran = run(*at(str(disk), command))
        check_refusal(ran, r"No space left on device")
        assert (tree(disk), tree(here)) == before
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


def test_files_that_cannot_be_read_to_their_end(here, monkeypatch):
    """A disk that fails under a recording is told by the file's name."""

    whole = Path.open

    def failing(self, *arguments, **options):
        if self.name == "dance.npz":
            raise OSError(5, "Input/output error", str(self))
        return whole(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", failing)
    ran = run("inspect", "g1", "dance.npz")
    check_refusal(ran, r"dance\.npz.*Input/output error.*; check the path and permissions")


@pytest.mark.parametrize(
    "arguments", [["payload", "g1", "nan.npz"], ["simulate", "g1", "sway", "-o", "file/deeper/sway.npz"]]
)
def test_the_same_in_a_shell(here, arguments):
    before = tree(here)
    result = subprocess.run(
        [sys.executable, "-m", "steelyard", *arguments], capture_output=True, text=True, check=False
    )
    expected = run(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (1, expected.printed, expected.told)
    check_refusal(expected, "")
    assert tree(here) == before


def test_json_is_not_printed_where_there_is_none(here):
    for command in sorted(set(READERS) & COMMANDS):
        ran = run(*[("nan.npz" if each == "FILE" else each) for each in READERS[command]][:3], "--json")
        if command == "inspect":
            assert not json.loads(ran.printed)[0]["good"]
        else:
            assert ran.printed == "", command


def test_quiet_is_no_reason_to_keep_an_error(here):
    for command in sorted(set(READERS) & COMMANDS):
        ran = run(*[("png.csv" if each == "FILE" else each) for each in READERS[command]][:3], "--quiet")
        check_refusal(ran, r"png\.csv")


def test_recordings_are_looked_at_before_anything_takes_time(here, monkeypatch):
    monkeypatch.setattr(import_module("steelyard.cli.validate"), "PreparedRecordings", None)
    refused(here, ["validate", "estimate.json", "dance.npz", "gone.npz"], r"'gone\.npz'; check the path")
    assert isinstance(sy.load_estimate("estimate.json"), sy.Estimate)
