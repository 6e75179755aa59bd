"""Motion of the base link: from an IMU on it, a stationary sole or a tracked pose, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pinocchio as pin

from steelyard.exceptions import MotionError
from steelyard.kinematics import cross, multiply, normalised, quaternion_rotations
from steelyard.motion.frame_motion import frame_motion
from steelyard.motion.motion import GRAVITY, Motion
from steelyard.recording import BASE, BASE_AXES, IMU_AXES

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Imu, Model, Sole
    from steelyard.motion.channels import Channels
    from steelyard.motion.joint_state import JointState

_NORM_TOLERANCE = 0.01
"""Deviation of a recorded quaternion's norm from one that passes as rounding. Set by judgement: three printed decimals
stay below 0.002, another quantity in its columns is rarely that close."""


@dataclass(frozen=True, eq=False)
class BaseState:
    """The motion of the base link, in its own axes.

    Attributes:
        link: Its name.
        angular_velocity: rad/s, shape (n, 3).
        angular_acceleration: rad/s², shape (n, 3).
        proper_acceleration: ``a − g`` of its origin, m/s², shape (n, 3).
        orientation: Quaternion x y z w in the world, shape (n, 4), or None.
    """

    link: str
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray
    orientation: FloatArray | None = None


class BaseSource(Protocol):
    """Source of the base link's motion."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the required columns."""

    @property
    def orientation_columns(self) -> tuple[str, ...]:
        """Names of the optional columns that hold the orientation."""

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Compute the motion of the base link.

        Args:
            model: The model.
            channels: The recorded channels.
            joints: The motion of the joints.
            oriented: Whether the orientation columns may be used.
        """


@dataclass(frozen=True)
class ImuBase:
    """An IMU: its link is the base link; neither position nor orientation is needed."""

    imu: Imu

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the required columns."""
        return self._columns("gyro") + self._columns("accel")

    @property
    def orientation_columns(self) -> tuple[str, ...]:
        """Names of the orientation columns."""
        return self._columns("quat")

    def _columns(self, quantity: str) -> tuple[str, ...]:
        return tuple(f"{self.imu.name}.{quantity}.{axis}" for axis in IMU_AXES[quantity])

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Compute the motion of the sensor's link: the readings, transformed from the sensor to the link's origin."""
        del joints
        frame = model.frame(self.imu.frame)
        to_link = frame.placement.rotation.T
        rate, acceleration = channels.values(self._columns("gyro"), 1) @ to_link
        proper = channels.values(self._columns("accel"))[0] @ to_link
        arm = -frame.placement.translation
        proper = proper + cross(acceleration, arm) + cross(rate, cross(rate, arm))
        orientation = None
        if oriented:
            # The recorded orientation is that of the sensor's frame; the link's differs by a constant rotation.
            sensor_to_link = pin.Quaternion(to_link).coeffs()
            orientation = normalised(multiply(channels.orientation(self.orientation_columns), sensor_to_link))
        return BaseState(model.bodies[frame.body].name, rate, acceleration, proper, orientation)


@dataclass(frozen=True)
class SoleBase:
    """A sole that is stationary on level ground: the joints give the root's motion relative to it [iwasaki2012]."""

    sole: Sole
    columns: tuple[str, ...] = ()
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Compute the motion of the root."""
        del oriented
        root = model.bodies[0].name
        still, at_rest = np.zeros((len(channels.time), 3)), np.zeros_like(joints.v)
        seen_with = Motion(channels.time, joints.q, joints.v, joints.a, root, still, still, still)
        seen = frame_motion(model, seen_with, self.sole.frame)
        # At zero joint velocity, acceleration is linear in joint acceleration: joint velocities there give velocity.
        starting = Motion(channels.time, joints.q, at_rest, joints.v, root, still, still, still)
        speed = frame_motion(model, starting, self.sole.frame).proper_acceleration
        # `seen` is the sole's motion relative to a root at rest; the actual relative motion is its opposite.
        rate, acceleration, arm = -seen.angular_velocity, -seen.angular_acceleration, seen.position
        carried = cross(acceleration, arm) + cross(rate, cross(rate, arm)) + 2.0 * cross(rate, speed)
        up = seen.rotation @ sole_normal(model, self.sole)
        return BaseState(root, rate, acceleration, GRAVITY * up - carried - seen.proper_acceleration)


@dataclass(frozen=True)
class PoseBase:
    """A tracked or estimated pose: position and orientation of the root in the world."""

    columns: tuple[str, ...] = tuple(
        f"{BASE}.{quantity}.{axis}" for quantity, axes in BASE_AXES.items() for axis in axes
    )
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Compute the motion of the root."""
        del joints, oriented
        position, quaternion = self.columns[:3], self.columns[3:]
        _check_norms(channels, quaternion)
        orientation, rate, acceleration = channels.rotation(quaternion)
        proper = channels.values(position, 2)[2] + np.array([0.0, 0.0, GRAVITY])
        proper = np.einsum("nji,nj->ni", quaternion_rotations(orientation), proper)
        return BaseState(model.bodies[0].name, rate, acceleration, proper, orientation)


@dataclass(frozen=True)
class FixedBase:
    """A base fixed to the world at the model's placement."""

    columns: tuple[str, ...] = ()
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Return a stationary root."""
        del joints, oriented
        count = len(channels.time)
        placement = model.bodies[0].placement
        proper = np.tile(GRAVITY * placement.rotation[2], (count, 1))
        orientation = np.tile(normalised(pin.Quaternion(placement.rotation).coeffs()), (count, 1))
        still = np.zeros((count, 3))
        return BaseState(model.bodies[0].name, still, still, proper, orientation)


def _check_norms(channels: Channels, columns: tuple[str, ...]) -> None:
    norms = np.linalg.norm(np.stack([channels.recording.column(name) for name in columns], axis=1), axis=1)
    invalid = np.flatnonzero(np.abs(norms - 1.0) > _NORM_TOLERANCE)
    if len(invalid):
        raise MotionError(
            f"the quaternion {columns[0][:-2]} has norm {norms[invalid[0]]:.3g} at "
            f"{channels.recording.time[invalid[0]]:.3f} s instead of one; check what was recorded there",
            channel=columns[0],
        )


def neutral_posture(model: Model) -> Motion:
    """Return one sample at rest in the neutral posture, with the root as base link."""
    neutral = model.neutral[None, 7 if model.base == "floating" else 0 :]
    still, at_rest = np.zeros((1, 3)), np.zeros((1, model.velocity_size))
    return Motion(np.zeros(1), neutral, at_rest, at_rest, model.bodies[0].name, still, still, still)


def sole_normal(model: Model, sole: Sole) -> FloatArray:
    """Return the sole's normal that points upwards in the neutral posture, in the sole's frame, shape (3,)."""
    normal = np.linalg.svd(sole.vertices - sole.vertices.mean(axis=0))[2][2]
    rotation = frame_motion(model, neutral_posture(model), sole.frame).rotation[0]
    return np.asarray(normal if (rotation @ normal)[2] >= 0.0 else -normal)
