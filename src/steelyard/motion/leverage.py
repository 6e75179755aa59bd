"""What a joint's acceleration does: to the centre of mass, and to the torques where these are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.kinematics import normalised
from steelyard.motion.joint_state import position_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion.joint_state import Positions
    from steelyard.recording import Recording

_POSTURES = 16
_LEAST = 0.01
"""Every joint counts for at least this share of the one that counts most: it has equations of its own."""

_SHORTEST_ARM = 0.1


def recorded_postures(model: Model, parts: Sequence[Recording], positions: Positions) -> FloatArray:
    """Gives some configurations that were recorded, spread evenly, the base at rest, shape (n, position_size).

    Args:
        model: The model.
        parts: Of a recording, in memory; the neutral posture is given where there are none.
        positions: Which joint positions are meant.
    """
    names = position_columns(model, positions)
    neutral = np.array(model.neutral)
    rows = [(part, row) for part in parts for row in np.linspace(0, len(part) - 1, _POSTURES).astype(int)]
    chosen = [rows[number] for number in np.linspace(0, len(rows) - 1, _POSTURES).astype(int)] if rows else []
    postures = []
    for part, row in chosen:
        joints = np.array([part.column(name)[row] for name in names])
        if np.isfinite(joints).all():
            postures.append(np.concatenate([neutral[: len(neutral) - len(joints)], joints]))
    postures = postures or [neutral]
    result = np.stack(postures)
    base = len(neutral) - len(names)
    for joint in model.joints:
        if model.joint(joint).kind == "ball":
            first = base + _first_column(model, joint)
            result[:, first : first + 4] = normalised(result[:, first : first + 4])
    return result


def _first_column(model: Model, joint: str) -> int:
    before = model.joints[: model.joints.index(joint)]
    return sum(4 if model.joint(each).kind == "ball" else 1 for each in before)


def joint_leverage(model: Model, postures: FloatArray) -> tuple[FloatArray, float]:
    """Gives what counts of joints' accelerations, and of the base's angular acceleration.

    What the feet feel of a joint is the acceleration of the centre of mass: the square of its Jacobian. Where the
    base is fixed, or torques are measured, each joint has an equation of its own, and its inertia over the mass is
    counted: as much as the centre of mass would move with the same energy. Every joint counts for a hundredth of the
    most at least.

    Args:
        model: The model.
        postures: Configurations to average over, shape (n, position_size).

    Returns:
        By position column, (m/s²)² for one of the joint's units, shape (n_columns,); and, likewise, for the base.
    """
    data = model.pinocchio.createData()
    squares = np.zeros(model.velocity_size)
    inertia = np.zeros(model.velocity_size)
    arms = []
    for posture in postures:
        squares += np.sum(np.square(pin.jacobianCenterOfMass(model.pinocchio, data, posture)), axis=0)
        arms.append(float(np.linalg.norm(data.com[0])))
        inertia += np.diag(pin.crba(model.pinocchio, data, posture)) / data.mass[0]
    counted = (inertia if model.base == "fixed" or model.setup.torques_measured else squares) / len(postures)
    weights: list[float] = []
    for joint in model.joints:
        start = int(model.tree.v_starts[model.joint_body(joint)])
        own = counted[start : start + model.joint(joint).velocity_size]
        # Half an angle is in a quaternion.
        weights += [float(own[0])] if len(own) == 1 else [4.0 * float(own.mean())] * 4
    leverage = np.array(weights)
    if len(leverage):
        leverage = np.maximum(leverage, _LEAST * leverage.max())
    return leverage, max(_SHORTEST_ARM, float(np.mean(arms))) ** 2
