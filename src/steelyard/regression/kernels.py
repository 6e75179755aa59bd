"""Compiled kernels: motion spread over the tree, and what each parameter of each link contributes, sample by sample.

All vectors are in the axes of the base link, moments about its origin. Of the base link's own motion only its angular
velocity, its angular acceleration and its proper acceleration ``a − g`` enter: no position, no orientation, no gravity.

With ``B = [α]× + [ω]×[ω]×``, ``R`` the link's rotation and ``p`` its origin, link i needs the wrench::

    f = a m + B R h,        n = p × f − a × R h + R K(Rᵀω, Rᵀα) I

where ``K I = I α + ω × I ω`` in the link's axes. The wrench is linear in ``(m, h, I)``: its coefficients are a 6 × 10
block, and every row of every regressor here is made of such blocks. This is [yamane2011] (6)-(9), in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from steelyard.model.model import JOINT_CODES

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


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


class BodyStates(NamedTuple):
    """Every body's motion, in base axes."""

    rotation: FloatArray
    origin: FloatArray
    rate: FloatArray
    turn: FloatArray
    pull: FloatArray


_REVOLUTE = JOINT_CODES["revolute"]
_CONTINUOUS = JOINT_CODES["continuous"]
_PRISMATIC = JOINT_CODES["prismatic"]
_BALL = JOINT_CODES["ball"]


@njit(cache=True, inline="always")
def _cross(x, y, out):
    out[0] = x[1] * y[2] - x[2] * y[1]
    out[1] = x[2] * y[0] - x[0] * y[2]
    out[2] = x[0] * y[1] - x[1] * y[0]


@njit(cache=True, nogil=True)
def new_states(count):
    """Gives room for the motion of `count` bodies."""
    return BodyStates(
        np.empty((count, 3, 3)), np.empty((count, 3)), np.empty((count, 3)), np.empty((count, 3)), np.empty((count, 3))
    )


@njit(cache=True)
def _joint_rotation(kind, axis, q, start, out):
    """Writes the rotation of a joint at its position into `out`."""
    if kind == _BALL:
        x, y, z, w = q[start], q[start + 1], q[start + 2], q[start + 3]
        scale = 2.0 / (x * x + y * y + z * z + w * w)
        out[0, 0] = 1.0 - scale * (y * y + z * z)
        out[0, 1] = scale * (x * y - z * w)
        out[0, 2] = scale * (x * z + y * w)
        out[1, 0] = scale * (x * y + z * w)
        out[1, 1] = 1.0 - scale * (x * x + z * z)
        out[1, 2] = scale * (y * z - x * w)
        out[2, 0] = scale * (x * z - y * w)
        out[2, 1] = scale * (y * z + x * w)
        out[2, 2] = 1.0 - scale * (x * x + y * y)
        return
    cosine = 1.0
    sine = 0.0
    if kind in (_REVOLUTE, _CONTINUOUS):
        cosine = np.cos(q[start])
        sine = np.sin(q[start])
    rest = 1.0 - cosine
    ax, ay, az = axis[0], axis[1], axis[2]
    out[0, 0] = cosine + rest * ax * ax
    out[0, 1] = rest * ax * ay - sine * az
    out[0, 2] = rest * ax * az + sine * ay
    out[1, 0] = rest * ax * ay + sine * az
    out[1, 1] = cosine + rest * ay * ay
    out[1, 2] = rest * ay * az - sine * ax
    out[2, 0] = rest * ax * az - sine * ay
    out[2, 1] = rest * ay * az + sine * ax
    out[2, 2] = cosine + rest * az * az


