"""Cutting planes, too many to list: directions in which an inertia is positive, facets of a hull."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.constraints.constraint_system import ConstraintRows, join_rows
from steelyard.model import PARAMETER_COUNT, ComInside, PositiveInertia, rotational_inertia_at_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.com_volumes import Volume


TENSOR_START = 4
"""Where the six numbers of the tensor begin among the ten parameters."""


@dataclass(frozen=True, eq=False)
class InertiaCuts:
    """``vᵀ I v ≥ ε`` for the unit vectors ``v``, all of them or those of a finite set: [jovic2016] (13)-(14).

    Attributes:
        links: Names of all links of the robot.
        places: Row of each of its links in the parameters, shape (n,).
        least: ε of each, shape (n,), kg m².
        scales: Size of each one's reference tensor, its greatest eigenvalue, shape (n,), kg m².
        directions: The finite set, shape (d, 3), or None for all unit vectors.
    """

    links: tuple[str, ...]
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    least: FloatArray
    scales: FloatArray
    directions: FloatArray | None = None

    kind = PositiveInertia.kind

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each link's bound."""
        return tuple(f"{self.links[place]} inertia" for place in self.places)

    def first(self, *, fine: bool = False) -> ConstraintRows:
        """Return three rows for each link, its axes, and six more of an icosahedron where `fine`.

        Of a finite set they are those nearest to these.
        """
        chosen = np.concatenate([np.eye(3), half_directions(0)]) if fine else np.eye(3)
        if self.directions is not None:
            nearest = np.argmax(np.abs(self.directions @ chosen.T), axis=0)
            chosen = self.directions[np.unique(nearest)]
        return self._all_links(chosen)

    def every(self) -> ConstraintRows:
        """Return all rows of a finite set: links times directions."""
        if self.directions is None:
            raise IdentifiabilityError("there are infinitely many directions; give PositiveInertia a finite set")
        return self._all_links(self.directions)

    def violated(self, parameters: FloatArray, tolerance: float = 0.0) -> ConstraintRows:
        """Return rows along eigenvectors of eigenvalues below ε, or the worst of the finite set and the nearest."""
        values, vectors = np.linalg.eigh(rotational_inertia_at_origin(parameters[self.places]))
        limits = self.least - tolerance * self.scales
        which, order = np.nonzero(values < limits[:, None])
        chosen = vectors[which, :, order]
        if self.directions is None or not len(which):
            return self._rows(which, chosen)
        links = np.unique(which)
        along = self._along(parameters)[links]
        worst = np.argmin(along, axis=1)
        nearest = np.argmax(np.abs(chosen @ self.directions.T), axis=1)
        pairs = np.concatenate([np.stack([links, worst], axis=1), np.stack([which, nearest], axis=1)])
        pairs = np.unique(pairs, axis=0)
        reached = along[np.searchsorted(links, pairs[:, 0]), pairs[:, 1]]
        pairs = pairs[reached < limits[pairs[:, 0]]]
        return self._rows(pairs[:, 0], self.directions[pairs[:, 1]])

    def violation(self, parameters: FloatArray) -> FloatArray:
        """Return how far the least ``vᵀ I v`` of each link is below ε, kg m²."""
        if self.directions is None:
            least = np.linalg.eigvalsh(rotational_inertia_at_origin(parameters[self.places]))[:, 0]
        else:
            least = np.min(self._along(parameters), axis=1, initial=np.inf)
        return np.asarray(np.maximum(0.0, self.least - least))

    def _all_links(self, directions: FloatArray) -> ConstraintRows:
        count = len(self.places)
        return self._rows(np.repeat(np.arange(count), len(directions)), np.tile(directions, (count, 1)))

    def _along(self, parameters: FloatArray) -> FloatArray:
        """Return ``vᵀ I v`` for each link and each of the finite set, shape (n, d)."""
        assert self.directions is not None  # noqa: S101  (the callers have asked)
        return np.asarray(parameters[self.places, TENSOR_START:] @ tensor_rows(self.directions).T)

    def _rows(self, which: Any, directions: FloatArray) -> ConstraintRows:
        matrix = np.zeros((len(which), PARAMETER_COUNT * len(self.links)))
        rows = tensor_rows(directions)
        for row, each in enumerate(which):
            begin = PARAMETER_COUNT * self.places[each] + TENSOR_START
            matrix[row, begin : begin + 6] = rows[row]
        names = tuple(
            f"{self.links[self.places[each]]} inertia along ({x:.2f}, {y:.2f}, {z:.2f}) >= {self.least[each]:.3g}"
            for each, (x, y, z) in zip(which, directions, strict=True)
        )
        lower = np.asarray(self.least[which], dtype=np.float64)
        return ConstraintRows(matrix, lower, np.full(len(lower), np.inf), names, (self.kind,) * len(lower))


