"""Bounds on each parameter, by conjugate gradients from the reference: [yamane2011] (17), (22)-(23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.truncated import Scale, check_condition, truncated_factors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem

    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

_PATIENCE = 10
_EXACT = 1e-3
"""Tolerance below which an active set takes over from conjugate gradients."""

_STATIONARY = 1e-6
"""Share of the first projected gradient below which an exact solution counts as one."""

_MOST_PROJECTIONS = 8
"""Steepest steps before conjugate gradients begin again, even if the bounds that bind still change."""


@dataclass(frozen=True, eq=False)
class BoundedSolution:
    """A bounded solution.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        kept: How many singular values were kept.
        values: All singular values, descending.
        covariance: Of ``z``, from noise and from nuisances that look like parameters, unknowns at a bound taken as
            known and directions below the noise as not followed; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, likewise, shape (n_unknowns, n_unknowns).
        active: Names of the unknowns at a bound, ``"torso.m >= 0"``.
        iterations: How many steps it took.
        gradient: The projected gradient that is left, as a share of the first one.
        converged: Whether it settled.
    """

    unknowns: FloatArray
    kept: int
    values: FloatArray
    covariance: FloatArray
    response: FloatArray
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
        lower: Least values by pattern of parameter, in SI units; besides, masses are not negative unless ``"*.m"`` says
            otherwise (minus infinity for no bound).
        upper: Greatest values by pattern.
        c_max: Greatest condition number that is kept; None keeps all.
        scale: "spread": each unknown is measured by how far a model is usually off; "none": SI units, as in the paper.
        tolerance: It stops when ten steps together lower the cost by less than this many times what noise alone does to
            one direction. Below a thousandth, an active set takes over, and the minimum itself is found.
        iterations: It gives up after as many steps.

    Raises:
        IdentifiabilityError: A bound is unknown or crossed, or an option makes no sense.
    """
    count = len(problem.unknowns)
    if scale not in ("spread", "none"):
        raise IdentifiabilityError(f"scale is {scale!r}; write 'spread' or 'none'")
    check_condition(c_max)
    if isinstance(tolerance, str) or not tolerance >= 0.0:
        raise IdentifiabilityError(f"tolerance is {tolerance!r}; it must be zero or more")
    units = np.linalg.norm(problem.unknowns.spread, axis=1) if scale == "spread" else np.ones(count)
    least, greatest = _bounds(problem, lower, upper)
    columns, goal, beside = problem.matrix, problem.right, np.zeros((len(problem.matrix), 0))
    if scale == "spread":
        columns, goal, beside = problem.beside
    extra = beside.shape[1]
    open_ends = np.full(extra, np.inf)
    scales = np.concatenate([units, np.ones(extra)])
    left, values, right = truncated_factors(np.concatenate([columns * units, beside], axis=1))
    threshold = values[0] / c_max if c_max is not None and len(values) else 0.0
    kept = int(np.count_nonzero(values > max(threshold, 1e-10 * np.max(values, initial=0.0))))
    # On the factors: the gradient's rounding in dropped directions would let them drift.
    reduced = values[:kept, None] * right[:kept]
    search = _Search(
        reduced,
        left[:, :kept].T @ goal,
        np.append(least, -open_ends) / scales,
        np.append(greatest, open_ends) / scales,
        tolerance * problem.noise**2,
    )
    scaled, settled = search.solve(iterations) if tolerance < _EXACT else search.run(iterations)
    low, high = scaled <= search.lower, scaled >= search.upper
    floor = 0.0 if tolerance < _EXACT else problem.noise * np.sqrt(tolerance)
    response, noise = _respond(reduced, ~(low | high), problem.noise, floor)
    found = (scaled * scales)[:count]
    root = units[:, None] * np.concatenate([noise[:count], response[:count, count:]], axis=1)
    return BoundedSolution(
        found,
        kept,
        values,
        root @ root.T,
        units[:, None] * response[:count, :count] / units,
        (*_active(problem, found, low[:count], ">="), *_active(problem, found, (high & ~low)[:count], "<=")),
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

    def solve(self, most: int) -> tuple[FloatArray, bool]:
        """Gives the minimum by an active set (Stark and Parker's BVLS), and whether it is one."""
        free = self.lower < self.upper
        place = np.where(free, 0.0, self.lower)
        answer = lsq_linear(
            self.matrix[:, free],
            self.right - self.matrix @ place,
            bounds=(self.lower[free], self.upper[free]),
            method="bvls",
            tol=1e-15,
            max_iter=most,
        )
        place[free] = answer.x
        # It ends on its bounds up to rounding.
        for bound in (self.lower, self.upper):
            near = np.abs(place - bound) <= 1e-12 * (1.0 + np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            place = np.where(near, bound, place)
        self.spent += int(answer.nit)
        return place, self.gradient(place) < _STATIONARY

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


def _bounds(
    problem: Problem, lower: Mapping[str, float] | None, upper: Mapping[str, float] | None
) -> tuple[FloatArray, FloatArray]:
    unknowns = problem.unknowns
    least, greatest = np.full(len(unknowns), -np.inf), np.full(len(unknowns), np.inf)
    least[[place for place, name in enumerate(unknowns.names) if name.endswith(".m")]] = 0.0
    for limits, bounds, word in ((least, lower, "lower"), (greatest, upper, "upper")):
        if bounds is not None and not isinstance(bounds, Mapping):
            raise IdentifiabilityError(f'{word} is {bounds!r}; give numbers by pattern, such as {{"*.m": 0.1}}')
        for pattern, value in (bounds or {}).items():
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or np.isnan(value):
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


def _respond(matrix: FloatArray, free: BoolArray, noise: float, floor: float) -> tuple[FloatArray, FloatArray]:
    """Gives how the unknowns answer to true ones, (n, n), and a root of what noise does to them, (n, n_kept).

    Unknowns at a bound do not answer, and neither do directions whose singular value is not above `floor`.
    """
    count = matrix.shape[1]
    left, values, right = truncated_factors(matrix[:, free])
    kept = values > max(floor, 1e-10 * np.max(values, initial=0.0))
    inverse = right[kept].T / values[kept]
    response, root = np.zeros((count, count)), np.zeros((count, int(kept.sum())))
    response[free] = inverse @ (left[:, kept].T @ matrix)
    root[free] = noise * inverse
    return response, root
