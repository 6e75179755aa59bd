"""Which parameters can be told apart at all: a property of the tree, the channels and the sensing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.model import PARAMETER_COUNT
from steelyard.regression.decomposition import dependence_on, leading_columns
from steelyard.regression.kernel_arrays import MotionArrays
from steelyard.regression.rows import all_columns, tree_arrays
from steelyard.regression.sensing import ALWAYS, Sensing, plan_rows
from steelyard.regression.system import System

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

INDEPENDENT = 1e-7
"""Least part of a column, scaled to one, that must be left beside those before it. In the probes here what depends
leaves 1e-13, and what does not leaves more than 1e-3."""

_ROWS_PER_COLUMN = 3


@lru_cache(maxsize=64)
def independent_columns(
    model: Model, base: str, sensing: Sensing, gravity: tuple[float, ...] = ()
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], FloatArray]:
    """Gives the parameters whose columns can be told apart by some motion, and how the others' follow from theirs.

    It is found once, numerically, from the rows of many random motions: every joint at any angle, any motion of the
    base, soles on and off the ground. Going through the parameters in order, each column is kept that those before it
    do not explain.

    Args:
        model: The model.
        base: Name of the base link.
        sensing: What is measured.
        gravity: Proper acceleration of a fixed base, which does not move; empty for a floating one.

    Returns:
        Indices of the independent parameters, ascending, and the matrix ``K`` with ``Y = Y_independent K``.

    Raises:
        EvidenceError: Unknown forces use up every row.
    """
    triangle = _probe(model, base, sensing, gravity)
    if not np.any(triangle):
        raise EvidenceError("the unknown forces use up every row, and nothing is left; measure more, or name torques")
    independent = leading_columns(triangle, INDEPENDENT)
    dependence = dependence_on(triangle, independent)
    independent.setflags(write=False)
    dependence.setflags(write=False)
    return independent, dependence


def _probe(model: Model, base: str, sensing: Sensing, gravity: tuple[float, ...]) -> FloatArray:
    """Gives the triangular factor of the rows of enough random samples, all parameters' columns."""
    total = len(model.links) * PARAMETER_COUNT
    system = System(model, base, sensing, (), None, all_columns(model))
    plan = plan_rows(model, sensing, frozenset())
    torques = plan.row_count - plan.rows.first_torque_row
    always = np.array([sole == ALWAYS for sole in plan.unknown_soles], dtype=np.bool_)
    width = max(1, model.position_size - (7 if model.base == "floating" else 0))
    generator = np.random.default_rng(0)
    triangle = np.zeros((0, total))
    found = 0
    count = _ROWS_PER_COLUMN * total // 6 + 20
    for _ in range(40):
        q = generator.uniform(-np.pi, np.pi, size=(count, width))
        v, a = generator.normal(size=(2, count, max(1, tree_arrays(model).v_size)))
        rate, turn, pull = generator.normal(size=(3, count, 3))
        if gravity:
            rate, turn, pull = np.zeros((count, 3)), np.zeros((count, 3)), np.tile(gravity, (count, 1))
        present = np.broadcast_to(always, (count, len(always))).copy()
        for sole in dict.fromkeys(plan.unknown_soles):
            if sole != ALWAYS:
                members = [number for number, name in enumerate(plan.unknown_soles) if name == sole]
                present[:, members] = generator.random(size=(count, 1)) < 0.5
        motion = MotionArrays(q, np.cos(q), np.sin(q), v, a, rate, turn, pull)
        rows, kept = system.rows_of(plan, motion, present, np.zeros((count, len(sensing.measured) + torques)))
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, rows[:, :total]]), mode="r"))
        found += kept
        if found >= _ROWS_PER_COLUMN * total or not found:
            break
    return triangle
