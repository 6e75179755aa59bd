"""The minimum of one level: least squares in the room that those above leave, rows generated as they are broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.solvers.least_distance import LeastDistance

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.least_distance import Nearest

    IntArray = np.ndarray[Any, np.dtype[np.int64]]
    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

Cuts = Callable[[Any], tuple[Any, ...]]
"""From a point to rows that it breaks: ``matrix`` (m, n), ``lower`` (m,), and for each row the number of its family,
from zero; without numbers, all rows are of one family."""

FamilyKey = tuple[int, int, int]
"""Number of a level, of a separator in it, and of a family in that."""

BROKEN = 1e-9
"""Violation of a row, beside its length, from which it counts as broken."""

VANISHED = 1e-10
"""Length of a row, beside what it was, below which nothing that is left to decide touches it."""

_CUT, _WORST_CUT = 5e-9, 1e-7
"""Violation of a family's row, beside its length, that calls for a cut; and the most at which none is called for, where
rows that are there already are broken by as much."""

_AS_EXACT = 10.0
_FOR_GOOD = 1e-7
"""Violation of a family's row that nothing can change, beside its length, which is more than rounding."""

_MOST_ROUNDS, _PATIENCE = 120, 10


@dataclass(eq=False)
class Inequalities:
    """Rows ``matrix z ≥ lower``.

    Attributes:
        matrix: Shape (m, n).
        lower: Shape (m,).
        level: Number of each row's level, shape (m,).
        row: Number of each row in its level; −1 for generated ones; shape (m,).
        family: Separator and family of each generated row, else (−1, −1); shape (m, 2).
    """

    matrix: FloatArray
    lower: FloatArray
    level: IntArray
    row: IntArray
    family: IntArray

    @classmethod
    def none(cls, count: int) -> Inequalities:
        """Gives no rows, on `count` unknowns."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, count)), np.zeros(0), empty, empty, np.zeros((0, 2), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.lower)

    def __add__(self, other: Inequalities) -> Inequalities:
        return Inequalities(
            np.concatenate([self.matrix, other.matrix]),
            np.concatenate([self.lower, other.lower]),
            np.concatenate([self.level, other.level]),
            np.concatenate([self.row, other.row]),
            np.concatenate([self.family, other.family]),
        )

    def __getitem__(self, chosen: Any) -> Inequalities:
        return Inequalities(
            self.matrix[chosen], self.lower[chosen], self.level[chosen], self.row[chosen], self.family[chosen]
        )

    @property
    def lengths(self) -> FloatArray:
        """Length of each row; of a row of zeros, almost nothing."""
        return np.asarray(np.maximum(np.linalg.norm(self.matrix, axis=1), 1e-300))

    def missing(self, place: FloatArray) -> FloatArray:
        """Gives what each row lacks at a point."""
        return np.asarray(self.lower - self.matrix @ place)


@dataclass(frozen=True, eq=False)
class Family:
    """Rows that are generated.

    Attributes:
        level: Number of their level.
        number: Number of their separator in it.
        cuts: The separator.
    """

    level: int
    number: int
    cuts: Cuts

    def rows(self, place: FloatArray, relaxed: dict[FamilyKey, float]) -> Inequalities:
        """Gives the rows that a point breaks, loosened by `relaxed`."""
        matrix, lower, *numbers = self.cuts(place)
        matrix = np.asarray(matrix, dtype=np.float64).reshape(-1, len(place))
        groups = np.asarray(numbers[0] if numbers else np.zeros(len(matrix)), dtype=np.int64)
        keys = [(self.level, self.number, group) for group in groups.tolist()]
        lower = np.asarray(lower, dtype=np.float64) - np.array([relaxed.get(key, 0.0) for key in keys])
        return Inequalities(
            matrix,
            lower,
            np.full(len(keys), self.level, dtype=np.int64),
            np.full(len(keys), -1, dtype=np.int64),
            np.stack([np.full(len(keys), self.number, dtype=np.int64), groups], axis=1),
        )


@dataclass(eq=False)
class Minimum:
    """The minimum of one level.

    Attributes:
        place: ``z``, shape (n,).
        rows: All rows that it respects, those above it and its own, generated ones included.
        multipliers: Theirs, shape (m,).
        size: What they are to be compared with, times the rows' lengths.
        shared: By how much families of this level are broken.
        nearest: What certifies it.
        rounds: How many times it was solved.
        generated: How many rows were generated.
    """

    place: FloatArray
    rows: Inequalities
    multipliers: FloatArray
    size: float
    shared: dict[FamilyKey, float]
    nearest: Nearest
    rounds: int
    generated: int


@dataclass(eq=False)
class Search:
    """A level to be solved: ``min ‖matrix z − right‖²`` over ``z = place + free x``.

    Attributes:
        level: Its number.
        matrix: Its equations, shape (any, n).
        right: Their right side.
        place: A point that respects the rows of the levels above; shape (n,).
        free: A basis of what is left to decide, shape (n, any).
        rows: Inequalities of the levels above, and its own.
        families: Generated ones, likewise.
        relaxed: By how much families of the levels above are broken.
        soft: Whether its own rows and families may be broken, at the cost of what they are broken by.
        anchored: Whether the levels above put `place` where it is: what it breaks there is rounding, and allowed.
    """

    level: int
    matrix: FloatArray
    right: FloatArray
    place: FloatArray
    free: FloatArray
    rows: Inequalities
    families: list[Family]
    relaxed: dict[FamilyKey, float]
    soft: bool = False
    anchored: bool = True

    def run(self) -> Minimum | None:
        """Gives the minimum, or None where the rows contradict each other.

        Raises:
            SolverError: A solver gave up, or rows were generated without end.
        """
        rows, first, offered, place = self._allow(self.rows), 0, np.zeros(0, dtype=np.bool_), self.place
        width = self.free.shape[1]
        slots = _Slots(self.level if self.soft else -1, rows, self._unit)
        problem = self._prepare(slots, place)
        for number in range(1, _MOST_ROUNDS + 1):
            fresh = rows[first:]
            columns = np.concatenate([fresh.matrix @ self.free, slots.columns(first, len(fresh))], axis=1)
            touched = np.linalg.norm(columns, axis=1) > VANISHED * fresh.lengths
            missing = fresh.missing(self.place)
            if np.any(~touched & (missing > BROKEN * fresh.lengths)):
                return None
            problem.add(columns[touched], missing[touched])
            offered = np.concatenate([offered, touched])
            nearest = problem.solve()
            if nearest is None:
                return None
            place = self.place + self.free @ nearest.place[:width]
            shared = slots.shared(nearest.place[width:])
            # A cut beside others that bind is solved no better than these are.
            least = max(_CUT, min(_WORST_CUT, _AS_EXACT * nearest.violation))
            broken = self._broken(place, shared, least)
            # What nothing can change any more is broken by rounding only, or for good.
            fixed = np.linalg.norm(broken.matrix @ self.free, axis=1) <= VANISHED * broken.lengths
            fixed &= (broken.level != self.level) | (not self.soft)
            if np.any(fixed & (broken.missing(place) > _FOR_GOOD * broken.lengths)):
                return None
            broken = broken[~fixed]
            if not nearest.settled and (not len(broken) or number % _PATIENCE == 0):
                problem.loosen()
            if not len(broken) and not nearest.settled:
                first = len(rows)
                continue
            if not len(broken):
                multipliers = np.zeros(len(rows))
                multipliers[offered] = self._unit**2 * nearest.multipliers
                size, generated = self._unit**2 * nearest.size, len(rows) - len(self.rows)
                return Minimum(place, rows, multipliers, size, shared, nearest, number, generated)
            first, rows = len(rows), rows + broken
            if self.soft and slots.lacks(broken):
                slots = _Slots(self.level, rows, self._unit)
                problem, first, offered = self._prepare(slots, place), 0, offered[:0]
        raise SolverError(
            f"after {_MOST_ROUNDS} rounds the parameters still move: the data pull harder at what they hardly see than "
            "constraints can hold; record longer, or ask less of the data (a greater alpha, a smaller c_max)"
        )

    def _broken(self, place: FloatArray, shared: dict[FamilyKey, float], least: float) -> Inequalities:
        """Gives the families' rows that a point breaks by more than `least` beside what they share."""
        broken = Inequalities.none(len(place))
        for family in self.families:
            rows = self._allow(family.rows(place, self.relaxed))
            keys = zip(rows.level.tolist(), *rows.family.T.tolist(), strict=True)
            beyond = rows.missing(place) - np.array([shared.get(key, 0.0) for key in keys])
            broken = broken + rows[beyond > least * rows.lengths]
        return broken

    def _allow(self, rows: Inequalities) -> Inequalities:
        """Loosens rows of the levels above by what rounding breaks of them where it all begins."""
        if self.anchored:
            above = (rows.level < self.level) & (rows.missing(self.place) > 0.0)
            rows = replace(rows, lower=np.where(above, rows.matrix @ self.place, rows.lower))
        return rows

    @cached_property
    def _unit(self) -> float:
        """Size of the level's rows, by which all is measured: a level in other units is the same level."""
        own = self.rows.matrix[self.rows.level == self.level] if self.soft else self.matrix[:0]
        lengths = np.linalg.norm(np.concatenate([self.matrix, own]), axis=1)
        return float(np.max(lengths, initial=0.0)) or 1.0

    def _prepare(self, slots: _Slots, near: FloatArray) -> LeastDistance:
        reduced = self.matrix @ self.free / self._unit
        goal = (self.right - self.matrix @ self.place) / self._unit
        height, width = reduced.shape
        system = np.zeros((height + slots.count, width + slots.count))
        system[:height, :width] = reduced
        system[height:, width:] = np.eye(slots.count)
        start = np.append(self.free.T @ (near - self.place), np.zeros(slots.count))
        least = VANISHED * float(np.linalg.norm(self.matrix)) / self._unit
        return LeastDistance(system, np.append(goal, np.zeros(slots.count)), start, least)


