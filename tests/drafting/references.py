"""Hand-made setups, and the distance of a drafted setup from them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull

from steelyard.drafting import draft_setup
from steelyard.model import find_pairs, load_model
from steelyard.model.files.packages import find_file
from tests.humanoids import FILES, ROBOTS, path_of

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.drafting import SetupDraft
    from steelyard.model import Model
    from steelyard.model.setup import Sole

ALEXANDER = "alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf"
HAND_MADE = Path(__file__).parents[1] / "setups"
REFERENCES = ("g1", "talos", "icub", "romeo", "alex", "simple_humanoid", "alexander")


@cache
def drafted(name: str) -> SetupDraft:
    return draft_setup(path_of(name) if name in FILES else find_file(ROBOTS + ALEXANDER))


@cache
def made_by_hand(name: str) -> Model:
    own = HAND_MADE / f"{name}.toml"
    return load_model(own if own.exists() else name)


def paired_links(model: Model) -> set[frozenset[str]]:
    return {frozenset((model.links[pair.left], model.links[pair.right])) for pair in find_pairs(model)}


def part_placement(model: Model, frame: str) -> tuple[str, FloatArray]:
    """Return the part at the joint that carries a frame, and the frame's placement there as a 4 × 4 matrix."""
    found = model.frame(frame)
    return model.bodies[found.body].name, np.asarray(found.placement.homogeneous)


def corners(model: Model, sole: Sole) -> FloatArray:
    """Return the corners of a sole in the joint frame of the link that carries it."""
    frame = model.frame(sole.frame)
    return np.asarray(sole.vertices @ frame.placement.rotation.T + frame.placement.translation)


def sole_distances(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return the Hausdorff distance of two convex polygons in the plane of the second, and their height difference.

    Over a polygon, the distance to a convex set is largest at a corner, so corners suffice.
    """
    middle = other.mean(axis=0)
    axes = np.linalg.svd(other - middle)[2]
    flat = [(points - middle) @ axes.T for points in (one, other)]
    heights = max(float(np.max(np.abs(points[:, 2]))) for points in flat)
    pairs = ((flat[0], flat[1]), (flat[1], flat[0]))
    return max(_outside(points[:, :2], polygon[:, :2]) for points, polygon in pairs), heights


def _outside(points: FloatArray, polygon: FloatArray) -> float:
    ring = polygon[ConvexHull(polygon).vertices]
    edges = np.roll(ring, -1, axis=0) - ring
    outward = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    worst = 0.0
    for point in points:
        if np.all(np.einsum("ij,ij->i", outward, point - ring) <= 0.0):
            continue
        along = np.clip(np.einsum("ij,ij->i", point - ring, edges) / np.einsum("ij,ij->i", edges, edges), 0.0, 1.0)
        worst = max(worst, float(np.min(np.linalg.norm(ring + along[:, None] * edges - point, axis=1))))
    return worst
