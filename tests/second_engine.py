"""MuJoCo as a second opinion: the same quantities, mapped into our order of ``q`` and ``v``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pinocchio as pin

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model


def mass_matrix_and_com(model: Model, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gives Pinocchio's mass matrix and centre of mass (world) of our model."""
    built = model.pinocchio
    data = built.createData()
    matrix = np.array(pin.crba(built, data, positions))
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    return matrix, np.array(pin.centerOfMass(built, data, positions))


def mujoco_mass_matrix_and_com(model: Model, compiled: Any, positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gives MuJoCo's mass matrix and centre of mass, in our order of velocities and in the world.

    MuJoCo writes a floating base's linear velocity in the world's axes; ours is in the base's own.
    """
    data = mujoco.MjData(compiled)
    change = np.zeros((compiled.nv, model.velocity_size))
    for index, body in enumerate(model.bodies):
        kind = body.joint.kind
        if kind == "fixed":
            continue
        start, size = int(model.tree.q_starts[index]), body.joint.position_size
        v_start = int(model.tree.v_starts[index])
        own = positions[start : start + size]
        if kind == "free":
            joint = next(j for j in range(compiled.njnt) if compiled.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE)
        else:
            joint = mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_JOINT, body.joint.name)
            assert joint >= 0, body.joint.name
        address, dof = compiled.jnt_qposadr[joint], compiled.jnt_dofadr[joint]
        if kind in ("free", "ball"):
            x, y, z, w = own[-4:]
            own = np.array([*own[:-4], w, x, y, z])
        data.qpos[address : address + size] = own
        block = np.eye(body.joint.velocity_size)
        if kind == "free":
            block[:3, :3] = pin.Quaternion(np.array(positions[start + 3 : start + 7])).matrix()
        change[dof : dof + len(block), v_start : v_start + len(block)] = block
    mujoco.mj_forward(compiled, data)
    matrix = np.zeros((compiled.nv, compiled.nv))
    mujoco.mj_fullM(compiled, data, matrix)
    mass = compiled.body_mass[1:].sum()
    com = (compiled.body_mass[1:, None] * data.xipos[1:]).sum(axis=0) / mass
    return change.T @ matrix @ change, com


def assert_close(found: FloatArray, wanted: FloatArray, tolerance: float) -> None:
    """Asserts equality: of a mass matrix, entry (i, j) relative to √(Mᵢᵢ Mⱼⱼ); of a vector, to the greatest."""
    scale = np.max(np.abs(wanted))
    if wanted.ndim == 2:
        diagonal = np.sqrt(np.diag(wanted))
        scale = np.maximum(np.outer(diagonal, diagonal), 1e-300)
    error = np.max(np.abs(found - wanted) / scale)
    assert error < tolerance, f"relative error {error:.2e}"


def build_mjcf(model: Model) -> Any:
    """Gives an MjSpec of our model, with joints of massless connectors put on the body that follows them."""
    spec = mujoco.MjSpec()
    spec.modelname = model.name
    spec.compiler.degree = False
    bodies: dict[int, Any] = {-1: spec.worldbody}
    pending: dict[int, tuple[pin.SE3, list[tuple[Any, pin.SE3]]]] = {}
    rows = {index: row for row, index in enumerate(model.link_bodies)}
    for index, body in enumerate(model.bodies):
        placement, joints, parent = body.placement, [], body.parent
        if body.parent in pending:
            above, earlier = pending[body.parent]
            placement = above * body.placement
            back = body.placement.inverse()
            joints = [(joint, back * frame) for joint, frame in earlier]
            parent = _solid_parent(model, body.parent, pending)
        joints.append((body.joint, pin.SE3.Identity()))
        if body.massless and body.parent >= 0:
            pending[index] = (placement, joints)
            continue
        quaternion = pin.Quaternion(placement.rotation)
        made = bodies[parent].add_body(
            name=body.name, pos=placement.translation, quat=[quaternion.w, quaternion.x, quaternion.y, quaternion.z]
        )
        bodies[index] = made
        for joint, frame in joints:
            _add_joint(made, joint, frame)
        if index in rows:
            _add_inertia(made, model.parameters[rows[index]])
        for name, place in model.frames.items():
            if place.body == index and name.endswith(("imu_link", "sole", "sole_link")):
                turn = pin.Quaternion(place.placement.rotation)
                made.add_site(
                    name=f"{name}_site", pos=place.placement.translation, quat=[turn.w, turn.x, turn.y, turn.z]
                )
    return spec


def _solid_parent(model: Model, index: int, pending: dict[int, Any]) -> int:
    while index in pending:
        index = model.bodies[index].parent
    return index


def _add_joint(made: Any, joint: Any, frame: pin.SE3) -> None:
    kinds = {
        "revolute": mujoco.mjtJoint.mjJNT_HINGE,
        "continuous": mujoco.mjtJoint.mjJNT_HINGE,
        "prismatic": mujoco.mjtJoint.mjJNT_SLIDE,
        "ball": mujoco.mjtJoint.mjJNT_BALL,
    }
    if joint.kind == "free":
        made.add_freejoint()
    elif joint.kind != "fixed":
        limits = {"range": [joint.lower, joint.upper]} if np.isfinite(joint.lower) else {}
        made.add_joint(
            name=joint.name,
            type=kinds[joint.kind],
            pos=frame.translation,
            axis=frame.rotation @ joint.axis if joint.kind != "ball" else [0, 0, 1],
            **limits,
        )


def _add_inertia(made: Any, parameters: FloatArray) -> None:
    inertia = pin.Inertia.FromDynamicParameters(parameters)
    tensor = inertia.inertia
    made.explicitinertial = True
    made.mass = inertia.mass
    made.ipos = inertia.lever
    made.fullinertia = [tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[0, 1], tensor[0, 2], tensor[1, 2]]
