"""The Recording: a frozen table of named columns over time, as it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.column_names import BASE, BASE_AXES, parse_column
from steelyard.recording.columns import (
    CHUNK_BYTES,
    JoinedColumns,
    LazyColumns,
    PartOfColumns,
    SelectedColumns,
    read_rows,
    select_columns,
)
from steelyard.recording.identity import Identity, hash_columns, joined_identity
from steelyard.recording.resampling import ResampledColumns, Stream, usual_rate
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.inspection import Inspection
    from steelyard.model import Model

MAPPED_MARK = "steelyard_mapped"
"""Key under which a file of Steelyard's says whether the recording in it was `mapped`."""

ORIGIN_MARK = "steelyard_origin"
"""Key under which a file of Steelyard's says which recording is in it; see `Recording.origin`."""

_MOST_ROWS = 100_000_000


@dataclass(frozen=True, eq=False)
class Recording:
    """A table of measurements on one clock. It may be larger than memory: its columns are then read when asked for.

    Attributes:
        time: Increasing seconds, shape (n,).
        values: Columns by name, each of shape (n,), SI units; not a number where there is no measurement.
        name: Where it came from.
        epoch: The whole second since 1970 that `time` counts from; zero where the clock is another.
        notes: What was noticed while it was read, a sentence each.
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
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "notes", tuple(self.notes))
        if not isinstance(self.values, Mapping):
            raise RecordingError(f"{self.name}: the values must be columns by name, not {type(self.values).__name__}")
        for name in self.values:
            if not isinstance(name, str):
                raise RecordingError(f"{self.name}: a column is called {name!r}; names must be text")
        if isinstance(self.values, LazyColumns):
            if self.values.row_count != len(time):
                raise RecordingError(
                    f"{self.name}: the columns have {self.values.row_count} rows, time has {len(time)}", column="time"
                )
            self._identify()
            return
        columns = {}
        for name, column in self.values.items():
            columns[name] = _frozen(name, column)
            if columns[name].shape != time.shape:
                raise RecordingError(
                    f"{self.name}: the column {name!r} has the shape {columns[name].shape}, time has {time.shape}",
                    column=name,
                )
        object.__setattr__(self, "values", MappingProxyType(columns))
        self._identify()

    def _identify(self) -> None:
        if self.identity is None:
            # Not of the recording itself, which would then wait for the collector of cycles.
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
        """Gives a column, shape (n,); not a number where nothing was measured.

        Raises:
            RecordingError: There is no such column; the nearest name is offered.
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
        return self.rows(int(first), int(last))

    def rows(self, start: int, stop: int) -> Recording:
        """Gives the rows from number `start` to before `stop`; nothing is read yet."""
        if isinstance(self.values, LazyColumns):
            return replace(self, time=self.time[start:stop], values=PartOfColumns(self.values, start, stop))
        return replace(
            self, time=self.time[start:stop], values={name: values[start:stop] for name, values in self.values.items()}
        )

    def select(self, columns: Sequence[str]) -> Recording:
        """Gives some of the columns; nothing is read yet.

        Raises:
            RecordingError: There is no such column; the nearest name is offered.
        """
        for name in columns:
            if name not in self.values:
                self.column(name)
        return replace(self, values=select_columns(self.values, columns))

    def with_values(self, values: Mapping[str, FloatArray]) -> Recording:
        """Gives a recording with other columns on the same clock.

        It keeps the `origin`: the columns should tell of the same instants, corrected say. Columns that tell of
        another motion belong into a new Recording, or it will be taken for data that were seen before.

        Args:
            values: All columns, by name; what is not among them is left out.
        """
        return replace(self, values=values)

    def loaded(self) -> Recording:
        """Gives the recording in memory."""
        return next(self.chunks(len(self)))

    def chunks(self, rows: int | None = None) -> Iterator[Recording]:
        """Gives the recording piece by piece, each in memory.

        Args:
            rows: Of each piece at most; by default as many as make 16 MB.
        """
        size = rows if rows is not None else max(1, CHUNK_BYTES // (8 * max(1, len(self.values))))
        if size < 1:
            raise RecordingError(f"{self.name}: a chunk of {rows} rows holds nothing; ask for at least one")
        for start in range(0, len(self), size):
            stop = min(len(self), start + size)
            yield replace(self, time=self.time[start:stop], values=_fresh(self.values, self.columns, start, stop))

    def without_delays(self, delays: Mapping[str, float]) -> Recording:
        """Gives the recording with the delays of some sensors taken out.

        A reading that comes late by d belongs to the instant d before it: the sensor's columns are moved there, and put
        on the rows by straight lines. Rows at the ends or next to gaps, for which there is no reading, are left empty.

        Args:
            delays: Seconds by which readings come late, by sensor (``"left_foot"``).

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
                moved.append(Stream(sensor, self.time - delay, SelectedColumns(self.values, names, len(self))))
        if not moved:
            return self
        late = {name for stream in moved for name in stream.columns}
        others = [name for name in self.columns if name not in late]
        streams = [Stream(self.name, self.time, SelectedColumns(self.values, others, len(self))), *moved]
        return self._with_columns(
            self.time, SelectedColumns(ResampledColumns(self.time, streams), self.columns, len(self))
        )

    def resampled(self, rate: float | None = None) -> Recording:
        """Gives the recording on evenly spaced times, by straight lines; gaps stay empty.

        Args:
            rate: Rows a second; by default the usual one of the recording.

        Raises:
            RecordingError: The rate is not positive, or there would be more than 100 million rows.
        """
        chosen = rate if rate is not None else usual_rate(self.time)
        if not (np.isfinite(chosen) and chosen > 0.0):
            raise RecordingError(f"{self.name} cannot be resampled at {chosen!r} rows a second; give a positive rate")
        if self.duration * chosen > _MOST_ROWS:
            raise RecordingError(
                f"{self.name}: {self.duration:g} s at {chosen:g} rows a second are more than {_MOST_ROWS} rows; give a "
                "smaller rate, or cut it with between()"
            )
        count = int(np.floor(self.duration * chosen * (1.0 + 1e-12) + 1e-6)) + 1
        time = self.time[0] + np.arange(count) / chosen
        return self._with_columns(time, ResampledColumns(time, [Stream(self.name, self.time, self.values)]))

    def _with_columns(self, time: FloatArray, columns: LazyColumns) -> Recording:
        """Gives the recording with other columns, in memory where this one is."""
        lazy = isinstance(self.values, LazyColumns)
        values = columns if lazy else columns.read(columns.names, 0, columns.row_count)
        return replace(self, time=time, values=values)

    def write(self, path: str | Path) -> None:
        """Writes the recording; the ending says how: .csv, .parquet, .npz, .h5, .mcap, .bag, or a folder for ROS 2.

        Raises:
            RecordingError: The ending is unknown, or the file cannot be written; what was there is then unchanged.
        """
        # The formats read Recordings, so that this module cannot know them while it is being imported.
        from steelyard.recording.writing import write_recording  # noqa: PLC0415

        write_recording(self, path)

    def inspect(self, model: Model | None = None) -> Inspection:
        """Gives what is good and what is wrong with the recording; see `inspect_recording`."""
        # The room of inspection knows motion and regression, which know recordings.
        from steelyard.inspection import inspect_recording  # noqa: PLC0415

        return inspect_recording(self, model)

    @cached_property
    def sha256(self) -> str:
        """Hash of all of it: two recordings with equal hashes have the same bytes."""
        return hash_columns(self.time, self.values)

    @property
    def origin(self) -> str:
        """Hash of what it came from, the same for all parts and copies of it, resampled or with other columns.

        Of a file (or the files of a bag's folder) it is the sha256 of the content, of columns in memory that of time
        and values. Files that Steelyard writes state it, and it is read from there; CSV files and ROS 1 bags cannot,
        nor can other bags whose first second is not that from which the recording's times count. Two recordings of one
        origin tell of the same instants where their times are the same.
        """
        return self.identity.sha256 if self.identity is not None else self.sha256

    def __repr__(self) -> str:
        return f"<Recording {self.name}: {len(self)} rows, {len(self.values)} columns, {self.duration:.2f} s>"


def join_recordings(recordings: Sequence[Recording], *, gap: float | None = None) -> Recording:
    """Gives recordings one after the other as one; a column that one of them lacks is empty there.

    Args:
        recordings: In order of time.
        gap: Seconds to leave between the end of each and the start of the next, whose own clock is then not looked at;
            by default the clocks count, as for a recording that was split into files.

    Raises:
        RecordingError: There are none, one begins before the last has ended, or some count from 1970 and some do not.
    """
    if not recordings:
        raise RecordingError("there are no recordings to put together")
    if gap is not None and not (np.isfinite(gap) and gap > 0.0):
        raise RecordingError(f"the gap between recordings is {gap!r}; give seconds, more than none")
    first = recordings[0]
    other = next((each for each in recordings if bool(each.epoch) != bool(first.epoch)), None)
    if gap is None and other is not None:
        since, not_since = (first, other) if first.epoch else (other, first)
        raise RecordingError(
            f"the clock of {since.name} counts from 1970, that of {not_since.name} does not; give gap= to set them one "
            "after the other",
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
                f"{recording.name} begins at {time[0]:.3f} s, before what it follows has ended at "
                f"{times[-1][-1]:.3f} s; put them in order, or give gap= to set them one after the other",
                column="time",
            )
        times.append(time)
    joined = JoinedColumns([each.values for each in recordings], [len(each) for each in recordings])
    lazy = any(isinstance(each.values, LazyColumns) for each in recordings)
    return Recording(
        np.concatenate(times),
        joined if lazy else joined.read(joined.names, 0, joined.row_count),
        in_words([each.name for each in recordings]),
        first.epoch,
        tuple(dict.fromkeys(note for each in recordings for note in each.notes)),
        any(each.mapped for each in recordings),
        joined_identity([each.identity for each in recordings if each.identity is not None], same_clock=gap is None),
    )


def sensor_of(column: str) -> str | None:
    """Gives the sensor that a column belongs to; None for those of joints, and of the base's pose."""
    parts = parse_column(column)
    if parts is None or parts.is_of_joint or (parts.owner == BASE and parts.quantity in BASE_AXES):
        return None
    return parts.owner


def _fresh(columns: Mapping[str, FloatArray], names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
    """Gives some rows of some columns, frozen as they are: nobody else holds them."""
    part = read_rows(columns, tuple(names), start, stop)
    for values in part.values():
        values.setflags(write=False)
    return part


def _frozen(name: str, values: Any) -> FloatArray:
    """Gives numbers that nobody can change: a copy, except of what is frozen already, such as our own columns."""
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
    """Tells whether nobody can write to an array: neither through it, nor through what it is a view of."""
    while type(array) is np.ndarray and not array.flags.writeable:
        if array.base is None:
            return bool(array.flags.owndata)
        array = array.base
    return False
