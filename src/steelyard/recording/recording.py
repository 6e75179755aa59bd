"""The Recording: a frozen table of named columns over time, as measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.column_names import BASE, BASE_AXES, MARKER, parse_column
from steelyard.recording.columns import CHUNK_BYTES, JoinedColumns, LazyColumns, read_rows, select_columns, slice_rows
from steelyard.recording.identity import Identity, hash_columns, join_identities
from steelyard.recording.resampling import ResampledColumns, Stream, usual_rate
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.inspection import Inspection
    from steelyard.model import Model

_MOST_ROWS = 100_000_000
"""Rows that resampling makes at most: a mistyped rate should not fill the memory with times (800 MB of them here)."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A table of measurements on one clock. It may be larger than memory: its columns are then read on request.

    Attributes:
        time: Increasing seconds, shape (n,).
        values: Columns by name, each of shape (n,), SI units; not a number where there is no measurement.
        name: Where it came from, such as the file.
        epoch: The whole second since 1970 that `time` counts from; zero if the clock has another origin.
        notes: What was unusual when it was read, a sentence each.
        mapped: Whether the setup's map and delays were applied when it was read.
        identity: Which recording it is a part or a copy of; see `origin`.
    """

    time: FloatArray
    values: Mapping[str, FloatArray]
    name: str = "recording"
    epoch: int = 0
    notes: tuple[str, ...] = ()
    mapped: bool = False
    identity: Identity | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        time = _freeze("time", self.time)
        if time.ndim != 1 or len(time) == 0 or not np.all(np.isfinite(time)):
            raise RecordingError(f"{self.name}: time must be a one-dimensional array of finite seconds", column="time")
        back = np.flatnonzero(np.diff(time) <= 0.0)
        if len(back):
            raise RecordingError(
                f"{self.name}: time does not increase after {time[back[0]]:.4f} s (row {back[0]}); sort the rows and "
                "drop repeated ones",
                column="time",
            )
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "notes", tuple(self.notes))
        if not isinstance(self.values, Mapping):
            raise RecordingError(f"{self.name}: the values must be columns by name, not {type(self.values).__name__}")
        for name in self.values:
            if not isinstance(name, str):
                raise RecordingError(f"{self.name}: a column is called {name!r}; names must be text")
        if not isinstance(self.values, LazyColumns):
            columns = {name: _freeze(name, column) for name, column in self.values.items()}
            object.__setattr__(self, "values", MappingProxyType(columns))
            for name, column in columns.items():
                if column.shape != time.shape:
                    raise RecordingError(
                        f"{self.name}: the column {name!r} has the shape {column.shape}, time has {time.shape}",
                        column=name,
                    )
        elif self.values.row_count != len(time):
            raise RecordingError(
                f"{self.name}: the columns have {self.values.row_count} rows, time has {len(time)}", column="time"
            )
        if self.identity is None:
            # Of the columns, not of the recording: that would be a reference cycle, which keeps it in memory longer.
            object.__setattr__(self, "identity", Identity(partial(hash_columns, self.time, self.values)))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.values)

    @property
    def duration(self) -> float:
        """Seconds from the first row to the last."""
        return float(self.time[-1] - self.time[0])

    def column(self, name: str) -> FloatArray:
        """Return a column, shape (n,); not a number where there is no measurement.

        Raises:
            RecordingError: There is no such column; the message suggests the nearest name.
        """
        try:
            return self.values[name]
        except KeyError:
            near = did_you_mean(name, self.columns)
            other = f"{near} Other" if near.endswith("?") else f"{near}; other"
            raise RecordingError(
                f"{self.name} has no column {name!r}{other} names are mapped in the setup's [recording.columns]",
                column=name,
            ) from None

    def measured(self, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return whether a column has a measurement in each row, shape (n,)."""
        return np.isfinite(self.column(name))

    def between(self, start: float, end: float) -> Recording:
        """Return the rows from `start` to before `end`, in seconds.

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
        return self.rows(int(first), int(last))

    def rows(self, start: int, stop: int) -> Recording:
        """Return the rows from number `start` to before `stop`, without reading them."""
        return replace(self, time=self.time[start:stop], values=slice_rows(self.values, start, stop))

    def select(self, columns: Sequence[str]) -> Recording:
        """Return some of the columns, without reading them.

        Raises:
            RecordingError: There is no such column; the message suggests the nearest name.
        """
        for name in columns:
            if name not in self.values:
                self.column(name)
        return replace(self, values=select_columns(self.values, columns))

    def with_values(self, values: Mapping[str, FloatArray]) -> Recording:
        """Return a recording with other columns on the same clock.

        It keeps the `origin`, so the columns should describe the same instants, such as corrected readings. Columns of
        another motion belong in a new Recording, or validation takes them for data that identification has used.

        Args:
            values: All columns, by name; any other is left out.
        """
        return replace(self, values=values)

    def loaded(self) -> Recording:
        """Load the recording into memory."""
        return next(self.chunks(len(self)))

    def chunks(self, rows: int | None = None) -> Iterator[Recording]:
        """Yield the recording in chunks, each in memory.

        Args:
            rows: Rows of a chunk at most; by default as many as make 16 MB.
        """
        size = rows if rows is not None else max(1, CHUNK_BYTES // (8 * max(1, len(self.values))))
        if size < 1:
            raise RecordingError(f"{self.name}: a chunk of {rows} rows holds nothing; ask for at least one")
        for start in range(0, len(self), size):
            stop = min(len(self), start + size)
            part = read_rows(self.values, self.columns, start, stop)
            for values in part.values():
                # Nobody else holds them: the next Recording takes them over without a copy.
                values.setflags(write=False)
            yield replace(self, time=self.time[start:stop], values=part)

    def without_delays(self, delays: Mapping[str, float]) -> Recording:
        """Return the recording with the delays of some sensors removed.

        A reading that is late by d belongs to the instant d before it: the sensor's columns are shifted there, and
        interpolated linearly at the rows. Rows at the ends or next to gaps, for which there is no reading, are not a
        number.

        Args:
            delays: Seconds by which readings are late, by sensor (``"left_foot"``).

        Raises:
            RecordingError: A sensor has no columns.
        """
        moved: list[Stream] = []
        for sensor, delay in delays.items():
            names = [name for name in self.columns if sensor_of(name) == sensor]
            if not names:
                known = filter(None, map(sensor_of, self.columns))
                raise RecordingError(f"{self.name} has no columns of {sensor!r}{did_you_mean(sensor, known)}")
            if not np.isfinite(delay):
                raise RecordingError(f"{self.name}: the delay of {sensor!r} is {delay!r}; give seconds")
            if delay != 0.0:
                moved.append(Stream(sensor, self.time - delay, select_columns(self.values, names)))
        if not moved:
            return self
        late = {name for stream in moved for name in stream.columns}
        others = [name for name in self.columns if name not in late]
        unmoved = Stream(self.name, self.time, select_columns(self.values, others))
        resampled = ResampledColumns(self.time, [unmoved, *moved])
        lazy = isinstance(self.values, LazyColumns)
        values = select_columns(resampled, self.columns) if lazy else resampled.read(self.columns, 0, len(self))
        return replace(self, values=values)

    def resampled(self, rate: float | None = None) -> Recording:
        """Return the recording on a uniform time grid, interpolated linearly; gaps stay empty.

        Args:
            rate: Sample rate in Hz; by default the usual one of the recording.

        Raises:
            RecordingError: The rate is not positive, or there would be more than 100 million rows.
        """
        chosen = rate if rate is not None else usual_rate(self.time)
        if not (np.isfinite(chosen) and chosen > 0.0):
            raise RecordingError(f"{self.name} cannot be resampled at {chosen!r} Hz; give a positive rate")
        if self.duration * chosen > _MOST_ROWS:
            raise RecordingError(
                f"{self.name}: {self.duration:g} s at {chosen:g} Hz are more than {_MOST_ROWS} rows; give a lower "
                "rate, or cut the recording with between()"
            )
        count = int(np.floor(self.duration * chosen * (1.0 + 1e-12) + 1e-6)) + 1
        time = self.time[0] + np.arange(count) / chosen
        resampled = ResampledColumns(time, [Stream(self.name, self.time, self.values)])
        return replace(self, time=time, values=resampled if isinstance(self.values, LazyColumns) else resampled.load())

    def write(self, path: str | Path) -> None:
        """Write the recording; the ending sets the format: .csv, .parquet, .npz, .h5, .mcap, .bag, none for ROS 2.

        Raises:
            RecordingError: The ending is unknown, or the file cannot be written; an existing file is then unchanged.
        """
        # The formats import this module.
        from steelyard.recording.writing import write_recording  # noqa: PLC0415

        write_recording(self, path)

    def inspect(self, model: Model | None = None) -> Inspection:
        """Check the recording for faults; see `inspect_recording`."""
        # Inspection imports motion and regression, which import recordings.
        from steelyard.inspection import inspect_recording  # noqa: PLC0415

        return inspect_recording(self, model)

    @property
    def memory_size(self) -> int:
        """Bytes of its columns in memory; none of those that are read on request."""
        if isinstance(self.values, LazyColumns):
            return 0
        return sum(column.nbytes for column in self.values.values())

    @cached_property
    def sha256(self) -> str:
        """Hash of time, names and values: recordings with equal hashes have the same content."""
        return hash_columns(self.time, self.values)

    @property
    def origin(self) -> str:
        """Hash of its source, shared by all parts and copies of it, resampled or with other columns.

        For a file (or the folder of a bag) it is the sha256 of the content, for columns in memory that of time and
        values. Files that Steelyard writes state it; CSV files and ROS 1 bags cannot, nor can other bags whose first
        second is not that from which the recording's times count. Two recordings of one origin describe the same
        instants where their times are equal.
        """
        return self.identity.sha256 if self.identity is not None else self.sha256

    def __repr__(self) -> str:
        return f"<Recording {self.name}: {len(self)} rows, {len(self.values)} columns, {self.duration:.2f} s>"


def join_recordings(recordings: Sequence[Recording], *, gap: float | None = None) -> Recording:
    """Concatenate recordings into one; a column that one of them lacks is not a number there.

    Args:
        recordings: In order of time.
        gap: Seconds between the end of each and the start of the next, whose own clock is then ignored; by default the
            clocks are used, as for a recording that was split into files.

    Raises:
        RecordingError: There are none, one begins before the previous one ends, or only some count from 1970.
    """
    if not recordings:
        raise RecordingError("there are no recordings to join")
    if gap is not None and not (np.isfinite(gap) and gap > 0.0):
        raise RecordingError(f"the gap between recordings is {gap!r}; give a positive number of seconds")
    first = recordings[0]
    other = next((each for each in recordings if bool(each.epoch) != bool(first.epoch)), None)
    if gap is None and other is not None:
        since, not_since = (first, other) if first.epoch else (other, first)
        raise RecordingError(
            f"the clock of {since.name} counts from 1970, that of {not_since.name} does not; give gap= to ignore their "
            "clocks",
            column="time",
        )
    times: list[FloatArray] = []
    for recording in recordings:
        if gap is not None and times:
            times.append(recording.time - recording.time[0] + times[-1][-1] + gap)
            continue
        time = recording.time + float(recording.epoch - first.epoch)
        if times and time[0] <= times[-1][-1]:
            raise RecordingError(
                f"{recording.name} begins at {time[0]:.3f} s, before the previous recording ends at "
                f"{times[-1][-1]:.3f} s; sort them by time, or give gap= to ignore their clocks",
                column="time",
            )
        times.append(time)
    joined = JoinedColumns([each.values for each in recordings], [len(each) for each in recordings])
    lazy = any(isinstance(each.values, LazyColumns) for each in recordings)
    return Recording(
        np.concatenate(times),
        joined if lazy else joined.load(),
        in_words([each.name for each in recordings]),
        first.epoch,
        tuple(dict.fromkeys(note for each in recordings for note in each.notes)),
        any(each.mapped for each in recordings),
        join_identities([each.identity for each in recordings if each.identity is not None], same_clock=gap is None),
    )


def sensor_of(column: str) -> str | None:
    """Return the sensor that a column belongs to; None for columns of joints, markers and the base's pose."""
    parts = parse_column(column)
    if (
        parts is None
        or parts.is_of_joint
        or parts.quantity == MARKER
        or (parts.owner == BASE and parts.quantity in BASE_AXES)
    ):
        return None
    return parts.owner


def _freeze(name: str, values: Any) -> FloatArray:
    """Return numbers that nobody can change: a copy, unless they are read-only already, as our own columns are."""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise RecordingError(f"the column {name!r} holds complex numbers; give real ones", column=name)
        array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordingError(f"the column {name!r} is not an array of numbers", column=name) from error
    if not _is_frozen(array):
        fresh = isinstance(values, list | tuple) or array.dtype != given.dtype
        array = array if fresh else array.copy()
        array.setflags(write=False)
    return array


def _is_frozen(array: Any) -> bool:
    """Return whether an array is read-only, and so are all arrays that it is a view of."""
    while type(array) is np.ndarray and not array.flags.writeable:
        if array.base is None:
            return bool(array.flags.owndata)
        array = array.base
    return False
