"""Underside of a foot: the outline of its contact with level ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from steelyard.exceptions import ModelError
from steelyard.model import shape_points
from steelyard.stance import FLATNESS, LEAST_WIDTH

if TYPE_CHECKING:
    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model import Geometry, Model

MOST_CORNERS = 8
"""Most corners of an outline: as many as hand-made setups of rounded feet use. The reference soles are met within 8 mm
(docs/init.md)."""

_ROUND = ("sphere", "ellipsoid", "capsule")
_STEEPEST = np.cos(np.pi / 4.0)
"""Cosine of the largest tilt of a face that can be a sole. 45° separates downward from sideways faces."""
_LEAST_SHARE = 0.25
"""Least share of a foot's projection that its underside fills, unless the foot stands on an edge. Set by judgement."""
_CLEARLY = 1.2
"""Least ratio of a tilted face's area to the level contact's for it to be the sole of a foot that is tilted at rest.
Set by judgement: lower, a level foot is taken as tilted; higher, a slight tilt is missed."""
_SLIGHTLY = np.cos(np.radians(20.0))
"""Cosine of the largest tilt of a face that replaces a level contact. Set by judgement: beyond it a face is a flank."""
_SAME_DIRECTION = np.cos(np.radians(3.0))
"""Cosine of the largest angle between normals of one flat face. Set by judgement: it absorbs the facets of a mesh."""


@dataclass(frozen=True, eq=False)
class Underside:
    """Outline of a body's underside.

    Attributes:
        corners: Coplanar corners in order around the outline, in the body's joint frame, shape (n, 3), m.
        up: Upward unit normal of its plane in the body's joint frame, shape (3,).
        part: Name of the part with the lowest shape.
        source: Shapes that it was taken from, in words.
        sure: Whether it follows from the shapes without assumptions.
    """

    corners: FloatArray
    up: FloatArray
    part: str
    source: str
    sure: bool

    @property
    def area(self) -> float:
        """Area of the outline, m²."""
        return _area(self.corners, self.up)

    @property
    def height(self) -> float:
        """Height of its plane along `up`, in the body's joint frame, m."""
        return float(self.corners[0] @ self.up)


@dataclass(frozen=True, eq=False)
class _Shape:
    geometry: Geometry
    placement: pin.SE3
    part: str
    points: FloatArray  # in the body's joint frame


@dataclass(frozen=True)
class LostMeshes:
    """Mesh files of a body that are missing or unreadable.

    Attributes:
        messages: Error message of each.
    """

    messages: tuple[str, ...]


def find_underside(
    model: Model, body: int, up: FloatArray, *, whole_foot: bool = True
) -> Underside | LostMeshes | None:
    """Return the underside of a body, or its unreadable meshes; None where the body has no shapes.

    Collision shapes count; without any, visual shapes. Where both are meshes, both count: a simplified mesh may end
    before the toe. Every corner of a mesh or box up to `FLATNESS` above the lowest belongs to the underside; of a round
    shape only the lowest points, so that four contact spheres give four corners. A foot whose collision shapes stand on
    an edge or a point is taken from its visual shapes. Where these do too, or a tilted face is clearly larger than the
    contact, the largest flat face that points down is the sole. A round foot gets the patch at a penetration of
    `FLATNESS`.

    Args:
        model: The model.
        body: Index of the body.
        up: Upward unit vector in the body's joint frame, shape (3,).
        whole_foot: Whether the body is a foot; else it is a leg that ends in one, and only its end counts.
    """
    collision, visual, lost = _read_shapes(model, body)
    shapes = _standing(collision, visual, up)
    if not shapes:
        return LostMeshes(tuple(lost)) if lost else None
    missed = any(shape.geometry.shape == "mesh" for shape in shapes) and bool(lost)
    level = _outline(shapes, up)
    words, part = _in_words(shapes), _lowest_part(shapes, up)
    if level is not None and (not whole_foot or _fills(level, shapes, up)):
        tilted = _tilted(shapes, up, _area(level, up)) if whole_foot else None
        return tilted or Underside(level, up, part, words, sure=whole_foot and not missed)
    as_visual = _outline(visual, up) if whole_foot and collision and visual else None
    if as_visual is not None and _fills(as_visual, visual, up):
        return Underside(as_visual, up, _lowest_part(visual, up), _in_words(visual), sure=False)
    tilted = _tilted(shapes, up, 0.0) if whole_foot else None
    if tilted is not None:
        return tilted
    if level is not None:
        return Underside(level, up, part, words, sure=False)
    patch = _patch(shapes, up)
    words = f"the contact patch of {words} at 2 mm penetration"
    return None if patch is None else Underside(patch, up, part, words, sure=False)


