"""Arguments and options that several commands share, and what completes them in a shell."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from steelyard.model import ready_setups
from steelyard.motion import BASES
from steelyard.regression import PRIORS
from steelyard.wording import did_you_mean


def complete_setups(incomplete: str) -> list[str]:
    """Gives the ready setups whose names begin so; where none does, shells complete names of files."""
    return [name for name in ready_setups() if name.startswith(incomplete)]


SetupName = Annotated[
    str,
    typer.Argument(
        metavar="SETUP", help="A ready setup (g1), a setup file, or a model file.", autocompletion=complete_setups
    ),
]
Recordings = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDING", help="CSV, Parquet, NPZ, HDF5 or .mat, MCAP, .bag, or a ROS 2 bag's folder."),
]


class Base(enum.StrEnum):
    """What tells of the base link's motion."""

    IMU = "imu"
    SOLE = "sole"
    POSE = "pose"


assert {*Base} | {"fixed"} == {*BASES}  # noqa: S101  (one list, told twice: typer needs an enum)

BaseChoice = Annotated[
    Base | None, typer.Option(help="What tells how the base link moves; by default an inertial sensor.")
]
OffsetsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Offsets of joints, added to what their encoders read, as calibration writes them."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors, and JSON if asked for.")]


def complete_nuisances(incomplete: str) -> list[str]:
    """Gives the groups of nuisances whose names begin so."""
    return [name for name in PRIORS if name.startswith(incomplete)]


def choose_nuisances(names: Sequence[str] | None) -> list[str] | None:
    """Gives the nuisances that were asked for; None where nothing was said, so that the usual ones are taken.

    Raises:
        typer.BadParameter: There is no such group, or "none" stands beside others.
    """
    if names is None:
        return None
    check_names(names, [*PRIORS, "none"], "--nuisance")
    if "none" in names and len(names) > 1:
        raise typer.BadParameter("none goes alone", param_hint="--nuisance")
    return [name for name in names if name != "none"]


def check_names(names: Sequence[str], known: Iterable[str], option: str) -> None:
    """Refuses names that an option does not know.

    Raises:
        typer.BadParameter: There is no such name; the message names the nearest.
    """
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}{did_you_mean(name, known)}", param_hint=option)


def parse_pair(text: str, option: str, form: str, example: str) -> tuple[str, float]:
    """Gives name and number of a text such as ``elbow=0.5``.

    Args:
        text: What was given.
        option: To which option.
        form: What it takes, such as ``JOINT=VALUE``.
        example: One that is right.

    Raises:
        typer.BadParameter: It is no such text.
    """
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        name = ""
    if not name:
        raise typer.BadParameter(f"{text!r} is not of the form {form}, such as {example}", param_hint=option)
    return name, value
