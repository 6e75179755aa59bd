"""Mirror symmetry of a model: links that are mirror images, by name and by position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pinocchio as pin

from steelyard.drafting.body_tree import children_of
from steelyard.drafting.words import SideMark, other_side, side_marks
from steelyard.model import compute_placements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

Plane = Literal["xz", "yz", "xy"]

_NORMALS: dict[Plane, int] = {"xz": 1, "yz": 0, "xy": 2}
"""Axis normal to each plane, as an index of x, y, z."""
_BY_NAME = 0.05
"""Largest distance (m) from mirror images for joints paired by name (docs/decisions/0014): beyond it the names are not
believed. Set by judgement."""
_BY_POSITION = 1e-3
"""Largest distance (m) for joints paired by position alone. Set by judgement: stricter than by name, since nothing else
supports the pair."""
_SIMILAR_MASS = 0.2
"""Largest relative difference of the masses of links paired by position alone. Set by judgement: it trades missed pairs
against false ones."""
_ALIGNED = 0.99
"""Least cosine (8°) between an axis and the image of its partner's for a posture to be sought. Set by judgement."""
_LEAST_TURN = 1e-3
"""Smallest angle (rad) that enters a posture; a tilt of 1 mrad moves a 0.5 m limb by 0.5 mm, below `_BY_POSITION`."""
_PARALLEL = 0.02
"""Largest sine (1.1°) between axes that count as parallel. Set by judgement."""


@dataclass(frozen=True)
class Partners:
    """Two links that are mirror images.

    Attributes:
        left: Index of the left body.
        right: Index of the right body.
        marks: Side marks in the left name; empty where they are paired by position alone.
        error: Distance of their joints from being mirror images, m.
    """

    left: int
    right: int
    marks: tuple[SideMark, ...]
    error: float


@dataclass(frozen=True, eq=False)
class Symmetry:
    """Symmetry of a model about a plane of its base link's frame.

    Attributes:
        plane: The plane.
        partners: Pairs of bodies.
        posture: Joint positions (by name) in which the model is symmetric; other joints are at zero.
        odd: Names of links with a side mark but no partner.
    """

    plane: Plane
    partners: tuple[Partners, ...]
    posture: dict[str, float]
    odd: tuple[str, ...]


def find_symmetry(model: Model) -> Symmetry | None:
    """Return the symmetry that pairs most links, pairs by name first; None where no plane pairs any."""
    best: Symmetry | None = None
    for plane in _NORMALS:
        found = _Matching(model, plane).symmetry()
        if found.partners and (best is None or _rank(found) > _rank(best)):
            best = found
    return best


def _rank(symmetry: Symmetry) -> tuple[int, int]:
    return sum(bool(pair.marks) for pair in symmetry.partners), len(symmetry.partners)


