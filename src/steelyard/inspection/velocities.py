"""Recorded joint velocities against the positions' own rate of change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.inspection.findings import Finding, write_fix
from steelyard.model import UNITS, ColumnSource
from steelyard.motion import butterworth, smooth_columns
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model, Setup
    from steelyard.recording import Recording

_MOVING = 0.02
_ALIKE = 0.2
_CORRELATED = 0.9


def check_velocities(model: Model, setup: Setup, stretches: Sequence[Recording], cutoff: float) -> list[Finding]:
    """Gives joints whose recorded velocity is not the rate of change of their position.

    Args:
        model: The model.
        setup: The setup with whose map the recording was read.
        stretches: Evenly sampled stretches in memory, with positions and velocities.
        cutoff: Frequency (Hz) up to which they are compared.
    """
    columns = stretches[0].values
    joints = [
        joint
        for joint in model.joints
        if f"v.{joint}" in columns and f"q.{joint}" in columns and model.joint(joint).velocity_size == 1
    ]
    if not joints:
        return []
    parts = []
    for stretch in stretches:
        try:
            true = smooth_columns(stretch, [f"q.{joint}" for joint in joints], butterworth(cutoff), derivative=1)
            read = smooth_columns(stretch, [f"v.{joint}" for joint in joints], butterworth(cutoff))
        except MotionError:
            continue
        if len(read):
            parts.append((true, read))
    if not parts:
        return []
    true, read = (np.concatenate(each) for each in zip(*parts, strict=True))
    moving = true.std(axis=0) > _MOVING
    squares = np.maximum(np.sum(true**2, axis=0), 1e-12)
    gains = np.sum(true * read, axis=0) / squares
    norms = np.sqrt(squares * np.maximum(np.sum(read**2, axis=0), 1e-12))
    correlations = np.sum(true * read, axis=0) / norms
    return _say(model, setup, joints, moving, gains, correlations)


def _say(
    model: Model,
    setup: Setup,
    joints: Sequence[str],
    moving: np.ndarray[tuple[int], np.dtype[np.bool_]],
    gains: np.ndarray[tuple[int], np.dtype[np.float64]],
    correlations: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> list[Finding]:
    turning = np.array([model.joint(joint).kind != "prismatic" for joint in joints])
    in_degrees = moving & turning & (np.abs(gains * UNITS["deg/s"] - 1.0) < _ALIKE)
    if np.count_nonzero(in_degrees) > 0.5 * np.count_nonzero(moving & turning):
        which = [f"v.{joint}" for joint, is_turning in zip(joints, turning, strict=True) if is_turning]
        fix = write_fix(setup, {name: ColumnSource(name, UNITS["deg/s"]) for name in which})
        words = "the joint velocities are in deg/s: they are 57 times the positions' rate of change; write the unit"
        return [Finding("fault", "velocity-unit", "v", words, fix)]
    wrong = moving & ((np.abs(gains - 1.0) > _ALIKE) | (correlations < _CORRELATED))
    if not np.any(wrong):
        return []
    names = [joint for joint, is_wrong in zip(joints, wrong, strict=True) if is_wrong]
    worst = int(np.argmin(np.where(wrong, correlations, np.inf)))
    return [
        Finding(
            "warning",
            "velocity",
            names[0],
            f"the recorded velocity of {in_words([repr(name) for name in names])} is not the rate of change of the "
            f"position (of {joints[worst]!r}, {gains[worst]:.2f} times it, correlation {correlations[worst]:.2f}); "
            "positions alone are used",
        )
    ]
