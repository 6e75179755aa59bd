"""`steelyard validate`: validate an estimate on recordings that it has not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from steelyard.cli.output_folder import check_file, write_result
from steelyard.cli.prepared_recordings import PreparedRecordings, load_offsets
from steelyard.cli.progress import show_progress
from steelyard.cli.shared_options import (
    AsJson,
    BaseChoice,
    Force,
    OffsetsFile,
    Quiet,
    Recordings,
    ResultFile,
    Withheld,
    Zeroed,
    choose_nuisances,
    complete_nuisances,
)
from steelyard.cli.shell_options import with_shell_notes
from steelyard.cli.terminal import print_note, print_summary
from steelyard.identification import load_estimate
from steelyard.preparation import naming
from steelyard.recording import find_format
from steelyard.validation import describe_verdict, judge, preparation_for
from steelyard.validation import validate as validate_estimate
from steelyard.wording import in_words


def validate(
    estimate: Annotated[
        Path, typer.Argument(metavar="ESTIMATE", help="An estimate.json that `steelyard identify` wrote.")
    ],
    recordings: Recordings,
    base: BaseChoice = None,
    offsets: OffsetsFile = None,
    nuisance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Apply only these estimated sensor and joint errors, such as wrench_offset, or none; may be repeated. "
            "By default all.",
            autocompletion=complete_nuisances,
        ),
    ] = None,
    zeroed: Zeroed = None,
    withhold: Withheld = None,
    output: ResultFile = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Validate an estimate on recordings that it has not seen.

    Predicts the recordings with the identified parameters, with the CAD and with the CAD scaled by one factor, axis by
    axis, and tests whether the gain is significant. Recordings that the estimate was made from are recognised. Sensor
    delays and encoder offsets are those that the estimate was made with, unless --offsets gives others.

    Exits with 0 when there is a comparison, 1 when the data or the problem is bad, 2 when the call is wrong.

    Example: steelyard validate results/estimate.json reach.mcap
    """
    chosen = choose_nuisances(nuisance)
    found = load_estimate(estimate)
    prepared = preparation_for(found)
    if offsets is not None:
        prepared = replace(prepared, offsets=load_offsets(found.model, offsets))
    if base is not None:
        prepared = replace(prepared, base=base.value, imu=None)
    for path in recordings:
        find_format(path)
    if output is not None:
        check_file(output, force=force)

    console = Console(quiet=quiet or as_json)
    with show_progress(quiet=quiet) as progress:
        road = PreparedRecordings(prepared, progress)
        with naming(lambda: road.current):
            validation = validate_estimate(
                found, road.motions(recordings), nuisance=chosen, zeroed=zeroed, withhold=withhold
            )
    road.print_notes(console)
    if prepared.delays:
        late = in_words([f"{name} by {1e3 * seconds:+.1f} ms" for name, seconds in prepared.delays.items()])
        print_note(console, f"  delays are corrected as for the estimate: {late}", "dim")
    print_summary(console, with_shell_notes(validation).summary())
    verdict = judge(found, validation)
    for line in describe_verdict(verdict):
        print_note(console, line, "bold")
    plain = {**validation.to_dict(), "verdict": verdict.to_dict()}
    write_result(console, plain, output, as_json=as_json, force=force)
