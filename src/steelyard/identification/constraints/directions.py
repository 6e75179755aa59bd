"""Unit vectors spread over the sphere: the directions in which an inertia is asked to be positive."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

TENSOR_START = 4
"""Where the six numbers of the tensor begin among the ten parameters."""


@lru_cache(maxsize=8)
def icosahedron_directions(subdivisions: int) -> FloatArray:
    """Gives the corners of an icosahedron whose faces were divided into four `subdivisions` times, shape (n, 3).

    There are ``10 · 4^subdivisions + 2``, each on the unit sphere and each with its opposite: [jovic2016] III-B. From
    one division on, the axes are among them.
    """
    golden = 0.5 * (1.0 + 5.0**0.5)
    corners = [(0.0, one, two * golden) for one in (-1.0, 1.0) for two in (-1.0, 1.0)]
    points = np.array([np.roll(corner, turn) for turn in range(3) for corner in corners])
    # The edges of this icosahedron are 2 long; a face is three corners with an edge between any two.
    near = np.abs(np.linalg.norm(points[:, None] - points[None], axis=2) - 2.0) < 1e-9
    faces = np.array(
        [
            (a, b, c)
            for a in range(12)
            for b in range(a + 1, 12)
            for c in range(b + 1, 12)
            if near[a, b] and near[b, c] and near[a, c]
        ]
    )
    points /= np.linalg.norm(points, axis=1)[:, None]
    for _ in range(subdivisions):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        unique, places = np.unique(edges, axis=0, return_inverse=True)
        middles = points[unique[:, 0]] + points[unique[:, 1]]
        middles /= np.linalg.norm(middles, axis=1)[:, None]
        first, second, third = (len(points) + places.reshape(3, -1)).astype(np.int64)
        points = np.concatenate([points, middles])
        a, b, c = faces.T
        faces = np.concatenate(
            [
                np.stack(corners, axis=1)
                for corners in ((a, first, third), (b, second, first), (c, third, second), (first, second, third))
            ]
        )
    points.setflags(write=False)
    return points


@lru_cache(maxsize=8)
def half_directions(subdivisions: int) -> FloatArray:
    """Gives one of each two opposite `icosahedron_directions`: ``v`` and ``−v`` make the same row; shape (n / 2, 3)."""
    points = icosahedron_directions(subdivisions)
    # The first number that is not zero decides; on a half turned by the rounding of one, both would be kept.
    rounded = np.round(points, 9)
    leading = rounded[np.arange(len(points)), np.argmax(rounded != 0.0, axis=1)]
    half: FloatArray = points[leading > 0.0]
    half.setflags(write=False)
    return half


def tensor_rows(directions: Any) -> FloatArray:
    """Gives the rows (..., 6) with ``row · (Ixx, Ixy, Iyy, Ixz, Iyz, Izz) = vᵀ I v``, of directions (..., 3): (14)."""
    x, y, z = np.moveaxis(np.asarray(directions, dtype=np.float64), -1, 0)
    return np.stack([x * x, 2.0 * x * y, y * y, 2.0 * x * z, 2.0 * y * z, z * z], axis=-1)
