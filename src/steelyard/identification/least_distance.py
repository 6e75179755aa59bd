"""Least squares under inequalities, as the distance of a point from a polyhedron.

``min ‖M x − c‖²  subject to  G x ≥ h`` becomes ``min ‖u‖²  subject to  G̃ u ≥ h̃`` in the coordinates of ``M``'s own
singular vectors (Lawson and Hanson, *Solving Least Squares Problems*, chapter 23): ``MᵀM`` is never formed. A dual
active set (DAQP) solves that, and begins again where it was when inequalities are added. Directions that ``M`` does not
see are held near where they were, and let go step by step (proximal points), so that they take no part in the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import clarabel
import daqp
import numpy as np
from scipy.linalg import qr
from scipy.sparse import csc_matrix, eye_array

from steelyard.exceptions import SolverError
from steelyard.regression.decomposition import complete_vectors

if TYPE_CHECKING:
    from steelyard.model.parameters import FloatArray

RANK = 1e-11
"""Share of the greatest singular value below which a direction counts as not seen."""

_HELD = 1e-2
"""Weight that holds directions which are not seen, beside the least singular value that is."""

_SETTLED = 1e-13
_MOST_STEPS = 60
_TIGHT = 1e-11
_SOLVED, _INFEASIBLE = 1, -1
_DEPENDENT = 1e-10
_CLOSE = 1e-10


@dataclass(frozen=True, eq=False)
class Nearest:
    """The minimum of a least-squares problem under inequalities.

    Attributes:
        place: ``x``, shape (n,).
        multipliers: Of the inequalities in the order in which they were added, at least zero, shape (m,); for half the
            squared norm.
        stationarity: ``‖Mᵀ(M x − c) − Gᵀ λ‖`` beside the greater of its two terms.
        violation: The most by which a row, scaled to length one, is broken.
        complementarity: The greatest ``λ_i (G x − h)_i``, rows scaled to length one, beside the cost.
    """

    place: FloatArray
    multipliers: FloatArray
    stationarity: float
    violation: float
    complementarity: float


class LeastDistance:
    """The problem ``min ‖matrix x − right‖²``, to which inequalities are added."""

    def __init__(self, matrix: FloatArray, right: FloatArray, near: FloatArray) -> None:
        """Prepares the problem.

        Args:
            matrix: ``M``, shape (any, n).
            right: ``c``.
            near: Where directions that the matrix does not see are looked for, shape (n,).
        """
        count = matrix.shape[1]
        if len(matrix) > count:
            basis, triangle = qr(matrix, mode="economic")
            matrix, right = triangle, basis.T @ right
        self._matrix, self._right = matrix, right
        left, values, self._rotation = complete_vectors(matrix)
        kept = int(np.count_nonzero(values > RANK * np.max(values, initial=0.0)))
        self._seen = kept
        scales = np.full(count, _HELD * (values[kept - 1] if kept else 1.0))
        scales[:kept] = values[:kept]
        self._scales = scales
        self._goal = np.concatenate([left[:, :kept].T @ right, np.zeros(count - kept)])
        self._near = self._rotation @ near
        self._rows, self._lower = np.zeros((0, count)), np.zeros(0)
        self._turned, self._lengths = np.zeros((0, count)), np.zeros(0)
        self._warm = np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._lower)

    def add(self, rows: FloatArray, lower: FloatArray) -> None:
        """Adds inequalities ``rows x ≥ lower``; rows of zeros are for the caller to leave out."""
        lengths = np.linalg.norm(rows, axis=1)
        turned = (rows / lengths[:, None]) @ self._rotation.T / self._scales
        self._rows = np.concatenate([self._rows, rows])
        self._lower = np.concatenate([self._lower, lower])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._turned = np.concatenate([self._turned, turned])
        self._warm = np.concatenate([self._warm, np.zeros(len(lower), dtype=np.int32)])

    def solve(self) -> Nearest | None:
        """Gives the minimum, or None where nothing satisfies the inequalities.

        Raises:
            SolverError: Neither of two solvers came to an end.
        """
        held = self._near.copy()
        for _ in range(_MOST_STEPS):
            goal = self._goal.copy()
            goal[self._seen :] = self._scales[self._seen :] * held[self._seen :]
            found = self._project(goal)
            if found is None:
                return None
            distance, multipliers = found
            turned = (goal + distance) / self._scales
            moved = float(np.max(np.abs(turned[self._seen :] - held[self._seen :]), initial=0.0))
            if not np.any(multipliers > 0.0) or moved <= _SETTLED * (1.0 + float(np.max(np.abs(turned)))):
                break
            held = turned
        self._near = turned
        return self._certify(self._rotation.T @ turned, multipliers / self._lengths)

    def _project(self, goal: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Gives the shortest ``u`` with ``G̃ (u + goal) ≥ h``, and the multipliers of the rows scaled to length one."""
        if not len(self):
            return np.zeros(len(goal)), np.zeros(0)
        lengths = np.linalg.norm(self._turned, axis=1)
        rows = self._turned / lengths[:, None]
        lower = self._lower / self._lengths / lengths - rows @ goal
        scale = float(np.max(lower))
        if scale <= 0.0:
            self._warm[:] = 0
            return np.zeros(len(goal)), np.zeros(len(self))
        found = _shortest(rows, lower / scale, self._warm)
        if found is None:
            return None
        distance, multipliers = found
        self._warm = (multipliers > 0.0).astype(np.int32)
        return scale * distance, scale * multipliers / lengths

    def _certify(self, place: FloatArray, multipliers: FloatArray) -> Nearest:
        left = self._matrix @ place - self._right
        slope, push = self._matrix.T @ left, self._rows.T @ multipliers
        size = max(float(np.linalg.norm(slope)), float(np.linalg.norm(push)), 1e-300)
        margins = (self._rows @ place - self._lower) / self._lengths
        slack = float(np.max(np.abs(multipliers * self._lengths * margins), initial=0.0))
        cost = max(float(left @ left), 1e-300)
        return Nearest(
            place,
            multipliers,
            float(np.linalg.norm(slope - push)) / size if np.any(multipliers > 0.0) else 0.0,
            max(0.0, float(np.max(-margins, initial=0.0))),
            slack / cost if np.any(multipliers > 0.0) else 0.0,
        )


