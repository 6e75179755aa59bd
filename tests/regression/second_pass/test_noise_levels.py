"""Noise that was put in is found again."""

from dataclasses import replace

import numpy as np
import pytest

from steelyard import IdentifiabilityError, gather_evidence, identify
from steelyard.regression import estimate_noise
from tests.identification.worlds import reference, rich_motion, truth


def noisy(levels, seed, *, torque=0.0, count=300):
    """Gives a motion with white noise of given levels by sensor, and on all torques."""
    motion = rich_motion("g1", count=count)
    generator = np.random.default_rng(seed)
    wrenches = {
        name: values + np.repeat(levels[name], 3) * generator.normal(size=values.shape)
        for name, values in motion.wrenches.items()
    }
    torques = {name: values + torque * generator.normal(size=values.shape) for name, values in motion.torques.items()}
    return replace(motion, wrenches=wrenches, torques=torques)


LEVELS = {"left_foot": (2.0, 0.1), "right_foot": (0.7, 0.1)}


def test_the_noise_of_two_sensors_is_told_apart():
    found = estimate_noise(reference("g1"), noisy(LEVELS, 1), nuisance=())
    assert found.settled
    # Whatever the robot does, moments of two feet add to each other at the base link: they share one level.
    wanted = {"left_foot force": 2.0, "left_foot moment and right_foot moment": 0.1, "right_foot force": 0.7}
    assert {level.name for level in found.levels} == set(wanted)
    for level in found.levels:
        assert abs(level.level - wanted[level.name]) < 4.0 * level.error
        assert level.error < 0.2 * wanted[level.name]
    assert found.weights["left_foot.fx"] == found.weights["left_foot.fz"]


def test_no_level_collapses_where_the_rows_hardly_tell_it_apart():
    # Forces of two feet differ by their lever arms alone, which 0.15 N m of moment noise hides in a short motion: the
    # likelihood alone is greatest with one foot without any noise, in three of these fourteen.
    equal = {"left_foot": (0.1, 0.15), "right_foot": (0.1, 0.15)}
    for seed in range(14):
        found = estimate_noise(reference("g1"), noisy(equal, seed, count=80), nuisance=())
        assert found.settled
        for level in found.levels:
            true = 0.15 if "moment" in level.name else 0.1
            assert true / 3.0 < level.level < 3.0 * true
            assert abs(level.level - true) < 4.0 * level.error


def test_it_scales_with_the_noise():
    once = estimate_noise(reference("g1"), noisy(LEVELS, 2), nuisance=())
    # The same noise tenfold: forces that are ten times as large of parameters that are ten times as large.
    motion = noisy(LEVELS, 2)
    often = replace(motion, wrenches={name: 10.0 * values for name, values in motion.wrenches.items()})
    again = estimate_noise(reference("g1"), often, nuisance=())
    for one, other in zip(once.levels, again.levels, strict=True):
        assert other.level == pytest.approx(10.0 * one.level, rel=0.05)


def test_joint_torques_have_their_own():
    torques = ["left_shoulder_pitch_joint", "right_elbow_joint"]
    found = estimate_noise(reference("g1"), noisy(LEVELS, 3, torque=0.03), torques=torques, nuisance=())
    for joint in torques:
        assert found.weights[joint] == pytest.approx(0.03, rel=0.3)


def test_partial_sensing_is_understood():
    found = estimate_noise(reference("g1"), noisy(LEVELS, 4), withhold=["left_foot.nz"], nuisance=())
    names = {level.name for level in found.levels}
    assert {"left_foot force", "right_foot force"} <= names
    assert "left_foot.nz" not in found.weights


def test_right_weights_give_right_and_narrower_intervals():
    model, true = reference("g1"), truth("g1").ravel()
    levels = {"left_foot": (5.0, 0.1), "right_foot": (0.2, 0.1)}
    plain, weighed = [], []
    for seed in range(12):
        motion = noisy(levels, 50 + seed)
        weights = estimate_noise(model, motion, nuisance=()).weights
        for scores, option in ((plain, "default"), (weighed, weights)):
            base = identify(model, gather_evidence(model, motion, weights=option, nuisance=()), method="base").base
            scores.append((base.values - base.of(true), base.standard_errors))
    errors, stated = np.array(weighed).transpose(1, 0, 2)
    assert 0.9 < np.std(errors / stated) < 1.1
    worse, _ = np.array(plain).transpose(1, 0, 2)
    assert np.median(np.std(errors, axis=0) / np.std(worse, axis=0)) < 0.8


def test_too_short_a_motion_is_refused():
    with pytest.raises(IdentifiabilityError, match="too few to separate noise"):
        estimate_noise(reference("g1"), noisy(LEVELS, 5).between(0, 30), nuisance=())


def test_it_says_what_it_found():
    text = estimate_noise(reference("g1"), noisy(LEVELS, 6), nuisance=()).summary()
    assert "left_foot force" in text
    assert "settled" in text
