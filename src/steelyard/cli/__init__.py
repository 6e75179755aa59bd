"""The command `steelyard`: one thin file per command."""

from __future__ import annotations

import typer

from steelyard import __version__
from steelyard.cli.command_group import Commands
from steelyard.cli.exit_codes import run

app = typer.Typer(
    name="steelyard",
    help="Find out what a humanoid robot, or a person, really weighs, link by link, from the sensors at hand.",
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
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Find out what a humanoid robot, or a person, really weighs, link by link, from the sensors at hand."""


def main() -> None:
    """Runs the command that the shell asks for."""
    run(app)
