"""The verdict is no better than the worst of what is known, and says why."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import steelyard as sy
from steelyard.validation.bootstrap import Gain
from steelyard.validation.judge import EXPLAINED, LIKELY, describe_verdict, nearer_probability
from tests.laboratory.trials import robot, short_trial

GRADES = ("good", "weak", "bad")


@cache
def estimate():
    prepared = sy.prepare(robot("g1"), [short_trial("g1", "dance", noise="default").recording])
    return sy.identify(robot("g1"), prepared.gather(), draws=0)


@cache
def validation():
    return sy.validate(estimate(), short_trial("g1", "reach", noise="default").recording)


def sound_estimate():
    """Gives an estimate against which nothing speaks: long, decided, and of small offsets."""
    found = estimate()
    return replace(
        found,
        covariance=1e-6 * found.covariance,
        nuisance=dict.fromkeys(found.nuisance, 0.0),
        fit=replace(found.fit, freedom=500.0),
        options={**found.options, "noise_factor": 1.0},
        status="solved",
    )


def decided(verdict, scaled="real", plain="real"):
    """Gives a validation on which nothing but noise is left, with verdicts in every row."""
    gains = {
        other: {row: Gain(0.5, 0.4, 0.6, each) for row in validation().improvement[other]}
        for other, each in (("corrected", scaled), ("reference", plain))
    }
    floor = dict(zip(("fx", "fy", "fz", "nx", "ny", "nz"), validation().rmse.tolist(), strict=True))
    return replace(validation(), improvement=gains, noise_floor=floor, kind=verdict)


def test_where_nothing_speaks_against_it_an_estimate_is_good():
    found = sy.judge(sound_estimate(), decided("cross"))
    assert (found.overall, found.prediction, found.links, found.total_mass) == ("good", "better", "good", "good")
    assert describe_verdict(found)[0].startswith("Good. On unseen motion, it predicts significantly better")


def test_without_an_unseen_motion_nothing_is_said_of_predictions():
    for given in (None, decided("direct"), decided("partly direct")):
        found = sy.judge(sound_estimate(), given)
        assert found.prediction == ""
        assert found.overall == "weak"
    assert "Not validated" in sy.judge(sound_estimate()).reasons[0]


@pytest.mark.parametrize(
    ("scaled", "plain", "prediction", "overall"),
    [
        ("worse", "real", "worse", "bad"),
        ("undecided", "real", "undecided", "weak"),
        ("real", "undecided", "undecided", "weak"),
        ("real", "worse", "undecided", "weak"),
    ],
)
def test_a_prediction_that_is_not_better_is_not_praised(scaled, plain, prediction, overall):
    found = sy.judge(sound_estimate(), decided("cross", scaled, plain))
    assert (found.prediction, found.overall) == (prediction, overall)
    assert not any("significantly better" in reason for reason in found.reasons)


def with_offsets(found):
    return replace(found, nuisance={name: 5.0 if ".f" in name else 0.5 for name in found.nuisance})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda found: replace(found, status="weak"), "little more than the total mass"),
        (lambda found: replace(found, status="stopped"), "stopped before it converged"),
        (lambda found: replace(found, options={**found.options, "noise_factor": 5.0}), "5.0 times larger"),
        (lambda found: replace(found, fit=replace(found.fit, freedom=20.0)), "recordings are short"),
        (lambda found: replace(found, covariance=1e12 * found.covariance), "did not decide the masses"),
        (with_offsets, "larger than those of zeroed sensors"),
        (lambda found: replace(found, solution=-found.solution), "physically impossible"),
    ],
)
def test_each_doubt_caps_the_verdict_whatever_the_prediction(spoil, words):
    found = sy.judge(spoil(sound_estimate()), decided("cross"))
    assert found.prediction == "better"
    assert GRADES.index(found.overall) > 0
    assert GRADES.index(found.links) > 0
    assert any(words in reason for reason in found.reasons)
    assert words in found.reasons[0] or not describe_verdict(found)[0].startswith("Good")


def test_errors_beyond_the_noise_floor_cap_the_verdict():
    good = decided("cross")
    assert good.misfit == pytest.approx(1.0)
    poor = replace(good, noise_floor={name: level / (EXPLAINED + 0.1) for name, level in good.noise_floor.items()})
    found = sy.judge(sound_estimate(), poor)
    assert (found.overall, found.links) == ("weak", "weak")
    assert f"{EXPLAINED + 0.1:.1f} times what the sensors' noise explains" in found.reasons[0]


def test_the_chance_of_nearer_masses_is_that_of_drawn_truths():
    """Of truths drawn from the posterior, as many are nearer to the estimate than to the reference as stated."""
    found = estimate()
    masses = found.covariance[::10, ::10]
    change = found.parameters[:, 0] - found.reference[:, 0]
    generator = np.random.default_rng(0)
    for scale in (0.2, 1.0, 5.0):
        wider = replace(found, covariance=scale**2 * found.covariance)
        errors = generator.multivariate_normal(np.zeros(len(change)), scale**2 * masses, size=20_000)
        nearer = np.mean(np.linalg.norm(errors, axis=1) < np.linalg.norm(errors + change, axis=1))
        assert nearer_probability(wider) == pytest.approx(nearer, abs=0.015)
    assert nearer_probability(replace(found, solution=found.reference.copy())) == 0.5 < LIKELY


def test_white_noise_alone_leaves_its_floor():
    """The true robot, measured by sensors with white noise only, errs as much as the noise floor says."""
    sensors = short_trial("g1", "reach", noise="default").sensors
    white = {
        name: replace(getattr(sensors, name), bias=0.0, delay=0.0, correlation=0.0)
        for name in ("gyro", "accelerometer", "force", "moment")
    }
    trial = short_trial("g1", "reach").with_noise(
        3, noise=replace(sensors, **white, mounting=type(sensors.mounting)(), encoder=sensors.encoder)
    )
    true = replace(estimate(), solution=trial.truth.parameters, nuisance={}, nuisance_fit=None)
    found = sy.validate(true, trial.recording)
    assert 0.8 < found.misfit < 1.3
    assert set(found.noise_floor) == {"fx", "fy", "fz", "nx", "ny", "nz"}


def test_motions_have_no_noise_floor():
    motion = sy.reconstruct_motion(robot("g1"), short_trial("g1", "reach", noise="default").recording)
    found = sy.validate(estimate(), motion)
    assert found.noise_floor == {}
    assert np.isnan(found.misfit)


def test_a_verdict_is_plain_text_for_machines():
    plain = sy.judge(sound_estimate(), decided("cross")).to_dict()
    assert set(plain) == {"overall", "prediction", "links", "total_mass", "reasons"}
    assert isinstance(plain["reasons"], list)
