"""Sensitivity of a lexicographic minimum to its data: the cascade, linearised, with active rows held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.solvers.level_search import BROKEN
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.lexicographic import CascadeSolution, Level

_TIED = 1e-6
"""Length of the independent part of a row of length one, below which it depends on others: cutting planes of one
link lie close together. Set by judgement: a hundred times the accuracy of cuts."""

_SEEN = 1e-11
"""Share of the greatest singular value below which a direction is in the null space; as `least_distance.RANK`."""


def differentiate_by_data(levels: Sequence[Level], solution: CascadeSolution, number: int, rows: int) -> FloatArray:
    """Return the derivative of the solution by the first right sides of one level, shape (n, rows).

    Active rows are taken to stay active, and others to stay inactive.

    Args:
        levels: The levels, in order.
        solution: Their minimum.
        number: Index of the level with the data.
        rows: Number of its rows, from the first on, that are data.
    """
    count = len(solution.unknowns)
    free, answer = np.eye(count), np.zeros((count, rows))
    for index, level in enumerate(levels):
        outside = solution.violations[index] > BROKEN * np.linalg.norm(level.matrix, axis=1)
        traded = (level.lower == level.upper) | outside
        # Active rows stay so; broken ones are traded off against the equations of their level.
        tight = [
            active_row
            for active_row in solution.active_rows
            if active_row.solved == index
            and not (
                active_row.level == index and (solution.shared[index] if active_row.row < 0 else traded[active_row.row])
            )
        ]
        held = np.reshape([active_row.direction for active_row in tight], (-1, count))
        followed = np.zeros((len(held), rows))
        for row, active_row in enumerate(tight):
            if active_row.level == number and 0 <= active_row.row < rows:  # a bound that moves with the data
                followed[row, active_row.row] = np.sign(active_row.direction @ levels[number].matrix[active_row.row])
        lengths = np.linalg.norm(held, axis=1)
        chosen = lengths > 0.0
        scaled = held[chosen] / lengths[chosen][:, None], followed[chosen] / lengths[chosen][:, None]
        answer, free = _step(*scaled, answer, free, _TIED)
        moved = np.zeros((len(level.matrix), rows))
        if index == number:
            moved[:rows] = np.eye(rows)
        matrix, goal = level.matrix[traded], moved[traded]
        if level.regularisation is not None:
            matrix = np.concatenate([matrix, level.regularisation[0]])
            goal = np.concatenate([goal, np.zeros((len(level.regularisation[0]), rows))])
        answer, free = _step(matrix, goal, answer, free, _SEEN)
    return answer


def _step(
    matrix: FloatArray, moved: FloatArray, answer: FloatArray, free: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Solve ``matrix dz = moved`` in the free directions by least squares, and return the directions left free."""
    if not len(matrix) or not free.shape[1]:
        return answer, free
    left, values, right = complete_vectors(matrix @ free)
    seen = int(np.count_nonzero(values > tolerance * np.max(values, initial=0.0)))
    step = (right[:seen].T / values[:seen]) @ (left[:, :seen].T @ (moved - matrix @ answer))
    return answer + free @ step, np.asarray(free @ right[seen:].T)
