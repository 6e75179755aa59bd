"""What shows that a solution is the optimum of its problem."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """Residuals of the optimality (KKT) conditions at a solution.

    Attributes:
        stationarity: Dual residual: the norm of the Lagrangian's gradient, relative to the greatest of its terms. Of
            closed forms, the residual of the normal equations; of "bounded", the projected gradient relative to the
            first one.
        violation: Primal residual: the greatest violation of a constraint that must hold, SI units.
        complementarity: Gap: the greatest product of a multiplier and its constraint's margin, or the duality gap,
            relative to the cost.
        problems: Number of subproblems solved, or of iterations.
        directions: Number of generated constraints: cutting planes, and semidefinite blocks.
        active: Names of the active constraints, largest multiplier first.
    """

    stationarity: float
    violation: float = 0.0
    complementarity: float = 0.0
    problems: int = 1
    directions: int = 0
    active: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "active", tuple(self.active))  # files store a list

    @property
    def primal_residual(self) -> float:
        """The greatest violation of a constraint that must hold, SI units."""
        return self.violation

    @property
    def dual_residual(self) -> float:
        """The relative norm of the Lagrangian's gradient."""
        return self.stationarity

    @property
    def gap(self) -> float:
        """What is left of complementary slackness, relative to the cost."""
        return self.complementarity
