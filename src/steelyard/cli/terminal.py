"""Printing to a terminal: one line per finding for other programs, lines wrapped between words for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from steelyard.cli.shell_options import in_shell_words


def on_one_line(text: str) -> str:
    """Return a text without line breaks, which names from files may contain."""
    return " ".join(text.split())


def wrap(text: str, width: int) -> str:
    """Wrap a text between words to `width` columns; continuation lines are indented by two more than the first."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return "\n".join(
        textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def print_note(console: Console, text: str, style: str = "yellow") -> None:
    """Print a note of the library or of a command, wrapped to the width of the console."""
    console.print(Text(wrap(in_shell_words(text), console.width), style=style), soft_wrap=True)


def print_finding(console: Console, mark: str, text: str, style: str = "") -> None:
    """Print a finding after its mark: on one line for other programs, wrapped on a terminal."""
    line = f"{mark}{on_one_line(in_shell_words(text))}"
    shown = Text(wrap(line, console.width) if console.is_terminal else line)
    shown.stylize(style, 0, len(mark))
    console.print(shown, soft_wrap=True)


def print_summary(console: Console, summary: str) -> None:
    """Print a summary, wrapped already, between two empty lines."""
    console.print(Text(f"\n{summary}\n"), soft_wrap=True)


def print_files(console: Console, files: Iterable[Path], notes: Iterable[str] = ()) -> None:
    """Print which files were written, and notes on them."""
    for path in files:
        console.print(Text(f"written: {path}", style="green"), soft_wrap=True)
    for note in notes:
        print_note(console, f"  {note}")


def print_next_step(console: Console, step: str) -> None:
    """Print what to do next, in faint letters."""
    console.print(Text(step, style="dim"), soft_wrap=True)