@njit(cache=True, nogil=True)
def spread_motion(tree, walk, q, v, a, rate, turn, pull, state):
    """Spreads the base link's motion over the tree, for one sample.

    Args:
        tree: `TreeArrays`.
        walk: `WalkArrays`.
        q: Joint positions, shape (n_q,).
        v: Joint velocities, shape (n_v,).
        a: Joint accelerations, shape (n_v,).
        rate: Angular velocity of the base link, shape (3,).
        turn: Its angular acceleration, shape (3,).
        pull: Its proper acceleration, shape (3,).
        state: `BodyStates`, written to.
    """
    joint_turn = np.empty((3, 3))
    half = np.empty((3, 3))
    moving = np.empty(3)
    pushing = np.empty(3)
    arm = np.empty(3)
    one = np.empty(3)
    two = np.empty(3)
    three = np.empty(3)
    for step in range(walk.order.shape[0]):
        body = walk.order[step]
        source = walk.source[step]
        if source < 0:
            for i in range(3):
                state.origin[body, i] = 0.0
                state.rate[body, i] = rate[i]
                state.turn[body, i] = turn[i]
                state.pull[body, i] = pull[i]
                for j in range(3):
                    state.rotation[body, i, j] = 1.0 if i == j else 0.0
            continue
        child = walk.crossed[step]
        kind = tree.kinds[child]
        start_q = tree.q_starts[child]
        start_v = tree.v_starts[child]
        axis = tree.axes[child]
        _joint_rotation(kind, axis, q, start_q, joint_turn)
        upward = walk.upward[step]
        placed = tree.rotations[child]
        # R_child = R_parent · placed · joint_turn, or the reverse of it.
        if upward:
            known = state.rotation[source]
            for i in range(3):
                for j in range(3):
                    half[i, j] = (
                        known[i, 0] * joint_turn[j, 0] + known[i, 1] * joint_turn[j, 1] + known[i, 2] * joint_turn[j, 2]
                    )
            for i in range(3):
                for j in range(3):
                    state.rotation[body, i, j] = (
                        half[i, 0] * placed[j, 0] + half[i, 1] * placed[j, 1] + half[i, 2] * placed[j, 2]
                    )
            parent_turn = state.rotation[body]
            child_turn = known
        else:
            known = state.rotation[source]
            for i in range(3):
                for j in range(3):
                    half[i, j] = known[i, 0] * placed[0, j] + known[i, 1] * placed[1, j] + known[i, 2] * placed[2, j]
            for i in range(3):
                for j in range(3):
                    state.rotation[body, i, j] = (
                        half[i, 0] * joint_turn[0, j] + half[i, 1] * joint_turn[1, j] + half[i, 2] * joint_turn[2, j]
                    )
            parent_turn = known
            child_turn = state.rotation[body]
        shift = tree.translations[child]
        for i in range(3):
            arm[i] = parent_turn[i, 0] * shift[0] + parent_turn[i, 1] * shift[1] + parent_turn[i, 2] * shift[2]
            moving[i] = 0.0
            pushing[i] = 0.0
        if kind == _BALL:
            for i in range(3):
                for j in range(3):
                    moving[i] += child_turn[i, j] * v[start_v + j]
                    pushing[i] += child_turn[i, j] * a[start_v + j]
        elif kind in (_REVOLUTE, _CONTINUOUS, _PRISMATIC):
            for i in range(3):
                along = child_turn[i, 0] * axis[0] + child_turn[i, 1] * axis[1] + child_turn[i, 2] * axis[2]
                moving[i] = along * v[start_v]
                pushing[i] = along * a[start_v]
                if kind == _PRISMATIC:
                    arm[i] += along * q[start_q]
        sliding = kind == _PRISMATIC
        # Rates of the parent first: the relation between the two is written with them.
        sign = -1.0 if upward else 1.0
        if upward:
            for i in range(3):
                state.rate[body, i] = state.rate[source, i] - (0.0 if sliding else moving[i])
            parent_rate = state.rate[body]
        else:
            parent_rate = state.rate[source]
            for i in range(3):
                state.rate[body, i] = state.rate[source, i] + (0.0 if sliding else moving[i])
        _cross(parent_rate, moving, one)
        for i in range(3):
            added = 0.0 if sliding else pushing[i] + one[i]
            state.turn[body, i] = state.turn[source, i] + sign * added
        parent_angular = state.turn[body] if upward else state.turn[source]
        _cross(parent_angular, arm, two)
        _cross(parent_rate, arm, three)
        for i in range(3):
            moved = pushing[i] + 2.0 * one[i] if sliding else 0.0
            state.pull[body, i] = state.pull[source, i] + sign * (two[i] + moved)
            state.origin[body, i] = state.origin[source, i] + sign * arm[i]
        _cross(parent_rate, three, two)
        for i in range(3):
            state.pull[body, i] += sign * two[i]


