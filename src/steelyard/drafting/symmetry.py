"""Left and right of a model: which links are mirror images, by their names and by where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pinocchio as pin

from steelyard.drafting.places import children_of, place_bodies
from steelyard.drafting.words import SideMark, other_side, side_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray

Plane = Literal["xz", "yz", "xy"]

_NORMALS: dict[Plane, int] = {"xz": 1, "yz": 0, "xy": 2}
_BY_NAME = 0.05
"""How far (m) the joints of links whose names are partners may be from being mirror images."""
_BY_PLACE = 1e-3
"""How far (m) they may be where nothing but their place makes them partners."""
_ALIKE = 0.2
"""By what share the masses of such links may differ."""
_ALIGNED = 0.99
_LEAST_TURN = 1e-3
_PARALLEL = 0.02
"""Sine of the angle up to which two axes count as parallel."""


@dataclass(frozen=True)
class Partners:
    """Two links that are mirror images.

    Attributes:
        left: Body of the one.
        right: Body of the other.
        marks: What in the left one's name tells its side; empty where only places make them partners.
        error: How far their joints are from being mirror images, m.
    """

    left: int
    right: int
    marks: tuple[SideMark, ...]
    error: float


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The symmetry of a model about a plane of its base link's frame.

    Attributes:
        plane: The plane.
        partners: The pairs of bodies.
        posture: By joint, the position of a posture in which the model is symmetric; joints not named are at zero.
        odd: Names of links that are called like one side, and have no partner.
    """

    plane: Plane
    partners: tuple[Partners, ...]
    posture: dict[str, float]
    odd: tuple[str, ...]


