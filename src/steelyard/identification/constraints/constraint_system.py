"""Rows ``lower ≤ A φ ≤ upper`` on the parameters of a robot, families of cutting planes, and both together.

Rows act on the flat parameters ``φ`` of all links, in SI units. Infinitely many rows, or thousands, are a family of
cutting planes, which generates the rows that given parameters violate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.model import PARAMETER_COUNT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from steelyard.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """Linear bounds on the parameters, ``lower ≤ matrix φ ≤ upper``.

    Attributes:
        matrix: Shape (m, 10 n_links), on the flat parameters in SI units.
        lower: Shape (m,); −inf where open.
        upper: Shape (m,); +inf where open, equal to `lower` for an equation.
        names: A description of each row.
        kinds: The kind of constraint that each row comes from.
    """

    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def violation(self, parameters: Any) -> FloatArray:
        """Return the violation of each row at parameters (n_links, 10) or flat, in the row's unit; shape (m,)."""
        values = self.matrix @ np.asarray(parameters, dtype=np.float64).reshape(-1)
        return np.asarray(np.maximum(0.0, np.maximum(self.lower - values, values - self.upper)))

    def pick(self, which: Any) -> ConstraintRows:
        """Return some of the rows, by index or by mask."""
        indices = np.arange(len(self))[which]
        return ConstraintRows(
            self.matrix[indices],
            self.lower[indices],
            self.upper[indices],
            tuple(self.names[index] for index in indices),
            tuple(self.kinds[index] for index in indices),
        )


def join_rows(parts: Sequence[ConstraintRows], parameter_count: int) -> ConstraintRows:
    """Concatenate sets of rows; `parameter_count` is the length of ``φ``."""
    return ConstraintRows(
        np.concatenate([np.zeros((0, parameter_count)), *(part.matrix for part in parts)]),
        np.concatenate([np.zeros(0), *(part.lower for part in parts)]),
        np.concatenate([np.zeros(0), *(part.upper for part in parts)]),
        tuple(name for part in parts for name in part.names),
        tuple(kind for part in parts for kind in part.kinds),
    )


class CutFamily(Protocol):
    """A family of cutting planes, infinite or very large, all of them lower bounds."""

    @property
    def kind(self) -> str:
        """The kind of constraint that it comes from."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each link's bound."""

    def first(self, *, fine: bool = False) -> ConstraintRows:
        """Return initial rows; more of them where `fine`, for a search that nothing else draws to the feasible set."""

    def violated(self, parameters: FloatArray, tolerance: float = 0.0) -> ConstraintRows:
        """Return rows that parameters (n_links, 10) violate by more than `tolerance` times the link's own size."""

    def violation(self, parameters: FloatArray) -> FloatArray:
        """Return the violation at parameters (n_links, 10), one number per name, zero or more, in the rows' unit."""


@dataclass(frozen=True, eq=False)
class ConstraintSystem:
    """The constraints of one robot.

    Attributes:
        rows: The rows that can be listed.
        cut_families: The families of cutting planes.
        remarks: Notes for the user, a sentence each.
        links: Names of all links of the robot.
    """

    rows: ConstraintRows
    cut_families: tuple[CutFamily, ...]
    remarks: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of constraints that are there, each once."""
        return tuple(dict.fromkeys([*self.rows.kinds, *(family.kind for family in self.cut_families)]))

    def of(self, kinds: Collection[str]) -> ConstraintSystem:
        """Return the part that comes from some kinds of constraints."""
        mask = np.array([kind in kinds for kind in self.rows.kinds], dtype=np.bool_)
        chosen = tuple(family for family in self.cut_families if family.kind in kinds)
        return replace(self, rows=self.rows.pick(mask), cut_families=chosen)

    def worst(self, parameters: Any) -> tuple[float, str]:
        """Return the greatest violation, in SI units, and its name; zero and an empty name where all hold."""
        array = np.asarray(parameters, dtype=np.float64).reshape(-1, PARAMETER_COUNT)
        greatest, name = 0.0, ""
        for names, values in [
            (self.rows.names, self.rows.violation(array)),
            *((family.names, family.violation(array)) for family in self.cut_families),
        ]:
            if len(values) and float(np.max(values)) > greatest:
                greatest, name = float(np.max(values)), names[int(np.argmax(values))]
        return greatest, name
