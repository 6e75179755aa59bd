"""`steelyard identify`: identify masses, centres of mass and inertias of all links."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from steelyard.cli.output_folder import Writer, check_folder, name_model_file, write_json, write_together
from steelyard.cli.prepared_recordings import PreparedRecordings, load_offsets
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import (
    AsJson,
    BaseChoice,
    Force,
    NoiseSource,
    Nuisances,
    OffsetsFile,
    Quiet,
    Recordings,
    SetupName,
    Withheld,
    Zeroed,
    check_names,
    choose_nuisances,
)
from steelyard.cli.shell_options import in_shell_words, with_shell_notes
from steelyard.cli.terminal import print_files, print_next_step, print_note, print_summary
from steelyard.exceptions import ConsistencyError, ModelError, SteelyardError
from steelyard.identification import (
    DRAWABLE_METHODS,
    OPTIONS,
    UNCONSTRAINED,
    Estimate,
    check_constraints,
    choose_parameters,
    group_links,
    links_as_csv,
    overview,
)
from steelyard.identification import identify as identify_parameters
from steelyard.model import Constraint, Model, load_model, parse_constraints
from steelyard.motion import Base as BaseName
from steelyard.preparation import naming
from steelyard.recording import find_format
from steelyard.report import Report, Trace, check_report_parts, sum_up, trace_motions
from steelyard.validation import Validation, fit_sensor_errors, judge, validate

_METHOD = str(inspect.signature(identify_parameters).parameters["method"].default)
_DRAWN_FOLDER = "drawn"
_MODEL_FILE = 2  # its place among the names of the files
_SECONDS_PER_LINK = 0.05
"""Expected time of the identification per link, s. It only sets the time left that a progress bar shows; no
measurement is on record."""


def _methods_with(option: str) -> str:
    return ", ".join(method for method, options in OPTIONS.items() if option in options)


def identify(
    setup: SetupName,
    recordings: Recordings,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(OPTIONS)}.", autocompletion=lambda: list(OPTIONS))
    ] = _METHOD,
    constraint: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A constraint such as total_mass=33.2 or 'frozen=waist_*'; may be repeated."),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help=f"Uncertainty of the model, such as 0.2; by default estimated ({_methods_with('spread')}).",
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="WEIGHT", min=0.0, help=f"Weight of the model ({_methods_with('alpha')}).")
    ] = None,
    c_max: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", min=1.0, help=f"Largest condition number to identify with ({_methods_with('c_max')})."
        ),
    ] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Left and right are exact mirror images.")] = False,
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
        NoiseSource,
        typer.Option(
            help="Sensor noise: estimated from the residuals (found), that of common sensors (usual), or equal in all "
            "rows, as in the papers."
        ),
    ] = NoiseSource.FOUND,
    nuisance: Nuisances = None,
    withhold: Withheld = None,
    unseen: Annotated[
        list[Path] | None,
        typer.Option(
            "--validate", metavar="RECORDING", help="Validate the estimate on this recording; may be repeated."
        ),
    ] = None,
    zeroed: Zeroed = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write report, estimate and identified model file to this folder."
        ),
    ] = None,
    report: Annotated[bool, typer.Option(help="Write report.html too.")] = True,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            min=1,
            help=f"Draw this many robots from the posterior into DIR/{_DRAWN_FOLDER} ({', '.join(DRAWABLE_METHODS)}).",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    full_json: Annotated[
        bool, typer.Option("--full-json", help="Print JSON with all matrices, as estimate.json and Python have them.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Identify masses, centres of mass and inertias of all links.

    Estimates the parameters, with their uncertainty, from recordings of the robot
    in motion, validates them on recordings that were not used, and writes a report
    and the model file with identified numbers. Sensor delays and sensor noise are
    estimated first.

    Exits with 0 when there is an estimate, 1 when the data or the problem is bad,
    2 when the call is wrong.

    Example:  steelyard identify g1 dance.mcap --validate reach.mcap -o results
    """
    # Mistakes that do not depend on the recordings are reported before these are read.
    check_names([method], OPTIONS, "--method")
    chosen = choose_nuisances(nuisance)
    constraints = _parse_constraints(constraint or [], method)
    options = _choose_options(method, {"spread": spread, "alpha": alpha, "c_max": c_max})
    _check_sample(sample, method, output)
    model = load_model(setup)
    wanted = parameters[0] if parameters and len(parameters) == 1 else parameters
    choose_parameters(model, wanted, mirror=mirror)
    check_constraints(model, method, constraints, parameters=wanted, mirror=mirror)
    _check_spread(model, spread)
    added = load_offsets(model, offsets)
    for path in (*recordings, *(unseen or [])):
        find_format(path)
    report = report and output is not None
    names = _check_output(model, output, sample, force=force, validated=bool(unseen), reported=report)

    console = Console(quiet=quiet or as_json or full_json)
    source: BaseName | None = base.value if base else None
    hidden = withhold or ()
    with show_progress(quiet=quiet) as progress:
        road = PreparedRecordings.prepare(
            model,
            recordings,
            progress,
            base=source,
            offsets=added,
            nuisance="auto" if chosen is None else chosen,
            noise=noise.request,
            withhold=hidden,
        )
        evidence = road.gather()
        with show_task(progress, f"Identifying ({method})", _SECONDS_PER_LINK * len(model.links)):
            estimate = identify_parameters(
                model, evidence, method=method, parameters=wanted, mirror=mirror, constraints=constraints, **options
            )
    _ = estimate.parameters  # those of a failed estimate raise, with the remedy
    shown = with_shell_notes(estimate)
    road.print_notes(console)
    print_summary(console, shown.summary(width=console.width))

    validation = None
    if unseen:
        with show_progress(quiet=quiet) as progress, naming(lambda: road.current):
            validation = validate(estimate, road.on(progress).motions(unseen), zeroed=zeroed)
        road.print_notes(console)
        print_summary(console, with_shell_notes(validation).summary())

    page = Report(
        shown,
        evidence=sum(evidence[1:], start=evidence[0]),
        validation=None if validation is None else with_shell_notes(validation),
        offsets=added,
        remarks=tuple(map(in_shell_words, road.remarks)),
        command=shlex.join(["steelyard", *sys.argv[1:]]),
    )
    with show_progress(quiet=quiet) as progress:
        if report:
            road.on(progress)
            page = replace(page, traces=tuple(_trace(road, estimate, recordings, unseen or [], validation)))
        drawn = None if sample is None else _draw(estimate, sample, progress)
        files, notes = _write(output, names, estimate, validation, page.write if report else None, drawn, force=force)
    _print_end(console, page, files, notes)
    if as_json or full_json:
        found = {"estimate": estimate.to_dict()} if full_json else overview(estimate)
        judged = None if validation is None else validation.to_dict()
        written = {"files": [str(path) for path in files], "file_notes": notes}
        verdict = judge(estimate, validation).to_dict()
        typer.echo(json.dumps({**found, "verdict": verdict, "validation": judged, **written}))