class _Slots:
    """Which unknown violation each row of a softened level has: one each, or one for all rows of a family."""

    def __init__(self, level: int, rows: Inequalities, unit: float) -> None:
        """Gives slots to the rows of one level, whose violations are measured in units; none where no row is of it."""
        self._unit = unit
        self._level = level
        plain = np.flatnonzero((rows.level == level) & (rows.row >= 0))
        generated = np.flatnonzero((rows.level == level) & (rows.row < 0))
        self._slot = np.full(len(rows), -1, dtype=np.int64)
        self._slot[plain] = np.arange(len(plain))
        families, members = np.unique(rows.family[generated], axis=0, return_inverse=True)
        self._slot[generated] = len(plain) + members.reshape(-1)
        self._keys = [(level, int(separator), int(family)) for separator, family in families]
        self.count = len(plain) + len(families)

    def columns(self, first: int, count: int) -> FloatArray:
        """Gives the columns of the violations, for `count` rows from the row `first` on."""
        columns = np.zeros((count, self.count))
        slot = self._slot[first : first + count]
        held = np.flatnonzero(slot >= 0)
        columns[held, slot[held]] = self._unit
        return columns

    def lacks(self, rows: Inequalities) -> bool:
        """Tells whether rows of this level are without slots."""
        return bool(np.any(rows.level == self._level))

    def shared(self, violations: FloatArray) -> dict[FamilyKey, float]:
        """Gives the violations of the families."""
        values = violations[self.count - len(self._keys) :]
        return {key: max(0.0, self._unit * float(value)) for key, value in zip(self._keys, values, strict=True)}
