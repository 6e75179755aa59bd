"""Least squares under inequalities, as the distance of a point from a polyhedron.

``min ‖M x − c‖²  subject to  G x ≥ h`` becomes ``min ‖u‖²  subject to  G̃ u ≥ h̃`` in the coordinates of ``M``'s own
singular vectors (Lawson and Hanson, *Solving Least Squares Problems*, chapter 23): ``MᵀM`` is never formed. DAQP, a
dual active-set method, solves the first problem of a sequence; when inequalities are added, a dual method continues
from the active set (docs/decisions/0017). Directions in the null space of ``M`` are regularised by a proximal term that
is relaxed step by step, so that it takes no part in the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import daqp
import numpy as np
from scipy.linalg import qr, qr_delete, solve_triangular
from scipy.optimize import nnls

from steelyard.exceptions import SolverError
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray, IntArray

RANK = 1e-11
"""Share of the greatest singular value below which a direction is in the null space. Set by judgement: rounding of a
few hundred unknowns is at 1e-13."""

_PROXIMAL, _LOOSER, _LOOSEST = 1e-2, 0.3, 1e-4
"""Weight of the proximal term relative to the least singular value above rounding; its factor from step to step; and
the least weight. Set by judgement: small enough for few steps, large enough for well-conditioned ones."""

_SETTLED = 1e-9
"""Share of the gradient that the proximal term may have at a minimum. Set by judgement: far below the accuracy that is
asked of solutions (1e-6)."""

_FLOOR = 1e-7
"""Share of the greatest gradient, and of the greatest cost, that residuals are compared with at least. Set by
judgement: about the root of double precision."""

_TIGHT, _NEARLY, _CLOSE = 1e-13, 1e-11, 1e-9
"""Greatest violation of rows of length one at an exact point; where that is not reached; and of a point that no solver
could refine. At the origin the greatest is one. Set by judgement: rounding, and a hundred times it, twice."""

_FALLING, _SLIGHT = 1e-13, 1e-9
"""Rate from which a multiplier counts as falling, and relative size up to which a negative one is rounding. Set by
judgement: double precision, and what ill-conditioned active sets make of it."""

_DEPENDENT = 1e-10
"""Length of the independent part of a row of length one, below which it depends on others. Set by judgement: less would
leave multipliers without correct digits."""

_NO_ROOM = 1e-13
"""Residual of non-negative least squares that shows infeasibility; it is one at most. Set by judgement: rounding."""

_SOLVED = 1
"""DAQP's exit flag of an optimal solution."""

_MOST_EXCHANGES = 1000
"""Most exchanges of active rows. Set by judgement: a few times the unknowns of a humanoid."""

_REMEDY = (
    "no solver converged; constraints nearly contradict each other, or the data hardly observe what they decide: "
    "loosen a constraint, or ask less of the data (a greater alpha, a smaller c_max)"
)


@dataclass(frozen=True, eq=False)
class NearestPoint:
    """A point nearest to the unconstrained minimum, under inequalities.

    Attributes:
        point: ``x``, shape (n,).
        multipliers: Of the inequalities in the order in which they were added, at least zero, shape (m,); for half the
            squared norm.
        stationarity: ``‖Mᵀ(M x − c) − Gᵀ λ‖`` relative to `size`.
        violation: The greatest violation of a row, scaled to length one.
        complementarity: The greatest ``λ_i (G x − h)_i``, rows scaled to length one, relative to the cost.
        settled: Whether it is the minimum, and not a proximal step towards it.
        size: The greater of the norms of the gradient and of ``Gᵀ λ``, or a ten-millionth of the greatest gradient.
    """

    point: FloatArray
    multipliers: FloatArray
    stationarity: float
    violation: float
    complementarity: float
    settled: bool
    size: float


