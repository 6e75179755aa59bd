"""Numbers as ROS messages: a message of the right shape is built once, and its numbers are filled in for many."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.bags.ros_messages import JOINT_FIELDS, SECOND, find_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording.bags.ros_messages import ByteArray, Encoding, IntArray, Kind

WORLD = "world"

_CDR_LITTLE_ENDIAN = b"\0\1\0\0"


def build_template(
    kind: Kind, encoding: Encoding, frame: str, *, joints: Sequence[str] = (), fields: Sequence[str] = ()
) -> bytes:
    """Gives a message without time, and with zeros for numbers.

    Args:
        kind: What it is.
        encoding: How it is encoded.
        frame: The frame of its header.
        joints: Names of the joints, of a joint state.
        fields: The fields of a joint state that have numbers, or the parts of an inertial message that are measured.
    """
    text = _Text(encoding)
    if encoding == "ros1":
        text.number(0)
    text.number(0)
    text.number(0)
    text.word(frame)
    if kind == "joints":
        text.number(len(joints))
        for joint in joints:
            text.word(joint)
        for field in JOINT_FIELDS:
            size = len(joints) if field in fields else 0
            text.number(size)
            text.floats([0.0] * size)
    elif kind == "imu":
        for part, zero in (("quat", (0.0, 0.0, 0.0, 1.0)), ("gyro", (0.0,) * 3), ("accel", (0.0,) * 3)):
            text.floats(zero)
            text.floats([0.0 if part in fields else -1.0] + [0.0] * 8)
    elif kind == "wrench":
        text.floats([0.0] * 6)
    else:
        text.word("base")
        text.floats([0.0] * 3 + [0.0, 0.0, 0.0, 1.0] + [0.0] * 36)
        text.floats([0.0] * (6 + 36))
    return bytes(text.letters)


class _Text:
    """A message that is being put together."""

    def __init__(self, encoding: Encoding) -> None:
        self._aligned = encoding == "cdr"
        self.letters = bytearray(_CDR_LITTLE_ENDIAN if self._aligned else b"")

    def number(self, value: int) -> None:
        self._align(4)
        self.letters += struct.pack("<I", value)

    def word(self, word: str) -> None:
        letters = word.encode() + (b"\0" if self._aligned else b"")
        self.number(len(letters))
        self.letters += letters

    def floats(self, values: Sequence[float]) -> None:
        if values:
            self._align(8)
            self.letters += struct.pack(f"<{len(values)}d", *values)

    def _align(self, size: int) -> None:
        # CDR counts from behind its header of four bytes.
        if self._aligned:
            self.letters += bytes((4 - len(self.letters)) % size)


class Encoder:
    """Puts numbers into messages of one shape."""

    def __init__(self, kind: Kind, encoding: Encoding, template: bytes) -> None:
        self._layout = find_layout(kind, encoding, template)
        self._template = np.frombuffer(template, dtype=np.uint8)
        self._written = 0

    def encode(self, stamps: IntArray, values: Mapping[str, FloatArray]) -> ByteArray:
        """Gives messages, shape (n, length of each).

        Args:
            stamps: Their times, ns, shape (n,).
            values: By field, its numbers, shape (n, size of the field).
        """
        count = len(stamps)
        messages = np.tile(self._template, (count, 1))
        times = np.stack(np.divmod(stamps, SECOND), axis=1).astype("<u4")
        start = self._layout.stamp
        messages[:, start : start + 8] = times.view(np.uint8)
        if self._layout.encoding == "ros1":
            numbers = np.arange(self._written, self._written + count) % 2**32
            messages[:, :4] = numbers.astype("<u4").view(np.uint8).reshape(count, 4)
        self._written += count
        for field, numbers_of_field in values.items():
            start, size = self._layout.fields[field]
            numbers_there = np.ascontiguousarray(numbers_of_field, dtype="<f8")
            messages[:, start : start + 8 * size] = numbers_there.view(np.uint8).reshape(count, 8 * size)
        return messages
