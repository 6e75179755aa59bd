"""Compilation of kernels, with a cache that is rebuilt where it cannot be read."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The cache of one kernel, in files beside its source.

    numba unpickles the index of a cache before it compares the source's time stamp. The index names the classes of the
    kernel's arguments: where one of them was renamed or moved since, reading raises an error, until the file is removed
    by hand. Here the index is emptied, and the kernel is compiled again.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature; None where there is nothing, or nothing that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            self.flush()
            return None


def compile_kernel(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function with numba, without the GIL, and keeps the result in files.

    Args:
        **options: Further options of `numba.njit`.
    """
    compiler = njit(cache=True, nogil=True, error_model="numpy", **options)

    def compile_function(function: Any) -> Any:
        dispatcher = compiler(function)
        if isinstance(dispatcher, Dispatcher):  # not where NUMBA_DISABLE_JIT is set
            dispatcher._cache = KernelCache(function)  # type: ignore[attr-defined]  # numba has no option for it
        return dispatcher

    return compile_function
