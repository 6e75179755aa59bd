"""Self-collision: the convex pieces of a robot, which pairs of them can meet, and how near they are."""

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
"""Distance (m) that a planned motion keeps between links; less where they are nearer to each other at home."""

_CORNERS = 96
"""Directions in which a piece's farthest corners are kept: a link of 20 cm loses less than 2 mm of its roundness."""

_ONE_CENTRE = 0.03
"""Joints whose centres are no farther apart (m) are taken for one."""

_HOME_CLEARANCES = (0.04, 0.02, 0.01, 0.0)
"""Room (m) that is asked for around the arms where a robot stands ready; less where no posture has it."""

_TRUNK = 0.2
"""Share of the robot's mass from which what a joint carries is the trunk, which stands upright, and not a limb."""

_QUIET = 16
_SAMPLES = 64
_ALWAYS = 0.9


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
    """Which pieces of a robot may not touch, and how much room each pair is given.

    Attributes:
        pieces: All pieces.
        pairs: Pairs of indices of pieces that are watched.
        margins: Room (m) that a plan leaves between each pair.
        home: A configuration in which no watched pair is near, shape (position_size,).
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
        """Gives a checker with a memory of its own, with or without the room that a plan leaves."""
        return Checker(self, margin=margin)


class Checker(threading.local):
    """Whether a robot touches itself. Each thread that looks at a checker has its own workspace."""

    def __init__(self, clearances: Clearances, *, margin: bool) -> None:
        self.clearances = clearances
        self._data = clearances.built.createData()
        self._geometry_data = clearances.geometry.createData()
        if margin:
            for request, room in zip(self._geometry_data.collisionRequests, clearances.margins, strict=True):
                request.security_margin = room

    def is_free(self, q: FloatArray) -> bool:
        """Tells whether all watched pairs have their room at a configuration."""
        touching = pin.computeCollisions(
            self.clearances.built, self._data, self.clearances.geometry, self._geometry_data, q, True
        )
        return not touching

    def touching(self, q: FloatArray) -> list[tuple[int, int]]:
        """Gives the pairs of pieces that have less than their room at a configuration."""
        pin.computeCollisions(
            self.clearances.built, self._data, self.clearances.geometry, self._geometry_data, q, False
        )
        results = self._geometry_data.collisionResults
        return [pair for pair, result in zip(self.clearances.pairs, results, strict=True) if result.isCollision()]


def convex_pieces(model: Model) -> tuple[Piece, ...]:
    """Gives the hull of each shape of each body: what it collides with, or where it has nothing of that, what is drawn.

    Raises:
        ModelError: A mesh file is missing or cannot be read.
    """
    pieces = []
    for body in range(len(model.bodies)):
        clouds = body_pieces(model, body, purpose="collision") or body_pieces(model, body, purpose="visual")
        for points in clouds:
            piece = _hull(body, points)
            if piece is not None:
                pieces.append(piece)
    return tuple(pieces)


def find_clearances(footing: Footing, standing: FloatArray) -> Clearances:
    """Finds the pairs of pieces to watch, and a posture of the upper body that is clear of all of them.

    Shapes of neighbours overlap at their joint, and hulls are larger than what they hold. So these are not watched:
    bodies joined by one joint or by two with one piece between, whose limits keep them apart, and pairs that touch in
    nearly all of a sample of postures, as MoveIt's setup assistant does it.

    Args:
        footing: The robot on its feet.
        standing: A configuration in which it stands, shape (position_size,); its legs stay so.
    """
    model = footing.model
    built = footing.pinocchio
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
    meetings = np.zeros((len(postures), len(pairs)), dtype=bool)
    watched = Clearances(pieces, tuple(pairs), (), standing, built, _with_pairs(geometry, pairs))
    checker = watched.checker(margin=False)
    index = {pair: number for number, pair in enumerate(pairs)}
    for row, posture in enumerate(postures):
        for pair in checker.touching(posture):
            meetings[row, index[pair]] = True
    kept = meetings[_QUIET:].mean(axis=0) < _ALWAYS
    best = _clearest(watched, postures, kept, index)
    kept &= ~meetings[best]
    chosen = [pair for pair, keep in zip(pairs, kept, strict=True) if keep]
    final = _with_pairs(geometry, chosen)
    data, geometry_data = built.createData(), final.createData()
    pin.computeDistances(built, data, final, geometry_data, postures[best])
    room = [min(CLEARANCE, 0.5 * result.min_distance) for result in geometry_data.distanceResults]
    return Clearances(pieces, tuple(chosen), tuple(room), postures[best], built, final)


def _clearest(
    watched: Clearances, postures: list[FloatArray], kept: np.ndarray, index: dict[tuple[int, int], int]
) -> int:
    """Gives the first posture in which the pairs that are kept have room, a quiet one if there is; else the freest."""
    counts = np.zeros(len(postures))
    for rows in (range(_QUIET), range(_QUIET, len(postures))):
        for room in _HOME_CLEARANCES:
            checker = replace(watched, margins=(room,) * len(watched.pairs)).checker()
            for row in rows:
                counts[row] = sum(kept[index[pair]] for pair in checker.touching(postures[row]))
                if counts[row] == 0:
                    return row
    return int(np.argmin(counts))


def _hull(body: int, points: FloatArray) -> Piece | None:
    """Gives the hull of some points, thinned to the corners that are farthest in some direction."""
    directions = _directions()
    corners = points[np.unique(np.argmax(points @ directions.T, axis=0))]
    try:
        hull = ConvexHull(corners)
    except (QhullError, ValueError):
        return None  # flat or empty: it holds nothing that could be hit
    order = hull.vertices
    place = np.full(len(corners), -1)
    place[order] = np.arange(len(order))
    triangles = place[hull.simplices]
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
    """Gives the joint of Pinocchio that moves a body, and the body's placement there."""
    frame = footing.pinocchio.frames[footing.pinocchio.getFrameId(footing.model.bodies[body].name)]
    inside = footing.model.frame(footing.model.bodies[body].name).placement
    return frame.parentJoint, frame.placement * inside.inverse()


def _neighbours(model: Model, pieces: tuple[Piece, ...], first: int, second: int) -> bool:
    """Tells whether two bodies are one, or embrace the same joint: their limits keep them apart.

    That is so on both sides of one joint, of two joints with a short piece between, and of any joints whose centres are
    one, as in hips and wrists.
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
    """Gives postures to look for meetings in: as it stands, its arms ever nearer to mid-range, then at random.

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
    """Gives least and greatest positions of all joints, a half turn each way where there is no limit; (n_joints,)."""
    joints = [model.joint(name) for name in model.joints]
    lower = np.array([joint.lower if np.isfinite(joint.lower) else -np.pi for joint in joints])
    upper = np.array([joint.upper if np.isfinite(joint.upper) else np.pi for joint in joints])
    return lower, upper
