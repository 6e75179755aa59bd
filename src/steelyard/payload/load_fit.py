"""Loads fitted to a reduced problem: point masses on given links, and bodies with an extent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from steelyard.model import PARAMETER_COUNT
from steelyard.payload.load_problem import point_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.payload.load_problem import PayloadProblem

SMALL, EXTENT = 0.05, 0.1
"""How far (m) a load's matter is from its centre: where it counts as a point, and of a body, as standard deviations."""

_TENSOR = np.array([1.0, np.sqrt(2.0), 1.0, np.sqrt(2.0), np.sqrt(2.0), 1.0]) / SMALL**2
"""What makes the numbers of a load's inertia (by its mass, m²) alike in all directions, with `SMALL` as unit."""

_MOST_STEPS = 100
_SETTLED = 1e-10


@dataclass(frozen=True, eq=False)
class LoadFit:
    """Small loads on some links that fit best.

    Attributes:
        links: The links, by number.
        masses: Shape (n,), kg.
        positions: In each link's joint frame, shape (n, 3), m.
        extents: Inertia of each about its centre by its mass, shape (n, 6), m².
        cost: ``‖right − columns ψ‖²``, and the priors of positions and extents.
        covariance: Of (mass, position) of each load, one after the other, shape (4 n, 4 n).
        log_evidence: Logarithm of the marginal likelihood, by Laplace's approximation, beside that of no noise at all.
    """

    links: tuple[int, ...]
    masses: FloatArray
    positions: FloatArray
    extents: FloatArray
    cost: float
    covariance: FloatArray
    log_evidence: float

    def parameters(self, number: int) -> FloatArray:
        """Gives the ten parameters of one load, shape (10,)."""
        return small_load(float(self.masses[number]), self.positions[number], self.extents[number])


