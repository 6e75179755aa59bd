"""Whether a robot can move along a path of postures: joint limits, self-collision, balance and torques."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.stance.collision import joint_ranges
from steelyard.stance.support import inside_margin, zero_moment_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.stance.collision import Checker, Clearances
    from steelyard.stance.footing import Footing


@dataclass(frozen=True)
class Shares:
    """Shares of a robot's limits that a plan may use; the rest is for errors of the model.

    The values are set by judgement. With them, none of 100 simulated trials of robots that differ from their model fell
    (docs/measured.md).

    Attributes:
        position: Of half the range of each joint, from its middle.
        velocity: Of each joint's greatest speed.
        torque: Of each joint's greatest torque.
        balance: Of the distance from the centre of the support polygon to its edge, for the zero-moment point.
    """

    position: float = 0.92
    velocity: float = 0.8
    torque: float = 0.7
    balance: float = 0.6


def planned_positions(model: Model, shares: Shares) -> tuple[FloatArray, FloatArray]:
    """Return the least and greatest positions that a plan may use, shape (n_joints,) each."""
    lower, upper = joint_ranges(model)
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    return middle - shares.position * half, middle + shares.position * half


@dataclass(frozen=True)
class Violation:
    """A limit that a posture or a path violates.

    Attributes:
        reason: A sentence for the user.
        bodies: Bodies whose joints contribute; empty where all do.
    """

    reason: str
    bodies: frozenset[int]


@dataclass(frozen=True, eq=False)
class Feasibility:
    """The limits of a robot on its feet, and checks of postures and short paths against them.

    Attributes:
        footing: The robot on its feet.
        clearances: Which of its pieces may not touch.
        shares: Shares of its limits that may be used.
    """

    footing: Footing
    clearances: Clearances
    shares: Shares

    @cached_property
    def _checker(self) -> Checker:
        return self.clearances.checker()

    @cached_property
    def position_limits(self) -> tuple[FloatArray, FloatArray]:
        """Least and greatest planned positions of all joints, shape (n_joints,) each."""
        return planned_positions(self.footing.model, self.shares)

    @cached_property
    def velocity_limits(self) -> FloatArray:
        """Greatest planned speeds of all joints, shape (n_joints,)."""
        model = self.footing.model
        return self.shares.velocity * np.array([model.joint(name).velocity or np.inf for name in model.joints])

    @cached_property
    def torque_limits(self) -> FloatArray:
        """Greatest planned torques of all joints, shape (n_joints,)."""
        model = self.footing.model
        return self.shares.torque * np.array([model.joint(name).effort or np.inf for name in model.joints])

    @cached_property
    def balance_polygon(self) -> FloatArray:
        """The polygon within which the zero-moment point is planned, shape (n, 2), m."""
        polygon = self.footing.support_polygon
        middle = polygon.mean(axis=0)
        return np.asarray(middle + self.shares.balance * (polygon - middle))

    def check_posture(self, q: FloatArray) -> Violation | None:
        """Return the limit that a posture at rest violates, or None."""
        still = np.zeros(self.footing.pinocchio.nv)
        return self._check_touching(q) or self._check_forces(q, still, still)

    def check_path(self, path: Sequence[FloatArray], step: float) -> Violation | None:
        """Return the limit that a path of configurations, `step` seconds apart, violates, or None.

        Velocities and accelerations are finite differences: the first and the last configuration are checked for
        self-collision only.
        """
        built = self.footing.pinocchio
        for q in path:
            if violation := self._check_touching(q):
                return violation
        steps = [pin.difference(built, before, after) / step for before, after in pairwise(path)]
        for before, after, q in zip(steps, steps[1:], path[1:], strict=False):
            if violation := self._check_forces(q, 0.5 * (before + after), (after - before) / step):
                return violation
        return None

    def _check_touching(self, q: FloatArray) -> Violation | None:
        if self._checker.is_free(q):
            return None
        model, pieces = self.footing.model, self.clearances.pieces
        pairs = {(pieces[one].body, pieces[other].body) for one, other in self._checker.touching(q)}
        joints: set[int] = set()
        for one, other in pairs:
            joints |= set(model.carriers(one)) ^ set(model.carriers(other))
        one, other = min(pairs)
        return Violation(f"{model.bodies[one].name} comes too near to {model.bodies[other].name}", frozenset(joints))

    def _check_forces(self, q: FloatArray, v: FloatArray, a: FloatArray) -> Violation | None:
        model = self.footing.model
        fast = np.abs(v[6:]) / self.velocity_limits
        if np.max(fast, initial=0.0) > 1.0:
            name = model.joints[int(np.argmax(fast))]
            return Violation(f"{name} would be too fast", frozenset([model.joint_body(name)]))
        torques, total = required_efforts(self.footing, q, v, a)
        if not inside_margin(self.balance_polygon, zero_moment_points(total)) > 0.0:
            return Violation("the zero-moment point leaves the soles", frozenset())
        load = np.abs(torques) / self.torque_limits
        if np.max(load, initial=0.0) > 1.0:
            name = model.joints[int(np.argmax(load))]
            body = model.joint_body(name)
            carried = [index for index in range(len(model.bodies)) if body in self.footing.model.carriers(index)]
            return Violation(f"{name} would need too much torque", frozenset(carried))
        return None


def required_efforts(footing: Footing, q: FloatArray, v: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the joint torques and the total ground wrench of a motion, by inverse dynamics.

    The feet share the ground wrench by `Footing.load_sharing`.

    Args:
        footing: The robot on its feet.
        q: Configuration, shape (position_size,).
        v: Velocity, shape (velocity_size,).
        a: Acceleration, shape (velocity_size,).

    Returns:
        Torques, shape (n_joints,), and the wrench on the robot about the world's origin, in world axes, shape (6,).
    """
    built, data = footing.pinocchio, footing.data
    efforts = pin.rnea(built, data, q, v, a)
    # Inverse dynamics does not compute joint placements in the world; computing the Jacobians does.
    pin.computeJointJacobians(built, data, q)
    total = data.oMi[1].act(pin.Force(efforts[:6])).vector
    torques = np.array(efforts[6:])
    for foot, share in zip(footing.feet, footing.load_sharing @ total, strict=True):
        pin.updateFramePlacement(built, data, foot.frame)
        jacobian = pin.getFrameJacobian(built, data, foot.frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        torques -= (jacobian.T @ share)[6:]
    return torques, total
