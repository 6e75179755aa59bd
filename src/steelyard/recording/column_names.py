"""Column names: the only module that knows how Steelyard names what a robot measures.

``q.<joint>``, ``v.<joint>``, ``tau.<joint>`` and ``q_command.<joint>``, with ``.x`` … ``.w`` after a ball joint;
``<sensor>.gyro.x``, ``<sensor>.accel.x`` and ``<sensor>.quat.x`` … ``.w`` of an inertial sensor; ``<sensor>.fx`` …
``.nz`` of a wrench sensor; ``base.position.x`` and ``base.quat.x`` … ``.w`` of the robot's base;
``marker.<label>.x`` … ``.z`` of a marker of motion capture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steelyard.model import WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Collection

JOINT_QUANTITIES = ("q", "v", "tau", "q_command")
"""What is measured of a joint, before its name: position, velocity, torque, and the position it was told to take."""

VECTOR_AXES = ("x", "y", "z")
QUATERNION_AXES = ("x", "y", "z", "w")

IMU_AXES = {"gyro": VECTOR_AXES, "accel": VECTOR_AXES, "quat": QUATERNION_AXES}
"""What is measured of an inertial sensor, after its name, and the axes of each."""

BASE = "base"
BASE_AXES = {"position": VECTOR_AXES, "quat": QUATERNION_AXES}
"""What is measured of the robot's base, after the word "base", and the axes of each."""

MARKER = "marker"

MESSAGE_GRAMMAR = (
    "'q.<joint>', 'v.<joint>', 'tau.<joint>', 'q_command.<joint>', '<sensor>.gyro.x', '<sensor>.accel.x', "
    "'<sensor>.quat.x', '<sensor>.fx' to '<sensor>.nz', 'base.position.x' and 'base.quat.x'"
)
"""The names of columns that ROS messages hold, in words."""

GRAMMAR = f"{MESSAGE_GRAMMAR}, and 'marker.<label>.x' of a marker"
"""The names in words, for errors."""

Quantity = Literal["q", "v", "tau", "q_command", "gyro", "accel", "quat", "wrench", "position", "marker"]


@dataclass(frozen=True)
class ColumnName:
    """A column's name, taken apart; `str` puts it together.

    Attributes:
        owner: The joint, the sensor, the marker, or "base".
        quantity: What is measured of it; "wrench" for ``<sensor>.fx`` and its like, "marker" for a marker's position.
        axis: "x" to "w", "fx" to "nz", or "" where the quantity is one number.
    """

    owner: str
    quantity: Quantity
    axis: str = ""

    @property
    def is_of_joint(self) -> bool:
        """Whether the owner is a joint."""
        return self.quantity in JOINT_QUANTITIES

    def __str__(self) -> str:
        if self.is_of_joint:
            return f"{self.quantity}.{self.owner}" + (f".{self.axis}" if self.axis else "")
        if self.quantity == MARKER:
            return f"{MARKER}.{self.owner}.{self.axis}"
        return f"{self.owner}.{self.axis}" if self.quantity == "wrench" else f"{self.owner}.{self.quantity}.{self.axis}"


def parse_column(name: str, joints: Collection[str] = ()) -> ColumnName | None:
    """Parse a Steelyard name; return None if it is none.

    A joint's name may contain anything, dots too. Whether ``q.hip.x`` is the joint "hip.x" or an axis of the ball joint
    "hip" depends on the model: it is the latter if "hip" is among `joints` and "hip.x" is not.

    Args:
        name: A column's name.
        joints: The model's joints, where there is one.
    """
    quantity, dot, owner = name.partition(".")
    if dot and owner and quantity in JOINT_QUANTITIES:
        ball, _, axis = owner.rpartition(".")
        if axis in QUATERNION_AXES and ball in joints and owner not in joints:
            return ColumnName(ball, quantity, axis)  # type: ignore[arg-type]
        return ColumnName(owner, quantity)  # type: ignore[arg-type]
    owner, dot, axis = name.rpartition(".")
    if owner and axis in WRENCH_AXES:
        return ColumnName(owner, "wrench", axis)
    sensor, _, quantity = owner.rpartition(".")
    axes = IMU_AXES.get(quantity, ()) or (BASE_AXES.get(quantity, ()) if sensor == BASE else ())
    if sensor and axis in axes:
        return ColumnName(sensor, quantity, axis)  # type: ignore[arg-type]
    first, _, label = owner.partition(".")
    return ColumnName(label, "marker", axis) if first == MARKER and label and axis in VECTOR_AXES else None


def joint_columns(joint: str, quantity: Quantity = "q", *, ball: bool = False) -> tuple[str, ...]:
    """Return the names of a joint's columns: one, or the four of a ball joint's orientation."""
    axes = QUATERNION_AXES if ball else ("",)
    return tuple(str(ColumnName(joint, quantity, axis)) for axis in axes)


def imu_columns(sensor: str) -> tuple[str, ...]:
    """Return the names of all columns of an inertial sensor: gyro, accel, quat."""
    return tuple(f"{sensor}.{quantity}.{axis}" for quantity, axes in IMU_AXES.items() for axis in axes)


def wrench_columns(sensor: str) -> tuple[str, ...]:
    """Return the names of the six columns of a wrench sensor."""
    return tuple(f"{sensor}.{axis}" for axis in WRENCH_AXES)


def marker_columns(label: str) -> tuple[str, ...]:
    """Return the names of the columns of a marker's position."""
    return tuple(str(ColumnName(label, "marker", axis)) for axis in VECTOR_AXES)


def base_columns() -> tuple[str, ...]:
    """Return the names of the columns of the base's pose: position, then orientation x y z w."""
    return tuple(f"{BASE}.{quantity}.{axis}" for quantity, axes in BASE_AXES.items() for axis in axes)