@dataclass(eq=False)
class _Matching:
    """Search for partners about one plane, from the root outwards."""

    model: Model
    plane: Plane
    posture: dict[str, float] = field(default_factory=dict)

    def symmetry(self) -> Symmetry:
        """Run the search."""
        self.reflection = np.diag([-1.0 if axis == _NORMALS[self.plane] else 1.0 for axis in range(3)])
        self.children = children_of(self.model)
        self.placements = compute_placements(self.model, self.model.neutral)
        self.names = [body.name for body in self.model.bodies]
        partners: list[Partners] = []
        middle = [0]
        while middle:
            body = middle.pop()
            pairs, own = self.within(self.children[body])
            middle += own
            while pairs:
                pair = pairs.pop()
                partners.append(pair)
                self.straighten(pair)
                pairs += self.between(self.children[pair.left], self.children[pair.right])
        partners.sort(key=lambda pair: pair.left)
        return Symmetry(self.plane, tuple(partners), dict(self.posture), self.odd(partners))

    def within(self, bodies: list[int]) -> tuple[list[Partners], list[int]]:
        """Return the pairs among the children of a central body, and the children that are their own images."""
        left = list(bodies)
        pairs: list[Partners] = []
        for one in bodies:
            if one not in left:
                continue
            others = [other for other in left if other != one]
            pair = self.by_name(one, others)
            if pair is None and self.distance(one, one) > _BY_POSITION:
                pair = self.by_position(one, others)
            if pair is not None:
                pairs.append(pair)
                left.remove(pair.left)
                left.remove(pair.right)
        return pairs, left

    def between(self, ones: list[int], others: list[int]) -> list[Partners]:
        """Return the pairs between the children of two partners."""
        pairs: list[Partners] = []
        free = list(others)
        for match in (self.by_name, self.by_position):
            for one in ones:
                if any(one in (pair.left, pair.right) for pair in pairs):
                    continue
                pair = match(one, free)
                if pair is not None:
                    pairs.append(pair)
                    free = [body for body in free if body not in (pair.left, pair.right)]
        return pairs

    def by_name(self, one: int, others: list[int]) -> Partners | None:
        """Return the partner that a body's name implies, if its joint is at the mirrored position."""
        best: Partners | None = None
        for marks, other in self.namesakes(one, others):
            error = self.apart(one, other)
            if error <= _BY_NAME and (best is None or error < best.error - _BY_POSITION):
                best = self.partners(one, other, marks, error)
        return best

    def namesakes(self, one: int, others: list[int]) -> Iterator[tuple[tuple[SideMark, ...], int]]:
        named = {self.names[other]: other for other in others}
        for marks in side_marks(self.names[one]):
            other = named.get(other_side(self.names[one], marks))
            if other is not None:
                yield marks, other

    def by_position(self, one: int, others: list[int]) -> Partners | None:
        """Return the only body at the mirrored position with a similar mass and the same kind of joint."""
        model = self.model
        fitting = [
            other
            for other in others
            if self.distance(one, other) <= _BY_POSITION
            and model.bodies[one].joint.kind == model.bodies[other].joint.kind
            and self.similar_mass(one, other)
        ]
        if len(fitting) != 1:
            return None
        return self.partners(one, fitting[0], (), self.apart(one, fitting[0]))

    def partners(self, one: int, other: int, marks: tuple[SideMark, ...], error: float) -> Partners:
        """Return a pair with the left link first: by its name, else the one on the positive side."""
        if marks:
            swap = marks[0].other.lower().startswith("l")
        else:
            normal = _NORMALS[self.plane]
            swap = self.centre(one)[normal] < self.centre(other)[normal]
        if not swap:
            return Partners(one, other, marks, error)
        back = tuple(_back(self.names[one], marks))
        return Partners(other, one, back, error)

    def image(self, body: int) -> FloatArray:
        """Return the mirror image of the origin of a body's joint frame, shape (3,)."""
        return np.asarray(self.reflection @ self.placements[body].translation)

    def axis(self, body: int) -> FloatArray:
        """Return the axis of a body's joint in the base link's axes; zeros where it is not revolute."""
        joint = self.model.bodies[body].joint
        turns = joint.kind in ("revolute", "continuous")
        return np.asarray(self.placements[body].rotation @ joint.axis) if turns else np.zeros(3)

    def apart(self, one: int, other: int) -> float:
        """Return the distance (m) of two bodies' joints from being mirror images.

        The origin of a revolute joint may be anywhere on its axis, so its distance is measured between the axes.
        """
        between = self.image(one) - self.placements[other].translation
        axis = self.axis(other)
        return float(np.linalg.norm(between - axis * (axis @ between)))

    def centre(self, body: int) -> FloatArray:
        """Return the mean origin of the joints of a body and all its descendants, shape (3,)."""
        members = [body]
        for member in members:
            members += self.children[member]
        return np.asarray(np.mean([self.placements[member].translation for member in members], axis=0))

    def distance(self, one: int, other: int) -> float:
        """Return the distance (m) of two bodies and their descendants from being mirror images."""
        origins = np.linalg.norm(self.image(one) - self.placements[other].translation)
        centres = np.linalg.norm(self.reflection @ self.centre(one) - self.centre(other))
        return float(max(origins, centres))

    def similar_mass(self, one: int, other: int) -> bool:
        masses = sorted(float(self.model.bodies[body].lumped_parameters[0]) for body in (one, other))
        return masses[1] - masses[0] <= _SIMILAR_MASS * masses[1]

    def straighten(self, pair: Partners) -> None:
        """Turn the right joint until its descendants are the image of the left joint's descendants."""
        placement, axis = self.placements[pair.right], self.axis(pair.right)
        if abs(float(axis @ self.reflection @ self.axis(pair.left))) < _ALIGNED:
            return
        turn = self.turn_between(pair, axis)
        if turn is None or abs(turn) < _LEAST_TURN:
            return
        joint = self.model.bodies[pair.right].joint
        self.posture[joint.name] = turn
        moved = placement * pin.SE3(pin.exp3(joint.axis * turn), np.zeros(3)) * placement.inverse()
        members = [pair.right]
        for member in members:
            self.placements[member] = moved * self.placements[member]
            members += self.children[member]

    def turn_between(self, pair: Partners, axis: FloatArray) -> float | None:
        """Return the angle about the right axis that brings its child to the image of the left child, if there is one.

        Only where each has one child, so that the match is unambiguous. The child's axis and its origin each suggest an
        angle; zero is taken if it fits, else the first angle for which both fit.
        """
        if len(self.children[pair.left]) != 1 or len(self.children[pair.right]) != 1:
            return None
        (one,), (other,) = self.children[pair.left], self.children[pair.right]
        wanted = self.image(one) - self.image(pair.left)
        given = self.placements[other].translation - self.placements[pair.right].translation
        wanted_axis, given_axis = -self.reflection @ self.axis(one), self.axis(other)
        by_axis = _angle_about(axis, given_axis, wanted_axis)
        angles = [0.0, _angle_about(axis, given, wanted), by_axis, by_axis - np.sign(by_axis or 1.0) * np.pi]
        # Both origins may be anywhere on their axes; see `apart`.
        slides = axis[:, None]
        if np.linalg.norm(np.cross(axis, wanted_axis)) > _PARALLEL:
            slides = np.linalg.qr(np.stack([axis, wanted_axis], axis=1))[0]
        for angle in angles:
            turned = pin.exp3(axis * angle)
            off = turned @ given - wanted
            beside = off - slides @ (slides.T @ off)
            slant = np.linalg.norm(np.cross(turned @ given_axis, wanted_axis))
            if np.linalg.norm(beside) <= _BY_POSITION and slant <= _PARALLEL:
                return float(angle)
        return None

    def odd(self, partners: list[Partners]) -> tuple[str, ...]:
        """Return links without a partner whose names are those of one side of an existing pair of names."""
        paired = {body for pair in partners for body in (pair.left, pair.right)}
        known = {*self.names}
        alone = [body for body in self.model.link_bodies if body not in paired]
        return tuple(
            self.names[body]
            for body in alone
            if any(other_side(self.names[body], marks) in known for marks in side_marks(self.names[body]))
        )


def _angle_about(axis: FloatArray, given: FloatArray, wanted: FloatArray) -> float:
    """Return the angle about an axis that turns one vector towards another; zero where either is along it."""
    across, along = wanted - axis * (axis @ wanted), given - axis * (axis @ given)
    if min(np.linalg.norm(across), np.linalg.norm(along)) < _BY_POSITION:
        return 0.0
    return float(np.arctan2(np.cross(along, across) @ axis, along @ across))


def _back(name: str, marks: tuple[SideMark, ...]) -> Iterator[SideMark]:
    """Yield the marks in the other side's name that reverse the given marks."""
    shift = 0
    for mark in marks:
        start = mark.start + shift
        yield SideMark(start, start + len(mark.other), name[mark.start : mark.end])
        shift += len(mark.other) - (mark.end - mark.start)
