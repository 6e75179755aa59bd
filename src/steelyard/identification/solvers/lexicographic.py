"""Lexicographic least squares: each level is solved as well as the levels above it leave room for.

A level is a set of rows ``lower ≤ A z ≤ upper``; its cost is the sum of squares of what lies outside, ``Σ dist²``.
Equations have ``lower = upper``. Levels are solved one after the other, each in the null space of what those above have
fixed, and within the inequalities that they satisfied: [jovic2016] (7), by the cascade of Kanoun, Lamiraux and Wieber
(2011) and of Escande, Mansard and Wieber (2014). Whatever a level decided stays decided: equations keep their
residuals, broken rows keep their violations, and rows that a minimum leans on stay tight.

A family of rows too large to write down gives those that a point breaks; all rows of a family share one violation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.solvers.least_distance import RANK
from steelyard.identification.solvers.level_search import BROKEN, VANISHED, Family, Inequalities, Search
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.level_search import Cuts, FamilyKey, Minimum

    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

_EXACT = 1e-10
"""Residual, beside what it is made of, up to which equations count as satisfied."""

_LEANS = 1e-6
"""Push of a row, beside the slope at a minimum, from which the minimum counts as leaning on it."""


@dataclass(frozen=True, eq=False)
class Level:
    """Rows of equal rank.

    Attributes:
        name: Its name.
        matrix: Shape (m, n).
        lower: Shape (m,), minus infinity where open.
        upper: Shape (m,), infinity where open; equal to `lower` for an equation.
        separators: Families of rows, all of them lower bounds, that are generated.
        drag: Equations, matrix and right side, that count with the cost when the level is solved, though they are none
            of its own: a little less broken is not worth any distance.
    """

    name: str
    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    separators: tuple[Cuts, ...] = ()
    drag: tuple[FloatArray, FloatArray] | None = None

    def outside(self, place: FloatArray) -> FloatArray:
        """Gives by how much each row is broken at a point, shape (m,)."""
        values = self.matrix @ place
        return np.asarray(np.maximum(0.0, np.maximum(self.lower - values, values - self.upper)))

    def inequalities(self, number: int) -> Inequalities:
        """Gives the rows that are no equations, as lower bounds."""
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
        )


@dataclass(frozen=True, eq=False)
class Binding:
    """A row on which the minimum of a level leans.

    Attributes:
        level: Number of the level that the row belongs to.
        row: Number of the row in its level; −1 for a generated one.
        direction: The row as a lower bound, shape (n,).
        multiplier: How fast half the cost falls when the bound is loosened.
        solved: Number of the level whose minimum it is.
    """

    level: int
    row: int
    direction: FloatArray
    multiplier: float
    solved: int


@dataclass(frozen=True, eq=False)
class CascadeSolution:
    """A lexicographic minimum.

    Attributes:
        unknowns: ``z``, shape (n,).
        costs: Of each level at its own minimum.
        violations: Of each level, by how much each row is broken, shape (m,).
        shared: Of each level, by how much families are broken, by number of the separator and of the family.
        bindings: Rows on which minima lean.
        generated: How many rows were generated.
        rounds: How many least-squares problems were solved.
        stationarity: The greatest of the levels'; see `least_distance.Nearest`.
        violation: The most by which the solution breaks an inequality that its level had satisfied, rows of length one.
        complementarity: The greatest of the levels'.
        free: A basis of the directions that no level decided, shape (n, any).
    """

    unknowns: FloatArray
    costs: tuple[float, ...]
    violations: tuple[FloatArray, ...]
    shared: tuple[dict[tuple[int, int], float], ...]
    bindings: tuple[Binding, ...]
    generated: int
    rounds: int
    stationarity: float
    violation: float
    complementarity: float
    free: FloatArray


def solve_cascade(levels: Sequence[Level], start: FloatArray) -> CascadeSolution:
    """Gives the lexicographic minimum of levels.

    Args:
        levels: The first outranks all others.
        start: Directions that no level decides stay as they are here, as far as inequalities let them; shape (n,).

    Raises:
        SolverError: A level could not be solved.
    """
    cascade = _Cascade(np.array(start, dtype=np.float64), np.eye(len(start)), Inequalities.none(len(start)))
    for number, level in enumerate(levels):
        cascade.take(number, level)
    return cascade.finish()


@dataclass(eq=False)
class _Cascade:
    """What is decided so far: ``z = place + free x``, where ``x`` must respect `rows` and `families`."""

    place: FloatArray
    free: FloatArray
    rows: Inequalities
    families: list[Family] = field(default_factory=list)
    relaxed: dict[FamilyKey, float] = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    violations: list[FloatArray] = field(default_factory=list)
    shared: list[dict[tuple[int, int], float]] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    generated: int = 0
    rounds: int = 0
    stationarity: float = 0.0
    complementarity: float = 0.0

    def take(self, number: int, level: Level) -> None:
        """Solves one more level."""
        equations = level.lower == level.upper
        matrix, right = level.matrix[equations], level.lower[equations]
        families = [*self.families, *(Family(number, place, cuts) for place, cuts in enumerate(level.separators))]
        rows = self.rows + level.inequalities(number)
        bounded = len(rows) > len(self.rows) or len(families) > len(self.families)
        if not bounded or level.drag is not None or not self._satisfy(number, matrix, right, rows, families):
            if level.drag is not None:
                matrix, right = (
                    np.concatenate([own, dragged]) for own, dragged in zip((matrix, right), level.drag, strict=True)
                )
            search = Search(number, matrix, right, self.place, self.free, rows, families, self.relaxed, soft=bounded)
            found = search.run()
            if found is None:
                raise SolverError(
                    f"the level {level.name!r} was not solved: inequalities that were satisfied together no longer "
                    "are; constraints that nearly contradict each other do this: loosen one"
                )
            self._decide(number, found, _unseen(matrix, self.free), families)
        outside = level.outside(self.place)
        shared = {key[1:]: value for key, value in self.relaxed.items() if key[0] == number}
        self.violations.append(outside)
        self.shared.append(shared)
        self.costs.append(float(outside @ outside) + float(sum(value**2 for value in shared.values())))

    def finish(self) -> CascadeSolution:
        """Gives the solution."""
        broken = self.rows.missing(self.place) / self.rows.lengths
        return CascadeSolution(
            self.place,
            tuple(self.costs),
            tuple(self.violations),
            tuple(self.shared),
            tuple(self.bindings),
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
        """Satisfies all of a level, if that can be done."""
        place, free = self.place, self.free
        if len(matrix):
            goal = right - matrix @ place
            size = np.linalg.norm(matrix, axis=1) + np.abs(right)
            step = free @ _solve(matrix @ free, goal, VANISHED * float(np.linalg.norm(matrix)))
            if np.any(np.abs(matrix @ step - goal) > _EXACT * size):
                return False
            place, free = place + step, _unseen(matrix, free)
        nothing = np.zeros((0, len(place)))
        search = Search(number, nothing, np.zeros(0), place, free, rows, families, self.relaxed, anchored=False)
        try:
            found = search.run()
        except SolverError:  # too near a contradiction to tell: what follows can do without satisfying all
            found = None
        if found is None:
            return False
        self._decide(number, found, free, families)
        return True

    def _decide(self, number: int, found: Minimum, free: FloatArray, families: list[Family]) -> None:
        """Goes to the minimum of a level, and lets stay what it decided."""
        rows, place = found.rows, found.place
        self.relaxed |= {key: value for key, value in found.shared.items() if value > 0.0}
        # Broken rows are loosened to where they are: this level's own alone can be, but for rounding.
        missing = rows.missing(place)
        own = rows.level == number
        broken = own & (rows.row >= 0) & (missing > BROKEN * rows.lengths)
        rows.lower = np.where(own & (missing > 0.0), rows.lower - missing, rows.lower)
        pushes = found.multipliers * np.linalg.norm(rows.matrix @ self.free, axis=1)
        leant = np.flatnonzero(pushes > _LEANS * found.size)
        self.bindings += [
            Binding(int(rows.level[i]), int(rows.row[i]), rows.matrix[i], float(found.multipliers[i]), number)
            for i in leant.tolist()
        ]
        fixed = np.union1d(leant, np.flatnonzero(broken)).astype(np.int64)
        if len(fixed):
            free = _unseen((rows.matrix / rows.lengths[:, None])[fixed], free)
        self.place, self.free, self.rows, self.families = place, free, rows, families
        self.generated += found.generated
        self.rounds += found.rounds
        self.stationarity = max(self.stationarity, found.nearest.stationarity)
        self.complementarity = max(self.complementarity, found.nearest.complementarity)


def _unseen(matrix: FloatArray, free: FloatArray) -> FloatArray:
    """Gives a basis of those of the directions `free` that rows do not see."""
    if not len(matrix) or not free.shape[1]:
        return free
    _, values, right = complete_vectors(matrix @ free)
    least = max(VANISHED * float(np.linalg.norm(matrix)), RANK * float(np.max(values, initial=0.0)))
    return np.asarray(free @ right[int(np.count_nonzero(values > least)) :].T)


def _solve(matrix: FloatArray, right: FloatArray, least: float) -> FloatArray:
    """Gives the shortest least-squares solution; singular values up to `least` are rounding."""
    left, values, turned = complete_vectors(matrix)
    seen = int(np.count_nonzero(values > max(least, RANK * float(np.max(values, initial=0.0)))))
    return np.asarray(turned[:seen].T @ (left[:, :seen].T @ right / values[:seen]))
