"""Heights of contact corners over their plane: what calibration reduces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, State


def corner_heights(problem: CalibrationProblem, state: State) -> FloatArray:
    """Compute the height of each corner over the mean of its plane, shape (n_poses, n_corners), m.

    Corners are ordered contact by contact; those of a contact that did not touch are NaN.

    Args:
        problem: The problem.
        state: Offsets and orientations.
    """
    positions = np.array(problem.poses.positions)
    positions[:, problem.chains.columns] += state.offsets
    places = problem.chains.place(positions)
    parts, planes = [], []
    for contact in problem.contacts:
        frame = problem.chains.frames.index(contact.frame)
        inside = places.positions[frame][:, None] + np.einsum("nij,cj->nci", places.rotations[frame], contact.vertices)
        heights = np.einsum("ni,nci->nc", state.root[:, 2], inside)
        parts.append(np.where(problem.poses.touches(contact.name)[:, None], heights, np.nan))
        planes += [contact.plane] * len(contact.vertices)
    if not parts:
        return np.zeros((len(positions), 0))
    joined = np.concatenate(parts, axis=1)
    for plane in problem.planes:
        columns = np.flatnonzero(np.array(planes) == plane)
        there = np.isfinite(joined[:, columns])
        mean = np.nansum(joined[:, columns], axis=1) / np.maximum(there.sum(axis=1), 1)
        joined[:, columns] -= mean[:, None]
    return joined


def rms(values: FloatArray) -> float:
    """Return the root mean square of the finite values."""
    there = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(there**2))) if len(there) else float("nan")
