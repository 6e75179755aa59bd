"""Instruments take away the bias that noise in the regressor brings; correlated noise is counted as what it is."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard import EvidenceError, MotionError, gather_evidence, identify, is_possible, motion_from_generalized
from steelyard.motion import frame_motion
from steelyard.regression.rows import base_wrench
from steelyard.regression.second_pass.instruments import (
    align,
    follow_slowly,
    gather_correlated,
    gather_with_instruments,
    move_base,
)
from steelyard.regression.second_pass.motion_rows import begin_second_pass, least_squares
from tests.identification.worlds import reference, rich_motion, truth, with_noise

COUNT = 500


@cache
def gentle_motion():
    """Gives samples about one posture, all standing on the right foot, with exact wrenches of the true robot.

    The noise of accelerations then does about the same to every sample, as in a real motion.
    """
    model = reference("g1")
    generator = np.random.default_rng(5)
    q = np.tile(model.neutral, (COUNT, 1))
    q[:, 7:] += 0.4 * generator.normal(size=(COUNT, 29))
    v, a = generator.normal(size=(2, COUNT, model.velocity_size))
    motion = motion_from_generalized(model, np.arange(COUNT) / 100.0, q, v, a)
    total = base_wrench(model, motion, truth("g1"))
    foot = frame_motion(model, motion, "right_ankle_roll_link")
    moment = total[:, 3:] - np.cross(foot.position, total[:, :3])
    felt = np.concatenate([foot.in_own_axes(total[:, :3]), foot.in_own_axes(moment)], axis=1)
    return replace(motion, wrenches={"right_foot": felt, "left_foot": np.zeros((COUNT, 6))})


def shaken(motion, seed, size=0.3):
    """Gives the motion as noisy encoders tell its accelerations."""
    generator = np.random.default_rng(seed)
    return replace(motion, a=motion.a + size * generator.normal(size=motion.a.shape))


def scores_of(evidence):
    """Gives the errors of the independent parameters over their standard errors, and these."""
    triangle = evidence.factor[:-1, :-1]
    variance = evidence.variance
    if variance is None:
        variance = evidence.factor[-1, -1] ** 2 / (evidence.row_count - len(triangle))
    count = len(evidence.independent)
    stated = np.sqrt(variance) * np.linalg.norm(np.linalg.inv(triangle), axis=1)[:count]
    return (least_squares(evidence)[:count] - evidence.dependence @ truth("g1").ravel()) / stated, stated


def test_noise_in_the_regressor_biases_least_squares_and_not_the_instruments():
    model, exact = reference("g1"), gentle_motion()
    plain, by_instruments = [], []
    for seed in range(4):
        motion = shaken(with_noise(exact, seed), 100 + seed)
        plain.append(scores_of(gather_evidence(model, motion, nuisance=()))[0])
        # Another run of the same trajectory: as noisy, with noise of its own.
        repeated = shaken(exact, 200 + seed)
        by_instruments.append(scores_of(gather_with_instruments(model, motion, repeated, follow=None, nuisance=()))[0])
    assert np.mean(np.abs(plain) < 1.96) < 0.7
    # Five hundred samples are few for 213 parameters and noise that is not alike over time.
    assert 0.9 < np.mean(np.abs(by_instruments) < 1.96) < 0.98
    assert np.mean(np.abs(np.mean(plain, axis=0)) > 2.0) > 0.05
    assert np.mean(np.abs(np.mean(by_instruments, axis=0)) > 2.0) < 0.01


def test_noiseless_motions_give_back_the_truth():
    model, exact = reference("g1"), gentle_motion()
    evidence = gather_with_instruments(model, exact, shaken(exact, 1), follow=None, nuisance=())
    assert evidence.rank == 213
    wanted = evidence.dependence @ truth("g1").ravel()
    np.testing.assert_allclose(least_squares(evidence), wanted, rtol=1e-7, atol=1e-8)


def test_least_squares_is_the_same_with_its_correlation_counted():
    model, motion = reference("g1"), with_noise(gentle_motion(), 3)
    plain, counted = gather_evidence(model, motion, nuisance=()), gather_correlated(model, motion, nuisance=())
    np.testing.assert_allclose(least_squares(counted), least_squares(plain), rtol=1e-8, atol=1e-9)
    # This noise is white: counting must not change the standard errors.
    ratio = scores_of(counted)[1] / scores_of(plain)[1]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert counted.effective_count == pytest.approx(COUNT, rel=0.1)
    assert counted.variance == 1.0


def test_every_estimator_works_on_it():
    model, motion = reference("g1"), with_noise(gentle_motion(), 4)
    evidence = gather_with_instruments(model, motion, shaken(motion, 5), follow=None, nuisance=())
    base = identify(model, evidence, method="base").base
    assert base.rank == 213
    errors = (base.values - base.of(truth("g1").ravel())) / base.standard_errors
    assert np.mean(np.abs(errors) < 1.96) > 0.88
    truncated = identify(model, evidence, method="truncated", c_max=1e3)
    assert np.all(np.isfinite(truncated.parameters))
    for method in ("conic", "geometric"):
        physical = identify(model, evidence, method=method)
        assert physical.status == "solved"
        assert np.all(is_possible(physical.parameters))
        assert physical.fit.freedom == np.inf, "their variance is known"


def test_nuisance_columns_come_along():
    model, motion = reference("g1"), with_noise(gentle_motion(), 6)
    offset = np.array([3.0, -2.0, 4.0, 0.1, 0.2, -0.1])
    pushed = replace(motion, wrenches={**motion.wrenches, "left_foot": motion.wrenches["left_foot"] + offset})
    evidence = gather_with_instruments(model, pushed, shaken(motion, 7), follow=None, nuisance=["wrench_offset"])
    found = identify(model, evidence, method="base").nuisance
    assert found["left_foot.fz.offset"] - found["right_foot.fz.offset"] == pytest.approx(4.0, abs=2.0)
    without = scores_of(gather_with_instruments(model, pushed, shaken(motion, 7), follow=None, nuisance=()))[0]
    scores = scores_of(evidence)[0]
    assert np.std(scores) < np.std(without)


def test_evidence_by_instruments_adds_to_its_like_alone():
    model, motion = reference("g1"), with_noise(gentle_motion(), 8)
    one = gather_with_instruments(model, motion, shaken(motion, 9), follow=None, nuisance=())
    other = gather_with_instruments(model, with_noise(motion, 10), shaken(motion, 11), follow=None, nuisance=())
    both = one + other
    assert both.variance == 1.0
    assert np.all(scores_of(both)[1] < scores_of(one)[1])
    with pytest.raises(EvidenceError, match=r"different instruments"):
        one + gather_evidence(model, motion, nuisance=())


def test_the_base_link_may_be_another():
    model, motion = reference("g1"), with_noise(gentle_motion(), 12)
    there = move_base(model, motion, "torso_link")
    assert there.base == "torso_link"
    # Generalised least squares does not depend on the base link.
    np.testing.assert_allclose(
        gather_evidence(model, there, nuisance=()).cost(truth("g1")),
        gather_evidence(model, motion, nuisance=()).cost(truth("g1")),
        rtol=1e-6,
    )
    repeated = shaken(motion, 13)
    moved = gather_with_instruments(model, there, repeated, follow=None, nuisance=())
    alike = gather_with_instruments(model, there, move_base(model, repeated, "torso_link"), follow=None, nuisance=())
    np.testing.assert_allclose(moved.factor, alike.factor, rtol=1e-6, atol=1e-6 * np.max(np.abs(alike.factor)))
    with pytest.raises(MotionError, match=r"does not carry"):
        gather_with_instruments(model, motion, there, follow=None, nuisance=())


def test_instruments_follow_what_is_slow_and_nothing_else():
    motion = gentle_motion()
    time = motion.time
    slow, fast = np.sin(2.0 * np.pi * 0.5 * time)[:, None], np.sin(2.0 * np.pi * 20.0 * time)[:, None]
    measured = replace(motion, q=motion.q + 0.1 * slow + 0.1 * fast)
    followed = follow_slowly(motion, measured, 3.0)
    inside = slice(100, -100)
    np.testing.assert_allclose((followed.q - motion.q)[inside], (0.1 * slow + 0.0 * motion.q)[inside], atol=2e-3)
    with pytest.raises(MotionError, match=r"cannot follow"):
        follow_slowly(motion, measured, 60.0)


def test_instruments_at_other_times_are_refused():
    motion = gentle_motion()
    assert len(align(motion, motion.between(10, 50))) == 40
    np.testing.assert_array_equal(align(motion, motion.between(10, 50)).q, motion.q[10:50])
    late = replace(motion, time=motion.time + 0.004)
    with pytest.raises(MotionError, match=r"no sample at"):
        gather_with_instruments(reference("g1"), motion, late, nuisance=())
    with pytest.raises(EvidenceError, match=r"single Motion"):
        gather_with_instruments(reference("g1"), [motion], motion, nuisance=())


def test_soles_that_lift_for_a_while_are_understood():
    """Where a foot stands throughout, its own rows say nothing; a second pass sees the rows that the first one saw."""
    model, lifting = reference("icub"), rich_motion("icub", count=600)
    order = np.argsort(lifting.contacts["left"], kind="stable")[::-1]
    motion = lifting._at(order, lifting.sample_rate)
    motion = with_noise(replace(motion, time=lifting.time), 14)
    first = begin_second_pass(model, motion, nuisance=())
    unknowns = least_squares(first.evidence)
    left = np.linalg.norm(first.evidence.factor @ np.append(unknowns, -1.0))
    assert np.linalg.norm(first.residual(unknowns)) == pytest.approx(left, rel=1e-9)
    counted = gather_correlated(model, motion, nuisance=())
    np.testing.assert_allclose(least_squares(counted), unknowns, rtol=1e-6, atol=1e-7)


def test_weights_of_samples_are_refused():
    motion = gentle_motion()
    with pytest.raises(EvidenceError, match=r"takes no sample_weights"):
        gather_correlated(reference("g1"), motion, sample_weights=np.ones(COUNT), nuisance=())
