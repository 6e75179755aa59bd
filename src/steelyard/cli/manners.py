"""How every command behaves: in which order they stand, and how what goes wrong is told."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from steelyard.cli.interrupts import forget_written, is_left_running, listen_once, written
from steelyard.cli.wording import wrap
from steelyard.exceptions import SteelyardError

ROAD = {
    "demo": "The whole story on a virtual G1, no data needed.",
    "init": "Make a setup file by looking at a model.",
    "check": "Is this model physically possible?",
    "inspect": "Is this recording any good?",
    "calibrate": "By how much are the joints' encoders off?",
    "identify": "What does this robot really weigh?",
    "validate": "How well does an estimate predict what it has not seen?",
    "payload": "What was added to a robot, where, and how much?",
    "simulate": "Play a motion in the virtual laboratory, where the truth is known.",
}
"""Commands in the order in which a user meets them, each with the first line of its help; `steelyard.cli.<name>` has
the rest, and is loaded when the command is asked for."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the signal's number."""


class Commands(TyperGroup):
    """The commands, in the order of the road (or others); bad input, a full disk and Ctrl-C are told in one line."""

    def __init__(self, *, commands: Any = None, **settings: Any) -> None:
        super().__init__(commands=commands or {name: _Command(name) for name in ROAD}, **settings)

    def get_params(self, ctx: Any) -> list[Any]:
        """Gives the options that stand before the command."""
        params = super().get_params(ctx)
        _leave_types_of_switches_out(params)
        return params

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Reads the options that stand before the command; see `invoke`."""
        with _manners():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was asked for.

        Raises:
            typer.Exit: With 1 where the data or a file is bad, with 130 after Ctrl-C, after the one line that says so.
        """
        with _manners():
            return super().invoke(ctx)


class _Command(TyperCommand):
    """A command that is loaded when it is run, or asked for its help or what completes it.

    A shell that completes a word asks for all commands, and so does ``steelyard --help``; loading them takes a second.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, help=ROAD[name])

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Loads the command and reads its arguments; the context that comes back is its own."""
        return load_command(str(self.name)).make_context(info_name, args, parent=parent, **extra)


def load_command(name: str) -> Any:
    """Gives a command with all its options; its help has lines as long as the terminal, and switches have no type."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
    app.command(name)(getattr(import_module(f"steelyard.cli.{name}"), name))
    command = typer.main.get_command(app)
    command.help = _without_line_breaks(command.help or "")
    _leave_types_of_switches_out(command.get_params(typer.Context(command)))
    return command


@contextmanager
def _manners() -> Iterator[None]:
    """Tells in one line what goes wrong in a block, and leaves with the exit code for it; a bug stays a bug."""
    forget_written()
    try:
        yield
    except SteelyardError as error:
        tell(str(error))
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        tell(_interrupted(), style="yellow", mark="")
        raise typer.Exit(INTERRUPTED) from error
    except MemoryError as error:
        tell("the memory is full; close other programs, or give fewer or shorter recordings")
        raise typer.Exit(1) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read the output has seen enough; typer ends quietly
            raise
        tell(_describe(error))
        raise typer.Exit(1) from error


def _without_line_breaks(text: str) -> str:
    """Gives a docstring's paragraphs, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))


def _leave_types_of_switches_out(params: Iterable[Any]) -> None:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""


def run(app: typer.Typer) -> None:
    """Runs the command that the shell asks for, and leaves with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without "·" or "²" gets "?" rather than a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    code: int | str | None = 0
    with listen_once():
        try:
            app()
        except SystemExit as left:
            code = left.code
    code = _flush(code)
    if code == INTERRUPTED and is_left_running():
        # A call in C that goes on while the interpreter is taken down around it may crash.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(code)


def tell(words: str, *, style: str = "bold red", mark: str = "error: ") -> None:
    """Prints one line to standard error, whatever the words hold; a terminal gets it broken between words."""
    console = Console(stderr=True, soft_wrap=True)
    line = f"{mark}{' '.join(words.split())}"
    if console.is_terminal:
        line = wrap(line, console.width)
    console.print(line, style=style, markup=False, highlight=False)


def _in_words(names: list[str]) -> str:
    # The room of models takes a tenth of a second to load, in which Ctrl-C would find nobody to tell of it.
    from steelyard.model.names import in_words  # noqa: PLC0415

    return in_words(names)


def _interrupted() -> str:
    files = [str(path) for path in written()]
    return f"interrupted; {_in_words(files)} had been written" if files else "interrupted; nothing was written"


def _describe(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = f"{_in_words(where)}: " if where else ""
    return f"{place}{what}; check the path, its permissions and the room on the disk"


def _flush(code: int | str | None) -> int | str | None:
    """Gives the exit code, standard output being written to its end; where that fails, it is told, or nobody reads."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would be tried, and told with a traceback, again at the very end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            tell(f"standard output: {error.strerror}; send it elsewhere, or make room")
        return code or 1
    return code
