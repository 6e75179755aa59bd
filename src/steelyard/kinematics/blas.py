"""One BLAS thread where chunks are the parallel work, or where the machine is shared."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class _BlasGuard:
    """Keeps BLAS at one thread while anybody needs it so, and gives it back when the last one leaves."""

    lock: threading.Lock
    users: int = 0
    limits: Any = None


_GUARD = _BlasGuard(threading.Lock())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread: the chunks are the parallel work, and threaded BLAS under load was seen seventy times slower."""
    with _GUARD.lock:
        if _GUARD.users == 0:
            _GUARD.limits = threadpool_limits(limits=1, user_api="blas")
        _GUARD.users += 1
    try:
        yield
    finally:
        with _GUARD.lock:
            _GUARD.users -= 1
            if _GUARD.users == 0:
                _GUARD.limits.restore_original_limits()
