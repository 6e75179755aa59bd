"""Bounds on each parameter, by conjugate gradients from the reference: [yamane2011] (17), (22)-(23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.truncated import Scale, truncated_factors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.identification.problem import Problem
    from steelyard.model.parameters import FloatArray

    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

_MOST_PROJECTIONS = 8
"""Steepest steps before conjugate gradients begin again, even if the bounds that bind still change."""


@dataclass(frozen=True, eq=False)
class BoundedSolution:
    """A bounded solution.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        kept: How many singular values were kept.
        values: All singular values, descending.
        covariance: Of ``z``, unknowns at a bound taken as known, shape (n_unknowns, n_unknowns).
        determined: Of each unknown, the share that the data decided, 0 to 1; of one at a bound, zero.
        active: Names of the unknowns at a bound, ``"torso.m >= 0"``.
        iterations: How many products with the matrix it took.
        gradient: The projected gradient that is left, as a share of the first one.
        converged: Whether that is below the tolerance.
    """

    unknowns: FloatArray
    kept: int
    values: FloatArray
    covariance: FloatArray
    determined: FloatArray
    active: tuple[str, ...]
    iterations: int
    gradient: float
    converged: bool


def solve_bounded(
    problem: Problem,
    *,
    lower: Mapping[str, float] | None = None,
    upper: Mapping[str, float] | None = None,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float = 1e-6,
    iterations: int = 50_000,
) -> BoundedSolution:
    """Gives what minimises ``‖A z − b‖²`` within bounds, from ``z = 0`` by projected conjugate gradients.

    Directions that the data do not touch stay where they were. Small singular values may be dropped beforehand,
    (22)-(23) of the paper. A tolerance above zero leaves directions that are hardly excited near the start, as in the
    paper.

    Args:
        problem: The problem.
        lower: Least values by pattern of parameter, in SI units; by default ``{"*.m": 0.0}``, no negative masses.
        upper: Greatest values by pattern.
        c_max: Greatest condition number that is kept; None keeps all.
        scale: "spread": each unknown is measured by how far a model is usually off; "none": SI units, as in the paper.
        tolerance: Share of the first projected gradient at which it stops.
        iterations: It gives up after as many products with the matrix.

    Raises:
        IdentifiabilityError: A bound is unknown or crossed, or an option makes no sense.
    """
    count = len(problem.unknowns)
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")
    if c_max is not None and not c_max > 1.0:
        raise IdentifiabilityError(f"c_max is {c_max!r}; it must be greater than one")
    units = np.linalg.norm(problem.unknowns.spread, axis=1) if scale == "spread" else np.ones(count)
    least, greatest = _bounds(problem, {"*.m": 0.0} if lower is None else lower, upper or {})
    matrix = problem.matrix * units
    left, values, right = truncated_factors(matrix)
    threshold = values[0] / c_max if c_max is not None and len(values) else 0.0
    kept = int(np.count_nonzero(values > max(threshold, 1e-10 * np.max(values, initial=0.0))))
    # On the factors: the gradient's rounding in dropped directions would let them drift.
    reduced, answer = values[:kept, None] * right[:kept], left[:, :kept].T @ problem.right
    search = _Search(reduced, answer, least / units, greatest / units)
    scaled, spent, gradient = search.run(tolerance, iterations)
    at_bound = (scaled <= search.lower) | (scaled >= search.upper)
    free = ~at_bound
    covariance, determined = _spread(reduced, free, problem.noise)
    return BoundedSolution(
        scaled * units,
        kept,
        values,
        units[:, None] * covariance * units,
        determined,
        tuple(_active(problem, scaled * units, at_bound & (scaled <= search.lower), ">="))
        + tuple(_active(problem, scaled * units, at_bound & (scaled > search.lower), "<=")),
        spent,
        gradient,
        gradient <= tolerance,
    )


@dataclass(eq=False)
class _Search:
    """Gradient projection finds the bounds that bind, conjugate gradients the minimum between them.

    The scheme is that of Moré and Toraldo, SIAM J. Optim. 1 (1991).
    """

    matrix: FloatArray
    right: FloatArray
    lower: FloatArray
    upper: FloatArray

    def run(self, tolerance: float, most: int) -> tuple[FloatArray, int, float]:
        """Gives the solution, how many products it took, and the projected gradient left, as a share of the first."""
        place = np.clip(np.zeros(self.matrix.shape[1]), self.lower, self.upper)
        slope = self._slope(place)
        first = float(np.linalg.norm(slope))
        if first == 0.0:
            return place, 0, 0.0
        spent, left = 0, np.inf
        while spent < most:
            place, used = self._project(place)
            spent += used
            place, used = self._descend(place, tolerance * first, most - spent)
            spent += used
            left = float(np.linalg.norm(self._projected(place, self._slope(place)))) / first
            if left <= tolerance:
                break
        return place, spent, left

    def _slope(self, place: FloatArray) -> FloatArray:
        return np.asarray(self.matrix.T @ (self.matrix @ place - self.right))

    def _projected(self, place: FloatArray, slope: FloatArray) -> FloatArray:
        """Gives the slope without what would leave the bounds."""
        blocked = ((place <= self.lower) & (slope > 0.0)) | ((place >= self.upper) & (slope < 0.0))
        return np.where(blocked, 0.0, slope)

    def _project(self, place: FloatArray) -> tuple[FloatArray, int]:
        """Takes steepest steps, cut at the bounds, until the bounds that bind stay the same."""
        bound = self._bound(place)
        for number in range(1, _MOST_PROJECTIONS + 1):
            slope = self._projected(place, self._slope(place))
            pushed = self.matrix @ slope
            size = float(pushed @ pushed)
            if size == 0.0:
                return place, number
            place = np.clip(place - float(slope @ slope) / size * slope, self.lower, self.upper)
            now = self._bound(place)
            if np.array_equal(now, bound):
                break
            bound = now
        return place, number

    def _descend(self, place: FloatArray, enough: float, most: int) -> tuple[FloatArray, int]:
        """Goes down the face on which `place` lies, by conjugate gradients, as far as the bounds allow."""
        free = ~self._bound(place)
        # One that a bound holds, but that wants to leave it, is free too.
        slope = self._slope(place)
        free |= self._projected(place, slope) != 0.0
        matrix = self.matrix[:, free]
        residual = self.right - self.matrix @ place
        step = np.zeros(int(free.sum()))
        gradient = matrix.T @ residual
        direction, size = gradient.copy(), float(gradient @ gradient)
        lower, upper = self.lower[free] - place[free], self.upper[free] - place[free]
        spent = 0
        while spent < max(1, most) and np.sqrt(size) > 0.5 * enough:
            spent += 1
            pushed = matrix @ direction
            length = size / float(pushed @ pushed)
            room = _room(step, direction, lower, upper)
            if length >= room:
                step = step + room * direction
                break
            step = step + length * direction
            residual = residual - length * pushed
            gradient = matrix.T @ residual
            before, size = size, float(gradient @ gradient)
            direction = gradient + (size / before) * direction
        moved = place.copy()
        moved[free] = np.clip(place[free] + step, self.lower[free], self.upper[free])
        return moved, spent

    def _bound(self, place: FloatArray) -> BoolArray:
        return np.asarray((place <= self.lower) | (place >= self.upper))


def _room(step: FloatArray, direction: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Gives how far one may go along a direction before a bound is met."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(direction > 0.0, (upper - step) / direction, (lower - step) / direction)
    return float(np.min(np.where(direction == 0.0, np.inf, ratio), initial=np.inf))


def _bounds(problem: Problem, lower: Mapping[str, float], upper: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
    unknowns = problem.unknowns
    least, greatest = np.full(len(unknowns), -np.inf), np.full(len(unknowns), np.inf)
    for limits, bounds in ((least, lower), (greatest, upper)):
        for pattern, value in bounds.items():
            if not np.isfinite(value):
                raise IdentifiabilityError(f"the bound of {pattern!r} is {value!r}; give a number", names=[pattern])
            limits[unknowns.places(pattern)] = value
    crossed = np.flatnonzero(least > greatest)
    if len(crossed):
        name = unknowns.names[int(crossed[0])]
        raise IdentifiabilityError(
            f"the bounds of {name!r} cross: at least {least[crossed[0]]:g}, at most {greatest[crossed[0]]:g}",
            names=[name],
        )
    start = unknowns.start[unknowns.chosen]
    return least - start, greatest - start


def _active(problem: Problem, unknowns: FloatArray, at_bound: BoolArray, sign: str) -> list[str]:
    values = problem.unknowns.start[problem.unknowns.chosen] + unknowns
    return [f"{problem.unknowns.names[place]} {sign} {values[place]:.6g}" for place in np.flatnonzero(at_bound)]


def _spread(matrix: FloatArray, free: BoolArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """Gives the covariance and the share that the data decided, with unknowns at a bound taken as known."""
    count = matrix.shape[1]
    covariance, determined = np.zeros((count, count)), np.zeros(count)
    _, values, right = truncated_factors(matrix[:, free])
    kept = values > 1e-10 * np.max(values, initial=0.0)
    inverse = right[kept].T / values[kept]
    covariance[np.ix_(free, free)] = noise**2 * (inverse @ inverse.T)
    determined[free] = np.sum(np.square(right[kept]), axis=0)
    return covariance, determined
