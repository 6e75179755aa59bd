"""ROS messages as numbers: where the floats of a message are, and many messages decoded at once.

A topic's messages nearly always have one layout: the same names, the same lengths, only other numbers. The first of
them is parsed byte by byte; the bytes that determine the layout (lengths, names) are compared with those of all the
others at once, and the numbers of those that agree are columns of one array.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from steelyard.model import WRENCH_AXES
from steelyard.recording.column_names import BASE_AXES, IMU_AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import BoolArray, FloatArray, IntArray

Kind = Literal["joints", "imu", "wrench", "odometry"]
Encoding = Literal["ros1", "cdr"]

ROS_TYPES: dict[str, Kind] = {
    "sensor_msgs/JointState": "joints",
    "sensor_msgs/Imu": "imu",
    "geometry_msgs/WrenchStamped": "wrench",
    "nav_msgs/Odometry": "odometry",
}
"""Types of messages that are read, as ROS 1 spells them."""

ENCODINGS: tuple[Encoding, ...] = ("ros1", "cdr")

JOINT_FIELDS = ("position", "velocity", "effort")

SECOND = 1_000_000_000
"""Nanoseconds in a second, the unit of all times of messages."""

_CDR_HEADER = 4  # bytes in front of a CDR message, which name its byte order; alignment counts from behind them
_CDR_PADDING = 7  # bytes that may follow a CDR message, which some middlewares align to eight

ByteArray = NDArray[np.uint8]


class BrokenMessageError(ValueError):
    """A message that contradicts its type."""


def kind_of(type_name: str) -> Kind | None:
    """Return the kind of a message type, spelled as in ROS 1, ROS 2, or its middleware."""
    parts = [part for part in re.split(r"/|::|__", type_name) if part not in {"msg", "dds_"}]
    return ROS_TYPES.get("/".join(parts).removesuffix("_"))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the fields are in messages of one layout.

    Attributes:
        encoding: How they are encoded.
        order: Byte order, "<" or ">".
        length: Their length in bytes.
        stamp: Where the seconds of the header's stamp are; nanoseconds follow.
        frame: The header's frame.
        joints: Names of the joints, for a joint state.
        fields: Where each field of floats begins and how many there are, by name.
        example: A message of this layout, shape (length,).
        mask: 255 where a byte determines the layout, else 0, shape (length,).
    """

    encoding: Encoding
    order: Literal["<", ">"]
    length: int
    stamp: int
    frame: str
    joints: tuple[str, ...]
    fields: Mapping[str, tuple[int, int]]
    example: ByteArray
    mask: ByteArray

    def matches(self, messages: ByteArray) -> BoolArray:
        """Return which messages, shape (n, length), have this layout."""
        difference = messages ^ self.example
        difference &= self.mask
        return difference.max(axis=1) == 0  # type: ignore[no-any-return]

    def floats(self, messages: ByteArray, field: str) -> FloatArray:
        """Return a field of messages of this layout, shape (n, size of the field)."""
        start, count = self.fields[field]
        taken = np.ascontiguousarray(messages[:, start : start + 8 * count])
        return taken.view(f"{self.order}f8").astype(np.float64, copy=False)

    def stamps(self, messages: ByteArray) -> tuple[IntArray, BoolArray]:
        """Return the header stamps in nanoseconds, and which of them are valid."""
        pairs = np.ascontiguousarray(messages[:, self.stamp : self.stamp + 8])
        # Seconds are signed in ROS 2 only.
        sign = "i" if self.encoding == "cdr" else "u"
        seconds = pairs.view(f"{self.order}{sign}4")[:, 0].astype(np.int64)
        nanoseconds = pairs.view(f"{self.order}u4")[:, 1].astype(np.int64)
        return seconds * SECOND + nanoseconds, nanoseconds < SECOND


