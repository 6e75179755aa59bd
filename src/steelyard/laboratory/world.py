"""The simulated world: a robot on a floor, in MuJoCo, built from a Model.

Links, joints and limits are those of the Model; the feet touch the floor at the corners of the setup's soles. Each
joint has a rotor (armature) and a position servo with limited torque.
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
"""Time step of the physics, s: the forces' error through a 10 Hz filter is some mN on G1's dance (decision 7)."""

FRICTION = 0.8
"""Coefficient of friction between sole and floor. Set by judgement: rubber on a smooth floor."""

CORNER_RADIUS = 5e-3
"""Radius (m) of the spheres at the corners of a sole, which touch the floor at the corners. Set by judgement: small
beside a foot, large beside their penetration."""

CONNECTOR_MASS = 1e-12
"""Mass (kg) and inertia (kg m²) of massless bodies: MuJoCo requires some, and this is lost in rounding."""

_CONTACT = {"solref": [0.01, 1.0], "solimp": [0.9, 0.93, 1e-3, 0.5, 2.0], "solreffriction": [0.002, 1.0]}
"""Critically damped: a standing robot penetrates the floor by 0.1 mm, creeps by less in half a minute, and its soles do
not chatter. On a stiffer floor they do: at ``solimp`` 0.99 TALOS' feet chatter with newtons above 200 Hz."""

_GROUND = "ground"
_FORCE, _TORQUE, _POINT, _WRENCH = slice(1, 4), slice(4, 7), slice(7, 10), slice(1, 7)
_SPEC_BITS = (
    1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_TORQUE)
    | 1 << int(mujoco.mjtConDataField.mjCONDATA_POS)
)
"""Fields of a contact sensor: number of contacts, force, torque and position."""

_NET_FORCE = 3
"""MuJoCo's reduction of a contact sensor: the net force of all contacts."""


def build_spec(model: Model, *, armature: Mapping[str, float] | None = None) -> Any:
    """Build an MjSpec of a model's links and joints, without floor and actuators.

    Args:
        model: The model. Its links must be physically possible.
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
    """Set a body's mass and inertia, by principal axes to numpy's precision."""
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
        model: The robot.
        footing: Its feet.
        compiled: MuJoCo's model.
        q_columns: Index of each joint of the Model in MuJoCo's ``qpos``, shape (n_joints,).
        v_columns: Index in ``qvel``, shape (n_joints,).
    """

    model: Model
    footing: Footing
    compiled: Any
    q_columns: np.ndarray
    v_columns: np.ndarray

    def foot_readings(self, sensor_values: FloatArray) -> FloatArray:
        """Return the floor's wrench on each foot about the world's origin, in world axes, shape (n, n_feet, 6).

        Args:
            sensor_values: MuJoCo's ``sensordata``, shape (n, n_sensor_values).
        """
        count = len(self.footing.feet)
        values = sensor_values[:, : 10 * count].reshape(-1, count, 10)
        # MuJoCo's sensor has the force of the first body, the foot, on the second.
        force = -values[..., _FORCE]
        moment = -values[..., _TORQUE] + cross(values[..., _POINT], force)
        return np.concatenate([force, moment], axis=-1)

    def foot_wrenches(self, sensor_values: FloatArray) -> list[Any]:
        """Return the same of a single instant, shape (n_sensor_values,), as Pinocchio's forces."""
        values = sensor_values[: 10 * len(self.footing.feet)].reshape(-1, 10)
        return [pin.SE3(np.eye(3), each[_POINT]).act(pin.Force(-each[_WRENCH])) for each in values]

    def self_contacts(self, sensor_values: FloatArray) -> FloatArray:
        """Return the number of contacts of the robot with itself, shape (n,)."""
        return sensor_values[:, 10 * len(self.footing.feet)]


def set_configuration(data: Any, columns: Any, q: FloatArray) -> None:
    """Set MuJoCo's positions from a configuration of Pinocchio; `columns` are those of the joints in ``qpos``."""
    data.qpos[:3], data.qpos[3:7], data.qpos[columns] = q[:3], q[[6, 3, 4, 5]], q[7:]


def build_world(footing: Footing, model: Model, servo: Servo, clearances: Clearances) -> World:
    """Build the world of a robot on a floor, with its servos.

    Args:
        footing: The feet of the reference.
        model: The true robot: the same joints, other parameters.
        servo: The servos.
        clearances: Which of its pieces collide with each other.
    """
    spec = build_spec(model, armature=dict(zip(model.joints, servo.armature.tolist(), strict=True)))
    spec.option.timestep = TIME_STEP
    # Implicit in the damping of the servos, which acts on joints alone: the equation of motion of the base stays exact.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    spec.option.tolerance = 1e-12
    spec.option.iterations = 200
    # A diverged state is reported as a fall; MuJoCo would restart from its initial pose.
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
    """Add the convex pieces of bodies as geoms ``piece 0``, ``piece 1``, …, which collide with nothing by default."""
    for number, piece in enumerate(pieces):
        name = f"piece {number}"
        spec.add_mesh(name=name, uservert=piece.corners.ravel(), userface=piece.triangles.ravel())
        spec.body(model.bodies[piece.body].name).add_geom(
            name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, mass=0.0, contype=0, conaffinity=0
        )


def _add_self_contact(spec: Any, model: Model, clearances: Clearances) -> None:
    """Add contacts between the checked pairs of pieces, and a sensor that counts them."""
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
