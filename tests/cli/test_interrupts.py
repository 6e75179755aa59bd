"""Ctrl-C at any time: exit code 130, one line, and it tells the truth about what was written."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import steelyard as sy
from tests.cli.running import run, short_estimate
from tests.laboratory.trials import short_trial

QUICKLY = ["--method", "truncated", "--noise", "usual", "--no-report"]
"""How `identify` says least, and comes to its files soonest."""

NOTHING = (130, "", "interrupted; nothing was written\n")


pytestmark = pytest.mark.usefixtures("default_handler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("recordings")
    for motion in ("dance", "limp"):
        short_trial("g1", motion, noise="default").recording.write(place / f"{motion}.npz")
    short_estimate().save(place / "estimate.json")
    return place


def interrupting(function, *, after: bool = False):
    """Gives what does as the function does, and sends Ctrl-C to this process, before or after."""

    def interrupted(*arguments, **options):
        if not after:
            os.kill(os.getpid(), signal.SIGINT)
        result = function(*arguments, **options)
        if after:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    return interrupted


def tree(place: Path) -> dict[str, bytes | None]:
    """Gives all that is in a folder, hidden or not."""
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


@pytest.mark.parametrize(
    ("command", "files", "where", "name", "after"),
    [
        ("identify", ["g1", "dance.npz"], "steelyard.preparation.prepare", "stream_motion", False),
        ("identify", ["g1", "dance.npz"], sy.Estimate, "save", False),
        ("identify", ["g1", "dance.npz"], sy.Estimate, "save", True),
        ("identify", ["g1", "dance.npz"], sy.Estimate, "write_model", True),
        ("calibrate", ["g1", "limp.npz"], "steelyard.preparation.sources", "read_recording", True),
        ("calibrate", ["g1", "limp.npz"], "steelyard.cli.calibrate", "draw_heights", True),
        ("validate", ["estimate.json", "dance.npz"], "steelyard.cli.output_folder", "write_json", False),
        ("validate", ["estimate.json", "dance.npz"], "steelyard.cli.output_folder", "write_json", True),
        ("inspect", ["g1", "dance.npz"], "steelyard.cli.inspect", "draw_png", True),
    ],
)
def test_while_reading_or_writing_it_leaves_everything_as_it_was(
    folder, tmp_path, monkeypatch, command, files, where, name, after
):
    place = import_module(where) if isinstance(where, str) else where
    monkeypatch.setattr(place, name, interrupting(getattr(place, name), after=after))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "estimate.json").write_text("mine")
    before = tree(tmp_path)
    option = "--png" if command == "inspect" else "-o"
    paths = [folder / file if "." in file else file for file in files]
    output = tmp_path / "old" if command == "identify" and after else tmp_path / "new" / "results"
    more = {"identify": [*QUICKLY, "--force", "--quiet"], "inspect": []}.get(command, ["--force", "--quiet"])
    ran = run(command, *paths, option, output, *more)
    assert (ran.code, ran.told) == (NOTHING[0], NOTHING[2])
    assert tree(tmp_path) == before


@pytest.mark.parametrize("step", [2, 3, 4])
def test_while_files_are_put_in_place_it_leaves_everything_as_it_was(folder, tmp_path, monkeypatch, step):
    """Files of a call before are moved aside, the new ones take their places: whenever Ctrl-C comes, all is undone."""
    (tmp_path / "estimate.json").write_text("mine")
    before = tree(tmp_path)
    rename, left = Path.replace, [step]

    def counted(path, target):
        if path.name.startswith(".") or Path(target).name.startswith("."):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGINT)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    ran = run("identify", "g1", folder / "dance.npz", *QUICKLY, "-o", tmp_path, "--force", "--quiet")
    assert (ran.code, ran.printed, ran.told) == NOTHING
    assert tree(tmp_path) == before


def test_after_all_is_written_it_says_so(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = import_module("steelyard.cli.output_folder")
    monkeypatch.setattr(module, "write_files", interrupting(module.write_files, after=True))
    ran = run("validate", folder / "estimate.json", folder / "dance.npz", "-o", "v.json", "--quiet")
    assert (ran.code, ran.told) == (130, "interrupted; v.json had been written\n")
    assert json.loads((tmp_path / "v.json").read_text())["kind"] == "direct"


def test_a_long_call_does_not_keep_it_waiting(tmp_path):
    """On a real terminal: the bar is seen, Ctrl-C is sent, and it is over long before the motion would be."""
    leader, follower = pty.openpty()
    asked = ["simulate", "g1", "dance", "--duration", "600", "-o", "dance.npz"]
    with subprocess.Popen(
        [sys.executable, "-m", "steelyard", *asked],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=follower, start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(follower)
        seen = b""
        while b"left" not in seen:
            seen += os.read(leader, 1024)
        process.send_signal(signal.SIGINT)
        try:
            while part := os.read(leader, 1024):
                seen += part
        except OSError:  # the other end of a terminal is gone when its process is
            pass
        printed = process.stdout.read()
    os.close(leader)
    assert process.returncode == 130
    assert printed == b""
    text = seen.decode()
    assert "Simulating dance" in text
    assert "Traceback" not in text
    assert text.rstrip().removesuffix("\x1b[0m").endswith("interrupted; nothing was written")
    assert not list(tmp_path.iterdir())


LEFT_RUNNING = """
import atexit, os, signal, threading, typer
from steelyard.cli.interrupts import run_in_thread
from steelyard.cli.command_group import Commands
from steelyard.cli.exit_codes import run

app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
app.callback()(lambda: None)

@app.command()
def work():
    def forever():
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    run_in_thread(forever)

atexit.register(print, "taken down")
run(app)
"""


def test_work_that_is_left_running_does_not_crash_on_the_way_out():
    """A call in C that goes on while the interpreter is taken down around it ended in a segmentation fault."""
    result = subprocess.run([sys.executable, "-c", LEFT_RUNNING, "work"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (NOTHING[0], NOTHING[2])
    assert result.stdout == "", "the process ends at once, and nothing is taken down around the work"
