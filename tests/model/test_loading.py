"""Loaded models against Pinocchio's and MuJoCo's own readers."""

from __future__ import annotations

import re

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from steelyard.exceptions import ModelError
from steelyard.model import load_model
from steelyard.model.consistency import project_to_interior
from tests.humanoids import FILES, LOCKS, humanoid, path_of, random_configuration, shaken
from tests.second_engine import assert_close, build_mjcf, mass_matrix_and_com, mujoco_mass_matrix_and_com

SINGULAR_ICUB = ["base_link", "r_hip_1", "r_hip_2", "r_upper_leg", "r_lower_leg", "r_ankle_1", "l_wrist_1", "r_wrist_1"]


def pinocchios_own(name: str, base: str) -> pin.Model:
    """Loads with Pinocchio's URDF reader, and locks with its reduction."""
    root = [pin.JointModelFreeFlyer()] if base == "floating" else []
    theirs = pin.buildModelFromUrdf(str(path_of(name)), *root)
    ours = humanoid(name, base)
    gone = [theirs.getJointId(joint) for joint in theirs.names[1:] if joint not in (*ours.joints, "root_joint")]
    neutral = pin.neutral(theirs)
    for joint in gone:
        neutral[theirs.idx_qs[joint]] = ours.locks[theirs.names[joint]][0]
    return pin.buildReducedModel(theirs, gone, neutral)


@pytest.mark.parametrize("base", ["floating", "fixed"])
@pytest.mark.parametrize("name", FILES)
def test_agrees_with_pinocchios_reader(name: str, base: str) -> None:
    ours, theirs = humanoid(name, base), pinocchios_own(name, base)
    skip = 2 if base == "floating" else 1
    assert list(ours.joints) == list(theirs.names)[skip:]
    assert ours.velocity_size == theirs.nv
    assert ours.total_mass == pytest.approx(pin.computeTotalMass(theirs), rel=1e-12)
    generator = np.random.default_rng(7)
    for _ in range(5):
        positions = random_configuration(ours, generator)
        data = theirs.createData()
        wanted = np.array(pin.crba(theirs, data, positions))
        wanted = np.triu(wanted) + np.triu(wanted, 1).T
        matrix, com = mass_matrix_and_com(ours, positions)
        assert_close(matrix, wanted, 1e-9)
        assert_close(com, np.array(pin.centerOfMass(theirs, data, positions)), 1e-9)


