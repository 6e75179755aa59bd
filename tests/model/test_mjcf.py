"""What MJCF has and URDF has not: unnamed things, references, ties between joints, bases with a pose."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from steelyard.exceptions import ModelError
from steelyard.model import load_model


def write(path, body: str, rest: str = "") -> str:
    file = path / "m.xml"
    file.write_text(f"<mujoco><compiler angle='radian'/><worldbody>{body}</worldbody>{rest}</mujoco>")
    return str(file)


BALL = "<geom size='0.1' mass='1'/>"


def test_a_fixed_base_stands_as_the_file_puts_it(tmp_path) -> None:
    """Gravity pulls along the world's z, whatever way the base is turned."""
    inertial = "<inertial pos='.3 0 .1' mass='2' diaginertia='.1 .1 .1'/>"
    arm = f"<body pos='0 0 .1'><joint name='j' axis='0 1 0'/>{inertial}</body>"
    for free in ("", "<freejoint/>"):
        file = write(tmp_path, f"<body euler='1.2 0.3 0'>{free}{BALL}{arm}</body>")
        model = load_model(file, base="fixed")
        compiled = mujoco.MjModel.from_xml_path(file)
        data = mujoco.MjData(compiled)
        data.joint("j").qpos = 0.4
        mujoco.mj_forward(compiled, data)
        torque = pin.computeGeneralizedGravity(model.pinocchio, model.pinocchio.createData(), np.array([0.4]))
        assert torque[0] == pytest.approx(data.joint("j").qfrc_bias[0], rel=1e-9)
        assert abs(torque[0]) > 0.5


def test_made_up_names_never_clash_with_real_ones(tmp_path) -> None:
    twins = (
        f"<body name='arm'><joint name='x'/><joint name='y' axis='0 1 0'/>{BALL}</body>"
        "<body name='arm.x'><joint/><geom size='0.1' mass='4'/></body>"
        "<body name='body_1'><joint name='joint_3'/><geom size='0.1' mass='2'/></body>"
    )
    model = load_model(write(tmp_path, f"<body><freejoint/>{BALL}{twins}</body>"))
    assert model.total_mass == pytest.approx(8.0)
    assert len(set(model.links)) == len(model.links) == 4
    assert len(set(model.joints)) == len(model.joints) == 4


def test_followers_are_locked_where_mujoco_would_hold_them(tmp_path) -> None:
    bodies = f"<body><joint name='j' ref='0.5'/>{BALL}<body><joint name='k' ref='0.2'/>{BALL}</body></body>"
    tie = "<equality><joint joint1='k' joint2='j' polycoef='0.1 2 3 0 0'/></equality>"
    model = load_model(write(tmp_path, f"<body><freejoint/>{BALL}{bodies}</body>", tie), lock={"j": 0.9})
    assert model.locks["k"][0] == pytest.approx(0.2 + 0.1 + 2 * 0.4 + 3 * 0.4**2)
    held = "<equality><joint joint1='k' polycoef='0.3 0 0 0 0'/></equality>"
    model = load_model(write(tmp_path, f"<body><freejoint/>{BALL}{bodies}</body>", held))
    assert model.joints == ("j",)
    assert model.locks["k"][0] == pytest.approx(0.5)


def test_a_root_with_joints_of_its_own_cannot_float_as_well(tmp_path) -> None:
    file = write(tmp_path, f"<body name='b'><joint type='slide' axis='1 0 0'/><joint name='h'/>{BALL}</body>")
    assert len(load_model(file).joints) == 2
    with pytest.raises(ModelError, match="cannot float as well"):
        load_model(file, base="floating")
    welded = write(
        tmp_path, f"<body name='frame'><body name='b'>{BALL}<body name='c'><joint/>{BALL}</body></body></body>"
    )
    assert load_model(welded).links == ("c",)
    assert load_model(welded, base="floating").links == ("frame", "c")


def test_a_name_for_two_places_is_refused_only_where_it_is_used(tmp_path) -> None:
    file = write(tmp_path, f"<body name='a'><freejoint/>{BALL}<site name='a' pos='1 0 0'/></body>")
    load_model(file)
    (tmp_path / "s.toml").write_text('[model]\nfile = "m.xml"\n[[imu]]\nname = "i"\nframe = "a"\n')
    with pytest.raises(ModelError, match="not at the same place"):
        load_model(tmp_path / "s.toml")


def test_a_ball_joint_is_locked_at_a_quaternion(tmp_path) -> None:
    file = write(tmp_path, f"<body><freejoint/>{BALL}<body name='c' pos='0 0 1'><joint name='b' type='ball'/>"
                 "<inertial pos='1 0 0' mass='1' diaginertia='.1 .2 .25'/></body></body>")  # fmt: skip
    quarter = (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4))
    locked = load_model(file, lock={"b": quarter})
    np.testing.assert_allclose(locked.parameters[0, 1:4], [0.0, 1.0, 1.0], atol=1e-12)
    with pytest.raises(ModelError, match="quaternion"):
        load_model(file, lock={"b": (0.0, 0.0, 0.0, 0.0)})


def test_includes_and_links_are_followed_as_mujoco_does(tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "leaf.xml").write_text(
        f"<mujocoinclude><body name='leaf'><joint/>{BALL}</body></mujocoinclude>"
    )
    (tmp_path / "sub" / "arm.xml").write_text("<mujocoinclude><include file='leaf.xml'/></mujocoinclude>")
    file = write(tmp_path, f"<body name='b'><freejoint/>{BALL}<include file='sub/arm.xml'/></body>")
    model = load_model(file)
    assert model.links == ("b", "leaf")
    assert model.name == "m"
