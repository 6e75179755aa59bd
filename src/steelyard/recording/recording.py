"""The Recording: a frozen table of named columns over time, as it was measured."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model.parameters import FloatArray


@dataclass(frozen=True, eq=False)
class Recording:
    """A table of measurements on one clock.

    Attributes:
        time: Increasing seconds, shape (n,).
        values: Columns by name, each of shape (n,), SI units; not a number where there is no measurement.
        name: Where it came from.
    """

    time: FloatArray
    values: Mapping[str, FloatArray]
    name: str = "recording"

    def __post_init__(self) -> None:
        time = _frozen("time", self.time)
        if time.ndim != 1 or len(time) == 0 or not np.all(np.isfinite(time)):
            raise RecordingError(f"{self.name}: time must be one row of finite seconds", column="time")
        back = np.flatnonzero(np.diff(time) <= 0.0)
        if len(back):
            raise RecordingError(
                f"{self.name}: time does not increase after {time[back[0]]:.4f} s (row {back[0]}); sort the rows and "
                "drop repeated ones",
                column="time",
            )
        if not hasattr(self.values, "items"):
            raise RecordingError(f"{self.name}: the values must be columns by name, not {type(self.values).__name__}")
        columns = {}
        for name, column in self.values.items():
            columns[name] = _frozen(name, column)
            if columns[name].shape != time.shape:
                raise RecordingError(
                    f"{self.name}: the column {name!r} has the shape {columns[name].shape}, time has {time.shape}",
                    column=name,
                )
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "values", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.values)

    def column(self, name: str) -> FloatArray:
        """Gives a column, shape (n,); not a number where nothing was measured.

        Raises:
            RecordingError: There is no such column; the nearest name is offered.
        """
        try:
            return self.values[name]
        except KeyError:
            raise RecordingError(
                f"{self.name} has no column {name!r}{did_you_mean(name, self.columns)}", column=name
            ) from None

    def measured(self, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Gives the mask of a column: whether there is a measurement, shape (n,)."""
        return np.isfinite(self.column(name))

    def between(self, start: float, end: float) -> Recording:
        """Gives the rows from `start` to before `end`, in seconds.

        Raises:
            RecordingError: There are none.
        """
        first, last = np.searchsorted(self.time, [start, end])
        if last <= first:
            raise RecordingError(
                f"{self.name} has no rows between {start:g} s and {end:g} s; it lasts from {self.time[0]:g} s to "
                f"{self.time[-1]:g} s",
                column="time",
            )
        part = slice(int(first), int(last))
        return Recording(self.time[part], {name: values[part] for name, values in self.values.items()}, self.name)

    @cached_property
    def sha256(self) -> str:
        """Hash of all of it: two recordings with equal hashes have the same bytes."""
        digest = hashlib.sha256(self.time.tobytes())
        for name, values in self.values.items():
            digest.update(name.encode())
            digest.update(values.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        span = self.time[-1] - self.time[0]
        return f"<Recording {self.name}: {len(self)} rows, {len(self.values)} columns, {span:.2f} s>"


def _frozen(name: str, values: Any) -> FloatArray:
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RecordingError(f"the column {name!r} is not an array of numbers", column=name) from error
    if array.flags.writeable:
        array = array.copy() if array is values else array
        array.setflags(write=False)
    return array
