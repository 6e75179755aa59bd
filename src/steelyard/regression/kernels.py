"""Compiled kernels: the contribution of each parameter of each link to each row, sample by sample.

All vectors are in the axes of the base link, moments about its origin. With ``B = [α]× + [ω]×[ω]×``, ``R`` the link's
rotation and ``p`` its origin, link i needs the wrench::

    f = a m + B R h,        n = p × f − a × R h + R K(Rᵀω, Rᵀα) I

where ``K I = I α + ω × I ω`` in the link's axes. The wrench is linear in ``(m, h, I)``: its coefficients are a 6 × 10
block, and every row of every regressor here is made of such blocks. This is [yamane2011] (6)-(9), in closed form.

Everywhere `tree` is `TreeArrays`, `plan` is `RowArrays`, `states` is what `spread_motion` returns, shape
(n_samples, n_bodies, STATE_SIZE), and `state` is one sample of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics import (
    ANGULAR_ACCELERATION,
    ANGULAR_VELOCITY,
    JOINT_CODES,
    POSITION,
    PROPER_ACCELERATION,
    VELOCITY,
    compiled,
)

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray, IntArray

_PRISMATIC = JOINT_CODES["prismatic"]
_BALL = JOINT_CODES["ball"]


class RowArrays(NamedTuple):
    """Which rows a regressor has.

    Six for each region (a group of bodies between wrench sensors), then one for each measured joint torque.
    """

    link_bodies: IntArray  # body of each link
    regions: IntArray  # region of each body; −1: none
    below: BoolArray  # (i, j): body j is body i or below it
    torque_bodies: IntArray  # body that each measured joint moves
    torque_components: IntArray  # which of its velocities, for ball joints
    first_torque_row: int


class SourceArrays(NamedTuple):
    """Components of wrenches at frames.

    A source acts on one region and, where it is inside the limb, reacts on another; −1: none.
    """

    bodies: IntArray
    points: FloatArray  # origin of the frame in the body
    directions: FloatArray  # axis of the component in the body
    is_force: BoolArray  # else a moment
    is_external: BoolArray  # whether it contributes to joint torques
    acts_on: IntArray
    reacts_on: IntArray


@compiled
def _vector(state, body, start):
    """Return a vector of a body's motion as three scalars."""
    return state[body, start], state[body, start + 1], state[body, start + 2]


@compiled
def _cross(a, b):
    """Return the cross product of two vectors, each three scalars."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def _add(a, b):
    """Return the sum of two vectors, each three scalars."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@compiled
def _rotate(state, body, vector):
    """Return a vector of a body's axes, three scalars, in base axes."""
    x, y, z = vector
    return (
        state[body, 0] * x + state[body, 1] * y + state[body, 2] * z,
        state[body, 3] * x + state[body, 4] * y + state[body, 5] * z,
        state[body, 6] * x + state[body, 7] * y + state[body, 8] * z,
    )


@compiled
def _rotate_back(state, body, vector):
    """Return a vector of base axes, three scalars, in a body's axes."""
    x, y, z = vector
    return (
        state[body, 0] * x + state[body, 3] * y + state[body, 6] * z,
        state[body, 1] * x + state[body, 4] * y + state[body, 7] * z,
        state[body, 2] * x + state[body, 5] * y + state[body, 8] * z,
    )


