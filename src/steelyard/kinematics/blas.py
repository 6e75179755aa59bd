"""A guard that limits BLAS to one thread, for work that is parallel over chunks or shares its machine."""

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
    """Count of the callers that need a single BLAS thread, and the limits to restore after the last one."""

    lock: threading.Lock
    users: int = 0
    limits: Any = None


_GUARD = _BlasGuard(threading.Lock())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: chunks are the parallel work, and threaded BLAS under load was seen 70 times slower."""
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
