"""A model with calibrated joints: at the encoders' readings it stands where the old one stands at the true angles."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given

import steelyard as sy
from steelyard.exceptions import ModelError, MotionError
from steelyard.model import find_pairs, load_model
from steelyard.model.files.joint_origins import write_with_offsets
from steelyard.model.name_patterns import match_pattern
from tests.generated_trees import MJCF_KINDS, URDF_KINDS, mjcf_text, trees, urdf_text
from tests.humanoids import FILES, LOCKS, humanoid, path_of, shaken

LINK = (
    '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    "</inertial></link>"
)
HAND = f"""<robot name="hand">
  {LINK.format("palm")}{LINK.format("finger")}{LINK.format("tip")}{LINK.format("rail")}
  <joint name="bend" type="revolute">
    <!-- no origin -->
    <parent link="palm"/><child link="finger"/><axis xyz="0 2 0"/>
    <limit lower="-1" upper="2" effort="1" velocity="1"/>
    <safety_controller k_velocity="3" soft_lower_limit="-0.9" soft_upper_limit="1.9"/>
    <calibration rising="0.5" falling="-0.25"/>
    <dynamics damping="0.5"/>
  </joint>
  <joint name="curl" type="revolute">
    <origin xyz="0 0 0.1"/><parent link="finger"/><child link="tip"/><axis xyz="0 1 0"/>
    <limit upper="2" effort="1" velocity="1"/><mimic joint="bend" multiplier="0.5" offset="0.125"/>
  </joint>
  <joint name="slide" type="prismatic">
    <origin rpy="0.3 0.2 0.1"/><parent link="palm"/><child link="rail"/><axis xyz="0 0 -1"/>
    <limit lower="-INF" upper="0.5" effort="1" velocity="1"/><mimic joint="curl"/>
  </joint>
</robot>
"""
ARM = """<mujoco model="arm">
  <compiler angle="{angle}" autolimits="true"/>
  <default><joint range="{range}"/><default class="free"><joint limited="false"/></default></default>
  <worldbody>
    <body name="base" pos="0 0 1"><freejoint/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/><!-- a comment -->
      <body name="upper" pos="0 0 0.1"> <joint name="shoulder"  axis="0 1 0" stiffness="3"/>
        <geom type="capsule" size="0.05 0.1" mass="1"/>
        <body name="tool" pos="0 0 0.2"><joint name="wrist" class="free" axis="1 0 0" pos="0 0.1 0"/>
          <geom type="box" size="0.02 0.03 0.04" mass="0.3"/></body>
      </body>
    </body>
  </worldbody>
  {more}
</mujoco>
"""


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def draw_offsets(names, seed: int) -> dict[str, float]:
    return dict(zip(names, np.random.default_rng(seed).uniform(-0.3, 0.3, size=len(names)).tolist(), strict=True))


def pinocchio_frames(text: str, positions: dict[str, float]) -> dict[str, np.ndarray]:
    """Gives the placement of every frame by Pinocchio's own reading of a URDF."""
    model = pin.buildModelFromXML(text)
    q = pin.neutral(model)
    for name, value in positions.items():
        joint = model.getJointId(name)
        start, size = model.idx_qs[joint], model.nqs[joint]
        q[start : start + size] = value if size == 1 else [np.cos(value), np.sin(value)]
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    return {frame.name: np.array(data.oMf[i].homogeneous) for i, frame in enumerate(model.frames)}


