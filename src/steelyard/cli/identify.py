"""`steelyard identify`: what does this robot really weigh?"""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from steelyard.cli.output_folder import check_folder, write_json, write_together
from steelyard.cli.preparation import Heard, Noise, hear_sensors
from steelyard.cli.progress import show_progress, show_usual
from steelyard.cli.recording_reader import Reader, gather_each, take_offsets
from steelyard.cli.shared_options import (
    AsJson,
    BaseChoice,
    Force,
    OffsetsFile,
    Quiet,
    Recordings,
    SetupName,
    check_names,
    choose_nuisances,
    complete_nuisances,
)
from steelyard.cli.terminal import print_wrapped, tell_next
from steelyard.exceptions import SteelyardError
from steelyard.identification import (
    DRAWABLE_METHODS,
    OPTIONS,
    UNCONSTRAINED,
    DrawnModels,
    Estimate,
    check_constraints,
    choose_parameters,
    group_links,
)
from steelyard.identification import identify as identify_parameters
from steelyard.model import Constraint, Model, load_model, parse_constraints
from steelyard.motion import Base as BaseName
from steelyard.recording import find_format
from steelyard.regression import PRIORS
from steelyard.report import Purpose, Report, Trace, check_report_parts, sum_up, trace_motions
from steelyard.validation import ROBOT, Validation, validate

_METHOD = str(inspect.signature(identify_parameters).parameters["method"].default)
_ENDINGS = {"URDF": ".urdf", "MJCF": ".xml"}
_DRAWN_FOLDER = "drawn"
_SECONDS_A_LINK = 0.05


def _takers(option: str) -> str:
    return ", ".join(method for method, options in OPTIONS.items() if option in options)


