"""The volume that contains each link's centre of mass: a box, or the convex hull of its shapes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.model import link_points, match_pattern

if TYPE_CHECKING:
    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model import ComInside, Geometry, Model

_HULLS: BoundedCache[FloatArray | None] = BoundedCache(256)
"""Results by digest of the points. Size set by judgement: the links of some eight humanoids of thirty."""

_POINTS: WeakKeyDictionary[Model, dict[str, FloatArray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Volume:
    """Where the centre of mass ``c`` of a link may be, in its joint frame.

    Attributes:
        box: Least and greatest corner, margin included, shape (2, 3), m.
        facets: Of a hull, rows ``[n, d]`` with ``n · c ≤ d`` for unit normals ``n`` that point outwards, margin
            included, shape (n, 4); None where the box is all.
        inside: A point inside, shape (3,).
        guessed: Whether it is a default, the box around shapes, that nobody asked for.
    """

    box: FloatArray
    facets: FloatArray | None
    inside: FloatArray
    guessed: bool = False

    def outside(self, point: FloatArray) -> float:
        """Return how far a point is outside: the greatest distance to a violated face, m; 0 inside."""
        beyond = [np.max(self.box[0] - point), np.max(point - self.box[1])]
        if self.facets is not None:
            beyond.append(np.max(self.facets[:, :3] @ point - self.facets[:, 3]))
        return float(max(0.0, *beyond))

    def with_point(self, point: FloatArray) -> Volume:
        """Return the box that contains a point as well, for a volume that is a box."""
        box = np.stack([np.minimum(self.box[0], point), np.maximum(self.box[1], point)])
        return replace(self, box=box, inside=box.mean(axis=0))


def find_volume(model: Model, link: str, constraint: ComInside) -> Volume | None:
    """Return the volume of a link's centre of mass; None where it comes from shapes and there are none.

    Raises:
        IdentifiabilityError: The box is asked for and there is none, or it excludes the link's shapes.
        ModelError: It comes from shapes, and a mesh is missing or cannot be read.
    """
    where = constraint.where
    box: FloatArray | None = None
    if not isinstance(where, str):
        box = np.array(where, dtype=np.float64)
    elif where in ("auto", "volume"):
        boxes = [volume for pattern, volume in model.setup.volumes.items() if match_pattern(pattern, [link])]
        box = np.asarray(boxes[-1]) if boxes else None
        if box is None and where == "volume":
            raise IdentifiabilityError(
                f'com: the setup has no [volume] box for {link}; add one, or write "bounds" or "hull"', names=[link]
            )
    try:
        points = _points(model, link)
    except ModelError:
        if box is None:
            raise
        points = np.zeros((0, 3))
    if box is not None:
        _refuse_elsewhere(link, box, points, explicit=not isinstance(where, str))
        return _box_volume(box, constraint.margin)
    if not len(points):
        return None
    bounds = np.stack([points.min(axis=0), points.max(axis=0)])
    if where != "hull":
        return replace(_box_volume(bounds, constraint.margin), guessed=where == "auto")
    facets = _hull_facets(points)
    if facets is None:
        return _box_volume(bounds, constraint.margin)
    widened = facets + np.array([0.0, 0.0, 0.0, constraint.margin])
    outer = bounds + constraint.margin * np.array([[-1.0], [1.0]])
    return Volume(outer, widened, points.mean(axis=0))


def find_reach(model: Model, link: str) -> float | None:
    """Return the greatest distance of a link's shapes from its joint's origin, m; None where it has none.

    Round shapes count in full, an ellipsoid by the sphere around it.

    Raises:
        ModelError: A mesh is missing or cannot be read.
    """
    points = _points(model, link)
    if not len(points):
        return None
    reach = float(np.sqrt(np.max(np.sum(np.square(points), axis=1))))
    for member in model.bodies[model.link_bodies[model.link_index(link)]].members:
        for geometry in member.part.geometries:
            reach = max(reach, _round_reach(geometry, member.placement * geometry.placement))
    return reach


def _round_reach(geometry: Geometry, placement: pin.SE3) -> float:
    """Return the greatest distance of a round shape from the origin, m; 0 for one with corners."""
    if geometry.shape in ("mesh", "box"):
        return 0.0
    if geometry.shape in ("sphere", "ellipsoid"):
        return float(np.linalg.norm(placement.translation) + np.max(geometry.size))
    radius, length = geometry.size
    axis = placement.rotation[:, 2]
    reaches = []
    for end in (placement.translation - 0.5 * length * axis, placement.translation + 0.5 * length * axis):
        if geometry.shape == "capsule":
            reaches.append(np.linalg.norm(end) + radius)
        else:
            along = end @ axis
            reaches.append(np.hypot(along, np.linalg.norm(end - along * axis) + radius))
    return float(max(reaches))


def _points(model: Model, link: str) -> FloatArray:
    """Return `link_points`, read once for each model."""
    known = _POINTS.setdefault(model, {})
    if link not in known:
        known[link] = link_points(model, link)
    return known[link]


def _box_volume(box: FloatArray, margin: float) -> Volume:
    widened = box + margin * np.array([[-1.0], [1.0]])
    return Volume(widened, None, widened.mean(axis=0))


def _refuse_elsewhere(link: str, box: FloatArray, points: FloatArray, *, explicit: bool) -> None:
    if not len(points):
        return
    low, high = points.min(axis=0), points.max(axis=0)
    if np.any(box[1] < low) or np.any(box[0] > high):
        axis = int(np.argmax(np.maximum(low - box[1], box[0] - high)))
        whose = "the box for its centre of mass" if explicit else "its [volume] box"
        raise IdentifiabilityError(
            f"com: {whose} excludes {link} itself: along {'xyz'[axis]} the box is from {box[0, axis]:g} to "
            f"{box[1, axis]:g} m and the link's shapes from {low[axis]:.4g} to {high[axis]:.4g} m; boxes are in the "
            "link's joint frame",
            names=[link],
        )


def _hull_facets(points: FloatArray) -> FloatArray | None:
    """Return the planes ``[n, d]`` of a convex hull, those that share a plane once; None for flat shapes."""
    key = hashlib.blake2b(np.ascontiguousarray(points).tobytes(), digest_size=16).hexdigest()
    return _HULLS.get(key, lambda: _make_facets(points))


def _make_facets(points: FloatArray) -> FloatArray | None:
    try:
        planes = np.asarray(ConvexHull(points).equations)
    except QhullError:
        return None
    _, first = np.unique(np.round(planes, 9), axis=0, return_index=True)
    facets: FloatArray = planes[np.sort(first)] * np.array([1.0, 1.0, 1.0, -1.0])
    facets.setflags(write=False)
    return facets
