"""Two solvers of lexicographic least squares that share nothing with ours: a plain clarabel cascade, and daqp's.

A hierarchy is a sequence of levels ``lower_k <= A_k z <= upper_k`` (equal where an equation). Level k minimises
``Σ_i dist((A_k z)_i, [lower_i, upper_i])²`` among the points that are best for all levels above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import clarabel
import daqp
import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

# Of clarabel: tight, and still reached on nearly every problem. A gap of 1e-12 leaves violations good to 1e-6 only; the
# last digits come from one linear solve.
TOLERANCE = 1e-12
# A row broken by more than this, beside its value, is fixed where it is; one broken by less is loosened by that.
BROKEN = 1e-7


@dataclass(frozen=True, eq=False)
class Group:
    """One level: ``lower <= matrix @ z <= upper``; the same fields as the cascade's `Level`."""

    name: str
    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray


def violation(level: Group, unknowns: FloatArray) -> FloatArray:
    """Gives by how much each row of a level is broken, signed: positive above `upper`, negative below `lower`."""
    values = level.matrix @ unknowns
    return np.maximum(values - level.upper, 0.0) - np.maximum(level.lower - values, 0.0)


def costs_at(levels: Sequence[Group], unknowns: FloatArray) -> FloatArray:
    """Gives each level's sum of squared violations at a point."""
    return np.array([np.sum(violation(level, unknowns) ** 2) for level in levels])


def sizes(levels: Sequence[Group]) -> FloatArray:
    """Gives a size for each level's cost: the squares of its matrix, and its cost at z = 0."""
    return np.array([np.sum(level.matrix**2) for level in levels]) + costs_at(levels, np.zeros(_count(levels))) + 1.0


def _count(levels: Sequence[Group]) -> int:
    return levels[0].matrix.shape[1]


def solve_by_clarabel(levels: Sequence[Group]) -> tuple[FloatArray, FloatArray]:
    """Gives a lexicographic optimum and each level's cost, by one conic QP for each level over ``(z, w)``.

    Level k: minimise ``‖w‖²`` such that ``lower_k <= A_k z - w <= upper_k`` and every level above is as it was left:
    its equations and its broken rows where they were, its other rows within their bounds. Rows above on which the level
    leans (by their multipliers) are tight at every optimum; they become equations, for an interior point needs an
    interior.
    """
    count = _count(levels)
    above = _Held(np.empty((0, count)), np.empty(0), np.empty(0))
    unknowns, costs = np.zeros(count), []
    for level in levels:
        if len(level.matrix):
            unknowns, leaned_on = _least_violation(level, above)
            above = above.tightened(leaned_on, unknowns)
        broken = violation(level, unknowns)
        costs.append(float(np.sum(broken**2)))
        values = level.matrix @ unknowns
        fixed = (level.lower == level.upper) | (np.abs(broken) > BROKEN * (1.0 + np.abs(values)))
        above = above.joined(
            level.matrix,
            np.where(fixed, values, np.minimum(level.lower, values)),
            np.where(fixed, values, np.maximum(level.upper, values)),
        )
    return unknowns, np.array(costs)


@dataclass(frozen=True, eq=False)
class _Held:
    """What the levels above leave: rows of length one (or zero), within bounds."""

    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray

    def joined(self, matrix: FloatArray, lower: FloatArray, upper: FloatArray) -> _Held:
        size = np.linalg.norm(matrix, axis=1)
        size[size == 0.0] = 1.0
        return _Held(
            np.vstack([self.matrix, matrix / size[:, None]]),
            np.append(self.lower, lower / size),
            np.append(self.upper, upper / size),
        )

    def tightened(self, rows: FloatArray, unknowns: FloatArray) -> _Held:
        values = self.matrix @ unknowns
        return _Held(self.matrix, np.where(rows, values, self.lower), np.where(rows, values, self.upper))

    def independent(self) -> _Held:
        """Gives the same set with equations that do not repeat each other, which a conic solver does not bear."""
        equal = self.lower == self.upper
        left, values, right = np.linalg.svd(self.matrix[equal], full_matrices=False)
        rank = int(np.sum(values > 1e-10 * np.max(values, initial=0.0)))
        middle = (left[:, :rank].T @ self.upper[equal]) / values[:rank]
        return _Held(
            np.vstack([right[:rank], self.matrix[~equal]]),
            np.append(middle, self.lower[~equal]),
            np.append(middle, self.upper[~equal]),
        )


