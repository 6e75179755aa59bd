"""The command `steelyard`: one thin file per command."""

from __future__ import annotations

import typer

from steelyard import __version__
from steelyard.cli.command_group import Commands
from steelyard.cli.exit_codes import run

app = typer.Typer(
    name="steelyard",
    help="Identify masses, centres of mass and inertias of a humanoid robot, link by link, from its own sensors.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Identify masses, centres of mass and inertias of a humanoid robot, link by link, from its own sensors."""


def main() -> None:
    """Run the command given in ``sys.argv``."""
    run(app)
