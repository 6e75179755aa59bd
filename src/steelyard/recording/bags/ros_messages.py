"""ROS messages as numbers: where the floats of a message stand, and many messages taken apart at once.

A topic's messages nearly always have one shape: the same names, the same lengths, only other numbers. The first of them
is walked through byte by byte; the bytes that decided where things stand (lengths, names) are compared with those of
all the others at once, and the numbers of those that agree are columns of one array.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.model import WRENCH_AXES
from steelyard.recording.column_names import BASE_AXES, IMU_AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray

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
"""Nanoseconds of a second: all times of messages are whole nanoseconds."""

_CDR_HEADER = 4
_CDR_PADDING = 7

ByteArray = np.ndarray[Any, np.dtype[np.uint8]]
IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]


class BrokenMessageError(ValueError):
    """A message that is not what its type says."""


def kind_of(type_name: str) -> Kind | None:
    """Gives what a message type is, in whichever spelling: ROS 1, ROS 2, or of its middleware."""
    parts = [part for part in re.split(r"/|::|__", type_name) if part not in {"msg", "dds_"}]
    return ROS_TYPES.get("/".join(parts).removesuffix("_"))


@dataclass(frozen=True, eq=False)
class Layout:
    """Where things stand in messages of one shape.

    Attributes:
        encoding: How they are encoded.
        order: "<" or ">": which byte of a number comes first.
        length: Their length in bytes.
        stamp: Where the seconds of the header's time stand; nanoseconds follow.
        frame: The header's frame.
        joints: Names of the joints, for a joint state.
        fields: By name of a field of floats, where it begins and how many there are.
        example: A message of this layout, shape (length,).
        mask: 255 where a byte decided where things stand, else 0, shape (length,).
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

    def matches(self, messages: ByteArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Gives which messages, shape (n, length), have this layout."""
        difference = messages ^ self.example
        difference &= self.mask
        return difference.max(axis=1) == 0  # type: ignore[no-any-return]

    def floats(self, messages: ByteArray, field: str) -> FloatArray:
        """Gives a field of messages of this layout, shape (n, size of the field)."""
        start, count = self.fields[field]
        taken = np.ascontiguousarray(messages[:, start : start + 8 * count])
        return taken.view(f"{self.order}f8").astype(np.float64, copy=False)

    def stamps(self, messages: ByteArray) -> tuple[IntArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Gives the times of the headers in nanoseconds, and which of them are times at all."""
        pairs = np.ascontiguousarray(messages[:, self.stamp : self.stamp + 8])
        # Seconds are signed in ROS 2 only.
        sign = "i" if self.encoding == "cdr" else "u"
        seconds = pairs.view(f"{self.order}{sign}4")[:, 0].astype(np.int64)
        nanoseconds = pairs.view(f"{self.order}u4")[:, 1].astype(np.int64)
        return seconds * SECOND + nanoseconds, nanoseconds < SECOND


def find_layout(kind: Kind, encoding: Encoding, message: bytes) -> Layout:
    """Walks through a message to see where its numbers stand.

    Raises:
        BrokenMessageError: It ends too early or too late, or its parts contradict each other.
    """
    walk = _Walk(message, encoding)
    stamp = walk.header_stamp()
    # Whose frame it is matters where a sensor is found by it; elsewhere it may change without making another layout.
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
    """Goes through a message from its start, and remembers the bytes that decide where things stand."""

    def __init__(self, message: bytes, encoding: Encoding) -> None:
        self.message = message
        self.order: Literal["<", ">"] = "<"
        self._aligned = encoding == "cdr"
        self._place = 0
        self._fixed: list[tuple[int, int]] = []
        if self._aligned:
            if message[:1] != b"\0" or message[1:2] not in {b"\0", b"\1"} or len(message) < _CDR_HEADER:
                raise BrokenMessageError("it does not begin like a CDR message")
            self.order = "<" if message[1] else ">"
            self._place = _CDR_HEADER
            self._fixed.append((0, 2))

    def header_stamp(self) -> int:
        """Goes over the time of a header, and gives where it stands."""
        if not self._aligned:
            self._take(4, 4)  # ROS 1 counts its messages there
        return self._take(8, 4)

    def count(self, least_size: int) -> int:
        """Reads the number of elements of a sequence, each of which takes at least so many bytes."""
        start = self._take(4, 4)
        self._fixed.append((start, start + 4))
        (count,) = struct.unpack_from(f"{self.order}I", self.message, start)
        if count * least_size > len(self.message) - self._place:
            raise BrokenMessageError(f"it ends before the {count} elements that it announces")
        return int(count)

    def text(self, *, fixed: bool = True) -> str:
        """Reads a text; its contents decide the layout unless `fixed` is False, its length always does."""
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
        """Goes over floats, and gives where they begin and how many there are."""
        return self._take(8 * size, 8), size

    def finish(self) -> None:
        """Checks that the message ends here."""
        left = len(self.message) - self._place
        if left > (_CDR_PADDING if self._aligned else 0):
            raise BrokenMessageError(f"it goes on for {left} bytes after its end")

    def mask(self) -> ByteArray:
        """Gives 255 for each byte that decides the layout, else 0."""
        mask = np.zeros(len(self.message), dtype=np.uint8)
        for start, stop in self._fixed:
            mask[start:stop] = 255
        return mask

    def _take(self, size: int, alignment: int) -> int:
        """Goes over bytes, and gives where they begin."""
        if self._aligned:
            self._place += (_CDR_HEADER - self._place) % alignment
        start = self._place
        if start + size > len(self.message):
            raise BrokenMessageError("it ends too early")
        self._place = start + size
        return start


@dataclass(frozen=True, eq=False)
class Decoded:
    """Messages of one layout, taken apart.

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
    """Gives what the columns of decoded messages are: names of columns, without the sensor in front."""
    if kind == "joints":
        quantities = {"position": "q", "velocity": "v", "effort": "tau"}
        return tuple(f"{quantities[field]}.{joint}" for field in layout.fields for joint in layout.joints)
    if kind == "wrench":
        return WRENCH_AXES
    parts = IMU_AXES if kind == "imu" else BASE_AXES
    return tuple(f"{part}.{axis}" for part, axes in parts.items() for axis in axes)


class Decoder:
    """Takes the messages of one topic apart; remembers their layouts."""

    def __init__(self, kind: Kind, encoding: Encoding) -> None:
        self.kind = kind
        self.encoding = encoding
        self._layouts: dict[int, list[Layout]] = {}

    def decode(self, messages: Sequence[bytes]) -> tuple[list[Decoded], dict[int, str]]:
        """Gives messages by layout, and why others, by their number, cannot be read."""
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
        """Gives which messages of one length have which layout; finds layouts that are new."""
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
    """Gives a part of inertial messages; a covariance that begins with -1 says that the part is not measured."""
    values = layout.floats(messages, part)
    unknown = layout.floats(messages, f"{part}_covariance")[:, 0] == -1.0
    if unknown.any():
        values = np.where(unknown[:, None], np.nan, values)
    return _turns(values) if part == "quat" else values


def _turns(quaternions: FloatArray) -> FloatArray:
    """Gives quaternions; four zeros, which a message has that nobody filled, are none."""
    empty = np.count_nonzero(quaternions, axis=1) == 0
    return np.where(empty[:, None], np.nan, quaternions) if empty.any() else quaternions
