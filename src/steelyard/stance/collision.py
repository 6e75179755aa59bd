"""Self-collision: the convex pieces of a robot, which pairs of them can collide, and their clearances."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import coal
import numpy as np
import pinocchio as pin
from scipy.spatial import ConvexHull, QhullError

from steelyard.model import body_pieces

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.stance.footing import Footing

CLEARANCE = 0.01
"""Distance (m) that a planned motion keeps between links; half of that at home where it is less. Set by judgement: a
servo that lags by a degree moves a hand 60 cm away by as much."""

_CORNERS = 96
"""Directions in which the extreme points of a piece are kept: a link of 20 cm loses less than 2 mm of its roundness."""

_ONE_CENTRE = 0.03
"""Joints whose centres are no farther apart (m) count as one. Set by judgement: small beside a limb."""

_HOME_CLEARANCES = (0.04, 0.02, 0.01, 0.0)
"""Clearances (m) tried in turn for the home posture. Set by judgement: from four times `CLEARANCE` down to contact."""

_TRUNK = 0.2
"""Share of the robot's mass from which what a joint carries is the trunk, which stays upright, and not a limb. Set by
judgement: an arm is lighter."""

_QUIET, _SAMPLES = 16, 64
"""Numbers of symmetric and of random postures in which collisions are looked for. Set by judgement: 64 give the share
of those in which a pair collides to ± 0.04 at `_ALWAYS`."""

_ALWAYS = 0.9
"""Share of the random postures from which a colliding pair counts as overlapping by construction. Set by judgement;
MoveIt's setup assistant has 0.95."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A convex piece of a body.

    Attributes:
        body: Index of the body.
        corners: Its corners in the body's joint frame, shape (n, 3), m.
        triangles: Corners of each face, counter-clockwise seen from outside, shape (m, 3).
    """

    body: int
    corners: FloatArray
    triangles: np.ndarray


@dataclass(frozen=True, eq=False)
class Clearances:
    """Which pieces of a robot may not touch, and the clearance of each pair.

    Attributes:
        pieces: All pieces.
        pairs: Pairs of indices of pieces that are checked.
        margins: Clearance (m) that a plan leaves between each pair.
        home: A configuration in which no checked pair is near, shape (position_size,).
        built: The model in Pinocchio.
        geometry: The pieces and pairs in Pinocchio.
    """

    pieces: tuple[Piece, ...]
    pairs: tuple[tuple[int, int], ...]
    margins: tuple[float, ...]
    home: FloatArray
    built: pin.Model
    geometry: pin.GeometryModel

    def checker(self, *, margin: bool = True) -> Checker:
        """Return a checker, with or without the clearance that a plan leaves."""
        return Checker(self, margin=margin)


class Checker(threading.local):
    """A self-collision check; each thread that uses it has a workspace of its own."""

    def __init__(self, clearances: Clearances, *, margin: bool) -> None:
        self.clearances = clearances
        self._data = clearances.built.createData()
        self._geometry_data = clearances.geometry.createData()
        if margin:
            for request, clearance in zip(self._geometry_data.collisionRequests, clearances.margins, strict=True):
                request.security_margin = clearance

    def is_free(self, q: FloatArray) -> bool:
        """Return whether all checked pairs keep their clearance at a configuration."""
        return not self._collide(q, stop_at_first=True)

    def touching(self, q: FloatArray) -> list[tuple[int, int]]:
        """Return the pairs of pieces that are closer than their clearance at a configuration."""
        self._collide(q, stop_at_first=False)
        results = self._geometry_data.collisionResults
        return [pair for pair, result in zip(self.clearances.pairs, results, strict=True) if result.isCollision()]

    def _collide(self, q: FloatArray, *, stop_at_first: bool) -> bool:
        built, geometry = self.clearances.built, self.clearances.geometry
        return bool(pin.computeCollisions(built, self._data, geometry, self._geometry_data, q, stop_at_first))


def convex_pieces(model: Model) -> tuple[Piece, ...]:
    """Return the convex hull of each collision shape of each body; of its visual shapes where it has no others.

    Raises:
        ModelError: A mesh file is missing or cannot be read.
    """
    pieces = []
    for body in range(len(model.bodies)):
        clouds = body_pieces(model, body, purpose="collision") or body_pieces(model, body, purpose="visual")
        pieces += [_hull(body, points) for points in clouds]
    return tuple(piece for piece in pieces if piece is not None)


def find_clearances(footing: Footing, standing: FloatArray) -> Clearances:
    """Find the pairs of pieces to check, and a posture of the upper body that is clear of all of them.

    Shapes of neighbours overlap at their joint, and hulls are larger than the shapes. So these are not checked: bodies
    joined by one joint, or by two with one piece between, whose limits keep them apart, and pairs that collide in
    nearly all of a sample of postures, as in MoveIt's setup assistant.

    Args:
        footing: The robot on its feet.
        standing: A configuration in which it stands, shape (position_size,); its legs are kept.
    """
    model, built = footing.model, footing.pinocchio
    pieces = convex_pieces(model)
    geometry = pin.GeometryModel()
    for number, piece in enumerate(pieces):
        joint, placement = _carrier(footing, piece.body)
        points = coal.StdVec_Vec3s()
        for corner in piece.corners:
            points.append(corner)
        shape = coal.Convex.convexHull(points, False, "Qt")
        geometry.addGeometryObject(pin.GeometryObject(str(number), joint, joint, placement, shape))
    pairs = [
        (first, second)
        for first in range(len(pieces))
        for second in range(first + 1, len(pieces))
        if not _neighbours(model, pieces, pieces[first].body, pieces[second].body)
    ]
    postures = _sample(footing, standing)
    collisions = np.zeros((len(postures), len(pairs)), dtype=bool)
    all_pairs = Clearances(pieces, tuple(pairs), (), standing, built, _with_pairs(geometry, pairs))
    checker = all_pairs.checker(margin=False)
    index = {pair: number for number, pair in enumerate(pairs)}
    for row, posture in enumerate(postures):
        for pair in checker.touching(posture):
            collisions[row, index[pair]] = True
    kept = collisions[_QUIET:].mean(axis=0) < _ALWAYS
    best = _clearest(all_pairs, postures, kept, index)
    kept &= ~collisions[best]
    chosen = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
    final = _with_pairs(geometry, chosen)
    data, geometry_data = built.createData(), final.createData()
    pin.computeDistances(built, data, final, geometry_data, postures[best])
    margins = tuple(min(CLEARANCE, 0.5 * result.min_distance) for result in geometry_data.distanceResults)
    return Clearances(pieces, tuple(chosen), margins, postures[best], built, final)


def _clearest(
    all_pairs: Clearances, postures: list[FloatArray], kept: np.ndarray, index: dict[tuple[int, int], int]
) -> int:
    """Return the first posture that is clear of the kept pairs, a symmetric one if possible; else that of fewest."""
    counts = np.zeros(len(postures))
    for rows in (range(_QUIET), range(_QUIET, len(postures))):
        for clearance in _HOME_CLEARANCES:
            checker = replace(all_pairs, margins=(clearance,) * len(all_pairs.pairs)).checker()
            for row in rows:
                counts[row] = sum(kept[index[pair]] for pair in checker.touching(postures[row]))
                if counts[row] == 0:
                    return row
    return int(np.argmin(counts))


def _hull(body: int, points: FloatArray) -> Piece | None:
    """Return the hull of the extreme points in `_CORNERS` directions; None where they have no volume."""
    directions = _directions()
    corners = points[np.unique(np.argmax(points @ directions.T, axis=0))]
    try:
        hull = ConvexHull(corners)
    except (QhullError, ValueError):
        return None
    order = hull.vertices
    numbers = np.full(len(corners), -1)
    numbers[order] = np.arange(len(order))
    triangles = numbers[hull.simplices]
    edges = corners[hull.simplices]
    turned = np.einsum(
        "ij,ij->i", np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0]), hull.equations[:, :3]
    )
    triangles[turned < 0.0] = triangles[turned < 0.0][:, ::-1]
    return Piece(body, corners[order], triangles)


def _directions() -> FloatArray:
    heights = 1.0 - (2.0 * np.arange(_CORNERS) + 1.0) / _CORNERS
    angles = np.pi * (1.0 + 5.0**0.5) * np.arange(_CORNERS)
    radii = np.sqrt(1.0 - heights**2)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)


def _carrier(footing: Footing, body: int) -> tuple[int, pin.SE3]:
    """Return the joint of Pinocchio that moves a body, and the body's placement there."""
    frame = footing.pinocchio.frames[footing.pinocchio.getFrameId(footing.model.bodies[body].name)]
    inside = footing.model.frame(footing.model.bodies[body].name).placement
    return frame.parentJoint, frame.placement * inside.inverse()


