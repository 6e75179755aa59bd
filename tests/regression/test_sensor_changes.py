"""Columns for gains and drift of wrench sensors and for encoder offsets: they explain what Pinocchio's forces show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from steelyard import gather_evidence, identify, load_model
from steelyard.regression.gathering import build_system
from tests.laboratory.trials import with_torques
from tests.regression.motions import standing_motion

ROBOTS = ("g1", "talos")


@cache
def standing(robot: str):
    model = load_model(robot)
    return model, standing_motion(model, 40, 3)


def changed(motion, group: str, values: dict[str, float]):
    """Gives a motion as sensors would have made it whose errors are those of a group."""
    wrenches = {name: each.copy() for name, each in motion.wrenches.items()}
    for sensor, each in wrenches.items():
        for place, axis in enumerate(("fx", "fy", "fz", "nx", "ny", "nz")):
            value = values.get(f"{sensor}.{axis}.{group}", 0.0)
            if group == "wrench_gain":
                each[:, place] /= 1.0 - value
            elif group == "wrench_drift":
                each[:, place] += value * (motion.time - motion.time[0])
    return replace(motion, wrenches=wrenches)


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize(("group", "size"), [("wrench_gain", 0.02), ("wrench_drift", 2.0)])
def test_columns_explain_changed_channels_exactly(robot, group, size):
    model, motion = standing(robot)
    # Time may begin anywhere.
    motion = replace(motion, time=motion.time + 1e3)
    names = gather_evidence(model, motion, nuisance=[group], weights=None).key.nuisance
    values = dict(zip(names, size * np.random.default_rng(5).normal(size=len(names)), strict=True))
    assert len(values) == 12
    evidence = gather_evidence(model, changed(motion, group, values), nuisance=[group], weights=None)
    without = evidence.cost(model.parameters)
    assert without > 1.0
    assert evidence.cost(model.parameters, list(values.values())) < 1e-12 * without


@pytest.mark.parametrize("robot", ROBOTS)
def test_columns_explain_encoder_offsets(robot):
    model, motion = standing(robot)
    first = gather_evidence(model, motion, nuisance=["encoder_offset"], weights=None)
    assert first.key.nuisance == tuple(f"{joint}.encoder_offset" for joint in model.joints)
    assert first.key.reference
    generator = np.random.default_rng(6)
    for size, left in ((1e-5, 1e-8), (5e-3, 1e-3)):
        added = size * generator.normal(size=len(model.joints))
        # An offset is what must be added to the reading to get the true angle.
        moved = replace(motion, q=motion.q - added)
        evidence = gather_evidence(model, moved, nuisance=["encoder_offset"], weights=None)
        assert evidence.cost(model.parameters, added) < left * evidence.cost(model.parameters)


def test_columns_of_joint_torques_are_finite_differences():
    model = with_torques("g1")
    motion = standing_motion(model, 10, 3)
    joint, size = model.joints[3], 1e-5
    options = {"torques": [joint], "weights": None}
    system = build_system(model, motion, nuisance=["encoder_offset"], **options)
    column = system.rows(motion)[0][:, -2 - len(model.joints) + 3 + 1]
    rows = []
    for step in (size, -size):
        q = motion.q.copy()
        q[:, 3] += step
        moved = replace(motion, q=q)
        rows.append(build_system(model, moved, nuisance=(), **options).residuals(moved, model.parameters).reshape(-1))
    np.testing.assert_allclose(column, (rows[0] - rows[1]) / (2.0 * size), rtol=1e-6, atol=1e-5)


def test_an_estimate_may_have_gains_and_encoder_offsets():
    model, motion = standing("g1")
    groups = ["wrench_offset", "wrench_gain", "encoder_offset"]
    estimate = identify(model, gather_evidence(model, motion, nuisance=groups), method="quadratic")
    assert set(estimate.nuisance) >= {"left_foot.fz.wrench_gain", f"{model.joints[0]}.encoder_offset"}
    np.testing.assert_allclose(estimate.nuisance["left_foot.fz.wrench_gain"], 0.0, atol=0.01)
