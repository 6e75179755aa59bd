"""What all commands share: Ctrl-C, closed pipes, full disks, help, and the order in which they stand."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.cli.command_group import COMMANDS, Commands, load_command
from steelyard.cli.interrupts import hold_interrupts, interrupt_once, run_in_thread, written
from steelyard.cli.terminal import print_finding
from steelyard.exceptions import SteelyardError

pytestmark = pytest.mark.usefixtures("default_handler")


def failing(error: BaseException, before: list[Path] | None = None) -> typer.Typer:
    """Gives an app with the manners of Steelyard's, of which a command fails."""
    polite = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @polite.command()
    def fail() -> None:
        written.extend(before or [])
        raise error

    @polite.callback()
    def options() -> None:
        pass

    return polite


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SteelyardError("the knee is\nmissing; add it"), 1, "error: the knee is missing; add it"),
        (
            OSError(errno.EIO, "Input/output error", "walk.csv"),
            1,
            "error: walk.csv: Input/output error; check the path, its permissions and the free space on the disk",
        ),
        (MemoryError(), 1, "error: out of memory; close other programs, or give fewer or shorter recordings"),
        (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
    ],
)
def test_what_a_user_can_mend_is_told_in_one_line(error, code, line):
    result = CliRunner().invoke(failing(error), ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"{line}\n")


def test_an_interrupt_after_writing_says_what_is_there():
    result = CliRunner().invoke(failing(KeyboardInterrupt(), [Path("a.json"), Path("b.urdf")]), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "interrupted; a.json and b.urdf had been written\n")


def test_a_mistake_of_ours_keeps_its_traceback():
    result = CliRunner().invoke(failing(ZeroDivisionError("ours")), ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_files_are_put_in_place_before_an_interrupt_has_its_effect():
    steps = []

    def place() -> None:
        with interrupt_once(), hold_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("placed")

    with pytest.raises(KeyboardInterrupt):
        place()
    assert steps == ["placed"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_tidying_up_after_an_interrupt_is_not_interrupted():
    steps = []

    def tidy_up() -> None:
        with interrupt_once():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                steps.append("tidied up")

    with pytest.raises(KeyboardInterrupt):
        tidy_up()
    assert steps == ["tidied up"]


def test_work_aside_gives_its_result_or_its_error():
    assert run_in_thread(lambda: 42) == 42
    with pytest.raises(SteelyardError, match=r"^bad$"):
        run_in_thread(lambda: (_ for _ in ()).throw(SteelyardError("bad")))


def test_commands_stand_in_the_order_of_the_road():
    printed = CliRunner().invoke(app, ["--help"]).stdout
    shown = re.findall(r"(?m)^│ (\w+) ", printed)
    assert shown == list(COMMANDS)


def test_alone_it_prints_its_help():
    alone = CliRunner().invoke(app, [])
    assert alone.output.strip() == CliRunner().invoke(app, ["--help"]).output.strip()
    assert "Usage: steelyard" in alone.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_and_fits_eighty_columns(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines) <= 80
    (example,) = re.findall(r"Example:\s+steelyard (\w+)", result.stdout)
    assert example == command
    above = [line.strip() for line in lines[: next(k for k, line in enumerate(lines) if line.startswith("╭"))]]
    # A line of a docstring that is too long leaves a word or two alone on the next.
    short = [
        line
        for line, after in pairwise(above)
        if len(line.split()) in (1, 2) and after and not line.endswith((".", ":"))
    ]
    assert not short, short
    for option in ("--json", "--quiet"):
        assert option in result.stdout
    assert "<bool>" not in result.stdout


def steelyard(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "steelyard", *arguments], text=True, **options)  # type: ignore[call-overload]


def test_a_closed_pipe_ends_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    with steelyard("check", "g1", "talos", "--json", stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        assert process.communicate()[1] == ""
        assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["check", "g1", "--json"], ["--version"], ["check", "g1"]])
def test_an_output_that_takes_no_more_is_told(arguments):
    with Path("/dev/full").open("w") as full, steelyard(*arguments, stdout=full, stderr=subprocess.PIPE) as process:
        told = process.communicate()[1]
    assert process.returncode == 1
    assert len(told.splitlines()) == 1, told
    assert "No space left on device" in told


@pytest.mark.parametrize("terminal", [False, True])
def test_findings_stay_on_one_line_unless_somebody_looks(terminal):
    """For other programs, a finding is a line; a terminal gets lines that break between words."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=40, no_color=True, highlight=False)
    words = "left_foot is turned by 180° about x, upside\ndown against its frame; turn the frame"
    print_finding(console, "  fault: ", words)
    lines = re.sub(r"\x1b\[[\d;]*m", "", output.getvalue()).splitlines()
    assert " ".join(" ".join(lines).split()) == f"fault: {' '.join(words.split())}"
    if terminal:
        assert len(lines) == 3
        assert max(map(len, lines)) <= 40
        assert [len(line) - len(line.lstrip()) for line in lines] == [2, 4, 4]
    else:
        assert len(lines) == 1


def test_each_command_begins_its_help_with_the_line_that_stands_for_it():
    """What `steelyard --help` says without loading a command is what the command says of itself."""
    for name, words in COMMANDS.items():
        assert load_command(name).help.split("\n\n")[0] == words


def test_help_and_words_to_complete_wait_for_no_room():
    code = (
        "import sys; from steelyard.cli import main; sys.argv[1:] = ['--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'scipy', 'numba', 'mujoco', 'pyarrow', 'plotly'} & {*sys.modules}), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "identify" in result.stdout
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "robot.urdf", "-o", ""],
        ["demo", "-o", ""],
        ["demo", "--output="],
        ["inspect", "g1", "dance.npz", "--png", ""],
        ["calibrate", "g1", "limp.npz", "-o", ""],
        ["identify", "g1", "dance.npz", "-o", "", "--no-report"],
        ["validate", "estimate.json", "dance.npz", "--output", ""],
        ["payload", "g1", "dance.npz", "-o", ""],
        ["simulate", "g1", "sway", "-o", ""],
    ],
)
def test_an_empty_path_is_not_the_current_folder(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    option = next(each for each in arguments if each.startswith("-")).rstrip("=")
    assert f"the value of {option} is empty; give one" in result.stderr
    assert not list(tmp_path.iterdir())
