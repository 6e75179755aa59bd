"""Whether one set of parameters really predicts better than another, or by chance: blocks of time drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.stats import norm, t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

REPEATS = 2000
"""How often blocks are drawn."""

TOO_FEW_BLOCKS = 5
"""So many blocks, or fewer, do not show how much chance does."""

SAME = 1e-3
"""Share of the root mean square error by which two candidates differ, below which nobody cares which is better."""

_FEWEST_SAMPLES = 20
"""Fewer samples than this do not show how long their memory is."""

_LONGER = 2
"""Blocks are so many times as long as [politis2004] has them: those give the best variance, not the best intervals.
What that does to false verdicts was measured: docs/validation.md."""

_ROUNDS = 5
_WIDEST = 10
"""Gaps wider than so many usual stretches are not looked across for a memory."""

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
        verdict: "real" where all of the interval is below one, "worse" where all of it is above, else "undecided"; also
            where the two differ by less than `SAME`.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict


def block_length(series: Any, gaps: Sequence[float] | None = None) -> int:
    """Gives the length of blocks, in samples, that keeps the memory of some series.

    It is twice that of [politis2004] with its correction [patton2009], for blocks on a circle: from the autocorrelation
    up to where it is no longer significant. Nothing keeps it from being too long for the series: then there are too few
    blocks, and that is what is to be known. The greatest of all series counts.

    Args:
        series: Shape (n, n_series), or several such stretches.
        gaps: Samples that are missing before each stretch, as in `draw_blocks`.
    """
    stretches = [np.asarray(each, dtype=np.float64) for each in (series if isinstance(series, list) else [series])]
    count = sum(len(stretch) for stretch in stretches)
    if count < 4:
        return 1
    reach = max(count // 2, 1)
    runs = _runs(stretches, gaps, min(reach, _WIDEST * count / len(stretches)))
    pairs = sum((_products(run.occupied[:, None], reach)[:, 0] for run in runs), np.zeros(reach + 1))
    mean = np.sum([stretch.sum(axis=0) for stretch in stretches], axis=0) / count
    products = sum(
        (_products(run.values - np.outer(run.occupied, mean), reach) for run in runs), np.zeros((reach + 1, len(mean)))
    )
    best = max((_politis_white(column, np.round(pairs), count) for column in products.T), default=1.0)
    return 1 if best <= 1.0 else _LONGER * min(int(np.ceil(best)), count)


class _Run(NamedTuple):
    """Stretches on one even grid of time.

    Attributes:
        values: What is there, zeros in gaps, shape (n_cells, n_columns).
        occupied: One where there is something, else zero, shape (n_cells,).
    """

    values: FloatArray
    occupied: FloatArray


def _runs(stretches: Sequence[FloatArray], gaps: Sequence[float] | None, widest: float) -> list[_Run]:
    """Gives stretches on even grids, a new one behind each gap that is wider than `widest` samples."""
    missing = [0.0] * len(stretches) if gaps is None else list(gaps)
    groups: list[list[FloatArray]] = []
    for number, (stretch, gap) in enumerate(zip(stretches, missing, strict=True)):
        if number == 0 or gap > widest:
            groups.append([])
        elif gap > 0:
            groups[-1].append(np.full((round(gap), stretch.shape[1]), np.nan))
        groups[-1].append(stretch)
    runs = []
    for group in groups:
        values = np.concatenate(group)
        empty = np.isnan(values[:, 0])
        runs.append(_Run(np.where(empty[:, None], 0.0, values), np.where(empty, 0.0, 1.0)))
    return runs


def _products(values: FloatArray, reach: int) -> FloatArray:
    """Gives the sums of products of values that are 0, 1, … `reach` cells apart, shape (reach + 1, n_columns)."""
    size = next_fast_len(2 * len(values), real=True)
    spectrum = np.fft.rfft(values, size, axis=0)
    products = np.fft.irfft(np.square(np.abs(spectrum)), size, axis=0)[: min(reach + 1, len(values))]
    return np.concatenate([products, np.zeros((reach + 1 - len(products), values.shape[1]))])


def _politis_white(products: FloatArray, pairs: FloatArray, count: int) -> float:
    """Gives the best length of blocks for a variance.

    Args:
        products: Sums of products by lag, of values without their mean.
        pairs: How many there are.
        count: Samples.
    """
    if not products[0] > 0.0:
        return 1.0
    lags = np.arange(len(products))
    # Few pairs do not tell a correlation; without gaps this is the usual estimate.
    share = np.maximum(pairs, 0.25 * (count - lags)) / (count - lags)
    plain = products / share / count
    run = max(5, int(np.sqrt(np.log10(count))))
    bound = 2.0 * np.sqrt(np.log10(count) / (count * share[1:]))
    best = lost = 0.0
    for _ in range(_ROUNDS):
        # Whoever takes the mean away takes the long-run variance over `count` from each covariance: what remembers for
        # long seems to forget soon. That is given back, round by round.
        covariance = plain + lost * (1.0 - lags / count)
        large = np.abs(covariance[1:]) >= bound * covariance[0]
        # The first lag behind which `run` correlations in a row are insignificant.
        before = np.concatenate([[0], np.cumsum(large)])
        quiet = np.flatnonzero(before[run:] == before[:-run]) if len(large) >= run else np.zeros(0)
        lag = int(quiet[0]) if len(quiet) else int(np.max(np.flatnonzero(large), initial=-1)) + 1
        window = min(2 * max(lag, 1), len(products) - 1)
        used = covariance[: window + 1] * np.minimum(1.0, 2.0 * (1.0 - lags[: window + 1] / window))
        long_run = float(2.0 * used.sum() - used[0])
        slope = float(2.0 * np.sum(lags[: window + 1] * used))
        if not long_run > 0.0:
            return max(best, float(window))
        best = max(best, float((1.5 * (slope / long_run) ** 2 * count) ** (1.0 / 3.0)))
        lost = long_run / count
    return best


@dataclass(frozen=True, eq=False)
class Resamples:
    """Sums of squared errors over samples drawn again, block by block.

    Attributes:
        sums: Over all samples as they are, shape (n_columns,).
        drawn: Over each draw, shape (repeats, n_columns); empty where there were too few blocks.
        block: Samples in a block.
        blocks: How many blocks there are.
        count: Samples.
    """

    sums: FloatArray
    drawn: FloatArray
    block: int
    blocks: float
    count: int

    def gain(self, first: Sequence[int], second: Sequence[int], level: float) -> Gain:
        """Compares the errors in some columns with those in others, their squares added.

        The interval is that of the percentiles of the draws, widened as Student's t widens for few blocks
        [hesterberg2015]. Too few blocks decide nothing, unless the ratio is so far from one that two numbers would
        do (the square root of F with one degree of freedom each, for normal errors): below 0.04 or above 25 at 95 %.
        """
        ratio = float(_root_ratio(self.sums[list(first)].sum(), self.sums[list(second)].sum()))
        if self.count < _FEWEST_SAMPLES or not np.isfinite(ratio):
            return Gain(ratio, float("nan"), float("nan"), "undecided")
        if len(self.drawn):
            ratios = _root_ratio(self.drawn[:, list(first)].sum(axis=1), self.drawn[:, list(second)].sum(axis=1))
            freedom = self.blocks - 1.0
            tail = float(norm.cdf(np.sqrt(self.blocks / freedom) * t.ppf(0.5 * (1.0 - level), freedom)))
            low, high = (float(value) for value in np.quantile(ratios, [tail, 1.0 - tail]))
        else:
            least = float(np.tan(0.25 * np.pi * (1.0 - level)))
            low, high = ratio * least, ratio / least
            if low < 1.0 < high:
                return Gain(ratio, float("nan"), float("nan"), "undecided")
        same = abs(ratio - 1.0) < SAME
        verdict: Verdict = "undecided" if same else "real" if high < 1.0 else "worse" if low > 1.0 else "undecided"
        return Gain(ratio, low, high, verdict)


def draw_blocks(
    stretches: Sequence[FloatArray],
    differences: Sequence[tuple[int, int]],
    *,
    seed: int,
    gaps: Sequence[float] | None = None,
) -> Resamples:
    """Resamples squared errors again in blocks that keep their memory, all columns together.

    A block is a length of time, over gaps that are shorter than it: what errs alike on both sides of a gap is drawn
    together. Where a longer gap leaves less than a block between it and the next, that is drawn whole. Blocks wrap
    around at such gaps, so that no sample is drawn less often for being near an end.

    Args:
        stretches: Squared errors in order of time, shape (n, n_columns) each, evenly sampled.
        differences: Pairs of columns whose difference sets the length of the blocks.
        seed: Of the draws.
        gaps: How many samples are missing before each stretch, infinitely many before another recording (before the
            first it does not matter); None: each follows at once on the one before.
    """
    count = sum(len(stretch) for stretch in stretches)
    sums = np.sum([stretch.sum(axis=0) for stretch in stretches], axis=0)
    first, second = [pair[0] for pair in differences], [pair[1] for pair in differences]
    memory = block_length([each[:, first] - each[:, second] for each in stretches], gaps) if differences else 1
    # More blocks than these cost time and tell nothing more; longer ones are safe.
    block = max(memory, -(-count // _MOST_BLOCKS))
    runs = _runs(stretches, gaps, block)
    blocks = float(sum(max(1.0, len(run.values) / block) for run in runs))
    if blocks <= TOO_FEW_BLOCKS or count < _FEWEST_SAMPLES:
        return Resamples(sums, np.zeros((0, len(sums))), block, blocks, count)
    totals = np.concatenate([_block_sums(run.values, block) for run in runs])
    # Each sample is to be drawn as often as any other: what is shorter than a block, and drawn whole, weighs as one.
    weights = np.concatenate([[block] if len(run.values) <= block else np.ones(len(run.values)) for run in runs])
    cumulated = np.cumsum(weights)
    rng = np.random.default_rng(seed)
    number = max(1, round(blocks))
    at_once = max(1, _NUMBERS_AT_ONCE // (number * len(sums)))
    drawn = np.empty((REPEATS, len(sums)))
    for start in range(0, REPEATS, at_once):
        stop = min(start + at_once, REPEATS)
        chosen = np.searchsorted(cumulated, rng.uniform(0.0, cumulated[-1], size=(stop - start, number)), side="right")
        drawn[start:stop] = totals[np.minimum(chosen, len(totals) - 1)].sum(axis=1)
    return Resamples(sums, drawn, block, blocks, count)


def _block_sums(values: FloatArray, block: int) -> FloatArray:
    """Gives the sum over the block that starts at each cell, around the end, shape (n, n_columns).

    Where there is no more than a block, it is the one sum of all, shape (1, n_columns).
    """
    if len(values) <= block:
        return np.asarray(values.sum(axis=0, keepdims=True))
    around = np.concatenate([np.zeros((1, values.shape[1])), values, values[: block - 1]])
    running = np.cumsum(around, axis=0)
    return np.asarray(np.maximum(running[block:] - running[:-block], 0.0))


def _root_ratio(above: Any, below: Any) -> Any:
    positive = np.asarray(below) > 0.0
    return np.where(positive, np.sqrt(np.asarray(above) / np.where(positive, below, 1.0)), np.nan)
