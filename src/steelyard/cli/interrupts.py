"""Ctrl-C handling: it ends a command once, never while files are being put in place, and reports what was written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")

_THREAD_NAME = "steelyard work"
_POLL_SECONDS = 0.1
"""Time between two checks for Ctrl-C while work runs in a thread. Set by judgement: short enough to feel immediate."""

written: list[Path] = []
"""Files that the running command has put in place; `exit_codes` clears it at the start of a command."""


@contextmanager
def interrupt_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C and ignore the next ones, so that they cannot interrupt clean-up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    # Where SIGINT is ignored already (nohup, a background job of a shell) it stays ignored.
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
    """Defer Ctrl-C to the end of the block."""
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


def run_in_threads(works: Mapping[str, Callable[[], Result]], *, at_once: int = 1) -> dict[str, Result]:
    """Run functions in daemon threads, so that Ctrl-C need not wait for a long call in C.

    Args:
        works: The functions, by name. After a failure no further one is started.
        at_once: How many run at the same time.

    Returns:
        Their results, by name.
    """
    turns, results, failures = threading.Semaphore(at_once), dict[str, Result](), list[BaseException]()

    def run(name: str) -> None:
        with turns:
            if failures:
                return
            try:
                results[name] = works[name]()
            except BaseException as error:  # noqa: BLE001  (raised again below, whatever it is)
                failures.append(error)

    threads = [threading.Thread(target=run, args=(name,), name=_THREAD_NAME, daemon=True) for name in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
    if failures:
        raise failures[0]
    return {name: results[name] for name in works}


def run_in_thread(work: Callable[[], Result]) -> Result:
    """Run one function as `run_in_threads` does, and return its result."""
    return run_in_threads({"": work})[""]


def is_work_running() -> bool:
    """Return whether a thread of `run_in_threads` is still at work, although nothing waits for it any more."""
    return any(thread.name == _THREAD_NAME for thread in threading.enumerate())


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
