"""Sensitivity of the centre of mass, or of measured torques, to each joint's acceleration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.kinematics import normalised
from steelyard.motion.joint_state import ball_columns, position_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion.joint_state import Positions
    from steelyard.recording import Recording

_POSTURES = 16
"""Recorded postures to average over. Set by judgement: the average changes slowly with posture."""

_LEAST_WEIGHT = 0.01
"""Smallest weight of a joint, relative to the largest: joints at the ends of limbs hardly move the centre of mass, but
have equations of their own. Set by judgement."""

_SHORTEST_ARM = 0.1
"""Smallest lever arm (m) of the centre of mass about the root. Set by judgement, a tenth of a humanoid's size: a root
at the centre of mass would ignore angular acceleration altogether."""


def sample_postures(model: Model, parts: Sequence[Recording], positions: Positions) -> FloatArray:
    """Return evenly spaced recorded configurations, the base at rest, shape (n, position_size).

    Args:
        model: The model.
        parts: Parts of a recording, in memory; without any, the neutral posture is returned.
        positions: Which joint positions to use.
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
    result = np.stack(postures or [neutral])
    for column in ball_columns(model):
        first = len(neutral) - len(names) + column
        result[:, first : first + 4] = normalised(result[:, first : first + 4])
    return result


def compute_com_sensitivity(model: Model, postures: FloatArray) -> tuple[FloatArray, float]:
    """Compute the weights of joint accelerations and of the base's angular acceleration.

    A joint's effect on the feet is the acceleration of the centre of mass: its weight is the squared Jacobian of the
    centre of mass. With a fixed base or measured torques, each joint has an equation of its own, and its weight is its
    inertia over the total mass: the squared acceleration of the centre of mass at equal energy. No weight is below one
    percent of the largest.

    Args:
        model: The model.
        postures: Configurations to average over, shape (n, position_size).

    Returns:
        By position column, (m/s²)² per squared unit of joint acceleration, shape (n_columns,); and that of the base.
    """
    data = model.pinocchio.createData()
    squares = np.zeros(model.velocity_size)
    inertia = np.zeros(model.velocity_size)
    arms = []
    for posture in postures:
        squares += np.sum(np.square(pin.jacobianCenterOfMass(model.pinocchio, data, posture)), axis=0)
        arms.append(float(np.linalg.norm(data.com[0])))
        inertia += np.diag(pin.crba(model.pinocchio, data, posture)) / data.mass[0]
    means = (inertia if model.base == "fixed" or model.setup.torques_measured else squares) / len(postures)
    by_column: list[float] = []
    for joint in model.joints:
        start = int(model.tree.v_starts[model.joint_body(joint)])
        own = means[start : start + model.joint(joint).velocity_size]
        # A quaternion changes by half the angle.
        by_column += [float(own[0])] if len(own) == 1 else [4.0 * float(own.mean())] * 4
    weights = np.array(by_column)
    if len(weights):
        weights = np.maximum(weights, _LEAST_WEIGHT * weights.max())
    return weights, max(_SHORTEST_ARM, float(np.mean(arms))) ** 2
