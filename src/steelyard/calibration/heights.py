"""How high the corners of contacts are over their plane: what calibration brings down, and what one can look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.problem import Problem, State


def corner_heights(problem: Problem, state: State) -> FloatArray:
    """Gives the height of each corner over the mean of its plane, shape (n_poses, n_corners), m.

    Corners stand contact by contact; those of a contact that was not on its place are not a number.

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
    """Gives the root mean square of what is there."""
    there = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(there**2))) if len(there) else float("nan")
