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

_PATIENCE = 10
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
        iterations: How many steps it took.
        gradient: The projected gradient that is left, as a share of the first one.
        converged: Whether it settled.
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
    tolerance: float = 1.0,
    iterations: int = 20_000,
) -> BoundedSolution:
    """Gives what minimises ``‖A z − b‖²`` within bounds, from ``z = 0`` by projected conjugate gradients.

    Directions that the data do not touch stay where they were. Small singular values may be dropped beforehand,
    (22)-(23) of the paper. Stopping at the noise leaves directions that are hardly excited near the start.

    Args:
        problem: The problem.
        lower: Least values by pattern of parameter, in SI units; by default ``{"*.m": 0.0}``, no negative masses.
        upper: Greatest values by pattern.
        c_max: Greatest condition number that is kept; None keeps all.
        scale: "spread": each unknown is measured by how far a model is usually off; "none": SI units, as in the paper.
        tolerance: It stops when ten steps together lower the cost by less than this many times what noise alone does to
            one direction; small numbers follow hardly excited directions to the end.
        iterations: It gives up after as many steps.

    Raises:
        IdentifiabilityError: A bound is unknown or crossed, or an option makes no sense.
    """
    count = len(problem.unknowns)
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")
    if c_max is not None and not c_max > 1.0:
        raise IdentifiabilityError(f"c_max is {c_max!r}; it must be greater than one")
    if not tolerance >= 0.0:
        raise IdentifiabilityError(f"tolerance is {tolerance!r}; it must be zero or more")
    units = np.linalg.norm(problem.unknowns.spread, axis=1) if scale == "spread" else np.ones(count)
    least, greatest = _bounds(problem, {"*.m": 0.0} if lower is None else lower, upper or {})
    matrix, goal, beside = problem.matrix * units, problem.right, np.zeros((len(problem.matrix), 0))
    if scale == "spread":
        matrix, goal, beside = problem.beside
        extra = beside.shape[1]
        matrix = np.concatenate([matrix * units, beside], axis=1)
        units = np.concatenate([units, np.ones(extra)])
        least, greatest = np.append(least, np.full(extra, -np.inf)), np.append(greatest, np.full(extra, np.inf))
    left, values, right = truncated_factors(matrix)
    threshold = values[0] / c_max if c_max is not None and len(values) else 0.0
    kept = int(np.count_nonzero(values > max(threshold, 1e-10 * np.max(values, initial=0.0))))
    # On the factors: the gradient's rounding in dropped directions would let them drift.
    reduced, answer = values[:kept, None] * right[:kept], left[:, :kept].T @ goal
    search = _Search(reduced, answer, least / units, greatest / units, tolerance * problem.noise**2)
    scaled, settled = search.run(iterations)
    at_bound = (scaled <= search.lower) | (scaled >= search.upper)
    free = ~at_bound
    covariance, determined = _spread(reduced, free, problem.noise, left[:, :kept].T @ beside)
    found = (scaled * units)[:count]
    return BoundedSolution(
        found,
        kept,
        values,
        (units[:, None] * covariance * units)[:count, :count],
        determined[:count],
        tuple(_active(problem, found, (at_bound & (scaled <= search.lower))[:count], ">="))
        + tuple(_active(problem, found, (at_bound & (scaled > search.lower))[:count], "<=")),
        search.spent,
        search.gradient(scaled),
        settled,
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
    least_gain: float
    spent: int = 0

    def run(self, most: int) -> tuple[FloatArray, bool]:
        """Gives the solution, and whether the search settled before it had taken `most` steps."""
        place = np.clip(np.zeros(self.matrix.shape[1]), self.lower, self.upper)
        cost = self._cost(place)
        while self.spent < most:
            place = self._descend(self._project(place), most)
            before, cost = cost, self._cost(place)
            if before - cost <= self.least_gain:
                return place, True
        return place, False

    def gradient(self, place: FloatArray) -> float:
        """Gives the projected gradient as a share of the one at the start."""
        start = np.clip(np.zeros(self.matrix.shape[1]), self.lower, self.upper)
        first = float(np.linalg.norm(self._slope(start)))
        return float(np.linalg.norm(self._projected(place, self._slope(place)))) / first if first > 0.0 else 0.0

    def _cost(self, place: FloatArray) -> float:
        residual = self.matrix @ place - self.right
        return float(residual @ residual)

    def _slope(self, place: FloatArray) -> FloatArray:
        return np.asarray(self.matrix.T @ (self.matrix @ place - self.right))

    def _projected(self, place: FloatArray, slope: FloatArray) -> FloatArray:
        """Gives the slope without what would leave the bounds."""
        blocked = ((place <= self.lower) & (slope > 0.0)) | ((place >= self.upper) & (slope < 0.0))
        return np.where(blocked, 0.0, slope)

    def _project(self, place: FloatArray) -> FloatArray:
        """Takes steepest steps, cut at the bounds, until the bounds that bind stay the same."""
        bound = self._bound(place)
        for _ in range(_MOST_PROJECTIONS):
            self.spent += 1
            slope = self._projected(place, self._slope(place))
            pushed = self.matrix @ slope
            size = float(pushed @ pushed)
            if size == 0.0:
                break
            length = float(slope @ slope) / size
            moved = np.clip(place - length * slope, self.lower, self.upper)
            # Cut at bounds, a steepest step may lead upwards; a shorter one does not.
            while self._cost(moved) > self._cost(place) and length > 0.0:
                length *= 0.5
                moved = np.clip(place - length * slope, self.lower, self.upper)
            place, now = moved, self._bound(moved)
            if np.array_equal(now, bound):
                break
            bound = now
        return place

    def _descend(self, place: FloatArray, most: int) -> FloatArray:
        """Goes down the face on which `place` lies, by conjugate gradients, until a bound or nothing more is gained."""
        # What a bound holds, but wants to leave it, is free too.
        free = ~self._bound(place) | (self._projected(place, self._slope(place)) != 0.0)
        matrix = self.matrix[:, free]
        residual = self.right - self.matrix @ place
        step = np.zeros(int(free.sum()))
        gradient = matrix.T @ residual
        direction, size = gradient.copy(), float(gradient @ gradient)
        lower, upper = self.lower[free] - place[free], self.upper[free] - place[free]
        gains: list[float] = []
        while self.spent < most and size > 0.0:
            self.spent += 1
            pushed = matrix @ direction
            steepness = float(pushed @ pushed)
            if steepness == 0.0:
                break
            length = size / steepness
            room = _room(step, direction, lower, upper)
            if length >= room:
                step = step + room * direction
                break
            step = step + length * direction
            residual = residual - length * pushed
            gradient = matrix.T @ residual
            gains.append(length * size)
            if len(gains) >= _PATIENCE and sum(gains[-_PATIENCE:]) <= self.least_gain:
                break
            before, size = size, float(gradient @ gradient)
            direction = gradient + (size / before) * direction
        moved = place.copy()
        moved[free] = np.clip(place[free] + step, self.lower[free], self.upper[free])
        return moved

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


def _spread(matrix: FloatArray, free: BoolArray, noise: float, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gives the covariance and the share that the data decided, with unknowns at a bound taken as known.

    Args:
        matrix: The problem's matrix.
        free: Which unknowns are not at a bound.
        noise: Of a row.
        beside: Nuisance columns, scaled by their priors.
    """
    count = matrix.shape[1]
    covariance, determined = np.zeros((count, count)), np.zeros(count)
    left, values, right = truncated_factors(matrix[:, free])
    kept = values > 1e-10 * np.max(values, initial=0.0)
    inverse = right[kept].T / values[kept]
    root = np.concatenate([noise * inverse, inverse @ (left[:, kept].T @ beside)], axis=1)
    covariance[np.ix_(free, free)] = root @ root.T
    determined[free] = np.sum(np.square(right[kept]), axis=0)
    return covariance, determined
