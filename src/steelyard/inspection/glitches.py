"""Glitches of one channel: readings that leave its course within one sample and come back, or are held.

A channel is compared with itself: its steps with the median of the steps around them, and a run of suspect readings
with a cubic through the readings on both sides. Both are relative to the channel's own noise nearby, so that motion,
impacts and coarse encoders raise their own thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.arrays import BoolArray, FloatArray, IntArray

Kind = Literal["jump", "zero", "held", "spike", "step", "clipped", "erratic"]

LONGEST = 0.1
"""Longest glitch (s) that is found by its two edges. Set by judgement: a cubic through both sides predicts a joint's
motion over it; longer faults show as a step, a freeze or a constant channel."""

_LONGEST_SPIKE = 0.05
"""The same for forces and accelerations. Set by judgement: contacts that touch one axis alone last longer."""

_AROUND = 0.2
"""Length (s) of the bins in which the local noise is measured. Set by judgement: twice the longest glitch, so that its
edges are few among the readings."""

_FEWEST, _MOST = 12, 200
"""Fewest and most readings of such a bin. Set by judgement: a quantile of fewer is unreliable, more cost time."""

_QUANTILE, _GAUSSIAN = 0.8, 1.2816
"""Quantile of absolute values that measures the noise, and its value for Gaussian noise of unit variance. Set by
judgement: it holds while fewer than a fifth of the readings nearby are wrong, and follows motion better than a median.
"""

_EDGE = {True: 6.0, False: 10.0}
"""Multiple of the local noise of the steps above which a step is an edge, for smooth channels (positions) and rough
ones (forces, accelerations). Gaussian noise exceeds the first once in 10⁹ readings; the second leaves room for
impacts, which are told from glitches by the other axes of the sensor."""

_LEAST_SMOOTH, _LEAST_ROUGH = 1e-6, 3e-3
"""Least noise of a position, rad or m, and of other quantities as a share of the channel's range (from its 1 % to its
99 % quantile). Set by judgement: smaller glitches change no estimate; contacts in a laboratory without noise are as
small."""

_OFF = 5.0
"""Deviation of suspect readings from the cubic, as a multiple of its residual on both sides, from which they are wrong.
Set by judgement: chance in one of 10⁶ suspects."""

_OFF_REPEATED = 2.0
"""The same for a run of equal readings that is longer than chance: the run itself is evidence. Set by judgement."""

_SUDDEN = 0.3
"""Least share of the deviation that is reached within one step. Set by judgement: a glitch of constant or random size
has more, fast motion spreads over many steps."""

_STEP_NOISE = 1.9
"""Standard deviation of a step less the median of its neighbours, for white noise of unit variance in the readings
(computed from 10⁶ Gaussian numbers)."""

_BRIEF = 3
"""Readings on either side of a run whose mean is compared with it first. Set by judgement."""

_CHANCE = 1e-3
"""Expected number of longer runs of equal readings in a window, by chance. Set by judgement."""

_NO_CHANCE = 1e-5
"""The same for runs that deviate by less than noise, which only their length gives away. Set by judgement."""

_REPEATING = 0.5
"""Share of repeated readings from which a channel is held, or coarse: only its changes are then readings. Set by
judgement."""

_MOST_EDGES = 0.05
"""Share of readings that are edges from which a channel counts as discontinuous by nature. Set by judgement."""

_GAP = 2.5
"""Usual periods from which a step between readings is a gap, across which nothing is compared, as in resampling."""

_BESIDE = 0.02
"""Least length (s) of the readings on each side through which the cubic is fitted. Set by judgement: ten readings at
500 Hz average the noise."""

_BESIDE_OTHERS = 0.2
"""The same where other channels predict it too. Measured on forces that were clipped for 0.2 s: masses move by 0.02 to
0.09 standard errors; with a cubic alone by up to 0.8 (decision 20)."""


@dataclass(frozen=True)
class Glitch:
    """Wrong readings of a channel, by number: from `start` to before `stop`; `size` is their greatest deviation."""

    start: int
    stop: int
    kind: Kind
    size: float


@dataclass(frozen=True, eq=False)
class ReadingSeries:
    """Readings of a channel over time, without empty ones.

    Attributes:
        time: Seconds, shape (n,).
        values: Readings, shape (n,).
        smooth: Whether it is a position, which cannot jump; else a force or an acceleration, which has impacts.
    """

    time: FloatArray
    values: FloatArray
    smooth: bool

    @cached_property
    def period(self) -> float:
        """Usual period, s."""
        return float(np.median(np.diff(self.time)))

    @cached_property
    def steps(self) -> FloatArray:
        """Differences of consecutive readings, shape (n,), the first zero."""
        return np.diff(self.values, prepend=self.values[:1])

    @cached_property
    def gaps(self) -> BoolArray:
        """Whether a gap lies before each reading, shape (n,)."""
        return np.asarray(np.diff(self.time, prepend=self.time[:1]) > _GAP * self.period)

    @cached_property
    def excess(self) -> FloatArray:
        """Each step less the mean of the middle two of the four around it, shape (n,)."""
        steps = self.steps
        padded = np.pad(steps[1:], 2, mode="edge")
        count = len(steps) - 1
        around = np.stack([padded[lag : lag + count] for lag in (0, 1, 3, 4)])
        middle = 0.5 * (around.sum(axis=0) - around.max(axis=0) - around.min(axis=0))
        result = np.concatenate([[0.0], steps[1:] - middle])
        near_gap = np.convolve(self.gaps, np.ones(5), mode="same") > 0.0
        result[near_gap] = 0.0
        return result

    @cached_property
    def resolution(self) -> float:
        """Smallest change between readings."""
        sizes = np.abs(self.steps[1:])
        moved = sizes[sizes > 0.0]
        return float(np.min(moved)) if len(moved) else 0.0

    @cached_property
    def span(self) -> float:
        """Range from the 1 % to the 99 % quantile."""
        ends = [len(self.values) // 100, len(self.values) - 1 - len(self.values) // 100]
        low, high = np.partition(self.values, ends)[ends]
        return float(high - low)

    @cached_property
    def noise(self) -> FloatArray:
        """Local standard deviation of `excess`, at least its usual one, shape (n,)."""
        sizes = np.abs(self.excess)
        width = int(np.clip(round(_AROUND / self.period), _FEWEST, _MOST))
        count = max(1, len(sizes) // width)
        width = len(sizes) // count
        place = int(_QUANTILE * width)
        bins = np.partition(sizes[: count * width].reshape(count, width), place, axis=1)[:, place]
        padded = np.pad(bins, 1, mode="edge")
        local = np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])
        usual = float(np.median(bins))
        least = _LEAST_SMOOTH if self.smooth else _LEAST_ROUGH * self.span
        floor = max(usual / _GAUSSIAN, 0.5 * self.resolution, least)
        return np.maximum(
            np.pad(np.repeat(local, width), (0, len(sizes) - count * width), mode="edge") / _GAUSSIAN, floor
        )

    @cached_property
    def edges(self) -> BoolArray:
        """Whether the channel jumps before each reading, shape (n,)."""
        return np.asarray(np.abs(self.excess) > _EDGE[self.smooth] * self.noise)

    def beside(self, start: int, stop: int, length: int, usable: BoolArray | None = None) -> tuple[IntArray, IntArray]:
        """Return the numbers of the readings before and after a run, up to the next gap."""
        first, last = max(0, start - length), min(len(self.values), stop + length)
        before, after = np.arange(first, start), np.arange(stop, last)
        left = np.flatnonzero(self.gaps[first + 1 : start + 1])
        if len(left):
            before = before[left[-1] + 1 :]
        right = np.flatnonzero(self.gaps[stop : stop + length])
        if len(right):
            after = after[: right[0]]
        if usable is not None:
            before, after = before[usable[before]], after[usable[after]]
        return before, after

    def bridge(
        self, start: int, stop: int, usable: BoolArray | None = None, others: FloatArray | None = None
    ) -> tuple[FloatArray, float] | None:
        """Predict a run of readings by a cubic through those on both sides.

        Args:
            start: First reading of the run.
            stop: The one after its last.
            usable: Which readings may be used, shape (n,); by default all.
            others: Other channels at the same times, which the readings are a linear function of beside the cubic,
                shape (n, k).

        Returns:
            The prediction, shape (stop - start,), and the standard deviation of the residual on both sides; None where
            a side has too few readings.
        """
        if np.any(self.gaps[start : stop + 1]):
            return None
        least = _BESIDE if others is None else _BESIDE_OTHERS
        length = max(6, (stop - start) * (1 if others is None else 2), int(np.ceil(least / self.period)))
        before, after = self.beside(start, stop, length, usable)
        if min(len(before), len(after)) < _LEAST_BESIDE:
            return None
        known = np.concatenate([before, after])
        centre, span = 0.5 * (self.time[start] + self.time[stop - 1]), self.time[known[-1]] - self.time[known[0]]
        wanted = np.concatenate([known, np.arange(start, stop)])
        table = np.vander((self.time[wanted] - centre) / span, 4)
        if others is not None:
            table = np.hstack([table, others[wanted] - others[known].mean(axis=0)])
        mean = float(np.mean(self.values[known]))
        coefficients = np.linalg.lstsq(table[: len(known)], self.values[known] - mean, rcond=None)[0]
        predicted = mean + table @ coefficients
        residual = self.values[known] - predicted[: len(known)]
        freedom = max(1, len(known) - table.shape[1])
        return predicted[len(known) :], float(np.sqrt(residual @ residual / freedom))


_EDGE_READINGS = 8
"""Readings on each side of an edge, at least, from which its height is found. Set by judgement: a line and its
residual."""

_STEP = 15.0
"""Height of a step, as a multiple of the residual on both sides, from which it is one. Set by judgement: a line that is
extrapolated by half of its length errs by twice the noise."""

_LEAST_BESIDE = 4
"""Fewest readings on each side of a run. Set by judgement: two more on both together than a cubic has coefficients,
doubled."""


def find_glitches(course: ReadingSeries, *, steps: bool = False) -> list[Glitch]:
    """Find wrong readings of a channel, in order; they do not overlap.

    Args:
        course: The channel.
        steps: Whether to find changes of level as well, from which the channel does not come back.
    """
    if len(course.values) < 2 * _FEWEST:
        return []
    changes = np.flatnonzero(course.steps != 0.0)
    if len(changes) < (1.0 - _REPEATING) * len(course.values):
        # Held or coarse: what repeats is no reading of its own.
        kept = np.concatenate([[0], changes])
        ends = np.append(kept, len(course.values))
        coarse = ReadingSeries(course.time[kept], course.values[kept], course.smooth)
        found = find_glitches(coarse, steps=steps)
        return [Glitch(int(ends[each.start]), int(ends[each.stop]), each.kind, each.size) for each in found]
    found = _without_overlaps([*_find_runs(course), *_find_pairs(course)])
    return sorted([*found, *_find_steps(course, found)], key=lambda each: each.start) if steps else found


def _without_overlaps(found: Sequence[Glitch]) -> list[Glitch]:
    """Return glitches in order; of two that overlap, the first found, extended."""
    kept: list[Glitch] = []
    for glitch in sorted(found, key=lambda each: (each.start, -each.stop)):
        if kept and glitch.start < kept[-1].stop:
            last = kept.pop()
            size = max(last.size, glitch.size)
            kept.append(Glitch(last.start, max(last.stop, glitch.stop), last.kind, size))
        else:
            kept.append(glitch)
    return kept


def _find_pairs(course: ReadingSeries) -> Iterator[Glitch]:
    """Yield runs of readings between two edges that deviate from the course on both sides of them."""
    edges = np.flatnonzero(course.edges)
    if len(edges) > max(4, _MOST_EDGES * len(course.values)):
        if course.smooth:
            yield Glitch(int(edges[0]), int(edges[-1]) + 1, "erratic", float(np.abs(course.excess).max()))
        return
    done = 0
    for number, start in enumerate(edges):
        if start < done:
            continue
        for stop in edges[number + 1 :]:
            if (
                course.time[stop] - course.time[start]
                > (LONGEST if course.smooth else _LONGEST_SPIKE) + 0.5 * course.period
            ):
                break
            size = _deviation(course, int(start), int(stop))
            if size is not None:
                wrong = course.values[start:stop]
                kind: Kind = "zero" if not np.any(wrong) else "jump" if course.smooth else "spike"
                yield Glitch(int(start), int(stop), kind, size)
                done = stop + 1
                break


def _deviation(course: ReadingSeries, start: int, stop: int) -> float | None:
    """Return the greatest deviation of a run from the cubic beside it, or None where that is no glitch."""
    bridged = course.bridge(start, stop)
    if bridged is None:
        return None
    predicted, residual = bridged
    off = np.abs(course.values[start:stop] - predicted)
    scale = max(residual, float(course.noise[start]) / _STEP_NOISE)
    size = float(off.max())
    sudden = max(abs(course.excess[start]), abs(course.excess[stop])) >= _SUDDEN * size
    return size if sudden and float(np.sqrt(np.mean(off**2))) > _OFF * scale else None


def _find_runs(course: ReadingSeries) -> Iterator[Glitch]:
    """Yield runs of exact zeros, and of equal readings, that deviate from the course on both sides of them."""
    values = course.values
    same = course.steps == 0.0
    same[0] = False
    starts = np.flatnonzero(~same)
    stops = np.append(starts[1:], len(values))
    share = float(np.mean(same))
    chance = np.inf
    if share < _REPEATING:
        chance = 1.0 + np.log(len(values) / _CHANCE) / -np.log(max(share, 1e-6))
    lengths = stops - starts
    longer = lengths >= max(3.0, chance)
    zero = values[starts] == 0.0
    if np.mean(values == 0.0) > _MOST_EDGES:
        # Zero is a usual reading, of an unloaded plate or a dead band.
        zero &= longer
    released = np.append(course.edges, False)[np.minimum(stops, len(values))] & (lengths >= 3)
    # Most equal readings are near those beside them; a quick look spares the cubic.
    sums = np.concatenate([[0.0], np.cumsum(values)])
    before = (sums[starts] - sums[np.maximum(starts - _BRIEF, 0)]) / _BRIEF
    after = (sums[np.minimum(stops + _BRIEF, len(values))] - sums[stops]) / _BRIEF
    off = np.maximum(np.abs(values[starts] - before), np.abs(values[starts] - after))
    far = off > _OFF_REPEATED * course.noise[starts] / _STEP_NOISE
    for number in np.flatnonzero(((zero | released) & far) | longer):
        start, stop = int(starts[number]), int(stops[number])
        # The first of equal readings is right, unless they are zeros.
        first = start if zero[number] else start + 1
        is_long = stop <= first or course.time[stop - 1] - course.time[first] > LONGEST
        if is_long or not (far[number] or _is_no_chance(course, start, stop)):
            continue
        bridged = course.bridge(first, stop)
        if bridged is None:
            continue
        predicted, residual = bridged
        off = np.abs(values[first:stop] - predicted)
        scale = max(residual, float(course.noise[start]) / _STEP_NOISE)
        limit = (_OFF_REPEATED if longer[number] else _OFF) * scale + course.resolution
        away = not far[number] or float(np.mean(off)) > limit or (not zero[number] and float(off[-1]) > limit)
        if away and float(off.max()) > course.resolution:
            yield Glitch(first, stop, "zero" if zero[number] else "held", float(off.max()))


def _is_no_chance(course: ReadingSeries, start: int, stop: int) -> bool:
    """Return whether noise nearby excludes a run of equal readings."""
    around = int(np.clip(round(_AROUND / course.period), _FEWEST, _MOST))
    near = np.concatenate([course.steps[max(1, start - around) : start], course.steps[stop + 1 : stop + 1 + around]])
    # The upper end of what so few readings tell.
    share = (np.count_nonzero(near == 0.0) + 3.0) / (len(near) + 3.0)
    return bool(share < _REPEATING and (stop - start - 1) * -np.log(share) > np.log(len(course.values) / _NO_CHANCE))


def _find_steps(course: ReadingSeries, taken: Sequence[Glitch]) -> list[Glitch]:
    """Return edges after which a channel stays on another level, apart from glitches; `size` has a sign."""
    found: list[Glitch] = []
    edges = np.flatnonzero(course.edges)
    for edge in edges if len(edges) <= max(4, _MOST_EDGES * len(course.values)) else ():
        near = found and edge - found[-1].stop <= _EDGE_READINGS
        if near or any(each.start - _EDGE_READINGS <= edge <= each.stop + _EDGE_READINGS for each in taken):
            continue
        length = max(_EDGE_READINGS, int(np.ceil(_BESIDE / course.period)))
        before, after = course.beside(int(edge), int(edge), length)
        if min(len(before), len(after)) < _EDGE_READINGS or course.gaps[edge]:
            continue
        middle = 0.5 * (course.time[edge - 1] + course.time[edge])
        ends = [_extrapolate(course, side, middle) for side in (before, after)]
        change = ends[1][0] - ends[0][0]
        scale = max(ends[0][2], ends[1][2], float(course.noise[edge]) / _STEP_NOISE)
        moved = course.period * max(abs(ends[0][1]), abs(ends[1][1]))
        if abs(change) > max(_STEP * scale, 2.0 * moved):
            found.append(Glitch(int(edge), int(edge) + 1, "step", float(change)))
    return found


def _extrapolate(course: ReadingSeries, side: IntArray, at: float) -> tuple[float, float, float]:
    """Return value, slope and residual of the straight line through some readings."""
    time = course.time[side] - at
    slope, value = np.polyfit(time, course.values[side], 1)
    residual = course.values[side] - value - slope * time
    return float(value), float(slope), float(np.sqrt(residual @ residual / (len(side) - 2)))
