"""The same tree in Pinocchio, for kinematics and dynamics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.parameters import rotational_inertia_at_origin

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model.description import Joint
    from steelyard.model.model import Model


def build_pinocchio(model: Model) -> pin.Model:
    """Build a ``pinocchio.Model`` with the same ``q``, ``v``, parameters, limits, armature and frames.

    Pinocchio has no fixed joints: there a link below a wrench sensor is lumped with the link above it. Each link, and
    each named frame, is a frame of the result.
    """
    built = pin.Model()
    built.name = model.name
    joint_of: list[int] = []
    placement_of: list[pin.SE3] = []
    for body in model.bodies:
        parent = 0 if body.parent < 0 else joint_of[body.parent]
        placement = body.placement if body.parent < 0 else placement_of[body.parent] * body.placement
        if body.joint.kind == "fixed":
            joint_of.append(parent)
            placement_of.append(placement)
            continue
        joint_of.append(_add_joint(built, parent, placement, body.joint))
        placement_of.append(pin.SE3.Identity())
    for row, index in enumerate(model.link_bodies):
        built.appendBodyToJoint(joint_of[index], _inertia(model, row), placement_of[index])
    for name, frame in model.frames.items():
        kind = pin.FrameType.BODY if name in model.description.parts else pin.FrameType.OP_FRAME
        joint, placement = joint_of[frame.body], placement_of[frame.body] * frame.placement
        built.addFrame(pin.Frame(name, joint, placement, kind), False)
    return built


def _add_joint(built: pin.Model, parent: int, placement: pin.SE3, joint: Joint) -> int:
    if joint.kind == "free":
        return int(built.addJoint(parent, pin.JointModelFreeFlyer(), placement, "root_joint"))
    if joint.kind == "ball":
        number = built.addJoint(parent, pin.JointModelSpherical(), placement, joint.name)
    else:
        # A continuous joint stays one plain angle: the same motion, without Pinocchio's cosine and sine.
        limits = (np.array([limit]) for limit in (joint.effort, joint.velocity, joint.lower, joint.upper))
        number = built.addJoint(parent, _single_axis_joint(joint), placement, joint.name, *limits)
    start, size = built.idx_vs[number], built.nvs[number]
    built.armature[start : start + size] = joint.armature
    return int(number)


def _single_axis_joint(joint: Joint) -> pin.JointModel:
    *aligned, unaligned = (
        (pin.JointModelPX, pin.JointModelPY, pin.JointModelPZ, pin.JointModelPrismaticUnaligned)
        if joint.kind == "prismatic"
        else (pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ, pin.JointModelRevoluteUnaligned)
    )
    for joint_model, unit in zip(aligned, np.eye(3), strict=True):
        if np.array_equal(joint.axis, unit):
            return joint_model()
    return unaligned(np.array(joint.axis))


def _inertia(model: Model, row: int) -> pin.Inertia:
    parameters: FloatArray = model.parameters[row]
    if parameters[0] != 0.0:
        # Unlike the constructor, this accepts impossible links, which an estimate may have.
        return pin.Inertia.FromDynamicParameters(parameters)
    if np.any(parameters[1:4]):
        raise ModelError(
            f"link {model.links[row]!r} has no mass but a first moment; Pinocchio cannot hold it",
            names=[model.links[row]],
        )
    inertia = pin.Inertia.Zero()
    inertia.inertia = rotational_inertia_at_origin(parameters)
    return inertia
