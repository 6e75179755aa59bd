"""Rows ``lower ≤ A φ ≤ upper`` on the parameters of a robot, families of rows, and both together.

Rows act on the flat parameters ``φ`` of all links, in SI units. What would be infinitely many rows, or thousands, stays
a separator: asked at some parameters, it gives those rows that they break.
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
class Rows:
    """Linear bounds on the parameters, ``lower ≤ matrix φ ≤ upper``.

    Attributes:
        matrix: Shape (m, 10 n_links), on the flat parameters in SI units.
        lower: Shape (m,); −inf where open.
        upper: Shape (m,); +inf where open, equal to `lower` for an equation.
        names: What each row says, in words.
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
        """Gives how far parameters, shape (n_links, 10) or flat, are beyond each row, in the row's unit; shape (m,)."""
        values = self.matrix @ np.asarray(parameters, dtype=np.float64).reshape(-1)
        return np.asarray(np.maximum(0.0, np.maximum(self.lower - values, values - self.upper)))

    def pick(self, which: Any) -> Rows:
        """Gives some of the rows, by index or by truth."""
        places = np.arange(len(self))[which]
        return Rows(
            self.matrix[places],
            self.lower[places],
            self.upper[places],
            tuple(self.names[place] for place in places),
            tuple(self.kinds[place] for place in places),
        )


def join_rows(parts: Sequence[Rows], parameter_count: int) -> Rows:
    """Gives several sets of rows as one; `parameter_count` is the length of ``φ``."""
    return Rows(
        np.concatenate([np.zeros((0, parameter_count)), *(part.matrix for part in parts)]),
        np.concatenate([np.zeros(0), *(part.lower for part in parts)]),
        np.concatenate([np.zeros(0), *(part.upper for part in parts)]),
        tuple(name for part in parts for name in part.names),
        tuple(kind for part in parts for kind in part.kinds),
    )


class Separator(Protocol):
    """A family of rows, infinite or very large, all of them lower bounds."""

    @property
    def kind(self) -> str:
        """The kind of constraint that it comes from."""

    @property
    def names(self) -> tuple[str, ...]:
        """What it is about, one name per link."""

    def first(self, *, fine: bool = False) -> Rows:
        """Gives rows to begin with; some more where nothing else draws a search towards what is possible."""

    def violated(self, parameters: FloatArray, tolerance: float = 0.0) -> Rows:
        """Gives rows that parameters (n_links, 10) break by more than `tolerance` times the link's own size."""

    def violation(self, parameters: FloatArray) -> FloatArray:
        """Gives how far parameters (n_links, 10) are beyond, one number per name, zero or more, in the rows' unit."""


@dataclass(frozen=True, eq=False)
class ConstraintSystem:
    """What constraints mean for one robot.

    Attributes:
        rows: The rows that can be listed.
        separators: The families that cannot.
        remarks: What a user should know of it, in sentences.
        links: Names of all links of the robot.
    """

    rows: Rows
    separators: tuple[Separator, ...]
    remarks: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of constraints that are there, each once."""
        return tuple(dict.fromkeys([*self.rows.kinds, *(separator.kind for separator in self.separators)]))

    def of(self, kinds: Collection[str]) -> ConstraintSystem:
        """Gives the part that comes from some kinds of constraints."""
        mask = np.array([kind in kinds for kind in self.rows.kinds], dtype=np.bool_)
        chosen = tuple(separator for separator in self.separators if separator.kind in kinds)
        return replace(self, rows=self.rows.pick(mask), separators=chosen)

    def worst(self, parameters: Any) -> tuple[float, str]:
        """Gives the greatest violation, in SI units, and what it is of; zero and nothing where all holds."""
        array = np.asarray(parameters, dtype=np.float64).reshape(-1, PARAMETER_COUNT)
        greatest, name = 0.0, ""
        for names, values in [
            (self.rows.names, self.rows.violation(array)),
            *((separator.names, separator.violation(array)) for separator in self.separators),
        ]:
            if len(values) and float(np.max(values)) > greatest:
                greatest, name = float(np.max(values)), names[int(np.argmax(values))]
        return greatest, name
