"""The minimum of one level: least squares within what the levels above leave free, with cutting planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.solvers.least_distance import LeastDistance

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification.solvers.least_distance import NearestPoint

Cuts = Callable[[Any], tuple[Any, ...]]
"""From a point to rows that it violates: ``matrix`` (m, n), ``lower`` (m,), for each row the number of its family, from
zero (without numbers, all rows are of one family), and for each row a label, by which active rows are recognised."""

FamilyKey = tuple[int, int, int]
"""Index of a level, of a source of cutting planes in it, and of a family (a link) in that."""

BROKEN = 1e-9
"""Violation of a row, relative to its length, from which it counts as broken. Set by judgement: far above rounding,
and below the 1e-8 that solutions promise."""

VANISHED = 1e-10
"""Length of a row on the free directions, relative to its own, below which none of them changes it. Set by judgement:
three digits above the rounding of a few hundred unknowns."""

_CUT, _WORST_CUT = 5e-9, 1e-7
"""Violation of a family's row, relative to its length, at which a cut is added; and the greatest at which none is,
where present rows are violated as much. Set by judgement: below the margin of cuts, 3e-8."""

_AS_EXACT = 10.0
"""Violation that calls for a cut, relative to that of present rows. Set by judgement: an order of magnitude."""

_FOR_GOOD = 1e-7
"""Violation of a fixed row of a family, relative to its length, that is more than rounding. Set by judgement: as
`_WORST_CUT`."""

_MOST_ROUNDS, _PATIENCE = 120, 10
"""Most rounds of cutting planes, and rounds after which the proximal term is relaxed though cuts are still added. Set
by judgement."""


@dataclass(eq=False)
class Inequalities:
    """Rows ``matrix z ≥ lower``.

    Attributes:
        matrix: Shape (m, n).
        lower: Shape (m,).
        level: Number of each row's level, shape (m,).
        row: Number of each row in its level; −1 for generated ones; shape (m,).
        family: Source and family of each generated row, else (−1, −1); shape (m, 2).
        label: Label that its source gave each generated row, else −1; shape (m,).
    """

    matrix: FloatArray
    lower: FloatArray
    level: IntArray
    row: IntArray
    family: IntArray
    label: IntArray

    @classmethod
    def none(cls, count: int) -> Inequalities:
        """Return no rows, on `count` unknowns."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, count)), np.zeros(0), empty, empty, np.zeros((0, 2), dtype=np.int64), empty)

    def __len__(self) -> int:
        return len(self.lower)

    def __add__(self, other: Inequalities) -> Inequalities:
        return Inequalities(*(np.concatenate(pair) for pair in zip(self._arrays, other._arrays, strict=True)))

    def __getitem__(self, chosen: Any) -> Inequalities:
        return Inequalities(*(each[chosen] for each in self._arrays))

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.matrix, self.lower, self.level, self.row, self.family, self.label

    @property
    def lengths(self) -> FloatArray:
        """Length of each row; of a row of zeros, almost nothing."""
        return np.asarray(np.maximum(np.linalg.norm(self.matrix, axis=1), 1e-300))

    def missing(self, point: FloatArray) -> FloatArray:
        """Return the violation of each row at a point, negative where it holds."""
        return np.asarray(self.lower - self.matrix @ point)


@dataclass(frozen=True, eq=False)
class Family:
    """A source of cutting planes.

    Attributes:
        level: Number of their level.
        number: Its index in the level.
        cuts: The function that generates them.
    """

    level: int
    number: int
    cuts: Cuts

    def rows(self, point: FloatArray, relaxed: dict[FamilyKey, float]) -> Inequalities:
        """Return the rows that a point violates, relaxed by `relaxed`."""
        matrix, lower, *numbers = self.cuts(point)
        matrix = np.asarray(matrix, dtype=np.float64).reshape(-1, len(point))
        groups = np.asarray(numbers[0] if numbers else np.zeros(len(matrix)), dtype=np.int64)
        labels = np.asarray(numbers[1] if len(numbers) > 1 else np.full(len(matrix), -1), dtype=np.int64)
        keys = [(self.level, self.number, group) for group in groups.tolist()]
        lower = np.asarray(lower, dtype=np.float64) - np.array([relaxed.get(key, 0.0) for key in keys])
        return Inequalities(
            matrix,
            lower,
            np.full(len(keys), self.level, dtype=np.int64),
            np.full(len(keys), -1, dtype=np.int64),
            np.stack([np.full(len(keys), self.number, dtype=np.int64), groups], axis=1),
            labels,
        )


