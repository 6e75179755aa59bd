"""Compiled kernels: motion spread over the tree, and what each parameter of each link contributes, sample by sample.

All vectors are in the axes of the base link, moments about its origin. Of the base link's own motion only its angular
velocity, its angular acceleration and its proper acceleration ``a − g`` enter: no position, no orientation, no gravity.

With ``B = [α]× + [ω]×[ω]×``, ``R`` the link's rotation and ``p`` its origin, link i needs the wrench::

    f = a m + B R h,        n = p × f − a × R h + R K(Rᵀω, Rᵀα) I

where ``K I = I α + ω × I ω`` in the link's axes. The wrench is linear in ``(m, h, I)``: its coefficients are a 6 × 10
block, and every row of every regressor here is made of such blocks. This is [yamane2011] (6)-(9), in closed form.
"""

from __future__ import annotations

import numpy as np

from steelyard.model import JOINT_CODES
from steelyard.regression.kernel_arrays import compiled

# The motion of a body, in base axes, as one flat row: views of small arrays cost more than the arithmetic on them.
_ROTATION = 0  # nine entries, row by row
_ORIGIN = 9
_RATE = 12  # angular velocity
_TURN = 15  # angular acceleration
_PULL = 18  # proper acceleration of the origin
_STATE_SIZE = 21

_REVOLUTE = JOINT_CODES["revolute"]
_CONTINUOUS = JOINT_CODES["continuous"]
_PRISMATIC = JOINT_CODES["prismatic"]
_BALL = JOINT_CODES["ball"]
_FIXED = JOINT_CODES["fixed"]


@compiled
def _quaternion_matrix(x, y, z, w):
    """Gives the rotation of a quaternion as nine scalars, row by row."""
    scale = 2.0 / (x * x + y * y + z * z + w * w)
    return (
        1.0 - scale * (y * y + z * z), scale * (x * y - z * w), scale * (x * z + y * w),
        scale * (x * y + z * w), 1.0 - scale * (x * x + z * z), scale * (y * z - x * w),
        scale * (x * z - y * w), scale * (y * z + x * w), 1.0 - scale * (x * x + y * y),
    )  # fmt: skip


@compiled
def _axis_matrix(x, y, z, cosine, sine):
    """Gives the rotation about a unit axis as nine scalars, row by row."""
    rest = 1.0 - cosine
    return (
        cosine + rest * x * x, rest * x * y - sine * z, rest * x * z + sine * y,
        rest * x * y + sine * z, cosine + rest * y * y, rest * y * z - sine * x,
        rest * x * z - sine * y, rest * y * z + sine * x, cosine + rest * z * z,
    )  # fmt: skip


@compiled
def _times(a, b):
    """Gives the product of two 3 × 3 matrices, each nine scalars, row by row."""
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
def _transposed(a):
    return (a[0], a[3], a[6], a[1], a[4], a[7], a[2], a[5], a[8])


@compiled
def _applied(a, x, y, z):
    """Gives a 3 × 3 matrix, nine scalars, times a vector."""
    return a[0] * x + a[1] * y + a[2] * z, a[3] * x + a[4] * y + a[5] * z, a[6] * x + a[7] * y + a[8] * z


