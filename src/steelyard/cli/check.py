"""`steelyard check`: check whether a model is physically possible."""

from __future__ import annotations

import enum
import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.arrays import FloatArray
from steelyard.cli.shared_options import AsJson, PackagePaths, Quiet, complete_setups, parse_pair
from steelyard.cli.terminal import on_one_line, print_finding
from steelyard.model import SINGULAR_EXTENT, Consistency, ModelCheck, describe_difference, diagnose, load_model

_STYLES = {"impossible": "bold red", "singular": "yellow", "remark": "dim", "possible": "green"}


class BaseSupport(enum.StrEnum):
    """Whether the robot floats or is fixed to the world."""

    FLOATING = "floating"
    FIXED = "fixed"


def check(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL|SETUP",
            help="A ready setup (g1), a setup file, a URDF or an MJCF file.",
            autocompletion=complete_setups,
        ),
    ],
    setup: Annotated[
        str | None,
        typer.Option(
            metavar="SETUP",
            help="Read the model file with this setup's sensors, soles and mirror pairs.",
            autocompletion=complete_setups,
        ),
    ] = None,
    base: Annotated[
        BaseSupport | None, typer.Option(help="Whether the base floats; by default as in the setup or the model file.")
    ] = None,
    lock: Annotated[
        list[str] | None, typer.Option(metavar="JOINT=VALUE", help="Lock a joint at a position; may be repeated.")
    ] = None,
    packages: PackagePaths = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 even if a model is impossible.")] = False,
) -> None:
    """Check whether a model is physically possible.

    Lists mass, centre of mass and extents of every link, reports which links are impossible or singular, and why, and
    where left and right are not mirror images.

    Exits with 0 when every link is physically possible, 1 when one is not, 2 when the call is wrong.

    Example:  steelyard check g1 my_robot.urdf
    """
    locks = dict(parse_pair(entry, "--lock", "JOINT=VALUE", "elbow=0.5") for entry in lock or [])
    console = Console(quiet=quiet or as_json)
    checks = []
    for source in models:
        model = load_model(source, setup=setup, base=base.value if base else None, lock=locks, packages=packages or ())
        checks.append(model.check())
        _print(console, checks[-1])
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in checks], indent=2))
    if not exit_zero and not all(result.possible for result in checks):
        raise typer.Exit(1)


def _print(console: Console, result: ModelCheck) -> None:
    model = result.model
    console.print(Text(model.name, style="bold"), Text(str(model.description.file.path), style="dim"), soft_wrap=True)
    console.print(
        f"{len(model.links)} links, {len(model.joints)} joints, {model.base} base, {model.total_mass:.3f} kg",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("link", overflow="fold")
    for heading in ("mass (kg)", "centre of mass (mm)", "extents (mm)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for link, parameters in zip(model.links, model.parameters, strict=True):
        diagnosis = diagnose(parameters)
        table.add_row(
            Text(link),
            f"{parameters[0]:.4f}",
            *_lengths(parameters, diagnosis),
            # Only problems are named, so that the table of a sound robot fits eighty columns.
            Text("" if diagnosis.status == "possible" else diagnosis.status, style=_STYLES[diagnosis.status]),
        )
    console.print(table)
    worst = "impossible" if not result.possible else "singular" if result.names("singular") else "possible"
    print_finding(console, result.verdict(), "", _STYLES[worst])
    for finding in result.findings:
        print_finding(console, f"  {on_one_line(finding.name)}: ", finding.words, _STYLES[finding.severity])
    if result.mirror_differences:
        console.print("  Left and right are not mirror images in:", style="dim")
        for difference in result.mirror_differences:
            print_finding(console, "    ", describe_difference(difference))
    console.print()


def _lengths(parameters: FloatArray, diagnosis: Consistency) -> tuple[str, str]:
    """Return centre of mass and extents in millimetres, with a dash where undefined."""
    mass = float(parameters[0])
    if mass <= 0.0:
        return "-", "-"
    com = " ".join(f"{1000.0 * x:.1f}" for x in parameters[1:4] / mass)
    floor = mass * SINGULAR_EXTENT**2
    extents = ("-" if x < -floor else f"{1000.0 * (max(x, 0.0) / mass) ** 0.5:.1f}" for x in diagnosis.second_moments)
    return com, " ".join(extents)
