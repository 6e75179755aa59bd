"""`steelyard payload`: find a payload: on which link, how heavy, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from steelyard.cli.output_folder import check_file, write_result
from steelyard.cli.prepared_recordings import PreparedRecordings, load_offsets
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import (
    AsJson,
    BaseChoice,
    Force,
    Nuisances,
    OffsetsFile,
    Quiet,
    Recordings,
    ResultFile,
    SetupName,
    Withheld,
    choose_nuisances,
)
from steelyard.cli.shell_options import with_shell_notes
from steelyard.cli.terminal import print_summary
from steelyard.model import load_model
from steelyard.motion import Base as BaseName
from steelyard.payload import RIVAL_NUISANCE, choose_links, find_payload
from steelyard.recording import find_format

_SECONDS_PER_LINK = 0.02
"""Expected time of the search per link and payload, s. It only sets the time left that a progress bar shows; no
measurement is on record."""


def payload(
    setup: SetupName,
    recordings: Recordings,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RECORDING",
            help="The same robot without the payload, in this or another motion; may be repeated. Without it the model "
            "is the reference, and only a heavy payload can be detected.",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Search only this link, such as '*wrist*'; may be repeated."),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0.0, help="Uncertainty of the model's masses, as a share of them; by default 0.25."
        ),
    ] = None,
    zeroed: Annotated[
        bool, typer.Option("--zeroed", help="The sensors were zeroed or mounted anew since the baseline.")
    ] = False,
    removed: Annotated[bool, typer.Option("--removed", help="Search for removed masses as well.")] = False,
    most: Annotated[int, typer.Option(metavar="COUNT", min=1, help="Search for at most this many payloads.")] = 3,
    least_mass: Annotated[
        float | None,
        typer.Option(metavar="KG", min=0.0, help="Smallest payload to report; by default 2 % of the robot's mass."),
    ] = None,
    base: BaseChoice = None,
    offsets: OffsetsFile = None,
    nuisance: Nuisances = None,
    withhold: Withheld = None,
    output: ResultFile = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find a payload: on which link, how heavy, and where.

    Compares recordings of the loaded robot with others of the same robot without the payload, or with the model.
    Reports which link carries something, how heavy it is and where, or that this is not observable, and the smallest
    mass that would be detected on each link. Delays and noise of the sensors are estimated first. Sensors that drift,
    were zeroed, or lost their calibration are compared with a load before one is named.

    Exits with 0 when there is an answer, 1 when the data or the problem is bad, 2 when the call is wrong.

    Example: steelyard payload g1 carrying.mcap --baseline empty.mcap
    """
    chosen = choose_nuisances(nuisance)
    model = load_model(setup)
    choose_links(model, link)
    added = load_offsets(model, offsets)
    empty, hidden = baseline or [], withhold or ()
    for path in (*recordings, *empty):
        find_format(path)
    if output is not None:
        check_file(output, force=force)

    console = Console(quiet=quiet or as_json)
    source: BaseName | None = base.value if base else None
    with show_progress(quiet=quiet) as progress:
        # Sensors count as the same in all recordings: find_payload compares that with sensors that changed in between.
        road = PreparedRecordings.prepare(
            model,
            [*empty, *recordings],
            progress,
            base=source,
            offsets=added,
            delays="all",
            nuisance=RIVAL_NUISANCE if chosen is None else chosen,
            withhold=hidden,
            shared_offsets=True,
        )
        before, after = road.gather(empty), road.gather(recordings)
        with show_task(progress, "Searching for payloads", _SECONDS_PER_LINK * len(model.links) * most):
            finding = find_payload(
                model,
                sum(after[1:], start=after[0]),
                sum(before[1:], start=before[0]) if before else None,
                cad_spread=spread,
                same_sensors=not zeroed,
                links=link,
                removed=removed,
                most=most,
                least_mass=least_mass,
            )
    road.print_notes(console)
    print_summary(console, with_shell_notes(finding).summary(min(console.width, 100)))
    plain = {**finding.to_dict(), "delays": dict(road.prepared.delays), "nuisance": list(road.prepared.nuisance)}
    write_result(console, plain, output, as_json=as_json, force=force)
