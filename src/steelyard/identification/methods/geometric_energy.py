"""The convex, smooth energy of the geometric method: the data, and each link's distance to its reference.

With ``φ = start + transform z`` the parameters of all links, it is::

    energy(z) = ‖A z − b‖² / (2 σ² κ²) + Σ w_l D(P_l(z) ‖ P0_l),   D(P ‖ P0) = tr(P P0⁻¹) − log det(P P0⁻¹) − 4,

and infinite where a link is no possible body. Unknowns are scaled by the curvature of ``Σ D`` at the reference,
``z = root x``: ``x`` depends on neither units nor frames, and a step of one is as large for every link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from steelyard.exceptions import SolverError
from steelyard.model import PARAMETER_COUNT, log_det_divergence, log_det_gradient, log_det_hessian, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification.problem import NuisanceResponse, Problem


_STEPS = 100
"""Most Newton steps. Set by judgement."""

_ENOUGH = 1e-4
"""Share of the predicted decrease that a step must reach: the usual constant of Armijo's rule."""

_NOISE_SCALES = tuple(2.0**power for power in range(10, -1, -1))
"""Noise scales of a continuation where Newton's method fails from the start. Set by judgement: at a thousand times the
noise the prior decides, and each halving is a small step."""

_ROUGH = 1e-2
"""Newton decrement at which a minimum on the way is exact enough. Set by judgement: within Newton's convergence."""

_INSIDE = 0.9
"""Share of the way to the boundary of possible bodies that a step goes at most. Set by judgement; usual in
interior-point methods are 0.9 to 0.99."""

_CLOSE, _LAST = 1e-11, 3
"""Newton decrement relative to the energy, below which full steps are taken unchecked, and how many of them. Set by
judgement: smaller decreases are lost in the rounding of the energy."""

_SHARPEST = 1e-6
"""Least relative deviation of parameters that data resolve: below it, the prior is lost in rounding (its square is
1e-12 of the curvature)."""

EXACT = 1e-18
"""Newton decrement, twice what a step would still gain, at which a minimum is exact: a relative deviation of 1e-9."""


@dataclass(frozen=True, eq=False)
class EnergyMinimum:
    """The minimum of the energy for given weights.

    Attributes:
        point: ``x``, shape (k,).
        value: The energy there.
        curvature: The Hessian there, shape (k, k).
        decrement: What Newton's next step would gain, twice.
        gradient: Greatest element of the gradient.
        steps: Number of Newton steps.
        factor: Cholesky factor of the curvature, lower triangular; above the diagonal is no part of it.
    """

    point: FloatArray
    value: float
    curvature: FloatArray
    decrement: float
    gradient: float
    steps: int
    factor: FloatArray

    @cached_property
    def covariance(self) -> FloatArray:
        """The inverse of the curvature, shape (k, k)."""
        return _inverse_of(self.factor)

    @property
    def log_determinant(self) -> float:
        """Logarithm of the curvature's determinant."""
        return 2.0 * float(np.sum(np.log(np.diagonal(self.factor))))