@compiled
def spread_motion(tree, walk, motion, sample, state):
    """Spreads the base link's motion over the tree, for one sample.

    Args:
        tree: `TreeArrays`.
        walk: `WalkArrays`.
        motion: `MotionArrays`.
        sample: Which sample.
        state: One row of motion for each body, shape (n_bodies, 21), written to.
    """
    base = walk.order[0]
    for i in range(9):
        state[base, i] = 1.0 if i % 4 == 0 else 0.0
    for i in range(3):
        state[base, _ORIGIN + i] = 0.0
        state[base, _RATE + i] = motion.rate[sample, i]
        state[base, _TURN + i] = motion.turn[sample, i]
        state[base, _PULL + i] = motion.pull[sample, i]
    for step in range(1, walk.order.shape[0]):
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
        push = 0.0
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
            push = motion.a[sample, v_at]
        else:
            m = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
            if kind == _PRISMATIC:
                slid = motion.q[sample, q_at]
                speed = motion.v[sample, v_at]
                push = motion.a[sample, v_at]
        if upward:
            reached = _times(known, _transposed(_times(placed, m)))
            of_parent, of_child = reached, known
        else:
            reached = _times(known, _times(placed, m))
            of_parent, of_child = known, reached
        r0, r1, r2 = _applied(of_parent, t0, t1, t2)
        for i in range(9):
            state[body, i] = reached[i]
        # The joint's axis, and what it adds to velocity and acceleration, in base axes.
        u0, u1, u2 = _applied(of_child, x, y, z)
        m0, m1, m2 = u0 * speed, u1 * speed, u2 * speed
        p0, p1, p2 = u0 * push, u1 * push, u2 * push
        if kind == _BALL:
            last, next_last = v_at + np.uint64(2), v_at + np.uint64(1)
            m0, m1, m2 = _applied(of_child, motion.v[sample, v_at], motion.v[sample, next_last], motion.v[sample, last])
            p0, p1, p2 = _applied(of_child, motion.a[sample, v_at], motion.a[sample, next_last], motion.a[sample, last])
        r0, r1, r2 = r0 + u0 * slid, r1 + u1 * slid, r2 + u2 * slid
        sign = -1.0 if upward else 1.0
        slide = 1.0 if kind == _PRISMATIC else 0.0
        spin = 1.0 - slide
        # The relation between parent and child is written with the parent's rates.
        w0, w1, w2 = state[source, _RATE], state[source, _RATE + 1], state[source, _RATE + 2]
        e0, e1, e2 = w0 + sign * spin * m0, w1 + sign * spin * m1, w2 + sign * spin * m2
        state[body, _RATE], state[body, _RATE + 1], state[body, _RATE + 2] = e0, e1, e2
        if upward:
            w0, w1, w2 = e0, e1, e2
        f0, f1, f2 = w1 * m2 - w2 * m1, w2 * m0 - w0 * m2, w0 * m1 - w1 * m0
        a0, a1, a2 = state[source, _TURN], state[source, _TURN + 1], state[source, _TURN + 2]
        b0 = a0 + sign * spin * (p0 + f0)
        b1 = a1 + sign * spin * (p1 + f1)
        b2 = a2 + sign * spin * (p2 + f2)
        state[body, _TURN], state[body, _TURN + 1], state[body, _TURN + 2] = b0, b1, b2
        if upward:
            a0, a1, a2 = b0, b1, b2
        # ω × r, then α × r + ω × (ω × r), and what sliding adds.
        x0, x1, x2 = w1 * r2 - w2 * r1, w2 * r0 - w0 * r2, w0 * r1 - w1 * r0
        d0 = a1 * r2 - a2 * r1 + w1 * x2 - w2 * x1 + slide * (p0 + 2.0 * f0)
        d1 = a2 * r0 - a0 * r2 + w2 * x0 - w0 * x2 + slide * (p1 + 2.0 * f1)
        d2 = a0 * r1 - a1 * r0 + w0 * x1 - w1 * x0 + slide * (p2 + 2.0 * f2)
        state[body, _PULL] = state[source, _PULL] + sign * d0
        state[body, _PULL + 1] = state[source, _PULL + 1] + sign * d1
        state[body, _PULL + 2] = state[source, _PULL + 2] + sign * d2
        state[body, _ORIGIN] = state[source, _ORIGIN] + sign * r0
        state[body, _ORIGIN + 1] = state[source, _ORIGIN + 1] + sign * r1
        state[body, _ORIGIN + 2] = state[source, _ORIGIN + 2] + sign * r2