@compiled
def _link_block(state, body, block):
    """Write the 6 × 10 coefficients of one link's wrench, in base axes about the base origin, into `block`.

    Its first three rows are zero in the last six columns, and those entries of `block` are left alone.
    """
    o0, o1, o2 = _vector(state, body, POSITION)
    w0, w1, w2 = _vector(state, body, ANGULAR_VELOCITY)
    t0, t1, t2 = _vector(state, body, ANGULAR_ACCELERATION)
    p0, p1, p2 = _vector(state, body, PROPER_ACCELERATION)
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
    v0, v1, v2 = _rotate_back(state, body, (w0, w1, w2))
    s0, s1, s2 = _rotate_back(state, body, (t0, t1, t2))
    for i in range(3):
        x, y, z = state[body, 3 * i], state[body, 3 * i + 1], state[body, 3 * i + 2]
        block[3 + i, 4] = x * s0 + y * (v2 * v0) - z * (v1 * v0)
        block[3 + i, 5] = x * (s1 - v2 * v0) + y * (s0 + v2 * v1) + z * (v0 * v0 - v1 * v1)
        block[3 + i, 6] = -x * (v2 * v1) + y * s1 + z * (v0 * v1)
        block[3 + i, 7] = x * (s2 + v0 * v1) + y * (v2 * v2 - v0 * v0) + z * (s0 - v1 * v2)
        block[3 + i, 8] = x * (v1 * v1 - v2 * v2) + y * (s2 - v0 * v1) + z * (s1 + v0 * v2)
        block[3 + i, 9] = x * (v1 * v2) - y * (v0 * v2) + z * s2


@compiled
def _joint_screw(tree, state, body, component):
    """Return the motion that one velocity of a joint gives to its child: linear at the base origin, then angular."""
    if tree.kinds[body] == _BALL:
        axis = state[body, component], state[body, 3 + component], state[body, 6 + component]
    else:
        axis = _rotate(state, body, (tree.axes[body, 0], tree.axes[body, 1], tree.axes[body, 2]))
    if tree.kinds[body] == _PRISMATIC:
        return axis[0], axis[1], axis[2], 0.0, 0.0, 0.0
    linear = _cross(_vector(state, body, POSITION), axis)
    return linear[0], linear[1], linear[2], axis[0], axis[1], axis[2]


@compiled
def fill_regressor(tree, plan, states, columns, out):
    """Fill the rows of the regressor.

    Args:
        tree: The tree.
        plan: The rows.
        states: Motion of all bodies.
        columns: Column of each parameter in `out`; −1 leaves it out. Shape (n_links, 10).
        out: Shape (n_samples, n_rows, n_columns), zeros where nothing is to be written.
    """
    block = np.zeros((6, 10))
    torques = plan.torque_bodies.shape[0]
    screws = np.empty((torques, 6))
    for sample in range(out.shape[0]):
        state = states[sample]
        for row in range(torques):
            screw = _joint_screw(tree, state, plan.torque_bodies[row], plan.torque_components[row])
            for i in range(6):
                screws[row, i] = screw[i]
        for link in range(plan.link_bodies.shape[0]):
            body = plan.link_bodies[link]
            _link_block(state, body, block)
            first = 6 * plan.regions[body]
            if first >= 0:
                for i in range(6):
                    for k in range(4 if i < 3 else 10):  # a force does not depend on inertias
                        column = columns[link, k]
                        if column >= 0:
                            out[sample, first + i, column] = block[i, k]
            for row in range(torques):
                if plan.below[plan.torque_bodies[row], body]:
                    for k in range(10):
                        column = columns[link, k]
                        if column >= 0:
                            total = (
                                screws[row, 3] * block[3, k]
                                + screws[row, 4] * block[4, k]
                                + screws[row, 5] * block[5, k]
                            )
                            if k < 4:
                                total += screws[row, 0] * block[0, k]
                                total += screws[row, 1] * block[1, k]
                                total += screws[row, 2] * block[2, k]
                            out[sample, plan.first_torque_row + row, column] = total


