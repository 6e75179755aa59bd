"""The compiled pass over a tree: placement, velocity and acceleration of every body, for all samples at once.

All vectors are in the axes of the base link. Of the base link's own motion only its angular velocity, its angular
acceleration and its proper acceleration ``a − g`` enter: no position, no orientation, no gravity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics.kernel_cache import compile_kernel
from steelyard.kinematics.tree import JOINT_CODES, TreeMotion, traverse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.arrays import FloatArray
    from steelyard.kinematics.tree import Tree

# Kernels that call each other live in one file: numba's cache does not notice when a callee elsewhere changes.
compiled = compile_kernel(fastmath={"contract", "nsz", "arcp"})

_REVOLUTE = JOINT_CODES["revolute"]
_CONTINUOUS = JOINT_CODES["continuous"]
_PRISMATIC = JOINT_CODES["prismatic"]
_BALL = JOINT_CODES["ball"]

# The motion of a body is one flat row, because views of small arrays cost more than the arithmetic on them. Kernels of
# other rooms compile these indices in, and numba's cache does not notice when they change here.
ROTATION = 0  # from the body's axes to the base link's, nine entries, row by row; the others have three
POSITION = 9  # of the body's origin from the base link's, m
ANGULAR_VELOCITY = 12  # rad/s
ANGULAR_ACCELERATION = 15  # rad/s²
PROPER_ACCELERATION = 18  # a - g of the body's origin, m/s²
VELOCITY = 21  # of the body's origin, that of the base link's being zero, m/s
STATE_SIZE = 24  # numbers for each body and sample


BLOCK = 64
"""Samples of a block of `spread_blocks`: 0.4 MB for 30 bodies, which stay in a core's cache. With blocks of 256 or more
the pass and the regressor of a G1 took 1.3 to 1.7 times as long for each sample; with 16, calling them did."""


def spread_blocks(tree: Tree, base: int, motion: TreeMotion) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the samples of a motion block by block, with the motion of all bodies as `spread_motion` returns it.

    The next block overwrites that of the last: the memory that it takes does not grow with the motion.
    """
    arrays, walk, count = _kernel_motion(motion), traverse(tree, base), len(motion.q)
    states = np.empty((min(BLOCK, count), len(tree.parents), STATE_SIZE))
    for start in range(0, count, BLOCK):
        block = states[: count - start]
        _spread(tree.arrays, walk, arrays, start, block)
        yield slice(start, start + BLOCK), block


def spread_motion(tree: Tree, base: int, motion: TreeMotion) -> FloatArray:
    """Compute the motion of all bodies' joint frames from that of the joints and of the base link.

    Args:
        tree: The tree.
        base: Index of the base link's body.
        motion: The motion; of a ball joint, a quaternion x y z w and rates in the child's axes.

    Returns:
        Shape (n, n_bodies, `STATE_SIZE`), in the axes of the base link: rotation, position, angular velocity, angular
        acceleration, proper acceleration and velocity side by side, each from the index that is named after it.
    """
    states = np.empty((len(motion.q), len(tree.parents), STATE_SIZE))
    _spread(tree.arrays, traverse(tree, base), _kernel_motion(motion), 0, states)
    return states


class _KernelMotion(NamedTuple):
    """`TreeMotion` for kernels, with cosines and sines of all positions."""

    q: FloatArray
    cosines: FloatArray
    sines: FloatArray
    v: FloatArray
    a: FloatArray
    rate: FloatArray
    turn: FloatArray
    pull: FloatArray


def _kernel_motion(motion: TreeMotion) -> _KernelMotion:
    q, v, a, rate, turn, pull = (np.ascontiguousarray(values, dtype=np.float64) for values in motion)
    return _KernelMotion(q, np.cos(q), np.sin(q), v, a, rate, turn, pull)


@compiled
def _quaternion_matrix(x, y, z, w):
    """Return the rotation of a quaternion as nine scalars, row by row."""
    scale = 2.0 / (x * x + y * y + z * z + w * w)
    return (
        1.0 - scale * (y * y + z * z), scale * (x * y - z * w), scale * (x * z + y * w),
        scale * (x * y + z * w), 1.0 - scale * (x * x + z * z), scale * (y * z - x * w),
        scale * (x * z - y * w), scale * (y * z + x * w), 1.0 - scale * (x * x + y * y),
    )  # fmt: skip


