"""From a Recording to the messages of a bag: which columns go to which topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.ros_encoding import WORLD, Encoder, build_template
from steelyard.recording.bags.ros_messages import JOINT_FIELDS, ROS_TYPES, SECOND
from steelyard.recording.column_names import (
    BASE,
    IMU_AXES,
    MARKER,
    MESSAGE_GRAMMAR,
    QUATERNION_AXES,
    base_columns,
    parse_column,
    wrench_columns,
)
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.recording.bags.ros_messages import Encoding, Kind
    from steelyard.recording.recording import Recording

_ROWS = 2048
"""Rows that are encoded together. Set by judgement: the cost per batch is negligible, and a batch is a few MB."""

_JOINT_STATES = "/joint_states"

_MOST_SECONDS = {"ros1": 2**32, "cdr": 2**31}
"""Seconds beyond which a stamp overflows: unsigned 32 bits in ROS 1, signed ones in ROS 2."""


@dataclass(frozen=True)
class OutgoingTopic:
    """A topic to be written.

    Attributes:
        name: Its name.
        kind: What its messages are.
        frame: The frame of their headers.
        joints: Names of the joints, of joint states.
        fields: By field of the message, the columns that fill it; None where there is none.
    """

    name: str
    kind: Kind
    frame: str
    joints: tuple[str, ...]
    fields: Mapping[str, tuple[str | None, ...]]

    @property
    def type_name(self) -> str:
        """Its type, as ROS 1 spells it."""
        return next(name for name, kind in ROS_TYPES.items() if kind == self.kind)

    @property
    def ros2_type(self) -> str:
        """Its type, as ROS 2 spells it."""
        return self.type_name.replace("/", "/msg/")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it takes."""
        return tuple(name for names in self.fields.values() for name in names if name is not None)


@dataclass(frozen=True)
class OutgoingMessage:
    """A message to be written.

    Attributes:
        topic: Number of its topic.
        number: How many messages of the topic came before it.
        stamp: Its time, ns.
        contents: Its bytes.
    """

    topic: int
    number: int
    stamp: int
    contents: bytes


def plan_topics(recording: Recording) -> tuple[OutgoingTopic, ...]:
    """Return the topics that hold a recording.

    Raises:
        RecordingError: A column has no place in any message, or there are no positions of joints.
    """
    columns = frozenset(recording.columns)
    joints: dict[str, list[str]] = {"q": [], "v": [], "tau": [], "q_command": []}
    sensors: dict[tuple[Kind, str], None] = {}
    for name in recording.columns:
        parsed = parse_column(name)
        if parsed is None or parsed.quantity == MARKER:
            raise RecordingError(
                f"{recording.name}: the column {name!r} fits no ROS message; leave it out, or write another format "
                f"(columns that do are {MESSAGE_GRAMMAR})",
                column=name,
            )
        if parsed.is_of_joint:
            joints[parsed.quantity].append(parsed.owner)
        elif parsed.quantity == "wrench":
            sensors["wrench", parsed.owner] = None
        elif parsed.owner == BASE and _is_pose(parsed.quantity, columns):
            sensors["odometry", BASE] = None
        else:
            sensors["imu", parsed.owner] = None
    if not joints["q"]:
        raise RecordingError(
            f"{recording.name} has no positions of joints ('q.<joint>'), which give a bag its rows: as a bag it could "
            "not be read back; write another format"
        )
    for quantity, names in joints.items():
        _refuse_ball_joints(recording, quantity, names)
    topics = _joint_topics(joints)
    for kind, owner in sensors:
        topics.append(_sensor_topic(kind, owner, columns))
    return tuple(topics)


def _is_pose(quantity: str, columns: Collection[str]) -> bool:
    """Return whether a column of "base" belongs to the base's pose, not to an inertial sensor of that name."""
    posed = any(f"{BASE}.position.{axis}" in columns for axis in "xyz")
    inertial = any(f"{BASE}.{part}.{axis}" in columns for part in ("gyro", "accel") for axis in "xyz")
    return quantity == "position" or (quantity == "quat" and (posed or not inertial))


def _refuse_ball_joints(recording: Recording, quantity: str, names: Sequence[str]) -> None:
    owners = set(names)
    for name in names:
        ball, _, axis = name.rpartition(".")
        if axis == "x" and all(f"{ball}.{each}" in owners for each in QUATERNION_AXES):
            raise RecordingError(
                f"{recording.name}: the ball joint {ball!r} has no place in a ROS joint state, which has one number a "
                "joint; leave its columns out, or write another format",
                column=f"{quantity}.{name}",
            )


