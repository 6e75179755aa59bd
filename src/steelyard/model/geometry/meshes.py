"""Mesh files: where they are, their vertices and their triangles."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import coal
import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.files.packages import is_file, resolve_uri

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.model.description import Geometry

_STL_HEADER_SIZE = 84
"""Bytes before the first triangle of a binary STL file: 80 of free text and the number of triangles (the format)."""

_STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
"""One triangle of a binary STL file, 50 bytes (the format)."""

_UP_AXIS = re.compile(rb"<up_axis>\s*([XYZ]_UP)\s*</up_axis>")
_UPRIGHT = {
    "X_UP": np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]),
    "Y_UP": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "Z_UP": np.eye(3),
}
"""Rotations to z upwards for each ``<up_axis>`` of a COLLADA file (the format)."""


class Surface(NamedTuple):
    """Triangles.

    Attributes:
        vertices: Shape (n, 3), m.
        triangles: Indices of three vertices each, shape (n_triangles, 3).
    """

    vertices: FloatArray
    triangles: IntArray


def find_mesh(geometry: Geometry, beside: Path, packages: Sequence[Path] = ()) -> tuple[Path, int]:
    """Return the file of a mesh and the time of its last change, which together key the caches of this module.

    Raises:
        ModelError: The file is missing.
    """
    path = resolve_uri(str(geometry.uri), beside=beside, packages=packages)
    if path is None or not is_file(path):
        raise ModelError(f"the mesh {geometry.uri} is not found; check the path, or set ROS_PACKAGE_PATH", path=beside)
    return path, path.stat().st_mtime_ns


# Both caches hold read-only arrays, so that threads can share them.
@lru_cache(maxsize=128)
def read_mesh_points(path: Path, _changed: int) -> FloatArray:
    """Read the corners of a mesh file; most models name each file twice, as visual and as collision shape.

    Raises:
        ModelError: The file cannot be read.
    """
    corners = _binary_stl_corners(path)
    return _read_only(_upright_vertices(path, _load_mesh(path)) if corners is None else corners)


@lru_cache(maxsize=128)
def read_mesh_surface(path: Path, _changed: int) -> Surface:
    """Read the triangles of a mesh file.

    Raises:
        ModelError: The file cannot be read.
    """
    corners = _binary_stl_corners(path)
    if corners is not None:
        vertices, indices = merge_points(corners)
        triangles = indices.reshape(-1, 3)
    else:
        mesh = _load_mesh(path)
        vertices = _upright_vertices(path, mesh)
        faces = (mesh.tri_indices(number) for number in range(mesh.num_tris))
        triangles = np.array([(face[0], face[1], face[2]) for face in faces], dtype=np.int64).reshape(-1, 3)
    triangles.setflags(write=False)
    return Surface(_read_only(vertices), triangles)


def merge_points(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """Merge equal points.

    Equals ``np.unique(points, axis=0, return_inverse=True)``, which compares rows as records: five times slower.

    Args:
        points: Shape (n, 3), n at least 1.

    Returns:
        The points without repetition, in lexicographic order, and the index among them of each point given, shape (n,).
    """
    order = np.lexsort(points.T[::-1])
    ordered = points[order]
    first = np.ones(len(points), dtype=np.bool_)
    first[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    indices = np.empty(len(points), dtype=np.int64)
    indices[order] = np.cumsum(first) - 1
    return ordered[first], indices


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


def _load_mesh(path: Path) -> coal.BVHModelOBBRSS:
    try:
        return coal.MeshLoader().load(str(path), np.ones(3))
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"the mesh cannot be read: {' '.join(str(error).split())}", path=path) from error


def _binary_stl_corners(path: Path) -> FloatArray | None:
    """Return the corners of a binary STL file, three to a triangle; None for any other file.

    Coal reads binary STL too, thirty times slower: it also merges corners and builds a bounding volume hierarchy.
    """
    if path.suffix.lower() != ".stl":
        return None
    content = path.read_bytes()
    count = int.from_bytes(content[80:84], "little")
    if not count or len(content) != _STL_HEADER_SIZE + count * _STL_TRIANGLE.itemsize:
        return None
    triangles = np.frombuffer(content, dtype=_STL_TRIANGLE, offset=_STL_HEADER_SIZE)
    corners = triangles["corners"].reshape(-1, 3).astype(np.float64)
    return corners if np.all(np.isfinite(corners)) else None


def _upright_vertices(path: Path, mesh: coal.BVHModelOBBRSS) -> FloatArray:
    """Return a mesh's vertices with z upwards, as the ``<up_axis>`` of a COLLADA file asks; coal ignores it.

    Without it, the feet of iCub point sideways.
    """
    vertices = np.array(mesh.vertices(), dtype=np.float64)
    axis = "Z_UP"
    if path.suffix.lower() == ".dae":
        with path.open("rb") as file:
            declared = _UP_AXIS.search(file.read(65536))
        axis = declared.group(1).decode() if declared else axis
    return np.asarray(vertices @ _UPRIGHT[axis].T)