@dataclass(eq=False)
class LevelMinimum:
    """The minimum of one level.

    Attributes:
        point: ``z``, shape (n,).
        rows: All rows that it satisfies, those above it and its own, generated ones included.
        multipliers: Theirs, shape (m,).
        size: The gradient to compare them with, times the rows' lengths.
        shared: Violation of each family of this level.
        solved: The last subproblem, with its residuals.
        rounds: Number of subproblems.
        generated: Number of generated rows.
    """

    point: FloatArray
    rows: Inequalities
    multipliers: FloatArray
    size: float
    shared: dict[FamilyKey, float]
    solved: NearestPoint
    rounds: int
    generated: int


@dataclass(eq=False)
class Search:
    """A level to be solved: ``min ‖matrix z − right‖²`` over ``z = point + free x``.

    Attributes:
        level: Its number.
        matrix: Its equations, shape (any, n).
        right: Their right side.
        point: A point that satisfies the rows of the levels above; shape (n,).
        free: A basis of the free directions, shape (n, any).
        rows: Inequalities of the levels above, and its own.
        families: Generated ones, likewise.
        relaxed: Violation of each family of the levels above.
        soft: Whether its own rows and families have slack variables, whose squares are the cost.
        anchored: Whether `point` is the minimum of the levels above: its violations are rounding, and allowed.
    """

    level: int
    matrix: FloatArray
    right: FloatArray
    point: FloatArray
    free: FloatArray
    rows: Inequalities
    families: list[Family]
    relaxed: dict[FamilyKey, float]
    soft: bool = False
    anchored: bool = True

    def run(self) -> LevelMinimum | None:
        """Return the minimum, or None where the rows are infeasible.

        Raises:
            SolverError: A solver gave up, or rows were generated without end.
        """
        rows, first, offered, point = self._allow(self.rows), 0, np.zeros(0, dtype=np.bool_), self.point
        width = self.free.shape[1]
        slacks = _Slacks(self.level if self.soft else -1, rows, self._unit)
        problem = self._prepare(slacks, point)
        for number in range(1, _MOST_ROUNDS + 1):
            fresh = rows[first:]
            columns = np.concatenate([fresh.matrix @ self.free, slacks.columns(first, len(fresh))], axis=1)
            touched = np.linalg.norm(columns, axis=1) > VANISHED * fresh.lengths
            missing = fresh.missing(self.point)
            if np.any(~touched & (missing > BROKEN * fresh.lengths)):
                return None
            problem.add(columns[touched], missing[touched])
            offered = np.concatenate([offered, touched])
            solved = problem.solve()
            if solved is None:
                return None
            point = self.point + self.free @ solved.point[:width]
            shared = slacks.shared(solved.point[width:])
            # Cuts are solved no more exactly than the rows that are active beside them.
            least = max(_CUT, min(_WORST_CUT, _AS_EXACT * solved.violation))
            broken = self._broken(point, shared, least)
            # A row that no free direction changes is violated by rounding, or for good.
            fixed = np.linalg.norm(broken.matrix @ self.free, axis=1) <= VANISHED * broken.lengths
            fixed &= (broken.level != self.level) | (not self.soft)
            if np.any(fixed & (broken.missing(point) > _FOR_GOOD * broken.lengths)):
                return None
            broken = broken[~fixed]
            if not solved.settled and (not len(broken) or number % _PATIENCE == 0):
                problem.loosen()
            if not len(broken) and not solved.settled:
                first = len(rows)
                continue
            if not len(broken):
                multipliers = np.zeros(len(rows))
                multipliers[offered] = self._unit**2 * solved.multipliers
                size, generated = self._unit**2 * solved.size, len(rows) - len(self.rows)
                return LevelMinimum(point, rows, multipliers, size, shared, solved, number, generated)
            first, rows = len(rows), rows + broken
            if self.soft and slacks.is_missing(broken):
                slacks = _Slacks(self.level, rows, self._unit)
                problem, first, offered = self._prepare(slacks, point), 0, offered[:0]
        raise SolverError(
            f"the cutting planes did not converge in {_MOST_ROUNDS} rounds: what the data hardly observe moves without "
            "bound; record longer, or ask less of the data (a greater alpha, a smaller c_max)"
        )

    def _broken(self, point: FloatArray, shared: dict[FamilyKey, float], least: float) -> Inequalities:
        """Return the families' rows that a point violates by more than `least`, apart from what they share."""
        broken = Inequalities.none(len(point))
        for family in self.families:
            rows = self._allow(family.rows(point, self.relaxed))
            keys = zip(rows.level.tolist(), *rows.family.T.tolist(), strict=True)
            beyond = rows.missing(point) - np.array([shared.get(key, 0.0) for key in keys])
            broken = broken + rows[beyond > least * rows.lengths]
        return broken

    def _allow(self, rows: Inequalities) -> Inequalities:
        """Relax rows of the levels above by their rounding at the start."""
        if self.anchored:
            above = (rows.level < self.level) & (rows.missing(self.point) > 0.0)
            rows = replace(rows, lower=np.where(above, rows.matrix @ self.point, rows.lower))
        return rows

    @cached_property
    def _unit(self) -> float:
        """Size of the level's rows, by which all is scaled: units of a level make no difference."""
        own = self.rows.matrix[self.rows.level == self.level] if self.soft else self.matrix[:0]
        lengths = np.linalg.norm(np.concatenate([self.matrix, own]), axis=1)
        return float(np.max(lengths, initial=0.0)) or 1.0

    def _prepare(self, slacks: _Slacks, near: FloatArray) -> LeastDistance:
        reduced = self.matrix @ self.free / self._unit
        goal = (self.right - self.matrix @ self.point) / self._unit
        height, width = reduced.shape
        system = np.zeros((height + slacks.count, width + slacks.count))
        system[:height, :width] = reduced
        system[height:, width:] = np.eye(slacks.count)
        start = np.append(self.free.T @ (near - self.point), np.zeros(slacks.count))
        least = VANISHED * float(np.linalg.norm(self.matrix)) / self._unit
        return LeastDistance(system, np.append(goal, np.zeros(slacks.count)), start, least)


