"""Block bootstrap of prediction errors: whether one set of parameters predicts significantly better than another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import fdtri, ndtr, stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

REPEATS = 2000
"""Bootstrap resamples: each end of a 95 % interval then rests on 50 of them. [hesterberg2015] asks for thousands."""

TOO_FEW_BLOCKS = 5
"""Number of blocks up to which they are not resampled; false verdicts with this limit are in docs/validation.md."""

LEAST_FREEDOM = 2.0
"""Degrees of freedom of either error below which nothing is decided: less than two independent numbers. False verdicts
with this limit are in docs/validation.md."""

SAME = 1e-3
"""Relative difference of two RMSEs below which neither counts as better. Set by judgement: no use depends on 0.1 %."""

_FEWEST_SAMPLES = 20
"""Least number of samples from which a correlation time is estimated. Set by judgement."""

_LENGTH_FACTOR = 2
"""Factor on the block length of [politis2004], which is best for variances, not for intervals; the rate of false
verdicts with it was measured: docs/validation.md."""

_ROUNDS = 5
"""Iterations of the correction for the estimated mean. Set by judgement."""

_WIDEST = 10
"""Gaps wider than this number of mean segment lengths are not bridged by the autocorrelation. Set by judgement."""

_MOST_BLOCKS = 256
"""Most blocks, to bound the time: longer blocks are safe, and more of them narrow no interval. Set by judgement."""

_NUMBERS_AT_ONCE = 4_000_000
"""Numbers drawn at once, to bound their memory to 32 MB."""


Outcome = Literal["real", "worse", "undecided"]


@dataclass(frozen=True)
class Gain:
    """Improvement of the estimate's predictions over another candidate's.

    Attributes:
        ratio: RMSE of the estimate divided by that of the other.
        low: Lower end of the interval of `ratio`; NaN where there are too few blocks.
        high: Its upper end.
        verdict: "real" where the whole interval is below one, "worse" where it is above, else "undecided"; also where
            the two differ by less than `SAME`.
    """

    ratio: float
    low: float
    high: float
    verdict: Outcome


def block_length(series: Any, gaps: Sequence[float] | None = None) -> int:
    """Return the block length, in samples, that preserves the autocorrelation of some series.

    It is twice that of [politis2004] with its correction [patton2009], for circular blocks: from the autocorrelation up
    to the lag where it is no longer significant. It may exceed the length of the series, which then has too few blocks
    to decide anything. The longest of all series counts.

    Args:
        series: Shape (n, n_series), or a list of such segments.
        gaps: Samples missing before each segment, as in `draw_blocks`.
    """
    segments = [np.asarray(each, dtype=np.float64) for each in (series if isinstance(series, list) else [series])]
    count = sum(len(segment) for segment in segments)
    if count < 4:
        return 1
    reach = max(count // 2, 1)
    runs = _join_over_gaps(segments, gaps, min(reach, _WIDEST * count / len(segments)))
    pairs = sum((_lagged_products(run.occupied[:, None], reach)[:, 0] for run in runs), np.zeros(reach + 1))
    mean = np.sum([segment.sum(axis=0) for segment in segments], axis=0) / count
    centred = (run.values - np.outer(run.occupied, mean) for run in runs)
    products = sum((_lagged_products(each, reach) for each in centred), np.zeros((reach + 1, len(mean))))
    best = max((_politis_white(column, np.round(pairs), count) for column in products.T), default=1.0)
    return 1 if best <= 1.0 else _LENGTH_FACTOR * min(int(np.ceil(best)), count)


class _Run(NamedTuple):
    """Segments on one even grid of time.

    Attributes:
        values: The samples, zeros in gaps, shape (n_cells, n_columns).
        occupied: One where there is a sample, else zero, shape (n_cells,).
    """

    values: FloatArray
    occupied: FloatArray


def _join_over_gaps(segments: Sequence[FloatArray], gaps: Sequence[float] | None, widest: float) -> list[_Run]:
    """Return segments on even grids, a new one after each gap that is wider than `widest` samples."""
    missing = [0.0] * len(segments) if gaps is None else list(gaps)
    groups: list[list[FloatArray]] = []
    for number, (segment, gap) in enumerate(zip(segments, missing, strict=True)):
        if number == 0 or gap > widest:
            groups.append([])
        elif gap > 0:
            groups[-1].append(np.full((round(gap), segment.shape[1]), np.nan))
        groups[-1].append(segment)
    runs = []
    for group in groups:
        values = np.concatenate(group)
        empty = np.isnan(values[:, 0])
        runs.append(_Run(np.where(empty[:, None], 0.0, values), np.where(empty, 0.0, 1.0)))
    return runs


def _lagged_products(values: FloatArray, reach: int) -> FloatArray:
    """Return the sums of products of values 0, 1, … `reach` cells apart, shape (reach + 1, n_columns)."""
    size = next_fast_len(2 * len(values), real=True)
    spectrum = np.fft.rfft(values, size, axis=0)
    products = np.fft.irfft(np.square(np.abs(spectrum)), size, axis=0)[: min(reach + 1, len(values))]
    return np.concatenate([products, np.zeros((reach + 1 - len(products), values.shape[1]))])


def _politis_white(products: FloatArray, pairs: FloatArray, count: int) -> float:
    """Return the block length that is best for a variance.

    Args:
        products: Sums of products by lag, of values without their mean.
        pairs: Number of products by lag.
        count: Samples.
    """
    if not products[0] > 0.0:
        return 1.0
    lags = np.arange(len(products))
    # Few pairs do not determine a correlation; without gaps this is the usual estimate.
    share = np.maximum(pairs, 0.25 * (count - lags)) / (count - lags)
    plain = products / share / count
    run = max(5, int(np.sqrt(np.log10(count))))
    bound = 2.0 * np.sqrt(np.log10(count) / (count * share[1:]))
    best = lost = 0.0
    for _ in range(_ROUNDS):
        # Subtracting the mean lowers each covariance by the long-run variance over `count`, which makes long
        # correlation times look short; it is added back iteratively.
        covariance = plain + lost * (1.0 - lags / count)
        large = np.abs(covariance[1:]) >= bound * covariance[0]
        # The first lag after which `run` correlations in a row are insignificant.
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
    """Sums of squared errors over bootstrap resamples of blocks.

    Attributes:
        sums: Over the samples as they are, shape (n_columns,).
        drawn: Over each resample, shape (repeats, n_columns); empty where there were too few blocks.
        block: Samples in a block.
        blocks: Number of blocks.
        count: Samples.
    """

    sums: FloatArray
    drawn: FloatArray
    block: int
    blocks: float
    count: int

    def gain(
        self, first: Sequence[int], second: Sequence[int], level: float, freedom: tuple[float, float] = (0.0, 0.0)
    ) -> Gain:
        """Compare the errors in some columns with those in others, their squares added.

        The interval is that of the percentiles of the resamples, widened by Student's t for few blocks
        [hesterberg2015]. Where there are too few blocks, it is that of the ratio of two variances (F distribution) with
        the degrees of freedom that the errors have; fewer than `LEAST_FREEDOM` decide nothing.

        Args:
            first: Columns of the estimate's squared errors.
            second: Those of the other candidate.
            level: Confidence level.
            freedom: Degrees of freedom of the sums of both, see `count_freedom`.
        """
        ratio = float(_root_ratio(self.sums[list(first)].sum(), self.sums[list(second)].sum()))
        low, high = float("nan"), float("nan")
        if len(self.drawn) and np.isfinite(ratio):
            ratios = _root_ratio(self.drawn[:, list(first)].sum(axis=1), self.drawn[:, list(second)].sum(axis=1))
            blocks = self.blocks - 1.0
            tail = float(ndtr(np.sqrt(self.blocks / blocks) * stdtrit(blocks, 0.5 * (1.0 - level))))
            low, high = (float(value) for value in np.quantile(ratios, [tail, 1.0 - tail]))
        elif np.isfinite(ratio) and min(freedom) >= LEAST_FREEDOM and self.count >= _FEWEST_SAMPLES:
            below, above = (float(fdtri(*freedom, share)) for share in (0.5 * (1.0 - level), 0.5 * (1.0 + level)))
            low, high = ratio / np.sqrt(above), ratio / np.sqrt(below)
        same = abs(ratio - 1.0) < SAME
        verdict: Outcome = "undecided" if same else "real" if high < 1.0 else "worse" if low > 1.0 else "undecided"
        return Gain(ratio, low, high, verdict)


def draw_blocks(
    segments: Sequence[FloatArray],
    differences: Sequence[tuple[int, int]],
    *,
    seed: int,
    gaps: Sequence[float] | None = None,
) -> Resamples:
    """Resample squared errors in blocks that preserve their autocorrelation, all columns together.

    A block is an interval of time and spans gaps that are shorter than itself, so that correlated errors on both sides
    of a gap are drawn together. What lies between two longer gaps and is shorter than a block is drawn whole. Blocks
    wrap around at such gaps, so that samples near an end are drawn as often as others.

    Args:
        segments: Squared errors in order of time, shape (n, n_columns) each, evenly sampled.
        differences: Pairs of columns whose difference sets the block length.
        seed: Of the random generator.
        gaps: Samples missing before each segment, inf before another recording (before the first it does not matter);
            None if each follows the one before without a gap.
    """
    count = sum(len(segment) for segment in segments)
    sums = np.sum([segment.sum(axis=0) for segment in segments], axis=0)
    first, second = [pair[0] for pair in differences], [pair[1] for pair in differences]
    length = block_length([each[:, first] - each[:, second] for each in segments], gaps) if differences else 1
    block = max(length, -(-count // _MOST_BLOCKS))
    runs = _join_over_gaps(segments, gaps, block)
    blocks = float(sum(max(1.0, len(run.values) / block) for run in runs))
    if blocks <= TOO_FEW_BLOCKS or count < _FEWEST_SAMPLES:
        return Resamples(sums, np.zeros((0, len(sums))), block, blocks, count)
    totals = np.concatenate([_block_sums(run.values, block) for run in runs])
    # All samples are drawn equally often: a run shorter than a block is drawn whole, with the weight of one block.
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
    """Return the sum over the circular block that starts at each cell, shape (n, n_columns).

    Where all cells fit in one block, it is their sum, shape (1, n_columns).
    """
    if len(values) <= block:
        return np.asarray(values.sum(axis=0, keepdims=True))
    around = np.concatenate([np.zeros((1, values.shape[1])), values, values[: block - 1]])
    running = np.cumsum(around, axis=0)
    return np.asarray(np.maximum(running[block:] - running[:-block], 0.0))


def _root_ratio(above: Any, below: Any) -> Any:
    positive = np.asarray(below) > 0.0
    return np.where(positive, np.sqrt(np.asarray(above) / np.where(positive, below, 1.0)), np.nan)
