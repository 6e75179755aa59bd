"""Numbers as ROS messages: a message of the right layout is built once, and filled with numbers for many rows."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.bags.ros_messages import JOINT_FIELDS, SECOND, find_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.recording.bags.ros_messages import ByteArray, Encoding, Kind

WORLD = "world"

_CDR_LITTLE_ENDIAN = b"\0\1\0\0"


def build_template(
    kind: Kind, encoding: Encoding, frame: str, *, joints: Sequence[str] = (), fields: Sequence[str] = ()
) -> bytes:
    """Build a message without time, and with zeros for numbers.

    Args:
        kind: What it is.
        encoding: How it is encoded.
        frame: The frame of its header.
        joints: Names of the joints of a joint state.
        fields: The fields of a joint state that have numbers, or the parts of an inertial message that are measured.
    """
    message = _MessageBuilder(encoding)
    if encoding == "ros1":
        message.number(0)
    message.number(0)
    message.number(0)
    message.word(frame)
    if kind == "joints":
        message.number(len(joints))
        for joint in joints:
            message.word(joint)
        for field in JOINT_FIELDS:
            size = len(joints) if field in fields else 0
            message.number(size)
            message.floats([0.0] * size)
    elif kind == "imu":
        for part, zero in (("quat", (0.0, 0.0, 0.0, 1.0)), ("gyro", (0.0,) * 3), ("accel", (0.0,) * 3)):
            message.floats(zero)
            message.floats([0.0 if part in fields else -1.0] + [0.0] * 8)
    elif kind == "wrench":
        message.floats([0.0] * 6)
    else:
        message.word("base")
        message.floats([0.0] * 3 + [0.0, 0.0, 0.0, 1.0] + [0.0] * 36)
        message.floats([0.0] * (6 + 36))
    return bytes(message.contents)


class _MessageBuilder:
    """A message under construction."""

    def __init__(self, encoding: Encoding) -> None:
        self._aligned = encoding == "cdr"
        self.contents = bytearray(_CDR_LITTLE_ENDIAN if self._aligned else b"")

    def number(self, value: int) -> None:
        self._align(4)
        self.contents += struct.pack("<I", value)

    def word(self, word: str) -> None:
        encoded = word.encode() + (b"\0" if self._aligned else b"")
        self.number(len(encoded))
        self.contents += encoded

    def floats(self, values: Sequence[float]) -> None:
        if values:
            self._align(8)
            self.contents += struct.pack(f"<{len(values)}d", *values)

    def _align(self, size: int) -> None:
        # Alignment in CDR counts from behind its header of four bytes.
        if self._aligned:
            self.contents += bytes((4 - len(self.contents)) % size)


class Encoder:
    """Encodes numbers as messages of one layout."""

    def __init__(self, kind: Kind, encoding: Encoding, template: bytes) -> None:
        self._layout = find_layout(kind, encoding, template)
        self._template = np.frombuffer(template, dtype=np.uint8)
        self._written = 0

    def encode(self, stamps: IntArray, values: Mapping[str, FloatArray]) -> ByteArray:
        """Encode messages, shape (n, length of each).

        Args:
            stamps: Their times, ns, shape (n,).
            values: Numbers by field, shape (n, size of the field).
        """
        count = len(stamps)
        messages = np.tile(self._template, (count, 1))
        times = np.stack(np.divmod(stamps, SECOND), axis=1).astype("<u4")
        start = self._layout.stamp
        messages[:, start : start + 8] = times.view(np.uint8)
        if self._layout.encoding == "ros1":
            sequence = np.arange(self._written, self._written + count) % 2**32
            messages[:, :4] = sequence.astype("<u4").view(np.uint8).reshape(count, 4)
        self._written += count
        for field, numbers in values.items():
            start, size = self._layout.fields[field]
            little_endian = np.ascontiguousarray(numbers, dtype="<f8")
            messages[:, start : start + 8 * size] = little_endian.view(np.uint8).reshape(count, 8 * size)
        return messages
