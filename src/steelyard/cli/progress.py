"""How far the work is, and how long it takes yet: on standard error, and only where somebody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_NAMES = 44
"""Characters of a task's description at most, so that it, a bar and the time left fit eighty columns."""


_LATER = 0.5
"""Share of the usual time by which work may take longer before nobody says any more that it is nearly there."""


class _TimeLeft(ProgressColumn):
    """The time that a task takes yet: as it went so far, or, where that is not known, as such work usually takes."""

    def render(self, task: Task) -> Text:
        usual = task.fields.get("usual")
        left = task.time_remaining
        if left is None and usual is not None:
            left = usual - (task.elapsed or 0.0)
        if left is None or left < -_LATER * (usual or 0.0):
            return Text(f"{task.elapsed or 0.0:.0f} s so far")
        return Text("nearly there" if left < 1.0 else _spoken(left))


def show_progress(*, quiet: bool = False) -> Progress:
    """Gives a progress bar with the time left, on standard error, gone when it is done; none where nobody looks."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        _TimeLeft(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )


@contextmanager
def show_usual(progress: Progress, words: str, seconds: float) -> Iterator[None]:
    """Shows work whose steps cannot be counted, with what is left of the time that it usually takes.

    Args:
        progress: Where.
        words: What is being done.
        seconds: How long that usually takes.
    """
    task = progress.add_task(shorten(words), total=None, usual=seconds)
    try:
        yield
    finally:
        progress.remove_task(task)


def shorten(words: str) -> str:
    """Gives words that leave room for a bar and the time beside them."""
    return words if len(words) <= _NAMES else f"{words[: _NAMES - 3]}..."


def _spoken(seconds: float) -> str:
    if seconds < 60.0:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60.0:.0f} min left" if seconds < 3600.0 else f"about {seconds / 3600.0:.1f} h left"
