"""One pass over the tree serves all terms of a sample's rows, and errors of inertial sensors are exact derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from steelyard import gather_evidence, load_model
from steelyard.kinematics import BLOCK, tree_pass
from steelyard.motion import tree_motion
from steelyard.regression import plan_nuisance, plan_sensing
from steelyard.regression.rows import all_columns
from steelyard.regression.system import System
from tests.regression.motions import standing_motion

SENSORS = ("wrench_offset", "accelerometer_bias", "imu_mounting")


def test_each_sample_takes_one_pass_whatever_its_rows_need(monkeypatch):
    model = load_model("g1")
    motion = standing_motion(model, 700, 1)
    options = {"nuisance": SENSORS, "withhold": ["left_foot.fx"], "workers": 2}
    wanted = gather_evidence(model, motion, **options)  # the search for independent columns takes passes of its own
    passed, kernel = [], tree_pass._spread

    def count(tree, walk, motion, start, states):
        passed.append(len(states))
        kernel(tree, walk, motion, start, states)

    monkeypatch.setattr(tree_pass, "_spread", count)
    again = gather_evidence(model, motion, **options)
    assert sum(passed) == len(motion)
    assert max(passed) <= BLOCK
    np.testing.assert_array_equal(again.factor, wanted.factor)


@pytest.mark.parametrize("base", ["pelvis", "left_knee_link"])
@pytest.mark.parametrize("torques", [(), ("*_elbow_*", "left_hip_*")])
def test_errors_of_inertial_sensors_are_derivatives_of_the_required_forces(base, torques):
    model = load_model("g1")
    motion = replace(standing_motion(model, 30, 2), base=base)
    sensing = plan_sensing(model, wrenches=motion.wrenches, torques=torques)
    nuisance = plan_nuisance(model, sensing, SENSORS[1:])
    system = System(model, base, sensing, nuisance, None, all_columns(model))
    plan, states = system.plan(motion), tree_motion(motion)
    columns = system.nuisance_columns(plan, states, system.evaluate(plan, states), system.readings(motion))

    def required(states):
        return system.evaluate(plan, states, parameters=[model.parameters]).required[0]

    for number, axis in enumerate(np.eye(3)):
        biased = states._replace(proper_acceleration=states.proper_acceleration - axis)
        # The wrench is linear in the proper acceleration, and quadratic in all rates: differences are derivatives.
        bias = required(biased) - required(states)
        later, earlier = (
            required(states._replace(**{name: getattr(states, name) + sign * np.cross(axis, getattr(states, name))
                                        for name in states._fields[3:]}))
            for sign in (1.0, -1.0)
        )  # fmt: skip
        size = np.abs(required(states)).max()
        np.testing.assert_allclose(columns[:, :, number], bias, atol=1e-12 * size)
        np.testing.assert_allclose(columns[:, :, 3 + number], 0.5 * (later - earlier), atol=1e-12 * size)
