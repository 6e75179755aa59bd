"""Shapes of links as triangles: for pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from steelyard.exceptions import ModelError
from steelyard.model.geometry.meshes import Surface, find_mesh, read_mesh_surface
from steelyard.model.geometry.points import shape_points

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model.description import Geometry
    from steelyard.model.model import Model


def body_surfaces(
    model: Model, body: int, *, purpose: Literal["visual", "collision"] = "visual"
) -> tuple[list[Surface], list[str]]:
    """Return the surface of each shape of a body, in its joint frame, and which meshes could not be read.

    A mesh file has triangles of its own; other shapes, and meshes of an MJCF, of which only vertices are known, are
    represented by their convex hull.

    Args:
        model: The model.
        body: Index of the body.
        purpose: The visual or the collision shapes.

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
    """Return the convex hull of points as triangles that face outwards; none where the points have no volume."""
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
    vertices, triangles = read_mesh_surface(*find_mesh(geometry, beside, packages))
    return Surface(vertices * np.array(geometry.scale), triangles)
