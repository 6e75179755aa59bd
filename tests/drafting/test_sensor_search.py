"""Sensors of small models by tag, by name, or absent."""

from __future__ import annotations

import re

import numpy as np
import pytest

from steelyard.model import find_pairs
from tests.drafting.references import sole_distances
from tests.drafting.small_models import MJCF, biped, draft_of, finding, joint, link


def test_an_mjcf_says_itself_what_it_measures(tmp_path) -> None:
    draft = draft_of(tmp_path, MJCF, "walker.xml")
    assert finding(draft, "base") == ("found", "floating: the root has a free joint in the file")
    assert {(imu.name, imu.frame) for imu in draft.setup.imus} == {
        ("pelvis", "imu_in_pelvis"),
        ("torso", "imu_in_torso"),
    }
    left, right = draft.setup.wrench_sensors
    assert (left.frame, left.at, len(left.axes)) == ("left_foot_force", "joint", 6)
    assert (right.frame, right.at, right.axes) == ("right_foot_force", "joint", ("fx", "fy", "fz"))
    assert draft.setup.torques_measured == ("left_knee",)
    spheres = np.array([[0.12, 0.04, -0.045], [-0.06, 0.03, -0.045], [-0.06, -0.03, -0.045], [0.12, -0.04, -0.045]])
    for sole in draft.setup.soles:
        assert sole_distances(sole.vertices, spheres) == pytest.approx((0.0, 0.0), abs=1e-9)
    assert len(find_pairs(draft.model)) == 3


def test_an_mjcf_without_a_free_joint_stands_on_nothing(tmp_path) -> None:
    draft = draft_of(tmp_path, MJCF.replace('<freejoint name="floating_base"/>', ""), "held.xml")
    assert finding(draft, "base") == ("found", "fixed: the root has no free joint in the file")
    assert not draft.setup.soles


def test_an_ambiguous_name_is_no_frame(tmp_path) -> None:
    """A foot's body and joint, both named left_foot, are 8 cm apart: the site on it is the frame, or there is none."""
    text = MJCF.replace('name="left_ankle" axis', 'name="left_foot" pos="0 0 0.08" axis')
    draft = draft_of(tmp_path, text, "walker.xml")
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot_force", "right_foot"]
    bare = re.sub(r'<site name="left_foot_force".*/>|<(force|torque) name="l.".*/>', "", text)
    draft = draft_of(tmp_path, bare, "walker.xml")
    assert [sole.frame for sole in draft.setup.soles] == ["right_foot"]
    assert finding(draft, "sole left")[0] == "missing"


def test_the_drafted_sign_agrees_with_mujocos_force_sensor(tmp_path) -> None:
    """In MuJoCo, at rest and hanging in the air, the foot pulls the shank down, as the drafted sign says."""
    mujoco = pytest.importorskip("mujoco")
    hanging = MJCF.replace('<freejoint name="floating_base"/>', "")
    model = mujoco.MjModel.from_xml_string(hanging)
    data = mujoco.MjData(model)
    mujoco.mj_inverse(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    mujoco.mj_sensorAcc(model, data)
    force = data.sensor("lf").data
    (left, *_) = draft_of(tmp_path, MJCF, "walker.xml").setup.wrench_sensors
    foot = float(model.body("left_foot").mass[0])
    sense = 1.0 if left.sign == "on_robot" else -1.0
    np.testing.assert_allclose(sense * force, [0.0, 0.0, -9.81 * foot], rtol=0, atol=1e-6)


def test_a_sensor_by_a_tag_in_a_urdf(tmp_path) -> None:
    tags = (
        '<gazebo reference="left_ankle"><sensor name="a" type="force_torque"/></gazebo>'
        '<gazebo reference="right_ankle"><sensor name="b" type="force_torque"><force_torque><measure_direction>'
        "parent_to_child</measure_direction></force_torque></sensor></gazebo>"
        '<gazebo reference="pelvis"><sensor name="i" type="imu"/></gazebo>'
        '<gazebo reference="gone"><sensor name="j" type="imu"/></gazebo>'
    )
    draft = draft_of(tmp_path, biped(more=tags))
    left, right = draft.setup.wrench_sensors
    assert (left.frame, left.at, left.sign) == ("left_ankle", "joint", "on_robot")
    assert (right.frame, right.at, right.sign) == ("right_ankle", "joint", "on_environment")
    assert [imu.frame for imu in draft.setup.imus] == ["pelvis"]
    assert finding(draft, "sensor") == (
        "missing",
        "Gazebo's <sensor> of type imu refers to 'gone', which is not in the model",
    )


def test_of_several_sensors_in_a_leg_the_nearest_to_the_foot_counts(tmp_path) -> None:
    tags = "".join(
        f'<sensor type="force_torque" name="{name}"><parent joint="{name}"/></sensor>'
        for name in ("left_hip", "left_ankle", "right_ankle", "right_hip")
    )
    draft = draft_of(tmp_path, biped(more=tags))
    assert [sensor.frame for sensor in draft.setup.wrench_sensors] == ["left_ankle", "right_ankle"]
    commented = draft.text.replace("# ", "")
    assert 'frame = "left_hip"' in commented
    assert 'frame = "left_hip"' not in [line.strip() for line in draft.text.splitlines()]


def test_a_tag_counts_before_a_name_and_a_sensor_in_the_waist_is_no_foots(tmp_path) -> None:
    more = '<sensor type="force_torque" name="a"><parent joint="left_ankle"/></sensor>'
    more += link("left_ft_frame", mass=False) + joint("lf", "left_foot", "left_ft_frame", "0 0 0.01", None)
    more += link("chest") + joint("waist", "chest", "waist_ft", "0 0 -0.2") + link("waist_ft")
    more += joint("waist_ft_fixed", "waist_ft", "pelvis", "0 0 -0.1", None)
    draft = draft_of(tmp_path, biped(more=more))
    assert [(sensor.frame, sensor.at) for sensor in draft.setup.wrench_sensors] == [
        ("left_ankle", "joint"),
        ("right_foot", "ground"),
    ]
    assert finding(draft, "other wrench sensors") == ("guessed", "waist by name, not loaded by a sole")


def test_a_marker_of_a_sensor_without_mass_below_stands_for_the_ground(tmp_path) -> None:
    markers = [
        link(f"{side}_ft_frame", mass=False)
        + joint(f"{side}_ft_fixed", f"{side}_foot", f"{side}_ft_frame", "0 0 0", None)
        for side in ("left", "right")
    ]
    draft = draft_of(tmp_path, biped(more="".join(markers)))
    assert [(sensor.frame, sensor.at) for sensor in draft.setup.wrench_sensors] == [
        ("left_ft_frame", "ground"),
        ("right_ft_frame", "ground"),
    ]
    assert finding(draft, "wrench sensor left_foot")[0] == "guessed"


def test_accelerometer_and_gyroscope_at_one_place_are_one(tmp_path) -> None:
    places = {"acc_frame": "0 0 0.1", "gyro_frame": "0 0 0.1", "head_accelerometer": "0 0 0.3", "hip_gyro": "0 0 0"}
    frames = [
        link(name, mass=False) + joint(f"{name}_fixed", "pelvis", name, place, None) for name, place in places.items()
    ]
    draft = draft_of(tmp_path, biped(more="".join(frames)))
    assert {imu.frame for imu in draft.setup.imus} == {"acc_frame", "head_accelerometer"}
    assert finding(draft, "imu head")[0] == "guessed"  # it is unknown whether it has a gyroscope
    assert finding(draft, "imu pelvis")[0] == "found"
