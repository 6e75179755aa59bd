"""Standard errors from posterior draws, where a constraint is active and the curvature does not give them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.sampling.drawn_families import with_cut_families
from steelyard.identification.sampling.draws import draw_errors

if TYPE_CHECKING:
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.solution import Solution

DRAWS = 64
"""Least number of independent draws behind standard errors where constraints are active. Chains come to some hundreds,
which give a standard error to 5 %."""

_SEED = 0
"""Of the draws: the same data give the same standard errors."""


def check_draws(draws: Any) -> None:
    """Refuse what is no number of draws."""
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 0:
        raise IdentifiabilityError(f"draws is {draws!r}; it must be a whole number from 0")


def with_drawn_errors(solution: Solution, system: ConstraintSystem, draws: int) -> Solution:
    """Return the solution with its errors from posterior draws.

    Args:
        solution: The solution, with its posterior.
        system: The constraints.
        draws: Least number of independent draws. Zero leaves the errors to the curvature, which counts equations and no
            other constraint, nor what a body can be: mostly too wide, but at once.
    """
    blind = "Standard errors ignore active constraints (and the boundary of possible bodies), and are mostly too large"
    if not draws or solution.posterior is None:
        return replace(solution, remarks=(*solution.remarks, f"{blind}; draws={DRAWS} takes them from draws."))
    try:
        posterior, holds = with_cut_families(solution.posterior, system.cut_families)
        generator = np.random.default_rng(_SEED)
        errors, mixing = draw_errors(posterior, solution.unknowns, draws, generator, holds=holds)
    except SolverError as error:
        return replace(solution, remarks=(*solution.remarks, f"{blind}: {error}."))
    remark = (
        "A constraint is active, or nearly so: standard errors are those of robots drawn from the posterior, worth "
        f"{mixing.effective_count:.0f} independent ones."
    )
    return replace(solution, errors=errors, remarks=(*solution.remarks, remark))
