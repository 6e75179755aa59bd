"""Fits of loads to a reduced problem: small loads on given links, and one extended rigid body."""

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

_SMALL, _EXTENT = 0.05, 0.1
"""Standard deviation (m) of a load's matter about its centre: of a load that counts as a point, and of a body. Set by
judgement: a load the size of a hand, and a box that a robot can carry."""

_TENSOR = np.array([1.0, np.sqrt(2.0), 1.0, np.sqrt(2.0), np.sqrt(2.0), 1.0]) / _SMALL**2
"""Scale of a load's inertia per mass (m²) with `_SMALL` as unit; products count twice, so that it is isotropic."""

_MOST_STEPS, _CONVERGED = 100, 1e-10
"""Limits of Levenberg-Marquardt steps, and of the relative decrease that ends them; set by judgement: a cost exact to
1e-10 changes no likelihood ratio that is compared with one."""

_DIFFERENCE = 1e-6
"""Step (kg, m) of central differences; derivatives of a quadratic are exact at any step, up to rounding."""

_BODY_STARTS = (0.02, 0.1)
"""Sizes (m) of a body from which its fit starts; the derivative by its size vanishes at zero."""


@dataclass(frozen=True, eq=False)
class LoadFit:
    """The best-fitting small loads on some links.

    Attributes:
        links: Numbers of the links.
        masses: Shape (n,), kg.
        positions: In each link's joint frame, shape (n, 3), m.
        extents: Inertia of each about its centre, per mass, shape (n, 6), m².
        cost: ``‖right − columns ψ‖²`` plus the priors of positions and extents.
        covariance: Of (mass, position) of each load in turn, shape (4 n, 4 n).
        log_evidence: Log marginal likelihood by Laplace's approximation, up to a constant.
    """

    links: tuple[int, ...]
    masses: FloatArray
    positions: FloatArray
    extents: FloatArray
    cost: float
    covariance: FloatArray
    log_evidence: float

    def parameters(self, number: int) -> FloatArray:
        """Return the ten parameters of one load, shape (10,)."""
        return small_load(float(self.masses[number]), self.positions[number], self.extents[number])


@dataclass(frozen=True, eq=False)
class BodyFit:
    """The best-fitting rigid body on one link.

    Attributes:
        parameters: Its ten parameters in the link's joint frame, shape (10,).
        covariance: Of its mass, centre and the six numbers of its extent, shape (10, 10).
        gain: Decrease of the cost beside a point mass.
    """

    parameters: FloatArray
    covariance: FloatArray
    gain: float