@compiled
def link_block(state, body, block):
    """Writes the 6 × 10 coefficients of one link's wrench, in base axes about the base origin, into `block`.

    Its first three rows have nothing in the last six columns, and those entries of `block` are left alone.
    """
    o0, o1, o2 = state[body, _ORIGIN], state[body, _ORIGIN + 1], state[body, _ORIGIN + 2]
    w0, w1, w2 = state[body, _RATE], state[body, _RATE + 1], state[body, _RATE + 2]
    t0, t1, t2 = state[body, _TURN], state[body, _TURN + 1], state[body, _TURN + 2]
    p0, p1, p2 = state[body, _PULL], state[body, _PULL + 1], state[body, _PULL + 2]
    # B = [α]× + [ω]×[ω]×
    square = w0 * w0 + w1 * w1 + w2 * w2
    b00, b11, b22 = w0 * w0 - square, w1 * w1 - square, w2 * w2 - square
    b01, b10 = w0 * w1 - t2, w0 * w1 + t2
    b02, b20 = w0 * w2 + t1, w0 * w2 - t1
    b12, b21 = w1 * w2 - t0, w1 * w2 + t0
    block[0, 0], block[1, 0], block[2, 0] = p0, p1, p2
    block[3, 0], block[4, 0], block[5, 0] = o1 * p2 - o2 * p1, o2 * p0 - o0 * p2, o0 * p1 - o1 * p0
    for k in range(3):
        r0, r1, r2 = state[body, k], state[body, 3 + k], state[body, 6 + k]
        f0 = b00 * r0 + b01 * r1 + b02 * r2
        f1 = b10 * r0 + b11 * r1 + b12 * r2
        f2 = b20 * r0 + b21 * r1 + b22 * r2
        block[0, 1 + k], block[1, 1 + k], block[2, 1 + k] = f0, f1, f2
        block[3, 1 + k] = o1 * f2 - o2 * f1 - (p1 * r2 - p2 * r1)
        block[4, 1 + k] = o2 * f0 - o0 * f2 - (p2 * r0 - p0 * r2)
        block[5, 1 + k] = o0 * f1 - o1 * f0 - (p0 * r1 - p1 * r0)
    # Rates in the link's own axes, in which its inertia is written.
    v0 = state[body, 0] * w0 + state[body, 3] * w1 + state[body, 6] * w2
    v1 = state[body, 1] * w0 + state[body, 4] * w1 + state[body, 7] * w2
    v2 = state[body, 2] * w0 + state[body, 5] * w1 + state[body, 8] * w2
    s0 = state[body, 0] * t0 + state[body, 3] * t1 + state[body, 6] * t2
    s1 = state[body, 1] * t0 + state[body, 4] * t1 + state[body, 7] * t2
    s2 = state[body, 2] * t0 + state[body, 5] * t1 + state[body, 8] * t2
    for i in range(3):
        x, y, z = state[body, 3 * i], state[body, 3 * i + 1], state[body, 3 * i + 2]
        block[3 + i, 4] = x * s0 + y * (v2 * v0) - z * (v1 * v0)
        block[3 + i, 5] = x * (s1 - v2 * v0) + y * (s0 + v2 * v1) + z * (v0 * v0 - v1 * v1)
        block[3 + i, 6] = -x * (v2 * v1) + y * s1 + z * (v0 * v1)
        block[3 + i, 7] = x * (s2 + v0 * v1) + y * (v2 * v2 - v0 * v0) + z * (s0 - v1 * v2)
        block[3 + i, 8] = x * (v1 * v1 - v2 * v2) + y * (s2 - v0 * v1) + z * (s1 + v0 * v2)
        block[3 + i, 9] = x * (v1 * v2) - y * (v0 * v2) + z * s2


@compiled
def joint_screw(tree, state, body, component):
    """Gives the motion that one velocity of a joint gives to its child: linear at the base origin, then angular."""
    if tree.kinds[body] == _BALL:
        x, y, z = state[body, component], state[body, 3 + component], state[body, 6 + component]
    else:
        a0, a1, a2 = tree.axes[body, 0], tree.axes[body, 1], tree.axes[body, 2]
        x = state[body, 0] * a0 + state[body, 1] * a1 + state[body, 2] * a2
        y = state[body, 3] * a0 + state[body, 4] * a1 + state[body, 5] * a2
        z = state[body, 6] * a0 + state[body, 7] * a1 + state[body, 8] * a2
    if tree.kinds[body] == _PRISMATIC:
        return x, y, z, 0.0, 0.0, 0.0
    o0, o1, o2 = state[body, _ORIGIN], state[body, _ORIGIN + 1], state[body, _ORIGIN + 2]
    return o1 * z - o2 * y, o2 * x - o0 * z, o0 * y - o1 * x, x, y, z


@compiled
def regressor_rows(tree, walk, plan, motion, columns, out):
    """Fills the rows of the regressor, sample by sample.

    Args:
        tree: `TreeArrays`.
        walk: `WalkArrays`.
        plan: `RowArrays`: which rows there are.
        motion: `MotionArrays`.
        columns: Column of each parameter in `out`; −1 leaves it out. Shape (n_links, 10).
        out: Shape (n_samples, n_rows, n_columns), zeros where nothing is to be written.
    """
    state = np.empty((tree.kinds.shape[0], _STATE_SIZE))
    block = np.zeros((6, 10))
    torques = plan.torque_bodies.shape[0]
    screws = np.empty((torques, 6))
    for sample in range(out.shape[0]):
        spread_motion(tree, walk, motion, sample, state)
        for row in range(torques):
            screw = joint_screw(tree, state, plan.torque_bodies[row], plan.torque_components[row])
            for i in range(6):
                screws[row, i] = screw[i]
        for link in range(plan.link_bodies.shape[0]):
            body = plan.link_bodies[link]
            link_block(state, body, block)
            first = 6 * plan.regions[body]
            if first >= 0:
                for k in range(10):
                    place = columns[link, k]
                    if place >= 0:
                        for i in range(0 if k < 4 else 3, 6):
                            out[sample, first + i, place] = block[i, k]
            for row in range(torques):
                if plan.below[plan.torque_bodies[row], body]:
                    for k in range(10):
                        place = columns[link, k]
                        if place >= 0:
                            total = (
                                screws[row, 3] * block[3, k]
                                + screws[row, 4] * block[4, k]
                                + screws[row, 5] * block[5, k]
                            )
                            if k < 4:
                                total += screws[row, 0] * block[0, k]
                                total += screws[row, 1] * block[1, k]
                                total += screws[row, 2] * block[2, k]
                            out[sample, plan.first_torque_row + row, place] = total


