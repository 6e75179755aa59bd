"""Kinematics along chains agree with Pinocchio, for every kind of joint."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings

from steelyard import MotionError, load_model, motion_from_generalized
from steelyard.kinematics import cross
from steelyard.motion import body_motions, frame_motion
from tests.generated_trees import MJCF_KINDS, mjcf_text, trees
from tests.humanoids import random_configuration


def random_motion(model, count, seed):
    generator = np.random.default_rng(seed)
    q = np.array([random_configuration(model, generator) for _ in range(count)])
    v, a = generator.normal(size=(2, count, model.velocity_size))
    return q, v, a, motion_from_generalized(model, np.arange(count) * 0.01, q, v, a)


def assert_as_pinocchio(model, frame, seed):
    q, v, a, motion = random_motion(model, 5, seed)
    found = frame_motion(model, motion, frame)
    data = model.pinocchio.createData()
    number = model.pinocchio.getFrameId(frame)
    for row in range(len(q)):
        pin.forwardKinematics(model.pinocchio, data, q[row], v[row], a[row])
        pin.updateFramePlacements(model.pinocchio, data)
        root, place = data.oMi[1], data.oMf[number]
        speed = pin.getFrameVelocity(model.pinocchio, data, number, pin.ReferenceFrame.WORLD)
        change = pin.getFrameClassicalAcceleration(
            model.pinocchio, data, number, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )
        pull = root.rotation.T @ (change.linear + np.array([0.0, 0.0, 9.81]))
        np.testing.assert_allclose(found.rotation[row], root.rotation.T @ place.rotation, atol=1e-12)
        np.testing.assert_allclose(found.position[row], root.actInv(place).translation, atol=1e-12)
        np.testing.assert_allclose(found.angular_velocity[row], root.rotation.T @ speed.angular, atol=1e-11)
        np.testing.assert_allclose(found.angular_acceleration[row], root.rotation.T @ change.angular, atol=1e-10)
        np.testing.assert_allclose(found.proper_acceleration[row], pull, atol=1e-10)


@pytest.mark.parametrize("frame", ["imu_in_torso", "left_ankle_roll_link", "right_wrist_yaw_link"])
def test_a_humanoids_frames_move_as_in_pinocchio(frame):
    assert_as_pinocchio(load_model("g1"), frame, 1)


@settings(max_examples=25)
@given(trees(MJCF_KINDS))
def test_generated_trees_move_as_in_pinocchio(tmp_path_factory, tree):
    file = tmp_path_factory.mktemp("tree") / "tree.xml"
    file.write_text(mjcf_text(tree))
    model = load_model(file, base="floating")
    assert_as_pinocchio(model, model.bodies[-1].name, tree[2])


def test_what_is_known_is_not_computed_again():
    model = load_model("g1")
    motion = random_motion(model, 3, 0)[3]
    body = model.frame("left_ankle_roll_link").body
    known = {}
    first = body_motions(model, motion, body, known)
    second = body_motions(model, motion, body, known)
    assert all(first[index] is second[index] for index in first)


def test_a_base_that_does_not_carry_the_body_is_refused():
    model = load_model("g1")
    elsewhere = replace(random_motion(model, 3, 0)[3], base="left_knee_link")
    with pytest.raises(MotionError, match="does not carry 'torso_link'"):
        frame_motion(model, elsewhere, "torso_link")


def test_vector_products_are_those_of_numpy():
    first, second = np.random.default_rng(0).normal(size=(2, 4, 2, 3))
    np.testing.assert_allclose(cross(first, second), np.cross(first, second), atol=1e-15)
    np.testing.assert_allclose(cross(first, second[0, 0]), np.cross(first, second[0, 0]), atol=1e-15)
