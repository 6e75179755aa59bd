"""The feet of a model: where its soles are, which joints carry them, and where they stand."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.spatial import ConvexHull

from steelyard.exceptions import StanceError
from steelyard.stance.support import share_load
from steelyard.wording import in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.model import Model, Sole

LIMIT_MARGIN = 0.03
"""Distance (rad or m) that inverse kinematics keeps between a leg joint and its limits. Set by judgement: about 2°, so
that a servo's error does not reach the limit."""

LEAST_WIDTH = 0.01
"""Least singular value (m) of a sole's centred corners across its length. Set by judgement: well below any real
foot."""

_STEEPEST = np.cos(np.pi / 4.0)
"""Least vertical component of a sole's normal in the neutral posture. Set by judgement: halfway between a sole and a
wall."""

FLATNESS = 2e-3
"""Greatest distance (m) of a corner from the plane of its sole: Romeo's moulded soles, given as flat, are within it."""


@dataclass(frozen=True, eq=False)
class Foot:
    """One sole and its placement on the ground.

    Attributes:
        sole: The sole of the setup.
        body: Index of the body that carries it.
        placement: Of the sole's own frame in the body's joint frame: origin at the centroid of the corners, z along the
            upward normal, x closest to the x axis of the body in the neutral posture.
        corners: In the sole's own frame, shape (n, 3), m; flat, so that z is zero.
        frame: Index of the sole's own frame in `Footing.pinocchio`.
        stand: Placement of that frame in the world while the foot stands: z up, on the ground.
    """

    sole: Sole
    body: int
    placement: pin.SE3
    corners: FloatArray
    frame: int
    stand: pin.SE3


class _Workspace(threading.local):
    """Data of a Pinocchio model, one for each thread: Python runs `__init__` anew in each."""

    def __init__(self, built: pin.Model) -> None:
        self.data = built.createData()


@dataclass(frozen=True, eq=False)
class Footing:
    """A floating model on the ground, all soles flat.

    Attributes:
        model: The model.
        feet: Its feet, in the order of the setup's soles.
        pinocchio: The model in Pinocchio, with a frame for each sole; private to this footing.
    """

    model: Model
    feet: tuple[Foot, ...]
    pinocchio: pin.Model

    @cached_property
    def _workspace(self) -> _Workspace:
        return _Workspace(self.pinocchio)

    @property
    def data(self) -> pin.Data:
        """Pinocchio's workspace of the calling thread."""
        return self._workspace.data

    @cached_property
    def leg_joints(self) -> tuple[str, ...]:
        """Joints between the root and a sole, in the model's order."""
        bodies = {body for foot in self.feet for body in self.model.carriers(foot.body)}
        found = (self.model.bodies[body].joint for body in sorted(bodies))
        return tuple(joint.name for joint in found if joint.kind != "fixed")

    @cached_property
    def upper_joints(self) -> tuple[str, ...]:
        """All other joints, which move freely while the feet stand."""
        return tuple(joint for joint in self.model.joints if joint not in self.leg_joints)

    @cached_property
    def leg_columns(self) -> NDArray[np.int64]:
        """Indices of the leg joints in ``q`` and ``v``, the floating base left out."""
        return np.array([self.model.joints.index(joint) for joint in self.leg_joints], dtype=np.int64)

    @cached_property
    def upper_columns(self) -> NDArray[np.int64]:
        """Indices of the upper joints in ``q`` and ``v``, the floating base left out."""
        return np.array([self.model.joints.index(joint) for joint in self.upper_joints], dtype=np.int64)

    @cached_property
    def leg_limits(self) -> tuple[FloatArray, FloatArray]:
        """Least and greatest positions of the leg joints in inverse kinematics, shape (n_legs,) each."""
        joints = [self.model.joint(name) for name in self.leg_joints]
        middle = np.array([0.5 * (joint.lower + joint.upper) if np.isfinite(joint.lower) else 0.0 for joint in joints])
        lower = np.array([joint.lower + LIMIT_MARGIN for joint in joints])
        upper = np.array([joint.upper - LIMIT_MARGIN for joint in joints])
        return np.minimum(lower, middle), np.maximum(upper, middle)

    @cached_property
    def support_polygon(self) -> FloatArray:
        """Corners of the support polygon on the ground, counter-clockwise, shape (n, 2), m."""
        return np.asarray(self.ground_corners[ConvexHull(self.ground_corners).vertices])

    @cached_property
    def load_sharing(self) -> FloatArray:
        """The map from the total ground wrench to that on each foot, shape (n_feet, 6, 6); see `share_load`."""
        return share_load(self)

    @cached_property
    def ground_corners(self) -> FloatArray:
        """The corners of all soles on the ground, shape (n, 2), m."""
        return np.concatenate(
            [(foot.corners @ foot.stand.rotation.T + foot.stand.translation)[:, :2] for foot in self.feet]
        )

    @cached_property
    def lateral(self) -> FloatArray:
        """Unit vector on the ground from the last foot to the first; the world's y axis with a single foot."""
        across = self.feet[0].stand.translation[:2] - self.feet[-1].stand.translation[:2]
        length = float(np.linalg.norm(across))
        return across / length if length > 1e-6 else np.array([0.0, 1.0])

    @property
    def forward(self) -> FloatArray:
        """Unit vector on the ground, perpendicular to `lateral`."""
        return np.array([self.lateral[1], -self.lateral[0]])