@njit(cache=True, nogil=True)
def link_block(state, body, block):
    """Writes the 6 × 10 coefficients of one link's wrench, in base axes about the base origin, into `block`."""
    rotation = state.rotation[body]
    origin = state.origin[body]
    rate = state.rate[body]
    turn = state.turn[body]
    pull = state.pull[body]
    # B = [α]× + [ω]×[ω]×
    square = rate[0] * rate[0] + rate[1] * rate[1] + rate[2] * rate[2]
    b00 = rate[0] * rate[0] - square
    b11 = rate[1] * rate[1] - square
    b22 = rate[2] * rate[2] - square
    b01 = rate[0] * rate[1] - turn[2]
    b10 = rate[0] * rate[1] + turn[2]
    b02 = rate[0] * rate[2] + turn[1]
    b20 = rate[0] * rate[2] - turn[1]
    b12 = rate[1] * rate[2] - turn[0]
    b21 = rate[1] * rate[2] + turn[0]
    block[0, 0] = pull[0]
    block[1, 0] = pull[1]
    block[2, 0] = pull[2]
    block[3, 0] = origin[1] * pull[2] - origin[2] * pull[1]
    block[4, 0] = origin[2] * pull[0] - origin[0] * pull[2]
    block[5, 0] = origin[0] * pull[1] - origin[1] * pull[0]
    for k in range(3):
        r0, r1, r2 = rotation[0, k], rotation[1, k], rotation[2, k]
        f0 = b00 * r0 + b01 * r1 + b02 * r2
        f1 = b10 * r0 + b11 * r1 + b12 * r2
        f2 = b20 * r0 + b21 * r1 + b22 * r2
        block[0, 1 + k] = f0
        block[1, 1 + k] = f1
        block[2, 1 + k] = f2
        block[3, 1 + k] = origin[1] * f2 - origin[2] * f1 - (pull[1] * r2 - pull[2] * r1)
        block[4, 1 + k] = origin[2] * f0 - origin[0] * f2 - (pull[2] * r0 - pull[0] * r2)
        block[5, 1 + k] = origin[0] * f1 - origin[1] * f0 - (pull[0] * r1 - pull[1] * r0)
    w0 = rotation[0, 0] * rate[0] + rotation[1, 0] * rate[1] + rotation[2, 0] * rate[2]
    w1 = rotation[0, 1] * rate[0] + rotation[1, 1] * rate[1] + rotation[2, 1] * rate[2]
    w2 = rotation[0, 2] * rate[0] + rotation[1, 2] * rate[1] + rotation[2, 2] * rate[2]
    t0 = rotation[0, 0] * turn[0] + rotation[1, 0] * turn[1] + rotation[2, 0] * turn[2]
    t1 = rotation[0, 1] * turn[0] + rotation[1, 1] * turn[1] + rotation[2, 1] * turn[2]
    t2 = rotation[0, 2] * turn[0] + rotation[1, 2] * turn[1] + rotation[2, 2] * turn[2]
    for i in range(3):
        x, y, z = rotation[i, 0], rotation[i, 1], rotation[i, 2]
        block[3 + i, 4] = x * t0 + y * (w2 * w0) - z * (w1 * w0)
        block[3 + i, 5] = x * (t1 - w2 * w0) + y * (t0 + w2 * w1) + z * (w0 * w0 - w1 * w1)
        block[3 + i, 6] = -x * (w2 * w1) + y * t1 + z * (w0 * w1)
        block[3 + i, 7] = x * (t2 + w0 * w1) + y * (w2 * w2 - w0 * w0) + z * (t0 - w1 * w2)
        block[3 + i, 8] = x * (w1 * w1 - w2 * w2) + y * (t2 - w0 * w1) + z * (t1 + w0 * w2)
        block[3 + i, 9] = x * (w1 * w2) - y * (w0 * w2) + z * t2
        for k in range(4, 10):
            block[i, k] = 0.0


@njit(cache=True, nogil=True)
def joint_screw(tree, state, body, component, screw):
    """Writes the motion that one velocity of a joint gives to its child, as (linear at the base origin, angular)."""
    rotation = state.rotation[body]
    axis = tree.axes[body]
    kind = tree.kinds[body]
    for i in range(3):
        if kind == _BALL:
            screw[3 + i] = rotation[i, component]
        else:
            screw[3 + i] = rotation[i, 0] * axis[0] + rotation[i, 1] * axis[1] + rotation[i, 2] * axis[2]
    if kind == _PRISMATIC:
        for i in range(3):
            screw[i] = screw[3 + i]
            screw[3 + i] = 0.0
        return
    origin = state.origin[body]
    screw[0] = origin[1] * screw[5] - origin[2] * screw[4]
    screw[1] = origin[2] * screw[3] - origin[0] * screw[5]
    screw[2] = origin[0] * screw[4] - origin[1] * screw[3]