@pytest.mark.parametrize("name", FILES)
def test_rows_are_pinocchios_inertias(name: str) -> None:
    ours, theirs = humanoid(name), pinocchios_own(name, "floating")
    wanted = [inertia.toDynamicParameters() for inertia in list(theirs.inertias)[1:] if inertia.mass > 0.0]
    np.testing.assert_allclose(ours.parameters, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("base", ["floating", "fixed"])
@pytest.mark.parametrize("name", ["g1", "g1_hands", "talos", "alex", "alex_sake", "simple_humanoid", "romeo"])
def test_agrees_with_mujocos_urdf_reader(name: str, base: str, tmp_path) -> None:
    """MuJoCo reads what we wrote; impossible links are projected first, because it refuses them."""
    model = humanoid(name, base)
    file = tmp_path / f"{name}.urdf"
    possible = model.with_parameters(project_to_interior(model.parameters))
    possible.write(file)
    bare = re.sub(r"(?s)<(visual|collision)\b.*?</\1>", "", file.read_text())
    spec = mujoco.MjSpec.from_string(bare)
    if base == "floating":
        spec.compiler.fusestatic = False
        spec.worldbody.first_body().add_freejoint()
    compiled = spec.compile()
    generator = np.random.default_rng(8)
    for _ in range(3):
        positions = random_configuration(possible, generator)
        matrix, com = mass_matrix_and_com(possible, positions)
        wanted, wanted_com = mujoco_mass_matrix_and_com(possible, compiled, positions)
        assert_close(matrix, wanted, 1e-9)
        if base == "floating":
            assert_close(com, wanted_com, 1e-9)


@pytest.mark.parametrize("name", FILES)
def test_agrees_with_mujoco_on_mjcf(name: str, tmp_path) -> None:
    """Every humanoid as an MJCF that MuJoCo wrote: read by us and by MuJoCo."""
    source = humanoid(name)
    spec = build_mjcf(source.with_parameters(shaken(source, seed=3)))
    spec.compile()
    file = tmp_path / f"{name}.xml"
    file.write_text(spec.to_xml())
    model = load_model(file)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    assert model.base == "floating"
    assert sorted(model.joints) == sorted(source.joints)
    assert sorted(model.links) == sorted(source.links)
    assert model.total_mass == pytest.approx(compiled.body_mass.sum(), rel=1e-12)
    generator = np.random.default_rng(9)
    for _ in range(3):
        positions = random_configuration(model, generator)
        matrix, com = mass_matrix_and_com(model, positions)
        wanted, wanted_com = mujoco_mass_matrix_and_com(model, compiled, positions)
        assert_close(matrix, wanted, 1e-9)
        assert_close(com, wanted_com, 1e-9)


def test_massless_connectors_carry_no_parameters() -> None:
    human = humanoid("human")
    assert len(human.joints) == 36
    connectors = [body.name for body in human.bodies if body.massless]
    assert len(human.links) == 37 - len(connectors) == 18
    assert set(connectors).isdisjoint(human.links)


def test_ready_setups_load_with_all_their_names() -> None:
    sizes = {"g1": (30, 29), "talos": (33, 32), "icub": (32, 29), "romeo": (32, 31)}
    for name, (links, joints) in sizes.items():
        model = load_model(name)
        assert (len(model.links), len(model.joints)) == (links, joints)
        assert len(model.setup.soles) == len(model.setup.wrench_sensors) == 2
        assert model.setup.imus


def test_nothing_is_lumped_across_a_wrench_sensor() -> None:
    """iCub's foot sensors are inside the leg: ankle and foot are two links there, and one without the setup."""
    with_sensors, without = load_model("icub"), humanoid("icub")
    assert set(with_sensors.links) - set(without.links) == {"l_foot", "r_foot"}
    foot = with_sensors.bodies[with_sensors.link_bodies[with_sensors.link_index("l_foot")]]
    assert foot.joint.kind == "fixed"
    assert foot.joint.name == "l_foot_ft_sensor"
    assert "l_sole" in [member.part.name for member in foot.members]
    assert with_sensors.total_mass == pytest.approx(without.total_mass, rel=1e-14)
    generator = np.random.default_rng(10)
    positions = random_configuration(without, generator)
    for one, other in zip(
        mass_matrix_and_com(with_sensors, positions), mass_matrix_and_com(without, positions), strict=True
    ):
        assert_close(one, other, 1e-12)


def test_locking_equals_pinocchios_reduction() -> None:
    """Locked at angles that are not zero, by pattern, before and after loading."""
    locks = {"left_wrist_*": 0.4, "waist_roll_joint": -0.2}
    ours = load_model(path_of("g1"), lock=locks)
    later = humanoid("g1").with_locked(locks)
    assert ours.joints == later.joints
    assert len(ours.joints) == 25
    np.testing.assert_allclose(later.parameters, ours.parameters, rtol=1e-12, atol=1e-14)
    full = pin.buildModelFromUrdf(str(path_of("g1")), pin.JointModelFreeFlyer())
    neutral = pin.neutral(full)
    gone = [full.getJointId(name) for name in ours.locks]
    for joint in gone:
        neutral[full.idx_qs[joint]] = ours.locks[full.names[joint]][0]
    theirs = pin.buildReducedModel(full, gone, neutral)
    wanted = [inertia.toDynamicParameters() for inertia in list(theirs.inertias)[1:]]
    np.testing.assert_allclose(ours.parameters, wanted, rtol=1e-9, atol=1e-12)


def test_locking_carries_changed_parameters_along() -> None:
    g1 = humanoid("g1")
    changed = g1.with_parameters(shaken(g1, seed=5))
    smaller = changed.with_locked({"*_elbow_joint": 0.3})
    assert smaller.total_mass == pytest.approx(changed.total_mass, rel=1e-13)
    positions = random_configuration(smaller, np.random.default_rng(2))
    full_positions = np.array(changed.neutral)
    full_positions[:7] = positions[:7]
    for joint in changed.joints:
        start = changed.tree.q_starts[changed.joint_body(joint)]
        full_positions[start] = 0.3 if "elbow" in joint else positions[smaller.tree.q_starts[smaller.joint_body(joint)]]
    com = mass_matrix_and_com(smaller, positions)[1]
    np.testing.assert_allclose(com, mass_matrix_and_com(changed, full_positions)[1], rtol=1e-12)


def test_locks_add_up_and_the_later_word_counts(tmp_path) -> None:
    talos = humanoid("talos_full").with_locked({"head_1_joint": 0.1})
    assert len(talos.joints) == 29
    (tmp_path / "s.toml").write_text(
        f'[model]\nfile = "{path_of("g1")}"\n[lock]\nleft_elbow_joint = 0.1\n"left_elbow*" = 0.3\n'
    )
    assert load_model(tmp_path / "s.toml").locks["left_elbow_joint"][0] == 0.3
    assert load_model(tmp_path / "s.toml", lock={"left_elbow_joint": 0.5}).locks["left_elbow_joint"][0] == 0.5
    assert load_model("g1", lock={"left_*": 0.0, "right_*": 0.0}).joints == (
        "waist_yaw_joint",
        "waist_roll_joint",
        "waist_pitch_joint",
    )


def test_a_fixed_base_takes_no_changed_link() -> None:
    g1 = humanoid("g1", "fixed")
    first = g1.joints[0]
    g1.with_locked({first: 0.0})
    changed = g1.with_parameters(1.1 * g1.parameters)
    with pytest.raises(ModelError, match="lock first"):
        changed.with_locked({first: 0.0})


def test_followers_are_locked_with_their_leader() -> None:
    talos = humanoid("talos_full")
    assert len(LOCKS["talos_full"]) == 2
    assert sum("gripper" in name for name in talos.locks) == 14
    assert len(talos.joints) == 30


def test_a_fixed_base_never_moves_and_is_not_weighed() -> None:
    fixed, floating = humanoid("g1", "fixed"), humanoid("g1")
    assert fixed.links == floating.links[1:]
    assert fixed.velocity_size == floating.velocity_size - 6
    np.testing.assert_array_equal(fixed.parameters, floating.parameters[1:])


def test_tree_arrays_say_what_the_bodies_say() -> None:
    model = load_model("icub")
    tree = model.tree
    assert np.all(tree.parents[1:] < np.arange(1, len(model.bodies)))
    assert tree.parents[0] == -1
    np.testing.assert_array_equal(tree.rows[list(model.link_bodies)], np.arange(len(model.links)))
    moving = [index for index, body in enumerate(model.bodies) if body.joint.kind not in ("fixed", "free")]
    np.testing.assert_allclose(np.linalg.norm(tree.axes[moving], axis=1), 1.0)
    names = [model.bodies[index].joint.name for index in np.argsort(tree.v_starts, kind="stable") if index in moving]
    assert names == list(model.joints)
    with pytest.raises(ValueError, match="read-only"):
        tree.axes[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.parameters[0, 0] = 1.0


def test_frames_are_where_pinocchio_puts_them() -> None:
    model = humanoid("talos")
    theirs = pin.buildModelFromUrdf(str(path_of("talos")), pin.JointModelFreeFlyer())
    positions = random_configuration(model, np.random.default_rng(11))
    ours_data, theirs_data = model.pinocchio.createData(), theirs.createData()
    pin.framesForwardKinematics(model.pinocchio, ours_data, positions)
    pin.framesForwardKinematics(theirs, theirs_data, positions)
    checked = 0
    for frame in theirs.frames:
        if frame.type == pin.FrameType.BODY:
            ours = ours_data.oMf[model.pinocchio.getFrameId(frame.name, pin.FrameType.BODY)]
            theirs_frame = theirs_data.oMf[theirs.getFrameId(frame.name, pin.FrameType.BODY)]
            np.testing.assert_allclose(ours.homogeneous, theirs_frame.homogeneous, atol=1e-12)
            checked += 1
    assert checked == 60


def test_limits_reach_pinocchio() -> None:
    g1 = humanoid("g1")
    knee = g1.joint("left_knee_joint")
    assert (knee.lower, knee.upper, knee.effort, knee.velocity) == (-0.087267, 2.8798, 139.0, 20.0)
    built = g1.pinocchio
    index = built.idx_qs[built.getJointId("left_knee_joint")]
    assert built.upperPositionLimit[index] == 2.8798


def test_infinite_limits_and_absent_ones(tmp_path) -> None:
    text = path_of("simple_humanoid").read_text()
    import re as regex

    endless = regex.sub(r"<limit[^>]*/>", '<limit lower="-inf" upper="inf" effort="1" velocity="1"/>', text)
    (tmp_path / "endless.urdf").write_text(endless)
    joint = load_model(tmp_path / "endless.urdf").joint("LLEG_KNEE")
    assert (joint.lower, joint.upper) == (-np.inf, np.inf)
    (tmp_path / "absent.urdf").write_text(regex.sub(r"<limit[^>]*/>", "", text))
    joint = load_model(tmp_path / "absent.urdf").joint("LLEG_KNEE")
    assert (joint.lower, joint.upper) == (-np.inf, np.inf)


def test_check_finds_the_links_that_cannot_exist() -> None:
    icub, romeo = humanoid("icub").check(), humanoid("romeo").check()
    assert icub.names("singular") == SINGULAR_ICUB
    assert icub.possible
    assert romeo.names("impossible") == ["RShoulderYawLink", "RElbowYawLink"]
    assert not romeo.possible
    assert "triangle inequality" in romeo.summary()
    for name in ("g1", "talos", "simple_humanoid"):
        assert humanoid(name).check().names("singular") == humanoid(name).check().names("impossible") == []


def test_model_speaks_clearly_about_itself() -> None:
    g1 = humanoid("g1")
    assert repr(g1) == "<Model g1_29dof_rev_1_0: 30 links, 29 joints, floating base, 33.34 kg>"
    assert g1.masses["torso_link"] == pytest.approx(g1.parameters[g1.link_index("torso_link"), 0])
    assert g1.parameter_names[:2] == ["pelvis.m", "pelvis.mx"]
    assert len(g1.neutral) == g1.position_size == 36
