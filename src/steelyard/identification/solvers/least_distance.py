"""Least squares under inequalities, as the distance of a point from a polyhedron.

``min ‖M x − c‖²  subject to  G x ≥ h`` becomes ``min ‖u‖²  subject to  G̃ u ≥ h̃`` in the coordinates of ``M``'s own
singular vectors (Lawson and Hanson, *Solving Least Squares Problems*, chapter 23): ``MᵀM`` is never formed. A dual
active set (DAQP) solves that, and begins again where it was when inequalities are added. Directions that ``M`` does not
see are held near where they were, and let go step by step (proximal points), so that they take no part in the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import daqp
import numpy as np
from scipy.linalg import qr, qr_delete, solve_triangular
from scipy.optimize import nnls

from steelyard.exceptions import SolverError
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]
    IntArray = np.ndarray[Any, np.dtype[np.int64]]

RANK = 1e-11
"""Share of the greatest singular value below which a direction counts as not seen."""

_HELD, _LOOSER, _LOOSEST = 1e-2, 0.3, 1e-4
"""Weight that holds directions which are not seen, beside the least singular value that is; how it falls from step to
step, and to what."""

_SETTLED = 1e-9
"""Part of the slope that holding may be answerable for at a minimum."""

_FLOOR = 1e-7
"""Part of the greatest slope, and of the greatest cost, beside which what is left counts as nothing."""

_TIGHT, _NEARLY, _CLOSE = 1e-13, 1e-11, 1e-9
"""How far rows of length one may be broken at an exact point, where that is not to be had, and at a point that no
solver could make exact; where nothing is done, the worst is broken by one."""

_PUSH, _SLIGHT = 1e-13, 1e-9
_DEPENDENT = 1e-10
_NO_ROOM = 1e-13
_SOLVED = 1
_MOST_EXCHANGES = 1000
_REMEDY = (
    "no solver came to an end; constraints that nearly contradict each other do this, and data that pull at what they "
    "hardly see: loosen a constraint, or ask less of the data (a greater alpha, a smaller c_max)"
)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The minimum of a least-squares problem under inequalities.

    Attributes:
        place: ``x``, shape (n,).
        multipliers: Of the inequalities in the order in which they were added, at least zero, shape (m,); for half the
            squared norm.
        stationarity: ``‖Mᵀ(M x − c) − Gᵀ λ‖`` beside `size`.
        violation: The most by which a row, scaled to length one, is broken.
        complementarity: The greatest ``λ_i (G x − h)_i``, rows scaled to length one, beside the cost.
        settled: Whether it is the minimum, and not a step on the way there.
        size: The greater of the slope and the push of what binds, or a ten-millionth of the greatest slope; a push
            that is less counts as none.
    """

    place: FloatArray
    multipliers: FloatArray
    stationarity: float
    violation: float
    complementarity: float
    settled: bool
    size: float