def fit_loads(problem: PayloadProblem, links: Sequence[int], *, removed: bool, near: LoadFit | None = None) -> LoadFit:
    """Gives the small loads on given links that fit best.

    With ``ψ(m, p, E)`` the ten parameters of a mass m at p with a little inertia m E about its centre, it minimises
    ``‖right − Σ columns_k ψ_k‖² + Σ ‖L_k⁻¹ (p_k − c_k)‖² + Σ ‖E_k / r²‖² + Σ (m_k / M)²`` by Levenberg's and
    Marquardt's steps. A load is a point as far as it can be told; without E, the inertia of a ball of steel would be
    looked for elsewhere. It starts from each link's centre, and from the best mass and first moment where inertias are
    left out.

    Args:
        problem: The problem.
        links: The links, by number.
        removed: Whether matter may have been taken away. Without it a mass below zero has no prior probability; the
            fit itself may be below.
        near: Where to start for links that it has.
    """
    columns = np.concatenate([problem.of(link) for link in links], axis=1)
    small = np.asarray(np.linalg.qr(np.concatenate([columns, problem.right[:, None]], axis=1), mode="r"))
    columns, right = small[:, :-1], small[:, -1]
    centres, roots = problem.centres[list(links)], problem.roots[list(links)]
    inverses = np.linalg.inv(roots)
    count = len(links)

    size = PARAMETER_COUNT

    def residual(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        loads = values.reshape(count, size)
        left, slopes = right.copy(), np.zeros((len(right), size * count))
        rows, row_slopes = np.zeros(size * count), np.zeros((size * count, size * count))
        for number, load in enumerate(loads):
            first = size * number
            block, own = columns[:, first : first + size], np.arange(first, first + size)
            left -= block @ small_load(float(load[0]), load[1:4], load[4:])
            slopes[:, own] = -block @ load_slopes(float(load[0]), load[1:4], load[4:])
            rows[first] = load[0] / problem.mass_scale
            row_slopes[first, first] = 1.0 / problem.mass_scale
            rows[own[1:4]] = inverses[number] @ (load[1:4] - centres[number])
            row_slopes[first + 1 : first + 4, first + 1 : first + 4] = inverses[number]
            rows[own[4:]] = _TENSOR * load[4:]
            row_slopes[own[4:], own[4:]] = _TENSOR
        return np.concatenate([left, rows]), np.concatenate([slopes, row_slopes])

    best: tuple[float, FloatArray, FloatArray] | None = None
    for start in _starts(problem, links, columns, right, near):
        found = minimise(residual, start)
        if best is None or found[0] < best[0] - 1e-9:
            best = found
    assert best is not None  # noqa: S101  (there is always a start)
    cost, values, slopes = best
    loads = values.reshape(count, size)
    triangle = np.linalg.qr(slopes, mode="r")
    inverse = np.linalg.inv(triangle)
    kept = np.concatenate([np.arange(size * number, size * number + 4) for number in range(count)])
    covariance = inverse[kept] @ inverse[kept].T
    # What the data narrow loads down to, beside what the priors do: many places cost.
    narrow = np.sum(np.log(np.abs(np.diagonal(triangle)))) - count * np.sum(np.log(_TENSOR))
    evidence = -0.5 * cost - narrow - np.sum(np.log(np.linalg.det(roots))) - count * np.log(problem.mass_scale)
    if not removed:
        errors = np.sqrt(np.diagonal(covariance)[::4])
        evidence += float(np.sum(np.log(2.0) + log_ndtr(loads[:, 0] / errors)))
    penalty = float(np.sum(np.square(loads[:, 0] / problem.mass_scale)))
    return LoadFit(
        tuple(links), loads[:, 0], loads[:, 1:4], loads[:, 4:], cost - penalty, np.asarray(covariance), float(evidence)
    )


@dataclass(frozen=True, eq=False)
class BodyFit:
    """A load with an extent on one link.

    Attributes:
        parameters: Its ten parameters in the link's joint frame, shape (10,).
        covariance: Of its mass and centre, and of its extent's six numbers, shape (10, 10).
        gain: By how much it fits better than a point mass.
    """

    parameters: FloatArray
    covariance: FloatArray
    gain: float


def fit_body(problem: PayloadProblem, fit: LoadFit, number: int) -> BodyFit:
    """Gives the body in place of one of some point masses, all refitted.

    Its second moment about its centre is ``m L Lᵀ``, so that it is possible whatever L is; L's numbers have a prior of
    `EXTENT`. The other loads stay where they are.
    """
    others = [k for k in range(len(fit.links)) if k != number]
    right = problem.right.copy()
    for k in others:
        right -= problem.of(fit.links[k]) @ fit.parameters(k)
    link = fit.links[number]
    small = np.asarray(np.linalg.qr(np.concatenate([problem.of(link), right[:, None]], axis=1), mode="r"))
    columns, right = small[:, :-1], small[:, -1]
    inverse, centre = np.linalg.inv(problem.roots[link]), problem.centres[link]

    def body(values: FloatArray) -> FloatArray:
        a, b, c, d, e, f = values[4:].tolist()
        triangle = np.array([[a, 0.0, 0.0], [b, c, 0.0], [d, e, f]])
        second = triangle @ triangle.T
        tensor = np.trace(second) * np.eye(3) - second
        extent = values[0] * tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        return np.asarray(point_parameters(float(values[0]), values[1:4]) + np.concatenate([np.zeros(4), extent]))

    def residual(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        slopes = np.zeros((PARAMETER_COUNT, 10))
        for k in range(10):
            step = np.zeros(10)
            step[k] = 1e-6
            slopes[:, k] = (body(values + step) - body(values - step)) / 2e-6
        away = inverse @ (values[1:4] - centre)
        priors = np.concatenate([[values[0] / problem.mass_scale], away, values[4:] / EXTENT])
        prior_slopes = np.zeros((10, 10))
        prior_slopes[0, 0] = 1.0 / problem.mass_scale
        prior_slopes[1:4, 1:4] = inverse
        prior_slopes[4:, 4:] = np.eye(6) / EXTENT
        left = right - columns @ body(values)
        return np.concatenate([left, priors]), np.concatenate([-columns @ slopes, prior_slopes])

    point = np.concatenate([[fit.masses[number]], fit.positions[number], np.zeros(6)])
    before = float(np.sum(np.square(residual(point)[0])))
    best, best_cost, slopes = point, before, residual(point)[1]
    for size in (0.02, 0.1):
        start = point.copy()
        start[[4, 6, 9]] = size
        cost, values, there = minimise(residual, start)
        if cost < best_cost:
            best, best_cost, slopes = values, cost, there
    return BodyFit(body(best), np.asarray(np.linalg.inv(slopes.T @ slopes)), before - best_cost)


def minimise(
    residual: Callable[[FloatArray], tuple[FloatArray, FloatArray]], start: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Gives the least sum of squares from a start, where it is, and the residual's slopes there."""
    values = start
    rows, slopes = residual(values)
    cost = float(rows @ rows)
    damping = 1e-3
    for _ in range(_MOST_STEPS):
        gradient, curvature = slopes.T @ rows, slopes.T @ slopes
        scale = np.diagonal(curvature)
        step = -np.linalg.solve(curvature + damping * np.diag(scale), gradient)
        tried = residual(values + step)
        new = float(tried[0] @ tried[0])
        if new < cost:
            gained = cost - new
            values, (rows, slopes), cost = values + step, tried, new
            damping = max(damping * 0.1, 1e-12)
            if gained <= _SETTLED * (1.0 + cost):
                break
        else:
            damping *= 10.0
            if damping > 1e8:
                break
    return cost, values, slopes


def _starts(
    problem: PayloadProblem, links: Sequence[int], columns: FloatArray, right: FloatArray, near: LoadFit | None
) -> list[FloatArray]:
    """Gives where to begin: at each link's centre, and where mass and first moment alone would be."""
    known = dict(zip(near.links, range(len(near.links)), strict=True)) if near is not None else {}
    blocks = []
    for link in links:
        if near is not None and link in known:
            blocks.append(near.positions[known[link]])
        else:
            blocks.append(problem.centres[link])
    centred = _with_masses(np.array(blocks), columns, right)
    if near is not None:
        for number, link in enumerate(links):
            if link in known:
                centred.reshape(len(links), -1)[number, 4:] = near.extents[known[link]]
    linear = []
    for number, link in enumerate(links):
        block = columns[:, PARAMETER_COUNT * number : PARAMETER_COUNT * number + 4]
        # About the link's centre, with the prior's ellipsoid as unit.
        local = np.concatenate([block[:, :1] + block[:, 1:] @ problem.centres[link][:, None], block[:, 1:]], axis=1)
        linear.append((local, problem.roots[link]))
    if len(links) > 1:
        return [centred]
    local, root = linear[0]
    scaled = np.concatenate([local[:, :1], local[:, 1:] @ root], axis=1) * problem.mass_scale
    stacked = np.concatenate([scaled, np.eye(4)])
    mass, *moment = np.linalg.lstsq(stacked, np.concatenate([right, np.zeros(4)]), rcond=None)[0]
    if abs(mass) < 1e-12:
        return [centred]
    offset = np.array(moment) / mass
    offset /= max(1.0, float(np.linalg.norm(offset)) / 2.0)
    return [centred, _with_masses((problem.centres[links[0]] + root @ offset)[None], columns, right)]


def _with_masses(positions: FloatArray, columns: FloatArray, right: FloatArray) -> FloatArray:
    """Gives loads at given positions, with the masses that fit best."""
    units = [
        columns[:, PARAMETER_COUNT * number : PARAMETER_COUNT * (number + 1)] @ point_parameters(1.0, position)
        for number, position in enumerate(positions)
    ]
    masses = np.linalg.lstsq(np.stack(units, axis=1), right, rcond=1e-12)[0]
    return np.concatenate([masses[:, None], positions, np.zeros((len(masses), 6))], axis=1).reshape(-1)


def small_load(mass: float, position: FloatArray, extent: FloatArray) -> FloatArray:
    """Gives the ten parameters of a mass with a little inertia about its centre, `extent` by its mass, shape (10,)."""
    parameters = point_parameters(mass, position)
    parameters[4:] += mass * extent
    return parameters


def load_slopes(mass: float, position: FloatArray, extent: FloatArray) -> FloatArray:
    """Gives the derivatives of `small_load` by mass, position and extent, shape (10, 10)."""
    x, y, z = position.tolist()
    slopes = np.zeros((PARAMETER_COUNT, PARAMETER_COUNT))
    slopes[:, 0] = small_load(1.0, position, extent)
    slopes[1:4, 1:4] = mass * np.eye(3)
    slopes[4:, 1:4] = mass * np.array(
        [[0.0, 2 * y, 2 * z], [-y, -x, 0.0], [2 * x, 0.0, 2 * z], [-z, 0.0, -x], [0.0, -z, -y], [2 * x, 2 * y, 0.0]]
    )
    slopes[4:, 4:] = mass * np.eye(6)
    return slopes
