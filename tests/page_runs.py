"""Runs what stands on a page of the documentation, as a reader would: from the top to the bottom, in one folder.

Blocks of ``python`` share their names, blocks of ``sh`` are run for their lines that begin with ``steelyard``. Comments
on the page, which no reader sees, say what the folder holds and what a test may shorten:

    <!-- stand-in: dance.csv = g1 dance -->       a recording of the laboratory, short
    <!-- stand-in: my_robot.urdf = urdf talos --> a model file
    <!-- stand-in: my_robot.toml = setup g1 -->   a ready setup
    <!-- stand-in: log.csv = foreign g1 dance --> a recording in degrees and with other names
    <!-- file: arm.urdf -->                       the next block is this file
    <!-- append: my_robot.toml -->                or the end of it
    <!-- shortened: duration=60.0 to duration=8.0 -->
    <!-- exits: 1 -->                             of the commands of the next block
    <!-- prints -->                               the next block is what the last one printed, but for its numbers
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import steelyard
from steelyard import Recording
from steelyard.cli import demo_run, main
from tests.humanoids import path_of
from tests.laboratory.trials import SHORT, robot, short_trial

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[1] / "docs"
SHORT_DEMO = demo_run.Durations(limp=30.0, dance=30.0, reach=8.0, balance=9.6)

_PIECE = re.compile(
    r"<!-- (?P<comment>.*?) -->|^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        language: Behind the fence: "python", "sh", "toml".
        body: Its lines.
        remarks: The comments right before it, by what they are about.
    """

    language: str
    body: str
    remarks: dict[str, str]


@dataclass(frozen=True)
class Page:
    """A page of the documentation.

    Attributes:
        name: Its path below the folder of the documentation.
        blocks: Its blocks, in order.
        stand_ins: By file, what stands in for it.
        shortened: What a test replaces by what.
    """

    name: str
    blocks: tuple[Block, ...]
    stand_ins: dict[str, str]
    shortened: tuple[tuple[str, str], ...]

    def runs(self, *, python: bool) -> bool:
        """Tells whether there is anything to run."""
        return any((block.language == "python" and python) or list(_commands(block.body)) for block in self._shell())

    def _shell(self) -> Iterator[Block]:
        return (block for block in self.blocks if block.language in ("python", "sh"))


def read_page(path: Path, folder: Path) -> Page:
    """Reads a page, and what its comments say."""
    blocks: list[Block] = []
    stand_ins: dict[str, str] = {}
    shortened: list[tuple[str, str]] = []
    remarks: dict[str, str] = {}
    for piece in _PIECE.finditer(path.read_text(encoding="utf-8")):
        if piece["comment"] is None:
            blocks.append(Block(piece["language"], piece["body"], remarks))
            remarks = {}
            continue
        about, _, rest = (part.strip() for part in piece["comment"].partition(":"))
        if about == "stand-in":
            name, _, what = (part.strip() for part in rest.partition("="))
            stand_ins[name] = what
        elif about == "shortened":
            long, _, short = (part.strip() for part in rest.partition(" to "))
            shortened.append((long, short))
        else:
            remarks[about] = rest
    return Page(path.relative_to(folder).as_posix(), tuple(blocks), stand_ins, tuple(shortened))


def run_page(page: Page, folder: Path, *, python: bool) -> None:
    """Runs a page in a folder, which is the current one.

    Args:
        page: The page.
        folder: The folder.
        python: Whether its Python is run too, which it is not where another test does.
    """
    for name, what in page.stand_ins.items():
        _stand_in(folder / name, what)
    names: dict[str, Any] = {"__name__": page.name}
    said = ""
    for block in page.blocks:
        body = block.body
        for long, short in page.shortened:
            body = body.replace(long, short)
        if "file" in block.remarks:
            (folder / block.remarks["file"]).write_text(body, encoding="utf-8")
        elif "append" in block.remarks:
            path = folder / block.remarks["append"]
            path.write_text(path.read_text(encoding="utf-8") + "\n" + body, encoding="utf-8")
        elif block.language == "python" and python:
            said = _run_python(body, page.name, names)
        elif block.language == "sh":
            code = int(block.remarks.get("exits", "0"))
            said = "".join(_run_command(command, code) for command in _commands(body))
        elif "prints" in block.remarks:
            _compare(body, said, page.name)


