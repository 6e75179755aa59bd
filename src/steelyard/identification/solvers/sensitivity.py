"""How a lexicographic minimum answers to its data: the cascade once more, linearised, what binds held tight."""

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
"""Part of a row, scaled to one, that must be left beside the others: generated rows of one link lie close together."""

_SEEN = 1e-11


def answer_to_data(levels: Sequence[Level], solution: CascadeSolution, number: int, rows: int) -> FloatArray:
    """Gives the derivative of the solution by the first right sides of one level, shape (n, rows).

    Rows that bind are taken to go on binding, and others not to begin to.

    Args:
        levels: The levels, in order.
        solution: Their minimum.
        number: The level with the data.
        rows: How many of its rows, from the first on, are data.
    """
    count = len(solution.unknowns)
    free, answer = np.eye(count), np.zeros((count, rows))
    for place, level in enumerate(levels):
        outside = solution.violations[place] > BROKEN * np.linalg.norm(level.matrix, axis=1)
        traded = (level.lower == level.upper) | outside
        # What binds stays tight; what is broken is traded off against the equations of its level.
        tight = [
            binding
            for binding in solution.bindings
            if binding.solved == place
            and not (binding.level == place and (solution.shared[place] if binding.row < 0 else traded[binding.row]))
        ]
        held = np.reshape([binding.direction for binding in tight], (-1, count))
        followed = np.zeros((len(held), rows))
        for row, binding in enumerate(tight):
            if binding.level == number and 0 <= binding.row < rows:  # a bound that moves with the data
                followed[row, binding.row] = np.sign(binding.direction @ levels[number].matrix[binding.row])
        lengths = np.linalg.norm(held, axis=1)
        chosen = lengths > 0.0
        scaled = held[chosen] / lengths[chosen][:, None], followed[chosen] / lengths[chosen][:, None]
        answer, free = _step(*scaled, answer, free, _TIED)
        moved = np.zeros((len(level.matrix), rows))
        if place == number:
            moved[:rows] = np.eye(rows)
        matrix, goal = level.matrix[traded], moved[traded]
        if level.drag is not None:
            matrix = np.concatenate([matrix, level.drag[0]])
            goal = np.concatenate([goal, np.zeros((len(level.drag[0]), rows))])
        answer, free = _step(matrix, goal, answer, free, _SEEN)
    return answer


def _step(
    matrix: FloatArray, moved: FloatArray, answer: FloatArray, free: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Follows ``matrix dz = moved`` as well as the free directions can, and gives those that are left."""
    if not len(matrix) or not free.shape[1]:
        return answer, free
    left, values, right = complete_vectors(matrix @ free)
    seen = int(np.count_nonzero(values > tolerance * np.max(values, initial=0.0)))
    step = (right[:seen].T / values[:seen]) @ (left[:, :seen].T @ (moved - matrix @ answer))
    return answer + free @ step, np.asarray(free @ right[seen:].T)