def fit_loads(problem: PayloadProblem, links: Sequence[int], *, removed: bool, near: LoadFit | None = None) -> LoadFit:
    """Fit small loads on given links.

    With ``ψ(m, p, E)`` the ten parameters of a mass m at p with a small inertia m E about its centre, it minimises
    ``‖right − Σ columns_k ψ_k‖² + Σ ‖L_k⁻¹ (p_k − c_k)‖² + Σ ‖E_k / r²‖² + Σ (m_k / M)²`` by Levenberg-Marquardt
    steps. E is nearly zero a priori; without it, the inertia of even a steel ball would be attributed to other links.
    The fit starts from each link's centre and, for one load, from the best mass and first moment without inertias.

    Args:
        problem: The problem.
        links: Numbers of the links.
        removed: Whether mass may have been removed. Otherwise a negative mass has no prior probability, although the
            fit itself may be negative.
        near: A fit to start from, for the links that it has.
    """
    size, count = PARAMETER_COUNT, len(links)
    columns = np.concatenate([problem.of(link) for link in links], axis=1)
    small = np.asarray(np.linalg.qr(np.concatenate([columns, problem.right[:, None]], axis=1), mode="r"))
    columns, right = small[:, :-1], small[:, -1]
    centres, roots = problem.centres[list(links)], problem.roots[list(links)]
    inverses = np.linalg.inv(roots)

    def residual(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, jacobian = right.copy(), np.zeros((len(right), size * count))
        priors, prior_jacobian = np.zeros(size * count), np.zeros((size * count, size * count))
        for number, load in enumerate(values.reshape(count, size)):
            own = np.arange(size * number, size * (number + 1))
            mass, position, extent = own[0], own[1:4], own[4:]
            block = columns[:, size * number : size * (number + 1)]
            left -= block @ small_load(float(load[0]), load[1:4], load[4:])
            jacobian[:, own] = -block @ load_jacobian(float(load[0]), load[1:4], load[4:])
            priors[mass] = load[0] / problem.mass_scale
            prior_jacobian[mass, mass] = 1.0 / problem.mass_scale
            priors[position] = inverses[number] @ (load[1:4] - centres[number])
            prior_jacobian[np.ix_(position, position)] = inverses[number]
            priors[extent] = _TENSOR * load[4:]
            prior_jacobian[extent, extent] = _TENSOR
        return np.concatenate([left, priors]), np.concatenate([jacobian, prior_jacobian])

    first, *others = (_minimise(residual, start) for start in _starts(problem, links, columns, right, near))
    cost, values, jacobian = first
    for found in others:
        if found[0] < cost - 1e-9:
            cost, values, jacobian = found
    loads = values.reshape(count, size)
    triangle = np.linalg.qr(jacobian, mode="r")
    inverse = np.linalg.inv(triangle)
    kept = np.concatenate([np.arange(size * number, size * number + 4) for number in range(count)])
    covariance = inverse[kept] @ inverse[kept].T
    # Occam's factor: posterior volume over prior volume.
    narrowed = np.sum(np.log(np.abs(np.diagonal(triangle)))) - count * np.sum(np.log(_TENSOR))
    evidence = -0.5 * cost - narrowed - np.sum(np.log(np.linalg.det(roots))) - count * np.log(problem.mass_scale)
    if not removed:
        errors = np.sqrt(np.diagonal(covariance)[::4])
        evidence += float(np.sum(np.log(2.0) + log_ndtr(loads[:, 0] / errors)))
    return LoadFit(
        links=tuple(links),
        masses=loads[:, 0],
        positions=loads[:, 1:4],
        extents=loads[:, 4:],
        cost=cost - float(np.sum(np.square(loads[:, 0] / problem.mass_scale))),
        covariance=np.asarray(covariance),
        log_evidence=float(evidence),
    )


def fit_body(problem: PayloadProblem, fit: LoadFit, number: int) -> BodyFit:
    """Fit a rigid body in place of one of the small loads; the other loads stay as they are.

    Its second moment about its centre is ``m L Lᵀ``, physically possible for any L; the entries of L have a prior of
    `_EXTENT`.
    """
    right = problem.right.copy()
    for other, link in enumerate(fit.links):
        if other != number:
            right -= problem.of(link) @ fit.parameters(other)
    link = fit.links[number]
    small = np.asarray(np.linalg.qr(np.concatenate([problem.of(link), right[:, None]], axis=1), mode="r"))
    columns, right = small[:, :-1], small[:, -1]
    inverse, centre = np.linalg.inv(problem.roots[link]), problem.centres[link]
    prior_jacobian = np.diag([1.0 / problem.mass_scale, 0.0, 0.0, 0.0, *[1.0 / _EXTENT] * 6])
    prior_jacobian[1:4, 1:4] = inverse

    def body(values: FloatArray) -> FloatArray:
        a, b, c, d, e, f = values[4:].tolist()
        triangle = np.array([[a, 0.0, 0.0], [b, c, 0.0], [d, e, f]])
        second = triangle @ triangle.T
        tensor = np.trace(second) * np.eye(3) - second
        extent = values[0] * tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        return np.asarray(point_parameters(float(values[0]), values[1:4]) + np.concatenate([np.zeros(4), extent]))

    def residual(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        steps = _DIFFERENCE * np.eye(10)
        jacobian = np.stack([(body(values + step) - body(values - step)) / (2 * _DIFFERENCE) for step in steps], axis=1)
        away = inverse @ (values[1:4] - centre)
        priors = np.concatenate([[values[0] / problem.mass_scale], away, values[4:] / _EXTENT])
        left = right - columns @ body(values)
        return np.concatenate([left, priors]), np.concatenate([-columns @ jacobian, prior_jacobian])

    best = point = np.concatenate([[fit.masses[number]], fit.positions[number], np.zeros(6)])
    rows, jacobian = residual(point)
    cost = point_cost = float(np.sum(np.square(rows)))
    for size in _BODY_STARTS:
        start = point.copy()
        start[[4, 6, 9]] = size
        found = _minimise(residual, start)
        if found[0] < cost:
            cost, best, jacobian = found
    return BodyFit(body(best), np.asarray(np.linalg.inv(jacobian.T @ jacobian)), point_cost - cost)


def _minimise(
    residual: Callable[[FloatArray], tuple[FloatArray, FloatArray]], start: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Minimise a sum of squares by Levenberg-Marquardt steps; return its value, where it is, and the Jacobian there."""
    values = start
    rows, jacobian = residual(values)
    cost = float(rows @ rows)
    damping = 1e-3
    for _ in range(_MOST_STEPS):
        gradient, curvature = jacobian.T @ rows, jacobian.T @ jacobian
        step = -np.linalg.solve(curvature + damping * np.diag(np.diagonal(curvature)), gradient)
        tried = residual(values + step)
        new = float(tried[0] @ tried[0])
        if new < cost:
            gained = cost - new
            values, (rows, jacobian), cost = values + step, tried, new
            damping = max(damping * 0.1, 1e-12)
            if gained <= _CONVERGED * (1.0 + cost):
                break
        else:
            damping *= 10.0
            if damping > 1e8:
                break
    return cost, values, jacobian


def _starts(
    problem: PayloadProblem, links: Sequence[int], columns: FloatArray, right: FloatArray, near: LoadFit | None
) -> list[FloatArray]:
    """Return starts: at each link's centre (or a known fit), and at the best mass and first moment of a single load."""
    known = {} if near is None else {link: number for number, link in enumerate(near.links)}
    positions, extents = problem.centres[list(links)], np.zeros((len(links), 6))
    if near is not None:
        for number, link in enumerate(links):
            if link in known:
                positions[number], extents[number] = near.positions[known[link]], near.extents[known[link]]
    centred = _with_masses(positions, columns, right).reshape(len(links), -1)
    centred[:, 4:] = extents
    if len(links) > 1:
        return [centred.reshape(-1)]
    centre, root = problem.centres[links[0]], problem.roots[links[0]]
    # Mass and first moment about the link's centre, with the prior's ellipsoid as unit.
    block = columns[:, :4]
    local = np.concatenate([block[:, :1] + block[:, 1:] @ centre[:, None], block[:, 1:]], axis=1)
    scaled = np.concatenate([local[:, :1], local[:, 1:] @ root], axis=1) * problem.mass_scale
    stacked = np.concatenate([scaled, np.eye(4)])
    mass, *moment = np.linalg.lstsq(stacked, np.concatenate([right, np.zeros(4)]), rcond=None)[0]
    if abs(mass) < 1e-12:
        return [centred.reshape(-1)]
    offset = np.array(moment) / mass
    offset /= max(1.0, float(np.linalg.norm(offset)) / 2.0)
    return [centred.reshape(-1), _with_masses((centre + root @ offset)[None], columns, right)]


def _with_masses(positions: FloatArray, columns: FloatArray, right: FloatArray) -> FloatArray:
    """Return point masses at given positions, with the masses that fit best, flat, shape (10 n,)."""
    units = [
        columns[:, PARAMETER_COUNT * number : PARAMETER_COUNT * (number + 1)] @ point_parameters(1.0, position)
        for number, position in enumerate(positions)
    ]
    masses = np.linalg.lstsq(np.stack(units, axis=1), right, rcond=1e-12)[0]
    return np.concatenate([masses[:, None], positions, np.zeros((len(masses), 6))], axis=1).reshape(-1)


def small_load(mass: float, position: FloatArray, extent: FloatArray) -> FloatArray:
    """Return the ten parameters of a mass with an inertia about its centre of `extent` per mass, shape (10,)."""
    parameters = point_parameters(mass, position)
    parameters[4:] += mass * extent
    return parameters


def load_jacobian(mass: float, position: FloatArray, extent: FloatArray) -> FloatArray:
    """Return the derivatives of `small_load` by mass, position and extent, shape (10, 10)."""
    x, y, z = position.tolist()
    jacobian = np.zeros((PARAMETER_COUNT, PARAMETER_COUNT))
    jacobian[:, 0] = small_load(1.0, position, extent)
    jacobian[1:4, 1:4] = mass * np.eye(3)
    jacobian[4:, 1:4] = mass * np.array(
        [[0.0, 2 * y, 2 * z], [-y, -x, 0.0], [2 * x, 0.0, 2 * z], [-z, 0.0, -x], [0.0, -z, -y], [2 * x, 2 * y, 0.0]]
    )
    jacobian[4:, 4:] = mass * np.eye(6)
    return jacobian