def _write(
    folder: Path | None,
    names: Sequence[str],
    estimate: Estimate,
    validation: Validation | None,
    *optional: Writer | None,
    force: bool,
) -> tuple[list[Path], list[str]]:
    """Write all files, if a folder is named; return them, and notes on the model file."""
    if folder is None:
        return [], []
    notes: list[str] = []
    stored = None
    if validation is not None:
        stored = partial(write_json, plain={**validation.to_dict(), "verdict": judge(estimate, validation).to_dict()})
    table = partial(Path.write_text, data=links_as_csv(estimate), encoding="utf-8")
    writers = (estimate.save, table, lambda path: notes.extend(estimate.write_model(path).notes), stored, *optional)
    chosen = dict(zip(names, [write for write in writers if write is not None], strict=True))
    problem = _fits_no_file(estimate, names[_MODEL_FILE])
    if problem:
        del chosen[names[_MODEL_FILE]]
        notes.append(f"no model file was written, but everything else was: {problem}")
    return write_together(folder, chosen, force=force), notes


def _fits_no_file(estimate: Estimate, name: str) -> str:
    """Return why the parameters fit no model file; empty if they do.

    Methods without physical constraints may find masses that no simulator loads; their estimate and report are kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            estimate.write_model(Path(folder) / name)
        except (ModelError, ConsistencyError) as error:
            return str(error)
    return ""


def _print_end(console: Console, page: Report, files: Sequence[Path], notes: Sequence[str]) -> None:
    for line in sum_up(page):
        print_note(console, line, "bold")
    print_files(console, files, notes)
    if not files:
        print_next_step(console, "nothing was written; -o DIR keeps the results")
    elif any(path.name == "report.html" for path in files):
        print_next_step(console, "next: open report.html in a browser")


def _draw(estimate: Estimate, count: int, progress: Progress) -> Writer:
    """Draw robots from the posterior, and return a function that writes them into a folder."""
    progress.add_task(f"Drawing {count} robots", total=None)
    draws = estimate.sample(count)
    stem = (estimate.model.setup.path or estimate.model.description.file.path).stem
    return lambda path: draws.write(path, stem)


def _trace(
    road: PreparedRecordings,
    estimate: Estimate,
    training: Sequence[Path],
    unseen: Sequence[Path],
    validation: Validation | None,
) -> Iterator[Trace]:
    """Yield what the report plots of each recording, with the sensor errors of that recording."""
    for path in training:
        # Of several recordings, each has offsets of its own.
        own = fit_sensor_errors(estimate, road.motions([path])) if len(training) > 1 else {}
        yield trace_motions(
            estimate, road.motions([path], dense=True), name=path.name, purpose="training", sensor_errors=own
        )
    known = {} if validation is None else validation.sensor_errors
    for path in unseen:
        yield trace_motions(
            estimate, road.motions([path], dense=True), name=path.name, purpose="unseen", sensor_errors=known
        )


def _parse_constraints(texts: Sequence[str], method: str) -> tuple[Constraint, ...]:
    if texts and method in UNCONSTRAINED:
        others = " or ".join(name for name in OPTIONS if name not in UNCONSTRAINED)
        raise typer.BadParameter(f"{method} does not take it; choose --method {others}", param_hint="--constraint")
    try:
        return parse_constraints(texts, where="--constraint")
    except SteelyardError as error:
        raise typer.BadParameter(in_shell_words(str(error))) from error


def _choose_options(method: str, given: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the options that were given; refuse one that the method does not take."""
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in OPTIONS[method]:
            others = _methods_with(name).replace(", ", " or ")
            raise typer.BadParameter(
                f"{method} does not take it; choose --method {others}", param_hint=f"--{name.replace('_', '-')}"
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
        raise typer.BadParameter("name the folder to write the robots to with --output", param_hint="--sample")


def _check_spread(model: Model, spread: float | None) -> None:
    try:
        group_links(model, spread)
    except SteelyardError as error:
        raise typer.BadParameter(in_shell_words(str(error)), param_hint="--spread") from error


def _check_output(
    model: Model, output: Path | None, sample: int | None, *, force: bool, validated: bool, reported: bool
) -> list[str]:
    """Check that the results can be written, and return the names of their files and folders."""
    if reported:
        check_report_parts()
    names = ["estimate.json", "links.csv", name_model_file(model, "identified")]
    names += [name for name, made in (("validation.json", validated), ("report.html", reported)) if made]
    drawn = {} if sample is None else {_DRAWN_FOLDER: _holds_drawn_models_only}
    if output is not None:
        check_folder(output, names, folders=drawn, force=force)
    return [*names, *drawn]


def _holds_drawn_models_only(folder: Path) -> bool:
    """Return whether a folder holds only models that an earlier call has drawn, as its own list says."""
    names = {path.name for path in folder.iterdir()}
    lists = [name for name in names if name.endswith(".json")]
    try:
        drawn = [each["name"] for name in lists for each in json.loads((folder / name).read_text("utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return names <= {*lists, *drawn}
