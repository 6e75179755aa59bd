"""`steelyard payload`: what was added to a robot, where, and how much?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from steelyard.cli.output_folder import check_file, deliver
from steelyard.cli.preparation import hear_sensors
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
    choose_nuisances,
    complete_nuisances,
)
from steelyard.cli.terminal import print_wrapped
from steelyard.model import load_model
from steelyard.motion import Base as BaseName
from steelyard.payload import choose_links, find_payload
from steelyard.recording import find_format

_SEARCH_A_LINK = 0.02


def payload(
    setup: SetupName,
    recordings: Recordings,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RECORDING",
            help="The same robot without the load, in this or another motion; may be repeated. Without it, the model "
            "is what a load is told from, and only a great one can be.",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Look on this link alone, such as '*wrist*'; may be repeated."),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(metavar="SHARE", min=0.0, help="How far the model's masses are off; by default 0.25."),
    ] = None,
    zeroed: Annotated[
        bool, typer.Option("--zeroed", help="The sensors were zeroed or mounted anew since the baseline.")
    ] = False,
    removed: Annotated[bool, typer.Option("--removed", help="Something may have been taken away as well.")] = False,
    most: Annotated[int, typer.Option(metavar="COUNT", min=1, help="How many loads to look for.")] = 3,
    least_mass: Annotated[
        float | None,
        typer.Option(metavar="KG", min=0.0, help="A load worth mentioning; by default 2 % of the robot's mass."),
    ] = None,
    base: BaseChoice = None,
    offsets: OffsetsFile = None,
    nuisance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What else to look for, or none; may be repeated. By default the errors of all sensors used, and "
            "friction where joint torques are.",
            autocompletion=complete_nuisances,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the finding there, as JSON.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What was added to a robot, where, and how much?

    Holds recordings of the loaded robot against others of the same robot without the load, or against the model:
    tells which link carries something, how heavy it is and where, or that it cannot be told, and from how many
    kilograms on a load would be seen. Delays and noise of the sensors are found on the way.

    Exits with 0 when there is an answer, 1 when the data or the problem is bad, 2 when the call is wrong.

    Example: steelyard payload g1 carrying.mcap --baseline empty.mcap
    """
    wished = choose_nuisances(nuisance)
    model = load_model(setup)
    choose_links(model, link)
    added = take_offsets(model, offsets)
    empty = baseline or []
    for path in (*recordings, *empty):
        find_format(path)
    if output is not None:
        check_file(output, force=force)

    console = Console(quiet=quiet or as_json)
    told: BaseName | None = base.value if base else None
    with show_progress(quiet=quiet) as progress:
        heard = hear_sensors(
            model, (empty or recordings)[0], progress, base=told, offsets=added, nuisance=wished, all_delays=True
        )
        reader = Reader(model, told, progress, added, heard.delays)
        evidence = gather_each(model, reader, [*empty, *recordings], weights=heard.weights, nuisance=heard.nuisance)
        before, after = evidence[: len(empty)], evidence[len(empty) :]
        with show_usual(progress, "Looking for loads", _SEARCH_A_LINK * len(model.links) * most):
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
    reader.tell(console)
    for words in heard.words:
        print_wrapped(console, f"  {words}", "yellow")
    console.print(Text(f"\n{finding.summary(min(console.width, 100))}\n"), soft_wrap=True)
    plain = {**finding.to_dict(), "delays": dict(heard.delays), "nuisance": list(heard.nuisance)}
    deliver(console, plain, output, as_json=as_json)
