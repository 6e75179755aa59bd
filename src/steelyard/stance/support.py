"""Balance: the polygon that the soles span, the zero-moment point, and how feet share the load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance.footing import Footing


def inside_margin(polygon: FloatArray, points: Any) -> FloatArray:
    """Gives how far inside a convex polygon points are, m; negative outside (then to the nearest edge's line).

    Args:
        polygon: Corners, counter-clockwise, shape (n, 2).
        points: Shape (..., 2).

    Returns:
        Shape (...,).
    """
    edges = np.roll(polygon, -1, axis=0) - polygon
    inward = np.stack([-edges[:, 1], edges[:, 0]], axis=1) / np.linalg.norm(edges, axis=1, keepdims=True)
    offsets = np.einsum("ij,ij->i", inward, polygon)
    return np.asarray(np.min(np.asarray(points) @ inward.T - offsets, axis=-1))


def zero_moment_points(wrenches: Any) -> FloatArray:
    """Gives where on the ground (z = 0) horizontal moments vanish: the centre of pressure of all feet together.

    Args:
        wrenches: Of the ground on the robot about the world's origin, in world axes, shape (..., 6).

    Returns:
        Shape (..., 2), m; not a number where nothing presses on the ground.
    """
    wrench = np.asarray(wrenches, dtype=np.float64)
    force = np.where(wrench[..., 2] > 0.0, wrench[..., 2], np.nan)
    return np.stack([-wrench[..., 4] / force, wrench[..., 3] / force], axis=-1)


def share_load(footing: Footing) -> FloatArray:
    """Gives the map from the ground's total wrench to each foot's, shape (n_feet, 6, 6).

    The total is about the world's origin, each foot's about the middle of its stand, all in world axes. Of all ways to
    share, it is the one with the least ``Σ |f|² + |n / ℓ|²``, with ℓ the half length or width of the sole: moments,
    which press the sole's edges, count more the smaller the sole is.
    """
    count = len(footing.feet)
    total = np.zeros((6, 6 * count))
    scales = np.zeros(6 * count)
    for number, foot in enumerate(footing.feet):
        x, y, z = foot.stand.translation
        block = np.eye(6)
        block[3:, :3] = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
        total[:, 6 * number : 6 * number + 6] = block
        half = 0.5 * np.ptp(foot.corners[:, :2] @ foot.stand.rotation[:2, :2].T, axis=0)
        scales[6 * number : 6 * number + 6] = [1.0, 1.0, 1.0, half[1], half[0], np.hypot(*half)]
    weighted = total * scales**2
    shares = weighted.T @ np.linalg.inv(weighted @ total.T)
    return np.asarray(shares.reshape(count, 6, 6))