def find_layout(kind: Kind, encoding: Encoding, message: bytes) -> Layout:
    """Parse a message to find where its numbers are.

    Raises:
        BrokenMessageError: It ends too early or too late, or its parts contradict each other.
    """
    walk = _Walk(message, encoding)
    stamp = walk.header_stamp()
    # The frame is part of the layout only where it identifies a sensor.
    frame = walk.text(fixed=kind in {"imu", "wrench"})
    joints: tuple[str, ...] = ()
    if kind == "joints":
        joints, fields = _joint_fields(walk)
    elif kind == "imu":
        fields = {}
        for name, size in (("quat", 4), ("gyro", 3), ("accel", 3)):
            fields[name] = walk.floats(size)
            fields[f"{name}_covariance"] = walk.floats(9)
    elif kind == "wrench":
        fields = {"wrench": walk.floats(6)}
    else:
        walk.text(fixed=False)
        fields = {"position": walk.floats(3), "quat": walk.floats(4)}
        walk.floats(36 + 6 + 36)
    walk.finish()
    return Layout(
        encoding=encoding,
        order=walk.order,
        length=len(message),
        stamp=stamp,
        frame=frame,
        joints=joints,
        fields=fields,
        example=np.frombuffer(message, dtype=np.uint8),
        mask=walk.mask(),
    )


def _joint_fields(walk: _Walk) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
    count = walk.count(least_size=4)
    names = tuple(walk.text() for _ in range(count))
    if not names:
        raise BrokenMessageError("it names no joints")
    if len(set(names)) < len(names):
        raise BrokenMessageError("it names a joint twice")
    fields = {}
    for field in JOINT_FIELDS:
        size = walk.count(least_size=8)
        if size not in {0, len(names)}:
            raise BrokenMessageError(f"it has {len(names)} names, but the size of {field!r} is {size}")
        if size:
            fields[field] = walk.floats(size)
    if not fields:
        raise BrokenMessageError("it has names, but no position, velocity or effort")
    return names, fields


class _Walk:
    """A parser that goes through a message, and remembers the bytes that determine its layout."""

    def __init__(self, message: bytes, encoding: Encoding) -> None:
        self.message = message
        self.order: Literal["<", ">"] = "<"
        self._aligned = encoding == "cdr"
        self._position = 0
        self._fixed: list[tuple[int, int]] = []
        if self._aligned:
            if message[:1] != b"\0" or message[1:2] not in {b"\0", b"\1"} or len(message) < _CDR_HEADER:
                raise BrokenMessageError("it does not begin like a CDR message")
            self.order = "<" if message[1] else ">"
            self._position = _CDR_HEADER
            self._fixed.append((0, 2))

    def header_stamp(self) -> int:
        """Skip the stamp of a header, and return where it is."""
        if not self._aligned:
            self._take(4, 4)  # the sequence number of ROS 1
        return self._take(8, 4)

    def count(self, least_size: int) -> int:
        """Read the length of a sequence, each element of which takes at least `least_size` bytes."""
        start = self._take(4, 4)
        self._fixed.append((start, start + 4))
        (count,) = struct.unpack_from(f"{self.order}I", self.message, start)
        if count * least_size > len(self.message) - self._position:
            raise BrokenMessageError(f"it ends before the {count} elements that it announces")
        return int(count)

    def text(self, *, fixed: bool = True) -> str:
        """Read a text; its length determines the layout, and its contents too unless `fixed` is False."""
        size = self.count(least_size=1)
        start = self._take(size, 1)
        if fixed:
            self._fixed.append((start, start + size))
        letters = self.message[start : start + size]
        if self._aligned and size:
            if letters[-1]:
                raise BrokenMessageError("a text in it does not end where it says")
            letters = letters[:-1]
        try:
            return letters.decode()
        except UnicodeDecodeError as error:
            raise BrokenMessageError("a name in it is not UTF-8") from error

    def floats(self, size: int) -> tuple[int, int]:
        """Skip floats, and return where they begin and how many there are."""
        return self._take(8 * size, 8), size

    def finish(self) -> None:
        """Check that the message ends here."""
        left = len(self.message) - self._position
        if left > (_CDR_PADDING if self._aligned else 0):
            raise BrokenMessageError(f"it goes on for {left} bytes after its end")

    def mask(self) -> ByteArray:
        """Return 255 for each byte that determines the layout, else 0."""
        mask = np.zeros(len(self.message), dtype=np.uint8)
        for start, stop in self._fixed:
            mask[start:stop] = 255
        return mask

    def _take(self, size: int, alignment: int) -> int:
        """Skip bytes, and return where they begin."""
        if self._aligned:
            self._position += (_CDR_HEADER - self._position) % alignment
        start = self._position
        if start + size > len(self.message):
            raise BrokenMessageError("it ends too early")
        self._position = start + size
        return start