@compiled
def _axis_matrix(x, y, z, cosine, sine):
    """Return the rotation about a unit axis as nine scalars, row by row."""
    rest = 1.0 - cosine
    return (
        cosine + rest * x * x, rest * x * y - sine * z, rest * x * z + sine * y,
        rest * x * y + sine * z, cosine + rest * y * y, rest * y * z - sine * x,
        rest * x * z - sine * y, rest * y * z + sine * x, cosine + rest * z * z,
    )  # fmt: skip


@compiled
def _multiply(a, b):
    """Return the product of two 3 × 3 matrices, each nine scalars, row by row."""
    return (
        a[0] * b[0] + a[1] * b[3] + a[2] * b[6],
        a[0] * b[1] + a[1] * b[4] + a[2] * b[7],
        a[0] * b[2] + a[1] * b[5] + a[2] * b[8],
        a[3] * b[0] + a[4] * b[3] + a[5] * b[6],
        a[3] * b[1] + a[4] * b[4] + a[5] * b[7],
        a[3] * b[2] + a[4] * b[5] + a[5] * b[8],
        a[6] * b[0] + a[7] * b[3] + a[8] * b[6],
        a[6] * b[1] + a[7] * b[4] + a[8] * b[7],
        a[6] * b[2] + a[7] * b[5] + a[8] * b[8],
    )


@compiled
def _transpose(a):
    return (a[0], a[3], a[6], a[1], a[4], a[7], a[2], a[5], a[8])


@compiled
def _apply(a, x, y, z):
    """Return a 3 × 3 matrix, nine scalars, times a vector."""
    return a[0] * x + a[1] * y + a[2] * z, a[3] * x + a[4] * y + a[5] * z, a[6] * x + a[7] * y + a[8] * z


