"""A bounded cache that threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """The values that were used last, each computed once however many threads ask for it at the same time.

    Threads wait while another computes a value. A computation may use other caches, but not the one that it fills.

    Args:
        size: Greatest number of values; beyond it the one that was used longest ago is dropped.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, computed if it is not there; a failed computation stores nothing."""
        with self._lock:
            if key not in self._values:
                self._values[key] = compute()
                if len(self._values) > self._size:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]

    def __len__(self) -> int:
        return len(self._values)
