"""`steelyard identify`: what does this robot really weigh?"""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from steelyard.cli.output_folder import check_folder, write_together
from steelyard.cli.reading import Reader, print_wrapped, show_progress, take_offsets
from steelyard.exceptions import SteelyardError
from steelyard.identification import DrawnModels, Estimate, choose_parameters
from steelyard.identification import identify as identify_parameters
from steelyard.identification.drawn_models import METHODS as DRAWN
from steelyard.identification.link_groups import group_links
from steelyard.identification.methods import OPTIONS, UNCONSTRAINED, check_constraints
from steelyard.model import Model, load_model
from steelyard.model.constraint_tables import parse_constraints
from steelyard.model.constraints import Constraint
from steelyard.model.names import did_you_mean
from steelyard.recording.reading import find_format
from steelyard.regression import Evidence, gather_evidence
from steelyard.regression.nuisance import PRIORS
from steelyard.validation import Validation, validate

_METHOD = str(inspect.signature(identify_parameters).parameters["method"].default)
_ENDINGS = {"URDF": ".urdf", "MJCF": ".xml"}
_DRAWN_FOLDER = "drawn"


def _takers(option: str) -> str:
    return ", ".join(method for method, options in OPTIONS.items() if option in options)


class Base(enum.StrEnum):
    """What tells of the base link's motion."""

    IMU = "imu"
    SOLE = "sole"
    POSE = "pose"


def identify(
    setup: Annotated[str, typer.Argument(metavar="SETUP", help="A ready setup (g1), a setup file, or a model file.")],
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING", help="CSV, Parquet, NPZ, HDF5 or .mat, MCAP, .bag, or a ROS 2 bag's folder."
        ),
    ],
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
    base: Annotated[
        Base | None, typer.Option(help="What tells how the base link moves; by default an inertial sensor.")
    ] = None,
    offsets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Offsets of joints, added to what their encoders read, as calibration writes them."
        ),
    ] = None,
    nuisance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What else to look for: {', '.join(PRIORS)}; may be repeated.",
            autocompletion=lambda: list(PRIORS),
        ),
    ] = None,
    unseen: Annotated[
        list[Path] | None,
        typer.Option(
            "--validate", metavar="RECORDING", help="Predict this recording with what was found; may be repeated."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the estimate and the corrected model file there."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            min=1,
            help=f"Draw so many possible robots, and write them into DIR/{_DRAWN_FOLDER} ({', '.join(DRAWN)}).",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors, and JSON if asked for.")] = False,
) -> None:
    """What does this robot really weigh?

    Finds masses, centres of mass and inertias of the links from what the robot
    recorded while it moved, and how far to trust each; predicts recordings that it
    has not seen; and writes the model file with its numbers corrected.

    Exits with 0 when there is an estimate, 1 when the data or the problem is bad,
    2 when the call is wrong.

    Example:  steelyard identify g1 dance.mcap --validate reach.mcap -o results
    """
    # What is wrong whatever the recordings hold is told before they are read.
    _check_names([method], OPTIONS, "--method")
    _check_names(nuisance or [], PRIORS, "--nuisance")
    constraints = _parse(constraint or [], method)
    options = _options(method, {"spread": spread, "alpha": alpha, "c_max": c_max})
    if sample is not None:
        _check_sample(method, output)
    model = load_model(setup)
    wanted = parameters[0] if parameters and len(parameters) == 1 else parameters
    choose_parameters(model, wanted, mirror=mirror)
    check_constraints(model, method, constraints, parameters=wanted, mirror=mirror)
    _check_spread(model, spread)
    added = take_offsets(model, offsets)
    for path in (*recordings, *(unseen or [])):
        find_format(path)
    if output is not None:
        drawn = {} if sample is None else {_DRAWN_FOLDER: _holds_drawn_models_only}
        check_folder(output, _file_names(model, validated=bool(unseen)), folders=drawn, force=force)

    console = Console(quiet=quiet or as_json)
    with show_progress(quiet=quiet) as progress:
        reader = Reader(model, base.value if base else None, progress, added)
        evidence = _gather(model, reader, recordings, nuisance or [])
        progress.add_task(f"Identifying by {method}", total=None)
        estimate = identify_parameters(
            model, evidence, method=method, parameters=wanted, mirror=mirror, constraints=constraints, **options
        )
    # Those of a failed estimate raise, with the remedy.
    _ = estimate.parameters
    _print(console, reader, estimate.summary(width=console.width))

    validation = None
    if unseen:
        with show_progress(quiet=quiet) as progress:
            reader = Reader(model, base.value if base else None, progress, added)
            with reader.naming():
                validation = validate(estimate, reader.motions(unseen))
        _print(console, reader, validation.summary())

    draws = None
    if sample is not None:
        with show_progress(quiet=quiet) as progress:
            progress.add_task(f"Drawing {sample} robots", total=None)
            draws = estimate.sample(sample)

    files, notes = ([], []) if output is None else _write(output, estimate, validation, draws)
    for path in files:
        console.print(Text(f"written: {path}", style="green"), soft_wrap=True)
    for note in notes:
        print_wrapped(console, f"  {note}", "yellow")
    if as_json:
        plain = {
            "estimate": estimate.to_dict(),
            "validation": None if validation is None else validation.to_dict(),
            "files": [str(path) for path in files],
            "file_notes": notes,
        }
        typer.echo(json.dumps(plain))


def _gather(model: Model, reader: Reader, recordings: Sequence[Path], nuisance: Sequence[str]) -> list[Evidence]:
    evidence: list[Evidence] = []
    for path in recordings:
        with reader.naming():
            evidence.append(gather_evidence(model, reader.motions([path]), nuisance=nuisance))
            # One that does not add to those before it is told by its name.
            sum(evidence[1:], start=evidence[0])
    return evidence


def _check_names(names: Sequence[str], known: Iterable[str], option: str) -> None:
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}{did_you_mean(name, known)}", param_hint=option)


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


def _check_sample(method: str, output: Path | None) -> None:
    if method not in DRAWN:
        raise typer.BadParameter(
            f"nothing can be drawn from {method}; choose --method {' or '.join(DRAWN)}", param_hint="--sample"
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


def _file_names(model: Model, *, validated: bool) -> list[str]:
    """Gives the names of the files to write; the model's is that of its setup, or of the file that it came from."""
    source = model.description.file
    model_file = f"{(model.setup.path or source.path).stem}_identified{_ENDINGS[source.format]}"
    return ["estimate.json", model_file, *(["validation.json"] if validated else [])]


def _write(
    folder: Path, estimate: Estimate, validation: Validation | None, draws: DrawnModels | None
) -> tuple[list[Path], list[str]]:
    """Writes all files, and gives them with what to know of the model file."""
    notes: list[str] = []
    writers: list[Callable[[Path], object]] = [
        estimate.save,
        lambda path: notes.extend(estimate.write_model(path).notes),
    ]
    if validation is not None:
        text = json.dumps(validation.to_dict(), allow_nan=False) + "\n"
        writers.append(lambda path: path.write_text(text, encoding="utf-8"))
    names = _file_names(estimate.model, validated=validation is not None)
    if draws is not None:
        stem = (estimate.model.setup.path or estimate.model.description.file.path).stem
        writers.append(lambda path: draws.write(path, stem))
        names.append(_DRAWN_FOLDER)
    return write_together(folder, dict(zip(names, writers, strict=True))), notes


def _print(console: Console, reader: Reader, summary: str) -> None:
    reader.tell(console)
    console.print(Text(f"\n{summary}\n"), soft_wrap=True)
