"""`steelyard demo`: run the whole workflow on a virtual G1, no data needed."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import steelyard
from steelyard.cli.demo_text import Chapter, next_steps, write_chapters
from steelyard.cli.interrupts import run_in_thread
from steelyard.cli.output_folder import Writer, check_folder, write_json, write_together
from steelyard.cli.progress import shorten, show_progress
from steelyard.cli.shared_options import AsJson, Force, Quiet
from steelyard.model import load_model
from steelyard.report import REPORT_PARTS

if TYPE_CHECKING:
    from steelyard.cli.demo_run import DemoResult
    from steelyard.recording import Recording

FOLDER = Path("steelyard-demo")
REPORT, MODEL, ESTIMATE, OFFSETS, NUMBERS = (
    "report.html",
    "g1_identified.urdf",
    "estimate.json",
    "offsets.json",
    "demo.json",
)
_MADE_BY = "steelyard demo"
_WRITING_SECONDS = 6.0
"""Expected time of writing the files, s. It only sets the time left that a progress bar shows."""


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write to; created if missing.")
    ] = FOLDER,
    seed: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Each number draws another robot.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the whole workflow on a virtual G1, no data needed.

    A robot that differs from its CAD, with encoder offsets, moves in a virtual laboratory where the truth is known. The
    encoders are calibrated, the links are identified from one motion, and the estimate is validated on another one.
    Then the same balance controller runs on the robot with the CAD and with the identified model.

    Writes report.html, g1_identified.urdf, estimate.json, offsets.json and demo.json (all numbers). Unchanged files of
    an earlier demo are replaced; other files only with --force.

    Exits with 0 when the demo is complete, 1 when something is missing or in the way, 2 when the call is wrong.

    Example: steelyard demo -o demo
    """
    begin = time.monotonic()
    _ = steelyard.simulate  # raises, with what to install, if the laboratory is missing
    demo_run: Any = import_module("steelyard.cli.demo_run")
    model = load_model(demo_run.ROBOT)
    missing = [package for package in REPORT_PARTS if find_spec(package) is None]
    names = [name for name in (REPORT, MODEL, ESTIMATE, OFFSETS, NUMBERS) if not (missing and name == REPORT)]
    replace = force or _is_own(output, names)
    check_folder(output, names, force=replace)

    console = Console(quiet=quiet or as_json, highlight=False)
    with show_progress(quiet=quiet) as progress:
        task = progress.add_task("", total=None, expected=sum(demo_run.STEPS.values()) + _WRITING_SECONDS)

        def show_step(step: str) -> None:
            progress.update(task, description=shorten(step))

        result: DemoResult = run_in_thread(lambda: demo_run.run_demo(model, seed=seed, on_step=show_step))
        show_step("Writing the report and the model")
        files, notes = write_demo(output, names, result, _command(output, seed), force=replace)

    chapters = write_chapters(result)
    for number, chapter in enumerate(chapters, start=1):
        _print(console, f"{number}  {chapter.title}", chapter)
    seconds = time.monotonic() - begin
    written = Chapter("", (*(f"   {path}" for path in files), *(f"   {note}" for note in notes)))
    _print(console, f"{len(chapters) + 1}  Files, written after {seconds:.0f} s", written)
    if missing:
        console.print(f'   no {REPORT}: {missing[0]} is not installed; pip install "steelyard[report]"\n', markup=False)
    _print(console, f"{len(chapters) + 2}  {next_steps().title}", next_steps())
    if as_json:
        typer.echo(json.dumps({**result.to_dict(), "files": [str(path) for path in files], "file_notes": notes}))


def write_demo(
    folder: Path, names: Sequence[str], result: DemoResult, command: str, *, force: bool
) -> tuple[list[Path], list[str]]:
    """Write the demo's files: all of them, or none.

    Args:
        folder: The folder.
        names: The files to write.
        result: The result of the demo.
        command: The command, for the report.
        force: Whether existing files are replaced.

    Returns:
        The files, and notes on the model file.
    """
    notes: list[str] = []
    hashes: dict[str, str] = {}
    writers: dict[str, Writer] = {
        REPORT: lambda path: write_demo_report(path, result, command),
        MODEL: lambda path: notes.extend(result.estimate.write_model(path).notes),
        ESTIMATE: result.estimate.save,
        OFFSETS: result.calibration.write,
    }

    def write_hashed(path: Path, name: str) -> None:
        writers[name](path)
        hashes[name] = _hash(path)

    def write_numbers(path: Path) -> None:
        write_json(path, {"made_by": _MADE_BY, "files": hashes, **result.to_dict()})

    chosen = {name: partial(write_hashed, name=name) for name in names if name in writers}
    # The numbers last, as they hold the hashes of the others.
    return write_together(folder, {**chosen, NUMBERS: write_numbers}, force=force), notes


def write_demo_report(path: Path, result: DemoResult, command: str) -> None:
    """Write the report of the demo: estimate, validation, both motions, offsets, balance, and the truth."""
    from steelyard.report import Purpose, Report, show_balance, trace_motions  # noqa: PLC0415  (slow to import)

    truth, estimate = result.truth, result.estimate
    motions: dict[Purpose, Recording] = {"training": result.training, "unseen": result.unseen}
    traces = [
        trace_motions(
            estimate,
            result.prepared.motions(recording, dense=True),
            name=recording.name,
            purpose=purpose,
            truth=truth,
            sensor_errors=result.validation.sensor_errors if purpose == "unseen" else None,
        )
        for purpose, recording in motions.items()
    ]
    Report(
        estimate,
        evidence=result.evidence,
        validation=result.validation,
        traces=tuple(traces),
        calibration=result.calibration,
        truth=truth.parameters,
        true_offsets=truth.offsets,
        further=(show_balance(result.runs),),
        remarks=result.prepared.remarks,
        command=command,
    ).write(path)


def _is_own(folder: Path, names: Sequence[str]) -> bool:
    """Return whether the files that exist in a folder are an earlier demo's, unchanged."""
    try:
        found = json.loads((folder / NUMBERS).read_text("utf-8"))
        hashes = found["files"] if found["made_by"] == _MADE_BY else {}
        there = [name for name in names if name != NUMBERS and (folder / name).exists()]
        return bool(hashes) and all(_hash(folder / name) == hashes.get(name) for name in there)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _command(output: Path, seed: int) -> str:
    folder = [] if output == FOLDER else ["-o", str(output)]
    return shlex.join(["steelyard", "demo", *folder, *(["--seed", str(seed)] if seed else [])])


def _print(console: Console, title: str, chapter: Chapter) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Text("\n".join(chapter.lines) + "\n"), soft_wrap=True)
