"""Recorded joint velocities compared with differentiated positions."""

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

    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.model import Model, Setup
    from steelyard.recording import Recording

_MOVING = 0.02
"""Standard deviation (rad/s, m/s) of the velocity above which a joint is checked. Set by judgement: above the noise of
velocities cut off at 5 Hz."""

_GAIN_TOLERANCE = 0.2
"""Tolerated relative error of a velocity's gain. Set by judgement: drives filter velocities; wrong units are far
off."""

_CORRELATED = 0.9
"""Correlation below which a velocity is wrong. Set by judgement: delays of drives leave more."""


def check_velocities(model: Model, setup: Setup, segments: Sequence[Recording], cutoff: float) -> list[Finding]:
    """Return findings about joints whose recorded velocity is not the derivative of their position.

    Args:
        model: The model.
        setup: The setup whose map was applied when the recording was read.
        segments: Evenly sampled segments in memory, with positions and velocities.
        cutoff: Cutoff of the comparison, Hz.
    """
    columns = segments[0].values
    joints = [
        joint
        for joint in model.joints
        if f"v.{joint}" in columns and f"q.{joint}" in columns and model.joint(joint).velocity_size == 1
    ]
    if not joints:
        return []
    parts = []
    for segment in segments:
        try:
            true = smooth_columns(segment, [f"q.{joint}" for joint in joints], butterworth(cutoff), derivative=1)
            read = smooth_columns(segment, [f"v.{joint}" for joint in joints], butterworth(cutoff))
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
    return _report(model, setup, joints, moving, gains, correlations)


def _report(
    model: Model, setup: Setup, joints: Sequence[str], moving: BoolArray, gains: FloatArray, correlations: FloatArray
) -> list[Finding]:
    rotating = np.array([model.joint(joint).kind != "prismatic" for joint in joints])
    in_degrees = moving & rotating & (np.abs(gains * UNITS["deg/s"] - 1.0) < _GAIN_TOLERANCE)
    if np.count_nonzero(in_degrees) > 0.5 * np.count_nonzero(moving & rotating):
        which = [f"v.{joint}" for joint, rotates in zip(joints, rotating, strict=True) if rotates]
        fix = write_fix(setup, {name: ColumnSource(name, UNITS["deg/s"]) for name in which})
        words = (
            "the joint velocities are in deg/s: they are 57 times the positions' derivatives; state the unit in the "
            "setup"
        )
        return [Finding("fault", "velocity-unit", "v", words, fix)]
    wrong = moving & ((np.abs(gains - 1.0) > _GAIN_TOLERANCE) | (correlations < _CORRELATED))
    if not np.any(wrong):
        return []
    names = [joint for joint, is_wrong in zip(joints, wrong, strict=True) if is_wrong]
    worst = int(np.argmin(np.where(wrong, correlations, np.inf)))
    return [
        Finding(
            "warning",
            "velocity",
            names[0],
            f"the recorded velocity of {in_words([repr(name) for name in names])} is not the derivative of the "
            f"position (of {joints[worst]!r}, {gains[worst]:.2f} times it, correlation {correlations[worst]:.2f}); "
            "only positions are used",
        )
    ]