def identify(
    setup: SetupName,
    recordings: Recordings,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(OPTIONS)}.", autocompletion=lambda: list(OPTIONS))
    ] = _METHOD,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="What must hold, such as total_mass=33.2 or 'frozen=waist_*'; may be repeated."
        ),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help=f"How far the model is off, such as 0.2; by default found from the data ({_takers('spread')}).",
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="WEIGHT", min=0.0, help=f"Weight of the model ({_takers('alpha')}).")
    ] = None,
    c_max: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            min=1.0,
            help=f"Greatest condition number of what the data are asked for ({_takers('c_max')}).",
        ),
    ] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Left and right are exact images of each other.")] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHICH",
            help="all, L (masses and first moments), LS (L with mirror pairs tied), or patterns such as *.m or left_*, "
            "which may be repeated; by default all.",
        ),
    ] = None,
    base: BaseChoice = None,
    offsets: OffsetsFile = None,
    noise: Annotated[
        Noise,
        typer.Option(
            help="Noise of the sensors: found from what a fit leaves, as usual sensors have it, or equal in all rows, "
            "as in the papers."
        ),
    ] = Noise.FOUND,
    nuisance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What else to look for: {', '.join(PRIORS)}, or none; may be repeated. By default the errors of all "
            "sensors used, and friction where joint torques are.",
            autocompletion=complete_nuisances,
        ),
    ] = None,
    unseen: Annotated[
        list[Path] | None,
        typer.Option(
            "--validate", metavar="RECORDING", help="Predict this recording with what was found; may be repeated."
        ),
    ] = None,
    zeroed: Annotated[
        bool,
        typer.Option(
            "--zeroed", help="Sensors were zeroed before the recordings to validate on: their offsets are others."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write the report, the estimate and the corrected model file there."
        ),
    ] = None,
    report: Annotated[bool, typer.Option(help="Write report.html too.")] = True,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            min=1,
            help=f"Draw this many possible robots into DIR/{_DRAWN_FOLDER} ({', '.join(DRAWABLE_METHODS)}).",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What does this robot really weigh?

    Finds masses, centres of mass and inertias of the links from what the robot
    recorded while it moved, and how far to trust each; predicts recordings that it
    has not seen; and writes a report to look at, and the model file with its numbers
    corrected. How late and how loud the sensors are is found on the way.

    Exits with 0 when there is an estimate, 1 when the data or the problem is bad,
    2 when the call is wrong.

    Example:  steelyard identify g1 dance.mcap --validate reach.mcap -o results
    """
    # What is wrong whatever the recordings hold is told before they are read.
    check_names([method], OPTIONS, "--method")
    wished = choose_nuisances(nuisance)
    constraints = _parse(constraint or [], method)
    options = _options(method, {"spread": spread, "alpha": alpha, "c_max": c_max})
    _check_sample(sample, method, output)
    model = load_model(setup)
    wanted = parameters[0] if parameters and len(parameters) == 1 else parameters
    choose_parameters(model, wanted, mirror=mirror)
    check_constraints(model, method, constraints, parameters=wanted, mirror=mirror)
    _check_spread(model, spread)
    added = take_offsets(model, offsets)
    for path in (*recordings, *(unseen or [])):
        find_format(path)
    reported = output is not None and report
    if output is not None:
        if report:
            check_report_parts()
        drawn = {} if sample is None else {_DRAWN_FOLDER: _holds_drawn_models_only}
        check_folder(output, _file_names(model, validated=bool(unseen), reported=reported), folders=drawn, force=force)

    console = Console(quiet=quiet or as_json)
    told: BaseName | None = base.value if base else None
    with show_progress(quiet=quiet) as progress:
        heard = hear_sensors(model, recordings[0], progress, base=told, offsets=added, nuisance=wished, noise=noise)
        reader = Reader(model, told, progress, added, heard.delays)
        evidence = gather_each(model, reader, recordings, weights=heard.weights, nuisance=heard.nuisance)
        with show_usual(progress, f"Identifying by {method}", _SECONDS_A_LINK * len(model.links)):
            estimate = identify_parameters(
                model, evidence, method=method, parameters=wanted, mirror=mirror, constraints=constraints, **options
            )
    _ = estimate.parameters  # those of a failed estimate raise, with the remedy
    estimate = replace(
        estimate, options={**estimate.options, "delays": dict(heard.delays), "encoder_offsets": dict(added)}
    )
    _print(console, reader, heard, estimate.summary(width=console.width))

    validation, remarks = None, tuple[str, ...]()
    applied = ROBOT if zeroed else tuple(PRIORS)
    if unseen:
        with show_progress(quiet=quiet) as progress:
            second = Reader(model, told, progress, added, heard.delays)
            with second.naming():
                validation = validate(estimate, second.motions(unseen), nuisance=applied)
        remarks = second.remarks
        _print(console, second, None, validation.summary())

    with show_progress(quiet=quiet) as progress:
        draws = None if sample is None else _draw(estimate, sample, progress)
        page = None
        if reported:
            third = Reader(model, told, progress, added, heard.delays)
            page = Report(
                estimate,
                evidence=sum(evidence[1:], start=evidence[0]),
                validation=validation,
                traces=(
                    *_trace(third, estimate, recordings, "training", tuple(PRIORS)),
                    *_trace(third, estimate, unseen or [], "unseen", applied),
                ),
                offsets=added,
                remarks=(*heard.words, *reader.remarks, *remarks),
                command=shlex.join(["steelyard", *sys.argv[1:]]),
            )
        files, notes = ([], []) if output is None else _write(output, estimate, validation, draws, page)
    _print_end(console, estimate, validation, files, notes)
    tell_next(console, output, "open report.html in a browser" if reported else "")
    if as_json:
        typer.echo(json.dumps(_plain(estimate, validation, files, notes)))


def _plain(
    estimate: Estimate, validation: Validation | None, files: Sequence[Path], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "estimate": estimate.to_dict(),
        "validation": None if validation is None else validation.to_dict(),
        "files": [str(path) for path in files],
        "file_notes": list(notes),
    }


def _print_end(
    console: Console, estimate: Estimate, validation: Validation | None, files: Sequence[Path], notes: Sequence[str]
) -> None:
    """Prints what was found in two sentences, and what was written."""
    for line in sum_up(Report(estimate, validation=validation)):
        print_wrapped(console, line, "bold")
    for path in files:
        console.print(Text(f"written: {path}", style="green"), soft_wrap=True)
    for note in notes:
        print_wrapped(console, f"  {note}", "yellow")


def _draw(estimate: Estimate, count: int, progress: Progress) -> DrawnModels:
    progress.add_task(f"Drawing {count} robots", total=None)
    return estimate.sample(count)


def _trace(
    reader: Reader, estimate: Estimate, paths: Sequence[Path], purpose: Purpose, nuisance: Sequence[str]
) -> list[Trace]:
    """Gives what the report draws of each recording."""
    traces = []
    for path in paths:
        with reader.naming():
            motions = reader.motions([path], dense=True)
            traces.append(trace_motions(estimate, motions, name=path.name, purpose=purpose, nuisance=nuisance))
    return traces


def _parse(texts: Sequence[str], method: str) -> tuple[Constraint, ...]:
    if texts and method in UNCONSTRAINED:
        others = " or ".join(name for name in OPTIONS if name not in UNCONSTRAINED)
        raise typer.BadParameter(f"{method} takes none; choose --method {others}", param_hint="--constraint")
    try:
        return parse_constraints(texts, where="--constraint")
    except SteelyardError as error:
        raise typer.BadParameter(str(error)) from error


def _options(method: str, given: Mapping[str, float | None]) -> dict[str, Any]:
    """Gives the options that were given; one that the method does not take is refused."""
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in OPTIONS[method]:
            others = _takers(name).replace(", ", " or ")
            raise typer.BadParameter(
                f"{method} takes none; choose --method {others}", param_hint=f"--{name.replace('_', '-')}"
            )
    return options


def _check_sample(sample: int | None, method: str, output: Path | None) -> None:
    if sample is None:
        return
    if method not in DRAWABLE_METHODS:
        raise typer.BadParameter(
            f"cannot draw from {method}; choose --method {' or '.join(DRAWABLE_METHODS)}", param_hint="--sample"
        )
    if output is None:
        raise typer.BadParameter("say where to write the robots with --output", param_hint="--sample")


def _check_spread(model: Model, spread: float | None) -> None:
    try:
        group_links(model, spread)
    except SteelyardError as error:
        raise typer.BadParameter(str(error), param_hint="--spread") from error


def _holds_drawn_models_only(folder: Path) -> bool:
    """Tells whether a folder holds nothing but what a call before has drawn, as its own list says."""
    names = {path.name for path in folder.iterdir()}
    lists = [name for name in names if name.endswith(".json")]
    try:
        drawn = [each["name"] for name in lists for each in json.loads((folder / name).read_text("utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return names <= {*lists, *drawn}


def _file_names(model: Model, *, validated: bool, reported: bool) -> list[str]:
    """Gives the names of the files to write; the model's is that of its setup, or of the file that it came from."""
    source = model.description.file
    model_file = f"{(model.setup.path or source.path).stem}_identified{_ENDINGS[source.format]}"
    return [
        "estimate.json",
        model_file,
        *(["validation.json"] if validated else []),
        *(["report.html"] if reported else []),
    ]


def _write(
    folder: Path, estimate: Estimate, validation: Validation | None, draws: DrawnModels | None, report: Report | None
) -> tuple[list[Path], list[str]]:
    """Writes all files, and gives them with what to know of the model file."""
    notes: list[str] = []
    writers: list[Callable[[Path], object]] = [
        estimate.save,
        lambda path: notes.extend(estimate.write_model(path).notes),
    ]
    if validation is not None:
        writers.append(lambda path: write_json(path, validation.to_dict()))
    if report is not None:
        writers.append(report.write)
    names = _file_names(estimate.model, validated=validation is not None, reported=report is not None)
    if draws is not None:
        stem = (estimate.model.setup.path or estimate.model.description.file.path).stem
        writers.append(lambda path: draws.write(path, stem))
        names.append(_DRAWN_FOLDER)
    return write_together(folder, dict(zip(names, writers, strict=True))), notes


def _print(console: Console, reader: Reader, heard: Heard | None, summary: str) -> None:
    reader.tell(console)
    for words in heard.words if heard is not None else ():
        print_wrapped(console, f"  {words}", "yellow")
    console.print(Text(f"\n{summary}\n"), soft_wrap=True)