@dataclass(frozen=True, eq=False)
class HullCuts:
    """The centre of mass of each link is inside the convex hull of its shapes, ``m d − n · (mx, my, mz) ≥ 0``.

    Attributes:
        links: Names of all links of the robot.
        places: Row of each of its links in the parameters, shape (n,).
        volumes: The hull of each.
        scales: Each one's reference mass times the size of its box, shape (n,), kg m.
        kind: The kind of constraint that it comes from.
    """

    links: tuple[str, ...]
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    volumes: tuple[Volume, ...]
    scales: FloatArray
    kind: str = ComInside.kind

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each link's bound."""
        return tuple(f"{self.links[place]} CoM in its hull" for place in self.places)

    def first(self, *, fine: bool = False) -> ConstraintRows:
        """Return the box around each hull, which its facets imply."""
        parts = [
            box_rows(self.links, int(place), volume.box, self.kind)
            for place, volume in zip(self.places, self.volumes, strict=True)
        ]
        return join_rows(parts, PARAMETER_COUNT * len(self.links))

    def violated(self, parameters: FloatArray, tolerance: float = 0.0) -> ConstraintRows:
        """Return the most violated facet of each link outside its hull, and the one that a ray from inside crosses."""
        parts = []
        for place, volume, scale in zip(self.places, self.volumes, self.scales, strict=True):
            facets = _facets(volume)
            beyond = _beyond(facets, parameters[place])
            worst = int(np.argmax(beyond))
            if beyond[worst] <= tolerance * scale:
                continue
            room = facets[:, 3] - facets[:, :3] @ volume.inside
            steps = facets[:, :3] @ (parameters[place, 1:4] - parameters[place, 0] * volume.inside)
            passed = int(np.argmax(np.divide(steps, room, out=np.full(len(room), -np.inf), where=room > 0.0)))
            chosen = [each for each in dict.fromkeys((worst, passed)) if beyond[each] > tolerance * scale]
            parts.append(self._rows(int(place), facets[chosen]))
        return join_rows(parts, PARAMETER_COUNT * len(self.links))

    def every(self) -> ConstraintRows:
        """Return all rows: one for each facet of each link."""
        parts = [
            self._rows(int(place), _facets(volume)) for place, volume in zip(self.places, self.volumes, strict=True)
        ]
        return join_rows(parts, PARAMETER_COUNT * len(self.links))

    def violation(self, parameters: FloatArray) -> FloatArray:
        """Return how far the first moment of each link is beyond its farthest facet, kg m."""
        beyond = [
            float(np.max(_beyond(_facets(volume), parameters[place]), initial=0.0))
            for place, volume in zip(self.places, self.volumes, strict=True)
        ]
        return np.array(beyond, dtype=np.float64)

    def _rows(self, place: int, facets: FloatArray) -> ConstraintRows:
        count, begin = len(facets), PARAMETER_COUNT * place
        matrix = np.zeros((count, PARAMETER_COUNT * len(self.links)))
        matrix[:, begin] = facets[:, 3]
        matrix[:, begin + 1 : begin + 4] = -facets[:, :3]
        names = tuple(
            f"{self.links[place]} CoM along ({x:.2f}, {y:.2f}, {z:.2f}) <= {distance:.4g}"
            for x, y, z, distance in facets
        )
        return ConstraintRows(matrix, np.zeros(count), np.full(count, np.inf), names, (self.kind,) * count)