class LeastDistance:
    """The problem ``min ‖matrix x − right‖²``, to which inequalities are added."""

    def __init__(self, matrix: FloatArray, right: FloatArray, near: FloatArray, least: float = 0.0) -> None:
        """Prepares the problem.

        Args:
            matrix: ``M``, shape (any, n).
            right: ``c``.
            near: Where directions that the matrix does not see are looked for, shape (n,).
            least: Singular values up to this are rounding.
        """
        count = matrix.shape[1]
        if len(matrix) > count:
            basis, triangle = qr(matrix, mode="economic")
            matrix, right = triangle, basis.T @ right
        self._matrix, self._right = matrix, right
        size = float(right @ right)
        self._least = max(_FLOOR * size, 1e-300)
        self._steepest = max(_FLOOR * float(np.linalg.norm(matrix)) * np.sqrt(size), 1e-300)
        left, values, self._rotation = complete_vectors(matrix)
        kept = int(np.count_nonzero(values > max(least, RANK * np.max(values, initial=0.0))))
        self._seen = kept
        self._firm = float(values[kept - 1]) if kept else 1.0
        scales = np.full(count, _HELD * self._firm)
        scales[:kept] = values[:kept]
        self._scales = scales
        self._goal = np.concatenate([left[:, :kept].T @ right, np.zeros(count - kept)])
        self._near = self._rotation @ near
        self._rows, self._lower = np.zeros((0, count)), np.zeros(0)
        self._turned, self._lengths = np.zeros((0, count)), np.zeros(0)
        self._warm = np.zeros(0, dtype=np.bool_)

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
        self._warm = np.concatenate([self._warm, np.zeros(len(lower), dtype=np.bool_)])

    def solve(self) -> Nearest | None:
        """Takes one step: gives a point that satisfies the inequalities, or None where there is none.

        The point is the minimum if it is `settled`; else the next step goes on from it.

        Raises:
            SolverError: Neither of two solvers came to an end.
        """
        goal = self._goal.copy()
        goal[self._seen :] = self._scales[self._seen :] * self._near[self._seen :]
        found = self._project(goal)
        if found is None:
            return None
        distance, multipliers = found
        scales = self._scales[self._seen :].copy()
        held, self._near = self._near, (goal + distance) / self._scales
        # What holds a direction that is not seen is no part of the problem: it must vanish.
        pull = np.square(scales) * (self._near - held)[self._seen :]
        return self._certify(self._rotation.T @ self._near, multipliers / self._lengths, float(np.linalg.norm(pull)))

    def loosen(self) -> None:
        """Holds directions that are not seen less than before, for the next step to be longer."""
        if self._seen == len(self._scales):
            return
        factor = max(_LOOSER, _LOOSEST * self._firm / float(self._scales[-1]))
        self._scales[self._seen :] *= factor
        self._turned[:, self._seen :] /= factor

    def _project(self, goal: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Gives the shortest ``u`` with ``G̃ (u + goal) ≥ h``, and the multipliers of the rows scaled to length one."""
        if not len(self):
            return np.zeros(len(goal)), np.zeros(0)
        lengths = np.linalg.norm(self._turned, axis=1)
        rows = self._turned / lengths[:, None]
        lower = self._lower / self._lengths / lengths - rows @ goal
        scale = float(np.max(lower))
        if scale <= 0.0:
            self._warm[:] = False
            return np.zeros(len(goal)), np.zeros(len(self))
        found = _shortest(rows, lower / scale, self._warm)
        if found is None:
            return None
        distance, multipliers = found
        self._warm = multipliers > 0.0
        return scale * distance, scale * multipliers / lengths

    def _certify(self, place: FloatArray, multipliers: FloatArray, pull: float) -> Nearest:
        if not len(self._matrix):  # nothing pushes: any point that satisfies the rows will do
            multipliers = np.zeros(len(self))
        left = self._matrix @ place - self._right
        slope, push = self._matrix.T @ left, self._rows.T @ multipliers
        size = max(float(np.linalg.norm(slope)), float(np.linalg.norm(push)), self._steepest)
        margins = (self._rows @ place - self._lower) / self._lengths
        slack = float(np.max(np.abs(multipliers * self._lengths * margins), initial=0.0))
        return Nearest(
            place,
            multipliers,
            float(np.linalg.norm(slope - push) / size),
            max(0.0, float(np.max(-margins, initial=0.0))),
            slack / max(float(left @ left), self._least),
            pull <= _SETTLED * size or not len(self._matrix),
            float(size),
        )


def _shortest(rows: FloatArray, lower: FloatArray, warm: BoolArray) -> tuple[FloatArray, FloatArray] | None:
    """Gives the shortest ``u`` with ``rows u ≥ lower`` and the multipliers of the rows, which have length one.

    None where no point satisfies the rows.
    """
    found = _go_on(rows, lower, np.flatnonzero(warm)) if np.any(warm) else None
    if found is not None:
        return found
    multipliers, status = _by_active_set(rows, lower)
    if status == _SOLVED:
        found = _go_on(rows, lower, np.flatnonzero(multipliers))
        if found is not None:
            return found
    place, multipliers = _by_least_squares(rows, lower)
    if not len(place):
        return None
    for tight in (_TIGHT, _NEARLY):
        found = _go_on(rows, lower, np.flatnonzero(multipliers), tight)
        if found is not None:
            return found
    apart = float(np.linalg.norm(place - rows.T @ multipliers))
    if apart <= _CLOSE * float(np.linalg.norm(place)) and float(np.max(lower - rows @ place)) <= _CLOSE:
        return place, multipliers
    raise SolverError(_REMEDY)


def _go_on(
    rows: FloatArray, lower: FloatArray, active: IntArray, tight_enough: float = _TIGHT
) -> tuple[FloatArray, FloatArray] | None:
    """Goes on from rows that were tight, one row after the other, to the minimum: Goldfarb and Idnani's dual method.

    It works on a ``Q R`` decomposition of the tight rows. None where it finds no room, or no end: another solver then
    has the word.
    """
    active, basis, triangle = _independent(rows, active)
    while True:
        steps = solve_triangular(triangle, lower[active], trans="T")
        pushes = solve_triangular(triangle, steps)
        if not np.any(pushes < 0.0):
            break
        active, basis, triangle = _independent(rows, active[pushes >= 0.0])
    place, tight = basis @ steps, list(active)
    for _ in range(_MOST_EXCHANGES):
        missing = lower - rows @ place
        missing[tight] = 0.0
        row = int(np.argmax(missing))
        if missing[row] <= tight_enough:
            return _exactly(rows, lower, basis, triangle, np.array(tight, dtype=np.int64), tight_enough)
        lack, push = float(missing[row]), 0.0
        while True:
            along = basis.T @ rows[row]
            rest = rows[row] - basis @ along
            again = basis.T @ rest  # twice is enough
            along, rest = along + again, rest - basis @ again
            room = float(rest @ rest)
            away = solve_triangular(triangle, along)
            falling = away > _PUSH
            limits = np.full(len(tight), np.inf)
            limits[falling] = pushes[falling] / away[falling]
            leaving = int(np.argmin(limits)) if len(limits) else -1
            most = float(limits[leaving]) if len(limits) else np.inf
            full = lack / room if room > _DEPENDENT**2 else np.inf
            step = min(most, full)
            if not np.isfinite(step):
                return None
            pushes, push = np.maximum(pushes - step * away, 0.0), push + step
            if np.isfinite(full):
                place, lack = place + step * rest, lack - step * room
            if full <= most:
                length = np.sqrt(room)
                basis = np.column_stack([basis, rest / length])
                triangle = np.block([[triangle, along[:, None]], [np.zeros((1, len(tight))), np.array([[length]])]])
                tight.append(row)
                pushes = np.append(pushes, push)
                break
            basis, triangle = qr_delete(basis, triangle, leaving, which="col", check_finite=False)
            basis, triangle = basis[:, : len(tight) - 1], triangle[: len(tight) - 1]
            del tight[leaving]
            pushes = np.delete(pushes, leaving)
    return None


def _exactly(
    rows: FloatArray, lower: FloatArray, basis: FloatArray, triangle: FloatArray, tight: IntArray, enough: float
) -> tuple[FloatArray, FloatArray] | None:
    """Gives the point at which rows are tight, free of what rounding has piled up; None if it is not the minimum."""
    steps = solve_triangular(triangle, lower[tight], trans="T")
    place, multipliers = basis @ steps, np.zeros(len(rows))
    pushes = solve_triangular(triangle, steps)
    greatest = float(np.max(np.abs(pushes), initial=0.0))
    if np.min(pushes, initial=0.0) < -_SLIGHT * greatest or float(np.max(lower - rows @ place)) > 10.0 * enough:
        return None
    multipliers[tight] = np.maximum(pushes, 0.0)
    return place, multipliers


def _independent(rows: FloatArray, active: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Gives rows without those that depend on rows before them, and their ``Q R`` decomposition as columns."""
    while True:
        basis, triangle = qr(rows[active].T, mode="economic")
        height = min(triangle.shape)
        sound = np.abs(np.diagonal(triangle)) > _DEPENDENT
        if len(active) == height and np.all(sound):
            return active, basis, triangle
        active = active[:height][sound]


def _by_active_set(rows: FloatArray, lower: FloatArray) -> tuple[FloatArray, int]:
    """Asks DAQP, without Hessian and slope: the least distance itself. Gives multipliers and its status."""
    _, _, status, info = daqp.solve(
        None,
        None,
        np.ascontiguousarray(rows),
        np.full(len(rows), 1e30),
        np.ascontiguousarray(lower),
        np.zeros(len(rows), dtype=np.int32),
        primal_tol=1e-11,
        iter_limit=20 * sum(rows.shape),
    )
    return np.maximum(-np.asarray(info["lam"]), 0.0), int(status)


def _by_least_squares(rows: FloatArray, lower: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Asks for the same as non-negative least squares, Lawson and Hanson's (23.10)-(23.32); empty where none is."""
    count = rows.shape[1]
    goal = np.zeros(count + 1)
    goal[-1] = 1.0
    stacked = np.concatenate([rows.T, lower[None, :]])
    try:
        weights, _ = nnls(stacked, goal, maxiter=20 * sum(rows.shape))
    except RuntimeError as error:
        raise SolverError(_REMEDY) from error
    left = stacked @ weights - goal
    if -left[-1] <= _NO_ROOM:
        return np.zeros(0), np.zeros(0)
    return -left[:-1] / left[-1], -weights / left[-1]