@compiled
def required_forces(tree, walk, plan, motion, parameters, out):
    """Adds ``Y φ`` to `out`, shape (n_samples, n_rows), without forming ``Y``; see `regressor_rows`."""
    state = np.empty((tree.kinds.shape[0], _STATE_SIZE))
    block = np.zeros((6, 10))
    wrench = np.empty((plan.link_bodies.shape[0], 6))
    for sample in range(out.shape[0]):
        spread_motion(tree, walk, motion, sample, state)
        for link in range(plan.link_bodies.shape[0]):
            body = plan.link_bodies[link]
            link_block(state, body, block)
            for i in range(6):
                total = 0.0
                for k in range(10):
                    total += block[i, k] * parameters[link, k]
                wrench[link, i] = total
            first = 6 * plan.regions[body]
            if first >= 0:
                for i in range(6):
                    out[sample, first + i] += wrench[link, i]
        for row in range(plan.torque_bodies.shape[0]):
            joint = plan.torque_bodies[row]
            screw = joint_screw(tree, state, joint, plan.torque_components[row])
            total = 0.0
            for link in range(plan.link_bodies.shape[0]):
                if plan.below[joint, plan.link_bodies[link]]:
                    for i in range(6):
                        total += screw[i] * wrench[link, i]
            out[sample, plan.first_torque_row + row] += total


@compiled
def static_rows(tree, walk, link_bodies, motion, out):
    """Fills the coefficients of ``M p_CoM`` in base axes, [baelemans2013] (1)-(5); `out`: (n, 3, n_links, 10)."""
    state = np.empty((tree.kinds.shape[0], _STATE_SIZE))
    for sample in range(out.shape[0]):
        spread_motion(tree, walk, motion, sample, state)
        for link in range(link_bodies.shape[0]):
            body = link_bodies[link]
            for i in range(3):
                out[sample, i, link, 0] = state[body, _ORIGIN + i]
                for k in range(3):
                    out[sample, i, link, 1 + k] = state[body, 3 * i + k]


@compiled
def force_map(tree, walk, plan, motion, sources, out):
    """Fills the matrix from forces at frames to rows: column c is what a unit of source c adds to the right-hand side.

    Args:
        tree: `TreeArrays`.
        walk: `WalkArrays`.
        plan: `RowArrays`.
        motion: `MotionArrays`.
        sources: `SourceArrays`: a wrench component at a frame of a body, with the regions that it acts on.
        out: Shape (n_samples, n_rows, n_sources), zeros.
    """
    state = np.empty((tree.kinds.shape[0], _STATE_SIZE))
    wrench = np.empty(6)
    for sample in range(out.shape[0]):
        spread_motion(tree, walk, motion, sample, state)
        for source in range(sources.bodies.shape[0]):
            body = sources.bodies[source]
            for i in range(3):
                along = 0.0
                for k in range(3):
                    along += state[body, 3 * i + k] * sources.directions[source, k]
                wrench[i] = 0.0
                wrench[3 + i] = along
            if sources.is_force[source]:
                for i in range(3):
                    wrench[i] = wrench[3 + i]
                p0, p1, p2 = state[body, _ORIGIN], state[body, _ORIGIN + 1], state[body, _ORIGIN + 2]
                for k in range(3):
                    p0 += state[body, k] * sources.points[source, k]
                    p1 += state[body, 3 + k] * sources.points[source, k]
                    p2 += state[body, 6 + k] * sources.points[source, k]
                wrench[3] = p1 * wrench[2] - p2 * wrench[1]
                wrench[4] = p2 * wrench[0] - p0 * wrench[2]
                wrench[5] = p0 * wrench[1] - p1 * wrench[0]
            first = 6 * sources.acts_on[source]
            if first >= 0:
                for i in range(6):
                    out[sample, first + i, source] += wrench[i]
            other = 6 * sources.reacts_on[source]
            if other >= 0:
                for i in range(6):
                    out[sample, other + i, source] -= wrench[i]
            if sources.is_external[source]:
                for row in range(plan.torque_bodies.shape[0]):
                    joint = plan.torque_bodies[row]
                    if plan.below[joint, body]:
                        screw = joint_screw(tree, state, joint, plan.torque_components[row])
                        total = 0.0
                        for i in range(6):
                            total += screw[i] * wrench[i]
                        # τ + Jᵀ f: an external force helps the joint to carry what hangs on it.
                        out[sample, plan.first_torque_row + row, source] += total
