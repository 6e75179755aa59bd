"""Motions with consistent forces: what perfect sensors would measure, computed with Pinocchio."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.motion import Motion, motion_from_generalized
from tests.humanoids import random_configuration

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model


def standing_motion(
    model: Model,
    count: int,
    seed: int,
    *,
    parameters: FloatArray | None = None,
    lifted: tuple[str, ...] = (),
    hose: tuple[str, FloatArray] | None = None,
) -> Motion:
    """Gives a random motion with the wrenches and torques that its forces balance by.

    The ground's wrench is divided at random between the soles that stand; soles in `lifted` hang free in every second
    sample. A sensor inside the limb feels what hangs below it, and the ground if its sole stands. A hose exerts a
    wrench at a frame.
    """
    generator = np.random.default_rng(seed)
    true = model if parameters is None else model.with_parameters(parameters)
    q = np.array([random_configuration(model, generator) for _ in range(count)])
    v, a = generator.normal(size=(2, count, model.velocity_size))
    motion = motion_from_generalized(model, np.arange(count) / 100.0, q, v, a)
    soles = model.setup.soles
    contacts = {sole.name: np.ones(count, dtype=bool) for sole in soles}
    for name in lifted:
        contacts[name][::2] = False
    wrenches = {sensor.name: np.zeros((count, 6)) for sensor in model.setup.wrench_sensors}
    torques = np.zeros((count, model.velocity_size))
    built = true.pinocchio
    data = built.createData()
    for i in range(count):
        pin.framesForwardKinematics(built, data, q[i])
        pin.computeJointJacobians(built, data, q[i])
        forces = np.array(pin.rnea(built, data, q[i], v[i], a[i]))
        needed = pin.Force(forces[:6].copy()) if model.base == "floating" else None
        ground = {}
        if needed is not None:
            standing = [sole for sole in soles if contacts[sole.name][i]]
            total = data.oMi[1].act(needed)
            if hose is not None:
                frame = model.frame(hose[0])
                joint, placement = _joint_of(model, built, frame.body)
                total = total - (data.oMi[joint] * placement * frame.placement).act(pin.Force(hose[1]))
                forces -= _jacobian(built, data, joint, placement * frame.placement).T @ hose[1]
            for number, sole in enumerate(standing):
                part = pin.Force(generator.normal(size=6) * 20.0) if number < len(standing) - 1 else total
                ground[sole.name] = part
                total = total - part
            for sole in standing:
                frame = model.frame(sole.frame)
                joint, placement = _joint_of(model, built, frame.body)
                at = data.oMi[joint] * placement * frame.placement
                jacobian = _jacobian(built, data, joint, placement * frame.placement)
                forces -= jacobian.T @ at.actInv(ground[sole.name]).vector
        torques[i] = forces
        for sensor in model.setup.wrench_sensors:
            frame = model.frame(sensor.frame)
            joint, placement = _joint_of(model, built, frame.body)
            at = data.oMi[joint] * placement * frame.placement
            sole = next((sole for sole in soles if sole.wrench == sensor.name), None)
            felt = ground.get(sole.name, pin.Force.Zero()) if sole is not None else pin.Force.Zero()
            if sensor.at == "joint":
                felt = felt - _hanging(true, built, data, q[i], v[i], a[i], frame.body)
            wrenches[sensor.name][i] = at.actInv(felt).vector
    start = 6 if model.base == "floating" else 0
    by_joint = {}
    for name in model.joints:
        body = model.joint_body(name)
        place, size = int(model.tree.v_starts[body]), model.joint(name).velocity_size
        by_joint[name] = torques[:, place] if size == 1 else torques[:, place : place + size]
    assert np.allclose(torques[:, :start], 0.0, atol=1e-8)
    return replace(motion, wrenches=wrenches, contacts=contacts, torques=by_joint)


def _joint_of(model: Model, built: pin.Model, body: int) -> tuple[int, pin.SE3]:
    placement = pin.SE3.Identity()
    while model.bodies[body].joint.kind == "fixed" and body:
        placement = model.bodies[body].placement * placement
        body = model.bodies[body].parent
    return (1 if body == 0 else built.getJointId(model.bodies[body].joint.name)), placement


def _jacobian(built: pin.Model, data: pin.Data, joint: int, placement: pin.SE3) -> FloatArray:
    return placement.toActionMatrixInverse() @ pin.getJointJacobian(built, data, joint, pin.LOCAL)


def _hanging(true: Model, built: pin.Model, data: pin.Data, q, v, a, top: int) -> pin.Force:
    """Gives the wrench (world) that the bodies from `top` downwards need for their motion."""

    pin.forwardKinematics(built, data, q, v, a)
    total = pin.Force.Zero()
    below = true.tree.subtrees[top]
    for row, body in enumerate(true.link_bodies):
        if below[body]:
            joint, placement = _joint_of(true, built, body)
            inertia = placement.act(pin.Inertia.FromDynamicParameters(true.parameters[row]))
            acceleration = data.a[joint] - data.oMi[joint].actInv(built.gravity)
            wrench = inertia * acceleration + data.v[joint].cross(inertia * data.v[joint])
            total = total + data.oMi[joint].act(wrench)
    return total
