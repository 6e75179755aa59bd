"""The physical world of the laboratory: a robot on a floor, in MuJoCo, built from a Model.

The robot's links, joints and limits are the Model's; the feet touch the floor at the corners of the setup's soles. Each
joint has a rotor (armature) and a position servo whose torque is limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pinocchio as pin

from steelyard.kinematics import cross
from steelyard.model import to_mass_com_inertia
from steelyard.motion import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.laboratory.servo import Servo
    from steelyard.model import Joint, Model
    from steelyard.stance import Clearances, Footing, Piece

TIME_STEP = 5e-4
"""Seconds between two states of the physics."""

FRICTION = 0.8
"""Coefficient of friction between sole and floor: rubber on a laboratory's floor."""

CORNER_RADIUS = 5e-3
"""Radius (m) of the spheres that stand for the corners of a sole; their undersides are where the corners are."""

CONNECTOR_MASS = 1e-12
"""Mass (kg) and inertia (kg m²) of bodies that have none: MuJoCo wants some, and this is lost in rounding."""

_CONTACT = {"solref": [0.01, 1.0], "solimp": [0.9, 0.93, 1e-3, 0.5, 2.0], "solreffriction": [0.002, 1.0]}
"""Critically damped: a standing robot sinks in by a tenth of a millimetre, creeps by less in half a minute, and its
soles do not chatter. On a stiffer floor they do: at ``solimp`` 0.99 TALOS' feet rattle with newtons above 200 Hz."""

_GROUND = "ground"
_FORCE, _TORQUE, _POINT = slice(1, 4), slice(4, 7), slice(7, 10)
_SPEC_BITS = (
    1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_TORQUE)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_POS)
)
_NET_FORCE = 3


def build_spec(model: Model, *, armature: Mapping[str, float] | None = None) -> Any:
    """Gives an MjSpec of a model's links and joints, without a floor and without motors.

    Args:
        model: The model. Its links must be possible bodies: MuJoCo has no others.
        armature: Rotor inertia (kg m² or kg) by joint, in place of the model's own.
    """
    spec = mujoco.MjSpec()
    spec.modelname = model.name
    spec.compiler.degree = False
    spec.option.gravity = [0.0, 0.0, -GRAVITY]
    rows = {index: row for row, index in enumerate(model.link_bodies)}
    made: dict[int, Any] = {-1: spec.worldbody}
    for index, body in enumerate(model.bodies):
        part = made[body.parent].add_body(
            name=body.name, pos=body.placement.translation, quat=_wxyz(body.placement.rotation)
        )
        made[index] = part
        _add_joint(part, body.joint, (armature or {}).get(body.joint.name, body.joint.armature))
        if index in rows:
            _add_inertia(part, model.parameters[rows[index]])
        elif body.joint.kind != "fixed":
            part.explicitinertial = True
            part.mass = CONNECTOR_MASS
            part.inertia = np.full(3, CONNECTOR_MASS)
    return spec


def _add_joint(part: Any, joint: Joint, armature: float) -> None:
    kinds = {
        "revolute": mujoco.mjtJoint.mjJNT_HINGE,
        "continuous": mujoco.mjtJoint.mjJNT_HINGE,
        "prismatic": mujoco.mjtJoint.mjJNT_SLIDE,
        "ball": mujoco.mjtJoint.mjJNT_BALL,
    }
    if joint.kind == "free":
        part.add_freejoint(name="root")
    elif joint.kind != "fixed":
        limits = {"range": [joint.lower, joint.upper]} if np.isfinite(joint.lower) else {}
        axis = joint.axis if joint.kind != "ball" else [0.0, 0.0, 1.0]
        part.add_joint(name=joint.name, type=kinds[joint.kind], axis=axis, armature=armature, **limits)


def _add_inertia(part: Any, parameters: FloatArray) -> None:
    """Gives a body its mass; principal axes are found here, to the last digit that numpy has."""
    mass, com, inertia = to_mass_com_inertia(parameters)
    moments, axes = np.linalg.eigh(inertia)
    axes *= np.sign(np.linalg.det(axes))
    part.explicitinertial = True
    part.mass = float(mass)
    part.ipos = com
    part.inertia = moments
    part.iquat = _wxyz(axes)


def _wxyz(rotation: FloatArray) -> list[float]:
    quaternion = pin.Quaternion(np.array(rotation)).normalized()
    return [quaternion.w, quaternion.x, quaternion.y, quaternion.z]


