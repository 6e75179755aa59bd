"""Joint servos: their gains, and the commands that make the robot follow a course."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.stance import required_efforts

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance import Course, Footing

LEG_FREQUENCY = 4.0
"""Natural frequency (Hz) of the robot on one joint of its legs. Set by judgement: well above that of the falling robot
(0.5 Hz), well below that of the floor."""

ARM_FREQUENCY = 10.0
"""Natural frequency (Hz) of what an upper joint carries. Set by judgement: above the motions' content."""

DAMPING_RATIO = 0.8
"""Damping ratio of all servos. Set by judgement: little overshoot and little lag."""

ROTOR_SHARE = 0.05
"""Rotor inertia of a joint as a share of the inertia that it moves, where the model file has none. Set by judgement."""


@dataclass(frozen=True, eq=False)
class Servo:
    """Position servos of all joints.

    Attributes:
        stiffness: Torque per angle, shape (n_joints,), N m/rad or N/m.
        damping: Torque per speed, shape (n_joints,), N m s/rad or N s/m.
        armature: Rotor inertia, shape (n_joints,), kg m² or kg.
    """

    stiffness: FloatArray
    damping: FloatArray
    armature: FloatArray


def tune_servo(footing: Footing, home: FloatArray) -> Servo:
    """Compute servo gains from the inertias that they move, by the same rule for all robots.

    A joint of the upper body moves its subtree; a joint of the legs moves the robot above it, whose weight the feet
    share. With I the inertia about the joint's axis at home, the stiffness is ``I (2π f)²``.

    Args:
        footing: The robot on its feet.
        home: The home configuration, shape (position_size,).
    """
    model, built = footing.model, footing.pinocchio
    data = footing.data
    hanging = np.diag(pin.crba(built, data, home))[6:]
    pin.ccrba(built, data, home, np.zeros(built.nv))
    pin.computeJointJacobians(built, data, home)
    inertia = np.array(hanging, dtype=np.float64)
    for name in footing.leg_joints:
        number = model.joints.index(name)
        screw = data.J[:, 6 + number]
        axis, moment = screw[3:], screw[:3]
        velocity = moment + np.cross(axis, data.com[0])
        whole = float(model.total_mass * velocity @ velocity + axis @ data.Ig.inertia @ axis)
        inertia[number] = max(inertia[number], (whole - hanging[number]) / len(footing.feet))
    legs = np.isin(np.arange(len(inertia)), footing.leg_columns)
    frequency = 2.0 * np.pi * np.where(legs, LEG_FREQUENCY, ARM_FREQUENCY)
    own = np.array([model.joint(name).armature for name in model.joints])
    armature = np.where(own > 0.0, own, ROTOR_SHARE * inertia)
    moved = inertia + armature
    return Servo(moved * frequency**2, 2.0 * DAMPING_RATIO * moved * frequency, armature)


def servo_commands(footing: Footing, servo: Servo, course: Course, every: int) -> FloatArray:
    """Return the commanded positions with which the reference robot follows a course.

    Torque, speed and rotor acceleration of the reference are fed forward as a lead of the position:
    ``q + (D v + R a + τ) / K``. For a robot that differs from the reference, the servos correct the rest.

    Args:
        footing: The reference on its feet.
        servo: The servos.
        course: The course.
        every: Samples between two computations of the torques, which are interpolated.

    Returns:
        Shape (n, n_joints).
    """
    samples = np.unique(np.append(np.arange(0, len(course.time), every), len(course.time) - 1))
    torques = np.array([required_efforts(footing, course.q[row], course.v[row], course.a[row])[0] for row in samples])
    torque = np.stack([np.interp(course.time, course.time[samples], column) for column in torques.T], axis=1)
    lead = servo.damping * course.v[:, 6:] + servo.armature * course.a[:, 6:] + torque
    return np.asarray(course.q[:, 7:] + lead / servo.stiffness)
