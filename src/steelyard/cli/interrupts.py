"""Ctrl-C: it ends a command once, never in the middle of putting files in place, and what was written is known."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")

_WRITTEN: ContextVar[tuple[Path, ...]] = ContextVar("written", default=())
_WORK = "steelyard work"
_LOOK = 0.1
"""Seconds between two looks at whether the work is done, or Ctrl-C was pressed."""


@contextmanager
def listen_once() -> Iterator[None]:
    """Lets the first Ctrl-C raise KeyboardInterrupt, and the next ones nothing: tidying up is not interrupted."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    # What nobody may interrupt (nohup, a background job of a shell) stays so.
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Keeps Ctrl-C waiting until the end of the block, where it then has its effect."""
    if not _in_main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting and callable(before):
            before(*waiting[0])


def run_aside(work: Callable[[], Result]) -> Result:
    """Gives what `work` gives; it runs in a thread of its own, so that Ctrl-C need not wait for a long call in C."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again below, whatever it is)
            failure.append(error)

    thread = threading.Thread(target=run, name=_WORK, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK)
    if failure:
        raise failure[0]
    return outcome[0]


def is_left_running() -> bool:
    """Tells whether work goes on in a thread of its own although nobody waits for it any more."""
    return any(thread.name == _WORK for thread in threading.enumerate())


def forget_written() -> None:
    """Begins a command: nothing is written yet."""
    _WRITTEN.set(())


def remember_written(paths: Iterable[Path]) -> None:
    """Says that these files are in place; an interrupt from now on tells so."""
    _WRITTEN.set((*_WRITTEN.get(), *paths))


def written() -> tuple[Path, ...]:
    """Gives the files that this command has put in place so far."""
    return _WRITTEN.get()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
