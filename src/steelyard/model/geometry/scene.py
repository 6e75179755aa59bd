"""The robot in three dimensions: surfaces of links, centres of mass and ellipsoids of inertia."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.bounded_cache import BoundedCache
from steelyard.model.geometry.meshes import Surface
from steelyard.model.geometry.placements import compute_placements
from steelyard.model.geometry.points import link_points
from steelyard.model.geometry.surfaces import body_surfaces, hull_surface
from steelyard.model.parameters import to_mass_com_inertia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.model.model import Model

MOST_TRIANGLES = 50_000
"""Triangles of all links together. Set by judgement: meshes of robots have ten times as many, too many for a page."""

_FEWEST_TRIANGLES = 120
"""Triangles that a link may have at least, however small it is. Set by judgement: a hand is still recognisable."""

_UNIFORM = 5.0
"""A solid ellipsoid of uniform density has ``5 Σ / m`` for the squares of its half axes, Σ being its second moments."""

_SURFACES: BoundedCache[tuple[tuple[Surface, ...], tuple[str, ...]]] = BoundedCache(8)
"""Surfaces of the models drawn last; they take seconds. Its lock guards fast_simplification, which has global state."""

_SIMPLIFIED: BoundedCache[Surface] = BoundedCache(256)
"""Simplified surfaces by what they were before: the same robot, loaded again, takes a sixth of the time. As many as the
links of a few humanoids."""


@dataclass(frozen=True, eq=False)
class LinkShape:
    """A link of a scene, with `k` sets of parameters.

    Attributes:
        name: Its name.
        vertices: In the world, shape (n, 3), m.
        triangles: Shape (n_triangles, 3).
        coms: Its centre of mass in the world, one for each set of parameters, shape (k, 3), m; NaN where the mass is
            not positive.
        ellipsoids: Half axes, as columns, in the world, of the uniform ellipsoid with the link's mass and inertia,
            shape (k, 3, 3), m; NaN where there is none.
    """

    name: str
    vertices: FloatArray
    triangles: IntArray
    coms: FloatArray
    ellipsoids: FloatArray


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot in one posture.

    Attributes:
        links: In parameter order.
        joints: Lines from the origin of each parent's joint frame to its child's, shape (n, 2, 3), m.
        unread: Meshes that could not be read, a sentence each.
    """

    links: tuple[LinkShape, ...]
    joints: FloatArray
    unread: tuple[str, ...]


def build_scene(model: Model, q: FloatArray, parameter_sets: Sequence[FloatArray] = ()) -> Scene:
    """Build the scene of a model in a posture.

    Links have their visual shapes, else their collision shapes, large meshes simplified. Bodies without parameters (the
    base of a fixed robot) are left out.

    Args:
        model: The model.
        q: Configuration, shape (position_size,).
        parameter_sets: Parameters, each of shape (n_links, 10), whose centres of mass and ellipsoids are wanted: those
            before and after an identification. By default the model's own.
    """
    root = model.bodies[0]
    base = root.placement * root.joint.motion(np.asarray(q[: root.joint.position_size]))
    placements = [base * placement for placement in compute_placements(model, q)]
    surfaces, unread = _SURFACES.get(model, lambda: _surfaces(model))
    links = []
    for row, (name, body) in enumerate(zip(model.links, model.link_bodies, strict=True)):
        rotation, translation = np.array(placements[body].rotation), np.array(placements[body].translation)
        vertices = surfaces[row].vertices @ rotation.T + translation
        pairs = [_com_and_half_axes(parameters[row]) for parameters in parameter_sets or (model.parameters,)]
        coms = np.array([rotation @ com + translation for com, _ in pairs])
        ellipsoids = np.array([rotation @ half_axes for _, half_axes in pairs])
        links.append(LinkShape(name, vertices, surfaces[row].triangles, coms, ellipsoids))
    origins = [np.array(placement.translation) for placement in placements]
    lines = [(origins[body.parent], origins[index]) for index, body in enumerate(model.bodies) if body.parent >= 0]
    return Scene(tuple(links), np.array(lines).reshape(-1, 2, 3), unread)


def _com_and_half_axes(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the centre of mass and the half axes of the uniform ellipsoid, as columns; NaN where there is none."""
    if not parameters[0] > 0.0:
        return np.full(3, np.nan), np.full((3, 3), np.nan)
    mass, com, inertia = to_mass_com_inertia(parameters)
    moments, axes = np.linalg.eigh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
    if np.any(moments < 0.0):
        return com, np.full((3, 3), np.nan)
    return com, np.asarray(axes * np.sqrt(_UNIFORM * moments / mass))


def _surfaces(model: Model) -> tuple[tuple[Surface, ...], tuple[str, ...]]:
    """Return each link's simplified surface in its joint frame, read-only, and which meshes could not be read."""
    whole, unread = [], []
    for link, body in zip(model.links, model.link_bodies, strict=True):
        drawn, missing = body_surfaces(model, body, purpose="visual")
        if not drawn:
            drawn, also = body_surfaces(model, body, purpose="collision")
            missing += also
        unread += missing
        if not drawn and not missing:
            hull = hull_surface(link_points(model, link))
            drawn = [hull] if len(hull.triangles) else []
        whole.append(_join(drawn))
    areas = np.array([_area(surface) for surface in whole])
    shares = np.sqrt(areas) / max(float(np.sqrt(areas).sum()), 1e-12)
    budgets = np.maximum(_FEWEST_TRIANGLES, (MOST_TRIANGLES * shares).astype(np.int64))
    simplified = tuple(_simplify(surface, int(budget)) for surface, budget in zip(whole, budgets, strict=True))
    for surface in simplified:
        surface.vertices.setflags(write=False)
        surface.triangles.setflags(write=False)
    return simplified, tuple(unread)


def _join(surfaces: Sequence[Surface]) -> Surface:
    vertices, triangles, start = [np.zeros((0, 3))], [np.zeros((0, 3), dtype=np.int64)], 0
    for surface in surfaces:
        vertices.append(surface.vertices)
        triangles.append(surface.triangles + start)
        start += len(surface.vertices)
    return Surface(np.concatenate(vertices), np.concatenate(triangles))


def _area(surface: Surface) -> float:
    corners = surface.vertices[surface.triangles]
    doubled = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return float(0.5 * np.linalg.norm(doubled, axis=1).sum())


def _simplify(surface: Surface, budget: int) -> Surface:
    if len(surface.triangles) <= budget:
        return surface
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in (surface.vertices, surface.triangles))
    key = (hashlib.sha256(content).digest(), len(surface.vertices), budget)
    return _SIMPLIFIED.get(key, lambda: _decimate(surface, budget))


def _decimate(surface: Surface, budget: int) -> Surface:
    import fast_simplification  # noqa: PLC0415  (an extra, needed for large meshes only)

    vertices, triangles = fast_simplification.simplify(
        np.ascontiguousarray(surface.vertices, dtype=np.float32),
        np.ascontiguousarray(surface.triangles, dtype=np.int32),
        target_count=budget,
        agg=7,
    )
    return Surface(np.asarray(vertices, dtype=np.float64), np.asarray(triangles, dtype=np.int64))
