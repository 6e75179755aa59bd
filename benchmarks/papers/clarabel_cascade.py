"""An oracle for hierarchies: a cascade of conic programs, one a level, that shares nothing with the library's."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import clarabel
import numpy as np
from scipy.sparse import csc_matrix, diags_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.lexicographic import Level

_RANK = 1e-10
_BROKEN = 1e-5
_CUT = 1e-9
_MOST_ROUNDS = 200
_ACCEPTED = 1e-8
_HELD = 1e-4
"""Weight that holds what a level does not decide near where it was, and is let go step by step (proximal points):
without it clarabel is lost where a direction has no curvature."""

_STILL = 1e-10
_SETTINGS = tuple(product((1e-12, 1e-10), (0.99, 0.9, 0.7), (True, False)))
"""Tolerance, step, equilibration: clarabel gives up on some problems with one of them, and not with another."""


def solve_by_clarabel(levels: Sequence[Level]) -> tuple[FloatArray, list[float]]:
    """Gives a lexicographic minimum and each level's cost.

    Level by level, ``min ‖w‖²`` over ``(x, w)`` with ``lower ≤ A z + w ≤ upper`` and ``z = place + free x``, where
    what the levels above decided stands: their equations and broken rows are exact, through `free`; their other rows
    are inequalities. Families of rows have to be satisfiable, and are cut where a point breaks them. What drags on a
    level counts while it is solved, not in its cost.
    """
    count = levels[0].matrix.shape[1]
    place, free = np.zeros(count), np.eye(count)
    held, bounds = np.zeros((0, count)), np.zeros(0)
    cuts: list[Callable[..., tuple[FloatArray, ...]]] = []
    costs = []
    for level in levels:
        cuts += level.cut_families
        equal = level.lower == level.upper
        low, high = ~equal & np.isfinite(level.lower), ~equal & np.isfinite(level.upper)
        own = np.concatenate([level.matrix[low], -level.matrix[high]])
        asked = np.concatenate([level.lower[low], -level.upper[high]])
        equations, right = level.matrix[equal], level.lower[equal]
        if level.regularisation is not None:
            rows, targets = level.regularisation
            equations, right = np.concatenate([equations, rows]), np.append(right, targets)

        def price(at: FloatArray, level: Level = level) -> float:
            dragged = (
                0.0
                if level.regularisation is None
                else np.sum(np.square(level.regularisation[0] @ at - level.regularisation[1]))
            )
            return float(np.sum(np.square(level.outside(at))) + dragged)

        size, cost = price(place), np.inf
        for _ in range(_MOST_ROUNDS):
            before = cost
            place = _nearer(place, free, equations, right, own, asked, held, bounds)
            fresh = [_broken(family, place) for family in cuts]
            held = np.concatenate([held, *(rows for rows, _ in fresh)])
            bounds = np.concatenate([bounds, *(lower for _, lower in fresh)])
            cost = price(place)
            if before - cost <= _STILL * max(cost, 1e-3 * size) and not any(len(rows) for rows, _ in fresh):
                break
        else:
            raise ArithmeticError(f"the level {level.name!r} has not settled after {_MOST_ROUNDS} rounds")
        costs.append(float(np.sum(np.square(level.outside(place)))))
        broken = asked - own @ place > _BROKEN * (1.0 + np.abs(asked))
        free = _unseen(np.concatenate([level.matrix[equal], own[broken]]), free)
        held = np.concatenate([held, own[~broken]])
        bounds = np.concatenate([bounds, np.minimum(asked, own @ place)[~broken]])
    return place, costs


def _broken(family: Callable[..., tuple[FloatArray, ...]], place: FloatArray) -> tuple[FloatArray, FloatArray]:
    matrix, lower, *_ = family(place)
    rows = np.asarray(matrix, dtype=np.float64).reshape(-1, len(place))
    chosen = np.asarray(lower) - rows @ place > _CUT * np.linalg.norm(rows, axis=1)
    return rows[chosen], np.asarray(lower)[chosen]


def _unseen(rows: FloatArray, free: FloatArray) -> FloatArray:
    """Gives a basis of the directions in `free` that no row sees."""
    seen = rows @ free
    size = np.linalg.norm(rows, axis=1)
    seen = seen[size > 0.0] / size[size > 0.0, None]
    if not seen.size:
        return free
    _, values, right = np.linalg.svd(seen)
    rank = int(np.count_nonzero(values > _RANK * max(1.0, float(values[0]))))
    return free @ right[rank:].T


def _nearer(
    place: FloatArray,
    free: FloatArray,
    equations: FloatArray,
    right: FloatArray,
    own: FloatArray,
    asked: FloatArray,
    held: FloatArray,
    bounds: FloatArray,
) -> FloatArray:
    """Gives a point of less violation than `place`, the least that is not far from it."""
    if not free.shape[1] or not len(equations) + len(own):
        return place
    reduced, right = equations @ free, right - equations @ place
    if len(reduced) > free.shape[1]:
        basis, reduced = np.linalg.qr(reduced)
        reduced, right = np.where(np.abs(reduced) > 1e-14 * np.max(np.abs(reduced)), reduced, 0.0), basis.T @ right
    width, slacks = free.shape[1], len(reduced) + len(own)
    size = np.linalg.norm(held @ free, axis=1)
    # What is left to decide does not touch some rows: they are rounding, and hold as they are.
    alive = size > _RANK * np.linalg.norm(held, axis=1)
    held, bounds, size = held[alive], bounds[alive], size[alive]
    soft = np.concatenate([np.concatenate([reduced, own @ free]), np.eye(slacks)], axis=1)
    hard = np.concatenate([held @ free / size[:, None], np.zeros((len(held), slacks))], axis=1)
    cut = len(reduced)
    matrix = csc_matrix(np.concatenate([soft[:cut], -soft[cut:], -hard]))
    answer = np.concatenate([right, own @ place - asked, (held @ place - bounds) / size])
    cones = [clarabel.ZeroConeT(cut), clarabel.NonnegativeConeT(len(answer) - cut)]
    quadratic = csc_matrix(diags_array(np.append(np.full(width, _HELD), np.ones(slacks))))
    found = _solve(quadratic, np.zeros(width + slacks), matrix, answer, cones)
    return place + free @ found[:width]


def _solve(
    quadratic: csc_matrix, linear: FloatArray, matrix: csc_matrix, answer: FloatArray, cones: list[object]
) -> FloatArray:
    """Gives clarabel's minimum, with the first settings by which it comes to one."""
    gaps = []
    for tolerance, step, even in _SETTINGS:
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter = False, 400
        settings.max_step_fraction, settings.equilibrate_enable = step, even
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        found = clarabel.DefaultSolver(quadratic, linear, matrix, answer, cones, settings).solve()
        gap = abs(found.obj_val - found.obj_val_dual) / max(abs(found.obj_val), 1e-4)
        gaps.append(max(found.r_prim, found.r_dual, gap))
        if gaps[-1] <= _ACCEPTED:
            return np.asarray(found.x)
    raise ArithmeticError(f"clarabel came no closer than {min(gaps):.1e}")
