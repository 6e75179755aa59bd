"""Drafts of small models, each of which has one thing to be seen."""

from __future__ import annotations

import re
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.drafting import draft_setup
from steelyard.exceptions import ModelError
from steelyard.model import find_pairs, load_model
from steelyard.model.packages import find_file
from steelyard.stance.footing import plant_feet
from tests.drafting.references import sole_distances
from tests.drafting.small_models import FOOT_BOX, MJCF, biped, joint, link, urdf
from tests.generated_trees import MJCF_KINDS, URDF_KINDS, mjcf_text, trees, urdf_text
from tests.humanoids import LOCKS, ROBOTS, path_of

if TYPE_CHECKING:
    from steelyard.drafting import SetupDraft

BOX_SOLE = np.array([[0.13, 0.05, -0.05], [-0.07, 0.05, -0.05], [-0.07, -0.05, -0.05], [0.13, -0.05, -0.05]])


def draft_of(folder: Path, text: str, name: str = "robot.urdf") -> SetupDraft:
    """The draft of a model that is given as text, read back from a file beside it."""
    (folder / name).write_text(text, encoding="utf-8")
    draft = draft_setup(folder / name)
    again = load_model(draft.write(folder / "setup.toml", force=True))
    assert again.links == draft.model.links
    return draft


def finding(draft: SetupDraft, what: str) -> tuple[str, str]:
    (found,) = [finding for finding in draft.findings if finding.what == what]
    return found.kind, found.source


# Soles


def test_a_box_gives_its_four_corners(tmp_path) -> None:
    draft = draft_of(tmp_path, biped())
    for sole in draft.setup.soles:
        assert sole_distances(sole.vertices, BOX_SOLE) == pytest.approx((0.0, 0.0), abs=1e-9)
        assert len(sole.vertices) == 4
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot", "right_foot"]