def find_symmetry(model: Model) -> Symmetry | None:
    """Gives the symmetry of a model that pairs most of its links, those by names first; None where none pairs any."""
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
    """The search for partners about one plane, from the root outwards."""

    model: Model
    plane: Plane
    posture: dict[str, float] = field(default_factory=dict)

    def symmetry(self) -> Symmetry:
        """Gives what the search finds."""
        self.reflection = np.diag([-1.0 if axis == _NORMALS[self.plane] else 1.0 for axis in range(3)])
        self.children = children_of(self.model)
        self.places = place_bodies(self.model, self.model.neutral)
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
        """Gives the pairs among the children of a body of the middle, and those that are their own images."""
        left = list(bodies)
        pairs: list[Partners] = []
        for one in bodies:
            if one not in left:
                continue
            others = [other for other in left if other != one]
            pair = self.by_name(one, others)
            if pair is None and self.distance(one, one) > _BY_PLACE:
                pair = self.by_place(one, others)
            if pair is not None:
                pairs.append(pair)
                left.remove(pair.left)
                left.remove(pair.right)
        return pairs, left

    def between(self, ones: list[int], others: list[int]) -> list[Partners]:
        """Gives the pairs between the children of two partners."""
        pairs: list[Partners] = []
        free = list(others)
        for match in (self.by_name, self.by_place):
            for one in ones:
                if any(one in (pair.left, pair.right) for pair in pairs):
                    continue
                pair = match(one, free)
                if pair is not None:
                    pairs.append(pair)
                    free = [body for body in free if body not in (pair.left, pair.right)]
        return pairs

    def by_name(self, one: int, others: list[int]) -> Partners | None:
        """Gives the partner that a body's name, or its joint's, asks for, where it is at the mirrored place."""
        best: Partners | None = None
        for marks, other in self.namesakes(one, others):
            error = self.apart(one, other)
            if error <= _BY_NAME and (best is None or error < best.error - _BY_PLACE):
                best = self.partners(one, other, marks, error)
        return best

    def namesakes(self, one: int, others: list[int]) -> Iterator[tuple[tuple[SideMark, ...], int]]:
        named = {self.names[other]: other for other in others}
        for marks in side_marks(self.names[one]):
            other = named.get(other_side(self.names[one], marks))
            if other is not None:
                yield marks, other

    def by_place(self, one: int, others: list[int]) -> Partners | None:
        """Gives the one body that is at the mirrored place, with about the same mass and the same kind of joint."""
        model = self.model
        fitting = [
            other
            for other in others
            if self.distance(one, other) <= _BY_PLACE
            and model.bodies[one].joint.kind == model.bodies[other].joint.kind
            and self.similar_mass(one, other)
        ]
        if len(fitting) != 1:
            return None
        return self.partners(one, fitting[0], (), self.apart(one, fitting[0]))

    def partners(self, one: int, other: int, marks: tuple[SideMark, ...], error: float) -> Partners:
        """Gives a pair with its left link first: the one whose name says so, else that on the positive side."""
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
        """Gives the mirror image of the origin of a body's joint frame."""
        return np.asarray(self.reflection @ self.places[body].translation)

    def axis(self, body: int) -> FloatArray:
        """Gives the axis of a body's joint in the base link's axes; zeros where it turns about none."""
        joint = self.model.bodies[body].joint
        turns = joint.kind in ("revolute", "continuous")
        return np.asarray(self.places[body].rotation @ joint.axis) if turns else np.zeros(3)

    def apart(self, one: int, other: int) -> float:
        """Gives how far the joints of two bodies are from being mirror images, m.

        Where on its axis a turning joint has its origin is a matter of drawing: its distance is that of the axes.
        """
        between = self.image(one) - self.places[other].translation
        axis = self.axis(other)
        return float(np.linalg.norm(between - axis * (axis @ between)))

    def centre(self, body: int) -> FloatArray:
        """Gives the middle of the joints of a body and all beyond it."""
        members = [body]
        for member in members:
            members += self.children[member]
        return np.asarray(np.mean([self.places[member].translation for member in members], axis=0))

    def distance(self, one: int, other: int) -> float:
        """Gives how far two bodies, and what is beyond them, are from being mirror images, m."""
        origins = np.linalg.norm(self.image(one) - self.places[other].translation)
        centres = np.linalg.norm(self.reflection @ self.centre(one) - self.centre(other))
        return float(max(origins, centres))

    def similar_mass(self, one: int, other: int) -> bool:
        masses = sorted(float(self.model.bodies[body].lumped_parameters[0]) for body in (one, other))
        return masses[1] - masses[0] <= _ALIKE * masses[1]

    def straighten(self, pair: Partners) -> None:
        """Turns the right one's joint until what is beyond it is the image of what is beyond the left one's."""
        place, axis = self.places[pair.right], self.axis(pair.right)
        if abs(float(axis @ self.reflection @ self.axis(pair.left))) < _ALIGNED:
            return
        turn = self.turn_between(pair, axis)
        if turn is None or abs(turn) < _LEAST_TURN:
            return
        joint = self.model.bodies[pair.right].joint
        self.posture[joint.name] = turn
        moved = place * pin.SE3(pin.exp3(joint.axis * turn), np.zeros(3)) * place.inverse()
        members = [pair.right]
        for member in members:
            self.places[member] = moved * self.places[member]
            members += self.children[member]

    def turn_between(self, pair: Partners, axis: FloatArray) -> float | None:
        """Gives the angle about the right one's axis that brings its child to the image of the left one's, if one does.

        Only where each has one child: then what is beyond the joint cannot be confused. The child's axis and its origin
        each tell of an angle; zero is taken if it fits, else the one after which both fit.
        """
        if len(self.children[pair.left]) != 1 or len(self.children[pair.right]) != 1:
            return None
        (one,), (other,) = self.children[pair.left], self.children[pair.right]
        wanted = self.image(one) - self.image(pair.left)
        given = self.places[other].translation - self.places[pair.right].translation
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
            if np.linalg.norm(beside) <= _BY_PLACE and slant <= _PARALLEL:
                return float(angle)
        return None

    def odd(self, partners: list[Partners]) -> tuple[str, ...]:
        """Gives links that are called like one side of a pair, or of what could be one, and have no partner."""
        paired = {body for pair in partners for body in (pair.left, pair.right)}
        known = {*self.names}
        alone = [body for body in self.model.link_bodies if body not in paired]
        return tuple(
            self.names[body]
            for body in alone
            if any(other_side(self.names[body], marks) in known for marks in side_marks(self.names[body]))
        )


def _angle_about(axis: FloatArray, given: FloatArray, wanted: FloatArray) -> float:
    """Gives the angle about an axis that turns one vector towards another; zero where one of them is along it."""
    across, along = wanted - axis * (axis @ wanted), given - axis * (axis @ given)
    if min(np.linalg.norm(across), np.linalg.norm(along)) < _BY_PLACE:
        return 0.0
    return float(np.arctan2(np.cross(along, across) @ axis, along @ across))


def _back(name: str, marks: tuple[SideMark, ...]) -> Iterator[SideMark]:
    """Gives the marks in the other side's name that turn it back."""
    shift = 0
    for mark in marks:
        start = mark.start + shift
        yield SideMark(start, start + len(mark.other), name[mark.start : mark.end])
        shift += len(mark.other) - (mark.end - mark.start)