class LeastDistance:
    """The problem ``min ‖matrix x − right‖²`` under inequalities that are added one by one."""

    def __init__(self, matrix: FloatArray, right: FloatArray, centre: FloatArray, least: float = 0.0) -> None:
        """Decompose the problem.

        Args:
            matrix: ``M``, shape (any, n).
            right: ``c``.
            centre: Of the proximal term in the null space of the matrix, shape (n,).
            least: Singular values up to this are rounding.
        """
        count = matrix.shape[1]
        if len(matrix) > count:
            basis, triangle = qr(matrix, mode="economic")
            matrix, right = triangle, basis.T @ right
        self._matrix, self._right = matrix, right
        size = float(right @ right)
        self._least = max(_FLOOR * size, 1e-300)
        self._least_gradient = max(_FLOOR * float(np.linalg.norm(matrix)) * np.sqrt(size), 1e-300)
        left, values, self._rotation = complete_vectors(matrix)
        kept = int(np.count_nonzero(values > max(least, RANK * np.max(values, initial=0.0))))
        self._rank = kept
        self._least_value = float(values[kept - 1]) if kept else 1.0
        scales = np.full(count, _PROXIMAL * self._least_value)
        scales[:kept] = values[:kept]
        self._scales = scales
        self._goal = np.concatenate([left[:, :kept].T @ right, np.zeros(count - kept)])
        self._centre = self._rotation @ centre
        self._rows, self._lower = np.zeros((0, count)), np.zeros(0)
        self._turned, self._lengths = np.zeros((0, count)), np.zeros(0)
        self._warm = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._lower)

    def add(self, rows: FloatArray, lower: FloatArray) -> None:
        """Add inequalities ``rows x ≥ lower``, of which no row is zero."""
        lengths = np.linalg.norm(rows, axis=1)
        turned = (rows / lengths[:, None]) @ self._rotation.T / self._scales
        self._rows = np.concatenate([self._rows, rows])
        self._lower = np.concatenate([self._lower, lower])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._turned = np.concatenate([self._turned, turned])
        self._warm = np.concatenate([self._warm, np.zeros(len(lower), dtype=np.bool_)])

    def solve(self) -> NearestPoint | None:
        """Return the point of one proximal step, or None where the inequalities are infeasible.

        It is the minimum if it is `settled`; else the next step continues from it.

        Raises:
            SolverError: No solver converged.
        """
        goal = self._goal.copy()
        goal[self._rank :] = self._scales[self._rank :] * self._centre[self._rank :]
        found = self._project(goal)
        if found is None:
            return None
        distance, multipliers = found
        scales = self._scales[self._rank :].copy()
        held, self._centre = self._centre, (goal + distance) / self._scales
        # The proximal term is no part of the problem: its gradient must vanish.
        proximal = np.square(scales) * (self._centre - held)[self._rank :]
        return self._certify(
            self._rotation.T @ self._centre, multipliers / self._lengths, float(np.linalg.norm(proximal))
        )

    def loosen(self) -> None:
        """Lower the weight of the proximal term, for the next step to be longer."""
        if self._rank == len(self._scales):
            return
        factor = max(_LOOSER, _LOOSEST * self._least_value / float(self._scales[-1]))
        self._scales[self._rank :] *= factor
        self._turned[:, self._rank :] /= factor

    def _project(self, goal: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the shortest ``u`` with ``G̃ (u + goal) ≥ h``, and the multipliers of the rows scaled to length one."""
        if not len(self):
            return np.zeros(len(goal)), np.zeros(0)
        lengths = np.linalg.norm(self._turned, axis=1)
        rows = self._turned / lengths[:, None]
        lower = self._lower / self._lengths / lengths - rows @ goal
        scale = float(np.max(lower))
        if scale <= 0.0:
            self._warm[:] = False
            return np.zeros(len(goal)), np.zeros(len(self))
        found = _find_shortest(rows, lower / scale, self._warm)
        if found is None:
            return None
        distance, multipliers = found
        self._warm = multipliers > 0.0
        return scale * distance, scale * multipliers / lengths

    def _certify(self, point: FloatArray, multipliers: FloatArray, proximal: float) -> NearestPoint:
        if not len(self._matrix):  # no cost: any feasible point will do
            multipliers = np.zeros(len(self))
        left = self._matrix @ point - self._right
        gradient, dual = self._matrix.T @ left, self._rows.T @ multipliers
        size = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(dual)), self._least_gradient)
        margins = (self._rows @ point - self._lower) / self._lengths
        slack = float(np.max(np.abs(multipliers * self._lengths * margins), initial=0.0))
        return NearestPoint(
            point,
            multipliers,
            float(np.linalg.norm(gradient - dual) / size),
            max(0.0, float(np.max(-margins, initial=0.0))),
            slack / max(float(left @ left), self._least),
            proximal <= _SETTLED * size or not len(self._matrix),
            float(size),
        )


def _find_shortest(rows: FloatArray, lower: FloatArray, warm: BoolArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the shortest ``u`` with ``rows u ≥ lower`` and the multipliers of the rows, which have length one.

    None where the rows are infeasible.
    """
    found = _continue_dual(rows, lower, np.flatnonzero(warm)) if np.any(warm) else None
    if found is not None:
        return found
    multipliers, status = _solve_by_daqp(rows, lower)
    if status == _SOLVED:
        found = _continue_dual(rows, lower, np.flatnonzero(multipliers))
        if found is not None:
            return found
    point, multipliers = _solve_by_nnls(rows, lower)
    if not len(point):
        return None
    for tight in (_TIGHT, _NEARLY):
        found = _continue_dual(rows, lower, np.flatnonzero(multipliers), tight)
        if found is not None:
            return found
    apart = float(np.linalg.norm(point - rows.T @ multipliers))
    if apart <= _CLOSE * float(np.linalg.norm(point)) and float(np.max(lower - rows @ point)) <= _CLOSE:
        return point, multipliers
    raise SolverError(_REMEDY)


def _continue_dual(
    rows: FloatArray, lower: FloatArray, active: IntArray, tight_enough: float = _TIGHT
) -> tuple[FloatArray, FloatArray] | None:
    """Continue from an active set, one row after the other, to the minimum: Goldfarb and Idnani's dual method.

    It works on a ``Q R`` decomposition of the active rows. None where it finds no step, or does not end.
    """
    active, basis, triangle = _factor_independent(rows, active)
    while True:
        steps = solve_triangular(triangle, lower[active], trans="T")
        duals = solve_triangular(triangle, steps)
        if not np.any(duals < 0.0):
            break
        active, basis, triangle = _factor_independent(rows, active[duals >= 0.0])
    point, tight = basis @ steps, list(active)
    for _ in range(_MOST_EXCHANGES):
        missing = lower - rows @ point
        missing[tight] = 0.0
        row = int(np.argmax(missing))
        if missing[row] <= tight_enough:
            return _solve_active(rows, lower, basis, triangle, np.array(tight, dtype=np.int64), tight_enough)
        lack, dual = float(missing[row]), 0.0
        while True:
            along = basis.T @ rows[row]
            rest = rows[row] - basis @ along
            again = basis.T @ rest  # twice is enough
            along, rest = along + again, rest - basis @ again
            room = float(rest @ rest)
            away = solve_triangular(triangle, along)
            falling = away > _FALLING
            limits = np.full(len(tight), np.inf)
            limits[falling] = duals[falling] / away[falling]
            leaving = int(np.argmin(limits)) if len(limits) else -1
            most = float(limits[leaving]) if len(limits) else np.inf
            full = lack / room if room > _DEPENDENT**2 else np.inf
            step = min(most, full)
            if not np.isfinite(step):
                return None
            duals, dual = np.maximum(duals - step * away, 0.0), dual + step
            if np.isfinite(full):
                point, lack = point + step * rest, lack - step * room
            if full <= most:
                length = np.sqrt(room)
                basis = np.column_stack([basis, rest / length])
                triangle = np.block([[triangle, along[:, None]], [np.zeros((1, len(tight))), np.array([[length]])]])
                tight.append(row)
                duals = np.append(duals, dual)
                break
            basis, triangle = qr_delete(basis, triangle, leaving, which="col", check_finite=False)
            basis, triangle = basis[:, : len(tight) - 1], triangle[: len(tight) - 1]
            del tight[leaving]
            duals = np.delete(duals, leaving)
    return None


def _solve_active(
    rows: FloatArray, lower: FloatArray, basis: FloatArray, triangle: FloatArray, tight: IntArray, enough: float
) -> tuple[FloatArray, FloatArray] | None:
    """Return the point at which rows are active, free of accumulated rounding; None if it is not the minimum."""
    steps = solve_triangular(triangle, lower[tight], trans="T")
    point, multipliers = basis @ steps, np.zeros(len(rows))
    duals = solve_triangular(triangle, steps)
    greatest = float(np.max(np.abs(duals), initial=0.0))
    if np.min(duals, initial=0.0) < -_SLIGHT * greatest or float(np.max(lower - rows @ point)) > 10.0 * enough:
        return None
    multipliers[tight] = np.maximum(duals, 0.0)
    return point, multipliers


def _factor_independent(rows: FloatArray, active: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return rows without those that depend on rows before them, and their ``Q R`` decomposition as columns."""
    while True:
        basis, triangle = qr(rows[active].T, mode="economic")
        height = min(triangle.shape)
        sound = np.abs(np.diagonal(triangle)) > _DEPENDENT
        if len(active) == height and np.all(sound):
            return active, basis, triangle
        active = active[:height][sound]


def _solve_by_daqp(rows: FloatArray, lower: FloatArray) -> tuple[FloatArray, int]:
    """Return multipliers and exit flag of DAQP, which solves the least distance itself without a Hessian."""
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


def _solve_by_nnls(rows: FloatArray, lower: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve it as non-negative least squares, Lawson and Hanson's (23.10)-(23.32); empty where it is infeasible."""
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