def plant_feet(model: Model) -> Footing:
    """Place a model on the ground: each sole where it is in the neutral posture, turned flat.

    Raises:
        StanceError: The model cannot stand: its base is fixed, its setup has no sole, a sole is not flat, or it has a
            ball joint.
    """
    if model.base != "floating":
        raise StanceError(f'{model.name} is fixed to the world and stands on nothing; load it with base="floating"')
    if not model.setup.soles:
        raise StanceError(
            f"{model.name} has no soles to stand on; add a [[sole]] for each foot to its setup file "
            "(name, frame, and the corners of the sole)"
        )
    balls = [body.joint.name for body in model.bodies if body.joint.kind == "ball"]
    if balls:
        raise StanceError(
            f"{model.name} has the ball joint {in_words(balls)}, and postures are made of single angles; write it as "
            "three hinges, or lock it with [lock]",
            names=balls,
        )
    built = model.pinocchio.copy()
    # Rotor inertias are part of the servos.
    built.armature[:] = 0.0
    neutral = resting_posture(model)
    data = built.createData()
    pin.framesForwardKinematics(built, data, neutral)
    feet: list[Foot] = []
    for sole in model.setup.soles:
        frame = model.frame(sole.frame)
        if any(foot.body == frame.body for foot in feet):
            raise StanceError(
                f"the link {model.bodies[frame.body].name!r} carries two soles; give it one, with all its corners",
                names=[sole.name],
            )
        inside = frame.placement
        corners = sole.vertices @ inside.rotation.T + inside.translation
        place = data.oMf[built.getFrameId(sole.frame)]
        of_body = place * inside.inverse()
        placement = _sole_frame(sole, corners, of_body)
        carrier = built.frames[built.getFrameId(sole.frame)]
        own = carrier.placement * inside.inverse() * placement
        kind = pin.FrameType.OP_FRAME
        number = built.addFrame(pin.Frame(f"sole {sole.name}", carrier.parentJoint, own, kind), False)
        stand = of_body * placement
        flat = (corners - placement.translation) @ placement.rotation
        flat[:, 2] = 0.0
        feet.append(Foot(sole, frame.body, placement, flat, int(number), _upright(stand)))
    return Footing(model, tuple(feet), built)


def resting_posture(model: Model) -> FloatArray:
    """Return the configuration nearest to neutral with every joint within its limits, shape (position_size,)."""
    positions = np.array(model.neutral)
    for index, body in enumerate(model.bodies):
        if body.joint.position_size == 1:
            start = int(model.tree.q_starts[index])
            positions[start] = np.clip(0.0, body.joint.lower, body.joint.upper)
    return positions


def _sole_frame(sole: Sole, corners: FloatArray, of_body: pin.SE3) -> pin.SE3:
    """Return the placement of the sole's own frame in its body."""
    middle = corners.mean(axis=0)
    if len(corners) < 3 or np.linalg.svd(corners - middle)[1][1] < LEAST_WIDTH:
        raise StanceError(
            f"the sole {sole.name!r} has no area to stand on; give at least three corners that are not on one line",
            names=[sole.name],
        )
    _, _, axes = np.linalg.svd(corners - middle)
    normal = axes[2] if (of_body.rotation @ axes[2])[2] >= 0.0 else -axes[2]
    if (of_body.rotation @ normal)[2] < _STEEPEST:
        raise StanceError(
            f"the sole {sole.name!r} is not level when all joints are at zero; check the frame of its corners",
            names=[sole.name],
        )
    bump = float(np.max(np.abs((corners - middle) @ normal)))
    if bump > FLATNESS:
        raise StanceError(
            f"the sole {sole.name!r} is not flat: a corner is {1e3 * bump:.1f} mm off the plane of the others; give "
            "corners of the surface that touches the ground",
            names=[sole.name],
        )
    ahead = of_body.rotation.T @ np.array([1.0, 0.0, 0.0])
    ahead -= normal * (normal @ ahead)
    ahead /= np.linalg.norm(ahead)
    return pin.SE3(np.stack([ahead, np.cross(normal, ahead), normal], axis=1), middle)


def _upright(place: pin.SE3) -> pin.SE3:
    """Return a placement projected onto the ground: z up, the same heading."""
    heading = np.arctan2(place.rotation[1, 0], place.rotation[0, 0])
    return pin.SE3(pin.utils.rotate("z", float(heading)), np.array([*place.translation[:2], 0.0]))
