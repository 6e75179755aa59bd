"""Mirror symmetry: images of links as transforms between their joint frames.

A point at ``x`` in a left link's joint frame has its image at ``Q x + t`` in the right link's, where ``Q`` is
orthogonal with determinant −1. The two frames may be oriented differently, so ``Q`` is rarely a mere change of signs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.geometry.placements import compute_placements
from steelyard.model.name_patterns import match_pattern, pair_by_patterns
from steelyard.model.parameters import change_frame, change_frame_matrix, to_mass_com_inertia

if TYPE_CHECKING:
    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model.model import Model

SAME_ORIGIN = 1e-4
"""Distance (m) up to which the joint frames of a pair count as exact mirror images. Set by judgement: rounding in model
files is at most 0.01 mm."""


@dataclass(frozen=True, eq=False)
class MirrorPair:
    """Two links that are mirror images, or one link of the middle that is its own.

    Attributes:
        left: Row of the one link in `Model.parameters`.
        right: Row of its image; the same row for a link of the middle.
        rotation: ``Q``, from the left link's joint frame to the right one's, shape (3, 3), determinant −1.
        translation: ``t``, shape (3,), m.
        joint_sign: 1 or −1: in the mirrored posture the right joint is at ``joint_sign · (left's position) +
            joint_offset``; 0 where the two joints have no single axis, or it does not mirror.
        joint_offset: See `joint_sign`; zero where the robot is symmetric at zero.
        origin_error: How far the two joint frames' origins are from being mirror images, m.
        axis_error: The angle between the right joint's axis and the image of the left one's, rad.
    """

    left: int
    right: int
    rotation: FloatArray
    translation: FloatArray
    joint_sign: int
    joint_offset: float
    origin_error: float
    axis_error: float

    @property
    def matrix(self) -> FloatArray:
        """The 10 × 10 matrix that takes the left link's parameters to those of its image in the right's frame."""
        return change_frame_matrix(self.rotation, self.translation)

    def image(self, parameters: Any) -> FloatArray:
        """Return the parameters (..., 10) of the left link's image, in the right link's frame."""
        return change_frame(parameters, self.rotation, self.translation)

    def reversed(self) -> MirrorPair:
        """Return the same pair from right to left."""
        back = np.asarray(self.rotation.T)
        return replace(
            self,
            left=self.right,
            right=self.left,
            rotation=back,
            translation=-back @ self.translation,
            joint_offset=-self.joint_sign * self.joint_offset,
        )


@dataclass(frozen=True)
class MirrorDifference:
    """A number in which a right link differs from the mirror image of its left one.

    Attributes:
        left: Name of the left link.
        right: Name of the right link.
        quantity: "mass" (kg), "com" (m), "inertia" (kg m²), "origin" (m) or "axis" (rad).
        difference: Greatest absolute difference of a component.
        size: Greatest absolute component of the two values; 0 where there is nothing to compare with.
    """

    left: str
    right: str
    quantity: str
    difference: float
    size: float


def find_pairs(model: Model) -> list[MirrorPair]:
    """Return the mirror pairs of links that the setup's ``[mirror]`` names, left to right.

    Raises:
        ModelError: The setup has no ``[mirror]``, or its patterns put one link into two pairs.
    """
    rule = model.setup.mirror
    if rule is None:
        raise ModelError(f"{model.name} has no [mirror] in its setup; add one with 'plane' and 'pairs'")
    pairs: dict[str, str] = {}
    for left, right in rule.pairs:
        for one, other in pair_by_patterns(left, right, model.links):
            taken = {**pairs, **{b: a for a, b in pairs.items()}}
            if taken.get(one, other) != other or taken.get(other, one) != one:
                raise model.setup.error(
                    f"in [mirror]: the patterns pair {one!r} with {other!r}, but one of them is paired already",
                    one,
                    other,
                )
            if one not in taken:
                pairs[one] = other
    poses = _symmetric_poses(model)
    return [_pair(model, poses, model.links.index(one), model.links.index(other)) for one, other in pairs.items()]


def compare_sides(
    model: Model, *, mass: float = 1e-6, com: float = 2e-5, inertia: float = 1e-6, axis: float = 1e-4
) -> list[MirrorDifference]:
    """List how the right links differ from the mirror images of the left ones, greatest first.

    Args:
        model: The model, with ``[mirror]`` in its setup.
        mass: Differences up to this count as none, kg.
        com: The same for centres of mass and joint origins, m; model files round them to 1e-5 or 1e-6.
        inertia: The same for inertias about the centre of mass, kg m².
        axis: The same for joint axes, rad.
    """
    differences = []
    for pair in find_pairs(model):
        names = (model.links[pair.left], model.links[pair.right])
        both = (pair.image(model.parameters[pair.left]), model.parameters[pair.right])
        if both[0][0] == 0.0 or both[1][0] == 0.0:
            continue  # impossible links, which the check reports itself
        image, actual = (to_mass_com_inertia(parameters) for parameters in both)
        for quantity, limit, one, other in zip(
            ("mass", "com", "inertia"), (mass, com, inertia), image, actual, strict=True
        ):
            difference = float(np.max(np.abs(one - other)))
            size = float(max(np.max(np.abs(one)), np.max(np.abs(other))))
            if difference > limit:
                differences.append(MirrorDifference(*names, quantity, difference, size))
        if pair.origin_error > com:
            differences.append(MirrorDifference(*names, "origin", pair.origin_error, 0.0))
        if pair.axis_error > axis:
            differences.append(MirrorDifference(*names, "axis", pair.axis_error, 0.0))
    return sorted(differences, key=lambda entry: entry.difference / (entry.size or 1.0), reverse=True)


def _symmetric_poses(model: Model) -> list[pin.SE3]:
    """Return the placement of every body in the base link's frame, in the setup's symmetric posture."""
    q = np.array(model.neutral)
    posture = _symmetric_posture(model)
    for start, body in zip(model.tree.q_starts, model.bodies, strict=True):
        if body.joint.name in posture:
            q[start] = posture[body.joint.name]
    return compute_placements(model, q)


def _pair(model: Model, poses: list[pin.SE3], left: int, right: int) -> MirrorPair:
    assert model.setup.mirror is not None  # noqa: S101  (find_pairs has checked)
    normal = {"xy": 2, "xz": 1, "yz": 0}[model.setup.mirror.plane]
    reflection = np.diag([-1.0 if axis == normal else 1.0 for axis in range(3)])
    left_body, right_body = model.link_bodies[left], model.link_bodies[right]
    left_pose, right_pose = poses[left_body], poses[right_body]
    rotation = right_pose.rotation.T @ reflection @ left_pose.rotation
    translation = right_pose.rotation.T @ (reflection @ left_pose.translation - right_pose.translation)
    error = float(np.linalg.norm(translation))
    if left != right and error <= SAME_ORIGIN:
        translation = np.zeros(3)
    # A turning axis is an axial vector: its mirror image has the opposite sense. A sliding one is not.
    left_joint, right_joint = model.bodies[left_body].joint, model.bodies[right_body].joint
    sense = 1.0 if left_joint.kind == "prismatic" else -1.0
    image = sense * rotation @ left_joint.axis
    cosine = float(image @ right_joint.axis)
    has_axis = bool(np.any(left_joint.axis)) and bool(np.any(right_joint.axis))
    axis_error = float(np.arccos(min(1.0, abs(cosine)))) if has_axis else 0.0
    sign = (1 if cosine > 0 else -1) if has_axis and axis_error < 0.1 else 0
    posture = _symmetric_posture(model)
    offset = posture.get(right_joint.name, 0.0) - sign * posture.get(left_joint.name, 0.0)
    return MirrorPair(left, right, rotation, translation, sign, offset, error, axis_error)


def _symmetric_posture(model: Model) -> dict[str, float]:
    """Return the positions that the setup's symmetric posture states, by joint."""
    posture = model.setup.mirror.posture if model.setup.mirror is not None else {}
    return {name: value for pattern, value in posture.items() for name in match_pattern(pattern, model.joints)}


def unpaired_links(model: Model) -> dict[str, str]:
    """Return the links that match a side of ``[mirror]`` but have no partner, and the pattern of each."""
    if model.setup.mirror is None:
        return {}
    paired = {model.links[row] for pair in find_pairs(model) for row in (pair.left, pair.right)}
    return {
        link: side
        for pair in model.setup.mirror.pairs
        for side in pair
        for link in match_pattern(side, model.links)
        if link not in paired
    }
