"""The signals of perfect sensors, from the true robot's states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics import cross
from steelyard.model import match_pattern
from steelyard.motion import body_motions, frame_motion
from steelyard.regression import joint_torques, part_wrench

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.kinematics import FrameMotion
    from steelyard.laboratory.physics import States
    from steelyard.model import Model, WrenchSensor
    from steelyard.stance import Footing


@dataclass(frozen=True, eq=False)
class ImuSignals:
    """The signals of a perfect inertial sensor.

    Attributes:
        gyro: Angular velocity in the sensor's axes, shape (n, 3), rad/s.
        accelerometer: Proper acceleration in the sensor's axes, shape (n, 3), m/s².
        rotation: From the sensor's axes to the world's, shape (n, 3, 3).
    """

    gyro: FloatArray
    accelerometer: FloatArray
    rotation: FloatArray


@dataclass(frozen=True, eq=False)
class Signals:
    """The signals of perfect sensors, at the times of the physics.

    Attributes:
        time: Shape (n,), s.
        positions: True joint positions, shape (n, n_joints).
        planned: Planned positions, shape (n, n_joints).
        imus: By sensor.
        wrenches: By sensor, on the robot, in the sensor's frame, shape (n, 6).
        torques: By measured joint, at the output of the gear: without rotor and servo, shape (n,).
    """

    time: FloatArray
    positions: FloatArray
    planned: FloatArray
    imus: dict[str, ImuSignals] = field(default_factory=dict)
    wrenches: dict[str, FloatArray] = field(default_factory=dict)
    torques: dict[str, FloatArray] = field(default_factory=dict)


def compute_signals(states: States, footing: Footing, planned: FloatArray) -> Signals:
    """Compute what the sensors of the setup would read if they were perfect.

    Args:
        states: The true states.
        footing: The feet.
        planned: Planned positions at the states' times, shape (n, n_joints).
    """
    model = states.model
    signals = Signals(states.time, states.q[:, 7:], planned)
    known = dict(states.known)
    for imu in model.setup.imus:
        felt = frame_motion(model, states.motion, imu.frame, known)
        signals.imus[imu.name] = ImuSignals(
            felt.in_own_axes(felt.angular_velocity),
            felt.in_own_axes(felt.proper_acceleration),
            states.rotation @ felt.rotation,
        )
    for sensor in model.setup.wrench_sensors:
        signals.wrenches[sensor.name] = _wrench(states, footing, sensor, known)
    measured = measured_torques(model)
    if measured:
        torques = link_torques(states, footing, known)
        signals.torques.update({joint: torques[:, model.joints.index(joint)] for joint in measured})
    states.known.clear()
    return signals


def measured_torques(model: Model) -> list[str]:
    """Return the joints whose torque the setup declares as measured."""
    patterns = model.setup.torques_measured
    return [joint for joint in model.joints if any(match_pattern(pattern, [joint]) for pattern in patterns)]


def _wrench(states: States, footing: Footing, sensor: WrenchSensor, known: dict[int, FrameMotion]) -> FloatArray:
    """Return the wrench of a six-axis sensor: that of the floor, less that of the links between."""
    model, frame = states.model, states.model.frame(sensor.frame)
    below = np.flatnonzero(model.tree.subtrees[frame.body])
    total = np.zeros((len(states.time), 6))
    for number, foot in enumerate(footing.feet):
        stands_on = foot.sole.wrench == sensor.name if sensor.at == "ground" else foot.body in below
        if stands_on:
            total += states.feet_in_root[:, number]
    if sensor.at == "joint":
        total -= part_wrench(model, states.motion, below.tolist())
    sensed = frame_motion(model, states.motion, sensor.frame, known)
    force = total[:, :3]
    moment = total[:, 3:] - cross(sensed.position, force)
    return np.concatenate([sensed.in_own_axes(force), sensed.in_own_axes(moment)], axis=1)


def link_torques(states: States, footing: Footing, known: dict[int, FrameMotion] | None = None) -> FloatArray:
    """Return the torque that each joint exerts on its link, shape (n, n_joints): ``Y_J φ − Jᵀ f``."""
    model = states.model
    torques = joint_torques(model, states.motion)
    known = {} if known is None else known
    for number, foot in enumerate(footing.feet):
        wrench = states.feet_in_root[:, number]
        for body, at in body_motions(model, states.motion, foot.body, known).items():
            joint = model.bodies[body].joint
            if body == 0 or joint.kind == "fixed":
                continue
            axis = at.rotation @ joint.axis
            lever = wrench[:, :3] if joint.kind == "prismatic" else wrench[:, 3:] - cross(at.position, wrench[:, :3])
            torques[:, model.joints.index(joint.name)] -= np.einsum("ni,ni->n", axis, lever)
    return torques
