"""Exit codes and the one line that explains each: 1 for bad data or files, 2 for a wrong call, 130 after Ctrl-C."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from steelyard.cli.interrupts import interrupt_once, is_work_running, written
from steelyard.cli.shell_options import in_shell_words
from steelyard.cli.terminal import on_one_line, wrap
from steelyard.exceptions import SteelyardError
from steelyard.wording import in_words

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells: 128 plus the number of the signal."""


@contextmanager
def set_exit_code() -> Iterator[None]:
    """Turn errors of the block into one printed line and an exit code; a bug keeps its traceback.

    Raises:
        typer.Exit: With 1 where the data, a file or the memory is at fault, with 130 after Ctrl-C.
    """
    written.clear()
    try:
        yield
    except SteelyardError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        print_error(_describe_interrupt(), style="yellow", mark="")
        raise typer.Exit(INTERRUPTED) from error
    except MemoryError as error:
        print_error("out of memory; close other programs, or give fewer or shorter recordings")
        raise typer.Exit(1) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of the output closed it; typer ends quietly
            raise
        print_error(_describe(error))
        raise typer.Exit(1) from error


def run(app: typer.Typer) -> None:
    """Run the command given in ``sys.argv``, and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without "·" or "²" gets "?" rather than a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    code: int | str | None = 0
    with interrupt_once():
        try:
            app()
        except SystemExit as left:
            code = left.code
    code = _flush(code)
    if code == INTERRUPTED and is_work_running():
        # Taking the interpreter down around a running call in C may crash.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(code)


def print_error(text: str, *, style: str = "bold red", mark: str = "error: ") -> None:
    """Print one line, in the words of the shell, to standard error; on a terminal it is wrapped between words."""
    console = Console(stderr=True, soft_wrap=True)
    line = on_one_line(f"{mark}{in_shell_words(text)}")
    console.print(
        wrap(line, console.width) if console.is_terminal else line, style=style, markup=False, highlight=False
    )


def _describe_interrupt() -> str:
    files = [str(path) for path in written]
    return f"interrupted; {in_words(files)} had been written" if files else "interrupted; nothing was written"


def _describe(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = [str(name) for name in (error.filename, error.filename2) if name is not None]
    prefix = f"{in_words(where)}: " if where else ""
    return f"{prefix}{what}; check the path, its permissions and the free space on the disk"


def _flush(code: int | str | None) -> int | str | None:
    """Return the exit code after flushing standard output; report a failure, unless the reader is gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter would try to flush the rest again on its way out, and print a traceback.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print_error(f"standard output: {error.strerror}; redirect it elsewhere, or free space on the disk")
        return code or 1
    return code