@compiled
def _add_wrenches(tree, plan, state, wrenches, out):
    """Add the wrenches that links need, shape (n_links, 6), to the rows of one sample, shape (n_rows,)."""
    for link in range(plan.link_bodies.shape[0]):
        first = 6 * plan.regions[plan.link_bodies[link]]
        if first >= 0:
            for i in range(6):
                out[first + i] += wrenches[link, i]
    for row in range(plan.torque_bodies.shape[0]):
        joint = plan.torque_bodies[row]
        screw = _joint_screw(tree, state, joint, plan.torque_components[row])
        total = 0.0
        for link in range(plan.link_bodies.shape[0]):
            if plan.below[joint, plan.link_bodies[link]]:
                for i in range(6):
                    total += screw[i] * wrenches[link, i]
        out[plan.first_torque_row + row] += total


@compiled
def add_required_forces(tree, plan, states, parameters, out):
    """Add ``Y φ`` to `out`, shape (n_samples, n_rows), without forming ``Y``; see `fill_regressor`."""
    block = np.zeros((6, 10))
    wrenches = np.empty((plan.link_bodies.shape[0], 6))
    for sample in range(out.shape[0]):
        state = states[sample]
        for link in range(plan.link_bodies.shape[0]):
            _link_block(state, plan.link_bodies[link], block)
            for i in range(6):
                total = 0.0
                for k in range(4 if i < 3 else 10):
                    total += block[i, k] * parameters[link, k]
                wrenches[link, i] = total
        _add_wrenches(tree, plan, state, wrenches, out[sample])


@compiled
def _scale(factor, a):
    """Return a multiple of a vector, three scalars."""
    return factor * a[0], factor * a[1], factor * a[2]


@compiled
def _rotated_inertia(state, body, parameters, link, vector):
    """Return a link's inertia times a vector, both in base axes."""
    x, y, z = _rotate_back(state, body, vector)
    xx, xy, yy = parameters[link, 4], parameters[link, 5], parameters[link, 6]
    xz, yz, zz = parameters[link, 7], parameters[link, 8], parameters[link, 9]
    own = xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z
    return _rotate(state, body, own)


@compiled
def _carried(rate, change, arm, relative_speed):
    """Return the change of acceleration of a point that a frame carries, when the frame's angular velocity changes."""
    moved = _add(_cross(rate, arm), _scale(2.0, relative_speed))
    return _add(_cross(change, moved), _cross(rate, _cross(change, arm)))


@compiled
def _changed_wrench(state, body, parameters, link, moment, changes):
    """Return the change of a link's wrench at the base's origin, for small changes of the motion of the link's frame.

    Args:
        state: Motion of all bodies.
        body: Body of the link.
        parameters: ``φ``, shape (n_links, 10).
        link: The link.
        moment: Its first moment, in the base link's axes.
        changes: Changes of its angular velocity, angular acceleration and proper acceleration.
    """
    d_rate, d_turn, d_pull = changes
    origin, rate = _vector(state, body, POSITION), _vector(state, body, ANGULAR_VELOCITY)
    force = _add(_scale(parameters[link, 0], d_pull), _cross(d_turn, moment))
    force = _add(force, _add(_cross(d_rate, _cross(rate, moment)), _cross(rate, _cross(d_rate, moment))))
    torque = _add(_cross(origin, force), _cross(moment, d_pull))
    torque = _add(torque, _rotated_inertia(state, body, parameters, link, d_turn))
    torque = _add(torque, _cross(d_rate, _rotated_inertia(state, body, parameters, link, rate)))
    torque = _add(torque, _cross(rate, _rotated_inertia(state, body, parameters, link, d_rate)))
    return force, torque


