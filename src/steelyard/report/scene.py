"""The robot in three dimensions: surfaces of links, centres of mass and ellipsoids of inertia, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.model import Surface, body_surfaces, hull_surface, link_points, to_mass_com_inertia
from steelyard.stance import resting_posture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification import Estimate
    from steelyard.model import Model

MOST_TRIANGLES = 50_000
"""Triangles of all links together; meshes of robots have ten times as many."""

_FEWEST_TRIANGLES = 120
"""Triangles that a link may have at least, however small it is."""

_UNIFORM = 5.0
"""A solid ellipsoid of uniform density has ``5 Σ / m`` for the squares of its half axes, Σ being its second moments."""


@dataclass(frozen=True, eq=False)
class LinkShape:
    """One link in the picture.

    Attributes:
        name: Its name.
        vertices: In the world, shape (n, 3), m.
        triangles: Shape (n_triangles, 3).
        coms: Its centre of mass in the world, of the reference and of the estimate, shape (2, 3); NaN where a mass is
            not positive.
        ellipsoids: Half axes, as columns, in the world, of the uniform ellipsoid with the link's mass and inertia, of
            both, shape (2, 3, 3); NaN where there is none.
    """

    name: str
    vertices: FloatArray
    triangles: np.ndarray
    coms: FloatArray
    ellipsoids: FloatArray


@dataclass(frozen=True, eq=False)
class Scene:
    """The robot in its resting posture.

    Attributes:
        links: In parameter order.
        joints: Positions of the joints' origins along the tree, as lines from parent to child, shape (n, 2, 3), m.
        unread: Meshes that could not be read, a sentence each.
    """

    links: tuple[LinkShape, ...]
    joints: FloatArray
    unread: tuple[str, ...]


def build_scene(estimate: Estimate) -> Scene:
    """Gives the picture of an estimate.

    Links are drawn by what the model file draws them with, else by what they collide with; bodies without parameters
    (the base of a fixed robot) are not drawn. Long meshes are simplified.
    """
    model = estimate.model
    built = model.pinocchio
    data = built.createData()
    pin.forwardKinematics(built, data, resting_posture(model))
    places = _places(model, data)
    surfaces, unread = _surfaces(model)
    links = []
    for row, (name, body) in enumerate(zip(model.links, model.link_bodies, strict=True)):
        rotation, translation = places[body]
        vertices = surfaces[row].vertices @ rotation.T + translation
        pairs = [_mass_and_axes(each[row]) for each in (estimate.reference, estimate.parameters)]
        coms = np.array([rotation @ com + translation for com, _ in pairs])
        axes = np.array([rotation @ each for _, each in pairs])
        links.append(LinkShape(name, vertices, surfaces[row].triangles, coms, axes))
    lines = [(places[body.parent][1], places[index][1]) for index, body in enumerate(model.bodies) if body.parent >= 0]
    return Scene(tuple(links), np.array(lines).reshape(-1, 2, 3), tuple(unread))


def _places(model: Model, data: pin.Data) -> list[tuple[FloatArray, FloatArray]]:
    """Gives rotation and translation of each body's joint frame in the world; bodies behind fixed joints included."""
    places: list[tuple[FloatArray, FloatArray]] = []
    names = {name: number for number, name in enumerate(model.pinocchio.names)}
    for index, body in enumerate(model.bodies):
        number = names.get(body.joint.name) if index else (1 if model.base == "floating" else None)
        if number is not None:
            place = data.oMi[number]
        elif index == 0:
            place = body.placement
        else:
            rotation, translation = places[body.parent]
            place = pin.SE3(rotation, translation) * body.placement
        places.append((np.array(place.rotation), np.array(place.translation)))
    return places


def _mass_and_axes(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gives the centre of mass and the half axes of the uniform ellipsoid, as columns; NaN where there is none."""
    if not parameters[0] > 0.0:
        return np.full(3, np.nan), np.full((3, 3), np.nan)
    mass, com, inertia = to_mass_com_inertia(parameters)
    moments, axes = np.linalg.eigh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
    if np.any(moments < 0.0):
        return np.asarray(com), np.full((3, 3), np.nan)
    return np.asarray(com), np.asarray(axes * np.sqrt(_UNIFORM * moments / mass))


@lru_cache(maxsize=8)
def _surfaces(model: Model) -> tuple[list[Surface], list[str]]:
    """Gives each link's surface in its joint frame, simplified, and what could not be read."""
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
    areas = np.array([_area(each) for each in whole])
    shares = np.sqrt(areas) / max(float(np.sqrt(areas).sum()), 1e-12)
    budgets = np.maximum(_FEWEST_TRIANGLES, (MOST_TRIANGLES * shares).astype(np.int64))
    return [_simplify(each, int(budget)) for each, budget in zip(whole, budgets, strict=True)], unread


def _join(surfaces: Sequence[Surface]) -> Surface:
    vertices, triangles, start = [np.zeros((0, 3))], [np.zeros((0, 3), dtype=np.int64)], 0
    for surface in surfaces:
        vertices.append(surface.vertices)
        triangles.append(surface.triangles + start)
        start += len(surface.vertices)
    return Surface(np.concatenate(vertices), np.concatenate(triangles))


def _area(surface: Surface) -> float:
    corners = surface.vertices[surface.triangles]
    return float(
        0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    )


def _simplify(surface: Surface, budget: int) -> Surface:
    if len(surface.triangles) <= budget:
        return surface
    import fast_simplification  # noqa: PLC0415  (an extra, needed for large meshes only)

    vertices, triangles = fast_simplification.simplify(
        np.ascontiguousarray(surface.vertices, dtype=np.float32),
        np.ascontiguousarray(surface.triangles, dtype=np.int32),
        target_count=budget,
        agg=3,
    )
    return Surface(np.asarray(vertices, dtype=np.float64), np.asarray(triangles, dtype=np.int64))
