"""The paper's own way to calibrate: conjugate gradients on the full cost, its gradient by differences."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from steelyard.calibration.starting_states import starting_states

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem

_STEP = 1e-7


class _EnoughError(Exception):
    """Raised when the search is near enough, or has taken too long."""


@dataclass(frozen=True)
class Descent:
    """How the paper's way went.

    Attributes:
        seconds: Until the cost was near enough, or the time was up.
        cost: That it reached.
        reached: Whether it came near enough.
        gradients: How many gradients it took.
    """

    seconds: float
    cost: float
    reached: bool
    gradients: int


class FullCost:
    """[yamane2011] Eqs. (1) to (5) over offsets and root orientations, all poses at once in numpy."""

    def __init__(self, problem: CalibrationProblem, distance: float) -> None:
        self.problem, self.distance = problem, distance
        self.start = starting_states(problem)[0]
        self.count = len(problem.poses)
        self.offsets = len(problem.joints)
        self.points = distance * np.eye(3)

    def by_pose(self, unknowns: FloatArray) -> FloatArray:
        """Gives ``½ (L_k + C_k)`` of each pose, shape (n_poses,)."""
        problem = self.problem
        positions = np.array(problem.poses.positions)
        positions[:, problem.chains.columns[problem.free]] += unknowns[: self.offsets]
        places = problem.chains.place(positions)
        turns = Rotation.from_rotvec(unknowns[self.offsets :].reshape(-1, 3)).as_matrix()
        root = turns @ self.start.root
        total = np.zeros(self.count)
        for name in problem.imus:
            frame = problem.chains.frames.index(problem.imu_frames[name])
            total += np.sum(((root @ places.rotations[frame] - problem.measured[name]) @ self.points) ** 2, axis=(1, 2))
        heights = []
        for contact in problem.contacts:
            frame = problem.chains.frames.index(contact.frame)
            inside = np.einsum("nij,cj->nci", places.rotations[frame], contact.vertices)
            inside += places.positions[frame][:, None]
            heights.append(np.einsum("ni,nci->nc", root[:, 2], inside))
        total += np.var(np.concatenate(heights, axis=1), axis=1)
        return np.asarray(0.5 * total)

    def gradient(self, unknowns: FloatArray, *, apart: bool) -> FloatArray:
        """Gives the gradient by forward differences.

        Args:
            unknowns: Where.
            apart: Whether it is known that an orientation changes its own pose alone, so that one difference serves all
                poses at once. The paper does not say so.
        """
        found = np.empty(len(unknowns))
        here = self.by_pose(unknowns)
        total = here.sum()
        for number in range(self.offsets if apart else len(unknowns)):
            moved = np.array(unknowns)
            moved[number] += _STEP
            found[number] = (self.by_pose(moved).sum() - total) / _STEP
        if apart:
            for axis in range(3):
                moved = np.array(unknowns)
                moved[self.offsets + axis :: 3] += _STEP
                found[self.offsets + axis :: 3] = (self.by_pose(moved) - here) / _STEP
        return found


def descend(
    problem: CalibrationProblem, distance: float, enough: float, seconds: float, *, apart: bool = False
) -> Descent:
    """Minimises the full cost by conjugate gradients until it is at most `enough`, or the time is up."""
    cost = FullCost(problem, distance)
    begin = time.perf_counter()
    best = np.inf
    gradients = 0

    def value(unknowns: FloatArray) -> float:
        nonlocal best
        found = float(cost.by_pose(unknowns).sum())
        best = min(best, found)
        if best <= enough or time.perf_counter() - begin > seconds:
            raise _EnoughError
        return found

    def slope(unknowns: FloatArray) -> FloatArray:
        nonlocal gradients
        gradients += 1
        if time.perf_counter() - begin > seconds:
            raise _EnoughError
        return cost.gradient(unknowns, apart=apart)

    size = cost.offsets + 3 * cost.count
    with suppress(_EnoughError):
        minimize(value, np.zeros(size), jac=slope, method="CG", options={"maxiter": 100_000, "gtol": 1e-14})
    return Descent(time.perf_counter() - begin, best, best <= enough, gradients)
