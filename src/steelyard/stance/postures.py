"""Inverse kinematics with the feet on the ground: the base and the legs for a given target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dtrtrs

from steelyard.exceptions import StanceError

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance.footing import Footing

_FLAT = 2e-3
"""Greatest distance (m or rad) of a sole from its stand that counts as standing: as flat as a sole itself."""

_TOLERANCE = 1e-8
"""Error (m or rad) at which Newton's method has converged. Set by judgement: a hundredth of what `Posture.stands`
asks."""

_ITERATIONS = 30
"""Greatest number of Newton steps. Set by judgement: convergence is quadratic, and steps are limited."""

_PATIENCE, _HOPELESS = 10, 1e-4
"""Newton steps after which a target whose error (m or rad) is still larger counts as out of reach. Set by judgement."""

_LONGEST_STEP = 0.3
"""Greatest change (rad or m) of a coordinate in a Newton step. Set by judgement: rotations are nearly linear over
it."""


@dataclass(frozen=True, eq=False)
class PostureTarget:
    """The target of inverse kinematics above flat feet.

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
        target_error: Greatest error of centre of mass, height (m) and tilt (rad).
    """

    q: FloatArray
    foot_error: float
    target_error: float

    @property
    def stands(self) -> bool:
        """Whether the soles are on their stands."""
        return self.foot_error < 1e-6

    @property
    def meets_target(self) -> bool:
        """Whether the soles are on their stands and the target is reached."""
        return self.stands and self.target_error < 1e-6


def solve_posture(footing: Footing, target: PostureTarget, guess: FloatArray) -> Posture:
    """Solve inverse kinematics: the posture with the soles on their stands that comes nearest to a target.

    Newton's method with two priorities: the placements of the soles exactly; centre of mass, height and tilt of the
    root in their null space. A leg joint that reaches its limit, less a margin, stays there: some targets are missed
    that smaller steps would reach.

    Args:
        footing: The feet.
        target: The target.
        guess: Initial configuration, shape (position_size,).
    """
    built, data = footing.pinocchio, footing.data
    legs = 7 + footing.leg_columns
    lower, upper = footing.leg_limits
    q = np.array(guess, dtype=np.float64)
    q[7 + footing.upper_columns] = target.upper
    q[legs] = np.clip(q[legs], lower, upper)
    wanted = pin.exp3(np.asarray(target.tilt, dtype=np.float64))
    held = np.zeros(len(legs), dtype=bool)
    moving = np.concatenate([np.arange(6), legs - 1])
    feet, soft = 6 * len(footing.feet), 6
    errors, rows = np.zeros(feet + soft), np.zeros((feet + soft, built.nv))
    full = np.zeros(built.nv)
    foot_error = target_error = np.inf
    for iteration in range(_ITERATIONS):
        rows[feet : feet + 2] = pin.jacobianCenterOfMass(built, data, q, False)[:2]
        pin.computeJointJacobians(built, data)
        for number, foot in enumerate(footing.feet):
            off = foot.stand.actInv(pin.updateFramePlacement(built, data, foot.frame))
            part = slice(6 * number, 6 * number + 6)
            errors[part] = pin.log6(off).vector
            local = pin.getFrameJacobian(built, data, foot.frame, pin.ReferenceFrame.LOCAL)
            np.matmul(pin.Jlog6(off), local, out=rows[part])
        root = data.oMi[1].rotation
        turn = wanted.T @ root
        errors[feet : feet + 2] = data.com[0][:2] - target.com
        errors[feet + 2] = q[2] - target.height
        errors[feet + 3 :] = pin.log3(turn)
        rows[feet + 2, :3] = root[2]
        rows[feet + 3 :, 3:6] = pin.Jlog3(turn)
        sizes = np.abs(errors)
        foot_error, target_error = float(sizes[:feet].max()), float(sizes[feet:].max())
        if foot_error < _TOLERANCE and target_error < _TOLERANCE:
            break
        step = _two_level_step(rows[:, moving], errors, feet, held)
        longest = float(np.abs(step).max())
        if foot_error < _TOLERANCE and (longest < _TOLERANCE or (iteration > _PATIENCE and target_error > _HOPELESS)):
            break
        full[moving] = step * min(1.0, _LONGEST_STEP / max(longest, _TOLERANCE))
        q = pin.integrate(built, q, full)
        q[3:7] /= np.linalg.norm(q[3:7])
        held |= (q[legs] < lower) | (q[legs] > upper)
        q[legs] = np.clip(q[legs], lower, upper)
    return Posture(q, foot_error, target_error)


def stand_on_soles(footing: Footing, positions: FloatArray) -> FloatArray:
    """Return the configuration of joint positions with the soles on their stands, shape (position_size,).

    Args:
        footing: The feet; the first is exactly on its stand.
        positions: Of all joints, shape (n_joints,).

    Raises:
        StanceError: Another sole is off its stand by more than 2 mm or 2 mrad.
    """
    built, data = footing.pinocchio, footing.data
    q = np.array(footing.model.neutral)
    q[7:] = positions
    pin.framesForwardKinematics(built, data, q)
    base = footing.feet[0].stand * data.oMf[footing.feet[0].frame].inverse()
    for foot in footing.feet[1:]:
        off = np.abs(pin.log6(foot.stand.actInv(base * data.oMf[foot.frame])).vector)
        if np.max(off) > _FLAT:
            raise StanceError(
                f"the sole {foot.sole.name!r} would be {1e3 * np.max(off[:3]):.1f} mm and "
                f"{np.rad2deg(np.max(off[3:])):.2f}° off its stand, with {footing.feet[0].sole.name!r} on its own",
                names=[foot.sole.name],
            )
    q[:7] = pin.SE3ToXYZQUAT(base)
    return q


def describe_posture(footing: Footing, positions: FloatArray) -> PostureTarget:
    """Return the target that joint positions reach; see `stand_on_soles`."""
    q = stand_on_soles(footing, positions)
    com = np.array(pin.centerOfMass(footing.pinocchio, footing.data, q))
    tilt = pin.log3(pin.Quaternion(q[3:7]).matrix())
    return PostureTarget(q[7 + footing.upper_columns], com[:2], float(q[2]), tilt)


def _two_level_step(rows: FloatArray, errors: FloatArray, first: int, held: np.ndarray) -> FloatArray:
    """Return the Newton step for the first errors, and in its null space the damped one for the others.

    Args:
        rows: Jacobian of all errors, shape (n, 6 + n_legs).
        errors: The errors, shape (n,).
        first: How many of them have priority.
        held: Which leg joints are fixed, shape (n_legs,).
    """
    free = np.concatenate([np.ones(6, dtype=bool), ~held])
    rows = rows[:, free]
    turn, triangle = np.linalg.qr(rows[:first].T, mode="complete")
    diagonal = np.abs(np.diagonal(triangle))
    if len(diagonal) == first and diagonal.min() > 1e-6 * diagonal.max():
        # LAPACK's own function: `solve_triangular` takes several times as long on so few numbers.
        step = turn[:, :first] @ dtrtrs(triangle[:first].T, -errors[:first], lower=1)[0]
        null = turn[:, first:]
    else:
        u, sizes, vt = np.linalg.svd(rows[:first])
        rank = int(np.sum(sizes > 1e-6 * sizes[0]))
        step = -vt[:rank].T @ ((u[:, :rank].T @ errors[:first]) / sizes[:rank])
        null = vt[rank:].T
    if null.shape[1]:
        # Damped: near a straight knee the height has no first-order effect on the leg.
        reduced = rows[first:] @ null
        gram = reduced.T @ reduced + 1e-8 * np.eye(null.shape[1])
        step += null @ np.linalg.solve(gram, -reduced.T @ (errors[first:] + rows[first:] @ step))
    full = np.zeros(len(free))
    full[free] = step
    return full
