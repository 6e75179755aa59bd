"""Tables of a TOML file with typed values; errors say which table they are in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray

Built = TypeVar("Built")


class TomlTable:
    """A TOML table with typed values that refuses unknown keys; its errors name the table."""

    def __init__(self, contents: Any, where: str, path: Path | None) -> None:
        self.where = where
        self.path = path
        if not isinstance(contents, dict):
            raise self.error(f"must be a table, not {contents!r}")
        self.contents = contents
        self.read_keys: list[str] = []

    def error(self, message: str, *names: str) -> ModelError:
        """Return the error to raise, with the name of the table in front."""
        return ModelError(f"in {self.where}: {message}", path=self.path, names=names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def finish(self) -> None:
        """Refuse keys that were never read.

        Raises:
            ModelError: There is one.
        """
        for key in self.contents:
            if key not in self.read_keys:
                raise self.error(f"unknown key {key!r}{did_you_mean(key, self.read_keys)}", key)

    def parse(self, build: Callable[[TomlTable], Built]) -> Built:
        """Return what `build` makes of this table, and refuse keys that it did not read."""
        built = build(self)
        self.finish()
        return built

    def table(self, key: str) -> TomlTable:
        """Return the table under a key, empty where there is none."""
        self.read_keys.append(key)
        outer = self.where.strip("[]") + "." if self.where.startswith("[") else ""
        return TomlTable(self.contents.get(key, {}), f"[{outer}{key}]", self.path)

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables of an array ``[[key]]``."""
        self.read_keys.append(key)
        entries = self.contents.get(key, [])
        if not isinstance(entries, list):
            raise self.error(f"write [[{key}]] with two brackets: there may be several", key)
        return [
            TomlTable(entry, f"[[{key}]] number {number}", self.path) for number, entry in enumerate(entries, start=1)
        ]

    def value(self, key: str, default: Any, what: str) -> Any:
        """Return the value of a key of any type; `default` if it is missing, unless that is `...`."""
        self.read_keys.append(key)
        if key in self.contents:
            return self.contents[key]
        if default is ...:
            near = [given for given in self.contents if given not in self.read_keys and did_you_mean(key, [given])]
            raise self.error(
                f"{key!r} is missing; write {what}" + "".join(f" (you wrote {x!r})" for x in near[:1]), key
            )
        return default

    def text(self, key: str, default: Any = ...) -> Any:
        """Return a text that is not empty."""
        value = self.value(key, default, "a text")
        if value is not default and (not isinstance(value, str) or not value):
            raise self.error(f"{key!r} is {value!r}; write a text", key)
        return value

    def texts(self, key: str, default: Sequence[str]) -> tuple[str, ...]:
        """Return a list of texts; "all" is the pattern that matches everything."""
        value = self.value(key, default, "a list of names")
        if value == "all":
            return ("*",)
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            raise self.error(f'{key!r} is {value!r}; write a list of names, or "all"', key)
        return tuple(value)

    def choice(self, key: str, choices: Sequence[str], default: str | None) -> Any:
        """Return one of `choices`."""
        value = self.value(key, default, " or ".join(choices))
        if value is not None and value not in choices:
            raise self.error(f"{key!r} is {value!r}; write {' or '.join(map(repr, choices))}", key)
        return value

    def number(self, key: str, default: Any = ...) -> float:
        """Return a finite number."""
        value = self.value(key, default, "a number")
        try:
            number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"{key!r} is {str(value)[:40]!r}; write a number", key)
        return number

    def position(self, key: str) -> float | tuple[float, ...]:
        """Return a joint's position: a number, or a quaternion."""
        if isinstance(self.contents[key], list):
            values = self.array(key, (4,), "a number, or a quaternion [x, y, z, w] for a ball joint")
            return tuple(float(value) for value in values)
        return self.number(key)

    def array(self, key: str, shape: tuple[int, ...], what: str, default: Any = ...) -> FloatArray:
        """Return an array of finite numbers; −1 in the shape stands for any length."""
        value = self.value(key, default, what)
        try:
            as_written = np.asarray(value)
            array = as_written.astype(np.float64) if as_written.dtype.kind in "if" else np.empty(0)
        except (ValueError, TypeError):
            array = np.empty(0)
        fits = array.ndim == len(shape) and all(
            want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits or not np.all(np.isfinite(array)):
            raise self.error(f"{key!r} must be {what}", key)
        array.setflags(write=False)
        return array

    def box(self, key: str) -> FloatArray:
        """Return a box, shape (2, 3): least and greatest corner."""
        box = self.array(key, (2, 3), "a box [[x, y, z], [x, y, z]]: least and greatest corner")
        if not np.all(box[0] < box[1]):
            raise self.error(f"the box of {key!r} is empty: every number of the first corner must be the smaller", key)
        return box

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return pairs of patterns with the same number of ``*``."""
        value = self.value(key, ..., 'pairs of patterns like ["left_*", "right_*"]')
        pairs = []
        for pair in value if isinstance(value, list) else [value]:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)):
                raise self.error(f'{key!r} holds {pair!r}; write pairs of patterns like ["left_*", "right_*"]', key)
            left, right = pair
            if left.count("*") != right.count("*"):
                raise self.error(f"the patterns {left!r} and {right!r} must have the same number of '*'", left, right)
            pairs.append((left, right))
        return tuple(pairs)