@compiled
def add_inertial_errors(tree, plan, states, base, lever, parameters, out):
    """Add the derivatives of ``Y φ`` to errors of the base link's inertial sensor, columns of `out`.

    The first three columns are for a bias of the accelerometer along x, y, z: the wrench at rest in a unit field,
    negated. The next three are for rotations of the sensor by ``e``. It changes the base link's rates by
    ``dω = e × ω₀``, ``dα = e × α₀`` and ``da = e × a₀``, and those of a link whose origin is at ``p`` and moves with
    ``v`` by::

        dω,    dα + dω × (ω − ω₀),    da + dα × p + dω × (ω₀ × p) + ω₀ × (dω × p) + 2 dω × (v − ω₀ × p)

    The last three are for a bias of the gyro, ``dω = −b``, ``dα = 0``. The accelerometer keeps its reading, at the
    sensor's place ``r``: the ``p`` of the second and third term of the last expression is ``p − r``, and ``da = 0``.

    Args:
        tree: The tree.
        plan: The rows.
        states: Motion of all bodies.
        base: Body of the base link.
        lever: Place of the sensor in the base link's frame, shape (3,).
        parameters: ``φ`` at which it is linearised, shape (n_links, 10).
        out: Shape (n_samples, n_rows, 9).
    """
    links = plan.link_bodies.shape[0]
    wrenches = np.empty((9, links, 6))
    place = lever[0], lever[1], lever[2]
    for sample in range(out.shape[0]):
        state = states[sample]
        rate0 = _vector(state, base, ANGULAR_VELOCITY)
        turn0 = _vector(state, base, ANGULAR_ACCELERATION)
        pull0 = _vector(state, base, PROPER_ACCELERATION)
        for link in range(links):
            body = plan.link_bodies[link]
            mass, origin = parameters[link, 0], _vector(state, body, POSITION)
            moment = _rotate(state, body, (parameters[link, 1], parameters[link, 2], parameters[link, 3]))
            about = _add(_scale(mass, origin), moment)
            rate = _vector(state, body, ANGULAR_VELOCITY)
            relative_speed = _add(_vector(state, body, VELOCITY), _cross(origin, rate0))
            relative_rate = _add(rate, _scale(-1.0, rate0))
            arm = _add(origin, _scale(-1.0, place))
            for k in range(3):
                unit = (1.0 if k == 0 else 0.0), (1.0 if k == 1 else 0.0), (1.0 if k == 2 else 0.0)
                field = _cross(about, unit)
                d_rate, d_turn = _cross(unit, rate0), _cross(unit, turn0)
                d_pull = _add(_cross(unit, pull0), _cross(d_turn, origin))
                d_pull = _add(d_pull, _carried(rate0, d_rate, origin, relative_speed))
                d_turn = _add(d_turn, _cross(d_rate, relative_rate))
                turned = _changed_wrench(state, body, parameters, link, moment, (d_rate, d_turn, d_pull))
                slower = _scale(-1.0, unit)
                changes = slower, _cross(slower, relative_rate), _carried(rate0, slower, arm, relative_speed)
                biased = _changed_wrench(state, body, parameters, link, moment, changes)
                for i in range(3):
                    wrenches[k, link, i] = -mass * unit[i]
                    wrenches[k, link, 3 + i] = -field[i]
                    for half in range(2):
                        wrenches[3 + k, link, 3 * half + i] = turned[half][i]
                        wrenches[6 + k, link, 3 * half + i] = biased[half][i]
        for column in range(9):
            _add_wrenches(tree, plan, state, wrenches[column], out[sample, :, column])


@compiled
def fill_force_map(tree, plan, states, sources, out):
    """Fill the matrix from forces at frames to rows: column c is the contribution of a unit of source c.

    Args:
        tree: The tree.
        plan: The rows.
        states: Motion of all bodies.
        sources: `SourceArrays`: a wrench component at a frame of a body, with the regions that it acts on.
        out: Shape (n_samples, n_rows, n_sources), zeros.
    """
    wrench = np.empty(6)
    for sample in range(out.shape[0]):
        state = states[sample]
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
                p0, p1, p2 = _vector(state, body, POSITION)
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
                        screw = _joint_screw(tree, state, joint, plan.torque_components[row])
                        total = 0.0
                        for i in range(6):
                            total += screw[i] * wrench[i]
                        # τ + Jᵀ f: an external force helps the joint to carry what hangs on it.
                        out[sample, plan.first_torque_row + row, source] += total