def _neighbours(model: Model, pieces: tuple[Piece, ...], first: int, second: int) -> bool:
    """Return whether two bodies are the same or adjacent, so that joint limits keep them apart.

    Adjacent are the two sides of one joint, of two joints with one piece between, and of joints whose centres coincide,
    as in hips and wrists.
    """
    solid = {piece.body for piece in pieces}
    upper, lower = sorted((first, second))
    met, seen, apart = lower, 0, 0.0
    while met > upper:
        seen += met in solid
        parent = model.bodies[met].parent
        if parent > upper:
            apart += float(np.linalg.norm(model.bodies[met].placement.translation))
        met = parent
    return met == upper and (seen <= 2 or apart < _ONE_CENTRE)


def _with_pairs(geometry: pin.GeometryModel, pairs: list[tuple[int, int]]) -> pin.GeometryModel:
    chosen = geometry.copy()
    for first, second in pairs:
        chosen.addCollisionPair(pin.CollisionPair(first, second))
    return chosen


def _sample(footing: Footing, standing: FloatArray) -> list[FloatArray]:
    """Return postures to look for collisions in: the arms from standing to mid-range in steps, then random ones.

    The first `_QUIET` of them are as symmetric as the robot is.
    """
    generator = np.random.default_rng(0)
    model = footing.model
    lower, upper = joint_ranges(model)
    moving = footing.upper_columns
    carried = model.tree.subtrees[:, list(model.link_bodies)] @ model.parameters[:, 0]
    trunk = np.array([carried[model.joint_body(joint)] > _TRUNK * model.total_mass for joint in model.joints])
    aims = [np.where(trunk, standing[7:], 0.5 * (lower + upper))] * _QUIET
    aims += [generator.uniform(lower + 0.1 * (upper - lower), upper - 0.1 * (upper - lower)) for _ in range(_SAMPLES)]
    shares = np.concatenate([np.linspace(0.0, 1.0, _QUIET), np.ones(_SAMPLES)])
    postures = []
    for share, aim in zip(shares, aims, strict=True):
        posture = np.array(standing)
        posture[7 + moving] += share * (aim[moving] - posture[7 + moving])
        postures.append(posture)
    return postures


def joint_ranges(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return least and greatest positions of all joints, ±π where there is no limit, shape (n_joints,) each."""
    joints = [model.joint(name) for name in model.joints]
    lower = np.array([joint.lower if np.isfinite(joint.lower) else -np.pi for joint in joints])
    upper = np.array([joint.upper if np.isfinite(joint.upper) else np.pi for joint in joints])
    return lower, upper
