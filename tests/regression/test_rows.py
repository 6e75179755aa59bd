"""Regressor times parameters equals inverse dynamics: Pinocchio's, MuJoCo's, and the paper's own way."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given

from steelyard.model import load_model
from steelyard.motion import motion_from_generalized
from steelyard.regression.rows import base_rows, base_wrench, joint_rows, joint_torques, static_rows
from tests.generated_trees import MJCF_KINDS, mjcf_text, trees
from tests.humanoids import FILES, humanoid, random_configuration, shaken
from tests.second_engine import build_mjcf


def random_motion(model, count: int, seed: int):
    generator = np.random.default_rng(seed)
    q = np.array([random_configuration(model, generator) for _ in range(count)])
    v, a = generator.normal(size=(2, count, model.velocity_size)) * np.array([[[2.0]], [[20.0]]])
    return q, v, a, motion_from_generalized(model, np.arange(count) / 100.0, q, v, a)


def relative(found, wanted) -> float:
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


@pytest.mark.parametrize("base", ["floating", "fixed"])
@pytest.mark.parametrize("name", FILES)
def test_rows_times_parameters_are_pinocchios_inverse_dynamics(name: str, base: str) -> None:
    model = humanoid(name, base)
    q, v, a, motion = random_motion(model, 4, seed=1)
    phi = shaken(model, seed=2)
    changed = model.with_parameters(phi)
    data = changed.pinocchio.createData()
    wanted = np.array([pin.rnea(changed.pinocchio, data, q[i], v[i], a[i]) for i in range(4)])
    joints = joint_rows(model, motion)
    skip = 6 if base == "floating" else 0
    assert relative(joints @ phi.ravel(), wanted[:, skip:]) < 1e-10
    assert relative(joint_torques(model, motion, phi), wanted[:, skip:]) < 1e-10
    if base == "floating":
        rows = base_rows(model, motion)
        assert relative(rows @ phi.ravel(), wanted[:, :6]) < 1e-10
        assert relative(base_wrench(model, motion, phi), wanted[:, :6]) < 1e-10


@pytest.mark.parametrize("name", ["g1", "talos", "romeo", "simple_humanoid"])
def test_rows_are_pinocchios_regressor(name: str) -> None:
    model = humanoid(name)
    q, v, a, motion = random_motion(model, 3, seed=3)
    data = model.pinocchio.createData()
    ours = np.concatenate([base_rows(model, motion), joint_rows(model, motion)], axis=1)
    for i in range(3):
        wanted = pin.computeJointTorqueRegressor(model.pinocchio, data, q[i], v[i], a[i])
        assert relative(ours[i], wanted) < 1e-10


@given(trees(MJCF_KINDS))
def test_rows_agree_with_mujocos_inverse_dynamics_on_every_joint_type(tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tree.xml"
        file.write_text(mjcf_text(tree))
        model = load_model(file)
        compiled = mujoco.MjModel.from_xml_path(str(file))
    compiled.dof_damping[:] = 0.0
    compiled.dof_armature[:] = 0.0
    compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    q, v, a, motion = random_motion(model, 2, seed=tree[2])
    rows = joint_rows(model, motion)
    if model.base == "floating":
        rows = np.concatenate([base_rows(model, motion), rows], axis=1)
    for i in range(2):
        wanted = mujoco_inverse(model, compiled, q[i], v[i], a[i])
        assert relative(rows[i] @ model.parameters.ravel(), wanted) < 1e-10


@pytest.mark.parametrize("name", FILES)
def test_rows_agree_with_mujocos_inverse_dynamics_on_every_humanoid(name: str) -> None:
    model = humanoid(name)
    changed = model.with_parameters(shaken(model, seed=21))
    compiled = build_mjcf(changed).compile()
    compiled.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    q, v, a, motion = random_motion(model, 2, seed=22)
    rows = np.concatenate([base_rows(model, motion), joint_rows(model, motion)], axis=1)
    for i in range(2):
        wanted = mujoco_inverse(model, compiled, q[i], v[i], a[i])
        assert relative(rows[i] @ changed.parameters.ravel(), wanted) < 1e-10


def mujoco_inverse(model, compiled, q, v, a):
    """MuJoCo's inverse dynamics in our order and axes: its floating base speaks in world axes."""
    data = mujoco.MjData(compiled)
    forces = np.zeros(model.velocity_size)
    slots = []
    for index, body in enumerate(model.bodies):
        joint = body.joint
        if joint.kind == "fixed":
            continue
        if joint.kind == "free":
            number = next(j for j in range(compiled.njnt) if compiled.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE)
        else:
            number = mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_JOINT, joint.name)
        q_at, v_at = int(model.tree.q_starts[index]), int(model.tree.v_starts[index])
        address, dof = compiled.jnt_qposadr[number], compiled.jnt_dofadr[number]
        own = q[q_at : q_at + joint.position_size]
        speed, push = (x[v_at : v_at + joint.velocity_size].copy() for x in (v, a))
        turn = np.eye(3)
        if joint.kind in ("free", "ball"):
            turn = pin.Quaternion(np.array(own[-4:])).matrix()
            own = np.array([*own[:-4], own[-1], *own[-4:-1]])
        if joint.kind == "free":
            push[:3] = turn @ (push[:3] + np.cross(speed[3:], speed[:3]))
            speed[:3] = turn @ speed[:3]
        data.qpos[address : address + joint.position_size] = own
        data.qvel[dof : dof + joint.velocity_size] = speed
        data.qacc[dof : dof + joint.velocity_size] = push
        slots.append((joint, v_at, dof, turn))
    mujoco.mj_inverse(compiled, data)
    for joint, v_at, dof, turn in slots:
        own = data.qfrc_inverse[dof : dof + joint.velocity_size].copy()
        if joint.kind == "free":
            own[:3] = turn.T @ own[:3]
        forces[v_at : v_at + joint.velocity_size] = own
    return forces


