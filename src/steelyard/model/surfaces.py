"""The shapes of links as triangles: for pictures."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from steelyard.exceptions import ModelError
from steelyard.model.geometry import binary_stl_corners, load_mesh, mesh_path, shape_points, up_axis

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Geometry
    from steelyard.model.model import Model

    IntArray = np.ndarray[Any, np.dtype[np.int64]]


class Surface(NamedTuple):
    """Triangles.

    Attributes:
        vertices: Shape (n, 3), m.
        triangles: Three vertices each, shape (n_triangles, 3).
    """

    vertices: FloatArray
    triangles: IntArray


def body_surfaces(
    model: Model, body: int, *, purpose: Literal["visual", "collision"] = "visual"
) -> tuple[list[Surface], list[str]]:
    """Gives the surface of each shape of a body, in its joint frame, and what could not be read.

    A mesh gives its own triangles; other shapes, and meshes of which the reader kept corners only, their convex hull.

    Args:
        model: The model.
        body: Index of the body.
        purpose: The shapes drawn ("visual") or collided with ("collision").

    Returns:
        The surfaces, and a sentence for each mesh that is missing or cannot be read.
    """
    surfaces: list[Surface] = []
    unread: list[str] = []
    for member in model.bodies[body].members:
        for geometry in member.part.geometries:
            if geometry.purpose != purpose:
                continue
            try:
                surface = _surface(geometry, model)
            except ModelError as error:
                unread.append(str(error))
                continue
            placement = member.placement * geometry.placement
            vertices = surface.vertices @ placement.rotation.T + placement.translation
            surfaces.append(Surface(vertices, surface.triangles))
    return surfaces, unread


def hull_surface(points: FloatArray) -> Surface:
    """Gives the convex hull of points as triangles that face outwards; none where the points have no volume."""
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return Surface(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64))
    used, renumbered = np.unique(hull.simplices, return_inverse=True)
    triangles = renumbered.reshape(-1, 3).astype(np.int64)
    vertices = np.asarray(points, dtype=np.float64)[used]
    corners = vertices[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    triangles[inwards] = triangles[inwards][:, ::-1]
    return Surface(vertices, triangles)


def _surface(geometry: Geometry, model: Model) -> Surface:
    beside, packages = model.description.file.path, model.description.packages
    if geometry.shape != "mesh" or geometry.vertices is not None:
        return hull_surface(shape_points(geometry, beside, packages))
    path = mesh_path(geometry, beside, packages)
    vertices, triangles = _read_surface(path, path.stat().st_mtime_ns)
    return Surface(vertices * np.array(geometry.scale), triangles)


@lru_cache(maxsize=128)
def _read_surface(path: Path, _changed: int) -> Surface:
    corners = binary_stl_corners(path)
    if corners is not None:
        vertices, places = np.unique(corners, axis=0, return_inverse=True)
        return Surface(vertices, places.reshape(-1, 3).astype(np.int64))
    mesh = load_mesh(path)
    vertices = np.array(mesh.vertices(), dtype=np.float64) @ up_axis(path).T
    indices = (mesh.tri_indices(number) for number in range(mesh.num_tris))
    triangles = np.array([(each[0], each[1], each[2]) for each in indices], dtype=np.int64).reshape(-1, 3)
    return Surface(vertices, triangles)