def _tilted(shapes: list[_Shape], up: FloatArray, level_area: float) -> Underside | None:
    """Return the largest flat face as underside, where it is clearly larger than the level contact."""
    steepest = _STEEPEST if level_area == 0.0 else _SLIGHTLY
    for face in _largest_face(shapes, up):
        outline = _outline(shapes, face)
        tilt = np.degrees(np.arccos(min(1.0, float(face @ up))))
        if outline is None or face @ up < steepest or not _fills(outline, shapes, face):
            continue
        if _area(outline, face) > _CLEARLY * level_area:
            words = f"the largest flat face of {_in_words(shapes)}, tilted by {tilt:.1f}° in the resting posture"
            return Underside(outline, face, _lowest_part(shapes, face), words, sure=False)
    return None


def _read_shapes(model: Model, body: int) -> tuple[list[_Shape], list[_Shape], list[str]]:
    """Return the collision shapes, the visual shapes, and the messages of unreadable ones."""
    collision: list[_Shape] = []
    visual: list[_Shape] = []
    lost: list[str] = []
    for member in model.bodies[body].members:
        for geometry in member.part.geometries:
            try:
                points = shape_points(geometry, model.description.file.path, model.description.packages)
            except ModelError as error:
                lost.append(str(error))
                continue
            if not len(points) or not np.all(np.isfinite(points)):
                continue
            placement = member.placement * geometry.placement
            moved = points @ placement.rotation.T + placement.translation
            shape = _Shape(geometry, placement, member.part.name, moved)
            (collision if geometry.purpose == "collision" else visual).append(shape)
    return collision, visual, lost


def _standing(collision: list[_Shape], visual: list[_Shape], up: FloatArray) -> list[_Shape]:
    """Return the shapes that count; see `find_underside`."""
    if not collision:
        return visual
    lowest = min(collision, key=lambda shape: float(np.min(shape.points @ up)))
    if lowest.geometry.shape == "mesh":
        return [*collision, *(shape for shape in visual if shape.geometry.shape == "mesh")]
    return collision


def _lowest_part(shapes: list[_Shape], up: FloatArray) -> str:
    return min(shapes, key=lambda shape: float(np.min(_lowest_points(shape, up) @ up))).part


def _fills(outline: FloatArray, shapes: list[_Shape], up: FloatArray) -> bool:
    """Return whether an outline fills enough of the shapes' projection; contact spheres need not."""
    if all(shape.geometry.shape in _ROUND for shape in shapes):
        return True
    projection = _wide_hull(_flatten(np.concatenate([shape.points for shape in shapes]), up))
    return projection is None or _area(outline, up) >= _LEAST_SHARE * float(projection.volume)


def _in_words(shapes: list[_Shape]) -> str:
    kinds = {"sphere": "spheres", "box": "boxes", "mesh": "meshes"}
    purposes = " and ".join(
        purpose for purpose in ("collision", "visual") if any(shape.geometry.purpose == purpose for shape in shapes)
    )
    count: dict[str, int] = {}
    for shape in shapes:
        count[shape.geometry.shape] = count.get(shape.geometry.shape, 0) + 1
    if "mesh" in count:
        names = dict.fromkeys(_mesh_name(shape.geometry) for shape in shapes if shape.geometry.shape == "mesh")
        return f"the {purposes} shapes ({', '.join(list(names)[:2])})"
    listed = " and ".join(
        f"{number} {kinds.get(kind, kind + 's') if number > 1 else kind}" for kind, number in count.items()
    )
    return f"the {purposes} shapes ({listed})"


def _mesh_name(geometry: Geometry) -> str:
    return str(geometry.uri).rsplit("/", 1)[-1] or "mesh"


def _lowest_points(shape: _Shape, up: FloatArray) -> FloatArray:
    """Return the points of a shape that may belong to its underside, shape (n, 3), m."""
    geometry, middle, axes = shape.geometry, shape.placement.translation, shape.placement.rotation
    local = axes.T @ up
    if geometry.shape == "sphere":
        return np.asarray([middle - geometry.size[0] * up])
    if geometry.shape == "ellipsoid":
        squared = np.array(geometry.size) ** 2 * local
        return np.asarray([middle - axes @ (squared / np.sqrt(squared @ local))])
    if geometry.shape in ("capsule", "cylinder"):
        radius, length = geometry.size
        ends = [middle + sign * 0.5 * length * axes[:, 2] for sign in (-1.0, 1.0)]
        if geometry.shape == "capsule":
            return np.asarray([end - radius * up for end in ends])
        if abs(local[2]) < _STEEPEST:  # it lies on its side: only its lowest line touches
            across = up - local[2] * axes[:, 2]
            return np.asarray([end - radius * across / np.linalg.norm(across) for end in ends])
    return shape.points


