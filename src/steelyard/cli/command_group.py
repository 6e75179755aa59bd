"""The group of commands: their order, and loading each when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.exit_codes import set_exit_code

COMMANDS = {
    "demo": "Run the whole workflow on a virtual G1, no data needed.",
    "init": "Draft a setup file from a model file.",
    "check": "Check whether a model is physically possible.",
    "inspect": "Check a recording for faults before using it.",
    "calibrate": "Estimate the offsets of the joint encoders.",
    "identify": "Identify masses, centres of mass and inertias of all links.",
    "validate": "Validate an estimate on recordings that it has not seen.",
    "payload": "Find a payload: on which link, how heavy, and where.",
    "simulate": "Simulate a motion in the virtual laboratory, where the truth is known.",
}
"""Commands in the order in which a user meets them, each with the first line of its help; `steelyard.cli.<name>` has
the rest and is imported when the command is called."""


class Commands(TyperGroup):
    """The group of all commands (or others); errors end in one line and an exit code."""

    def __init__(self, *, commands: Any = None, **settings: Any) -> None:
        super().__init__(commands=commands or {name: _LazyCommand(name) for name in COMMANDS}, **settings)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options that stand before the command."""
        params = super().get_params(ctx)
        _hide_types_of_switches(params)
        return params

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options that stand before the command; see `invoke`."""
        with set_exit_code():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was called.

        Raises:
            typer.Exit: With 1 where the data or a file is bad, with 130 after Ctrl-C; one line was printed before.
        """
        with set_exit_code():
            return super().invoke(ctx)


class _LazyCommand(TyperCommand):
    """A command that is imported when it runs, shows its help or completes its arguments.

    Shell completion and ``steelyard --help`` ask for all commands; importing them would take a second.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, help=COMMANDS[name])

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Import the command and return its own context.

        Raises:
            typer.BadParameter: An argument is empty.
        """
        if not extra.get("resilient_parsing"):  # a shell completes unfinished calls
            _refuse_empty(args)
        return load_command(str(self.name)).make_context(info_name, args, parent=parent, **extra)


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raise for an empty argument, as of a shell variable that is not set: as a path it is the current folder."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        long = argument.startswith("--") and argument.endswith("=")
        if argument and not long:
            continue
        option = argument.rstrip("=") if long else before if before.startswith("-") else ""
        where = f"the value of {option}" if option else "an argument"
        raise typer.BadParameter(f"{where} is empty; give one, or set the shell variable that it comes from")


def load_command(name: str) -> Any:
    """Import a command and return it with all its options."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
    app.command(name)(getattr(import_module(f"steelyard.cli.{name}"), name))
    command = typer.main.get_command(app)
    # Each paragraph on one line: rich breaks lines at the width of the terminal, not at that of the source.
    command.help = "\n\n".join(" ".join(part.split()) for part in cleandoc(command.help or "").split("\n\n"))
    _hide_types_of_switches(command.get_params(typer.Context(command)))
    return command


def _hide_types_of_switches(params: Iterable[Any]) -> None:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
