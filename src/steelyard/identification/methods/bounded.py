"""Bounds on each parameter, by conjugate gradients from the reference: [yamane2011] (17), (22)-(23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import lsq_linear

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.methods.option_checks import check_condition, check_scale
from steelyard.identification.methods.solution import SIMPLE, Solution
from steelyard.identification.methods.truncated import ROUNDING, relative_norm
from steelyard.identification.solvers.certificate import Certificate
from steelyard.regression import singular_vectors
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.identification.methods.option_checks import Scale
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem
    from steelyard.model import Constraint

_PATIENCE = 10
"""Steps over which the decrease of the cost is summed before the search stops. Set by judgement: single conjugate
gradient steps may gain little between two that gain much."""

_EXACT = 1e-3
"""Tolerance below which an active set method takes over from conjugate gradients. Set by judgement: on
ill-conditioned data conjugate gradients approach an exact minimum slowly."""

_STATIONARY = 1e-6
"""Projected gradient, relative to the first, up to which an exact minimum counts as one; as for other methods."""

_MOST_PROJECTIONS = 8
"""Steepest-descent steps before conjugate gradients begin again, even if the active bounds still change. Set by
judgement; it only bounds the work where the active set keeps changing."""


@dataclass(frozen=True, eq=False)
class BoundedProblem:
    """``min ‖matrix x − right‖²`` within ``lower ≤ x ≤ upper``, in scaled unknowns and nuisances ``x``.

    Attributes:
        problem: The problem of the Evidence.
        scales: From ``x`` to unknowns ``z`` and nuisances, shape (n,).
        matrix: Singular values times right singular vectors of what is kept, shape (n_kept, n). On these factors the
            rounding of a gradient cannot drift into dropped directions.
        right: Shape (n_kept,).
        lower: Shape (n,), minus infinity where open.
        upper: Shape (n,).
        tolerance: The search stops when ten steps together lower the cost by less than this many times the squared
            noise.
        iterations: Greatest number of steps.
    """

    problem: Problem
    scales: FloatArray
    matrix: FloatArray
    right: FloatArray
    lower: FloatArray
    upper: FloatArray
    tolerance: float
    iterations: int


def build_bounded(
    problem: Problem,
    *,
    lower: Mapping[str, float] | None = None,
    upper: Mapping[str, float] | None = None,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float = 1.0,
    iterations: int = 20_000,
) -> BoundedProblem:
    """Scale the problem, drop small singular values, (22)-(23) of the paper, and resolve the bounds.

    Args:
        problem: The problem.
        lower: Lower bounds by pattern of parameter, in SI units; besides, masses are not negative unless ``"*.m"`` says
            otherwise (minus infinity for no bound).
        upper: Upper bounds by pattern.
        c_max: Greatest condition number that is kept; None keeps all.
        scale: "spread": unknowns are scaled by the usual deviation of a model; "none": SI units, as in the paper.
        tolerance: The search stops when ten steps together lower the cost by less than this many times what noise alone
            does to one direction. Below a thousandth, an active set method finds the minimum itself.
        iterations: Greatest number of steps.

    Raises:
        IdentifiabilityError: A bound is unknown or crossed, or an option is invalid.
    """
    count = len(problem.unknowns)
    check_scale(scale)
    check_condition(c_max)
    if isinstance(tolerance, str) or not tolerance >= 0.0:
        raise IdentifiabilityError(f"tolerance is {tolerance!r}; it must be zero or more")
    units = np.linalg.norm(problem.unknowns.spread, axis=1) if scale == "spread" else np.ones(count)
    least, greatest = _bounds(problem, lower, upper)
    columns, goal, nuisances = problem.matrix, problem.right, np.zeros((len(problem.matrix), 0))
    if scale == "spread":
        columns, goal, nuisances = problem.with_nuisances
    open_ends = np.full(nuisances.shape[1], np.inf)
    scales = np.concatenate([units, np.ones(nuisances.shape[1])])
    left, values, right = singular_vectors(np.concatenate([columns * units, nuisances], axis=1))
    threshold = values[0] / c_max if c_max is not None and len(values) else 0.0
    kept = int(np.count_nonzero(values > max(threshold, ROUNDING * np.max(values, initial=0.0))))
    return BoundedProblem(
        problem,
        scales,
        values[:kept, None] * right[:kept],
        left[:, :kept].T @ goal,
        np.append(least, -open_ends) / scales,
        np.append(greatest, open_ends) / scales,
        tolerance,
        iterations,
    )


def solve_bounded(bounded: BoundedProblem) -> Solution:
    """Minimise within the bounds, from ``z = 0`` by projected conjugate gradients.

    Directions that the data do not observe stay where they were; stopping at the noise leaves directions that are
    hardly excited near the start. Covariance and response take unknowns at a bound as known, and directions below the
    noise as not followed.
    """
    problem, tolerance = bounded.problem, bounded.tolerance
    count = len(problem.unknowns)
    search = _Search(bounded.matrix, bounded.right, bounded.lower, bounded.upper, tolerance * problem.noise**2)
    exact = tolerance < _EXACT
    scaled, settled = search.solve(bounded.iterations) if exact else search.run(bounded.iterations)
    low, high = scaled <= search.lower, scaled >= search.upper
    floor = 0.0 if exact else problem.noise * np.sqrt(tolerance)
    response, noise = _respond(bounded.matrix, ~(low | high), problem.noise, floor)
    found, units = (scaled * bounded.scales)[:count], bounded.scales[:count]
    root = units[:, None] * np.concatenate([noise[:count], response[:count, count:]], axis=1)
    active = (*_active(problem, found, low[:count], ">="), *_active(problem, found, (high & ~low)[:count], "<="))
    return Solution(
        found,
        root @ root.T,
        units[:, None] * response[:count, :count] / units,
        "solved" if settled else "stopped",
        active,
        certificate=Certificate(search.gradient_share(scaled), problems=search.spent, active=active),
    )


def identify_bounded(task: Task, **options: Any) -> Solution:
    """Return the solution of the method "bounded"; constraints on single parameters become bounds."""
    given = {name: dict(options.pop(name, None) or {}) for name in ("lower", "upper")}
    for name, limits in zip(("lower", "upper"), _limits(task), strict=True):
        options[name] = {**limits, **given[name]}
    solution = solve_bounded(build_bounded(task.problem, **options))
    if solution.status == "solved" or solution.certificate is None:
        return solution
    remark = (
        f"The search stopped after {solution.certificate.problems} steps with {solution.certificate.stationarity:.1e} "
        "of its first gradient left; raise iterations, or lower c_max."
    )
    return replace(solution, remarks=(remark,))


def refuse_others(others: Sequence[Constraint]) -> None:
    """Refuse constraints that are no bounds on single parameters."""
    if others:
        raise IdentifiabilityError(
            f"the method 'bounded' takes bounds on single parameters ({in_words(list(SIMPLE))}), not "
            f"{others[0].kind!r}; use the method 'quadratic'",
            names=[constraint.kind for constraint in others],
        )


def _limits(task: Task) -> tuple[dict[str, float], dict[str, float]]:
    """Return lower and upper bounds of single parameters, by name, from the constraints."""
    lower: dict[str, float] = {}
    upper: dict[str, float] = {}
    if not task.constraints:
        return lower, upper
    asked = task.constraints[len(task.model.setup.constraints) :]
    refuse_others([constraint for constraint in asked if constraint.kind not in SIMPLE])
    _, system, _ = task.resolve("bounded")
    looked_for = set(task.problem.unknowns.names)
    rows = system.rows
    for row, low, high in zip(rows.matrix, rows.lower, rows.upper, strict=True):
        name = task.model.parameter_names[int(np.flatnonzero(row)[0])]
        if name in looked_for:
            lower[name] = max(low, lower.get(name, -np.inf))
            upper[name] = min(high, upper.get(name, np.inf))
    return lower, upper


@dataclass(eq=False)
class _Search:
    """Gradient projection finds the active bounds, conjugate gradients the minimum between them.

    The scheme is that of Moré and Toraldo, SIAM J. Optim. 1 (1991).
    """

    matrix: FloatArray
    right: FloatArray
    lower: FloatArray
    upper: FloatArray
    least_gain: float
    spent: int = 0

    def run(self, most: int) -> tuple[FloatArray, bool]:
        """Return the solution, and whether the search converged within `most` steps."""
        point = np.clip(np.zeros(self.matrix.shape[1]), self.lower, self.upper)
        cost = self._cost(point)
        while self.spent < most:
            point = self._descend(self._project(point), most)
            before, cost = cost, self._cost(point)
            if before - cost <= self.least_gain:
                return point, True
        return point, False

    def solve(self, most: int) -> tuple[FloatArray, bool]:
        """Return the minimum by an active set method (Stark and Parker's BVLS), and whether it is one."""
        free = self.lower < self.upper
        point = np.where(free, 0.0, self.lower)
        answer = lsq_linear(
            self.matrix[:, free],
            self.right - self.matrix @ point,
            bounds=(self.lower[free], self.upper[free]),
            method="bvls",
            tol=1e-15,
            max_iter=most,
        )
        point[free] = answer.x
        # It ends on its bounds up to rounding.
        for bound in (self.lower, self.upper):
            near = np.abs(point - bound) <= 1e-12 * (1.0 + np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            point = np.where(near, bound, point)
        self.spent += int(answer.nit)
        return point, self.gradient_share(point) < _STATIONARY

    def gradient_share(self, point: FloatArray) -> float:
        """Return the norm of the projected gradient relative to that at the start."""
        start = np.clip(np.zeros(self.matrix.shape[1]), self.lower, self.upper)
        return relative_norm(self._projected(point, self._gradient(point)), self._gradient(start))

    def _cost(self, point: FloatArray) -> float:
        residual = self.matrix @ point - self.right
        return float(residual @ residual)

    def _gradient(self, point: FloatArray) -> FloatArray:
        return np.asarray(self.matrix.T @ (self.matrix @ point - self.right))

    def _projected(self, point: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient without components that would leave the bounds."""
        blocked = ((point <= self.lower) & (gradient > 0.0)) | ((point >= self.upper) & (gradient < 0.0))
        return np.where(blocked, 0.0, gradient)

    def _project(self, point: FloatArray) -> FloatArray:
        """Take steepest-descent steps, clipped at the bounds, until the active bounds stay the same."""
        bound = self._bound(point)
        for _ in range(_MOST_PROJECTIONS):
            self.spent += 1
            gradient = self._projected(point, self._gradient(point))
            image = self.matrix @ gradient
            size = float(image @ image)
            if size == 0.0:
                break
            length = float(gradient @ gradient) / size
            moved = np.clip(point - length * gradient, self.lower, self.upper)
            # Clipped at bounds, a steepest-descent step may raise the cost; a shorter one does not.
            while self._cost(moved) > self._cost(point) and length > 0.0:
                length *= 0.5
                moved = np.clip(point - length * gradient, self.lower, self.upper)
            point, now = moved, self._bound(moved)
            if np.array_equal(now, bound):
                break
            bound = now
        return point

    def _descend(self, point: FloatArray, most: int) -> FloatArray:
        """Minimise on the face of `point` by conjugate gradients, until a bound is met or nothing more is gained."""
        # An unknown at a bound whose gradient points inwards is free too.
        free = ~self._bound(point) | (self._projected(point, self._gradient(point)) != 0.0)
        matrix = self.matrix[:, free]
        residual = self.right - self.matrix @ point
        step = np.zeros(int(free.sum()))
        gradient = matrix.T @ residual
        direction, size = gradient.copy(), float(gradient @ gradient)
        lower, upper = self.lower[free] - point[free], self.upper[free] - point[free]
        gains: list[float] = []
        while self.spent < most and size > 0.0:
            self.spent += 1
            image = matrix @ direction
            steepness = float(image @ image)
            if steepness == 0.0:
                break
            length = size / steepness
            room = _room(step, direction, lower, upper)
            if length >= room:
                step = step + room * direction
                break
            step = step + length * direction
            residual = residual - length * image
            gradient = matrix.T @ residual
            gains.append(length * size)
            if len(gains) >= _PATIENCE and sum(gains[-_PATIENCE:]) <= self.least_gain:
                break
            before, size = size, float(gradient @ gradient)
            direction = gradient + (size / before) * direction
        moved = point.copy()
        moved[free] = np.clip(point[free] + step, self.lower[free], self.upper[free])
        return moved

    def _bound(self, point: FloatArray) -> BoolArray:
        return np.asarray((point <= self.lower) | (point >= self.upper))


def _room(step: FloatArray, direction: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the greatest step along a direction within the bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(direction > 0.0, (upper - step) / direction, (lower - step) / direction)
    return float(np.min(np.where(direction == 0.0, np.inf, ratio), initial=np.inf))


def _bounds(
    problem: Problem, lower: Mapping[str, float] | None, upper: Mapping[str, float] | None
) -> tuple[FloatArray, FloatArray]:
    unknowns = problem.unknowns
    least, greatest = np.full(len(unknowns), -np.inf), np.full(len(unknowns), np.inf)
    least[[index for index, name in enumerate(unknowns.names) if name.endswith(".m")]] = 0.0
    for limits, bounds, word in ((least, lower, "lower"), (greatest, upper, "upper")):
        if bounds is not None and not isinstance(bounds, Mapping):
            raise IdentifiabilityError(f'{word} is {bounds!r}; give numbers by pattern, such as {{"*.m": 0.1}}')
        for pattern, value in (bounds or {}).items():
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or np.isnan(value):
                raise IdentifiabilityError(f"the bound of {pattern!r} is {value!r}; give a number", names=[pattern])
            limits[unknowns.find(pattern)] = value
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
    return [f"{problem.unknowns.names[index]} {sign} {values[index]:.6g}" for index in np.flatnonzero(at_bound)]


def _respond(matrix: FloatArray, free: BoolArray, noise: float, floor: float) -> tuple[FloatArray, FloatArray]:
    """Return the response of the unknowns to true ones, (n, n), and a root of their noise covariance, (n, n_kept).

    Unknowns at a bound do not respond, nor do directions whose singular value is not above `floor`.
    """
    count = matrix.shape[1]
    left, values, right = singular_vectors(matrix[:, free])
    kept = values > max(floor, ROUNDING * np.max(values, initial=0.0))
    inverse = right[kept].T / values[kept]
    response, root = np.zeros((count, count)), np.zeros((count, int(kept.sum())))
    response[free] = inverse @ (left[:, kept].T @ matrix)
    root[free] = noise * inverse
    return response, root
