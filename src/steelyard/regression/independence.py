"""Structurally independent parameters: a property of the tree, the channels and the sensing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import TreeMotion
from steelyard.model import PARAMETER_COUNT
from steelyard.regression.decomposition import dependence_on, leading_columns
from steelyard.regression.nuisance import MeasuredSamples
from steelyard.regression.rows import all_columns
from steelyard.regression.sensing import ALWAYS, Sensing, plan_rows
from steelyard.regression.system import System

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

INDEPENDENT = 1e-7
"""Least norm that a unit column keeps beside those before it to count as independent. With the random motions used here
dependent columns leave 1e-13, and independent ones more than 1e-3."""

_ROWS_PER_COLUMN = 3
"""Random rows for each column. Set by judgement: three times what a square system needs, so that no column is called
dependent by chance."""


@lru_cache(maxsize=64)
def independent_columns(
    model: Model, base: str, sensing: Sensing, gravity: tuple[float, ...] = ()
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], FloatArray]:
    """Return the parameters whose columns are independent in some motion, and how the other columns depend on theirs.

    They are found once, numerically, from the rows of many random samples: every joint at any angle, any motion of the
    base, soles on and off the ground. In the order of the parameters, each column is kept that is independent of those
    before it.

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
        raise EvidenceError("the unknown forces use up every row; measure more of them, or use joint torques")
    independent = leading_columns(triangle, INDEPENDENT)
    dependence = dependence_on(triangle, independent)
    independent.setflags(write=False)
    dependence.setflags(write=False)
    return independent, dependence


def _probe(model: Model, base: str, sensing: Sensing, gravity: tuple[float, ...]) -> FloatArray:
    """Compute the triangular factor of the rows of enough random samples, with the columns of all parameters."""
    total = len(model.links) * PARAMETER_COUNT
    system = System(model, base, sensing, (), None, all_columns(model))
    plan = plan_rows(model, sensing, frozenset())
    torques = plan.row_count - plan.rows.first_torque_row
    always = np.array([sole == ALWAYS for sole in plan.unknown_soles], dtype=np.bool_)
    base_q, base_v = (7, 6) if model.base == "floating" else (0, 0)
    generator = np.random.default_rng(0)
    triangle = np.zeros((0, total))
    found = 0
    count = _ROWS_PER_COLUMN * total // 6 + 20
    for _ in range(40):
        q = generator.uniform(-np.pi, np.pi, size=(count, max(1, model.position_size - base_q)))
        v, a = generator.normal(size=(2, count, max(1, model.velocity_size - base_v)))
        rate, turn, pull = generator.normal(size=(3, count, 3))
        if gravity:
            rate, turn, pull = np.zeros((count, 3)), np.zeros((count, 3)), np.tile(gravity, (count, 1))
        present = np.broadcast_to(always, (count, len(always))).copy()
        for sole in dict.fromkeys(plan.unknown_soles):
            if sole != ALWAYS:
                members = [number for number, name in enumerate(plan.unknown_soles) if name == sole]
                present[:, members] = generator.random(size=(count, 1)) < 0.5
        motion = TreeMotion(q, v, a, rate, turn, pull)
        readings = MeasuredSamples(np.zeros((count, len(sensing.measured) + torques)), np.zeros(count))
        rows, kept = system.rows_of(plan, motion, present, readings)
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, rows[:, :total]]), mode="r"))
        found += kept
        if found >= _ROWS_PER_COLUMN * total or not found:
            break
    return triangle
