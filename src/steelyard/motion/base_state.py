"""How the base link moves: from an inertial sensor on it, a planted sole, a tracked pose, or not at all."""

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

_NOT_OF_LENGTH_ONE = 0.01
"""By how much the length of a recorded quaternion may differ from one: rounding, not another quantity."""


@dataclass(frozen=True, eq=False)
class BaseState:
    """The motion of the base link, in its own axes.

    Attributes:
        link: Its name.
        angular_velocity: rad/s, shape (n, 3).
        angular_acceleration: rad/s², shape (n, 3).
        proper_acceleration: ``a − g`` of its origin, m/s², shape (n, 3).
        orientation: Quaternion x y z w in the world, shape (n, 4), where it is known.
    """

    link: str
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray
    orientation: FloatArray | None = None


class BaseSource(Protocol):
    """What tells of the base link's motion."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it needs."""

    @property
    def orientation_columns(self) -> tuple[str, ...]:
        """Names of columns that tell of the orientation, where they are recorded; nothing else needs them."""

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Gives the motion of the base link.

        Args:
            model: The model.
            channels: The recorded channels.
            joints: The motion of the joints.
            oriented: Whether the columns of the orientation may be used.
        """


@dataclass(frozen=True)
class ImuBase:
    """An inertial sensor: its link is the base link, and no position and no orientation is needed."""

    imu: Imu

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it needs."""
        return self._columns("gyro") + self._columns("accel")

    @property
    def orientation_columns(self) -> tuple[str, ...]:
        """Names of the columns of its orientation."""
        return self._columns("quat")

    def _columns(self, quantity: str) -> tuple[str, ...]:
        return tuple(f"{self.imu.name}.{quantity}.{axis}" for axis in IMU_AXES[quantity])

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Gives the motion of the sensor's link: its readings, moved from the sensor to the link's origin."""
        del joints
        frame = model.frame(self.imu.frame)
        to_link = frame.placement.rotation.T
        rate, turn = channels.values(self._columns("gyro"), 1) @ to_link
        pull = channels.values(self._columns("accel"))[0] @ to_link
        arm = -frame.placement.translation
        pull = pull + cross(turn, arm) + cross(rate, cross(rate, arm))
        orientation = None
        if oriented:
            # Recorded is the sensor's frame in the world; the link is turned against it for good.
            turned_back = pin.Quaternion(to_link).coeffs()
            orientation = normalised(multiply(channels.orientation(self.orientation_columns), turned_back))
        return BaseState(model.bodies[frame.body].name, rate, turn, pull, orientation)


@dataclass(frozen=True)
class SoleBase:
    """A sole that stands still on level ground: the root moves against it as the joints say [iwasaki2012]."""

    sole: Sole
    columns: tuple[str, ...] = ()
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Gives the motion of the root."""
        del oriented
        root = model.bodies[0].name
        still, at_rest = np.zeros((len(channels.time), 3)), np.zeros_like(joints.v)
        seen_with = Motion(channels.time, joints.q, joints.v, joints.a, root, still, still, still)
        seen = frame_motion(model, seen_with, self.sole.frame)
        # With joints that do not move yet, the accelerations' part is linear: velocities in their place give speeds.
        starting = Motion(channels.time, joints.q, at_rest, joints.v, root, still, still, still)
        speed = frame_motion(model, starting, self.sole.frame).proper_acceleration
        # `seen` is the sole as a root at rest would see it; the truth is the other way round.
        rate, turn, arm = -seen.angular_velocity, -seen.angular_acceleration, seen.position
        carried = cross(turn, arm) + cross(rate, cross(rate, arm)) + 2.0 * cross(rate, speed)
        up = seen.rotation @ sole_normal(model, self.sole)
        return BaseState(root, rate, turn, GRAVITY * up - carried - seen.proper_acceleration)


@dataclass(frozen=True)
class PoseBase:
    """A pose that was tracked from outside, or estimated: position and orientation of the root in the world."""

    columns: tuple[str, ...] = tuple(
        f"{BASE}.{quantity}.{axis}" for quantity, axes in BASE_AXES.items() for axis in axes
    )
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Gives the motion of the root."""
        del joints, oriented
        position, quaternion = self.columns[:3], self.columns[3:]
        _refuse_odd_lengths(channels, quaternion)
        orientation, rate, turn = channels.turning(quaternion)
        pull = channels.values(position, 2)[2] + np.array([0.0, 0.0, GRAVITY])
        pull = np.einsum("nji,nj->ni", quaternion_rotations(orientation), pull)
        return BaseState(model.bodies[0].name, rate, turn, pull, orientation)


@dataclass(frozen=True)
class FixedBase:
    """A base that is bolted down as the model says."""

    columns: tuple[str, ...] = ()
    orientation_columns: tuple[str, ...] = ()

    def state(self, model: Model, channels: Channels, joints: JointState, *, oriented: bool) -> BaseState:
        """Gives a root that does not move."""
        del joints, oriented
        count = len(channels.time)
        placement = model.bodies[0].placement
        pull = np.tile(GRAVITY * placement.rotation[2], (count, 1))
        orientation = np.tile(normalised(pin.Quaternion(placement.rotation).coeffs()), (count, 1))
        still = np.zeros((count, 3))
        return BaseState(model.bodies[0].name, still, still, pull, orientation)


def _refuse_odd_lengths(channels: Channels, columns: tuple[str, ...]) -> None:
    lengths = np.linalg.norm(np.stack([channels.recording.column(name) for name in columns], axis=1), axis=1)
    odd = np.flatnonzero(np.abs(lengths - 1.0) > _NOT_OF_LENGTH_ONE)
    if len(odd):
        raise MotionError(
            f"the quaternion {columns[0][:-2]} has the length {lengths[odd[0]]:.3g} at "
            f"{channels.recording.time[odd[0]]:.3f} s; an orientation has length one: check what was recorded there",
            channel=columns[0],
        )


def neutral_posture(model: Model) -> Motion:
    """Gives one sample at rest in the neutral posture, with the root as base link."""
    neutral = model.neutral[None, 7 if model.base == "floating" else 0 :]
    still, at_rest = np.zeros((1, 3)), np.zeros((1, model.velocity_size))
    return Motion(np.zeros(1), neutral, at_rest, at_rest, model.bodies[0].name, still, still, still)


def sole_normal(model: Model, sole: Sole) -> FloatArray:
    """Gives the normal of a sole that points upwards in the neutral posture, in the sole's frame, shape (3,)."""
    normal = np.linalg.svd(sole.vertices - sole.vertices.mean(axis=0))[2][2]
    rotation = frame_motion(model, neutral_posture(model), sole.frame).rotation[0]
    return np.asarray(normal if (rotation @ normal)[2] >= 0.0 else -normal)
