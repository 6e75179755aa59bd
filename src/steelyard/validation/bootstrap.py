"""Whether one set of parameters really predicts better than another, or by chance: blocks of time drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import norm, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model.parameters import FloatArray

REPEATS = 2000
"""How often blocks are drawn."""

FEWEST_BLOCKS = 3
"""Fewer blocks than this say nothing about chance."""

_FEWEST_SAMPLES = 20
"""Fewer samples than this do not show how long their memory is."""

_LONGER = 2
"""Blocks are so many times as long as [politis2004] has them: those give the best variance, not the best intervals. On
errors with a memory of a twentieth of the motion, chance was called an improvement 6 to 12 times in a hundred with
blocks twice as long, and 12 to 17 times with theirs; the interval's level was 95 %."""

_MOST_BLOCKS = 256
_NUMBERS_AT_ONCE = 4_000_000

Verdict = Literal["real", "worse", "undecided"]


@dataclass(frozen=True)
class Gain:
    """How much better the estimate predicts than another candidate.

    Attributes:
        ratio: Root mean square error of the estimate over that of the other.
        low: Lower end of the interval of `ratio`; NaN where there are too few blocks.
        high: Its upper end.
        verdict: "real" where all of the interval is below one, "worse" where all of it is above, else "undecided".
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict


def block_length(series: Any) -> int:
    """Gives the length of blocks, in samples, that keeps the memory of some series.

    It is twice that of [politis2004] with its correction [patton2009], for blocks on a circle: from the autocorrelation
    up to where it is no longer significant. The greatest of all series counts.

    Args:
        series: Shape (n, n_series).
    """
    values = np.asarray(series, dtype=np.float64)
    count = len(values)
    if count < 4:
        return 1
    longest = int(np.ceil(min(3.0 * np.sqrt(count), count / 3.0)))
    best = 1.0
    for column in values.T:
        best = max(best, _politis_white(column - column.mean(), longest))
    length = 1 if best <= 1.0 else _LONGER * min(int(np.ceil(best)), longest)
    return min(length, max(1, count // FEWEST_BLOCKS))


def _politis_white(centred: FloatArray, longest: int) -> float:
    count = len(centred)
    size = 1 << int(np.ceil(np.log2(2 * count)))
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), size)[:count] / count
    if not covariance[0] > 0.0:
        return 1.0
    correlation = covariance / covariance[0]
    run = max(5, int(np.sqrt(np.log10(count))))
    bound = 2.0 * np.sqrt(np.log10(count) / count)
    reach = min(int(np.ceil(np.sqrt(count))) + run, count - 1)
    small = np.abs(correlation[1 : reach + 1]) < bound
    # The first lag behind which `run` correlations in a row are insignificant.
    lag = next((k for k in range(len(small) - run + 1) if np.all(small[k : k + run])), None)
    if lag is None:
        significant = np.flatnonzero(~small)
        lag = int(significant[-1]) + 1 if len(significant) else 0
    window = min(2 * max(lag, 1), reach)
    lags = np.arange(-window, window + 1)
    share = np.abs(lags) / window
    taper = np.where(share <= 0.5, 1.0, 2.0 * (1.0 - share))
    used = taper * covariance[np.abs(lags)]
    long_run = float(used.sum())
    slope = float(np.sum(np.abs(lags) * used))
    if not long_run > 0.0:
        return float(longest)
    return float((2.0 * slope**2 / (4.0 / 3.0 * long_run**2)) ** (1.0 / 3.0) * count ** (1.0 / 3.0))


@dataclass(frozen=True, eq=False)
class Draws:
    """Sums of squared errors over samples drawn again, block by block.

    Attributes:
        sums: Over all samples as they are, shape (n_columns,).
        drawn: Over each draw, shape (repeats, n_columns); empty where there were too few blocks.
        block: Samples in a block.
        blocks: How many blocks there are.
    """

    sums: FloatArray
    drawn: FloatArray
    block: int
    blocks: float

    def gain(self, first: Sequence[int], second: Sequence[int], level: float) -> Gain:
        """Compares the errors in some columns with those in others, their squares added.

        The interval is that of the percentiles of the draws, widened as Student's t widens for few blocks
        [hesterberg2015].
        """
        ratio = float(_root_ratio(self.sums[list(first)].sum(), self.sums[list(second)].sum()))
        if not len(self.drawn) or not np.isfinite(ratio):
            return Gain(ratio, float("nan"), float("nan"), "undecided")
        ratios = _root_ratio(self.drawn[:, list(first)].sum(axis=1), self.drawn[:, list(second)].sum(axis=1))
        freedom = self.blocks - 1.0
        tail = float(norm.cdf(np.sqrt(self.blocks / freedom) * t.ppf(0.5 * (1.0 - level), freedom)))
        low, high = (float(value) for value in np.quantile(ratios, [tail, 1.0 - tail]))
        verdict: Verdict = "real" if high < 1.0 else "worse" if low > 1.0 else "undecided"
        return Gain(ratio, low, high, verdict)


def draw_blocks(stretches: Sequence[FloatArray], differences: Sequence[tuple[int, int]], *, seed: int) -> Draws:
    """Draws squared errors again in blocks that keep their memory, all columns together.

    Blocks wrap around at the ends of their stretch, so that no sample is drawn less often for being near an end; none
    reaches from one stretch into another, and a stretch that is shorter than a block is drawn whole.

    Args:
        stretches: Squared errors, shape (n, n_columns) each, evenly sampled.
        differences: Pairs of columns whose difference sets the length of the blocks.
        seed: Of the draws.
    """
    count = sum(len(stretch) for stretch in stretches)
    sums = np.sum([stretch.sum(axis=0) for stretch in stretches], axis=0)
    longest = max(stretches, key=len)
    first, second = [pair[0] for pair in differences], [pair[1] for pair in differences]
    memory = block_length(longest[:, first] - longest[:, second]) if differences else 1
    # More blocks than these cost time and tell nothing more; longer ones are safe.
    block = max(memory, -(-count // _MOST_BLOCKS))
    blocks = count / block
    if blocks < FEWEST_BLOCKS or count < _FEWEST_SAMPLES:
        return Draws(sums, np.zeros((0, len(sums))), block, blocks)
    totals = np.concatenate([_block_sums(stretch, block) for stretch in stretches])
    rng = np.random.default_rng(seed)
    number = max(1, round(blocks))
    at_once = max(1, _NUMBERS_AT_ONCE // (number * len(sums)))
    drawn = np.empty((REPEATS, len(sums)))
    for start in range(0, REPEATS, at_once):
        stop = min(start + at_once, REPEATS)
        drawn[start:stop] = totals[rng.integers(len(totals), size=(stop - start, number))].sum(axis=1)
    return Draws(sums, drawn, block, blocks)


def _block_sums(stretch: FloatArray, block: int) -> FloatArray:
    """Gives the sum over the block that starts at each sample, around the end; shape (n, n_columns)."""
    length = min(block, len(stretch))
    around = np.concatenate([np.zeros((1, stretch.shape[1])), stretch, stretch[: length - 1]])
    running = np.cumsum(around, axis=0)
    return np.asarray(np.maximum(running[length:] - running[:-length], 0.0))


def _root_ratio(above: Any, below: Any) -> Any:
    positive = np.asarray(below) > 0.0
    return np.where(positive, np.sqrt(np.asarray(above) / np.where(positive, below, 1.0)), np.nan)