def _facets(volume: Volume) -> FloatArray:
    assert volume.facets is not None  # noqa: S101  (only hulls come here)
    return volume.facets


def _beyond(facets: FloatArray, parameters: FloatArray) -> FloatArray:
    return np.asarray(facets[:, :3] @ parameters[1:4] - parameters[0] * facets[:, 3])


def box_rows(links: Sequence[str], place: int, box: FloatArray, kind: str = ComInside.kind) -> ConstraintRows:
    """Return the six rows that keep a link's centre of mass in a box (2, 3): [jovic2016] (11)."""
    matrix = np.zeros((6, PARAMETER_COUNT * len(links)))
    begin, names = PARAMETER_COUNT * place, []
    for axis in range(3):
        for side, sign in enumerate((1.0, -1.0)):
            matrix[2 * axis + side, begin] = -sign * box[side, axis]
            matrix[2 * axis + side, begin + 1 + axis] = sign
            names.append(f"{links[place]} CoM {'xyz'[axis]} {('>=', '<=')[side]} {box[side, axis]:.4g}")
    return ConstraintRows(matrix, np.zeros(6), np.full(6, np.inf), tuple(names), (kind,) * 6)


@lru_cache(maxsize=8)
def icosahedron_directions(subdivisions: int) -> FloatArray:
    """Return the corners of an icosahedron whose faces were divided into four `subdivisions` times, shape (n, 3).

    There are ``10 · 4^subdivisions + 2``, each on the unit sphere and each with its opposite: [jovic2016] III-B. From
    one division on, the axes are among them.
    """
    golden = 0.5 * (1.0 + 5.0**0.5)
    corners = [(0.0, one, two * golden) for one in (-1.0, 1.0) for two in (-1.0, 1.0)]
    points = np.array([np.roll(corner, turn) for turn in range(3) for corner in corners])
    # The edges of this icosahedron are 2 long; a face is three corners with an edge between any two.
    near = np.abs(np.linalg.norm(points[:, None] - points[None], axis=2) - 2.0) < 1e-9
    faces = np.array(
        [
            (a, b, c)
            for a in range(12)
            for b in range(a + 1, 12)
            for c in range(b + 1, 12)
            if near[a, b] and near[b, c] and near[a, c]
        ]
    )
    points /= np.linalg.norm(points, axis=1)[:, None]
    for _ in range(subdivisions):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        unique, places = np.unique(edges, axis=0, return_inverse=True)
        middles = points[unique[:, 0]] + points[unique[:, 1]]
        middles /= np.linalg.norm(middles, axis=1)[:, None]
        first, second, third = (len(points) + places.reshape(3, -1)).astype(np.int64)
        points = np.concatenate([points, middles])
        a, b, c = faces.T
        faces = np.concatenate(
            [
                np.stack(corners, axis=1)
                for corners in ((a, first, third), (b, second, first), (c, third, second), (first, second, third))
            ]
        )
    points.setflags(write=False)
    return points


@lru_cache(maxsize=8)
def half_directions(subdivisions: int) -> FloatArray:
    """Return one of each two opposite `icosahedron_directions`: ``v`` and ``−v`` give one row; shape (n / 2, 3)."""
    points = icosahedron_directions(subdivisions)
    # The sign of the first component that is not zero decides; unrounded, both of a pair might be kept.
    rounded = np.round(points, 9)
    leading = rounded[np.arange(len(points)), np.argmax(rounded != 0.0, axis=1)]
    half: FloatArray = points[leading > 0.0]
    half.setflags(write=False)
    return half


def tensor_rows(directions: Any) -> FloatArray:
    """Return the rows (..., 6) with ``row · (Ixx, Ixy, Iyy, Ixz, Iyz, Izz) = vᵀ I v``, of directions (..., 3): (14)."""
    x, y, z = np.moveaxis(np.asarray(directions, dtype=np.float64), -1, 0)
    return np.stack([x * x, 2.0 * x * y, y * y, 2.0 * x * z, 2.0 * y * z, z * z], axis=-1)
