"""Joint motion, wrenches and torques from the channels of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.exceptions import MotionError
from steelyard.model import WRENCH_AXES, match_pattern
from steelyard.recording import VECTOR_AXES, joint_columns
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model, WrenchSensor
    from steelyard.motion.channels import Channels
    from steelyard.motion.readings import Readings
    from steelyard.recording import Recording

Positions = Literal["q", "q_command"]
POSITIONS: tuple[Positions, ...] = ("q", "q_command")


@dataclass(frozen=True, eq=False)
class JointState:
    """The motion of the joints, in the model's order, without the floating base.

    Attributes:
        q: Positions, shape (n, n_q).
        v: Velocities, shape (n, n_v); those of a ball joint in the axes of its child link.
        a: Accelerations, shape (n, n_v).
    """

    q: FloatArray
    v: FloatArray
    a: FloatArray


def position_columns(model: Model, positions: Positions) -> tuple[str, ...]:
    """Return the names of all joints' position columns, in the model's order."""
    return tuple(name for joint in model.joints for name in _columns_of(model, joint, positions))


def ball_columns(model: Model) -> tuple[int, ...]:
    """Return the index of the first position column of each ball joint, in the model's order."""
    sizes = [model.joint(joint).position_size for joint in model.joints]
    return tuple(sum(sizes[:number]) for number, size in enumerate(sizes) if size == 4)


def check_offsets(model: Model, offsets: Mapping[str, float]) -> None:
    """Check encoder offsets.

    Raises:
        MotionError: A joint is unknown or a ball joint, or an offset is not a number.
    """
    if not isinstance(offsets, Mapping):
        raise MotionError(f"offsets are {offsets!r}; give numbers by joint, rad or m")
    for joint, offset in offsets.items():
        if joint not in model.joints:
            raise MotionError(
                f"{model.name} has no joint {joint!r} to add an offset to{did_you_mean(joint, model.joints)}",
                channel=joint,
            )
        if model.joint(joint).kind == "ball":
            raise MotionError(f"{joint!r} is a ball joint and cannot have a scalar offset; leave it out", channel=joint)
        if not is_finite_number(offset):
            raise MotionError(f"the offset of {joint!r} is {offset!r}; give rad or m", channel=joint)


def read_joints(model: Model, channels: Channels, positions: Positions, offsets: Mapping[str, float]) -> JointState:
    """Compute the motion of the joints.

    Args:
        model: The model.
        channels: The recorded channels.
        positions: "q" for the measured positions, "q_command" for the commanded ones.
        offsets: By joint, the offset added to its positions, rad or m.
    """
    scalar = [joint for joint in model.joints if model.joint(joint).kind != "ball"]
    names = [name for joint in scalar for name in _columns_of(model, joint, positions)]
    by_joint: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {}
    if names:
        values = channels.values(names, 2)
        values[0] += np.array([offsets.get(joint, 0.0) for joint in scalar])
        if len(scalar) == len(model.joints):
            return JointState(*values)
        by_joint = {joint: tuple(values[:, :, [number]]) for number, joint in enumerate(scalar)}
    for joint in model.joints:
        if joint not in by_joint:
            by_joint[joint] = channels.rotation(_columns_of(model, joint, positions))
    count = len(channels.time)
    parts = [by_joint[joint] for joint in model.joints]
    return JointState(*(np.concatenate([np.empty((count, 0)), *each], axis=1) for each in zip(*parts, strict=True)))


def force_columns(model: Model, recording: Recording, *, declared: bool = False) -> tuple[str, ...]:
    """Return the recorded columns of wrench sensors and joint torques.

    Args:
        model: The model.
        recording: The recording.
        declared: Whether only torques that the setup declares as measured are included.
    """
    wrenches = [name for sensor in model.setup.wrench_sensors for name in _wrench_columns(recording, sensor)]
    joints = _measured(model) if declared else model.joints
    return (*wrenches, *(name for joint in joints for name in _torque_columns(model, recording, joint)))


def empty_torques(model: Model, columns: Sequence[str], readings: Mapping[str, Readings]) -> tuple[str, ...]:
    """Return all torque columns of joints with an empty column, unless the setup declares the torque as measured.

    Args:
        model: The model.
        columns: The recorded columns of forces and torques.
        readings: Their sampling.
    """
    measured = _measured(model)
    empty: list[str] = []
    for joint in model.joints:
        names = [name for name in _torque_names(model, joint) if name in columns]
        if joint not in measured and any(readings[name].count == 0 for name in names):
            empty += names
    return tuple(empty)


def _measured(model: Model) -> list[str]:
    patterns = model.setup.torques_measured
    return [joint for joint in model.joints if any(match_pattern(pattern, [joint]) for pattern in patterns)]


def read_wrenches(model: Model, channels: Channels) -> dict[str, FloatArray]:
    """Return the wrenches on the robot by sensor, shape (n, 6); unmeasured components are zero.

    Raises:
        RecordingError: A component that the sensor measures is missing.
    """
    wrenches = {}
    for sensor in model.setup.wrench_sensors:
        names = _wrench_columns(channels.recording, sensor)
        if names:
            sign = 1.0 if sensor.sign == "on_robot" else -1.0
            values = np.zeros((len(channels.time), 6))
            values[:, [WRENCH_AXES.index(axis) for axis in sensor.axes]] = sign * channels.values(names)[0]
            wrenches[sensor.name] = values
    return wrenches


def read_torques(model: Model, channels: Channels) -> dict[str, FloatArray]:
    """Return the recorded torques or forces by joint, shape (n,); (n, 3) for a ball joint."""
    by_joint = {joint: _torque_columns(model, channels.recording, joint) for joint in model.joints}
    names = [name for columns in by_joint.values() for name in columns]
    if not names:
        return {}
    values = channels.values(names)[0]
    torques: dict[str, FloatArray] = {}
    start = 0
    for joint, columns in by_joint.items():
        if columns:
            part = values[:, start : start + len(columns)]
            torques[joint] = part if len(columns) > 1 else part[:, 0]
        start += len(columns)
    return torques


def _columns_of(model: Model, joint: str, positions: Positions) -> tuple[str, ...]:
    return joint_columns(joint, positions, ball=model.joint(joint).kind == "ball")


def _wrench_columns(recording: Recording, sensor: WrenchSensor) -> tuple[str, ...]:
    names = tuple(f"{sensor.name}.{axis}" for axis in sensor.axes)
    return names if any(name in recording.values for name in names) else ()


def _torque_columns(model: Model, recording: Recording, joint: str) -> tuple[str, ...]:
    names = _torque_names(model, joint)
    return names if all(name in recording.values for name in names) else ()


def _torque_names(model: Model, joint: str) -> tuple[str, ...]:
    ball = model.joint(joint).kind == "ball"
    return tuple(f"tau.{joint}.{axis}" for axis in VECTOR_AXES) if ball else (f"tau.{joint}",)