def test_a_sole_frame_is_used_where_there_is_one(tmp_path) -> None:
    frames = [
        link(f"{side}_sole", mass=False)
        + joint(f"{side}_sole_fixed", f"{side}_foot", f"{side}_sole", "0 0 -0.05", None)
        for side in ("left", "right")
    ]
    draft = draft_of(tmp_path, biped(more="".join(frames)))
    assert [sole.frame for sole in draft.setup.soles] == ["left_sole", "right_sole"]
    np.testing.assert_allclose(draft.setup.soles[0].vertices[:, 2], 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("angle", [0.02, 0.05, 0.3, -0.6])
def test_a_sole_that_is_tilted_at_rest_is_found_by_its_face(tmp_path, angle: float) -> None:
    """A box that is turned about its side touches the ground with an edge; its own whole underside is the sole."""
    tilted = FOOT_BOX.replace('xyz="0.03 0 -0.04"', f'xyz="0.03 0 -0.04" rpy="0 {angle} 0"')
    draft = draft_of(tmp_path, biped(foot=tilted))
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
    flat = BOX_SOLE - [0.03, 0.0, -0.04]
    expected = flat @ turn.T + [0.03, 0.0, -0.04]
    for sole in draft.setup.soles:
        # Corners are written to a tenth of a millimetre.
        assert max(sole_distances(sole.vertices, expected)) < 2e-4
    assert finding(draft, "sole left")[0] == "guessed"
    assert len(plant_feet(draft.model).feet) == 2


def test_a_ball_gives_a_patch_that_is_a_guess(tmp_path) -> None:
    ball = '<collision><origin xyz="0 0 -0.03"/><geometry><sphere radius="0.02"/></geometry></collision>'
    draft = draft_of(tmp_path, biped(foot=ball))
    vertices = draft.setup.soles[0].vertices
    np.testing.assert_allclose(vertices[:, 2], -0.05, rtol=0, atol=1e-9)
    # 2 mm above the lowest point of a ball of 20 mm its cross-section has a radius of 8.7 mm, to first order 8.9.
    np.testing.assert_allclose(np.hypot(*vertices[:, :2].T), np.sqrt(2 * 0.02 * 0.002), rtol=0, atol=1e-4)
    assert finding(draft, "sole left")[0] == "guessed"


def test_capsules_that_lie_give_their_lowest_lines(tmp_path) -> None:
    bars = "".join(
        f'<collision><origin xyz="0.02 {y} -0.03" rpy="0 1.5707963267948966 0"/><geometry>'
        '<capsule radius="0.02" length="0.2"/></geometry></collision>'
        for y in (-0.04, 0.04)
    )
    expected = np.array([[0.12, 0.04, -0.05], [-0.08, 0.04, -0.05], [-0.08, -0.04, -0.05], [0.12, -0.04, -0.05]])
    (left, _) = draft_of(tmp_path, biped(foot=bars)).setup.soles
    assert sole_distances(left.vertices, expected) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_what_collides_counts_more_than_what_is_drawn(tmp_path) -> None:
    drawn = FOOT_BOX.replace("collision", "visual").replace("0.2 0.1 0.02", "0.4 0.3 0.04")
    (left, _) = draft_of(tmp_path, biped(foot=FOOT_BOX + drawn)).setup.soles
    assert sole_distances(left.vertices, BOX_SOLE) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_robot_without_shapes_has_feet_but_no_soles(tmp_path) -> None:
    draft = draft_of(tmp_path, biped(foot=""))
    assert draft.model.base == "floating"
    assert not draft.setup.soles
    assert [sensor.frame for sensor in draft.setup.wrench_sensors] == ["left_foot", "right_foot"]
    assert finding(draft, "sole left") == ("missing", "left_foot has no shapes, or none to stand flat on")
    assert "# [[sole]]" in draft.text


def test_lost_meshes_are_said(tmp_path) -> None:
    mesh = '<visual><geometry><mesh filename="package://nowhere/foot.stl"/></geometry></visual>'
    draft = draft_of(tmp_path, biped(foot=mesh))
    assert finding(draft, "sole left") == ("missing", "the shapes of left_foot cannot be read")
    assert "package://nowhere/foot.stl is not found" in " ".join(draft.text.replace("#", "").split())


def test_toes_are_told_and_the_larger_part_of_the_foot_is_the_sole(tmp_path) -> None:
    toe = FOOT_BOX.replace("0.2 0.1", "0.05 0.1").replace("0.03 0 -0.04", "0.02 0 -0.04")
    toes = [
        link(f"{side}_toe", toe) + joint(f"{side}_toe_pitch", f"{side}_foot", f"{side}_toe", "0.14 0 0")
        for side in ("left", "right")
    ]
    draft = draft_of(tmp_path, biped(more="".join(toes)))
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot", "right_foot"]
    kind, source = finding(draft, "sole left")
    assert kind == "guessed"
    assert "left_toe touches the ground too" in source


def test_a_quadruped_has_four_soles() -> None:
    draft = draft_setup(find_file(f"{ROBOTS}solo_description/robots/solo12.urdf"))
    assert [sole.name for sole in draft.setup.soles] == ["fl", "fr", "hl", "hr"]
    assert [sole.frame for sole in draft.setup.soles] == ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"]
    assert len(plant_feet(draft.model).feet) == 4
    assert len(find_pairs(draft.model)) == 6


@pytest.mark.parametrize(
    ("file", "kind", "why"),
    [
        ("ur_description/urdf/ur5_robot.urdf", "found", "fixed: its root is called world"),
        ("panda_description/urdf/panda.urdf", "guessed", "fixed: no legs are seen, so it is held by its root; write"),
    ],
)
def test_an_arm_is_fixed_and_has_no_soles(file: str, kind: str, why: str) -> None:
    draft = draft_setup(find_file(ROBOTS + file))
    assert draft.model.base == "fixed"
    assert not draft.setup.soles
    assert finding(draft, "base")[0] == kind
    assert finding(draft, "base")[1].startswith(why)
    assert finding(draft, "soles") == ("missing", "the base is fixed: nothing of it stands")
    assert finding(draft, "wrench sensors")[0] == "missing"


# Sensors


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


def test_a_name_for_two_places_is_no_frame(tmp_path) -> None:
    """A foot's body and joint, both called left_foot, are 8 cm apart: the site on it is the frame, or there is none."""
    text = MJCF.replace('name="left_ankle" axis', 'name="left_foot" pos="0 0 0.08" axis')
    draft = draft_of(tmp_path, text, "walker.xml")
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot_force", "right_foot"]
    bare = re.sub(r'<site name="left_foot_force".*/>|<(force|torque) name="l.".*/>', "", text)
    draft = draft_of(tmp_path, bare, "walker.xml")
    assert [sole.frame for sole in draft.setup.soles] == ["right_foot"]
    assert finding(draft, "sole left")[0] == "missing"


def test_gravity_is_felt_by_a_force_sensor_of_mujoco_as_it_is_written(tmp_path) -> None:
    """MuJoCo itself, at rest and hanging in the air: the foot pulls the shank down, as sign on_robot says."""
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
        "Gazebo's <sensor> of type imu refers to 'gone', which the model does not have",
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
    assert finding(draft, "other wrench sensors") == ("guessed", "names of waist, which feel no sole")


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
    assert finding(draft, "imu head")[0] == "guessed"  # nobody knows whether it turns too
    assert finding(draft, "imu pelvis")[0] == "found"


# Left and right


@pytest.mark.parametrize(
    ("left", "right", "patterns"),
    [
        ("left_", "right_", (("left_*", "right_*"),)),
        ("L", "R", (("L*", "R*"),)),
        ("l_", "r_", (("l_*", "r_*"),)),
        ("LeftLeg", "RightLeg", (("Left*", "Right*"),)),
        ("leg_left_", "leg_right_", (("*_left_*", "*_right_*"),)),
        ("LF_", "RF_", (("L*", "R*"),)),
    ],
)
def test_pairs_by_names(tmp_path, left: str, right: str, patterns) -> None:
    draft = draft_of(tmp_path, biped(left, right))
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == patterns
    assert len(find_pairs(draft.model)) == 3
    assert [sole.frame for sole in draft.setup.soles] == [f"{left}foot", f"{right}foot"]


def test_suffixes_tell_sides_too(tmp_path) -> None:
    text = biped("A", "B")
    for part in ("thigh", "shank", "foot", "hip", "knee", "ankle"):
        text = text.replace(f"A{part}", f"{part}_l").replace(f"B{part}", f"{part}_r")
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (("*_l", "*_r"),)


def test_pairs_by_places_where_names_say_nothing(tmp_path) -> None:
    draft = draft_of(tmp_path, biped("one_", "two_"))
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (
        ("one_thigh", "two_thigh"),
        ("one_shank", "two_shank"),
        ("one_foot", "two_foot"),
    )
    assert finding(draft, "mirror")[0] == "guessed"


def test_a_name_that_lies_is_not_believed(tmp_path) -> None:
    """An antenna called left beside one called right that is not its image: places decide."""
    more = [link("left_antenna"), joint("la", "pelvis", "left_antenna", "0.1 0.2 0.3")]
    more += [link("right_antenna"), joint("ra", "pelvis", "right_antenna", "0.1 0.4 0.9")]
    draft = draft_of(tmp_path, biped(more="".join(more)))
    assert {frozenset((draft.model.links[p.left], draft.model.links[p.right])) for p in find_pairs(draft.model)} == {
        frozenset((f"left_{part}", f"right_{part}")) for part in ("thigh", "shank", "foot")
    }
    assert "left_antenna" in finding(draft, "mirror")[1]


def test_a_posture_is_found_in_which_the_robot_is_symmetric(tmp_path) -> None:
    """The right hip's zero is 0.4 rad away from the left one's; the left one's signs stay as they are."""
    turned = joint("right_hip", "pelvis", "right_thigh", "0 -0.1 -0.1", rpy="0 0.4 0")
    text = biped().replace(joint("right_hip", "pelvis", "right_thigh", "0 -0.1 -0.1"), turned)
    assert turned in text
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.posture == pytest.approx({"right_hip": -0.4}, abs=1e-6)
    assert max(pair.origin_error for pair in find_pairs(draft.model)) < 1e-6
    assert finding(draft, "mirror")[0] == "guessed"


def test_where_on_its_axis_a_joint_is_drawn_does_not_count(tmp_path) -> None:
    """The right knee's origin is moved by 8 cm along its axis, and the foot back: the same robot, drawn otherwise."""
    text = biped()
    for old, new in (
        ("right_thigh right_shank 0 0 -0.4", "0 0.08 -0.4"),
        ("right_shank right_foot 0 0 -0.4", "0 -0.08 -0.4"),
    ):
        parent, child, xyz = old.split(" ", 2)
        name = "right_knee" if child == "right_shank" else "right_ankle"
        assert joint(name, parent, child, xyz) in text
        text = text.replace(joint(name, parent, child, xyz), joint(name, parent, child, new))
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert not draft.setup.mirror.posture
    assert len(find_pairs(draft.model)) == 3


def test_two_like_arms_that_are_drawn_so_are_mirror_images_at_zero() -> None:
    """TIAGo Pro's joints 2, 4 and 6 have their origins on other sides of the arms; all axes mirror at zero."""
    draft = draft_setup(find_file(f"{ROBOTS}tiago_pro_description/robots/tiago_pro.urdf"))
    assert draft.setup.mirror is not None
    assert not draft.setup.mirror.posture
    assert len(find_pairs(draft.model)) == 9
    assert max(pair.axis_error for pair in find_pairs(draft.model)) < 0.01


# Locks


def test_followers_and_massless_ends_are_locked_so_that_the_draft_loads(tmp_path) -> None:
    more = link("finger") + joint("finger_joint", "pelvis", "finger", "0.1 0 0")
    more += link("thumb") + joint("thumb_joint", "pelvis", "thumb", "0.2 0 0", inside='<mimic joint="finger_joint"/>')
    more += link("tip", mass=False) + joint("tip_joint", "thumb", "tip", "0.1 0 0")
    draft = draft_of(tmp_path, biped(more=more))
    assert dict(draft.setup.locks) == {"finger_joint": 0.0, "tip_joint": 0.0}
    assert finding(draft, "lock")[0] == "guessed"


@pytest.mark.parametrize("name", ["talos_full", "alex_psyonic", "romeo_full"])
def test_known_robots_that_need_locks_get_them(name: str) -> None:
    by_hand = load_model(path_of(name), lock=LOCKS[name])
    draft = draft_setup(path_of(name))
    assert set(draft.model.joints) >= set(by_hand.joints)  # none is locked that need not be


# The file


NASTY = '<img src=x onerror=alert(1)> "quoted" \\back\nslash\t# = [x] \x7f\u2028'


def test_names_from_files_stay_names(tmp_path) -> None:
    text = biped().replace('"pelvis"', _as_attribute(NASTY)).replace('"left_foot"', _as_attribute(f"left {NASTY}"))
    draft = draft_of(tmp_path, text.replace('name="small"', f"name={_as_attribute(NASTY)}"))
    assert NASTY in draft.model.links
    contents = tomllib.loads((tmp_path / "setup.toml").read_text(encoding="utf-8"))
    assert contents["sole"][0]["frame"] == f"left {NASTY}"
    assert {"model", "wrench_sensor", "sole", "mirror"} == {*contents}
    assert all(line.isprintable() for line in draft.text.split("\n") if line.startswith("#"))


def _as_attribute(text: str) -> str:
    special = {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
    return '"' + "".join(special.get(letter, letter) for letter in text) + '"'


def test_model_and_setup_move_together(tmp_path) -> None:
    (tmp_path / "old" / "models").mkdir(parents=True)
    (tmp_path / "old" / "setups").mkdir()
    (tmp_path / "old" / "models" / "my robot.urdf").write_text(biped())
    draft = draft_setup(tmp_path / "old" / "models" / "my robot.urdf")
    draft.write(tmp_path / "old" / "setups" / "mine.toml")
    (tmp_path / "old").rename(tmp_path / "new")
    assert load_model(tmp_path / "new" / "setups" / "mine.toml").links == draft.model.links
    assert 'file = "../models/my robot.urdf"' in (tmp_path / "new" / "setups" / "mine.toml").read_text()


def test_packages_are_found_and_stay_packages(tmp_path) -> None:
    folder = tmp_path / "packages" / "my_robot" / "urdf"
    folder.mkdir(parents=True)
    (folder / "robot.urdf").write_text(biped())
    draft = draft_setup("package://my_robot/urdf/robot.urdf", packages=[tmp_path / "packages"])
    written = draft.write(tmp_path / "mine.toml")
    assert 'file = "package://my_robot/urdf/robot.urdf"' in written.read_text()
    assert load_model(written, packages=[tmp_path / "packages"]).links == draft.model.links


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path) -> None:
    draft = draft_of(tmp_path, biped())
    (tmp_path / "mine.toml").write_text("# precious")
    with pytest.raises(ModelError, match="there already"):
        draft.write(tmp_path / "mine.toml")
    assert (tmp_path / "mine.toml").read_text() == "# precious"
    draft.write(tmp_path / "mine.toml", force=True)
    assert load_model(tmp_path / "mine.toml").links == draft.model.links


@pytest.mark.parametrize("place", ["mine.txt", "gone/mine.toml", "file/mine.toml", "folder.toml", "x" * 300 + ".toml"])
def test_a_place_that_cannot_be_written_is_said(tmp_path, place: str) -> None:
    draft = draft_of(tmp_path, biped())
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.toml").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError) as raised:
        draft.write(tmp_path / place)
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_humanoid_in_the_manner_of_mujocos_own(tmp_path) -> None:
    """Several joints on one body, sides at the end of names, feet of two capsules, knees that cannot be straight."""
    leg = """
      <body name="thigh_{side}" pos="0 {y} -0.1">
        <joint name="hip_x_{side}" axis="1 0 0" range="-25 5"/>
        <joint name="hip_z_{side}" axis="0 0 1" range="-60 35"/>
        <joint name="hip_y_{side}" axis="0 1 0" range="-110 20"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.34" size="0.06"/>
        <body name="shin_{side}" pos="0 0 -0.4">
          <joint name="knee_{side}" axis="0 -1 0" range="-160 -2"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.05"/>
          <body name="foot_{side}" pos="0 0 -0.39">
            <joint name="ankle_y_{side}" axis="0 1 0" range="-50 50" pos="0 0 0.08"/>
            <joint name="ankle_x_{side}" axis="1 0 0" range="-50 50" pos="0 0 0.04"/>
            <geom type="capsule" fromto="-0.07 -0.02 0 0.14 -0.04 0" size="0.027"/>
            <geom type="capsule" fromto="-0.07 0.02 0 0.14 0.04 0" size="0.027"/>
          </body>
        </body>
      </body>"""
    legs = "".join(leg.format(side=side, y=y) for side, y in (("right", -0.1), ("left", 0.1)))
    text = (
        f'<mujoco model="humanoid"><worldbody><body name="torso" pos="0 0 1.3"><freejoint/>'
        f'<geom type="sphere" size="0.15"/>{legs}</body></worldbody></mujoco>'
    )
    draft = draft_of(tmp_path, text, "humanoid.xml")
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (("*_left", "*_right"),)
    assert {sole.name: sole.frame for sole in draft.setup.soles} == {"left": "foot_left", "right": "foot_right"}
    # The knees cannot be straight (2° at least), which tilts the feet: 7 mm over the capsules' length.
    lines = np.array([[0.14, 0.04, -0.027], [-0.07, 0.02, -0.027], [-0.07, -0.02, -0.027], [0.14, -0.04, -0.027]])
    for sole in draft.setup.soles:
        distance, height = sole_distances(sole.vertices, lines)
        assert distance < 2e-3
        assert height < 2e-3
    assert len(plant_feet(draft.model).feet) == 2


def test_a_chain_as_long_as_one_likes(tmp_path) -> None:
    links = [link(f"l{k}") for k in range(600)]
    joints = [joint(f"j{k}", f"l{k}", f"l{k + 1}", "0 0 0.01") for k in range(599)]
    (tmp_path / "rope.urdf").write_text(urdf(*links, *joints))
    assert draft_setup(tmp_path / "rope.urdf").model.base == "fixed"


NAMES = ("link_{}", "left_leg_{}", "{}_foot_l", "R{}", "imu_{}", "ft_{}", "sole_{}")


@settings(max_examples=25)
@given(trees(URDF_KINDS), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_any_urdf_tree_gets_a_draft_that_loads(tree, even: str, odd: str) -> None:
    """Whatever the names promise: legs, sensors and soles that are none must not keep a draft from loading."""
    text = re.sub(r"link_(\d+)", lambda match: (odd if int(match[1]) % 2 else even).format(match[1]), urdf_text(tree))
    with tempfile.TemporaryDirectory() as folder:
        draft_of(Path(folder), text)


@settings(max_examples=15)
@given(trees(MJCF_KINDS), st.sampled_from(NAMES))
def test_any_mjcf_tree_gets_a_draft_that_loads(tree, name: str) -> None:
    text = re.sub(r'name="b(\d+)"', lambda match: f'name="{name.format(match[1])}"', mjcf_text(tree))
    with tempfile.TemporaryDirectory() as folder:
        draft_of(Path(folder), text, "tree.xml")


def test_a_model_with_y_up_has_soles_too() -> None:
    draft = draft_setup(path_of("human"))
    assert [sole.name for sole in draft.setup.soles] == ["left", "right"]
    for sole in draft.setup.soles:
        np.testing.assert_allclose(np.ptp(sole.vertices[:, 1]), 0.0, rtol=0, atol=1e-4)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.plane == "xy"
    assert finding(draft, "up")[0] == "guessed"


def test_a_drone_of_one_body_floats(tmp_path) -> None:
    draft = draft_of(tmp_path, urdf(link("body")))
    assert draft.model.base == "floating"
    assert finding(draft, "soles") == ("missing", "no legs are seen")
