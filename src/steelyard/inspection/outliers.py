"""Outliers of a recording: glitches, held readings, spikes and ceilings of any channel, found and masked.

One pass over the recording finds them, block by block; a second one, over the few blocks that hold some, replaces
them: short runs by what the channel's own course predicts, long ones by nothing, which interrupts the motion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.inspection.ceilings import CeilingTally
from steelyard.inspection.entry_checks import ABSURD
from steelyard.inspection.glitches import LONGEST, Glitch, ReadingSeries, find_glitches
from steelyard.kinematics import without_jumps
from steelyard.motion import LONGEST_GAP
from steelyard.recording import PatchedColumns, parse_column, usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.inspection.glitches import Kind
    from steelyard.recording import Recording

_BLOCK = 16384
"""Rows of a block. Set by judgement: 33 s at 500 Hz, some 13 MB with a hundred columns."""

_CONTEXT = 0.6
"""Length (s) of the rows on both sides of a block that are read with it. Set by judgement: the longest glitch, as much
on both sides of it, and the bins of its noise."""

_SIDES = 3
"""Rows on each side of a run that are read to predict it, as a multiple of its own. Set by judgement: it is predicted
from twice as many, some of which may be masked."""

_CONTEXT_ROWS = 64
"""Least number of such rows, for slow clocks. Set by judgement."""

_SMOOTH = ("q", "position", "marker", "quat")
_ROUGH = ("v", "tau", "gyro", "accel", "wrench")
_LIMITED = ("gyro", "accel", "wrench")
"""Quantities that cannot jump, those that can, and those whose range ends in a ceiling. Commands may do anything."""

_LEAST_SIBLINGS = 2
"""Fewest other axes of a sensor that testify whether a jump was physical. Set by judgement: a force along one axis does
hardly move the others."""

_TESTIFIED = 4.0
"""Jump of such an axis, as a multiple of its noise, from which it testifies. Set by judgement: of six readings of five
axes with Gaussian noise, one in 500 has it by chance."""

_ALONE = 3
"""Longest spike in readings of a channel without such axes. Set by judgement: impacts last longer."""

_LARGE = 0.1
"""Least size of a longer spike, as a share of the channel's range. Set by judgement: a foot that rocks on its edge
moved the moment about one axis alone by 1 %, for 30 ms."""

_MOST_SHARE = 0.05
"""Share of a channel's readings that are glitches above which none is masked: the channel, not single readings, is then
unlike what is assumed. Set by judgement."""

LONGEST_PREDICTED = 0.7
"""Longest run (s) at a ceiling that is replaced by what the other sensors predict. Measured: forces clipped for 0.6 s
in all move masses by 0.1 standard errors (median), for 2 s in runs of up to 1.3 s by as much as without masking
(decision 20); longer runs interrupt the motion."""

_SHORT_CEILING = 10
"""Readings of a run at a ceiling below which it stays as it is. Set by judgement: noise takes single readings there,
which are right to a noise; what is left beside them would be too low on average."""

_STEP_MASKED = 0.6 * LONGEST_GAP
"""Time (s) on both sides of a step that is masked, so that the motion is interrupted there. Twice this is no short
dropout."""


@dataclass(frozen=True)
class Outlier:
    """Wrong readings of a channel.

    Attributes:
        column: Its name.
        kind: "jump": they leave the course of a position and come back; "spike": the same of another quantity; "zero":
            they are exactly zero; "held": they repeat the last right one; "clipped": they stay at a ceiling; "step":
            the channel changes its level, and stays there; "erratic": too many to tell which are wrong, none is masked.
        start: First row.
        stop: Row after the last.
        time: Time of the first row, s.
        count: Number of readings.
        size: Greatest deviation from the course beside them; of clipped ones, the ceiling.
    """

    column: str
    kind: Kind
    start: int
    stop: int
    time: float
    count: int
    size: float


def detect_outliers(recording: Recording) -> tuple[Outlier, ...]:
    """Find the outliers of a recording, by column and time.

    Args:
        recording: The recording, in memory or not.
    """
    names = [name for name in recording.columns if _quantity(name) in (*_SMOOTH, *_ROUGH)]
    if not names or len(recording) < 2:
        return ()
    chosen = recording.select(names)
    found: dict[str, list[Outlier]] = {name: [] for name in names}
    readings = dict.fromkeys(names, 0)
    ceilings = {name: CeilingTally() for name in names if _quantity(name) in _LIMITED}
    around = _context(recording)
    for start in range(0, len(recording), _BLOCK):
        stop = min(len(recording), start + _BLOCK)
        first = max(0, start - around)
        window = chosen.rows(first, min(len(recording), stop + around)).loaded()
        courses = dict(_courses(window))
        for name, (rows, course) in courses.items():
            own = (rows >= start - first) & (rows < stop - first)
            readings[name] += int(np.count_nonzero(own))
            if name in ceilings:
                ceilings[name].add(course.values[own], rows[own] + first)
        for name, glitch in _find_in(courses):
            rows, course = courses[name]
            begin = int(rows[glitch.start])
            if start <= begin + first < stop:
                end = int(rows[glitch.stop - 1]) + 1
                count = glitch.stop - glitch.start
                time = float(course.time[glitch.start])
                found[name].append(Outlier(name, glitch.kind, begin + first, end + first, time, count, glitch.size))
    result: list[Outlier] = []
    for name in names:
        own_outliers = _join_steps(recording, _limit(found[name], readings[name]))
        if name in ceilings:
            clipped = [
                Outlier(name, "clipped", first, stop, float(recording.time[first]), count, level)
                for first, stop, count, level in ceilings[name].finish()
            ]
            # Equal readings at a ceiling are not held.
            own_outliers = [each for each in own_outliers if each.kind != "held" or not _meets(each, clipped)]
            own_outliers += [each for each in clipped if not _meets(each, own_outliers)]
        result += sorted(own_outliers, key=lambda each: each.start)
    return tuple(result)


def _meets(outlier: Outlier, others: Sequence[Outlier]) -> bool:
    """Return whether an outlier has rows in common with others of its column."""
    return any(outlier.start < each.stop and each.start < outlier.stop for each in others)


def _limit(found: Sequence[Outlier], readings: int) -> list[Outlier]:
    """Return the outliers of a channel; where they are too many, a single one that stands for all."""
    wrong = [each for each in found if each.kind != "step"]
    count = sum(each.count for each in wrong)
    if not any(each.kind == "erratic" for each in wrong) and count <= _MOST_SHARE * readings:
        return list(found)
    size = max(each.size for each in wrong)
    return [replace(wrong[0], kind="erratic", stop=wrong[-1].stop, count=count, size=size)]


def mask_outliers(recording: Recording, outliers: Sequence[Outlier]) -> Recording:
    """Return the recording without outliers; its notes name them.

    A run of up to 0.1 s is replaced by a cubic through the readings beside it, one of up to 0.7 s at a ceiling by what
    the other sensors predict as well; a longer one, or one at a gap or at an end, becomes empty.

    Args:
        recording: The recording, in memory or not.
        outliers: As `detect_outliers` returns them.
    """
    if not outliers:
        return recording
    short = (each for each in outliers if each.kind == "clipped" and each.count < _SHORT_CEILING)
    kept = {*short, *(each for each in outliers if each.kind == "erratic")}
    wrong = [each for each in outliers if each not in kept]
    patches = {name: _patch(recording, list(own)) for name, own in groupby(wrong, key=lambda each: each.column)}
    values = PatchedColumns(recording.values, len(recording), patches)
    notes = (
        *recording.notes,
        *(words if first.kind == "erratic" else f"{words}: masked" for first, words in describe_outliers(outliers)),
    )
    return replace(recording, values=values.simplified(), notes=notes)


def describe_outliers(outliers: Sequence[Outlier]) -> list[tuple[Outlier, str]]:
    """Return a sentence for each column and kind, with the first of its outliers."""
    together: dict[tuple[str, Kind], list[Outlier]] = {}
    for each in outliers:
        together.setdefault((each.column, each.kind), []).append(each)
    return [(group[0], _describe(group)) for group in together.values()]


def _describe(group: Sequence[Outlier]) -> str:
    first = group[0]
    count = sum(each.count for each in group)
    size = max((abs(each.size) for each in group), default=0.0)
    readings = f"{count} reading{'s' if count > 1 else ''}"
    where = f"from {first.time:.3f} s on"
    if len(group) > 1:
        where = f"at {len(group)} places, the first {where}"
    if first.kind == "clipped":
        return f"{first.column} is clipped at {first.size:.4g} for {readings} {where}"
    if first.kind == "erratic":
        return f"{first.column} jumps by up to {size:.3g} all the time {where}; its readings are used as they are"
    if first.kind == "step":
        return f"{first.column} changes its level by {size:.3g} at {first.time:.3f} s, and stays there"
    if first.kind == "held":
        return f"{first.column} repeats its last reading for {readings} {where}, up to {size:.3g} off"
    if first.kind == "zero":
        return f"{first.column} reads exactly zero for {readings} {where}, up to {size:.3g} off"
    return f"{first.column} jumps by up to {size:.3g} and back for {readings} {where}"


def _quantity(name: str) -> str | None:
    parts = parse_column(name)
    return None if parts is None else parts.quantity


def _context(recording: Recording) -> int:
    return max(_CONTEXT_ROWS, int(np.ceil(_CONTEXT * usual_rate(recording.time))))


def _courses(window: Recording) -> Iterator[tuple[str, tuple[IntArray, ReadingSeries]]]:
    """Yield each column of a window with the rows of its readings; quaternions without changes of sign."""
    oriented = _aligned_quaternions(window)
    for name in window.columns:
        values = oriented.get(name, window.values[name])
        rows = np.flatnonzero(np.isfinite(values) & (np.abs(values) < ABSURD))
        if len(rows) > 1:
            yield name, (rows, ReadingSeries(window.time[rows], values[rows], _quantity(name) in _SMOOTH))


def _aligned_quaternions(window: Recording) -> dict[str, FloatArray]:
    result: dict[str, FloatArray] = {}
    for name in window.columns:
        stem, _, axis = name.rpartition(".")
        group = [f"{stem}.{each}" for each in "xyzw"]
        if axis == "w" and all(each in window.values for each in group):
            table = without_jumps(np.stack([window.values[each] for each in group], axis=1))
            result |= {each: table[:, number] for number, each in enumerate(group)}
    return result


def _find_in(courses: Mapping[str, tuple[IntArray, ReadingSeries]]) -> Iterator[tuple[str, Glitch]]:
    """Yield the glitches and steps of the columns of a window."""
    for name, (rows, course) in courses.items():
        for glitch in find_glitches(course, steps=_quantity(name) == "q"):
            if course.smooth or _is_electrical(name, rows, glitch, courses):
                yield name, glitch


def _is_electrical(
    name: str, rows: IntArray, glitch: Glitch, courses: Mapping[str, tuple[IntArray, ReadingSeries]]
) -> bool:
    """Return whether a spike of a force or acceleration is no impact: those move the other axes of the sensor too."""
    if glitch.kind != "spike":
        return True
    parts = parse_column(name)
    siblings = []
    for other, (theirs, course) in courses.items():
        each = parse_column(other)
        if other == name or parts is None or each is None or each.owner != parts.owner:
            continue
        if each.quantity in _LIMITED and parts.quantity in _LIMITED:
            siblings.append((theirs, course))
    if len(siblings) < _LEAST_SIBLINGS:
        return glitch.stop - glitch.start <= _ALONE
    if glitch.stop - glitch.start > _ALONE and glitch.size < _LARGE * courses[name][1].span:
        return False
    ends = rows[[glitch.start, min(glitch.stop, len(rows) - 1)]]
    return not any(_has_edge(theirs, course, int(row)) for theirs, course in siblings for row in ends)


def _has_edge(rows: IntArray, course: ReadingSeries, row: int) -> bool:
    """Return whether a channel jumps a little within a reading of a row."""
    place = int(np.searchsorted(rows, row))
    near = slice(max(0, place - 1), place + 2)
    return bool(np.any(np.abs(course.excess[near]) > _TESTIFIED * course.noise[near]))


def _join_steps(recording: Recording, found: Sequence[Outlier]) -> list[Outlier]:
    """Return outliers with two opposite steps as one jump, and others widened to interrupt the motion."""
    result = [each for each in found if each.kind != "step"]
    steps = [each for each in found if each.kind == "step"]
    number = 0
    while number < len(steps):
        step = steps[number]
        back = steps[number + 1] if number + 1 < len(steps) else None
        if back is not None and abs(step.size + back.size) < 0.2 * abs(step.size):
            if back.start - step.start < 0.5 * len(recording):
                count = back.start - step.start
                result.append(Outlier(step.column, "jump", step.start, back.start, step.time, count, abs(step.size)))
            number += 2
            continue
        low, high = np.searchsorted(recording.time, [step.time - _STEP_MASKED, step.time + _STEP_MASKED])
        result.append(replace(step, start=int(low), stop=int(high), count=int(high - low)))
        number += 1
    return sorted(result, key=lambda each: each.start)


def _patch(recording: Recording, outliers: Sequence[Outlier]) -> tuple[IntArray, FloatArray]:
    """Return the rows that are replaced in the column of some outliers, and what by."""
    rows: list[IntArray] = []
    values: list[FloatArray] = []
    for each in outliers:
        own = np.arange(each.start, each.stop)
        filled = np.full(len(own), np.nan)
        long = recording.time[each.stop - 1] - recording.time[each.start] > _longest(each.kind)
        bridged = None if long or each.kind == "step" else _bridge(recording, each, outliers)
        if bridged is not None:
            filled[bridged[0] - each.start] = bridged[1]
        rows.append(own)
        values.append(filled)
    return np.concatenate(rows), np.concatenate(values)


def _longest(kind: Kind) -> float:
    """Return the longest run (s) of a kind that is replaced."""
    return LONGEST_PREDICTED if kind == "clipped" else LONGEST


def _bridge(recording: Recording, outlier: Outlier, all_of_column: Sequence[Outlier]) -> Any:
    """Return the rows of an outlier's readings and their prediction; None where there is none."""
    name = outlier.column
    around = max(_context(recording), _SIDES * (outlier.stop - outlier.start))
    first, last = max(0, outlier.start - around), min(len(recording), outlier.stop + around)
    stem, _, axis = name.rpartition(".")
    wanted = [f"{stem}.{each}" for each in "xyzw"] if axis in "xyzw" and _quantity(name) == "quat" else [name]
    witnesses = _witnesses(recording, name) if outlier.kind == "clipped" else []
    there = [each for each in (*wanted, *witnesses) if each in recording.values]
    courses = dict(_courses(recording.rows(first, last).select(there).loaded()))
    if name not in courses:
        return None
    rows, course = courses[name]
    usable = np.ones(len(rows), dtype=np.bool_)
    for each in all_of_column:
        usable &= (rows + first < each.start) | (rows + first >= each.stop)
    start, stop = (int(row) for row in np.searchsorted(rows + first, [outlier.start, outlier.stop]))
    others = [np.interp(course.time, courses[each][1].time, courses[each][1].values) for each in witnesses
              if each in courses]  # fmt: skip
    bridged = course.bridge(start, stop, usable, np.stack(others, axis=1) if others else None)
    if bridged is None:
        return None
    values = bridged[0]
    if outlier.kind == "clipped":
        # What was cut off lay beyond the ceiling.
        beyond = np.maximum if outlier.size > float(np.median(course.values)) else np.minimum
        values = beyond(values, outlier.size)
    return rows[start:stop] + first, values


def _witnesses(recording: Recording, name: str) -> list[str]:
    """Return the channels that a clipped force is predicted from.

    These are the same axis of the other wrench sensors, which carry what this one does not, and the accelerometers.
    """
    axis = name.rpartition(".")[2]
    found = []
    for other in recording.columns:
        parts = parse_column(other)
        if parts is None or other == name or _quantity(name) != "wrench":
            continue
        if parts.quantity == "accel" or (parts.quantity == "wrench" and parts.axis == axis):
            found.append(other)
    return found
