"""Constraints that contradict each other, found before anything is solved, and reported by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.identification.constraint_system import ConstraintSystem
    from steelyard.identification.parameter_sets import ParameterSet


def refuse_contradictions(system: ConstraintSystem, unknowns: ParameterSet) -> None:
    """Raises where no parameters satisfy all constraints, and names those that contradict each other."""
    raise NotImplementedError