class _Slacks:
    """Slack variables of a level's rows: one each, or one for all rows of a family."""

    def __init__(self, level: int, rows: Inequalities, unit: float) -> None:
        """Assign slack variables to the rows of one level, scaled by `unit`; none where no row is of it."""
        self._unit = unit
        self._level = level
        plain = np.flatnonzero((rows.level == level) & (rows.row >= 0))
        generated = np.flatnonzero((rows.level == level) & (rows.row < 0))
        self._slack = np.full(len(rows), -1, dtype=np.int64)
        self._slack[plain] = np.arange(len(plain))
        families, members = np.unique(rows.family[generated], axis=0, return_inverse=True)
        self._slack[generated] = len(plain) + members.reshape(-1)
        self._keys = [(level, int(source), int(family)) for source, family in families]
        self.count = len(plain) + len(families)

    def columns(self, first: int, count: int) -> FloatArray:
        """Return the columns of the slack variables, for `count` rows from the row `first` on."""
        columns = np.zeros((count, self.count))
        slack = self._slack[first : first + count]
        held = np.flatnonzero(slack >= 0)
        columns[held, slack[held]] = self._unit
        return columns

    def is_missing(self, rows: Inequalities) -> bool:
        """Return whether rows of this level are without slack variables."""
        return bool(np.any(rows.level == self._level))

    def shared(self, violations: FloatArray) -> dict[FamilyKey, float]:
        """Return the violation of each family."""
        values = violations[self.count - len(self._keys) :]
        return {key: max(0.0, self._unit * float(value)) for key, value in zip(self._keys, values, strict=True)}