@njit(cache=True, nogil=True)
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
    state = new_states(tree.kinds.shape[0])
    block = np.empty((6, 10))
    screws = np.empty((plan.torque_bodies.shape[0], 6))
    for sample in range(out.shape[0]):
        spread_motion(
            tree, walk, motion.q[sample], motion.v[sample], motion.a[sample],
            motion.rate[sample], motion.turn[sample], motion.pull[sample], state,
        )  # fmt: skip
        for row in range(plan.torque_bodies.shape[0]):
            joint_screw(tree, state, plan.torque_bodies[row], plan.torque_components[row], screws[row])
        rows = out[sample]
        for link in range(plan.link_bodies.shape[0]):
            body = plan.link_bodies[link]
            link_block(state, body, block)
            first = 6 * plan.regions[body]
            places = columns[link]
            if first >= 0:
                for k in range(10):
                    place = places[k]
                    if place >= 0:
                        for i in range(6):
                            rows[first + i, place] = block[i, k]
            for row in range(plan.torque_bodies.shape[0]):
                if plan.below[plan.torque_bodies[row], body]:
                    screw = screws[row]
                    for k in range(10):
                        place = places[k]
                        if place >= 0:
                            total = screw[0] * block[0, k] + screw[1] * block[1, k] + screw[2] * block[2, k]
                            total += screw[3] * block[3, k] + screw[4] * block[4, k] + screw[5] * block[5, k]
                            rows[plan.first_torque_row + row, place] = total


@njit(cache=True, nogil=True)
def required_forces(tree, walk, plan, motion, parameters, out):
    """Adds ``Y φ`` to `out`, shape (n_samples, n_rows), without forming ``Y``; see `regressor_rows`."""
    state = new_states(tree.kinds.shape[0])
    block = np.empty((6, 10))
    screw = np.empty(6)
    wrench = np.empty((plan.link_bodies.shape[0], 6))
    for sample in range(out.shape[0]):
        spread_motion(
            tree, walk, motion.q[sample], motion.v[sample], motion.a[sample],
            motion.rate[sample], motion.turn[sample], motion.pull[sample], state,
        )  # fmt: skip
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
            joint_screw(tree, state, joint, plan.torque_components[row], screw)
            total = 0.0
            for link in range(plan.link_bodies.shape[0]):
                if plan.below[joint, plan.link_bodies[link]]:
                    for i in range(6):
                        total += screw[i] * wrench[link, i]
            out[sample, plan.first_torque_row + row] += total


@njit(cache=True, nogil=True)
def static_rows(tree, walk, link_bodies, q, out):
    """Fills the coefficients of ``M p_CoM`` in base axes, [baelemans2013] (1)-(5); `out`: (n, 3, n_links, 10)."""
    state = new_states(tree.kinds.shape[0])
    still = np.zeros(3)
    at_rest = np.zeros(max(1, tree.v_size))
    for sample in range(out.shape[0]):
        spread_motion(tree, walk, q[sample], at_rest, at_rest, still, still, still, state)
        for link in range(link_bodies.shape[0]):
            body = link_bodies[link]
            for i in range(3):
                out[sample, i, link, 0] = state.origin[body, i]
                for k in range(3):
                    out[sample, i, link, 1 + k] = state.rotation[body, i, k]


@njit(cache=True, nogil=True)
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
    state = new_states(tree.kinds.shape[0])
    screw = np.empty(6)
    wrench = np.empty(6)
    point = np.empty(3)
    along = np.empty(3)
    for sample in range(out.shape[0]):
        spread_motion(
            tree, walk, motion.q[sample], motion.v[sample], motion.a[sample],
            motion.rate[sample], motion.turn[sample], motion.pull[sample], state,
        )  # fmt: skip
        for source in range(sources.bodies.shape[0]):
            body = sources.bodies[source]
            rotation = state.rotation[body]
            direction = sources.directions[source]
            place = sources.points[source]
            for i in range(3):
                along[i] = rotation[i, 0] * direction[0] + rotation[i, 1] * direction[1] + rotation[i, 2] * direction[2]
                point[i] = state.origin[body, i] + (
                    rotation[i, 0] * place[0] + rotation[i, 1] * place[1] + rotation[i, 2] * place[2]
                )
                wrench[i] = 0.0
                wrench[3 + i] = along[i]
            if sources.is_force[source]:
                for i in range(3):
                    wrench[i] = along[i]
                _cross(point, along, wrench[3:])
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
                        joint_screw(tree, state, joint, plan.torque_components[row], screw)
                        total = 0.0
                        for i in range(6):
                            total += screw[i] * wrench[i]
                        # τ + Jᵀ f: an external force helps the joint to carry what hangs on it.
                        out[sample, plan.first_torque_row + row, source] += total