@dataclass(frozen=True, eq=False)
class World:
    """A robot on a floor.

    Attributes:
        model: The robot whose links these are.
        footing: Its feet.
        compiled: MuJoCo's model.
        q_columns: Where each joint of the Model is in MuJoCo's ``qpos``, shape (n_joints,).
        v_columns: Where it is in ``qvel``, shape (n_joints,).
    """

    model: Model
    footing: Footing
    compiled: Any
    q_columns: np.ndarray
    v_columns: np.ndarray

    def foot_readings(self, sensor_values: FloatArray) -> FloatArray:
        """Gives the floor's wrench on each foot about the world's origin, in world axes, shape (n, n_feet, 6).

        Args:
            sensor_values: MuJoCo's ``sensordata``, shape (n, n_sensor_values).
        """
        count = len(self.footing.feet)
        values = sensor_values[:, : 10 * count].reshape(-1, count, 10)
        # MuJoCo gives what the first body, the foot, exerts on the second.
        force = -values[..., _FORCE]
        moment = -values[..., _TORQUE] + cross(values[..., _POINT], force)
        return np.concatenate([force, moment], axis=-1)

    def self_contacts(self, sensor_values: FloatArray) -> FloatArray:
        """Gives how many contacts the robot has with itself, shape (n,)."""
        return sensor_values[:, 10 * len(self.footing.feet)]


def build_world(footing: Footing, model: Model, servo: Servo, clearances: Clearances) -> World:
    """Puts a robot on a floor, with motors.

    Args:
        footing: The feet of the reference.
        model: The true robot: the same joints, other parameters.
        servo: Its motors.
        clearances: Which of its pieces touch each other.
    """
    spec = build_spec(model, armature=dict(zip(model.joints, servo.armature.tolist(), strict=True)))
    spec.option.timestep = TIME_STEP
    # Implicit in the servos' damping, which acts on joints alone: the base's equation of motion stays exact.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    spec.option.tolerance = 1e-12
    spec.option.iterations = 200
    # A state that has blown up is told as a fall; MuJoCo would start again from its first pose.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    _add_floor(spec, footing)
    _add_self_contact(spec, model, clearances)
    _add_servos(spec, model, servo)
    compiled = spec.compile()
    numbers = [mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_JOINT, name) for name in model.joints]
    return World(model, footing, compiled, compiled.jnt_qposadr[numbers], compiled.jnt_dofadr[numbers])


def _add_floor(spec: Any, footing: Footing) -> None:
    spec.worldbody.add_geom(
        name=_GROUND, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05], contype=0, conaffinity=0
    )
    for foot in footing.feet:
        body = spec.body(footing.model.bodies[foot.body].name)
        for number, corner in enumerate(foot.corners):
            name = f"{foot.sole.name} corner {number}"
            centre = foot.placement.act(corner + np.array([0.0, 0.0, CORNER_RADIUS]))
            body.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[CORNER_RADIUS, 0.0, 0.0],
                pos=centre,
                mass=0.0,
                contype=0,
                conaffinity=0,
            )
            spec.add_pair(
                geomname1=name, geomname2=_GROUND, condim=3, friction=[FRICTION, FRICTION, 0.0, 0.0, 0.0], **_CONTACT
            )
        spec.add_sensor(
            name=f"foot {foot.sole.name}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            objname=footing.model.bodies[foot.body].name,
            reftype=mujoco.mjtObj.mjOBJ_GEOM,
            refname=_GROUND,
            intprm=[_SPEC_BITS, _NET_FORCE, 1],
        )


def add_pieces(spec: Any, model: Model, pieces: Sequence[Piece]) -> None:
    """Gives bodies their convex pieces, as geoms ``piece 0``, ``piece 1``, …; they touch nothing by themselves."""
    for number, piece in enumerate(pieces):
        name = f"piece {number}"
        spec.add_mesh(name=name, uservert=piece.corners.ravel(), userface=piece.triangles.ravel())
        spec.body(model.bodies[piece.body].name).add_geom(
            name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, mass=0.0, contype=0, conaffinity=0
        )


def _add_self_contact(spec: Any, model: Model, clearances: Clearances) -> None:
    """Lets the pieces that are watched stop each other, and counts how often they do."""
    add_pieces(spec, model, clearances.pieces)
    for first, second in clearances.pairs:
        spec.add_pair(geomname1=f"piece {first}", geomname2=f"piece {second}", condim=1)
    root = model.bodies[0].name
    spec.add_sensor(
        name="self contact",
        type=mujoco.mjtSensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_XBODY,
        objname=root,
        reftype=mujoco.mjtObj.mjOBJ_XBODY,
        refname=root,
        intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), _NET_FORCE, 1],
    )


def _add_servos(spec: Any, model: Model, servo: Servo) -> None:
    for name, stiffness, damping in zip(model.joints, servo.stiffness, servo.damping, strict=True):
        effort = model.joint(name).effort
        limits = {"forcelimited": True, "forcerange": [-effort, effort]} if np.isfinite(effort) and effort > 0 else {}
        spec.add_actuator(
            name=name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            target=name,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            gainprm=[stiffness, *[0.0] * 9],
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            biasprm=[0.0, -stiffness, -damping, *[0.0] * 7],
            **limits,
        )
