"""The bootstrap's intervals hold what they claim to hold, also for errors with a memory."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

from steelyard.validation import bootstrap
from steelyard.validation.bootstrap import LEAST_FREEDOM, TOO_FEW_BLOCKS, block_length, draw_blocks
from steelyard.validation.error_freedom import count_freedom


def remembering(generator, count, memory, width=1):
    """Gives autoregressive noise of unit variance, shape (count, width)."""
    shocks = generator.normal(size=(count + 200, width)) * np.sqrt(1.0 - memory**2)
    return lfilter([1.0], [1.0, -memory], shocks, axis=0)[200:]


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.9])
def test_intervals_hold_the_true_ratio(monkeypatch, memory):
    monkeypatch.setattr(bootstrap, "REPEATS", 1000)
    held, apart = 0, 0
    for seed in range(200):
        generator = np.random.default_rng([seed, 1])
        first, second = remembering(generator, 1500, memory, 2).T
        shared = remembering(generator, 1500, memory, 1)[:, 0]
        # Both err alike in part, as two models of one robot do; the true ratio is that of the variances.
        errors = np.stack([0.8 * first + shared, 1.0 * second + shared], axis=1)
        gain = draw_blocks([errors**2], [(0, 1)], seed=seed).gain([0], [1], 0.95)
        true = np.sqrt((0.64 + 1.0) / 2.0)
        held += gain.low <= true <= gain.high
        apart += gain.verdict == "worse"
    assert 0.88 <= held / 200 <= 0.995
    assert apart <= 1


def test_chance_is_rarely_called_real():
    called = 0
    for seed in range(200):
        errors = remembering(np.random.default_rng([seed, 2]), 1200, 0.9, 2)
        called += draw_blocks([errors**2], [(0, 1)], seed=seed).gain([0], [1], 0.95).verdict != "undecided"
    assert called / 200 <= 0.12


def test_blocks_grow_with_memory():
    generator = np.random.default_rng(3)
    lengths = [block_length(remembering(generator, 4000, memory)) for memory in (0.0, 0.7, 0.97)]
    assert lengths[0] <= 8
    assert lengths[0] < lengths[1] < lengths[2]
    assert block_length(np.ones((50, 2))) == 1
    assert block_length(np.zeros((2, 1))) == 1


def test_the_sums_are_those_of_all_stretches():
    generator = np.random.default_rng(4)
    squares = generator.normal(size=(700, 2)) ** 2
    whole = draw_blocks([squares], [(0, 1)], seed=0)
    cut = draw_blocks([squares[:300], squares[300:]], [(0, 1)], seed=0)
    np.testing.assert_allclose(whole.sums, cut.sums, rtol=1e-12)
    np.testing.assert_allclose(whole.drawn.mean(axis=0), whole.sums, rtol=0.02)
    np.testing.assert_allclose(cut.drawn.mean(axis=0), cut.sums, rtol=0.02)
    again = draw_blocks([squares], [(0, 1)], seed=0)
    np.testing.assert_array_equal(whole.drawn, again.drawn)


def test_too_few_blocks_decide_nothing():
    squares = np.ones((TOO_FEW_BLOCKS, 2)) * [1.0, 9.0]
    gain = draw_blocks([squares], [(0, 1)], seed=0).gain([0], [1], 0.95)
    assert gain.verdict == "undecided"
    assert np.isnan(gain.low)
    np.testing.assert_allclose(gain.ratio, 1.0 / 3.0)


def test_a_perfect_rival_leaves_it_undecided():
    squares = np.stack([np.ones(100), np.zeros(100)], axis=1)
    gain = draw_blocks([squares], [(0, 1)], seed=0).gain([0], [1], 0.95)
    assert np.isnan(gain.ratio)
    assert gain.verdict == "undecided"


@pytest.mark.parametrize(
    ("count", "memory", "stretch", "gap"),
    [
        (400, 20.0, 20, 0),
        (400, 20.0, 8, 0),
        (400, 20.0, 20, 10),
        (400, 20.0, 20, 1000),
        (400, 5.0, 8, 0),
        (200, 10.0, 6, 3),
        (60, 60.0, 60, 0),
        (100, 100.0, 100, 0),
        (60, 1000.0, 60, 0),
    ],
)
def test_chance_is_rarely_called_real_over_gaps_and_with_a_long_memory(monkeypatch, count, memory, stretch, gap):
    monkeypatch.setattr(bootstrap, "REPEATS", 400)
    called = 0
    for seed in range(150):
        pieces = -(-count // stretch)
        generator = np.random.default_rng([seed, 5])
        whole = remembering(generator, pieces * (stretch + gap) + 3000, np.exp(-1.0 / memory), 2)
        starts = 3000 + (stretch + gap) * np.arange(pieces)
        stretches = [whole[start : start + stretch] ** 2 for start in starts]
        draws = draw_blocks(stretches, [(0, 1)], seed=seed, gaps=[float(gap)] * pieces)
        called += draws.gain([0], [1], 0.95).verdict != "undecided"
    # Five in a hundred are claimed; three standard deviations of 150 trials are five more.
    assert called / 150 <= 0.11


def test_a_memory_over_gaps_is_as_long_as_without_them():
    series = remembering(np.random.default_rng(6), 3000, 0.95)
    whole = block_length(series)
    assert block_length([series[start : start + 10] for start in range(0, 3000, 10)]) == whole
    kept = [series[start : start + 10] for start in range(0, 3000, 14)]
    assert 0.6 < block_length(kept, [4.0] * len(kept)) / whole < 1.6


def test_a_memory_as_long_as_the_series_leaves_too_few_blocks():
    for count in (30, 60, 400):
        few = 0
        for seed in range(50):
            errors = np.cumsum(np.random.default_rng([count, seed, 7]).normal(size=(count, 2)), axis=0)
            few += draw_blocks([errors**2], [(0, 1)], seed=0).blocks <= TOO_FEW_BLOCKS
        assert few >= 40


def test_stretches_far_apart_are_drawn_whole_and_each_sample_as_often_as_any_other():
    # Errors that never change within a stretch, and stretches of several lengths.
    lengths = [5, 40, 12, 30, 8, 25, 50, 10] * 4
    levels = np.random.default_rng(8).uniform(1.0, 2.0, size=len(lengths))
    stretches = [
        np.stack([np.full(length, level), np.ones(length)], axis=1)
        for length, level in zip(lengths, levels, strict=True)
    ]
    draws = draw_blocks(stretches, [(0, 1)], seed=0, gaps=[np.inf] * len(lengths))
    assert draws.blocks >= len(lengths)
    mean = draws.drawn[:, 0].sum() / draws.drawn[:, 1].sum()
    np.testing.assert_allclose(mean, draws.sums[0] / draws.sums[1], rtol=0.005)
    np.testing.assert_allclose(draws.drawn[:, 1].mean(), draws.sums[1], rtol=0.02)


def test_errors_without_an_end_of_their_memory_decide_nothing():
    drift = 1.0 + 0.1 * np.linspace(0.0, 1.0, 100)
    for share in (0.001, 0.3, 30.0):
        errors = np.stack([share * drift, drift], axis=1)
        draws = draw_blocks([errors**2], [(0, 1)], seed=0)
        assert not len(draws.drawn)
        freedom = count_freedom([errors[:, :1]]), count_freedom([errors[:, 1:]])
        assert max(freedom) < LEAST_FREEDOM
        gain = draws.gain([0], [1], 0.95, freedom)
        assert gain.verdict == "undecided"
        assert np.isnan(gain.low)


@pytest.mark.parametrize(("memory", "rows"), [(0.0, 1), (0.8, 1), (0.95, 1), (0.95, 3)])
def test_freedom_is_that_of_the_spread_of_mean_squares(memory, rows):
    """A sum of squares with ν degrees of freedom has the relative variance 2/ν."""
    sums, counted = [], []
    for seed in range(300):
        errors = remembering(np.random.default_rng([seed, 11]), 400, memory, rows)
        sums.append(np.sum(errors**2))
        counted.append(count_freedom([errors]))
    true = 2.0 * np.mean(sums) ** 2 / np.var(sums)
    # Noise in the covariances of long lags counts as correlation, which is on the safe side.
    assert 0.2 * true < np.median(counted) < 1.2 * true


def test_segments_of_errors_count_as_independent():
    pieces = [np.full((50, 2), level) for level in (1.0, -1.0, 1.0, -1.0)]
    assert count_freedom(pieces) == pytest.approx(4.0 * (count_freedom(pieces[:1]) + 0.5) - 0.5)
    assert count_freedom(pieces[:1]) == pytest.approx(1.0, abs=0.05)


def test_few_blocks_of_clear_errors_decide_and_of_equal_ones_do_not():
    """Chance calls a difference of equal errors significant no more often than the level says."""
    called, clear = 0, 0
    for seed in range(200):
        errors = remembering(np.random.default_rng([seed, 12]), 100, 0.92, 6)
        for share in (1.0, 0.05):
            both = np.concatenate([share * errors[:, :3], errors[:, 3:]], axis=1)
            squares = np.stack([np.sum(both[:, :3] ** 2, axis=1), np.sum(both[:, 3:] ** 2, axis=1)], axis=1)
            draws = draw_blocks([squares], [(0, 1)], seed=seed)
            draws = replace(draws, drawn=draws.drawn[:0])
            gain = draws.gain([0], [1], 0.95, (count_freedom([both[:, :3]]), count_freedom([both[:, 3:]])))
            called += share == 1.0 and gain.verdict != "undecided"
            clear += share < 1.0 and gain.verdict == "real"
    assert called <= 15
    assert clear >= 190


def test_what_is_nearly_the_same_is_no_improvement():
    squares = np.random.default_rng(9).normal(size=(500, 1)) ** 2
    for share, verdict in ((1.0 - 1e-9, "undecided"), (1.0 + 5e-4, "undecided"), (0.99, "real"), (1.01, "worse")):
        gain = draw_blocks([squares * [share**2, 1.0]], [(0, 1)], seed=0).gain([0], [1], 0.95)
        assert gain.verdict == verdict
