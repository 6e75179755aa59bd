"""The stretches of a recording that a motion can be made of: evenly sampled, without gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.recording.resampling import tolerated_silence, usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.model.parameters import FloatArray
    from steelyard.recording import Recording

    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

LONGEST_GAP = 0.05
"""Seconds over which a slower sensor's readings are joined by straight lines; nothing is put into longer gaps."""

_UNEVEN = 0.01
_SAME_RATE = 1e-3


def sample_rate(recording: Recording) -> float:
    """Gives how many rows a second an evenly sampled stretch has.

    Raises:
        MotionError: There are fewer than two rows.
    """
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    return (len(recording) - 1) / recording.duration


def even_stretches(recording: Recording) -> Iterator[Recording]:
    """Gives the stretches over which the clock has no gap, all on even times of one rate; nothing is read yet."""
    # A slow clock's own period is no gap.
    longest = max(LONGEST_GAP, tolerated_silence(recording.time))
    rate = usual_rate(recording.time)
    cuts = np.flatnonzero(np.diff(recording.time) > longest) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(recording)], strict=True):
        if stop - start > 1:
            stretch = recording.rows(int(start), int(stop))
            yield stretch if _is_even(stretch, rate) else stretch.resampled(rate)


def _is_even(recording: Recording, rate: float) -> bool:
    steps = np.diff(recording.time)
    even = np.all(np.abs(steps / np.median(steps) - 1.0) <= _UNEVEN)
    return bool(even) and abs(sample_rate(recording) / rate - 1.0) <= _SAME_RATE


def rows_around(recording: Recording) -> int:
    """Gives how many rows next to others must be looked at to know whether these lie in a gap."""
    return int(np.ceil(LONGEST_GAP * sample_rate(recording))) + 1


def find_runs(recording: Recording, columns: Sequence[str], rows: int) -> list[tuple[int, int]]:
    """Gives the runs of rows, first and behind the last, in which none of some columns has a gap.

    Such a row has a reading of each column, or lies between two that are no more than `LONGEST_GAP` apart.

    Args:
        recording: An evenly sampled stretch, in memory or not.
        columns: Names of the columns that are needed.
        rows: How many are in memory at once.
    """
    heard = np.empty(len(recording) + 2, dtype=np.bool_)
    heard[[0, -1]] = False
    around = rows_around(recording)
    chosen = recording.select(columns)
    for start in range(0, len(recording), rows):
        stop = min(len(recording), start + rows)
        first = max(0, start - around)
        window = chosen.rows(first, min(len(recording), stop + around)).loaded()
        heard[1 + start : 1 + stop] = _heard(window.time, window.values)[start - first : stop - first]
    edges = np.flatnonzero(np.diff(heard.astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _heard(time: FloatArray, columns: Mapping[str, FloatArray]) -> BoolArray:
    heard = np.ones(len(time), dtype=np.bool_)
    for values in columns.values():
        finite = np.isfinite(values)
        if finite.all():
            continue
        there = np.flatnonzero(finite)
        if len(there) == 0:
            heard[:] = False
            break
        heard[: there[0]] = False
        heard[there[-1] + 1 :] = False
        for before in np.flatnonzero(np.diff(time[there]) > LONGEST_GAP):
            heard[there[before] + 1 : there[before + 1]] = False
    return heard


def clean_parts(recording: Recording) -> list[Recording]:
    """Gives the parts of a recording in memory, each evenly sampled, in which neither clock nor columns have gaps."""
    return [
        even.rows(start, stop)
        for even in even_stretches(recording)
        for start, stop in find_runs(even, even.columns, len(even))
    ]


def filled(time: FloatArray, values: FloatArray) -> FloatArray:
    """Gives columns with the rows between a slower sensor's readings filled by straight lines, shape (n, k).

    Args:
        time: Seconds, shape (n,).
        values: Shape (n, k); a row is a reading where all its numbers are finite.
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    result = np.empty_like(values)
    for number in range(values.shape[1]):
        there = np.flatnonzero(finite[:, number])
        result[:, number] = np.interp(time, time[there], values[there, number]) if len(there) else np.nan
    return result