def _commands(body: str) -> Iterator[list[str]]:
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("steelyard "):
            yield shlex.split(line, comments=True)


def _run_command(command: list[str], expected: int) -> str:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    argv, sys.argv = sys.argv, command
    try:
        with (
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            pytest.MonkeyPatch.context() as patch,
        ):
            # The demo's motions have no option to shorten them.
            patch.setattr(demo_run, "Durations", lambda: SHORT_DEMO)
            code: Any = 0
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
    finally:
        sys.argv = argv
    output, errors = (_written(stream) for stream in streams)
    assert code == expected, f"{shlex.join(command)} ended with {code}: {errors or output}"
    return output


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def run_python(name: str, folder: Path, *shortened: tuple[str, str]) -> str:
    """Runs all Python of a page of the documentation in a folder; gives what it prints.

    Args:
        name: The page's path below the folder of the documentation.
        folder: The folder.
        shortened: What is replaced by what; both stand on the page.
    """
    page = (DOCS / name).read_text(encoding="utf-8")
    source = "\n".join(re.findall(r"(?s)```python\n(.*?)```", page))
    for long, short in shortened:
        assert long in source, f"{name} has no {long!r} to shorten"
        source = source.replace(long, short)
    with contextlib.chdir(folder):
        return _run_python(source, name, {"__name__": name})


def _run_python(body: str, name: str, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), pytest.MonkeyPatch.context() as patch:
        patch.setattr(steelyard, "load_model", _load_once)
        patch.setattr(steelyard, "simulate", _simulate_once)
        exec(compile(body, name, "exec"), names)  # noqa: S102
    return output.getvalue()


_load_model, _simulate = steelyard.load_model, steelyard.simulate


def _load_once(name: Any, **how: Any) -> Any:
    """Loads a model; G1 without further arguments is the same object on all pages, which planned its stance already."""
    return robot(name) if name == "g1" and not how else _load_model(name, **how)


def _simulate_once(model: Any, motion: Any, *, seed: int = 0, **how: Any) -> Any:
    """Simulates a trial; one that other tests look at too is not played again."""
    if model is robot("g1") and isinstance(motion, str) and seed == 0 and how == {"duration": SHORT[motion]}:
        return short_trial("g1", motion, noise="default")
    return _simulate(model, motion, seed=seed, **how)


def _stand_in(path: Path, what: str) -> None:
    kind, _, name = what.partition(" ")
    if kind == "urdf":
        shutil.copyfile(path_of(name), path)
    elif kind == "setup":
        path.write_bytes((files("steelyard.setups") / f"{name}.toml").read_bytes())
    elif kind == "foreign":
        _foreign(*name.split()).write(path)
        path.write_text(path.read_text(encoding="utf-8").replace('"time"', '"t"', 1), encoding="utf-8")
    else:
        short_trial(kind, name, noise="default").recording.write(path)


def _foreign(robot: str, motion: str) -> Recording:
    """Gives a recording as another logger has it: in degrees and g, one inertial sensor, names of its own."""
    recording = short_trial(robot, motion, noise="default").recording
    columns = {}
    for name in recording.columns:
        values = recording.column(name)
        group, _, rest = name.partition(".")
        if group == "q":
            columns[f"{rest}_pos"] = np.degrees(values)
        elif name.startswith("pelvis.gyro."):
            columns[f"imu_w_{name[-1]}"] = values
        elif name.startswith("pelvis.accel."):
            columns[f"imu_a_{name[-1]}"] = values / 9.80665
        elif group in ("left_foot", "right_foot"):
            columns[f"F{group[0].upper()}_{rest}"] = values
    return Recording(recording.time, columns)


def _compare(shown: str, said: str, page: str) -> None:
    """Holds what a page shows against what was printed: line by line, numbers and blanks aside."""
    printed = _without_numbers(said)
    for line in shown.splitlines():
        for part in re.split("…|\\.\\.\\.", line):
            assert _without_numbers(part) in printed, f"{page} shows {line!r}, which is not printed"


def _without_numbers(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.e+-]*", "#", text)).strip()