def _least_violation(level: Group, above: _Held) -> tuple[FloatArray, FloatArray]:
    """Gives a point of least violation of `level` under what is held, and on which held rows it leans."""
    rows, count = level.matrix.shape
    held = above.independent()
    equations = len(held.matrix) - int(np.sum(above.lower != above.upper))
    matrix = np.block([[level.matrix, -np.eye(rows)], [held.matrix, np.zeros((len(held.matrix), rows))]])
    lower, upper = np.append(level.lower, held.lower), np.append(level.upper, held.upper)
    equal = lower == upper
    high, low = ~equal & np.isfinite(upper), ~equal & np.isfinite(lower)
    stacked = np.vstack([matrix[equal], matrix[high], -matrix[low]])
    right = np.concatenate([upper[equal], upper[high], -lower[low]])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(high.sum() + low.sum()))]
    # Without curvature in z, the point is undecided where the level does not decide it; its cost is decided.
    curvature = np.append(np.zeros(count), np.full(rows, 2.0))
    place, multipliers, margins = solve_conic(
        sparse.diags(curvature, format="csc"), np.zeros(count + rows), sparse.csc_matrix(stacked), right, cones
    )
    place = _polished(curvature, stacked, right, place, np.arange(len(right)) < equal.sum(), multipliers > margins)
    clear = (multipliers > 1e-5 * np.max(multipliers, initial=0.0)) & (margins < 1e-8) & (multipliers > 1e-8)
    pressed = np.zeros(len(matrix), dtype=bool)
    pressed[high] |= clear[equal.sum() : equal.sum() + high.sum()]
    pressed[low] |= clear[equal.sum() + high.sum() :]
    leaned_on = np.zeros(len(above.matrix), dtype=bool)
    leaned_on[above.lower != above.upper] = pressed[rows + equations :]
    return place[:count], leaned_on


def _polished(curvature: FloatArray, matrix: FloatArray, right: FloatArray, place: FloatArray, equal: FloatArray,
              binding: FloatArray) -> FloatArray:  # fmt: skip
    """Gives the exact minimum of ``½ x'Px`` on the rows that bind; `place` itself where that breaks a row or a sign."""
    active = equal | binding
    rows, count = matrix[active], len(place)
    system = np.block([[np.diag(curvature), rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    # As a step from `place`, so that what the level does not decide stays there.
    goal = np.concatenate([-curvature * place, right[active] - rows @ place])
    step = np.linalg.lstsq(system, goal, rcond=1e-13)[0]
    better = place + step[:count]
    multipliers = step[count:][~equal[active]]
    scale = 1.0 + np.max(np.abs(place))
    broken = np.max((matrix @ better - right)[~equal], initial=0.0) + np.max(
        np.abs(rows @ better - right[active]), initial=0.0
    )
    wrong_sign = np.min(multipliers, initial=0.0) < -1e-9 * (1.0 + np.max(np.abs(multipliers), initial=0.0))
    return place if broken > 1e-10 * scale or wrong_sign else better


def solve_conic(quadratic: sparse.csc_matrix, linear: FloatArray, matrix: sparse.csc_matrix, right: FloatArray,
                cones: list[object]) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Gives clarabel's minimum of ``½ x'Px + q'x`` with ``right - matrix @ x`` in the cones; multipliers; margins."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    settings.max_iter = 400
    solution = clarabel.DefaultSolver(quadratic, linear, matrix, right, cones, settings).solve()
    # Where 1e-12 is not reached, clarabel's own looser test (5e-5) is not enough for an oracle.
    gap = abs(solution.obj_val - solution.obj_val_dual) / (1.0 + abs(solution.obj_val))
    if not max(solution.r_prim, solution.r_dual, gap) <= 1e-7:
        raise ArithmeticError(f"{solution.status}: {solution.r_prim:.1e}, {solution.r_dual:.1e}, gap {gap:.1e}")
    return np.asarray(solution.x), np.asarray(solution.z), np.asarray(solution.s)


def solve_by_daqp(levels: Sequence[Group]) -> FloatArray:
    """Gives the answer of daqp's hierarchical mode, which its exit flag does not vouch for: look at the costs.

    `break_points` begins with the number of hard rows, here none, and ends each level. Levels are soft against
    ``½‖z‖²``: a bias of 3e-8. The weights must be given row by row: the setting `rho_soft` weighs rows that are
    *scaled to length one*, which is another least-squares problem. Tighter tolerances make it give up at a level whose
    predecessors then seem to contradict each other.
    """
    matrix = np.ascontiguousarray(np.vstack([level.matrix for level in levels]))
    lower = np.concatenate([level.lower for level in levels])
    upper = np.concatenate([level.upper for level in levels])
    breaks = np.cumsum([0, *(len(level.matrix) for level in levels)]).astype(np.intc)
    count = matrix.shape[1]
    solver = daqp.Model()
    solver.settings = {"primal_tol": 1e-5, "rho_soft": 3e-8}
    # 8: soft, equations too: marked as equations, more of them are given up.
    solver.setup(
        np.eye(count), np.zeros(count), matrix, upper, lower, np.full(len(matrix), 8, np.intc), break_points=breaks
    )
    solver.soft_weights(np.full(len(matrix), 3e-8), np.full(len(matrix), 3e-8))
    return np.array(solver.solve()[0])
