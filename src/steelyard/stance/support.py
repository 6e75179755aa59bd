"""Balance: the support polygon, the zero-moment point, and the load of each foot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance.footing import Footing


def inside_margin(polygon: FloatArray, points: Any) -> FloatArray:
    """Return the distance of points to the nearest edge line of a convex polygon, m; negative outside.

    Args:
        polygon: Vertices, counter-clockwise, shape (n, 2).
        points: Shape (..., 2).

    Returns:
        Shape (...,).
    """
    edges = np.roll(polygon, -1, axis=0) - polygon
    inward = np.stack([-edges[:, 1], edges[:, 0]], axis=1) / np.linalg.norm(edges, axis=1, keepdims=True)
    offsets = np.einsum("ij,ij->i", inward, polygon)
    return np.asarray(np.min(np.asarray(points) @ inward.T - offsets, axis=-1))


def zero_moment_points(wrenches: Any) -> FloatArray:
    """Return the zero-moment point on the ground (z = 0): the centre of pressure of all feet together.

    Args:
        wrenches: Of the ground on the robot about the world's origin, in world axes, shape (..., 6).

    Returns:
        Shape (..., 2), m; NaN where the vertical force is not positive.
    """
    wrench = np.asarray(wrenches, dtype=np.float64)
    force = np.where(wrench[..., 2] > 0.0, wrench[..., 2], np.nan)
    return np.stack([-wrench[..., 4] / force, wrench[..., 3] / force], axis=-1)


def share_load(footing: Footing) -> FloatArray:
    """Return the map from the total ground wrench to that on each foot, shape (n_feet, 6, 6).

    The total is about the world's origin, each foot's about the origin of its stand, all in world axes. It minimises
    ``Σ |f|² + |n / ℓ|²``, with ℓ half the length or width of the sole: moments, which load the edges of the sole, count
    more the smaller it is.
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
