"""Shapes of links as points: for soles, bounding boxes and hulls."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import numpy as np

from steelyard.model.geometry.meshes import find_mesh, read_mesh_points

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Geometry
    from steelyard.model.model import Model


def link_points(model: Model, link: str, *, purpose: Literal["visual", "collision"] | None = None) -> FloatArray:
    """Return points whose convex hull is that of a link's shapes, in its joint frame, shape (n, 3), m.

    Boxes and meshes are represented by their corners, round shapes by points on their surface.

    Args:
        model: The model.
        link: Name of the link.
        purpose: Only the visual or only the collision shapes; None for all.

    Raises:
        ModelError: There is no such link, or a mesh file is missing or cannot be read.
    """
    body = model.link_bodies[model.link_index(link)]
    return np.concatenate([np.zeros((0, 3)), *body_pieces(model, body, purpose=purpose)])


def body_pieces(model: Model, body: int, *, purpose: Literal["visual", "collision"] | None = None) -> list[FloatArray]:
    """Return the points of each shape of a body, in its joint frame, each of shape (n, 3), m; see `link_points`.

    Args:
        model: The model.
        body: Index of the body.
        purpose: Only the visual or only the collision shapes; None for all.

    Raises:
        ModelError: A mesh file is missing or cannot be read.
    """
    pieces = []
    for member in model.bodies[body].members:
        for geometry in member.part.geometries:
            if purpose is None or geometry.purpose == purpose:
                placement = member.placement * geometry.placement
                points = shape_points(geometry, model.description.file.path, model.description.packages)
                pieces.append(points @ placement.rotation.T + placement.translation)
    return pieces


def shape_points(geometry: Geometry, beside: Path, packages: Sequence[Path] = ()) -> FloatArray:
    """Return points whose convex hull is that of a shape, in the shape's own frame, shape (n, 3), m.

    Args:
        geometry: The shape.
        beside: The model file; relative mesh paths start in its folder.
        packages: Folders that hold ROS packages.

    Raises:
        ModelError: The mesh file is missing or cannot be read.
    """
    size = geometry.size
    if geometry.shape == "mesh":
        if geometry.vertices is not None:
            return geometry.vertices
        return np.asarray(read_mesh_points(*find_mesh(geometry, beside, packages)) * np.array(geometry.scale))
    if geometry.shape == "box":
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
        return np.asarray(corners * np.array(size))
    if geometry.shape in ("sphere", "ellipsoid"):
        return np.asarray(_SPHERE * np.array(size))
    radius, length = size
    outline = _SPHERE if geometry.shape == "capsule" else _CIRCLE
    return np.concatenate([radius * outline + np.array([0.0, 0.0, z]) for z in (-0.5 * length, 0.5 * length)])


def sphere_points(count: int) -> FloatArray:
    """Return points of a golden spiral on the unit sphere, evenly around it, shape (count, 3)."""
    heights = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angles = np.pi * (1.0 + 5.0**0.5) * np.arange(count)
    radii = np.sqrt(1.0 - heights**2)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)


# With the six points on the axes, so that bounds are exact.
_SPHERE = np.concatenate([sphere_points(60), np.eye(3), -np.eye(3)])
_ANGLES = np.linspace(0, 2 * np.pi, 32, endpoint=False)
"""Angles of the points of a circle, rad. Set by judgement: the polygon is within 0.5 % of the radius."""

_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES), np.zeros_like(_ANGLES)], axis=1)
"""Points of the unit circle in the xy plane, shape (32, 3)."""