def test_the_papers_unit_changes_give_the_same_columns() -> None:
    """[yamane2011] (24)-(28): a unit change of each parameter through inverse dynamics."""
    model = humanoid("g1")
    q, v, a, motion = random_motion(model, 1, seed=5)
    rows = np.concatenate([base_rows(model, motion), joint_rows(model, motion)], axis=1)[0]
    built = model.pinocchio.copy()
    data = built.createData()
    nominal = pin.rnea(built, data, q[0], v[0], a[0])
    for link in (0, 3, 15):
        original = built.inertias[link + 1].copy()
        mass, com = original.mass, np.array(original.lever)
        origin_tensor = original.inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
        for symbol in range(4):
            changed_mass = mass + 1.0 if symbol == 0 else mass
            changed_com = mass / (mass + 1.0) * com if symbol == 0 else com + np.eye(3)[symbol - 1] / mass
            shift = changed_mass * (changed_com @ changed_com * np.eye(3) - np.outer(changed_com, changed_com))
            inertia = pin.Inertia.Zero()
            inertia.mass, inertia.lever, inertia.inertia = changed_mass, changed_com, origin_tensor - shift
            built.inertias[link + 1] = inertia
            column = pin.rnea(built, data, q[0], v[0], a[0]) - nominal
            np.testing.assert_allclose(rows[:, 10 * link + symbol], column, atol=1e-9 * np.max(np.abs(rows)))
        built.inertias[link + 1] = original


def at_another_base(model, motion, link: str, q, v, a):
    """Expresses a motion at another link, with Pinocchio's kinematics."""
    from dataclasses import replace

    built = model.pinocchio
    data = built.createData()
    body = model.frame(link).body
    joint = built.getJointId(model.bodies[body].joint.name)
    rates, turns, pulls = [], [], []
    for i in range(len(motion)):
        pin.forwardKinematics(built, data, q[i], v[i], a[i])
        up = data.oMi[joint].rotation.T @ np.array([0.0, 0.0, 9.81])
        velocity, acceleration = data.v[joint], data.a[joint]
        rates.append(np.array(velocity.angular))
        turns.append(np.array(acceleration.angular))
        pulls.append(np.array(acceleration.linear) + np.cross(velocity.angular, velocity.linear) + up)
    return replace(
        motion,
        base=link,
        angular_velocity=np.array(rates),
        angular_acceleration=np.array(turns),
        proper_acceleration=np.array(pulls),
    )


@pytest.mark.parametrize("link", ["left_ankle_roll_link", "torso_link", "right_wrist_yaw_link"])
def test_any_link_can_be_the_base(link: str) -> None:
    model = humanoid("g1")
    q, v, a, motion = random_motion(model, 3, seed=6)
    elsewhere = at_another_base(model, motion, link, q, v, a)
    phi = model.parameters.ravel()
    wrench, moved = base_rows(model, motion) @ phi, base_rows(model, elsewhere) @ phi
    data = model.pinocchio.createData()
    joint = model.pinocchio.getJointId(model.bodies[model.frame(link).body].joint.name)
    for i in range(3):
        pin.forwardKinematics(model.pinocchio, data, q[i])
        placement = data.oMi[joint].inverse() * data.oMi[1]
        wanted = placement.act(pin.Force(wrench[i])).vector
        assert relative(moved[i], wanted) < 1e-10
    assert relative(joint_torques(model, elsewhere), joint_torques(model, motion)) < 1e-10


@pytest.mark.parametrize("name", ["g1", "icub_full", "human"])
def test_static_rows_give_the_centre_of_mass(name: str) -> None:
    model = humanoid(name)
    q = random_motion(model, 3, seed=7)[0]
    q[:, :7] = [0, 0, 0, 0, 0, 0, 1]
    data = model.pinocchio.createData()
    moments = static_rows(model, q[:, 7:]) @ model.parameters.ravel()
    for i in range(3):
        wanted = np.array(pin.centerOfMass(model.pinocchio, data, q[i]))
        np.testing.assert_allclose(moments[i] / model.total_mass, wanted, atol=1e-12)
