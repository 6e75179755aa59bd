"""Progress bars with the time left: on standard error, and only on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_DESCRIPTION_WIDTH = 44
"""Longest description of a task, in characters, so that it, a bar and the time left fit eighty columns."""

_OVERDUE = 0.5
"""Share of the expected time by which a task may overrun before the elapsed time is shown instead. Set by judgement:
expected times vary that much between computers."""


class _TimeLeft(ProgressColumn):
    """The time left: extrapolated from the progress, or else from how long such a task is expected to take."""

    def render(self, task: Task) -> Text:
        expected, elapsed, left = task.fields.get("expected"), task.elapsed or 0.0, task.time_remaining
        if left is None and expected is not None:
            left = expected - elapsed
        if left is None or left < -_OVERDUE * (expected or 0.0):
            return Text(f"{elapsed:.0f} s so far")
        if left < 1.0:
            return Text("nearly done")
        if left < 60.0:
            return Text(f"about {left:.0f} s left")
        return Text(f"about {left / 60.0:.0f} min left" if left < 3600.0 else f"about {left / 3600.0:.1f} h left")


def show_progress(*, quiet: bool = False) -> Progress:
    """Return a progress bar on standard error that disappears when done; hidden if quiet or not on a terminal."""
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
def show_task(progress: Progress, description: str, seconds: float) -> Iterator[None]:
    """Show a task whose steps cannot be counted while the block runs.

    Args:
        progress: The progress bar.
        description: What is being done.
        seconds: How long it is expected to take.
    """
    task = progress.add_task(shorten(description), total=None, expected=seconds)
    try:
        yield
    finally:
        progress.remove_task(task)


def shorten(description: str) -> str:
    """Shorten a description, so that a bar and the time left fit beside it."""
    width = _DESCRIPTION_WIDTH
    return description if len(description) <= width else f"{description[: width - 3]}..."
