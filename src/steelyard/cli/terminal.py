"""Words on a terminal: names from files stay on one line, and lines break between words."""

from __future__ import annotations

import textwrap
from pathlib import Path

from rich.console import Console
from rich.text import Text


def on_one_line(words: str) -> str:
    """Gives words without line breaks: names from files may hold anything."""
    return " ".join(words.split())


def wrap(words: str, width: int) -> str:
    """Gives words as lines of at most `width` characters, broken between words, all but the first two further in."""
    indent = " " * (len(words) - len(words.lstrip()) + 2)
    return "\n".join(
        textwrap.wrap(words, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def print_wrapped(console: Console, words: str, style: str) -> None:
    """Prints words as they are, their lines broken between words and indented by two."""
    console.print(Text(wrap(words, console.width), style=style), soft_wrap=True)


def print_finding(console: Console, mark: str, words: str, style: str = "") -> None:
    """Prints a finding after its mark: on one line, for other programs to read; on a terminal, broken between words."""
    text = f"{mark}{on_one_line(words)}"
    line = Text(wrap(text, console.width) if console.is_terminal else text)
    line.stylize(style, 0, len(mark))
    console.print(line, soft_wrap=True)


def tell_next(console: Console, output: Path | None, words: str = "") -> None:
    """Prints what to do next, or that nothing was kept.

    Args:
        console: Where.
        output: The folder that was written into, if any.
        words: What to do next; nothing where there is nothing to say.
    """
    if output is None:
        words = "nothing was written; -o DIR keeps it"
    if words:
        console.print(Text(words, style="dim"), soft_wrap=True)
