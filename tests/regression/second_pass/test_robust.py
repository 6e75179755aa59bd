"""Samples that do not fit hardly move a robust estimate, and it costs next to nothing where all fit."""

from dataclasses import replace

import numpy as np
import pytest

from steelyard import IdentifiabilityError, gather_evidence, identify
from steelyard.exceptions import EvidenceError
from steelyard.regression.second_pass.motion_rows import least_squares
from steelyard.regression.second_pass.robust import gather_robust, huber_weights
from tests.identification.worlds import reference, rich_motion, truth, with_noise

SHARE = 0.05
SPIKE = np.repeat([200.0, 20.0], 3)


def spiked(motion, seed):
    """Gives the motion with spikes on the right foot's sensor in one sample of twenty, and which these are."""
    generator = np.random.default_rng(seed)
    hit = np.zeros(len(motion), dtype=bool)
    hit[generator.choice(len(motion), round(SHARE * len(motion)), replace=False)] = True
    values = motion.wrenches["right_foot"] + hit[:, None] * SPIKE * generator.normal(size=(len(motion), 6))
    return replace(motion, wrenches={**motion.wrenches, "right_foot": values}), hit


def errors_of(evidence):
    """Gives the errors of the independent parameters, and their standard errors."""
    triangle = evidence.factor[:-1, :-1]
    variance = evidence.variance
    if variance is None:
        variance = evidence.factor[-1, -1] ** 2 / (evidence.row_count - len(triangle))
    stated = np.sqrt(variance) * np.linalg.norm(np.linalg.inv(triangle), axis=1)
    return least_squares(evidence) - evidence.dependence @ truth("g1").ravel(), stated


def test_spikes_wreck_least_squares_and_hardly_move_the_robust_estimate():
    model = reference("g1")
    clean, plain, robust, stated = [], [], [], []
    for seed in range(3):
        motion = with_noise(rich_motion("g1"), seed)
        bad, _ = spiked(motion, 100 + seed)
        clean.append(errors_of(gather_evidence(model, motion, nuisance=()))[0])
        plain.append(errors_of(gather_evidence(model, bad, nuisance=()))[0])
        error, claimed = errors_of(gather_robust(model, bad, nuisance=()))
        robust.append(error)
        stated.append(claimed)
    spread = np.sqrt(np.mean(np.square(clean), axis=0))
    assert np.median(np.sqrt(np.mean(np.square(plain), axis=0)) / spread) > 10.0
    assert np.median(np.sqrt(np.mean(np.square(robust), axis=0)) / spread) < 1.5
    # What it says of itself is about right: no spike is left in its standard errors.
    assert 0.8 < np.sqrt(np.mean(np.square(np.array(robust) / np.array(stated)))) < 1.2


def test_it_costs_a_few_percent_where_there_is_nothing_to_be_robust_against():
    model = reference("g1")
    plain, robust, stated = [], [], []
    for seed in range(8):
        motion = with_noise(rich_motion("g1"), 200 + seed)
        plain.append(errors_of(gather_evidence(model, motion, nuisance=()))[0])
        error, claimed = errors_of(gather_robust(model, motion, nuisance=()))
        robust.append(error)
        stated.append(claimed)
    assert np.mean(np.square(robust)) / np.mean(np.square(plain)) < 1.1
    scores = np.mean(np.square(np.array(robust)), axis=0) / np.mean(np.square(np.array(plain)), axis=0)
    assert np.median(scores) < 1.05
    assert 0.93 < np.sqrt(np.mean(np.square(np.array(robust) / np.array(stated)))) < 1.07


def test_the_samples_that_were_hit_are_found():
    bad, hit = spiked(with_noise(rich_motion("g1"), 1), 2)
    found = huber_weights(reference("g1"), bad, nuisance=())
    assert found.settled
    assert found.weights.shape == (len(bad),)
    assert np.median(found.weights[hit]) < 0.1
    assert np.mean(found.weights[~hit] == 1.0) > 0.85
    assert np.all((found.weights >= 0.0) & (found.weights <= 1.0))
    assert "samples count less" in found.summary()


def test_the_scale_is_that_of_the_noise():
    """The default weights are the noise that was put in, so that a whitened row has a standard deviation of one."""
    bad, _ = spiked(with_noise(rich_motion("g1"), 3), 4)
    assert huber_weights(reference("g1"), bad, nuisance=()).scale == pytest.approx(1.0, abs=0.1)


def test_partial_sensing_is_understood():
    bad, hit = spiked(with_noise(rich_motion("g1"), 5), 6)
    found = huber_weights(reference("g1"), bad, withhold=["left_foot.nz"], nuisance=())
    assert np.median(found.weights[hit]) < 0.2


def test_what_makes_no_sense_is_refused():
    motion = with_noise(rich_motion("g1"), 7)
    with pytest.raises(IdentifiabilityError, match=r"too few to separate outliers"):
        huber_weights(reference("g1"), motion.between(0, 36), nuisance=())
    with pytest.raises(EvidenceError, match=r"single Motion"):
        huber_weights(reference("g1"), [motion], nuisance=())


def test_samples_that_say_nothing_new_do_not_narrow_robust_intervals():
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 1)
    once = identify(model, gather_robust(model, motion, nuisance=()), method="base").base
    rows = np.repeat(np.arange(len(motion)), 5)
    often = replace(motion._at(rows, 5.0 * motion.sample_rate), bandwidth=0.5 * motion.sample_rate)
    again = identify(
        model, gather_robust(model, replace(often, time=np.arange(len(rows)) * 2e-3), nuisance=()), method="base"
    ).base
    ratio = np.median(again.standard_errors / once.standard_errors)
    assert 0.85 < ratio < 1.1
