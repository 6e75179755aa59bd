"""Constraints as levels of a cascade: scaled unknowns, names of what binds, and what a solution is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.truncated import truncated_factors
from steelyard.identification.solvers.lexicographic import Level
from steelyard.model import PARAMETER_COUNT
from steelyard.regression import complete_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem, Rows, Separator
    from steelyard.identification.methods.truncated import Scale
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution

_MARGIN, _SI_MARGIN = 3e-8, 1.1e-7
"""Part of its length by which a generated row asks for more than it must, by spread and in SI units."""


def check_scale(scale: Scale) -> None:
    """Refuses a scale that is none."""
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")


@dataclass(eq=False)
class Unknowns:
    """The unknowns ``y`` in which a problem under constraints is solved: ``φ = start + transform y``.

    Attributes:
        problem: The problem.
        scale: "spread": ``y`` is one where a model is as far off as usual; "none": SI units, as in the papers.
        names: By generated row, what it is called.
    """

    problem: Problem
    scale: Scale
    names: dict[bytes, str] = field(default_factory=dict)

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
        """What residuals are measured by: their noise, or nothing where nothing is scaled."""
        return self.problem.noise if self.scale == "spread" else 1.0

    @cached_property
    def directions(self) -> FloatArray:
        """The singular vectors of ``A`` on ``y`` as rows, and a basis of what it does not see, shape (n, n)."""
        _, _, right = self.factors
        return np.concatenate([right, complete_vectors(right)[2][len(right) :]])

    @cached_property
    def factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The singular value decomposition of ``A`` on ``y``."""
        return truncated_factors(self.problem.matrix @ self.root)

    def parameters(self, place: FloatArray) -> FloatArray:
        """Gives all parameters at a point, shape (n_links, 10)."""
        return np.asarray(self.problem.unknowns.start + self.transform @ place).reshape(-1, PARAMETER_COUNT)

    def level(self, name: str, system: ConstraintSystem) -> tuple[Level, tuple[str, ...]]:
        """Gives constraints as a level, and the names of its rows.

        By spread, rows are scaled to length one, so that they are broken by as much as a model is usually off.
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
            tuple(self._cuts(separator) for separator in system.separators),
        )
        return level, tuple(np.array(system.rows.names, dtype=object)[chosen])

    def reference(self, weight: float = 1.0) -> Level:
        """Gives the level that asks for the start."""
        count = self.transform.shape[1]
        return Level("reference", np.sqrt(weight) * np.eye(count), np.zeros(count), np.zeros(count))

    def _reduce(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Gives rows on ``y``, and their lengths; zero where they touch no unknown."""
        matrix = rows.matrix @ self.transform
        lengths = np.linalg.norm(matrix, axis=1)
        scales = np.linalg.norm(rows.matrix, axis=1) * np.max(np.linalg.norm(self.transform, axis=1), initial=0.0)
        return matrix, np.where(lengths > 1e-12 * scales, lengths, 0.0)

    def _cuts(self, separator: Separator) -> Any:
        def cuts(place: FloatArray) -> tuple[FloatArray, FloatArray, Any]:
            rows = separator.violated(self.parameters(place))
            matrix, lengths = self._reduce(rows)
            chosen = lengths > 0.0
            units = lengths[chosen] if self.scale == "spread" else np.ones(int(chosen.sum()))
            matrix = matrix[chosen] / units[:, None]
            # A little more than asked, so that a few cuts are enough, and none is broken by rounding.
            margin = _MARGIN if self.scale == "spread" else _SI_MARGIN * lengths[chosen]
            lower = (rows.lower - rows.matrix @ self.problem.unknowns.start)[chosen] / units + margin
            links = np.argmax(rows.matrix[chosen] != 0.0, axis=1) // PARAMETER_COUNT
            names = np.array(rows.names, dtype=object)[chosen]
            self.names |= {row.tobytes(): str(name) for row, name in zip(matrix, names, strict=True)}
            return matrix, lower, links

        return cuts

    def active(self, solution: CascadeSolution, names: list[tuple[str, ...]]) -> tuple[str, ...]:
        """Gives the names of the rows on which minima lean, strongest first, each once.

        Args:
            solution: The solution.
            names: Of each level, the names of its rows.
        """
        ordered = sorted(solution.bindings, key=lambda binding: (binding.solved, -binding.multiplier))
        found = [
            names[binding.level][binding.row]
            if binding.row >= 0
            else self.names.get(binding.direction.tobytes(), "a generated row")
            for binding in ordered
        ]
        return tuple(dict.fromkeys(found))
