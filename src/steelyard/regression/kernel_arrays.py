"""What compiled kernels take: plain arrays in named tuples, and how kernels are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray, IntArray


class TreeArrays(NamedTuple):
    """`Tree` for kernels; starts count from the first joint, the floating base left out."""

    kinds: IntArray
    axes: FloatArray
    rotations: FloatArray
    translations: FloatArray
    q_starts: IntArray
    v_starts: IntArray
    v_size: int


class WalkArrays(NamedTuple):
    """`Traversal` for kernels."""

    order: IntArray
    source: IntArray
    crossed: IntArray
    upward: BoolArray


class RowArrays(NamedTuple):
    """Which rows a regressor has.

    Six for each region (a group of bodies between wrench sensors), then one for each measured joint torque.
    """

    link_bodies: IntArray  # body of each link
    regions: IntArray  # region of each body; −1: none
    below: BoolArray  # (i, j): body j is body i or hangs on it
    torque_bodies: IntArray  # body that each measured joint moves
    torque_components: IntArray  # which of its velocities, for ball joints
    first_torque_row: int


class MotionArrays(NamedTuple):
    """Joint motion, and the base link's: angular velocity, angular acceleration, proper acceleration."""

    q: FloatArray
    cosines: FloatArray
    sines: FloatArray
    v: FloatArray
    a: FloatArray
    rate: FloatArray
    turn: FloatArray
    pull: FloatArray


class SourceArrays(NamedTuple):
    """Components of wrenches at frames.

    A source acts on one region and, where it is inside the limb, reacts on another; −1: none.
    """

    bodies: IntArray
    points: FloatArray  # origin of the frame in the body
    directions: FloatArray  # axis of the component in the body
    is_force: BoolArray  # else a moment
    is_external: BoolArray  # whether joints feel it
    acts_on: IntArray
    reacts_on: IntArray


# Kernels that call each other live in one file: numba's cache does not notice when a callee elsewhere changes.
compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
