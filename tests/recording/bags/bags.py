"""Bags made message by message with rosbags and mcap, not with Steelyard's own writers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags import rosbag1, rosbag2
from rosbags.typesys import Stores, get_typestore

from steelyard.model import Setup
from steelyard.recording.bags.bag_file import read_bag

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard import Recording

SECOND = 1_000_000_000
START = 1_760_000_000 * SECOND

JOINT_STATE = "sensor_msgs/msg/JointState"
IMU = "sensor_msgs/msg/Imu"
WRENCH = "geometry_msgs/msg/WrenchStamped"
ODOMETRY = "nav_msgs/msg/Odometry"


def read(path: Path, setup: Setup | None = None, clock: str | None = None) -> Recording:
    """Read a bag whose ending says what it is; a folder and the rest are ROS 2 bags."""
    return read_bag(path, {".mcap": "mcap", ".bag": "ros1"}.get(path.suffix, "ros2"), setup or Setup(), clock)


@cache
def types(encoding: str) -> Any:
    return get_typestore(Stores.ROS1_NOETIC if encoding == "ros1" else Stores.ROS2_HUMBLE)


class Message(NamedTuple):
    """A message before it is encoded: its fields, plain."""

    topic: str
    kind: str
    stamp: int
    received: int
    frame: str
    values: dict[str, Any]


def joint_state(topic, stamp, names, position=(), velocity=(), effort=(), *, received=None, frame=""):
    values = {"name": list(names), "position": position, "velocity": velocity, "effort": effort}
    return Message(topic, JOINT_STATE, stamp, stamp if received is None else received, frame, values)


def imu(topic, stamp, *, gyro=(0, 0, 0), accel=(0, 0, 9.8), quat=(0, 0, 0, 1), covariance=0.0, received=None, frame=""):
    values = {"gyro": gyro, "accel": accel, "quat": quat, "covariance": covariance}
    return Message(topic, IMU, stamp, stamp if received is None else received, frame, values)


def wrench(topic, stamp, values, *, received=None, frame=""):
    return Message(topic, WRENCH, stamp, stamp if received is None else received, frame, {"wrench": values})


def odometry(topic, stamp, position=(0, 0, 0), quat=(0, 0, 0, 1), *, received=None, frame="odom"):
    values = {"position": position, "quat": quat}
    return Message(topic, ODOMETRY, stamp, stamp if received is None else received, frame, values)


def build(message: Message, encoding: str) -> Any:
    """Gives a message as an object of rosbags."""
    known = types(encoding).types
    stamp = known["builtin_interfaces/msg/Time"](message.stamp // SECOND, message.stamp % SECOND)
    start = (7,) if encoding == "ros1" else ()
    header = known["std_msgs/msg/Header"](*start, stamp, message.frame)
    vector, turn = known["geometry_msgs/msg/Vector3"], known["geometry_msgs/msg/Quaternion"]
    values = message.values
    if message.kind == JOINT_STATE:
        arrays = [np.asarray(values[field], dtype=np.float64) for field in ("position", "velocity", "effort")]
        return known[JOINT_STATE](header, values["name"], *arrays)
    if message.kind == IMU:
        covariance = np.zeros(9)
        covariance[0] = values["covariance"]
        parts = (turn(*values["quat"]), covariance, vector(*values["gyro"]), np.zeros(9), vector(*values["accel"]))
        return known[IMU](header, *parts, np.zeros(9))
    if message.kind == WRENCH:
        whole = values["wrench"]
        return known[WRENCH](header, known["geometry_msgs/msg/Wrench"](vector(*whole[:3]), vector(*whole[3:])))
    pose = known["geometry_msgs/msg/Pose"](known["geometry_msgs/msg/Point"](*values["position"]), turn(*values["quat"]))
    twist = known["geometry_msgs/msg/Twist"](vector(1, 2, 3), vector(4, 5, 6))
    return known[ODOMETRY](
        header,
        "base_link",
        known["geometry_msgs/msg/PoseWithCovariance"](pose, np.zeros(36)),
        known["geometry_msgs/msg/TwistWithCovariance"](twist, np.zeros(36)),
    )


def encode(message: Message, encoding: str, *, little_endian: bool = True) -> bytes:
    store = types(encoding)
    if encoding == "ros1":
        return bytes(store.serialize_ros1(build(message, encoding), message.kind))
    return bytes(store.serialize_cdr(build(message, encoding), message.kind, little_endian=little_endian))


def write(path: Path, messages: list[Message], **options: Any) -> Path:
    """Writes messages in the order given; the ending says how: .mcap, .bag, or a ROS 2 folder with sqlite3."""
    if path.suffix == ".mcap":
        _write_mcap(path, messages, **options)
    elif path.suffix == ".bag":
        with rosbag1.Writer(path) as writer:
            writer.chunk_threshold = options.get("chunk_size", writer.chunk_threshold)
            _write_connections(writer, messages, "ros1")
    else:
        plugin = rosbag2.StoragePlugin[options.get("storage", "sqlite3").upper()]
        writer = rosbag2.Writer(path, version=8, storage_plugin=plugin)
        if "packed" in options:
            mode = rosbag2.CompressionMode[options["packed"].upper()]
            writer.set_compression(mode, rosbag2.CompressionFormat.ZSTD)
        with writer:
            _write_connections(writer, messages, "cdr")
    return path


def _write_connections(writer: Any, messages: list[Message], encoding: str) -> None:
    connections: dict[tuple[str, str], Any] = {}
    for message in messages:
        key = (message.topic, message.kind)
        if key not in connections:
            connections[key] = writer.add_connection(*key, typestore=types(encoding))
        writer.write(connections[key], message.received, encode(message, encoding))


def _write_mcap(
    path: Path,
    messages: list[Message],
    *,
    encoding: str = "cdr",
    declared: str | None = None,
    little_endian: bool = True,
    chunk_size: int = 100_000,
    compression: CompressionType = CompressionType.ZSTD,
    use_chunking: bool = True,
) -> None:
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=chunk_size, compression=compression, use_chunking=use_chunking)
        writer.start("ros2")
        channels: dict[tuple[str, str], int] = {}
        for message in messages:
            key = (message.topic, message.kind)
            if key not in channels:
                name = message.kind if encoding == "cdr" else message.kind.replace("/msg/", "/")
                schema = writer.register_schema(name, "ros2msg" if encoding == "cdr" else "ros1msg", b"")
                channels[key] = writer.register_channel(message.topic, declared or encoding, schema)
            writer.add_message(
                channels[key],
                message.received,
                encode(message, encoding, little_endian=little_endian),
                message.received,
            )
        writer.finish()


def ramp(
    count: int = 200, *, topic: str = "/joint_states", names: tuple[str, ...] = ("hip", "knee"), start: int = START
):
    """Joint states at 100 Hz whose positions are time and its negative."""
    return [
        joint_state(topic, start + row * SECOND // 100, names, [sign * row / 100 for sign in (1, -1)[: len(names)]])
        for row in range(count)
    ]


def in_order(*parts: list[Message]) -> list[Message]:
    """Puts messages in the order of their receipt."""
    return sorted((message for part in parts for message in part), key=lambda message: message.received)
