"""The compiled pass over a tree: placement, velocity and acceleration of every body, for all samples at once.

All vectors are in the axes of the base link. Of the base link's own motion only its angular velocity, its angular
acceleration and its proper acceleration ``a − g`` enter: no position, no orientation, no gravity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from steelyard.kinematics.tree import JOINT_CODES, traverse

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.kinematics.tree import Tree, TreeMotion

# Kernels that call each other live in one file: numba's cache does not notice when a callee elsewhere changes.
compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})

_REVOLUTE = JOINT_CODES["revolute"]
_CONTINUOUS = JOINT_CODES["continuous"]
_PRISMATIC = JOINT_CODES["prismatic"]
_BALL = JOINT_CODES["ball"]


class BodyMotions(NamedTuple):
    """The motion of every body's joint frame in the axes of the base link, for each sample.

    Attributes:
        rotation: From the body's axes to the base link's, shape (n, n_bodies, 3, 3).
        position: Of the body's origin from the base link's, shape (n, n_bodies, 3), m.
        velocity: Of the body's origin, that of the base link's being zero, shape (n, n_bodies, 3), m/s.
        angular_velocity: Shape (n, n_bodies, 3), rad/s.
        angular_acceleration: Shape (n, n_bodies, 3), rad/s².
        proper_acceleration: ``a − g`` of the body's origin, shape (n, n_bodies, 3), m/s².
    """

    rotation: FloatArray
    position: FloatArray
    velocity: FloatArray
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray


FLOATS_PER_BODY = 24
"""Numbers that `BodyMotions` holds for each body and sample."""


def spread_motion(tree: Tree, base: int, motion: TreeMotion) -> BodyMotions:
    """Compute the motion of all bodies from that of the joints and of the base link.

    Args:
        tree: The tree.
        base: Index of the base link's body.
        motion: The motion; of a ball joint, a quaternion x y z w and rates in the child's axes.
    """
    q, v, a, *rates = (np.ascontiguousarray(values, dtype=np.float64) for values in motion)
    shape = len(q), len(tree.parents), 3
    bodies = BodyMotions(np.empty((*shape, 3)), *(np.empty(shape) for _ in range(5)))
    _spread(tree.arrays, traverse(tree, base), q, np.cos(q), np.sin(q), v, a, *rates, bodies)
    return bodies


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
def _load(matrices, first, second):
    """Return a 3 × 3 matrix of an array as nine scalars, row by row."""
    return (
        matrices[first, second, 0, 0], matrices[first, second, 0, 1], matrices[first, second, 0, 2],
        matrices[first, second, 1, 0], matrices[first, second, 1, 1], matrices[first, second, 1, 2],
        matrices[first, second, 2, 0], matrices[first, second, 2, 1], matrices[first, second, 2, 2],
    )  # fmt: skip


@compiled
def _spread(tree, walk, q, cosines, sines, v, a, rate, turn, pull, out):
    """Fill `out`, `BodyMotions`; arguments as in `spread_motion`, for kernels."""
    base = walk.order[0]
    for sample in range(q.shape[0]):
        for i in range(3):
            for j in range(3):
                out.rotation[sample, base, i, j] = 1.0 if i == j else 0.0
            out.position[sample, base, i] = 0.0
            out.velocity[sample, base, i] = 0.0
            out.angular_velocity[sample, base, i] = rate[sample, i]
            out.angular_acceleration[sample, base, i] = turn[sample, i]
            out.proper_acceleration[sample, base, i] = pull[sample, i]
        for step in range(1, walk.order.shape[0]):
            _cross_joint(tree, walk, step, np.uint64(sample), q, cosines, sines, v, a, out)


@compiled
def _cross_joint(tree, walk, step, sample, q, cosines, sines, v, a, out):
    """Compute the motion of one body from that of the body that it is reached from."""
    # Unsigned indices: numba would test signed ones for counting from the end.
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
    known = _load(out.rotation, sample, source)
    slid = 0.0
    speed = 0.0
    change = 0.0
    q_at = np.uint64(tree.q_starts[child])
    v_at = np.uint64(tree.v_starts[child])
    if kind == _BALL:
        m = _quaternion_matrix(
            q[sample, q_at], q[sample, q_at + np.uint64(1)], q[sample, q_at + np.uint64(2)], q[sample, q_at + np.uint64(3)]
        )
    elif kind == _REVOLUTE or kind == _CONTINUOUS:  # noqa: PLR1714, SIM109  (a tuple is slower here)
        m = _axis_matrix(x, y, z, cosines[sample, q_at], sines[sample, q_at])
        speed = v[sample, v_at]
        change = a[sample, v_at]
    else:
        m = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        if kind == _PRISMATIC:
            slid = q[sample, q_at]
            speed = v[sample, v_at]
            change = a[sample, v_at]
    if upward:
        reached = _multiply(known, _transpose(_multiply(placed, m)))
        of_parent, of_child = reached, known
    else:
        reached = _multiply(known, _multiply(placed, m))
        of_parent, of_child = known, reached
    r0, r1, r2 = _apply(of_parent, t0, t1, t2)
    for i in range(3):
        for j in range(3):
            out.rotation[sample, body, i, j] = reached[3 * i + j]
    # The joint's axis, and what it adds to velocity and acceleration, in base axes.
    u0, u1, u2 = _apply(of_child, x, y, z)
    m0, m1, m2 = u0 * speed, u1 * speed, u2 * speed
    p0, p1, p2 = u0 * change, u1 * change, u2 * change
    if kind == _BALL:
        last, next_last = v_at + np.uint64(2), v_at + np.uint64(1)
        m0, m1, m2 = _apply(of_child, v[sample, v_at], v[sample, next_last], v[sample, last])
        p0, p1, p2 = _apply(of_child, a[sample, v_at], a[sample, next_last], a[sample, last])
    r0, r1, r2 = r0 + u0 * slid, r1 + u1 * slid, r2 + u2 * slid
    sign = -1.0 if upward else 1.0
    slide = 1.0 if kind == _PRISMATIC else 0.0
    spin = 1.0 - slide
    # The relation between parent and child is written with the parent's rates.
    rate, turn, pull = out.angular_velocity, out.angular_acceleration, out.proper_acceleration
    w0, w1, w2 = rate[sample, source, 0], rate[sample, source, 1], rate[sample, source, 2]
    e0, e1, e2 = w0 + sign * spin * m0, w1 + sign * spin * m1, w2 + sign * spin * m2
    rate[sample, body, 0], rate[sample, body, 1], rate[sample, body, 2] = e0, e1, e2
    if upward:
        w0, w1, w2 = e0, e1, e2
    f0, f1, f2 = w1 * m2 - w2 * m1, w2 * m0 - w0 * m2, w0 * m1 - w1 * m0
    a0, a1, a2 = turn[sample, source, 0], turn[sample, source, 1], turn[sample, source, 2]
    b0 = a0 + sign * spin * (p0 + f0)
    b1 = a1 + sign * spin * (p1 + f1)
    b2 = a2 + sign * spin * (p2 + f2)
    turn[sample, body, 0], turn[sample, body, 1], turn[sample, body, 2] = b0, b1, b2
    if upward:
        a0, a1, a2 = b0, b1, b2
    # ω × r, then α × r + ω × (ω × r), and what sliding adds.
    x0, x1, x2 = w1 * r2 - w2 * r1, w2 * r0 - w0 * r2, w0 * r1 - w1 * r0
    d0 = a1 * r2 - a2 * r1 + w1 * x2 - w2 * x1 + slide * (p0 + 2.0 * f0)
    d1 = a2 * r0 - a0 * r2 + w2 * x0 - w0 * x2 + slide * (p1 + 2.0 * f1)
    d2 = a0 * r1 - a1 * r0 + w0 * x1 - w1 * x0 + slide * (p2 + 2.0 * f2)
    pull[sample, body, 0] = pull[sample, source, 0] + sign * d0
    pull[sample, body, 1] = pull[sample, source, 1] + sign * d1
    pull[sample, body, 2] = pull[sample, source, 2] + sign * d2
    out.position[sample, body, 0] = out.position[sample, source, 0] + sign * r0
    out.position[sample, body, 1] = out.position[sample, source, 1] + sign * r1
    out.position[sample, body, 2] = out.position[sample, source, 2] + sign * r2
    out.velocity[sample, body, 0] = out.velocity[sample, source, 0] + sign * (x0 + slide * m0)
    out.velocity[sample, body, 1] = out.velocity[sample, source, 1] + sign * (x1 + slide * m1)
    out.velocity[sample, body, 2] = out.velocity[sample, source, 2] + sign * (x2 + slide * m2)
