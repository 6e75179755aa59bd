"""The volume that contains all matter of a link, and the rows on its parameters that follow.

Where no matter lies outside a quadric, ``q(x) ≥ 0`` inside, then ``∫ q dm ≥ 0``, which is linear in the ten
parameters. For an ellipsoid the converse holds too: a possible body with ``∫ q dm ≥ 0`` has the parameters of some
matter inside [Wensing, Kim and Slotine, "Linear matrix inequalities for physically consistent inertial parameter
identification", 2018].
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from steelyard.bounded_cache import BoundedCache
from steelyard.identification.constraints.constraint_system import ConstraintRows
from steelyard.model import PARAMETER_COUNT, MatterInside, shape_points, sphere_points, to_pseudo_inertia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Geometry, Model

_THINNEST = 1e-3
"""Half thickness (m) that flat shapes are given; as thin as links may be (`EXTENT_FLOOR`)."""

_FLAT = 1e-5
"""Extent of points, relative to the greatest, below which they count as flat. Set by judgement: a hundredth of a
millimetre on a metre, finer than meshes are."""

_SETTLED, _MOST_STEPS, _RIDGE = 1e-7, 300, 1e-8
"""Relative optimality gap at which the ellipsoid is final, most steps, and regularisation of Newton's system. Set by
judgement: the volume is then exact to some 1e-7."""

_PSEUDO_INERTIAS = to_pseudo_inertia(np.eye(PARAMETER_COUNT))
_ELLIPSOIDS: BoundedCache[Ellipsoid] = BoundedCache(256)
"""Results by digest of the points. Size set by judgement: the links of some eight humanoids of thirty."""


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """``(x − centre)ᵀ shape⁻¹ (x − centre) ≤ 1``.

    Attributes:
        centre: Shape (3,), m.
        shape: Positive definite, shape (3, 3), m².
    """

    centre: FloatArray
    shape: FloatArray

    def row(self) -> FloatArray:
        """Return ``∫ 1 − (x − c)ᵀ shape⁻¹ (x − c) dm`` as a row on the ten parameters, in kg."""
        inverse = np.linalg.inv(self.shape)
        pulled = inverse @ self.centre
        quadric = np.zeros((4, 4))
        quadric[:3, :3] = -inverse
        quadric[:3, 3] = quadric[3, :3] = pulled
        quadric[3, 3] = 1.0 - self.centre @ pulled
        return np.asarray(np.einsum("kij,ij->k", _PSEUDO_INERTIAS, quadric))

    def widened(self, margin: float) -> Ellipsoid:
        """Return the ellipsoid of least trace that contains all points within a margin (m)."""
        if margin <= 0.0:
            return self
        ratio = float(np.sqrt(np.trace(self.shape) / 3.0)) / margin
        return Ellipsoid(self.centre, (1.0 + 1.0 / ratio) * self.shape + (1.0 + ratio) * margin**2 * np.eye(3))


def outer_points(model: Model, link: str) -> FloatArray:
    """Return points whose convex hull contains a link's shapes, in its joint frame, shape (n, 3), m.

    Round shapes count in full: their points lie a little outside.

    Raises:
        ModelError: A mesh is missing or cannot be read.
    """
    pieces = [np.zeros((0, 3))]
    for member in model.bodies[model.link_bodies[model.link_index(link)]].members:
        for geometry in member.part.geometries:
            placement = member.placement * geometry.placement
            points = _round_points(geometry)
            if points is None:
                points = shape_points(geometry, model.description.file.path, model.description.packages)
            pieces.append(points @ placement.rotation.T + placement.translation)
    return np.concatenate(pieces)


def enclosing_ellipsoid(points: FloatArray) -> Ellipsoid:
    """Return the ellipsoid of least volume around points (n, 3), m: that of Löwner and John.

    Flat points count as 2 mm thick. Steps
    towards the farthest point are Khachiyan's, the first points Kumar and Yıldırım's [Todd, "Minimum-volume ellipsoids:
    theory and algorithms", 2016]; between them Newton's method balances those that are already there.
    """
    key = hashlib.blake2b(np.ascontiguousarray(points).tobytes(), digest_size=16).hexdigest()
    return _ELLIPSOIDS.get(key, lambda: _enclosing_ellipsoid(points))


def ellipsoid_rows(links: Sequence[str], place: int, ellipsoid: Ellipsoid) -> ConstraintRows:
    """Return the row that keeps a link's matter in an ellipsoid."""
    matrix = np.zeros((1, PARAMETER_COUNT * len(links)))
    matrix[0, PARAMETER_COUNT * place : PARAMETER_COUNT * (place + 1)] = ellipsoid.row()
    name = f"{links[place]}: matter inside its ellipsoid"
    return ConstraintRows(matrix, np.zeros(1), np.full(1, np.inf), (name,), (MatterInside.kind,))


def slab_rows(links: Sequence[str], place: int, box: FloatArray) -> ConstraintRows:
    """Return the three rows ``∫ (x − low)(high − x) dm ≥ 0`` that keep a link's matter in a box (2, 3)."""
    matrix = np.zeros((3, PARAMETER_COUNT * len(links)))
    names = []
    for axis, (low, high) in enumerate(box.T):
        quadric = np.zeros((4, 4))
        quadric[axis, axis] = -1.0
        quadric[axis, 3] = quadric[3, axis] = 0.5 * (low + high)
        quadric[3, 3] = -low * high
        begin = PARAMETER_COUNT * place
        matrix[axis, begin : begin + PARAMETER_COUNT] = np.einsum("kij,ij->k", _PSEUDO_INERTIAS, quadric)
        names.append(f"{links[place]}: matter from {'xyz'[axis]} = {low:.4g} to {high:.4g}")
    return ConstraintRows(matrix, np.zeros(3), np.full(3, np.inf), tuple(names), (MatterInside.kind,) * 3)


def _enclosing_ellipsoid(points: FloatArray) -> Ellipsoid:
    middle = points.mean(axis=0)
    apart = points - middle
    squares, vectors = np.linalg.eigh(apart.T @ apart / len(points))
    axes = vectors.T
    solid = squares > max(float(_FLAT**2 * squares[2]), 1e-18)
    shape = np.diag(np.where(solid, 0.0, _THINNEST**2))
    centre = np.zeros(3)
    if np.any(solid):
        centre[solid], shape[np.ix_(solid, solid)] = _least_volume(apart @ axes[solid].T)
    return Ellipsoid(middle + axes.T @ centre, axes.T @ shape @ axes)


def _least_volume(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centre and shape of the least ellipsoid around points that span their space, by weights on them."""
    corners = _corners(points)
    count, dimension = corners.shape
    lifted = np.concatenate([corners, np.ones((count, 1))], axis=1)
    size = dimension + 1
    weights = np.zeros(count)
    weights[_spanning(corners)] = 1.0
    for _ in range(_MOST_STEPS):
        weights /= np.sum(weights)
        inverse = np.linalg.inv((lifted * weights[:, None]).T @ lifted)
        distances = np.sum((lifted @ inverse) * lifted, axis=1)
        far = int(np.argmax(distances))
        used = np.flatnonzero(weights)
        if max(distances[far] - size, np.max(np.abs(distances[used] - size))) <= _SETTLED * size:
            break
        if far not in used:  # the best step towards it
            step = (distances[far] - size) / (size * (distances[far] - 1.0))
            weights *= 1.0 - step
            weights[far] += step
            used = np.flatnonzero(weights)
        weights[used] = _balanced(lifted[used], weights[used])
    centre = weights @ corners
    shape = dimension * ((corners * weights[:, None]).T @ corners - np.outer(centre, centre))
    apart = points - centre
    return centre, shape * float(np.max(np.sum((apart @ np.linalg.inv(shape)) * apart, axis=1)))


def _balanced(lifted: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weights after a Newton step that maximises ``log det Σ w q qᵀ``; some may become zero."""
    gram = lifted @ np.linalg.solve((lifted * weights[:, None]).T @ lifted, lifted.T)
    count = len(weights)
    system = np.ones((count + 1, count + 1))
    # Of more points than decide an ellipsoid, the little that is added lets the needless ones go.
    system[:count, :count], system[count, count] = np.square(gram) + _RIDGE * np.eye(count), 0.0
    step = np.linalg.solve(system, np.append(np.diagonal(gram), 0.0))[:count]
    length = float(np.sqrt(np.maximum(step @ np.square(gram) @ step, 0.0)))
    step *= 1.0 if length < 0.25 else 1.0 / (1.0 + length)
    limits = np.divide(weights, -step, out=np.full(count, np.inf), where=step < 0.0)
    first = int(np.argmin(limits))
    moved = weights + min(1.0, float(limits[first])) * step
    if limits[first] <= 1.0:
        moved[first] = 0.0
    return np.asarray(np.maximum(moved, 0.0))


def _spanning(points: FloatArray) -> list[int]:
    """Return the extreme points along independent directions, two for each dimension."""
    dimension = points.shape[1]
    spanned = np.zeros((0, dimension))
    chosen: list[int] = []
    for number in range(dimension):
        across = np.linalg.svd(spanned, full_matrices=True)[2][number] if number else np.eye(dimension)[0]
        along = points @ across
        ends = [int(np.argmin(along)), int(np.argmax(along))]
        chosen += ends
        spanned = np.concatenate([spanned, points[ends[1:]] - points[ends[:1]]])
    return list(dict.fromkeys(chosen))


def _corners(points: FloatArray) -> FloatArray:
    """Return the corners of the convex hull of points, each once."""
    if points.shape[1] == 1:
        return np.array([points.min(axis=0), points.max(axis=0)])
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return np.asarray(np.unique(points, axis=0))


def _sphere() -> FloatArray:
    """Return 400 points evenly around the unit sphere, whose hull contains it."""
    points = sphere_points(400)
    return np.asarray(points / np.min(-ConvexHull(points).equations[:, 3]))


def _circle() -> FloatArray:
    angles = np.arange(64) * (2.0 * np.pi / 64)
    return np.asarray(np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1) / np.cos(np.pi / 64))


_SPHERE, _CIRCLE = _sphere(), _circle()


def _round_points(geometry: Geometry) -> FloatArray | None:
    """Return points around a round shape, in its own frame; None for one with corners."""
    if geometry.shape in ("mesh", "box"):
        return None
    if geometry.shape in ("sphere", "ellipsoid"):
        return np.asarray(_SPHERE * np.array(geometry.size))
    radius, length = geometry.size
    ends = [np.array([0.0, 0.0, sign * 0.5 * length]) for sign in (-1.0, 1.0)]
    around = _SPHERE if geometry.shape == "capsule" else _CIRCLE
    return np.concatenate([radius * around + end for end in ends])
