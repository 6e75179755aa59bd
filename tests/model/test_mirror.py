"""Left and right as transforms between the links' own frames."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.exceptions import ModelError
from steelyard.model import load_model
from steelyard.model.mirror import compare_sides, find_pairs
from steelyard.model.setup import parse_setup, read_setup
from tests.humanoids import humanoid, path_of, random_bodies, random_configuration
from tests.mirrored import find_middle, mirror_parameters
from tests.second_engine import mass_matrix_and_com

SETUPS = ["g1", "talos", "icub", "romeo"]


@pytest.mark.parametrize("name", SETUPS)
def test_reflecting_twice_is_the_identity(name: str) -> None:
    model = load_model(name)
    parameters = random_bodies(np.random.default_rng(0), len(model.links))
    once = mirror_parameters(model, parameters)
    np.testing.assert_allclose(mirror_parameters(model, once), parameters, rtol=1e-10, atol=1e-12)
    assert np.max(np.abs(once - parameters)) > 0.1


@pytest.mark.parametrize("name", SETUPS)
def test_images_are_reflections(name: str) -> None:
    model = load_model(name)
    pairs = find_pairs(model)
    for pair in [*pairs, *find_middle(model)]:
        assert np.linalg.det(pair.rotation) == pytest.approx(-1.0)
        np.testing.assert_allclose(pair.rotation @ pair.rotation.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(pair.matrix @ pair.reversed().matrix, np.eye(10), atol=1e-9)
    paired = {row for pair in pairs for row in (pair.left, pair.right)}
    assert len(paired) == 2 * len(pairs)


@pytest.mark.parametrize("name", SETUPS)
def test_the_mirrored_robot_in_the_mirrored_posture_has_the_mirrored_centre_of_mass(name: str) -> None:
    """The law that ties transforms, joint signs and parameters together, through Pinocchio's kinematics.

    Joints that the two sides do not share exactly (drawing errors up to 0.1 mm) bound how well it can hold.
    """
    model = load_model(name)
    pairs = find_pairs(model)
    parameters = random_bodies(np.random.default_rng(1), len(model.links))
    mirrored = model.with_parameters(mirror_parameters(model, parameters))
    positions = random_configuration(model, np.random.default_rng(2))
    positions[:7] = [0, 0, 0, 0, 0, 0, 1]
    image = np.array(positions)
    for pair in [*pairs, *(pair.reversed() for pair in pairs), *find_middle(model)]:
        left, right = model.link_bodies[pair.left], model.link_bodies[pair.right]
        if model.bodies[left].joint.position_size == 1:
            image[model.tree.q_starts[right]] = pair.joint_sign * positions[model.tree.q_starts[left]]
    com = mass_matrix_and_com(model.with_parameters(parameters), positions)[1]
    error = max(pair.origin_error for pair in pairs)
    np.testing.assert_allclose(
        mass_matrix_and_com(mirrored, image)[1], com * np.array([1.0, -1.0, 1.0]), atol=1e-6 + 2.0 * error
    )


def test_icubs_frames_are_not_mirror_images_axis_by_axis() -> None:
    icub = load_model("icub")
    elbow = next(pair for pair in find_pairs(icub) if icub.links[pair.left] == "l_elbow_1")
    np.testing.assert_allclose(elbow.rotation, -np.eye(3), atol=1e-4)
    assert elbow.joint_sign == 1


def test_g1_is_symmetric_to_the_precision_of_its_file_but_for_a_knee() -> None:
    differences = compare_sides(load_model("g1"))
    assert [(entry.left, entry.right, entry.quantity) for entry in differences] == [
        ("left_knee_link", "right_knee_link", "inertia")
    ]
    assert differences[0].difference / differences[0].size == pytest.approx(0.0079, abs=1e-4)


def test_what_differs_between_taloss_sides_is_listed() -> None:
    """The file copied left numbers to the right: the signs of y in most arms' centres of mass, for one."""
    talos = load_model("talos")
    listed = {(entry.left, entry.quantity) for entry in compare_sides(talos)}
    assert {link for link, quantity in listed if quantity == "com"} == {
        "arm_left_2_link",
        "arm_left_3_link",
        "arm_left_4_link",
        "arm_left_5_link",
        "arm_left_6_link",
        "arm_left_7_link",
        "gripper_left_motor_double_link",
        "leg_left_1_link",
        "leg_left_2_link",
        "leg_left_6_link",
    }
    assert not any(quantity in ("mass", "origin", "axis") for _, quantity in listed)
    alike = {talos.links[pair.left] for pair in find_pairs(talos)} - {link for link, _ in listed}
    assert alike == {"leg_left_3_link", "leg_left_4_link", "leg_left_5_link"}


def test_a_human_mirrors_in_another_plane() -> None:
    setup = parse_setup({"mirror": {"plane": "xy", "pairs": [["left_*", "right_*"]]}})
    human = load_model(path_of("human"), setup=setup)
    assert len(find_pairs(human)) == 7
    wrong = load_model(
        path_of("human"), setup=parse_setup({"mirror": {"plane": "xz", "pairs": [["left_*", "right_*"]]}})
    )
    assert any(entry.quantity == "origin" and entry.difference > 0.1 for entry in compare_sides(wrong))


def test_a_symmetric_posture_may_be_given() -> None:
    """A robot whose zero is not symmetric: offset one elbow, and say so."""
    rule = {"plane": "xz", "pairs": [["left_*", "right_*"]]}
    crooked = load_model(
        path_of("g1"), setup=parse_setup({"mirror": {**rule, "posture": {"left_shoulder_roll_joint": 0.3}}})
    )
    assert any(entry.quantity == "origin" for entry in compare_sides(crooked))
    both = {"left_shoulder_roll_joint": 0.3, "right_shoulder_roll_joint": -0.3}
    straight = load_model(path_of("g1"), setup=parse_setup({"mirror": {**rule, "posture": both}}))
    assert not any(entry.quantity == "origin" for entry in compare_sides(straight))
    for pair in find_pairs(straight):
        if straight.links[pair.left] == "left_shoulder_roll_link":
            assert pair.joint_sign * 0.3 + pair.joint_offset == pytest.approx(-0.3)


def test_a_link_without_a_partner_is_remarked_on(tmp_path) -> None:
    text = path_of("g1").read_text().replace("right_wrist_yaw_link", "odd_wrist")
    (tmp_path / "odd.urdf").write_text(text)
    check = load_model(tmp_path / "odd.urdf", setup=read_setup("g1")).check()
    assert [finding.name for finding in check.findings if "no partner" in finding.words] == ["left_wrist_yaw_link"]


def test_no_mirror_no_pairs() -> None:
    with pytest.raises(ModelError, match=r"no \[mirror\]"):
        find_pairs(humanoid("g1"))
    twice = parse_setup(
        {"mirror": {"plane": "xz", "pairs": [["left_*", "right_*"], ["*_hip_yaw_link", "*_knee_link"]]}}
    )
    with pytest.raises(ModelError, match="paired already"):
        find_pairs(load_model(path_of("g1"), setup=twice))
