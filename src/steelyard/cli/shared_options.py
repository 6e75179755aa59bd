"""Arguments and options that several commands share, and their shell completion."""

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
    """Return the ready setups that begin with what is typed; where none does, shells complete file names."""
    return [name for name in ready_setups() if name.startswith(incomplete)]


def complete_nuisances(incomplete: str) -> list[str]:
    """Return the nuisance groups that begin with what is typed."""
    return [name for name in PRIORS if name.startswith(incomplete)]


class BaseOption(enum.StrEnum):
    """Where the motion of the base link comes from."""

    IMU = "imu"
    SOLE = "sole"
    POSE = "pose"


assert {*BaseOption} | {"fixed"} == {*BASES}  # noqa: S101  (typer needs an enum of the same names)


class NoiseSource(enum.StrEnum):
    """Where the noise of the sensors is taken from."""

    FOUND = "found"
    USUAL = "usual"
    EQUAL = "equal"

    @property
    def request(self) -> str | None:
        """The same as an argument of `prepare`."""
        return {"found": "auto", "usual": "default"}.get(self.value)


SetupName = Annotated[
    str,
    typer.Argument(
        metavar="SETUP", help="A ready setup (g1), a setup file or a model file.", autocompletion=complete_setups
    ),
]
Recordings = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDING", help="CSV, Parquet, NPZ, HDF5, .mat, MCAP, .bag or the folder of a ROS 2 bag."),
]
BaseChoice = Annotated[
    BaseOption | None, typer.Option(help="Where the base link's motion comes from: by default an inertial sensor.")
]
OffsetsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Joint offsets to add to the encoders, as `steelyard calibrate` writes them."),
]
Nuisances = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=f"Sensor and joint errors to estimate as well: {', '.join(PRIORS)}, or none; may be repeated. By default "
        "those of all sensors used, and friction if joint torques are.",
        autocompletion=complete_nuisances,
    ),
]
Withheld = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SENSOR",
        help="Treat this wrench sensor, or a component such as left_foot.fz, as not measured; may be repeated.",
    ),
]
Zeroed = Annotated[
    bool | None,
    typer.Option(
        "--zeroed/--not-zeroed",
        help="Whether sensors were zeroed since the training recordings, so that offsets are found on the unseen ones. "
        "By default that is detected.",
    ),
]
ResultFile = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result to this JSON file.")
]
PackagePaths = Annotated[
    list[Path] | None,
    typer.Option("--package-path", metavar="FOLDER", help="A folder with ROS packages; may be repeated."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only errors, and JSON if asked for.")]


def choose_nuisances(names: Sequence[str] | None) -> list[str] | None:
    """Return the nuisance groups asked for; None where the option was not given, which means the default groups.

    Raises:
        typer.BadParameter: There is no such group, or "none" is combined with others.
    """
    if names is None:
        return None
    check_names(names, [*PRIORS, "none"], "--nuisance")
    if "none" in names and len(names) > 1:
        raise typer.BadParameter("none cannot be combined with others", param_hint="--nuisance")
    return [name for name in names if name != "none"]


def check_names(names: Sequence[str], known: Iterable[str], option: str) -> None:
    """Check that an option knows all names given.

    Raises:
        typer.BadParameter: It does not know one; the message suggests the nearest.
    """
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {name!r}{did_you_mean(name, known)}", param_hint=option)


def parse_pair(text: str, option: str, form: str, example: str) -> tuple[str, float]:
    """Split a text such as ``elbow=0.5`` into a name and a number.

    Args:
        text: The text.
        option: The option that it was given to.
        form: The form that the option takes, such as ``JOINT=VALUE``.
        example: A valid text.

    Raises:
        typer.BadParameter: The text is not of that form.
    """
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        name = ""
    if not name:
        raise typer.BadParameter(f"{text!r} is not of the form {form}, such as {example}", param_hint=option)
    return name, value