def _shortest(rows: FloatArray, lower: FloatArray, warm: np.ndarray) -> tuple[FloatArray, FloatArray] | None:
    """Gives the shortest ``u`` with ``rows u ≥ lower`` and the multipliers of the rows, which have length one."""
    status = 0
    for start in (warm, np.zeros_like(warm)):
        place, multipliers, status = _by_active_set(rows, lower, start)
        if status == _SOLVED:
            polished = _polish(rows, lower, multipliers)
            if polished is not None:
                return polished
            if _holds(rows, lower, place, multipliers):
                return place, multipliers
        if not np.any(warm):
            break
    second = _by_interior_point(rows, lower)
    if second is not None:
        return _polish(rows, lower, second[1]) or second
    if status == _INFEASIBLE:
        return None
    raise SolverError(
        "neither an active set nor an interior point came to an end; constraints that nearly contradict each other do "
        "this: loosen one"
    )


def _holds(rows: FloatArray, lower: FloatArray, place: FloatArray, multipliers: FloatArray) -> bool:
    apart = float(np.linalg.norm(place - rows.T @ multipliers))
    return apart <= _CLOSE * float(np.linalg.norm(place)) and float(np.max(lower - rows @ place)) <= _CLOSE


def _by_active_set(rows: FloatArray, lower: FloatArray, warm: np.ndarray) -> tuple[FloatArray, FloatArray, int]:
    count = rows.shape[1]
    place, _, status, info = daqp.solve(
        np.eye(count),
        np.zeros(count),
        np.ascontiguousarray(rows),
        np.full(len(rows), 1e30),
        np.ascontiguousarray(lower),
        np.array(warm, dtype=np.int32),
        primal_tol=_TIGHT,
        iter_limit=20 * (count + len(rows)),
    )
    return np.asarray(place), np.maximum(-np.asarray(info["lam"]), 0.0), int(status)


def _by_interior_point(rows: FloatArray, lower: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    count = rows.shape[1]
    answer = clarabel.DefaultSolver(
        csc_matrix(eye_array(count)),
        np.zeros(count),
        csc_matrix(-rows),
        -lower,
        [clarabel.NonnegativeConeT(len(rows))],
        settings,
    ).solve()
    if str(answer.status) not in ("Solved", "AlmostSolved"):
        return None
    multipliers = np.array(answer.z)
    slack = np.array(answer.s)
    return np.array(answer.x), np.where(multipliers > slack, multipliers, 0.0)


def _polish(rows: FloatArray, lower: FloatArray, multipliers: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Gives the exact point for the rows that bind, or None where these are not the right ones."""
    active = np.flatnonzero(multipliers > 0.0)
    basis, triangle, order = qr(rows[active].T, mode="economic", pivoting=True)
    if len(active) and abs(triangle[-1, -1]) <= _DEPENDENT * abs(triangle[0, 0]):
        return None
    steps = np.linalg.solve(triangle.T, lower[active][order]) if len(active) else np.zeros(0)
    place = basis @ steps
    exact = np.zeros(len(rows))
    exact[active[order]] = np.linalg.solve(triangle, steps) if len(active) else 0.0
    size = float(np.max(np.abs(exact), initial=0.0))
    if np.min(exact, initial=0.0) < -1e-9 * size or float(np.max(lower - rows @ place)) > _TIGHT:
        return None
    return place, np.maximum(exact, 0.0)
