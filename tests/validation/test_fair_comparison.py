"""No candidate is judged with sensor errors that were fitted to another, and too few blocks decide nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import steelyard as sy
from steelyard.validation.bootstrap import draw_blocks
from tests.laboratory.trials import robot, short_trial


@cache
def motion(name):
    return sy.reconstruct_motion(robot("g1"), short_trial("g1", name, noise="default").recording)


@cache
def evidence(*names):
    return sum(sy.gather_evidence(robot("g1"), motion(name)) for name in names)


@cache
def estimate(*names):
    return sy.identify(robot("g1"), evidence(*names), draws=0)


@cache
def truth():
    return short_trial("g1", "dance", noise="default").truth.parameters


def shifted(motion, force, origin="elsewhere"):
    """Gives a motion whose wrench sensors have further offsets (N; a tenth in N m)."""
    push = force * np.array([0.3, -0.5, 1.0, 0.1, 0.05, -0.1])
    moved = {name: values + push for name, values in motion.wrenches.items()}
    return replace(motion, wrenches=moved, origin=origin)


@pytest.mark.parametrize("names", [("dance",), ("dance", "sway")])
def test_the_nuisances_of_any_parameters_are_their_best_on_the_training_data(names):
    found, gathered = estimate(*names), evidence(*names)
    noise = float(found.options["noise_factor"]) * np.sqrt(
        found.fit.variance * found.fit.sample_count / found.fit.effective_count
    )
    closed = gathered.closed(noise)
    full = closed.full_factor
    for parameters in (found.parameters, found.reference, truth()):
        best = found.nuisance_fit.at(parameters)
        robots = np.array([best[name] for name in closed.key.nuisance])
        weights = noise / np.array(closed.key.priors)

        def cost(values, parameters=parameters, weights=weights):
            left = full @ np.concatenate([np.ravel(parameters), values, [-1.0]])
            return left @ left + np.sum(np.square(weights * values))

        least = cost(robots)
        for step in np.eye(len(robots)):
            assert cost(robots + 1e-3 * step) > least * (1.0 - 1e-9)
            assert cost(robots - 1e-3 * step) > least * (1.0 - 1e-9)
        own = [each.values(np.concatenate([np.ravel(parameters), robots])) for each in closed.errors]
        for name, value in zip(closed.errors[0].names, np.mean(own, axis=0), strict=True):
            np.testing.assert_allclose(best[name], value, rtol=1e-4, atol=1e-4)


def test_nuisances_at_the_estimate_are_the_estimate_s_own():
    found = estimate("dance")
    assert found.nuisance_fit.at(found.parameters) == dict(found.nuisance)


def test_an_invented_offset_is_no_disadvantage_of_others():
    """The truth predicts as well as it can, whatever offsets the estimate comes with."""
    found = estimate("dance")
    heavier = found.solution.copy()
    heavier[0, 0] += 2.0
    odd = replace(found, solution=heavier)
    fair = sy.validate(odd, motion("reach"), truth=truth(), zeroed=False)
    known = sy.validate(found, motion("reach"), truth=truth(), zeroed=False)
    np.testing.assert_array_equal(fair.truth.rmse, known.truth.rmse)
    np.testing.assert_array_equal(fair.reference.rmse, known.reference.rmse)
    # Two kilograms and twenty newtons of offset predict standing still, but no candidate better than the truth.
    assert np.sum(fair.truth.rmse**2) < 1.1 * np.sum(known.rmse**2)


def test_the_same_parameters_predict_the_same_whoever_names_them():
    found = estimate("dance")
    claimed = replace(found, solution=found.reference.copy())
    same = sy.validate(claimed, motion("reach"), zeroed=True, nuisance=["wrench_offset", "accelerometer_bias"])
    np.testing.assert_allclose(same.rmse, same.reference.rmse, rtol=1e-12)
    assert {gain.verdict for gain in same.improvement["reference"].values()} == {"undecided"}


def test_zeroing_is_noticed_and_changes_no_comparison():
    found = estimate("dance")
    still = sy.validate(found, motion("reach"), truth=truth(), zeroed=True)
    moved = sy.validate(found, shifted(motion("reach"), 6.0), truth=truth())
    assert moved.zeroed
    assert any("as after zeroing" in note for note in moved.notes)
    for candidate in ("estimate", "reference", "corrected", "truth"):
        here, there = (getattr(each.wrench, candidate).rmse for each in (moved, still))
        # The prior holds offsets of 6 N towards zero by a few hundredths.
        np.testing.assert_allclose(here, there, rtol=0.1, atol=0.05)
    stale = sy.validate(found, shifted(motion("reach"), 6.0), truth=truth(), zeroed=False)
    assert not stale.zeroed
    assert stale.rmse[2] > 5.0


def test_sensors_that_were_not_zeroed_keep_the_offsets_of_the_training_data():
    found = sy.validate(estimate("dance"), motion("reach"))
    assert not found.zeroed
    assert set(found.sensor_errors) == {""}
    assert found.sensor_errors[""]["estimate"] == pytest.approx(dict(estimate("dance").nuisance))


def test_recordings_given_together_have_offsets_of_their_own():
    sums = {}
    # With both feet on the floor, only the sum of their offsets is observable.
    both = ("left_foot.fz.offset", "right_foot.fz.offset")
    for force in (8.0, 12.0):
        found = sy.validate(estimate("dance"), [motion("reach"), shifted(motion("sway"), force)])
        sums[force] = sum(found.sensor_errors["elsewhere"]["estimate"][name] for name in both)
        assert motion("reach").origin not in found.sensor_errors
    assert sums[12.0] - sums[8.0] == pytest.approx(8.0, abs=0.8)


def test_too_few_blocks_decide_nothing_however_clear():
    generator = np.random.default_rng(0)
    slow = np.cumsum(generator.normal(size=(60, 1)), axis=0) ** 2 + 1.0
    squares = np.concatenate([1e-6 * slow, slow], axis=1)
    draws = draw_blocks([squares], [(0, 1)], seed=0)
    assert draws.blocks <= 5.0
    gain = draws.gain([0], [1], 0.95)
    assert gain.ratio < 0.01
    assert gain.verdict == "undecided"


def test_an_estimate_that_is_stored_is_judged_alike(tmp_path):
    estimate("dance").save(tmp_path / "estimate.json")
    loaded = sy.load_estimate(tmp_path / "estimate.json")
    here, there = (sy.validate(each, motion("reach")) for each in (estimate("dance"), loaded))
    np.testing.assert_allclose(here.reference.rmse, there.reference.rmse, rtol=1e-12)
    np.testing.assert_allclose(here.corrected.rmse, there.corrected.rmse, rtol=1e-12)
