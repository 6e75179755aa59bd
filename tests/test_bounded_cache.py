"""A bounded cache computes each value once, drops what was used longest ago, and answers all threads alike."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from steelyard.bounded_cache import BoundedCache


def test_what_was_used_longest_ago_is_dropped():
    cache = BoundedCache[int](2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda: 1)
    assert len(cache) == 2
    assert cache.get("a", lambda: 2) == 1
    assert cache.get("b", lambda: 3) == 3


def test_a_failed_computation_stores_nothing():
    cache = BoundedCache[float](2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 1.0) == 1.0


def test_each_value_is_computed_once_whoever_asks():
    cache, computed = BoundedCache[list[int]](5), []

    def compute(key):
        computed.append(key)
        return [key]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: cache.get(number % 5, lambda: compute(number % 5)), range(400)))
    assert sorted(computed) == [0, 1, 2, 3, 4]
    assert all(value is found[number % 5] for number, value in enumerate(found))