def assert_same_poses(before: str, after: str, offsets: dict[str, float], joints, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(3):
        readings = dict(zip(joints, generator.uniform(-1.0, 1.0, size=len(joints)).tolist(), strict=True))
        true = {name: value + offsets.get(name, 0.0) for name, value in readings.items()}
        wanted, found = pinocchio_frames(before, true), pinocchio_frames(after, readings)
        assert wanted.keys() == found.keys()
        for name, placement in wanted.items():
            np.testing.assert_allclose(found[name], placement, rtol=0.0, atol=1e-9)


def without_joint_numbers(text: str) -> str:
    """Takes out what may change: origins, limits, calibrations and couplings of joints."""
    text = re.sub(r"<(?:origin|limit|mimic|safety_controller|calibration)\b[^>]*/?>", "", text)
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo", "talos_full", "alex"])
def test_readings_give_the_true_pose_on_humanoids(name: str, tmp_path) -> None:
    model = humanoid(name)
    offsets = draw_offsets(model.joints, seed=1)
    file = tmp_path / "calibrated.urdf"
    written = write_with_offsets(model, offsets, file)
    assert written.path == file
    before, after = path_of(name).read_text(), file.read_text()
    moving = [c.joint.name for c in model.description.connections if c.joint.position_size == 1]
    assert_same_poses(before, after, offsets, moving, seed=2)
    assert without_joint_numbers(after) == without_joint_numbers(before)
    assert re.findall(r"(?s)<!--.*?-->", after) == re.findall(r"(?s)<!--.*?-->", before)
    again = load_model(file, lock=LOCKS.get(name))
    np.testing.assert_array_equal(again.parameters, model.parameters)
    for joint in model.joints:
        old, new = model.joint(joint), again.joint(joint)
        np.testing.assert_allclose(
            [new.lower, new.upper], np.array([old.lower, old.upper]) - offsets[joint], rtol=0.0, atol=1e-12
        )


@pytest.mark.parametrize("name", FILES)
def test_no_offset_changes_no_byte(name: str, tmp_path) -> None:
    model = humanoid(name)
    for offsets in ({}, dict.fromkeys(model.joints, 0.0)):
        written = write_with_offsets(model, offsets, tmp_path / "same.urdf")
        assert (tmp_path / "same.urdf").read_bytes() == path_of(name).read_bytes()
        assert written.notes == ()


def test_only_the_calibrated_joint_is_touched(tmp_path) -> None:
    g1 = humanoid("g1")
    write_with_offsets(g1, {"left_knee_joint": 0.02}, tmp_path / "g1.urdf")
    before, after = path_of("g1").read_text().splitlines(), (tmp_path / "g1.urdf").read_text().splitlines()
    changed = [number for number, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    start = next(number for number, line in enumerate(before) if 'joint name="left_knee_joint"' in line)
    assert len(changed) == 2
    assert all(start < number <= start + 6 for number in changed)


@given(trees(URDF_KINDS))
def test_readings_give_the_true_pose_on_any_urdf_tree(folder, tree) -> None:
    text = urdf_text(tree)
    (folder / "tree.urdf").write_text(text)
    model = load_model(folder / "tree.urdf")
    offsets = draw_offsets(model.joints[::2], seed=tree[2])
    write_with_offsets(model, offsets, folder / "written.urdf")
    after = (folder / "written.urdf").read_text()
    assert_same_poses(text, after, offsets, model.joints, seed=tree[2])
    # Back again, the same robot.
    back = {name: -offset for name, offset in offsets.items()}
    write_with_offsets(load_model(folder / "written.urdf"), back, folder / "back.urdf")
    assert_same_poses(text, (folder / "back.urdf").read_text(), {}, model.joints, seed=tree[2] + 1)


@pytest.mark.parametrize("pitch", [np.pi / 2, -np.pi / 2, 1.5708, 1.5707963, np.pi / 2 - 1e-12, 1.5707])
def test_origins_near_gimbal_lock_keep_their_digits(pitch: float, tmp_path) -> None:
    text = HAND.replace('<origin rpy="0.3 0.2 0.1"/>', f'<origin rpy="0.3 {pitch!r} 0.1"/>')
    text = (
        text.replace('type="prismatic"', 'type="revolute"').replace('<mimic joint="curl"/>', "").replace("-INF", "-9")
    )
    (tmp_path / "hand.urdf").write_text(text)
    model = load_model(tmp_path / "hand.urdf", lock={"curl": 0.0})
    for number, offset in enumerate((1e-9, 0.01, -0.3, 2.0)):
        write_with_offsets(model, {"slide": offset}, tmp_path / "out.urdf")
        after = (tmp_path / "out.urdf").read_text()
        assert_same_poses(text, after, {"slide": offset}, ["bend", "slide"], seed=number)


def test_limits_couplings_and_calibrations_mean_the_same_true_angles(tmp_path) -> None:
    """true_f = m true_l + c, with readings: c' = c + m d_l − d_f."""
    file, out = tmp_path / "hand.urdf", tmp_path / "out.urdf"
    file.write_text(HAND)
    model = load_model(file, lock={"curl": 0.125, "slide": 0.125})
    written = write_with_offsets(model, {"bend": 0.25, "curl": 0.0625}, out)
    text = out.read_text()
    for line in (
        '<origin xyz="0 0 0" rpy="0.0 0.25 0.0"/>',
        '<limit lower="-1.25" upper="1.75" effort="1" velocity="1"/>',
        '<safety_controller k_velocity="3" soft_lower_limit="-1.15" soft_upper_limit="1.65"/>',
        '<calibration rising="0.25" falling="-0.5"/>',
        '<origin xyz="0 0 0.1" rpy="0.0 0.0625 0.0"/>',
        # A bound that is not stated is zero, and moves too.
        '<limit upper="1.9375" effort="1" velocity="1" lower="-0.0625"/>',
        '<mimic joint="bend" multiplier="0.5" offset="0.1875"/>',
        '<mimic joint="curl" offset="0.0625"/>',
        '<limit lower="-INF" upper="0.5" effort="1" velocity="1"/>',
        "<!-- no origin -->",
    ):
        assert line in text
    assert any("'curl' is locked at 0.125" in note and "0.0625" in note for note in written.notes)
    shifted = write_with_offsets(model, {"slide": 0.25}, out)
    assert '<limit lower="-INF" upper="0.25" effort="1" velocity="1"/>' in out.read_text()
    assert '<mimic joint="curl" offset="-0.25"/>' in out.read_text()
    assert len(shifted.notes) == 1


def test_parameters_that_were_changed_are_written_too(tmp_path) -> None:
    g1 = humanoid("g1")
    changed = g1.with_parameters(shaken(g1, seed=3))
    offsets = draw_offsets(g1.joints, seed=4)
    write_with_offsets(changed, offsets, tmp_path / "both.urdf")
    again = load_model(tmp_path / "both.urdf")
    np.testing.assert_allclose(again.parameters, changed.parameters, rtol=1e-9, atol=1e-12)
    assert_same_poses(path_of("g1").read_text(), (tmp_path / "both.urdf").read_text(), offsets, g1.joints, seed=5)


def test_meshes_are_found_from_the_new_folder(tmp_path) -> None:
    (tmp_path / "robot").mkdir()
    (tmp_path / "out").mkdir()
    mesh = '<visual><geometry><mesh filename="meshes/t.obj"/></geometry></visual></link>'
    (tmp_path / "robot" / "hand.urdf").write_text(HAND.replace("</link>", mesh, 1))
    model = load_model(tmp_path / "robot" / "hand.urdf", lock={"curl": 0.1, "slide": 0.1})
    written = write_with_offsets(model, {"bend": 0.1}, tmp_path / "out" / "hand.urdf")
    assert 'filename="../robot/meshes/t.obj"' in written.path.read_text()
    assert any("1 relative mesh path now leads" in note for note in written.notes)


@pytest.mark.parametrize("name", ["g1", "icub"])
def test_a_symmetric_robot_is_symmetric_where_its_posture_is_less_by_the_offsets(name: str, tmp_path) -> None:
    model = load_model(name)
    offsets = draw_offsets(model.joints, seed=6)
    written = write_with_offsets(model, offsets, tmp_path / "robot.urdf")
    (note,) = [note for note in written.notes if "[mirror]" in note]
    assert "subtract the offsets from its posture" in note
    old = model.setup.mirror
    stood = {joint: value for pattern, value in old.posture.items() for joint in match_pattern(pattern, model.joints)}
    posture = {joint: stood.get(joint, 0.0) - offset for joint, offset in offsets.items()}
    setup = replace(model.setup, mirror=replace(old, posture=posture))
    again = load_model(tmp_path / "robot.urdf", setup=setup)
    for wanted, found in zip(find_pairs(model), find_pairs(again), strict=True):
        assert (found.left, found.right, found.joint_sign) == (wanted.left, wanted.right, wanted.joint_sign)
        np.testing.assert_allclose(found.rotation, wanted.rotation, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(found.translation, wanted.translation, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("broken", ["origin", "limit", "mimic"])
def test_a_file_that_would_be_wrong_is_not_written(broken: str, tmp_path, monkeypatch) -> None:
    """Each kind of edit, forgotten, is found when the result is read again."""
    (tmp_path / "hand.urdf").write_text(HAND)
    model = load_model(tmp_path / "hand.urdf", lock={"curl": 0.125, "slide": 0.125})
    forgotten = {"origin": "_move_origin", "limit": "_shift_positions", "mimic": "_couple"}[broken]
    monkeypatch.setattr(f"steelyard.model.files.urdf_joints.{forgotten}", lambda *_: [])
    (tmp_path / "out.urdf").write_text("mine")
    with pytest.raises(ModelError, match=r"read again, .* nothing was written"):
        write_with_offsets(model, {"bend": 0.25}, tmp_path / "out.urdf")
    assert (tmp_path / "out.urdf").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand.urdf", "out.urdf"]


def test_what_counts_in_positions_elsewhere_is_told(tmp_path) -> None:
    control = '<ros2_control name="c" type="system"><joint name="bend"/></ros2_control></robot>'
    (tmp_path / "hand.urdf").write_text(HAND.replace("</robot>", control))
    model = load_model(tmp_path / "hand.urdf", lock={"curl": 0.125, "slide": 0.125})
    written = write_with_offsets(model, {"bend": 0.25}, tmp_path / "out.urdf")
    assert any("<ros2_control>" in note for note in written.notes)
    assert write_with_offsets(model, {}, tmp_path / "out.urdf").notes == ()


def test_mjcf_meshes_and_includes_are_found_from_the_new_folder(tmp_path) -> None:
    (tmp_path / "robot" / "meshes").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "robot" / "meshes" / "t.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    text = ARM.format(angle="radian", range="-1 1", more='<include file="assets.xml"/>')
    text = text.replace('<geom type="capsule"', '<geom type="mesh" mesh="t" mass="0.1"/><geom type="capsule"')
    (tmp_path / "robot" / "arm.xml").write_text(text)
    (tmp_path / "robot" / "assets.xml").write_text(
        '<mujoco><asset><mesh name="t" file="meshes/t.obj"/></asset></mujoco>'
    )
    model = load_model(tmp_path / "robot" / "arm.xml")
    write_with_offsets(model, {"wrist": 0.1}, tmp_path / "out" / "arm.xml")
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "out" / "arm.xml"))
    assert compiled.nmesh == 1
    assert compiled.qpos0[-1] == pytest.approx(-0.1, abs=1e-15)


def mujoco_poses(text: str, positions: dict[str, float]) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    for name, value in positions.items():
        data.qpos[model.jnt_qposadr[model.joint(name).id]] = value
    mujoco.mj_kinematics(model, data)
    return np.concatenate([data.xpos.ravel(), data.xmat.ravel()])


@given(trees(MJCF_KINDS))
def test_readings_give_the_true_pose_on_any_mjcf_tree(folder, tree) -> None:
    text = mjcf_text(tree)
    (folder / "tree.xml").write_text(text)
    model = load_model(folder / "tree.xml")
    single = [name for name in model.joints if model.joint(name).position_size == 1]
    offsets = draw_offsets(single[::2], seed=tree[2])
    write_with_offsets(model, offsets, folder / "written.xml")
    after = (folder / "written.xml").read_text()
    generator = np.random.default_rng(tree[2])
    readings = dict(zip(single, generator.uniform(-1.0, 1.0, size=len(single)).tolist(), strict=True))
    true = {name: value + offsets.get(name, 0.0) for name, value in readings.items()}
    np.testing.assert_allclose(mujoco_poses(after, readings), mujoco_poses(text, true), rtol=0.0, atol=1e-9)
    again = load_model(folder / "written.xml")
    for name in single:
        old, new, offset = model.joint(name), again.joint(name), offsets.get(name, 0.0)
        assert new.kind == old.kind
        np.testing.assert_allclose([new.lower, new.upper], np.array([old.lower, old.upper]) - offset, atol=1e-12)
    assert re.sub(r"<joint\b[^>]*>", "", after) == re.sub(r"<joint\b[^>]*>", "", text)


@pytest.mark.parametrize(("angle", "limits"), [("degree", "-90 90"), ("radian", "-1.5 1.5")])
def test_mjcf_defaults_springs_couplings_and_keyframes_mean_the_same(angle: str, limits: str, tmp_path) -> None:
    more = (
        '<equality><joint joint1="wrist" joint2="shoulder" polycoef="0.1 0.5 0.2 0 0" active="{}"/></equality>'
        '<keyframe><key name="home" qpos="0 0 1 1 0 0 0 0.5 0.25"/></keyframe>'
    )
    text = ARM.format(angle=angle, range=limits, more=more.format("true"))
    (tmp_path / "arm.xml").write_text(text)
    model = load_model(tmp_path / "arm.xml", lock={"wrist": 0.0})
    offsets = {"shoulder": 0.125, "wrist": -0.0625}
    write_with_offsets(model, offsets, tmp_path / "out.xml")
    after = (tmp_path / "out.xml").read_text()
    old, new = (mujoco.MjModel.from_xml_string(each) for each in (text, after))
    shift = np.array([0.125, -0.0625])
    np.testing.assert_allclose(new.qpos0[7:], old.qpos0[7:] - shift, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(new.qpos_spring[7], old.qpos_spring[7] - shift[0], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(new.key_qpos[0, 7:], old.key_qpos[0, 7:] - shift, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(new.key_qpos[0, :7], old.key_qpos[0, :7], rtol=0.0, atol=1e-12)
    np.testing.assert_array_equal(new.jnt_limited, old.jnt_limited)
    np.testing.assert_allclose(new.jnt_range[1], old.jnt_range[1] - shift[0], rtol=0.0, atol=1e-12)
    readings = {"shoulder": 0.3, "wrist": -0.2}
    true = {name: value + offsets[name] for name, value in readings.items()}
    np.testing.assert_allclose(mujoco_poses(after, readings), mujoco_poses(text, true), rtol=0.0, atol=1e-12)
    # What the equality asks of the readings it asked of the true angles.
    for engine, wrist, shoulder in ((old, true["wrist"], true["shoulder"]), (new, *list(readings.values())[::-1])):
        data = mujoco.MjData(engine)
        data.qpos[7:] = shoulder, wrist
        mujoco.mj_forward(engine, data)
        equality = data.efc_pos[data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)]
        np.testing.assert_allclose(equality, true["wrist"] - np.polyval([0.2, 0.5, 0.1], true["shoulder"]), atol=1e-12)


@pytest.mark.parametrize(
    "more",
    [
        '<tendon><fixed name="t" limited="true" range="0 1"><joint joint="wrist" coef="1"/></fixed></tendon>',
        '<tendon><fixed><joint joint="shoulder" coef="1"/><joint joint="wrist" coef="-1"/></fixed></tendon>',
    ],
)
def test_mjcf_with_a_tendon_over_the_joint_is_refused(more: str, tmp_path) -> None:
    (tmp_path / "arm.xml").write_text(ARM.format(angle="radian", range="-1 1", more=more))
    model = load_model(tmp_path / "arm.xml")
    with pytest.raises(ModelError, match=r"arm\.xml: a tendon adds .* 'wrist' .*; use the offsets file instead"):
        write_with_offsets(model, {"wrist": 0.1}, tmp_path / "out.xml")
    assert not (tmp_path / "out.xml").exists()


def test_mjcf_that_holds_positions_is_told_so(tmp_path) -> None:
    more = '<actuator><position joint="wrist" kp="3" ctrlrange="-1 1"/></actuator>'
    (tmp_path / "arm.xml").write_text(ARM.format(angle="radian", range="-1 1", more=more))
    written = write_with_offsets(load_model(tmp_path / "arm.xml"), {"wrist": 0.1}, tmp_path / "out.xml")
    assert any("actuator" in note and "wrist" in note for note in written.notes)


@pytest.mark.parametrize(
    ("offsets", "name", "message"),
    [
        ({"left_nee_joint": 0.1}, "g1.urdf", r"no moving joint 'left_nee_joint'; did you mean 'left_knee_joint'"),
        ({"imu_in_pelvis_joint": 0.1}, "g1.urdf", r"no moving joint 'imu_in_pelvis_joint'"),
        ({"left_knee_joint": np.nan}, "g1.urdf", r"the offset of 'left_knee_joint' is nan; give rad or m"),
        ({"left_knee_joint": "a"}, "g1.urdf", r"the offset of 'left_knee_joint' is 'a'; give rad or m"),
        ({"left_knee_joint": True}, "g1.urdf", r"the offset of 'left_knee_joint' is True; give rad or m"),
        ([0.1], "g1.urdf", r"offsets are \[0\.1\]; give numbers by joint"),
        ({"left_knee_joint": 0.1}, "g1.sdf", r"a URDF.*end the name in \.urdf"),
        ({"left_knee_joint": 0.1}, "nowhere/g1.urdf", r"folder does not exist"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_left(offsets, name, message, tmp_path) -> None:
    with pytest.raises(ModelError, match=message):
        write_with_offsets(humanoid("g1"), offsets, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_ball_joint_has_no_one_offset(tmp_path) -> None:
    (tmp_path / "arm.xml").write_text(
        ARM.format(angle="radian", range="0 1", more="").replace(
            'name="wrist" class="free"', 'name="wrist" type="ball"'
        )
    )
    model = load_model(tmp_path / "arm.xml")
    with pytest.raises(ModelError, match=r"'wrist' is a ball joint, whose offset is not one number; leave it out"):
        write_with_offsets(model, {"wrist": 0.1}, tmp_path / "out.xml")


def test_the_public_name_takes_offsets_in_every_form(tmp_path) -> None:
    g1 = humanoid("g1")
    sy.motion.encoder_offsets.write_offsets(tmp_path / "offsets.json", {"left_knee_joint": 0.02})
    sy.write_calibrated_model(g1, {"left_knee_joint": 0.02}, tmp_path / "one.urdf")
    sy.write_calibrated_model(g1, tmp_path / "offsets.json", tmp_path / "two.urdf")
    assert (tmp_path / "one.urdf").read_bytes() == (tmp_path / "two.urdf").read_bytes()
    assert sy.read_offsets(tmp_path / "offsets.json") == {"left_knee_joint": 0.02}
    with pytest.raises(MotionError, match=r"there is no such file"):
        sy.write_calibrated_model(g1, tmp_path / "gone.json", tmp_path / "three.urdf")
