"""`steelyard demo`: the whole story on a virtual G1, no data needed."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Sequence
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
from steelyard.cli.output_folder import check_folder, write_json, write_together
from steelyard.cli.progress import shorten, show_progress
from steelyard.cli.shared_options import AsJson, Force, Quiet
from steelyard.model import load_model
from steelyard.report import REPORT_PARTS

if TYPE_CHECKING:
    from steelyard.cli.demo_run import Story

FOLDER = Path("steelyard-demo")
REPORT, MODEL, ESTIMATE, OFFSETS, NUMBERS = (
    "report.html",
    "g1_identified.urdf",
    "estimate.json",
    "offsets.json",
    "demo.json",
)
_MADE_BY = "steelyard demo"
_WRITING = "Writing the report and the model", 6.0


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write; made if it is missing.")
    ] = FOLDER,
    seed: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Each draws another robot and motions.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The whole story on a virtual G1, no data needed.

    A robot that is not what its CAD says, and whose encoders are off, moves in a virtual laboratory where the truth is
    known. Its encoders are calibrated, its links are weighed by one motion, and what was found predicts another one.
    Then the same balance controller runs on it with the CAD and with the identified model.

    Writes report.html, g1_identified.urdf, estimate.json, offsets.json and demo.json (all numbers). What an earlier
    demo wrote there, and nobody has changed since, is replaced; anything else only with --force.

    Exits with 0 when the story is told, 1 when something is missing or in the way, 2 when the call is wrong.

    Example: steelyard demo -o demo
    """
    begin = time.monotonic()
    _ = steelyard.simulate  # tells what to install where the laboratory is missing
    told: Any = import_module("steelyard.cli.demo_run")
    model = load_model(told.ROBOT)
    missing = [package for package in REPORT_PARTS if find_spec(package) is None]
    names = [name for name in (REPORT, MODEL, ESTIMATE, OFFSETS, NUMBERS) if not (missing and name == REPORT)]
    check_folder(output, names, force=force or _is_own(output, names))

    console = Console(quiet=quiet or as_json, highlight=False)
    with show_progress(quiet=quiet) as progress:
        usual = sum(told.STEPS.values()) + _WRITING[1]
        task = progress.add_task("", total=None, usual=usual)

        def say(words: str) -> None:
            progress.update(task, description=shorten(words))

        story: Story = run_in_thread(lambda: told.tell_story(model, seed=seed, tell=say))
        say(_WRITING[0])
        files, notes = write_demo(output, names, story, _command(output, seed))

    chapters = write_chapters(story)
    for number, chapter in enumerate(chapters, start=1):
        _print(console, f"{number}  {chapter.title}", chapter)
    seconds = time.monotonic() - begin
    written = Chapter("", (*(f"   {path}" for path in files), *(f"   {note}" for note in notes)))
    _print(console, f"{len(chapters) + 1}  Written, {seconds:.0f} s after the beginning", written)
    if missing:
        console.print(f'   no {REPORT}: {missing[0]} is not installed; pip install "steelyard[report]"\n', markup=False)
    _print(console, f"{len(chapters) + 2}  {next_steps().title}", next_steps())
    if as_json:
        typer.echo(json.dumps({**story.to_dict(), "files": [str(path) for path in files], "file_notes": notes}))


def write_demo(folder: Path, names: Sequence[str], story: Story, command: str) -> tuple[list[Path], list[str]]:
    """Writes the demo's files: all of them, or none.

    Args:
        folder: Where.
        names: Which of them.
        story: What they tell.
        command: That made them.

    Returns:
        The files, and what to know of the model file.
    """
    notes: list[str] = []
    hashes: dict[str, str] = {}
    writers: dict[str, Callable[[Path], object]] = {
        REPORT: lambda path: write_demo_report(path, story, command),
        MODEL: lambda path: notes.extend(story.estimate.write_model(path).notes),
        ESTIMATE: story.estimate.save,
        OFFSETS: story.calibration.write,
    }

    def writer(name: str) -> Callable[[Path], object]:
        def write(path: Path) -> None:
            writers[name](path)
            hashes[name] = _hash(path)

        return write

    chosen = {name: writer(name) for name in names if name in writers}
    numbers: Callable[[Path], object] = lambda path: write_json(  # noqa: E731  (one of several of its kind)
        path, {"made_by": _MADE_BY, "files": hashes, **story.to_dict()}
    )
    # The last one, as it holds what the others are.
    return write_together(folder, {**chosen, NUMBERS: numbers}), notes


def write_demo_report(path: Path, story: Story, command: str) -> None:
    """Writes the story's report: estimate, validation, both motions, offsets, balance, and the truth."""
    from steelyard.cli.demo_run import SENSORS  # noqa: PLC0415  (it needs the laboratory)
    from steelyard.report import Report, show_balance, trace_motions  # noqa: PLC0415  (it takes a while to load)

    truth, estimate = story.truth, story.estimate
    training, unseen = story.pictured
    traces = (
        trace_motions(estimate, [training], name="dance", purpose="training", truth=truth, nuisance=SENSORS),
        trace_motions(estimate, [unseen], name="reach", purpose="unseen", truth=truth, nuisance=SENSORS),
    )
    Report(
        estimate,
        evidence=story.evidence,
        validation=story.validation,
        traces=traces,
        calibration=story.calibration,
        truth=truth.parameters,
        true_offsets=truth.offsets,
        further=(show_balance(story.runs),),
        remarks=(*(f"dance: {note}" for note in training.notes), *(f"reach: {note}" for note in unseen.notes)),
        command=command,
    ).write(path)


def _is_own(folder: Path, names: Sequence[str]) -> bool:
    """Tells whether those of the files that are in a folder are an earlier demo's, as it left them."""
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