@dataclass(frozen=True, eq=False)
class GeometricEnergy:
    """A problem and its prior, in scaled unknowns ``x``.

    Attributes:
        reference: Parameters of possible bodies, shape (n_links, 10).
        links: The links with a distance of their own; not those tied to a mirror image, nor those of which nothing is
            looked for.
        sizes: Number of unknowns of each, shape (len(links),).
        root: From ``x`` to ``z``, shape (k, k).
        back: From ``z`` to ``x``, shape (k, k).
        left: The root again, sparse where it is made of blocks.
        maps: From ``x`` to the parameters of these links, shape (len(links), 10, k).
        block_diagonal: Whether each unknown belongs to one link alone, in order: so is the prior's curvature.
        matrix: ``A`` on ``x``, divided by the noise, shape (m, k).
        right: ``b``, divided by the noise.
        gram: ``Aᵀ A``, shape (k, k).
        least: ``‖A x − b‖²`` at its least.
        rank: Number of combinations of unknowns that are observable.
        noise: By which ``A`` and ``b`` were divided: the problem's noise, or what rounding allows with a prior.
        nuisances: Rows on ``x`` (p, k) and goals (p,) of the nuisances, divided by the noise, and their response to the
            noise scale; None without nuisances.
        plain: The energy at noise scale one, where this is another.
    """

    reference: FloatArray
    links: IntArray
    sizes: IntArray
    root: FloatArray
    back: FloatArray
    left: Any
    maps: FloatArray
    block_diagonal: bool
    matrix: FloatArray
    right: FloatArray
    gram: FloatArray
    least: float
    rank: int
    noise: float
    nuisances: tuple[FloatArray, FloatArray, NuisanceResponse] | None = None
    plain: GeometricEnergy | None = None

    def at_noise(self, noise: float) -> GeometricEnergy:
        """Return the energy at noise scale ``κ``, one or more, with nuisance priors as stated.

        Nuisances were eliminated at ``κ = 1``; dividing by ``κ`` alone would widen their priors as much.
        """
        if self.nuisances is None:
            return self
        plain, (rows, goals, response) = self.plain or self, self.nuisances
        roots = np.sqrt(response.gains(noise))
        rows, goals = roots[:, None] * rows, roots * goals
        return replace(
            self,
            matrix=np.concatenate([plain.matrix, rows]),
            right=np.concatenate([plain.right, goals]),
            gram=plain.gram + rows.T @ rows,
            least=plain.least + response.cost(noise) / self.noise**2,
            plain=plain,
        )

    def unscale_covariance(self, covariance: FloatArray) -> FloatArray:
        """Return a covariance of ``x`` as one of ``z``, shape (k, k)."""
        moved = np.asarray(self.left @ np.asarray(self.left @ covariance).T)
        return np.asarray(0.5 * (moved + moved.T))

    def bodies(self, point: FloatArray) -> FloatArray:
        """Return the parameters of the links at a point, shape (len(links), 10)."""
        return np.asarray(self.reference[self.links] + self.maps @ point)

    def divergences(self, point: FloatArray) -> FloatArray:
        """Return each link's distance to its reference at a point, shape (len(links),)."""
        return log_det_divergence(self.bodies(point), self.reference[self.links])

    def relative(self, point: FloatArray) -> FloatArray:
        """Return ``P₀⁻¹ P`` of each link at a point, shape (len(links), 4, 4)."""
        before, after = to_pseudo_inertia(self.reference[self.links]), to_pseudo_inertia(self.bodies(point))
        return np.asarray(np.linalg.solve(before, after), dtype=np.float64)

    def misfit(self, point: FloatArray) -> float:
        """Return ``‖A x − b‖²`` in units of the noise, beyond what no parameters explain."""
        left = self.matrix @ point - self.right
        return max(0.0, float(left @ left) - self.least)

    def value(self, point: FloatArray, weights: FloatArray, noise: float) -> float:
        """Return the energy at a point, less what no parameters explain."""
        apart = self.divergences(point)
        if not np.all(np.isfinite(apart)):
            return np.inf
        return 0.5 * self.misfit(point) / noise**2 + float(weights @ apart)

    def gradient(self, point: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
        """Return the gradient, shape (k,)."""
        data = self.matrix.T @ (self.matrix @ point - self.right) / noise**2
        pull = weights[:, None] * log_det_gradient(self.bodies(point), self.reference[self.links])
        return np.asarray(data + np.einsum("lpk,lp->k", self.maps, pull, optimize=True))

    def curvature(self, point: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
        """Return the Hessian, shape (k, k)."""
        return np.asarray(self.gram / noise**2 + self.assemble(weights[:, None, None] * self.blocks(point)))

    def blocks(self, point: FloatArray) -> FloatArray:
        """Return the Hessian of each link's distance by its parameters, shape (len(links), 10, 10)."""
        return log_det_hessian(self.bodies(point))

    def assemble(self, blocks: FloatArray) -> FloatArray:
        """Assemble matrices on each link's parameters to one on ``x``, shape (k, k)."""
        count = self.maps.shape[2]
        if not self.block_diagonal:
            flat = self.maps.reshape(-1, count)
            return np.asarray(flat.T @ (blocks @ self.maps).reshape(-1, count))
        total = np.zeros((count, count))
        begin = 0
        for link, size in enumerate(self.sizes.tolist()):
            end = begin + size
            part = self.maps[link, :, begin:end]
            total[begin:end, begin:end] = part.T @ blocks[link] @ part
            begin = end
        return total

    def shares(self, covariance: FloatArray, blocks: FloatArray) -> FloatArray:
        """Return ``tr(C M_lᵀ B_l M_l)`` of each link, shape (len(links),)."""
        if not self.block_diagonal:
            moved = self.maps @ covariance
            return np.asarray(np.einsum("lpk,lqk,lpq->l", moved, self.maps, blocks, optimize=True))
        response, begin = np.empty(len(self.links)), 0
        for link, size in enumerate(self.sizes.tolist()):
            end = begin + size
            part = self.maps[link, :, begin:end]
            response[link] = np.sum((part @ covariance[begin:end, begin:end] @ part.T) * blocks[link])
            begin = end
        return response

    def feasible_step(self, point: FloatArray, direction: FloatArray) -> float:
        """Return the greatest share of a step, up to one, that leaves every link a tenth of its extent.

        From closer to the boundary, Newton's method would only double the distance to it each step.
        """
        frame = np.linalg.inv(np.linalg.cholesky(to_pseudo_inertia(self.bodies(point))))
        steps = frame @ to_pseudo_inertia(self.maps @ direction) @ np.swapaxes(frame, 1, 2)
        steepest = -float(np.min(np.linalg.eigvalsh(steps), initial=0.0))
        return 1.0 if steepest <= _INSIDE else _INSIDE / steepest

    def minimise(
        self, weights: FloatArray, noise: float, start: FloatArray | None = None, *, exact: float = EXACT
    ) -> EnergyMinimum:
        """Return the minimum by Newton's method; the energy is convex, and each step stays among possible bodies.

        Args:
            weights: Of each link's distance, shape (len(links),).
            noise: ``κ``.
            start: A point to begin from; by default the reference.
            exact: Newton decrement to stop at.

        Raises:
            SolverError: No minimum was found.
        """
        point = np.zeros(self.maps.shape[2]) if start is None else start
        found = self._descend(weights, noise, point, exact)
        if found is not None:
            return found
        # Data that no body explains drive links to the boundary, where Newton's steps are short; a continuation from
        # far noisier data stays inside.
        point = np.zeros_like(point)
        for scale in _NOISE_SCALES:
            found = self._descend(weights, scale * noise, point, exact if scale == 1.0 else _ROUGH)
            if found is None:
                break
            point = found.point
        if found is None:
            raise SolverError("the search for the most probable robot did not converge; check the scale of the forces")
        return found

    def _descend(self, weights: FloatArray, noise: float, point: FloatArray, exact: float) -> EnergyMinimum | None:
        """Return the minimum by Newton's method, or None where it does not converge."""
        value = self.value(point, weights, noise)
        stalled, close = False, 0
        for step in range(_STEPS):
            gradient = self.gradient(point, weights, noise)
            curvature = self.curvature(point, weights, noise)
            factor = factor_curvature(curvature)
            direction = -cho_solve(factor, gradient)
            decrement = float(-gradient @ direction)
            if decrement <= exact or stalled:
                steepest = float(np.max(np.abs(gradient), initial=0.0))
                return EnergyMinimum(point, value, curvature, decrement, steepest, step, factor[0])
            length, moved, found = self.feasible_step(point, direction), point, np.inf
            if decrement <= _CLOSE * (1.0 + abs(value)):
                # The energy no longer shows what a step gains; so close, Newton's own is right.
                point, close = point + direction, close + 1
                value, stalled = self.value(point, weights, noise), close == _LAST
                continue
            while length > 1e-8:
                moved = point + length * direction
                found = self.value(moved, weights, noise)
                if found <= value - _ENOUGH * length * decrement:
                    break
                length *= 0.5
            if found >= value:
                # Rounding hides what is left to gain: the full step is still better, if it is possible.
                moved = point + direction
                found = self.value(moved, weights, noise)
                stalled = True
                if not found <= value + 1e-9 * (1.0 + abs(value)):
                    moved, found = point, value
            point, value = moved, found
        return None


def factor_curvature(curvature: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor of a curvature, as `cho_solve` takes it.

    Raises:
        SolverError: It is not positive definite in double precision.
    """
    try:
        factor, lower = cho_factor(curvature, lower=True, check_finite=False)
    except LinAlgError as error:
        raise SolverError(
            "the data and the model weigh too differently to be told apart in double precision; check the weights"
        ) from error
    return factor, bool(lower)


def invert_curvature(curvature: FloatArray) -> FloatArray:
    """Return the inverse of a curvature.

    Raises:
        SolverError: It is not positive definite in double precision.
    """
    return _inverse_of(factor_curvature(curvature)[0])


def _inverse_of(factor: FloatArray) -> FloatArray:
    inverse, _ = dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(lower, -1).T)


def build_geometric_energy(problem: Problem) -> GeometricEnergy:
    """Return the energy of a problem whose start is of possible bodies."""
    unknowns = problem.unknowns
    reference = unknowns.start.reshape(-1, PARAMETER_COUNT)
    maps = unknowns.transform.reshape(len(reference), PARAMETER_COUNT, -1)
    owners = unknowns.chosen // PARAMETER_COUNT
    links, sizes = np.unique(owners, return_counts=True)
    chosen = maps[links]
    alone = np.zeros(chosen.shape, dtype=np.bool_)
    for row, link in enumerate(links):
        alone[row][:, owners == link] = True
    block_diagonal = bool(np.all(np.diff(owners) >= 0) and not np.any(chosen[~alone]))
    flat, bent = chosen.reshape(-1, chosen.shape[2]), log_det_hessian(reference[links])
    if block_diagonal:
        ends = np.cumsum(sizes)
        own = [chosen[row][:, end - size : end] for row, (size, end) in enumerate(zip(sizes, ends, strict=True))]
        backs = [np.linalg.cholesky(part.T @ block @ part) for part, block in zip(own, bent, strict=True)]
        roots = [np.linalg.inv(each).T for each in backs]
        left = sparse.block_diag([sparse.coo_array(each) for each in roots], format="csr")
        root, back = left.toarray(), block_diag(*(each.T for each in backs))
        maps = (sparse.csr_array(flat) @ left).toarray().reshape(chosen.shape)
        matrix = (left.T @ problem.matrix.T).T
    else:
        curvature = flat.T @ (bent @ chosen).reshape(flat.shape)
        back = np.linalg.cholesky(curvature).T
        root = solve_triangular(back, np.eye(len(back)))
        maps, matrix, left = chosen @ root, problem.matrix @ root, root
    matrix = np.ascontiguousarray(matrix)
    noise = max(problem.noise, _SHARPEST * float(np.linalg.norm(matrix))) or 1.0
    matrix = matrix / noise
    right, gram, least = problem.right / noise, matrix.T @ matrix, problem.least / noise**2
    nuisances = None
    if problem.nuisance_response is not None:
        seen = problem.nuisance_response.rows / noise
        rows = np.asarray((left.T @ (seen[:, :-1] @ unknowns.transform).T).T)
        nuisances = rows, seen[:, -1] - seen[:, :-1] @ unknowns.start, problem.nuisance_response
    return GeometricEnergy(
        reference=reference,
        links=links,
        sizes=sizes,
        root=root,
        back=back,
        left=left,
        maps=maps,
        block_diagonal=block_diagonal,
        matrix=matrix,
        right=right,
        gram=gram,
        least=least,
        rank=problem.column_rank,
        noise=noise,
        nuisances=nuisances,
    )