def _joint_topics(joints: Mapping[str, Sequence[str]]) -> list[OutgoingTopic]:
    topics = []
    for topic, quantities in ((_JOINT_STATES, ("q", "v", "tau")), ("/joint_commands", ("q_command",))):
        names = tuple(dict.fromkeys(name for quantity in quantities for name in joints[quantity]))
        there = {quantity: set(joints[quantity]) for quantity in quantities}
        fields = {
            field: tuple(f"{quantity}.{name}" if name in there[quantity] else None for name in names)
            for field, quantity in zip(JOINT_FIELDS, quantities, strict=False)
            if there[quantity]
        }
        if names:
            topics.append(OutgoingTopic(topic, "joints", "", names, fields))
    return topics


def _sensor_topic(kind: Kind, owner: str, columns: Collection[str]) -> OutgoingTopic:
    def present(names: Sequence[str]) -> tuple[str | None, ...]:
        return tuple(name if name in columns else None for name in names)

    if kind == "odometry":
        pose = present(base_columns())
        return OutgoingTopic("/base/odometry", kind, WORLD, (), {"position": pose[:3], "quat": pose[3:]})
    if kind == "wrench":
        return OutgoingTopic(f"/{owner}/wrench", kind, owner, (), {"wrench": present(wrench_columns(owner))})
    parts = {part: present([f"{owner}.{part}.{axis}" for axis in axes]) for part, axes in IMU_AXES.items()}
    if owner == BASE and _is_pose("quat", columns):
        del parts["quat"]
    measured = {part: names for part, names in parts.items() if any(names)}
    return OutgoingTopic(f"/{owner}/imu", kind, owner, (), measured)


def encode_messages(
    recording: Recording, topics: Sequence[OutgoingTopic], encoding: Encoding
) -> Iterator[OutgoingMessage]:
    """Yield the messages of a recording in the order of their times.

    Joint states are written for every row, because their clock gives the rows when the bag is read; any other topic
    only where it has a reading.

    Raises:
        RecordingError: A time is too early or too late for a ROS stamp, or a name is no text.
    """
    encoders = [_make_encoder(recording, topic, encoding) for topic in topics]
    written = [0] * len(topics)
    for chunk in recording.chunks(_ROWS):
        stamps = _stamps(chunk, encoding)
        waiting: list[tuple[int, int, bytes]] = []
        for number, (topic, encoder) in enumerate(zip(topics, encoders, strict=True)):
            rows, values = _read_topic(topic, chunk)
            messages = encoder.encode(stamps[rows], values)
            together, size = messages.tobytes(), messages.shape[1]
            waiting += [
                (row, number, together[place * size : (place + 1) * size]) for place, row in enumerate(rows.tolist())
            ]
        waiting.sort(key=lambda each: each[:2])
        times = stamps.tolist()
        for row, number, contents in waiting:
            yield OutgoingMessage(number, written[number], times[row], contents)
            written[number] += 1


def _make_encoder(recording: Recording, topic: OutgoingTopic, encoding: Encoding) -> Encoder:
    try:
        template = build_template(topic.kind, encoding, topic.frame, joints=topic.joints, fields=tuple(topic.fields))
    except UnicodeEncodeError as error:
        raise RecordingError(
            f"{recording.name}: a name in {in_words([repr(name) for name in topic.columns])} cannot be written as UTF-8"
        ) from error
    return Encoder(topic.kind, encoding, template)


def _stamps(chunk: Recording, encoding: Encoding) -> IntArray:
    """Return the times of rows in ns since the epoch."""
    whole = np.floor(chunk.time)
    seconds = whole + float(chunk.epoch)
    if seconds[0] < 0.0 or seconds[-1] >= _MOST_SECONDS[encoding] - 1:
        raise RecordingError(
            f"{chunk.name}: a ROS stamp cannot hold the times from {chunk.time[0]:.6g} s to {chunk.time[-1]:.6g} s; "
            "count them from zero, or from 1970",
            column="time",
        )
    # The whole seconds apart, so that a time since 1970 keeps its nanoseconds.
    parts = np.rint((chunk.time - whole) * SECOND).astype(np.int64)
    return seconds.astype(np.int64) * SECOND + parts


def _read_topic(topic: OutgoingTopic, chunk: Recording) -> tuple[IntArray, dict[str, FloatArray]]:
    """Return the rows in which a topic has a message, and its numbers there by field."""
    nothing = np.full(len(chunk), np.nan)
    fields = {
        field: np.stack([nothing if name is None else chunk.values[name] for name in names], axis=1)
        for field, names in topic.fields.items()
    }
    measured = np.full(len(chunk), topic.name == _JOINT_STATES)
    for values in fields.values():
        measured |= ~np.isnan(values).all(axis=1)
    rows = np.flatnonzero(measured)
    return rows, {field: values[rows] for field, values in fields.items()}
