"""The shapes of links as points: for soles, bounding boxes and hulls."""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import coal
import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.files.packages import is_file, resolve_uri

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Geometry
    from steelyard.model.model import Model


def link_points(model: Model, link: str, *, purpose: Literal["visual", "collision"] | None = None) -> FloatArray:
    """Gives points whose convex hull is that of a link's shapes, in its joint frame, shape (n, 3), m.

    Boxes and meshes give their corners; round shapes give points on their surface.

    Args:
        model: The model.
        link: Name of the link.
        purpose: Only the shapes drawn ("visual") or collided with ("collision"); None for all.

    Raises:
        ModelError: There is no such link, or a mesh file is missing or cannot be read.
    """
    body = model.link_bodies[model.link_index(link)]
    return np.concatenate([np.zeros((0, 3)), *body_pieces(model, body, purpose=purpose)])


def body_pieces(model: Model, body: int, *, purpose: Literal["visual", "collision"] | None = None) -> list[FloatArray]:
    """Gives the points of each shape of a body, in its joint frame, each of shape (n, 3), m; see `link_points`.

    Args:
        model: The model.
        body: Index of the body.
        purpose: Only the shapes drawn ("visual") or collided with ("collision"); None for all.

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
    """Gives points whose convex hull is that of a shape, in the shape's own frame, shape (n, 3), m.

    Args:
        geometry: The shape.
        beside: The model file, from which relative mesh paths start.
        packages: Folders that hold ROS packages.

    Raises:
        ModelError: The mesh file is missing or cannot be read.
    """
    size = geometry.size
    if geometry.shape == "mesh":
        return _mesh_points(geometry, beside, packages)
    if geometry.shape == "box":
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
        return np.asarray(corners * np.array(size))
    if geometry.shape in ("sphere", "ellipsoid"):
        return np.asarray(_SPHERE * np.array(size))
    radius, length = size
    ends = (np.array([0.0, 0.0, -0.5 * length]), np.array([0.0, 0.0, 0.5 * length]))
    if geometry.shape == "capsule":
        return np.concatenate([radius * _SPHERE + end for end in ends])
    return np.concatenate([radius * _CIRCLE + end for end in ends])


def _mesh_points(geometry: Geometry, beside: Path, packages: Sequence[Path]) -> FloatArray:
    if geometry.vertices is not None:
        return geometry.vertices
    path = mesh_path(geometry, beside, packages)
    return np.asarray(_read_mesh(path, path.stat().st_mtime_ns) * np.array(geometry.scale))


def mesh_path(geometry: Geometry, beside: Path, packages: Sequence[Path] = ()) -> Path:
    """Gives the file of a mesh.

    Raises:
        ModelError: It is missing.
    """
    path = resolve_uri(str(geometry.uri), beside=beside, packages=packages)
    if path is None or not is_file(path):
        raise ModelError(f"the mesh {geometry.uri} is not found; check the path, or set ROS_PACKAGE_PATH", path=beside)
    return path


@lru_cache(maxsize=128)
def _read_mesh(path: Path, _changed: int) -> FloatArray:
    """Gives the corners of a mesh file; most models name each file twice, to draw and to collide."""
    corners = binary_stl_corners(path)
    if corners is not None:
        return corners
    vertices = np.array(load_mesh(path).vertices(), dtype=np.float64) @ up_axis(path).T
    vertices.setflags(write=False)
    return vertices


def load_mesh(path: Path) -> coal.BVHModelOBBRSS:
    """Gives a mesh file as coal reads it, before `up_axis`.

    Raises:
        ModelError: It cannot be read.
    """
    try:
        return coal.MeshLoader().load(str(path), np.ones(3))
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"the mesh cannot be read: {' '.join(str(error).split())}", path=path) from error


def binary_stl_corners(path: Path) -> FloatArray | None:
    """Gives the corners of a binary STL file, three to a triangle, which most robots' meshes are; else None.

    Coal reads them too, thirty times slower: it also joins corners and builds the mesh, of which nothing is used here.
    """
    if path.suffix.lower() != ".stl":
        return None
    content = path.read_bytes()
    count = int.from_bytes(content[80:84], "little")
    if len(content) < _STL_HEADER or len(content) != _STL_HEADER + count * _STL_TRIANGLE.itemsize or not count:
        return None
    triangles = np.frombuffer(content, dtype=_STL_TRIANGLE, offset=_STL_HEADER)
    corners = triangles["corners"].reshape(-1, 3).astype(np.float64)
    if not np.all(np.isfinite(corners)):
        return None
    corners.setflags(write=False)
    return corners


_STL_HEADER = 84
_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def up_axis(path: Path) -> FloatArray:
    """Gives the rotation that stands a COLLADA mesh upright along z, as its ``<up_axis>`` asks.

    Coal leaves it to the caller. iCub's meshes need it: without, its feet point sideways.
    """
    if path.suffix.lower() != ".dae":
        return np.eye(3)
    with path.open("rb") as file:
        declared = _UP_AXIS.search(file.read(65536))
    return _UPRIGHT[declared.group(1).decode() if declared else "Z_UP"]


_UP_AXIS = re.compile(rb"<up_axis>\s*([XYZ]_UP)\s*</up_axis>")
_UPRIGHT = {
    "X_UP": np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]),
    "Y_UP": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "Z_UP": np.eye(3),
}


def _sphere_points() -> FloatArray:
    """Gives 60 points spread evenly on the unit sphere, and the six on the axes."""
    heights = 1.0 - (2.0 * np.arange(60) + 1.0) / 60
    angles = np.pi * (1.0 + 5.0**0.5) * np.arange(60)
    radii = np.sqrt(1.0 - heights**2)
    spread = np.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)
    return np.concatenate([spread, np.eye(3), -np.eye(3)])


_SPHERE = _sphere_points()
_CIRCLE = np.stack(
    [
        np.cos(np.linspace(0, 2 * np.pi, 32, endpoint=False)),
        np.sin(np.linspace(0, 2 * np.pi, 32, endpoint=False)),
        np.zeros(32),
    ],
    axis=1,
)
