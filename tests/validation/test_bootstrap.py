"""The bootstrap's intervals hold what they claim to hold, also for errors with a memory."""

import numpy as np
import pytest
from scipy.signal import lfilter

from steelyard.validation.bootstrap import FEWEST_BLOCKS, block_length, draw_blocks


def remembering(generator, count, memory, width=1):
    """Gives autoregressive noise of unit variance, shape (count, width)."""
    shocks = generator.normal(size=(count + 200, width)) * np.sqrt(1.0 - memory**2)
    return lfilter([1.0], [1.0, -memory], shocks, axis=0)[200:]


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.9])
def test_intervals_hold_the_true_ratio(memory):
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
    squares = np.ones((FEWEST_BLOCKS - 1, 2)) * [1.0, 9.0]
    gain = draw_blocks([squares], [(0, 1)], seed=0).gain([0], [1], 0.95)
    assert gain.verdict == "undecided"
    assert np.isnan(gain.low)
    np.testing.assert_allclose(gain.ratio, 1.0 / 3.0)


def test_a_perfect_rival_leaves_it_undecided():
    squares = np.stack([np.ones(100), np.zeros(100)], axis=1)
    gain = draw_blocks([squares], [(0, 1)], seed=0).gain([0], [1], 0.95)
    assert np.isnan(gain.ratio)
    assert gain.verdict == "undecided"
