"""Scaled unknowns, constraints on them as levels of a cascade, and the names of active rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.methods.option_checks import check_scale
from steelyard.identification.solvers.lexicographic import Level
from steelyard.model import PARAMETER_COUNT
from steelyard.regression import complete_vectors, singular_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintRows, ConstraintSystem, CutFamily
    from steelyard.identification.methods.option_checks import Scale
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution

_MARGIN, _SI_MARGIN = 3e-8, 1.1e-7
"""Margin of a cutting plane relative to its length, by spread and in SI units: with it a few cuts are enough, and none
is violated by rounding. Set by judgement: above the violation at which cuts are generated (5e-9, `level_search.py`)."""


@dataclass(eq=False)
class Unknowns:
    """The unknowns ``y`` in which a problem under constraints is solved: ``φ = start + transform y``.

    Attributes:
        problem: The problem.
        scale: "spread": ``y`` is in units of the usual deviation of a model; "none": SI units, as in the papers.
        names: Names of generated rows: link, kind of constraint and direction; a row's label is the index of its own.
    """

    problem: Problem
    scale: Scale
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @cached_property
    def root(self) -> FloatArray:
        """From ``y`` to the problem's unknowns ``z``, shape (n, n)."""
        return self.problem.unknowns.spread if self.scale == "spread" else np.eye(len(self.problem.unknowns))

    @cached_property
    def transform(self) -> FloatArray:
        """From ``y`` to all parameters, shape (10 n_links, n)."""
        return np.asarray(self.problem.unknowns.transform @ self.root)

    @property
    def unit(self) -> float:
        """The unit of residuals: their noise, or one without a scale."""
        return self.problem.noise if self.scale == "spread" else 1.0

    @cached_property
    def directions(self) -> FloatArray:
        """The singular vectors of ``A`` on ``y`` as rows, and a basis of its null space, shape (n, n)."""
        _, _, right = self.factors
        return np.concatenate([right, complete_vectors(right)[2][len(right) :]])

    @cached_property
    def factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The singular value decomposition of ``A`` on ``y``."""
        return singular_vectors(self.problem.matrix @ self.root)

    def parameters(self, point: FloatArray) -> FloatArray:
        """Return all parameters at a point, shape (n_links, 10)."""
        return np.asarray(self.problem.unknowns.start + self.transform @ point).reshape(-1, PARAMETER_COUNT)

    def level(self, name: str, system: ConstraintSystem) -> tuple[Level, tuple[str, ...]]:
        """Return constraints as a level, and the names of its rows.

        By spread, rows are scaled to length one: violations are in units of the usual deviation of a model.
        """
        matrix, lengths = self._reduce(system.rows)
        shift = system.rows.matrix @ self.problem.unknowns.start
        chosen = lengths > 0.0
        units = lengths[chosen] if self.scale == "spread" else np.ones(int(chosen.sum()))
        level = Level(
            name,
            matrix[chosen] / units[:, None],
            (system.rows.lower - shift)[chosen] / units,
            (system.rows.upper - shift)[chosen] / units,
            tuple(self._cuts(family) for family in system.cut_families),
        )
        return level, tuple(np.array(system.rows.names, dtype=object)[chosen])

    def reference(self, weight: float = 1.0) -> Level:
        """Return the level ``√weight · y = 0``."""
        count = self.transform.shape[1]
        return Level("reference", np.sqrt(weight) * np.eye(count), np.zeros(count), np.zeros(count))

    def _reduce(self, rows: ConstraintRows) -> tuple[FloatArray, FloatArray]:
        """Return rows on ``y``, and their lengths; zero where they depend on no unknown."""
        matrix = rows.matrix @ self.transform
        lengths = np.linalg.norm(matrix, axis=1)
        scales = np.linalg.norm(rows.matrix, axis=1) * np.max(np.linalg.norm(self.transform, axis=1), initial=0.0)
        return matrix, np.where(lengths > 1e-12 * scales, lengths, 0.0)

    def _cuts(self, family: CutFamily) -> Any:
        def cuts(point: FloatArray) -> tuple[FloatArray, FloatArray, Any, Any]:
            rows = family.violated(self.parameters(point))
            matrix, lengths = self._reduce(rows)
            chosen = lengths > 0.0
            units = lengths[chosen] if self.scale == "spread" else np.ones(int(chosen.sum()))
            matrix = matrix[chosen] / units[:, None]
            margin = _MARGIN if self.scale == "spread" else _SI_MARGIN * lengths[chosen]
            lower = (rows.lower - rows.matrix @ self.problem.unknowns.start)[chosen] / units + margin
            links = np.argmax(rows.matrix[chosen] != 0.0, axis=1) // PARAMETER_COUNT
            labels = len(self.names) + np.arange(len(matrix))
            self.names += [rows.names[row] for row in np.flatnonzero(chosen)]
            return matrix, lower, links, labels

        return cuts

    def active(self, solution: CascadeSolution, names: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Return the names of active rows, largest multiplier first, each once.

        Args:
            solution: The solution.
            names: Of each level, the names of its rows.
        """
        ordered = sorted(solution.active_rows, key=lambda active_row: (active_row.solved, -active_row.multiplier))
        found = [
            names[active_row.level][active_row.row] if active_row.row >= 0 else self.names[active_row.label]
            for active_row in ordered
        ]
        return tuple(dict.fromkeys(found))