def _outline(shapes: list[_Shape], up: FloatArray) -> FloatArray | None:
    """Return the corners of the underside; None where it is an edge or a point."""
    points = np.concatenate([_lowest_points(shape, up) for shape in shapes])
    heights = points @ up
    low = float(heights.min())
    return _polygon(points[heights <= low + FLATNESS], up, low)


def _polygon(points: FloatArray, up: FloatArray, height: float) -> FloatArray | None:
    """Return the thinned convex outline of points, in the plane at a height along `up`."""
    plane = _plane_axes(up)
    hull = _wide_hull(points @ plane.T)
    if hull is None:
        return None
    ring = _thinned(hull.points[hull.vertices])
    return np.asarray(ring @ plane + height * up)


def _thinned(ring: FloatArray) -> FloatArray:
    """Remove the corners of a convex ring that cost least area, until few are left, and those that cost none."""
    corners = list(ring)
    while len(corners) > 3:
        array = np.array(corners)
        before, after = np.roll(array, 1, axis=0) - array, np.roll(array, -1, axis=0) - array
        losses = 0.5 * np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
        least = int(np.argmin(losses))
        if len(corners) <= MOST_CORNERS and losses[least] > 1e-7:
            break
        del corners[least]
    return np.array(corners)


def _largest_face(shapes: list[_Shape], up: FloatArray) -> list[FloatArray]:
    """Return the upward normal of the hull's largest flat face that points down within 45°, if there is one."""
    points = np.unique(np.concatenate([shape.points for shape in shapes]).round(6), axis=0)
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return []
    inward = -hull.equations[:, :3]
    edges = hull.points[hull.simplices]
    areas = 0.5 * np.linalg.norm(np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0]), axis=1)
    down = inward @ up > _STEEPEST
    if not down.any():
        return []
    coplanar = (inward @ inward[down].T > _SAME_DIRECTION) * areas[:, None]
    best = int(np.argmax(coplanar.sum(axis=0)))
    members = inward @ inward[down][best] > _SAME_DIRECTION
    normal = (inward[members] * areas[members, None]).sum(axis=0)
    return [np.asarray(normal / np.linalg.norm(normal))]


def _patch(shapes: list[_Shape], up: FloatArray) -> FloatArray | None:
    """Return the patch of a round foot or an edge: up to `FLATNESS` above its lowest point, at least 15 mm wide."""
    low = min(float((_lowest_points(shape, up) @ up).min()) for shape in shapes)
    angles = np.linspace(0.0, 2.0 * np.pi, MOST_CORNERS, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ _plane_axes(up)
    near: list[FloatArray] = []
    for shape in shapes:
        points = _lowest_points(shape, up)
        points = points[points @ up <= low + FLATNESS]
        if shape.geometry.shape in _ROUND:
            # Radius of a sphere's section by a plane at this height above its lowest point, to first order.
            points = (points[:, None, :] + np.sqrt(2.0 * shape.geometry.size[0] * FLATNESS) * circle).reshape(-1, 3)
        near.append(points)
    touching = np.concatenate(near)
    widened = (touching[:, None, :] + 0.75 * LEAST_WIDTH * circle).reshape(-1, 3)
    patch = _polygon(touching, up, low)
    return patch if patch is not None else _polygon(widened, up, low)


def _plane_axes(up: FloatArray) -> FloatArray:
    """Return two unit vectors normal to `up` that form a right-handed frame with it, shape (2, 3)."""
    ahead = np.eye(3)[int(np.argmin(np.abs(up)))]
    ahead = ahead - up * (up @ ahead)
    ahead /= np.linalg.norm(ahead)
    return np.stack([ahead, np.cross(up, ahead)])


def _flatten(points: FloatArray, up: FloatArray) -> FloatArray:
    return np.asarray(points @ _plane_axes(up).T)


def _area(corners: FloatArray, up: FloatArray) -> float:
    return float(ConvexHull(_flatten(corners, up)).volume)


def _wide_hull(flat: FloatArray) -> ConvexHull | None:
    """Return the convex hull of points in a plane; None where it is narrower than `LEAST_WIDTH`."""
    unique = np.unique(flat.round(7), axis=0)
    if len(unique) < 3:
        return None
    if np.linalg.svd(unique - unique.mean(axis=0), compute_uv=False)[1] < 1e-5:
        return None
    hull = ConvexHull(unique)
    ring = hull.points[hull.vertices]
    widths = [float(np.ptp(ring @ [-edge[1], edge[0]]) / np.hypot(*edge)) for edge in np.roll(ring, -1, axis=0) - ring]
    return hull if min(widths) >= LEAST_WIDTH else None