@njit(cache=True, nogil=True)
def reduce_rows(rows, noise, unknown, present, kept):
    """Whitens each sample's rows, and then projects unknown forces out, in place.

    ``rows`` of a sample become ``N L⁻¹ rows`` with ``L Lᵀ`` the covariance of the right-hand side's noise and ``N`` an
    orthonormal basis of the null space of ``(L⁻¹ H_u)ᵀ`` [yamane2011] (14)-(16), by Householder reflections. Rows that
    are used up are zero; `kept` counts the others.

    Args:
        rows: ``[Y | f]``, shape (n_samples, n_rows, n_columns).
        noise: Root of the noise, ``C = noise noiseᵀ``, shape (n_samples, n_rows, n_noise); without columns, none.
        unknown: ``H_uᵀ``, shape (n_samples, n_rows, n_unknown).
        present: Which unknown forces are there, shape (n_samples, n_unknown).
        kept: Number of rows left, shape (n_samples,), written to.
    """
    count = rows.shape[1]
    width = rows.shape[2]
    factor = np.empty((count, count))
    reflector = np.empty(count)
    totals = np.empty(max(width, unknown.shape[2]))
    for sample in range(rows.shape[0]):
        part = rows[sample]
        hidden = unknown[sample].copy()
        if noise.shape[2] > 0:
            _noise_factor(noise[sample], factor)
            _solve_lower(factor, part)
            _solve_lower(factor, hidden)
        used = 0
        size = 0.0
        for c in range(hidden.shape[1]):
            if present[sample, c]:
                for i in range(count):
                    size = max(size, abs(hidden[i, c]))
        for c in range(hidden.shape[1]):
            if not present[sample, c] or used == count:
                continue
            norm = 0.0
            for i in range(used, count):
                norm += hidden[i, c] * hidden[i, c]
            norm = np.sqrt(norm)
            # What earlier unknown forces span already adds nothing to project out.
            if norm <= 1e-9 * size:
                continue
            pivot = hidden[used, c]
            shifted = pivot + (norm if pivot >= 0.0 else -norm)
            reflector[used] = 1.0
            for i in range(used + 1, count):
                reflector[i] = hidden[i, c] / shifted
            scale = 1.0 if norm == 0.0 else abs(shifted) / norm
            _reflect(hidden, reflector, used, scale, totals)
            _reflect(part, reflector, used, scale, totals)
            used += 1
        for i in range(used):
            for j in range(width):
                part[i, j] = 0.0
        left = 0
        for i in range(used, count):
            busy = False
            for j in range(width):
                if part[i, j] != 0.0:
                    busy = True
                    break
            if busy:
                left += 1
        kept[sample] = left


@njit(cache=True, nogil=True)
def _reflect(part, reflector, first, scale, totals):
    """Applies ``1 − scale · r rᵀ`` to the rows of `part` from `first` on; rows outside, so that columns vectorise."""
    width = part.shape[1]
    for j in range(width):
        totals[j] = 0.0
    for i in range(first, part.shape[0]):
        weight = reflector[i]
        for j in range(width):
            totals[j] += weight * part[i, j]
    for i in range(first, part.shape[0]):
        weight = scale * reflector[i]
        for j in range(width):
            part[i, j] -= weight * totals[j]


@njit(cache=True, nogil=True)
def _noise_factor(noise, factor):
    """Writes the lower Cholesky factor of ``noise noiseᵀ``; rows without noise of their own count as unit noise."""
    count = noise.shape[0]
    largest = 0.0
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for k in range(noise.shape[1]):
                total += noise[i, k] * noise[j, k]
            factor[i, j] = total
        largest = max(largest, factor[i, i])
    for i in range(count):
        if factor[i, i] == 0.0:
            factor[i, i] = 1.0
        for j in range(i + 1):
            total = factor[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                # Rows tied exactly by the sensors' geometry would have no noise at all: a floor keeps them finite.
                factor[i, i] = np.sqrt(max(total, 1e-12 * max(factor[i, i], 1e-300)))
            else:
                factor[i, j] = total / factor[j, j]


@njit(cache=True, nogil=True)
def _solve_lower(factor, part):
    for i in range(part.shape[0]):
        for k in range(i):
            weight = factor[i, k]
            if weight != 0.0:
                for j in range(part.shape[1]):
                    part[i, j] -= weight * part[k, j]
        inverse = 1.0 / factor[i, i]
        for j in range(part.shape[1]):
            part[i, j] *= inverse
