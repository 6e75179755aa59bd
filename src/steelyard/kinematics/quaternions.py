"""Orientations over time: quaternions x y z w without sign changes, and their angular velocity and acceleration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics.rotations import cross

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray


def without_jumps(quaternions: FloatArray) -> FloatArray:
    """Return the same orientations, each quaternion with the sign nearer to the one before it, shape (n, 4).

    Rows that are not finite are skipped and stay as they are.
    """
    result = np.array(quaternions)
    there = np.flatnonzero(np.isfinite(result).all(axis=1))
    known = result[there]
    jumps = np.where(np.einsum("ni,ni->n", known[1:], known[:-1]) < 0.0, -1.0, 1.0)
    result[there[1:]] *= np.cumprod(jumps)[:, None]
    return result


def multiply(first: FloatArray, second: FloatArray) -> FloatArray:
    """Compute the products of quaternions: the rotation `second`, then `first`, shape (n, 4)."""
    vector = (
        first[..., 3:] * second[..., :3] + second[..., 3:] * first[..., :3] + cross(first[..., :3], second[..., :3])
    )
    scalar = first[..., 3] * second[..., 3] - np.sum(first[..., :3] * second[..., :3], axis=-1)
    return np.concatenate([vector, scalar[..., None]], axis=-1)


def conjugate(quaternions: FloatArray) -> FloatArray:
    """Return the conjugates of quaternions, shape (n, 4)."""
    return np.asarray(quaternions * np.array([-1.0, -1.0, -1.0, 1.0]))


def normalised(quaternions: FloatArray) -> FloatArray:
    """Return unit quaternions whose scalar part is not negative: one for each orientation, shape (n, 4)."""
    lengths = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    return np.asarray(np.where(quaternions[..., 3:] < 0.0, -1.0, 1.0) * quaternions / lengths)


def angular_motion(quaternions: FloatArray, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute angular velocity and acceleration in the rotating axes, rad/s and rad/s², shape (n, 3) each.

    With ``p = conj(q) dq/dt / |q|²``, half the angular velocity is p's vector part, and p's scalar part is the rate at
    which the length of q grows; so quaternions need not be normalised.

    Args:
        quaternions: Shape (n, 4), without sign changes.
        first: Their first derivatives in time.
        second: Their second derivatives.
    """
    squares = np.sum(quaternions**2, axis=1, keepdims=True)
    growth = multiply(conjugate(quaternions), first) / squares
    change = multiply(conjugate(quaternions), second) / squares
    rate = 2.0 * growth[:, :3]
    return rate, 2.0 * change[:, :3] - 2.0 * growth[:, 3:] * rate
