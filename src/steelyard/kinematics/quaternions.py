"""Orientations over time: quaternions x y z w without jumps, and the angular rates that they tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics.frame_motion import cross

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray


def without_jumps(quaternions: FloatArray) -> FloatArray:
    """Gives the same orientations, each quaternion with the sign that is nearer to the one before it, shape (n, 4).

    Rows that are not finite stay as they are, and are passed over.
    """
    result = np.array(quaternions)
    there = np.flatnonzero(np.isfinite(result).all(axis=1))
    known = result[there]
    jumps = np.where(np.einsum("ni,ni->n", known[1:], known[:-1]) < 0.0, -1.0, 1.0)
    result[there[1:]] *= np.cumprod(jumps)[:, None]
    return result


def multiply(first: FloatArray, second: FloatArray) -> FloatArray:
    """Gives the products of quaternions: the turn `second`, then `first`, shape (n, 4)."""
    vector = (
        first[..., 3:] * second[..., :3] + second[..., 3:] * first[..., :3] + cross(first[..., :3], second[..., :3])
    )
    scalar = first[..., 3] * second[..., 3] - np.sum(first[..., :3] * second[..., :3], axis=-1)
    return np.concatenate([vector, scalar[..., None]], axis=-1)


def conjugate(quaternions: FloatArray) -> FloatArray:
    """Gives the opposite turns, shape (n, 4)."""
    return np.asarray(quaternions * np.array([-1.0, -1.0, -1.0, 1.0]))


def normalised(quaternions: FloatArray) -> FloatArray:
    """Gives quaternions of length one whose scalar part is not negative: one for each orientation, shape (n, 4)."""
    lengths = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    return np.asarray(np.where(quaternions[..., 3:] < 0.0, -1.0, 1.0) * quaternions / lengths)


def angular_motion(quaternions: FloatArray, slopes: FloatArray, curves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gives angular velocity and acceleration, in the turning axes, rad/s and rad/s², shape (n, 3) each.

    With ``p = conj(q) dq/dt / |q|²``, half the angular velocity is p's vector part, and p's scalar part is the rate at
    which the length of q grows; so quaternions need not have length one.

    Args:
        quaternions: Shape (n, 4), without jumps.
        slopes: Their first derivatives.
        curves: Their second derivatives.
    """
    squares = np.sum(quaternions**2, axis=1, keepdims=True)
    first = multiply(conjugate(quaternions), slopes) / squares
    second = multiply(conjugate(quaternions), curves) / squares
    rate = 2.0 * first[:, :3]
    return rate, 2.0 * second[:, :3] - 2.0 * first[:, 3:] * rate
