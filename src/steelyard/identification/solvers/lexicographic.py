"""Lexicographic least squares: each level is minimised within the minima of the levels above it.

A level is a set of rows ``lower ≤ A z ≤ upper``; its cost is the sum of squared violations, ``Σ dist²``. Equations have
``lower = upper``. Levels are solved one after the other, each in the null space of what those above have fixed, and
within the inequalities that they satisfied: [jovic2016] (7), by the cascade of Kanoun, Lamiraux and Wieber (2011) and
of Escande, Mansard and Wieber (2014). What a level decided stays: equations keep their residuals, broken rows their
violations, and active rows stay active.

A family of cutting planes generates the rows that a point violates; all rows of a family share one violation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.solvers.certificate import Certificate
from steelyard.identification.solvers.least_distance import RANK
from steelyard.identification.solvers.level_search import BROKEN, VANISHED, Family, Inequalities, Search
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.level_search import Cuts, FamilyKey, LevelMinimum

_EXACT = 1e-10
"""Residual, relative to the size of its terms, up to which equations count as satisfied. Set by judgement: rounding of
nearly dependent equations."""

_ACTIVE = 1e-6
"""Force of a row, relative to the gradient at a minimum, from which it counts as active. Relative to the greatest
force, rows of rounding alone stayed active, and the reference level ended 1 % too high (docs/decisions/0011)."""


@dataclass(frozen=True, eq=False)
class Level:
    """Rows of equal rank.

    Attributes:
        name: Its name.
        matrix: Shape (m, n).
        lower: Shape (m,), minus infinity where open.
        upper: Shape (m,), infinity where open; equal to `lower` for an equation.
        cut_families: Families of cutting planes, all of them lower bounds.
        regularisation: Equations, matrix and right side, whose squares are added to the cost when the level is solved,
            and are no part of it.
    """

    name: str
    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    cut_families: tuple[Cuts, ...] = ()
    regularisation: tuple[FloatArray, FloatArray] | None = None

    def outside(self, point: FloatArray) -> FloatArray:
        """Return the violation of each row at a point, shape (m,)."""
        values = self.matrix @ point
        return np.asarray(np.maximum(0.0, np.maximum(self.lower - values, values - self.upper)))

    def inequalities(self, number: int) -> Inequalities:
        """Return the rows that are no equations, as lower bounds."""
        open_rows = self.lower != self.upper
        low = np.flatnonzero(open_rows & np.isfinite(self.lower))
        high = np.flatnonzero(open_rows & np.isfinite(self.upper))
        count = len(low) + len(high)
        return Inequalities(
            np.concatenate([self.matrix[low], -self.matrix[high]]),
            np.concatenate([self.lower[low], -self.upper[high]]),
            np.full(count, number, dtype=np.int64),
            np.concatenate([low, high]).astype(np.int64),
            np.full((count, 2), -1, dtype=np.int64),
            np.full(count, -1, dtype=np.int64),
        )


@dataclass(frozen=True, eq=False)
class ActiveRow:
    """An active row at the minimum of a level.

    Attributes:
        level: Number of the level that the row belongs to.
        row: Number of the row in its level; −1 for a generated one.
        label: Label that its source gave a generated row, else −1.
        direction: The row as a lower bound, shape (n,).
        multiplier: Derivative of half the cost by the bound.
        solved: Number of the level whose minimum it is.
    """

    level: int
    row: int
    label: int
    direction: FloatArray
    multiplier: float
    solved: int


@dataclass(frozen=True, eq=False)
class CascadeSolution:
    """A lexicographic minimum.

    Attributes:
        unknowns: ``z``, shape (n,).
        costs: Of each level at its own minimum.
        violations: Of each level, the violation of each row, shape (m,).
        shared: Of each level, the violation of each family, by index of its source and of the family.
        active_rows: Active rows at the minima.
        generated: Number of generated rows.
        rounds: Number of least-squares problems.
        stationarity: The greatest of the levels'; see `least_distance.NearestPoint`.
        violation: The greatest violation of an inequality that its level had satisfied, rows of length one.
        complementarity: The greatest of the levels'.
        free: A basis of the directions that no level decided, shape (n, any).
    """

    unknowns: FloatArray
    costs: tuple[float, ...]
    violations: tuple[FloatArray, ...]
    shared: tuple[dict[tuple[int, int], float], ...]
    active_rows: tuple[ActiveRow, ...]
    generated: int
    rounds: int
    stationarity: float
    violation: float
    complementarity: float
    free: FloatArray

    def certificate(self, violation: float, active: tuple[str, ...]) -> Certificate:
        """Return the residuals, with the greatest violation in SI units and the names of active rows."""
        return Certificate(self.stationarity, violation, self.complementarity, self.rounds, self.generated, active)


def solve_cascade(levels: Sequence[Level], start: FloatArray) -> CascadeSolution:
    """Return the lexicographic minimum of levels.

    Args:
        levels: The first outranks all others.
        start: Directions that no level decides stay as they are here, as far as inequalities allow; shape (n,).

    Raises:
        SolverError: A level could not be solved.
    """
    cascade = _Cascade(np.array(start, dtype=np.float64), np.eye(len(start)), Inequalities.none(len(start)))
    for number, level in enumerate(levels):
        cascade.take(number, level)
    return cascade.finish()


@dataclass(eq=False)
class _Cascade:
    """What is decided so far: ``z = point + free x``, where ``x`` must satisfy `rows` and `families`."""

    point: FloatArray
    free: FloatArray
    rows: Inequalities
    families: list[Family] = field(default_factory=list)
    relaxed: dict[FamilyKey, float] = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    violations: list[FloatArray] = field(default_factory=list)
    shared: list[dict[tuple[int, int], float]] = field(default_factory=list)
    active_rows: list[ActiveRow] = field(default_factory=list)
    generated: int = 0
    rounds: int = 0
    stationarity: float = 0.0
    complementarity: float = 0.0

    def take(self, number: int, level: Level) -> None:
        """Solve one more level."""
        equations = level.lower == level.upper
        matrix, right = level.matrix[equations], level.lower[equations]
        families = [*self.families, *(Family(number, source, cuts) for source, cuts in enumerate(level.cut_families))]
        rows = self.rows + level.inequalities(number)
        bounded = len(rows) > len(self.rows) or len(families) > len(self.families)
        if not bounded or level.regularisation is not None or not self._satisfy(number, matrix, right, rows, families):
            if level.regularisation is not None:
                matrix, right = (
                    np.concatenate([own, added])
                    for own, added in zip((matrix, right), level.regularisation, strict=True)
                )
            search = Search(number, matrix, right, self.point, self.free, rows, families, self.relaxed, soft=bounded)
            found = search.run()
            if found is None:
                raise SolverError(
                    f"the level {level.name!r} was not solved: inequalities that were satisfied together no longer "
                    "are; constraints that nearly contradict each other do this: loosen one"
                )
            self._decide(number, found, _null_space(matrix, self.free), families)
        outside = level.outside(self.point)
        shared = {key[1:]: value for key, value in self.relaxed.items() if key[0] == number}
        self.violations.append(outside)
        self.shared.append(shared)
        self.costs.append(float(outside @ outside) + float(sum(value**2 for value in shared.values())))

    def finish(self) -> CascadeSolution:
        """Return the solution."""
        broken = self.rows.missing(self.point) / self.rows.lengths
        return CascadeSolution(
            self.point,
            tuple(self.costs),
            tuple(self.violations),
            tuple(self.shared),
            tuple(self.active_rows),
            self.generated,
            self.rounds,
            self.stationarity,
            max(0.0, float(np.max(broken, initial=0.0))),
            self.complementarity,
            self.free,
        )

    def _satisfy(
        self, number: int, matrix: FloatArray, right: FloatArray, rows: Inequalities, families: list[Family]
    ) -> bool:
        """Return whether all of a level can be satisfied, after moving to a point that does."""
        point, free = self.point, self.free
        if len(matrix):
            goal = right - matrix @ point
            size = np.linalg.norm(matrix, axis=1) + np.abs(right)
            step = free @ _solve(matrix @ free, goal, VANISHED * float(np.linalg.norm(matrix)))
            if np.any(np.abs(matrix @ step - goal) > _EXACT * size):
                return False
            point, free = point + step, _null_space(matrix, free)
        nothing = np.zeros((0, len(point)))
        search = Search(number, nothing, np.zeros(0), point, free, rows, families, self.relaxed, anchored=False)
        try:
            found = search.run()
        except SolverError:  # nearly infeasible: the level is solved with slack variables instead
            found = None
        if found is None:
            return False
        self._decide(number, found, free, families)
        return True

    def _decide(self, number: int, found: LevelMinimum, free: FloatArray, families: list[Family]) -> None:
        """Move to the minimum of a level, and fix what it decided."""
        rows, point = found.rows, found.point
        self.relaxed |= {key: value for key, value in found.shared.items() if value > 0.0}
        # Broken rows are relaxed to their values: only this level's own can be broken, but for rounding.
        missing = rows.missing(point)
        own = rows.level == number
        broken = own & (rows.row >= 0) & (missing > BROKEN * rows.lengths)
        rows.lower = np.where(own & (missing > 0.0), rows.lower - missing, rows.lower)
        forces = found.multipliers * np.linalg.norm(rows.matrix @ self.free, axis=1)
        active = np.flatnonzero(forces > _ACTIVE * found.size)
        self.active_rows += [
            ActiveRow(
                int(rows.level[i]),
                int(rows.row[i]),
                int(rows.label[i]),
                rows.matrix[i],
                float(found.multipliers[i]),
                number,
            )
            for i in active.tolist()
        ]
        fixed = np.union1d(active, np.flatnonzero(broken)).astype(np.int64)
        if len(fixed):
            free = _null_space((rows.matrix / rows.lengths[:, None])[fixed], free)
        self.point, self.free, self.rows, self.families = point, free, rows, families
        self.generated += found.generated
        self.rounds += found.rounds
        self.stationarity = max(self.stationarity, found.solved.stationarity)
        self.complementarity = max(self.complementarity, found.solved.complementarity)


def _null_space(matrix: FloatArray, free: FloatArray) -> FloatArray:
    """Return a basis of the null space of rows within the directions `free`."""
    if not len(matrix) or not free.shape[1]:
        return free
    _, values, right = complete_vectors(matrix @ free)
    least = max(VANISHED * float(np.linalg.norm(matrix)), RANK * float(np.max(values, initial=0.0)))
    return np.asarray(free @ right[int(np.count_nonzero(values > least)) :].T)


def _solve(matrix: FloatArray, right: FloatArray, least: float) -> FloatArray:
    """Return the minimum-norm least-squares solution; singular values up to `least` are rounding."""
    left, values, turned = complete_vectors(matrix)
    seen = int(np.count_nonzero(values > max(least, RANK * float(np.max(values, initial=0.0)))))
    return np.asarray(turned[:seen].T @ (left[:, :seen].T @ right / values[:seen]))