@compiled
def _spread_sample(tree, walk, motion, sample, state):
    """Write the motion of all bodies in one sample to `state`, shape (n_bodies, STATE_SIZE)."""
    base = walk.order[0]
    for i in range(9):
        state[base, i] = 1.0 if i % 4 == 0 else 0.0
    for i in range(3):
        state[base, POSITION + i] = 0.0
        state[base, VELOCITY + i] = 0.0
        state[base, ANGULAR_VELOCITY + i] = motion.rate[sample, i]
        state[base, ANGULAR_ACCELERATION + i] = motion.turn[sample, i]
        state[base, PROPER_ACCELERATION + i] = motion.pull[sample, i]
    for step in range(1, walk.order.shape[0]):
        # Unsigned indices: numba tests signed ones for counting from the end.
        body = np.uint64(walk.order[step])
        source = np.uint64(walk.source[step])
        child = np.uint64(walk.crossed[step])
        upward = walk.upward[step]
        kind = tree.kinds[child]
        x, y, z = tree.axes[child, 0], tree.axes[child, 1], tree.axes[child, 2]
        t0, t1, t2 = tree.translations[child, 0], tree.translations[child, 1], tree.translations[child, 2]
        placed = (
            tree.rotations[child, 0, 0], tree.rotations[child, 0, 1], tree.rotations[child, 0, 2],
            tree.rotations[child, 1, 0], tree.rotations[child, 1, 1], tree.rotations[child, 1, 2],
            tree.rotations[child, 2, 0], tree.rotations[child, 2, 1], tree.rotations[child, 2, 2],
        )  # fmt: skip
        known = (
            state[source, 0], state[source, 1], state[source, 2],
            state[source, 3], state[source, 4], state[source, 5],
            state[source, 6], state[source, 7], state[source, 8],
        )  # fmt: skip
        slid = 0.0
        speed = 0.0
        change = 0.0
        q_at = np.uint64(tree.q_starts[child])
        v_at = np.uint64(tree.v_starts[child])
        if kind == _BALL:
            m = _quaternion_matrix(
                motion.q[sample, q_at],
                motion.q[sample, q_at + np.uint64(1)],
                motion.q[sample, q_at + np.uint64(2)],
                motion.q[sample, q_at + np.uint64(3)],
            )
        elif kind == _REVOLUTE or kind == _CONTINUOUS:  # noqa: PLR1714, SIM109  (a tuple is slower here)
            m = _axis_matrix(x, y, z, motion.cosines[sample, q_at], motion.sines[sample, q_at])
            speed = motion.v[sample, v_at]
            change = motion.a[sample, v_at]
        else:
            m = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
            if kind == _PRISMATIC:
                slid = motion.q[sample, q_at]
                speed = motion.v[sample, v_at]
                change = motion.a[sample, v_at]
        if upward:
            reached = _multiply(known, _transpose(_multiply(placed, m)))
            of_parent, of_child = reached, known
        else:
            reached = _multiply(known, _multiply(placed, m))
            of_parent, of_child = known, reached
        r0, r1, r2 = _apply(of_parent, t0, t1, t2)
        for i in range(9):
            state[body, i] = reached[i]
        # The joint's axis, and what it adds to velocity and acceleration, in base axes.
        u0, u1, u2 = _apply(of_child, x, y, z)
        m0, m1, m2 = u0 * speed, u1 * speed, u2 * speed
        p0, p1, p2 = u0 * change, u1 * change, u2 * change
        if kind == _BALL:
            last, next_last = v_at + np.uint64(2), v_at + np.uint64(1)
            m0, m1, m2 = _apply(of_child, motion.v[sample, v_at], motion.v[sample, next_last], motion.v[sample, last])
            p0, p1, p2 = _apply(of_child, motion.a[sample, v_at], motion.a[sample, next_last], motion.a[sample, last])
        r0, r1, r2 = r0 + u0 * slid, r1 + u1 * slid, r2 + u2 * slid
        sign = -1.0 if upward else 1.0
        slide = 1.0 if kind == _PRISMATIC else 0.0
        spin = 1.0 - slide
        # The relation between parent and child is written with the parent's rates.
        w0, w1, w2 = (
            state[source, ANGULAR_VELOCITY],
            state[source, ANGULAR_VELOCITY + 1],
            state[source, ANGULAR_VELOCITY + 2],
        )
        e0, e1, e2 = w0 + sign * spin * m0, w1 + sign * spin * m1, w2 + sign * spin * m2
        state[body, ANGULAR_VELOCITY], state[body, ANGULAR_VELOCITY + 1], state[body, ANGULAR_VELOCITY + 2] = e0, e1, e2
        if upward:
            w0, w1, w2 = e0, e1, e2
        f0, f1, f2 = w1 * m2 - w2 * m1, w2 * m0 - w0 * m2, w0 * m1 - w1 * m0
        a0, a1, a2 = (
            state[source, ANGULAR_ACCELERATION],
            state[source, ANGULAR_ACCELERATION + 1],
            state[source, ANGULAR_ACCELERATION + 2],
        )
        b0 = a0 + sign * spin * (p0 + f0)
        b1 = a1 + sign * spin * (p1 + f1)
        b2 = a2 + sign * spin * (p2 + f2)
        (
            state[body, ANGULAR_ACCELERATION],
            state[body, ANGULAR_ACCELERATION + 1],
            state[body, ANGULAR_ACCELERATION + 2],
        ) = b0, b1, b2
        if upward:
            a0, a1, a2 = b0, b1, b2
        # ω × r, then α × r + ω × (ω × r), and what sliding adds.
        x0, x1, x2 = w1 * r2 - w2 * r1, w2 * r0 - w0 * r2, w0 * r1 - w1 * r0
        d0 = a1 * r2 - a2 * r1 + w1 * x2 - w2 * x1 + slide * (p0 + 2.0 * f0)
        d1 = a2 * r0 - a0 * r2 + w2 * x0 - w0 * x2 + slide * (p1 + 2.0 * f1)
        d2 = a0 * r1 - a1 * r0 + w0 * x1 - w1 * x0 + slide * (p2 + 2.0 * f2)
        state[body, PROPER_ACCELERATION] = state[source, PROPER_ACCELERATION] + sign * d0
        state[body, PROPER_ACCELERATION + 1] = state[source, PROPER_ACCELERATION + 1] + sign * d1
        state[body, PROPER_ACCELERATION + 2] = state[source, PROPER_ACCELERATION + 2] + sign * d2
        state[body, POSITION] = state[source, POSITION] + sign * r0
        state[body, POSITION + 1] = state[source, POSITION + 1] + sign * r1
        state[body, POSITION + 2] = state[source, POSITION + 2] + sign * r2
        state[body, VELOCITY] = state[source, VELOCITY] + sign * (x0 + slide * m0)
        state[body, VELOCITY + 1] = state[source, VELOCITY + 1] + sign * (x1 + slide * m1)
        state[body, VELOCITY + 2] = state[source, VELOCITY + 2] + sign * (x2 + slide * m2)


@compiled
def _spread(tree, walk, motion, start, states):
    for sample in range(states.shape[0]):
        _spread_sample(tree, walk, motion, start + sample, states[sample])
