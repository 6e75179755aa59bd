"""What standard errors promise, they keep; and what base parameters are called."""

import numpy as np
import pytest

from steelyard import IdentifiabilityError, gather_evidence, identify
from steelyard.identification.estimate.base_parameters import describe_grouping, reduce_to_essential
from tests.identification.worlds import reference, rich_motion, truth, with_noise


def test_intervals_hold_the_truth_as_often_as_they_say():
    model, clean = reference("g1"), rich_motion("g1")
    held, wider = [], []
    for seed in range(40):
        base = identify(model, gather_evidence(model, with_noise(clean, seed), nuisance=()), method="base").base
        true = base.of(truth("g1").ravel())
        low, high = base.intervals().T
        held.append((low <= true) & (true <= high))
        low, high = base.intervals(0.5).T
        wider.append((low <= true) & (true <= high))
    # 40 · 213 intervals, many of them correlated: three standard deviations of their share are about 1.5 %.
    assert 0.93 < np.mean(held) < 0.97
    assert 0.47 < np.mean(wider) < 0.53


def test_samples_that_say_nothing_new_do_not_narrow_the_intervals():
    # The same samples ten times over, and a bandwidth that says so.
    from dataclasses import replace

    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 1)
    once = identify(model, gather_evidence(model, motion, nuisance=()), method="base").base
    rows = np.repeat(np.arange(len(motion)), 10)
    filtered = replace(motion._at(rows, 10.0 * motion.sample_rate), bandwidth=0.5 * motion.sample_rate)
    often = identify(
        model, gather_evidence(model, replace(filtered, time=np.arange(len(rows)) * 1e-3), nuisance=()), method="base"
    )
    np.testing.assert_allclose(often.base.standard_errors, once.standard_errors, rtol=1e-6)
    assert any("worth" in note for note in often.notes)
    naive = replace(filtered, bandwidth=None, time=np.arange(len(rows)) * 1e-3)
    claimed = identify(model, gather_evidence(model, naive, nuisance=()), method="base").base
    assert np.median(claimed.standard_errors / once.standard_errors) < 0.4


def test_statistics_follow_the_paper():
    # [baelemans2013] (13)-(15), from the explicit normal matrix of a small problem.
    model = reference("g1")
    evidence = gather_evidence(model, with_noise(rich_motion("g1"), 2), nuisance=())
    base = identify(model, evidence, method="base", parameters=["torso_link", "*elbow*"]).base
    places = [model.parameter_names.index(name) for name in base.names]
    full = evidence.full_factor
    columns = full[:, places]
    held = model.parameters.ravel().copy()
    looked_for = [model.parameter_names.index(name) for name in base.unknowns]
    held[looked_for] = 0.0
    right = full[:, -1] - full[:, :-1] @ held
    values, cost = np.linalg.lstsq(columns, right, rcond=None)[:2]
    variance = float(cost[0]) / (evidence.row_count - base.rank)
    inverse = np.linalg.inv(columns.T @ columns)
    np.testing.assert_allclose(base.values, values, rtol=1e-6)
    np.testing.assert_allclose(base.standard_errors, np.sqrt(variance * np.diagonal(inverse)), rtol=1e-6)
    np.testing.assert_allclose(base.rsd, 100.0 * base.standard_errors / np.abs(values), rtol=1e-6)
    scale = np.sqrt(np.diagonal(inverse))
    np.testing.assert_allclose(base.correlation, inverse / np.outer(scale, scale), rtol=0.0, atol=1e-6)
    effects = np.linalg.norm(columns, axis=0) / np.sqrt(evidence.sample_count)
    np.testing.assert_allclose(base.effects, effects, rtol=1e-9)
    assert np.array_equal(base.well_identified, base.rsd < 15.0)


def test_the_first_base_parameter_is_the_whole_mass():
    model = reference("g1")
    base = identify(model, gather_evidence(model, rich_motion("g1"), nuisance=()), method="base").base
    assert base.names[0] == "pelvis.m"
    assert np.isclose(base.values[0], truth("g1")[:, 0].sum(), rtol=1e-9)
    words = base.describe(0)
    assert words.startswith("pelvis.m + ")
    assert all(f"{link}.m" in words for link in model.links)
    assert base.describe(0, terms=3).endswith("+ 27 more")


def test_base_parameters_do_not_change_from_recording_to_recording():
    model = reference("g1")
    one = identify(model, gather_evidence(model, with_noise(rich_motion("g1"), 3), nuisance=()), method="base").base
    other = identify(
        model, gather_evidence(model, with_noise(rich_motion("g1").between(50, 250), 4), nuisance=()), method="base"
    ).base
    assert one.names == other.names
    np.testing.assert_array_equal(one.groupings, other.groupings)


def test_groupings_are_readable():
    names = ["a.m", "b.m", "c.mz", "d.Ixx"]
    assert describe_grouping("a.m", names, np.array([1.0, 1.0, -0.3141, 0.0])) == "a.m + b.m - 0.314·c.mz"
    assert describe_grouping("a.m", names, np.array([1.0, 0.0, 0.0, 0.0])) == "a.m"


def test_what_has_no_effect_is_not_essential():
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 5, force=20.0, moment=1.0)
    base = identify(model, gather_evidence(model, motion, nuisance=()), method="base").base
    needed = base.essential
    assert needed[0]
    assert 0 < needed.sum() < base.rank
    # Those let go are together no worse than chance: the F statistic by the full covariance, not step by step.
    let_go = ~needed
    values = base.values[let_go]
    statistic = values @ np.linalg.solve(base.covariance[np.ix_(let_go, let_go)], values) / let_go.sum()
    assert statistic < 1.3
    # A stricter test lets fewer stay.
    assert reduce_to_essential(base, level=0.999).sum() <= needed.sum()


def test_strong_correlations_are_named():
    model = reference("g1")
    base = identify(model, gather_evidence(model, with_noise(rich_motion("g1"), 6), nuisance=()), method="base").base
    pairs = base.strongest_pairs(4, above=0.0)
    sizes = [abs(value) for *_, value in pairs]
    assert sizes == sorted(sizes, reverse=True)
    off = np.abs(base.correlation - np.eye(base.rank))
    assert np.isclose(sizes[0], off.max())


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_are_shares(level):
    model = reference("g1")
    estimate = identify(model, gather_evidence(model, with_noise(rich_motion("g1"), 7), nuisance=()))
    with pytest.raises(IdentifiabilityError, match="level"):
        estimate.base.intervals(level)
    with pytest.raises(IdentifiabilityError, match="level"):
        estimate.intervals(level)


def test_the_share_that_data_decide_grows_with_data():
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 8, force=10.0, moment=0.5)
    few = identify(model, gather_evidence(model, motion.between(0, 80), nuisance=()), parameters="L").determined
    many = identify(model, gather_evidence(model, motion, nuisance=()), parameters="L").determined
    assert np.all((few >= 0.0) & (few <= 1.0) & (many >= 0.0) & (many <= 1.0))
    assert many.mean() > few.mean()
