"""`steelyard payload`: what was added to a robot, where, and how much?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from steelyard.cli.arguments import (
    AsJson,
    Base,
    BaseChoice,
    Force,
    OffsetsFile,
    Quiet,
    Recordings,
    SetupName,
    check_names,
    complete_nuisances,
)
from steelyard.cli.output_folder import check_file, write_files, write_json
from steelyard.cli.progress import show_progress, show_usual
from steelyard.cli.reading import Reader, gather_each, survey_seconds, take_offsets
from steelyard.cli.wording import on_one_line
from steelyard.exceptions import IdentifiabilityError
from steelyard.identification import estimate_noise, find_payload
from steelyard.identification.payload_checks import choose_links
from steelyard.inspection import estimate_delays
from steelyard.model import Model, load_model
from steelyard.motion.reconstruct import Base as BaseName
from steelyard.recording import Recording
from steelyard.recording.reading import find_format
from steelyard.recording.recording import sensor_of
from steelyard.regression.nuisance import PRIORS

_PIECES = 8
"""Pieces of a recording among which the longest tells the noise; each is half a minute at 500 Hz."""

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
            help="What else may differ, instead of the errors of the wrench and inertial sensors; may be repeated.",
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
    check_names(nuisance or [], PRIORS, "--nuisance")
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
        learned = _learn(model, (empty or recordings)[0], told, added, nuisance, progress)
        reader = Reader(model, told, progress, added, learned.delays)
        evidence = gather_each(model, reader, [*empty, *recordings], weights=learned.weights, nuisance=learned.nuisance)
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
    console.print(Text(f"\n{finding.summary(min(console.width, 100))}\n"), soft_wrap=True)
    plain = {**finding.to_dict(), "delays": dict(learned.delays), "nuisance": list(learned.nuisance)}
    if output is not None:
        write_files({output: lambda path: write_json(path, plain)})
        console.print(Text(f"written: {output}", style="green"), soft_wrap=True)
    if as_json:
        typer.echo(json.dumps(plain))


@dataclass(frozen=True)
class _Sensors:
    """What a recording tells of the sensors.

    Attributes:
        delays: By sensor, s.
        weights: Noise, for `gather_evidence`; "default" where the recording is too short to tell.
        nuisance: Errors that they may have.
    """

    delays: Mapping[str, float]
    weights: Mapping[str, Any] | str
    nuisance: Sequence[str]


def _learn(
    model: Model,
    path: Path,
    base: BaseName | None,
    offsets: Mapping[str, float],
    nuisance: Sequence[str] | None,
    progress: Progress,
) -> _Sensors:
    """Gives delays and noise of the sensors; with noise as is usual, a load must be three times as great to be seen.

    Raises:
        SteelyardError: The recording is bad; the message names it.
    """
    reader = Reader(model, base, progress, offsets)
    with reader.naming():
        recording = reader.open(path)
        groups = list(nuisance) if nuisance else _usual_nuisances(model, base, recording)
        with show_usual(progress, f"Hearing the sensors of {on_one_line(path.name)}", survey_seconds(recording)):
            delays = estimate_delays(model, recording).values if _has_wrenches(model, recording) else {}
        timely = Reader(model, base, progress, offsets, delays)
        longest = max(islice(timely.motions([path]), _PIECES), key=len)
        try:
            weights: Mapping[str, Any] | str = estimate_noise(model, longest, nuisance=groups).weights
        except IdentifiabilityError:  # too short for it
            weights = "default"
    return _Sensors(delays, weights, groups)


def _has_wrenches(model: Model, recording: Recording) -> bool:
    there = {sensor_of(name) for name in recording.columns}
    return any(sensor.name in there for sensor in model.setup.wrench_sensors)


def _usual_nuisances(model: Model, base: str | None, recording: Recording) -> list[str]:
    """Gives the errors that these sensors may have: of wrenches, and of an inertial sensor where one is used."""
    groups = ["wrench_offset"] if _has_wrenches(model, recording) else []
    if model.base == "floating" and base in (None, Base.IMU):
        groups += ["accelerometer_bias", "imu_mounting"]
    return groups
