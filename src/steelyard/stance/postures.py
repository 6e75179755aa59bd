"""Inverse kinematics with the feet on the ground: the base and the legs that go with a wish for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray
    from steelyard.stance.footing import Footing

LIMIT_MARGIN = 0.03
"""How far (rad or m) from its limits a joint of the legs is kept."""

_TOLERANCE = 1e-9
_ITERATIONS = 30
_PATIENCE = 10
_LONGEST_STEP = 0.3


@dataclass(frozen=True, eq=False)
class Wish:
    """What a posture should look like above flat feet.

    Attributes:
        upper: Positions of `Footing.upper_joints`, shape (n_upper,); taken exactly.
        com: Centre of mass on the ground, shape (2,), m, of the footing's model.
        height: Of the origin of the root above the ground, m.
        tilt: Rotation vector of the root in the world, shape (3,), rad.
    """

    upper: FloatArray
    com: FloatArray
    height: float
    tilt: FloatArray


@dataclass(frozen=True, eq=False)
class Posture:
    """A configuration with the feet on the ground.

    Attributes:
        q: Configuration, shape (position_size,).
        foot_error: Greatest distance of a sole from its stand (m or rad).
        wish_error: Greatest distance from the wish for centre of mass, height (m) and tilt (rad).
    """

    q: FloatArray
    foot_error: float
    wish_error: float

    @property
    def stands(self) -> bool:
        """Whether the feet are where they should be."""
        return self.foot_error < 1e-6

    def fulfils(self, tolerance: float = 1e-6) -> bool:
        """Tells whether the feet stand and the wish came true."""
        return self.stands and self.wish_error < tolerance


def solve_posture(footing: Footing, wish: Wish, guess: FloatArray) -> Posture:
    """Gives the posture that keeps the soles on their stands and comes nearest to a wish.

    Newton's method in two levels: the soles' placements come first, exactly; centre of mass, height and tilt of the
    root take what freedom is left. A leg joint that runs against its limit, less `LIMIT_MARGIN`, is held there.

    Args:
        footing: The feet.
        wish: The wish.
        guess: A configuration to start from, shape (position_size,).
    """
    built = footing.pinocchio
    data = built.createData()
    legs = footing.columns(footing.leg_joints)
    lower, upper = leg_limits(footing)
    q = np.array(guess, dtype=np.float64)
    q[7 + footing.columns(footing.upper_joints)] = wish.upper
    q[7 + legs] = np.clip(q[7 + legs], lower, upper)
    moving = np.concatenate([np.arange(6), 6 + legs])
    wanted = pin.exp3(np.asarray(wish.tilt, dtype=np.float64))
    held = np.zeros(len(legs), dtype=bool)
    foot_error = wish_error = np.inf
    for iteration in range(_ITERATIONS):
        pin.computeJointJacobians(built, data, q)
        pin.updateFramePlacements(built, data)
        foot_rows, wish_rows = [], []
        foot_errors, wish_errors = [], []
        for foot in footing.feet:
            off = foot.stand.actInv(data.oMf[foot.frame])
            error = pin.log6(off)
            foot_errors.append(error.vector)
            frame = pin.getFrameJacobian(built, data, foot.frame, pin.ReferenceFrame.LOCAL)
            foot_rows.append((pin.Jlog6(off) @ frame)[:, moving])
        com = pin.jacobianCenterOfMass(built, data, q, False)
        wish_errors += [data.com[0][:2] - wish.com, [q[2] - wish.height]]
        turn = wanted.T @ data.oMi[1].rotation
        wish_errors.append(pin.log3(turn))
        root = np.zeros((4, len(moving)))
        root[0, :3] = data.oMi[1].rotation[2]
        root[1:, 3:6] = pin.Jlog3(turn)
        wish_rows += [com[:2, moving], root]
        feet, soft = np.concatenate(foot_errors), np.concatenate(wish_errors)
        foot_error, wish_error = float(np.max(np.abs(feet))), float(np.max(np.abs(soft)))
        if foot_error < _TOLERANCE and wish_error < _TOLERANCE:
            break
        step = _two_level_step(np.concatenate(foot_rows), feet, np.concatenate(wish_rows), soft, held)
        longest = float(np.max(np.abs(step)))
        hopeless = foot_error < _TOLERANCE and (longest < _TOLERANCE or (iteration > _PATIENCE and wish_error > 1e-4))
        if hopeless:
            break
        step *= min(1.0, _LONGEST_STEP / longest) if longest > 0.0 else 1.0
        full = np.zeros(built.nv)
        full[moving] = step
        q = pin.integrate(built, q, full)
        beyond = (q[7 + legs] < lower) | (q[7 + legs] > upper)
        held |= beyond
        q[7 + legs] = np.clip(q[7 + legs], lower, upper)
    return Posture(q, foot_error, wish_error)


def leg_limits(footing: Footing) -> tuple[FloatArray, FloatArray]:
    """Gives the least and greatest positions that inverse kinematics lets the leg joints take, rad."""
    joints = [footing.model.joint(name) for name in footing.leg_joints]
    middle = np.array([0.5 * (joint.lower + joint.upper) if np.isfinite(joint.lower) else 0.0 for joint in joints])
    lower = np.array([joint.lower + LIMIT_MARGIN for joint in joints])
    upper = np.array([joint.upper - LIMIT_MARGIN for joint in joints])
    return np.minimum(lower, middle), np.maximum(upper, middle)


def _two_level_step(
    first: FloatArray, first_error: FloatArray, second: FloatArray, second_error: FloatArray, held: np.ndarray
) -> FloatArray:
    """Gives the step that undoes the first error, and of the second what it can without touching the first."""
    free = np.concatenate([np.ones(6, dtype=bool), ~held])
    left, right = first[:, free], second[:, free]
    u, sizes, vt = np.linalg.svd(left, full_matrices=True)
    rank = int(np.sum(sizes > 1e-6 * sizes[0]))
    step = -vt[:rank].T @ ((u[:, :rank].T @ first_error) / sizes[:rank])
    null = vt[rank:].T
    if null.shape[1]:
        # Damped: near a straight knee the height has no first-order effect on the leg.
        reduced = right @ null
        gram = reduced.T @ reduced + 1e-8 * np.eye(null.shape[1])
        step += null @ np.linalg.solve(gram, -reduced.T @ (second_error + right @ step))
    full = np.zeros(len(free))
    full[free] = step
    return full