@dataclass(frozen=True, eq=False)
class Decoded:
    """Decoded messages of one layout.

    Attributes:
        layout: Their layout.
        numbers: Which of the messages given they are, increasing, shape (n,).
        stamps: Times of their headers, ns, shape (n,).
        rows: Their values, shape (n, n_columns); see `columns_of`.
    """

    layout: Layout
    numbers: IntArray
    stamps: IntArray
    rows: FloatArray


def columns_of(kind: Kind, layout: Layout) -> tuple[str, ...]:
    """Return the column names of decoded messages, without the sensor's name."""
    if kind == "joints":
        quantities = {"position": "q", "velocity": "v", "effort": "tau"}
        return tuple(f"{quantities[field]}.{joint}" for field in layout.fields for joint in layout.joints)
    if kind == "wrench":
        return WRENCH_AXES
    parts = IMU_AXES if kind == "imu" else BASE_AXES
    return tuple(f"{part}.{axis}" for part, axes in parts.items() for axis in axes)


class Decoder:
    """Decodes the messages of one topic; remembers their layouts."""

    def __init__(self, kind: Kind, encoding: Encoding) -> None:
        self.kind = kind
        self.encoding = encoding
        self._layouts: dict[int, list[Layout]] = {}

    def decode(self, messages: Sequence[bytes]) -> tuple[list[Decoded], dict[int, str]]:
        """Decode messages by layout, and return why others, by their number, cannot be decoded."""
        lengths = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        decoded: list[Decoded] = []
        broken: dict[int, str] = {}
        for length in dict.fromkeys(lengths.tolist()):
            numbers = np.flatnonzero(lengths == length)
            chosen = messages if len(numbers) == len(messages) else [messages[number] for number in numbers.tolist()]
            together = np.frombuffer(b"".join(chosen), dtype=np.uint8).reshape(len(numbers), length)
            for layout, of_layout in self._sort(together, numbers, broken):
                decoded.append(self._take_apart(layout, together[of_layout], numbers[of_layout], broken))
        return decoded, broken

    def _sort(
        self, together: ByteArray, numbers: IntArray, broken: dict[int, str]
    ) -> list[tuple[Layout, IntArray | slice]]:
        """Sort messages of one length by layout; find layouts that are new."""
        known = self._layouts.setdefault(together.shape[1], [])
        left = np.arange(len(together))
        result: list[tuple[Layout, IntArray | slice]] = []
        untried = list(known)
        while len(left):
            if untried:
                layout = untried.pop(0)
            else:
                try:
                    layout = find_layout(self.kind, self.encoding, together[left[0]].tobytes())
                except BrokenMessageError as error:
                    broken[int(numbers[left[0]])] = str(error)
                    left = left[1:]
                    continue
                known.append(layout)
            whole = len(left) == len(together)
            there = layout.matches(together if whole else together[left])
            if whole and there.all():
                return [(layout, slice(None))]
            if there.any():
                result.append((layout, left[there]))
            left = left[~there]
        return result

    def _take_apart(self, layout: Layout, messages: ByteArray, numbers: IntArray, broken: dict[int, str]) -> Decoded:
        stamps, are_times = layout.stamps(messages)
        if not are_times.all():
            broken |= dict.fromkeys(numbers[~are_times].tolist(), "its stamp is no time")
            messages, numbers, stamps = messages[are_times], numbers[are_times], stamps[are_times]
        if self.kind == "joints":
            parts = [layout.floats(messages, field) for field in layout.fields]
        elif self.kind == "imu":
            parts = [_known_part(layout, messages, part) for part in IMU_AXES]
        elif self.kind == "wrench":
            parts = [layout.floats(messages, "wrench")]
        else:
            parts = [layout.floats(messages, "position"), _turns(layout.floats(messages, "quat"))]
        return Decoded(layout, numbers, stamps, np.concatenate(parts, axis=1))


def _known_part(layout: Layout, messages: ByteArray, part: str) -> FloatArray:
    """Return a part of inertial messages; a covariance that begins with -1 means that it is not measured."""
    values = layout.floats(messages, part)
    unknown = layout.floats(messages, f"{part}_covariance")[:, 0] == -1.0
    if unknown.any():
        values = np.where(unknown[:, None], np.nan, values)
    return _turns(values) if part == "quat" else values


def _turns(quaternions: FloatArray) -> FloatArray:
    """Return quaternions; four zeros, as in a message that nobody filled, are missing."""
    empty = np.count_nonzero(quaternions, axis=1) == 0
    return np.where(empty[:, None], np.nan, quaternions) if empty.any() else quaternions
