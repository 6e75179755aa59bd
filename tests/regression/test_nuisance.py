"""Nuisance columns of joints: friction as a filter leaves it, offsets, ripples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from steelyard import gather_evidence
from steelyard.regression.decomposition import singular_vectors
from steelyard.regression.nuisance import PRESLIDING, RIPPLE_ORDERS, _direction
from tests.laboratory.trials import with_torques
from tests.regression.motions import standing_motion


@pytest.mark.parametrize("group", ["torque_offset", "torque_ripple", "presliding_friction"])
def test_columns_explain_what_they_stand_for(group):
    model = with_torques("g1")
    motion = standing_motion(model, 40, 3)
    joint, place = model.joints[3], 3
    added = {
        "torque_offset": {f"{joint}.torque_offset": np.ones(40)},
        "torque_ripple": {
            f"{joint}.torque_ripple.{wave}{order}": function(order * motion.q[:, place])
            for order in RIPPLE_ORDERS
            for wave, function in (("sin", np.sin), ("cos", np.cos))
        },
        "presliding_friction": {
            f"{joint}.presliding_friction": _direction(motion.v[:, place], motion.a[:, place], PRESLIDING, None)
        },
    }[group]
    values = dict(zip(added, np.random.default_rng(4).uniform(-1.0, 1.0, len(added)), strict=True))
    wrong = motion.torques[joint] + sum(values[name] * column for name, column in added.items())
    moved = replace(motion, torques={**motion.torques, joint: wrong})
    evidence = gather_evidence(model, moved, torques=[joint], nuisance=[group], weights=None)
    assert evidence.key.nuisance == tuple(added)
    assert evidence.cost(model.parameters) > 1e-3
    assert evidence.cost(model.parameters, list(values.values())) < 1e-16 * evidence.cost(0.0 * model.parameters)


def test_friction_passes_the_filter_that_its_torques_passed():
    # A joint that swings to and fro: the column without a filter, filtered, against the column for filtered torques.
    rate, cutoff = 1000.0, 2.0
    time = np.arange(0.0, 12.0, 1.0 / rate)
    speed, acceleration = np.sin(1.5 * time), 1.5 * np.cos(1.5 * time)
    sections = butter(4, cutoff / (np.sqrt(2.0) - 1.0) ** 0.125, fs=rate, output="sos")
    middle = slice(2000, -2000)
    for slack in (0.0, PRESLIDING):
        plain = _direction(speed, acceleration, slack, None)
        wanted = sosfiltfilt(sections, plain)[middle]
        given = _direction(speed, acceleration, slack, cutoff)[middle]
        left = np.sqrt(np.mean((given - wanted) ** 2))
        assert left < 0.35 * np.sqrt(np.mean((plain[middle] - wanted) ** 2))


def test_presliding_friction_turns_around_late():
    time = np.linspace(-0.5, 0.5, 2001)
    late = _direction(0.2 * time, np.full(2001, 0.2), PRESLIDING, None)
    turned = time[np.flatnonzero(np.diff(late))[0]]
    np.testing.assert_allclose(0.5 * 0.2 * turned**2, PRESLIDING, rtol=0.03)
    np.testing.assert_array_equal(_direction(np.array([-1.0, 2.0]), np.zeros(2), PRESLIDING, 2.0), [-1.0, 1.0])


def test_singular_vectors_survive_a_solver_that_gives_up(monkeypatch):
    matrix = np.random.default_rng(5).normal(size=(9, 4)) @ np.diag([1.0, 2.0, 0.0, 3.0])
    wanted = singular_vectors(matrix)[1]

    def give_up(*_args, **_options):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", give_up)
    left, values, right = singular_vectors(matrix)
    np.testing.assert_allclose(values, wanted, atol=1e-12)
    np.testing.assert_allclose(left @ np.diag(values) @ right, matrix, atol=1e-12)
