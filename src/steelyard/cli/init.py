"""`steelyard init`: draft a setup file from a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.cli.output_folder import check_file, write_files
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import AsJson, Force, PackagePaths, Quiet
from steelyard.cli.terminal import print_files, print_next_step, print_note
from steelyard.drafting import DraftFinding, SetupDraft, draft_setup, plain

_MARKS = {"found": ("found", "green"), "guessed": ("guessed", "yellow"), "missing": ("not found", "red")}
_EXPECTED_SECONDS = 1.0
"""Expected time of a draft, s. It only sets the time left that a progress bar shows; no measurement is on record."""


def init(
    model: Annotated[str, typer.Argument(metavar="URDF|MJCF", help="A model file, or package://name/path.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.toml", help="The setup file; by default the model's name with .toml."
        ),
    ] = None,
    packages: PackagePaths = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draft a setup file from a model file.

    Finds the soles from the lowest shapes of the feet, inertial and wrench sensors from tags and names, mirror pairs
    from names and positions, and joints that must be locked. Marks guesses, and lists what it could not find.

    Exits with 0 when the setup is written, 1 when the model is bad or the file cannot be written, 2 when the call is
    wrong.

    Example: steelyard init my_robot.urdf -o my_robot.toml
    """
    target = output or Path(Path(model.rstrip("/")).name or "robot").with_suffix(".toml")
    if target.suffix.lower() != ".toml":
        raise typer.BadParameter(f"{str(target)!r} does not end in .toml", param_hint="--output")
    check_file(target, force=force)
    with show_progress(quiet=quiet) as progress, show_task(progress, "Drafting the setup", _EXPECTED_SECONDS):
        draft = draft_setup(model, packages=packages or ())
    write_files({target: draft.write}, force=force)
    if as_json:
        typer.echo(json.dumps(_as_dict(draft, target), indent=2))
    elif not quiet:
        _print(Console(), draft, target)


def _as_dict(draft: SetupDraft, target: Path) -> dict[str, object]:
    return {
        "setup": str(target),
        "model": str(draft.model.description.file.path),
        "base": draft.model.base,
        "links": list(draft.model.links),
        "joints": list(draft.model.joints),
        "findings": [finding.to_dict() for finding in draft.findings],
    }


def _print(console: Console, draft: SetupDraft, target: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what", overflow="fold", max_width=24)
    table.add_column("", no_wrap=True)
    table.add_column("source, and what to do", overflow="fold")
    for finding in draft.findings:
        mark, style = _MARKS[finding.kind]
        source = Text(plain(finding.source))
        if finding.advice:
            source.append(f"\nto do: {plain(finding.advice)}", style="dim" if finding.kind == "found" else style)
        table.add_row(Text(plain(finding.what)), Text(mark, style=style), source)
    console.print(table)
    print_note(console, _verdict(draft.findings), "")
    print_files(console, [Path(plain(str(target)))])
    print_next_step(console, f"next: steelyard inspect {plain(str(target))} RECORDING")


def _verdict(findings: tuple[DraftFinding, ...]) -> str:
    counts = {kind: sum(finding.kind == kind for finding in findings) for kind in _MARKS}
    if counts["guessed"] + counts["missing"] == 0:
        return "Everything was found."
    return (
        f"{counts['found']} found, {counts['guessed']} guessed, {counts['missing']} not found: each is marked in the "
        "setup; check the guesses, and fill in what is missing"
    )
