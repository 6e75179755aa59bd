"""`steelyard validate`: how well does an estimate predict what it has not seen?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from steelyard.cli.output_folder import check_file, deliver
from steelyard.cli.progress import show_progress
from steelyard.cli.recording_reader import Reader, take_offsets
from steelyard.cli.shared_options import (
    AsJson,
    BaseChoice,
    Force,
    OffsetsFile,
    Quiet,
    Recordings,
    choose_nuisances,
    complete_nuisances,
)
from steelyard.cli.terminal import print_wrapped
from steelyard.identification import load_estimate
from steelyard.motion import Base as BaseName
from steelyard.recording import find_format
from steelyard.regression import PRIORS
from steelyard.validation import ROBOT
from steelyard.validation import validate as validate_estimate
from steelyard.wording import in_words


def validate(
    estimate: Annotated[
        Path, typer.Argument(metavar="ESTIMATE", help="The estimate.json that `steelyard identify` wrote.")
    ],
    recordings: Recordings,
    base: BaseChoice = None,
    offsets: OffsetsFile = None,
    nuisance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Apply this alone of what the estimate found besides the links, such as wrench_offset, or none; may "
            "be repeated. By default all.",
            autocompletion=complete_nuisances,
        ),
    ] = None,
    zeroed: Annotated[
        bool, typer.Option("--zeroed", help="The sensors were zeroed since: their offsets are others, and not applied.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write all numbers there, as JSON.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """How well does an estimate predict what it has not seen?

    Predicts recordings with the identified parameters, beside the CAD and the CAD scaled by one factor, axis by
    axis, and says whether what was gained is more than chance. Data that the estimate was made from are recognised,
    and said. Delays of sensors and offsets of encoders are those that the estimate was made with, unless --offsets
    gives others.

    Exits with 0 when there is a comparison, 1 when the data or the problem is bad, 2 when the call is wrong.

    Example: steelyard validate results/estimate.json reach.mcap
    """
    wished = choose_nuisances(nuisance)
    if zeroed and wished is not None:
        raise typer.BadParameter("it says already what is applied; leave out --zeroed", param_hint="--nuisance")
    applied = wished if wished is not None else ROBOT if zeroed else tuple(PRIORS)
    found = load_estimate(estimate)
    added = (
        take_offsets(found.model, offsets) if offsets is not None else dict(found.options.get("encoder_offsets", {}))
    )
    delays = dict(found.options.get("delays", {}))
    for path in recordings:
        find_format(path)
    if output is not None:
        check_file(output, force=force)

    console = Console(quiet=quiet or as_json)
    told: BaseName | None = base.value if base else None
    with show_progress(quiet=quiet) as progress:
        reader = Reader(found.model, told, progress, added, delays)
        with reader.naming():
            validation = validate_estimate(found, reader.motions(recordings), nuisance=applied)
    reader.tell(console)
    if delays:
        late = in_words([f"{name} by {1e3 * seconds:+.1f} ms" for name, seconds in delays.items()])
        print_wrapped(console, f"  what the estimate was made with is taken out: {late}", "dim")
    console.print(Text(f"\n{validation.summary()}\n"), soft_wrap=True)
    plain = validation.to_dict()
    deliver(console, plain, output, as_json=as_json)
