"""What the geometric method minimises: data against the distance of each link to its reference, convex and smooth.

With ``φ = start + transform z`` the parameters of all links, it is::

    energy(z) = ‖A z − b‖² / (2 σ² κ²) + Σ w_l D(P_l(z) ‖ P0_l),   D(P ‖ P0) = tr(P P0⁻¹) − log det(P P0⁻¹) − 4,

and infinite where a link is no body that can exist. Unknowns are measured by the curvature of ``Σ D`` at the reference,
``z = root x``: in ``x`` neither units nor frames are left, and a step of one is as large for every link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from steelyard.exceptions import SolverError
from steelyard.model import PARAMETER_COUNT, log_det_divergence, log_det_gradient, log_det_hessian, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import NuisanceAnswer, Problem

    IntArray = np.ndarray[tuple[int], np.dtype[np.int64]]

_STEPS = 100
_ENOUGH = 1e-4
"""Part of what a step promises that it must keep."""

_LOUDER = tuple(2.0**power for power in range(10, -1, -1))
_ROUGH = 1e-2
_INSIDE = 0.9
"""Part of the way to the edge of what can exist that a step goes at most."""

_CLOSE, _LAST = 1e-11, 3
"""Newton decrement beside the energy, from which steps are taken as they come, and how many of them."""

_SHARPEST = 1e-6
"""Relative deviations of parameters that data may tell at the finest: beyond it, the prior drowns in rounding."""

EXACT = 1e-18
"""Newton decrement, twice what a step would still gain, at which a minimum is exact."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """The least energy for given weights.

    Attributes:
        place: ``x``, shape (k,).
        energy: There.
        curvature: The second derivatives there, shape (k, k).
        decrement: What Newton's next step would gain, twice.
        slope: Greatest element of the gradient.
        steps: Newton steps that were made.
        factor: Of the curvature, lower triangular; what is above the diagonal means nothing.
    """

    place: FloatArray
    energy: float
    curvature: FloatArray
    decrement: float
    slope: float
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
class _Plain:
    """A landscape's data as they are where ``κ`` is one, and what comes back of them where it is more.

    Attributes:
        matrix: See `Landscape`.
        right: See `Landscape`.
        gram: See `Landscape`.
        least: See `Landscape`.
        rows: On ``x``, divided by the noise, shape (p, k).
        goals: Shape (p,).
        answer: How much of them comes back.
    """

    matrix: FloatArray
    right: FloatArray
    gram: FloatArray
    least: float
    rows: FloatArray
    goals: FloatArray
    answer: NuisanceAnswer


@dataclass(frozen=True, eq=False)
class Landscape:
    """A problem and its prior, in unknowns ``x`` of unit size.

    Attributes:
        reference: Parameters of possible bodies, shape (n_links, 10).
        links: The links that have a distance of their own to their reference; not those tied to a mirror image, nor
            those of which nothing is looked for.
        sizes: How many unknowns each of them has, shape (len(links),).
        root: From ``x`` to ``z``, shape (k, k).
        back: From ``z`` to ``x``, shape (k, k).
        left: The root again, to multiply with: sparse where it is made of blocks.
        maps: From ``x`` to the parameters of these links, shape (len(links), 10, k).
        apart: Whether each unknown belongs to one link alone, in order: the prior's curvature is then made of blocks.
        matrix: ``A`` on ``x``, divided by the noise, shape (m, k).
        right: ``b``, divided by the noise.
        gram: ``Aᵀ A``, shape (k, k).
        least: ``‖A x − b‖²`` at its least.
        rank: How many combinations of unknowns the data touch.
        noise: What ``A`` and ``b`` were divided by: the problem's noise, or what rounding allows beside a prior.
        plain: What `at` begins from; None without nuisances.
    """

    reference: FloatArray
    links: IntArray
    sizes: IntArray
    root: FloatArray
    back: FloatArray
    left: Any
    maps: FloatArray
    apart: bool
    matrix: FloatArray
    right: FloatArray
    gram: FloatArray
    least: float
    rank: int
    noise: float
    plain: _Plain | None = None

    def at(self, noise: float) -> Landscape:
        """Gives the landscape for data that are ``κ`` times as loud, one or more, and nuisances with priors as stated.

        Nuisances were eliminated for data as they seem. Divided by ``κ`` as well, their priors would be as much wider.
        """
        plain = self.plain
        if plain is None:
            return self
        roots = np.sqrt(plain.answer.gains(noise))
        rows, goals = roots[:, None] * plain.rows, roots * plain.goals
        return replace(
            self,
            matrix=np.concatenate([plain.matrix, rows]),
            right=np.concatenate([plain.right, goals]),
            gram=plain.gram + rows.T @ rows,
            least=plain.least + plain.answer.cost(noise) / self.noise**2,
        )

    def outward(self, covariance: FloatArray) -> FloatArray:
        """Gives a covariance of ``x`` as one of ``z``, shape (k, k)."""
        moved = np.asarray(self.left @ np.asarray(self.left @ covariance).T)
        return np.asarray(0.5 * (moved + moved.T))

    def bodies(self, place: FloatArray) -> FloatArray:
        """Gives the parameters of the links at a point, shape (len(links), 10)."""
        return np.asarray(self.reference[self.links] + self.maps @ place)

    def divergences(self, place: FloatArray) -> FloatArray:
        """Gives each link's distance to its reference at a point, shape (len(links),)."""
        return log_det_divergence(self.bodies(place), self.reference[self.links])

    def relative(self, place: FloatArray) -> FloatArray:
        """Gives ``P₀⁻¹ P`` of each link at a point, shape (len(links), 4, 4)."""
        before, after = to_pseudo_inertia(self.reference[self.links]), to_pseudo_inertia(self.bodies(place))
        return np.asarray(np.linalg.solve(before, after), dtype=np.float64)

    def misfit(self, place: FloatArray) -> float:
        """Gives ``‖A x − b‖²`` in units of the noise, beyond what no parameters explain."""
        left = self.matrix @ place - self.right
        return max(0.0, float(left @ left) - self.least)

    def energy(self, place: FloatArray, weights: FloatArray, noise: float) -> float:
        """Gives the energy at a point, less what no parameters explain."""
        apart = self.divergences(place)
        if not np.all(np.isfinite(apart)):
            return np.inf
        return 0.5 * self.misfit(place) / noise**2 + float(weights @ apart)

    def slope(self, place: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
        """Gives the energy's gradient, shape (k,)."""
        data = self.matrix.T @ (self.matrix @ place - self.right) / noise**2
        pull = weights[:, None] * log_det_gradient(self.bodies(place), self.reference[self.links])
        return np.asarray(data + np.einsum("lpk,lp->k", self.maps, pull, optimize=True))

    def curvature(self, place: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
        """Gives the energy's second derivatives, shape (k, k)."""
        return np.asarray(self.gram / noise**2 + self.spread_out(weights[:, None, None] * self.blocks(place)))

    def blocks(self, place: FloatArray) -> FloatArray:
        """Gives the second derivatives of each link's distance by its parameters, shape (len(links), 10, 10)."""
        return log_det_hessian(self.bodies(place))

    def spread_out(self, blocks: FloatArray) -> FloatArray:
        """Gives matrices on each link's parameters as one on ``x``, shape (k, k)."""
        count = self.maps.shape[2]
        if not self.apart:
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
        """Gives ``tr(C M_lᵀ B_l M_l)`` of each link, shape (len(links),)."""
        if not self.apart:
            moved = self.maps @ covariance
            return np.asarray(np.einsum("lpk,lqk,lpq->l", moved, self.maps, blocks, optimize=True))
        answer, begin = np.empty(len(self.links)), 0
        for link, size in enumerate(self.sizes.tolist()):
            end = begin + size
            part = self.maps[link, :, begin:end]
            answer[link] = np.sum((part @ covariance[begin:end, begin:end] @ part.T) * blocks[link])
            begin = end
        return answer

    def room(self, place: FloatArray, direction: FloatArray) -> float:
        """Gives how much of a step to go at most, up to one: no link's extent comes nearer to none than a tenth.

        From closer to the edge, Newton's steps would only double it each time.
        """
        frame = np.linalg.inv(np.linalg.cholesky(to_pseudo_inertia(self.bodies(place))))
        steps = frame @ to_pseudo_inertia(self.maps @ direction) @ np.swapaxes(frame, 1, 2)
        steepest = -float(np.min(np.linalg.eigvalsh(steps), initial=0.0))
        return 1.0 if steepest <= _INSIDE else _INSIDE / steepest

    def minimise(
        self, weights: FloatArray, noise: float, start: FloatArray | None = None, *, exact: float = EXACT
    ) -> Minimum:
        """Gives the least energy by Newton's method; it is convex, and each step stays among possible bodies.

        Args:
            weights: Of each link's distance, shape (len(links),).
            noise: ``κ``.
            start: A point to begin from; by default the reference.
            exact: Newton decrement to stop at.

        Raises:
            SolverError: No minimum was found.
        """
        place = np.zeros(self.maps.shape[2]) if start is None else start
        found = self._descend(weights, noise, place, exact)
        if found is not None:
            return found
        # Data that no body explains drive links to the edge, where Newton's steps are short; from far louder data to
        # these, the way keeps to the middle.
        place = np.zeros_like(place)
        for louder in _LOUDER:
            found = self._descend(weights, louder * noise, place, exact if louder == 1.0 else _ROUGH)
            if found is None:
                break
            place = found.place
        if found is None:
            raise SolverError("the search for the likeliest robot did not end; check the scale of the forces")
        return found

    def _descend(self, weights: FloatArray, noise: float, place: FloatArray, exact: float) -> Minimum | None:
        """Gives the least energy by Newton's method, or None where it does not end."""
        energy = self.energy(place, weights, noise)
        stalled, close = False, 0
        for step in range(_STEPS):
            slope = self.slope(place, weights, noise)
            curvature = self.curvature(place, weights, noise)
            factor = factorise(curvature)
            direction = -cho_solve(factor, slope)
            decrement = float(-slope @ direction)
            if decrement <= exact or stalled:
                steepest = float(np.max(np.abs(slope), initial=0.0))
                return Minimum(place, energy, curvature, decrement, steepest, step, factor[0])
            length, moved, found = self.room(place, direction), place, np.inf
            if decrement <= _CLOSE * (1.0 + abs(energy)):
                # The energy no longer shows what a step gains; so close, Newton's own is right.
                place, close = place + direction, close + 1
                energy, stalled = self.energy(place, weights, noise), close == _LAST
                continue
            while length > 1e-8:
                moved = place + length * direction
                found = self.energy(moved, weights, noise)
                if found <= energy - _ENOUGH * length * decrement:
                    break
                length *= 0.5
            if found >= energy:
                # Rounding hides what is left to gain: the full step is still the better place, if it is one.
                moved = place + direction
                found = self.energy(moved, weights, noise)
                stalled = True
                if not found <= energy + 1e-9 * (1.0 + abs(energy)):
                    moved, found = place, energy
            place, energy = moved, found
        return None


def factorise(curvature: FloatArray) -> tuple[FloatArray, bool]:
    """Gives the lower triangular factor of a curvature, as `cho_solve` takes it.

    Raises:
        SolverError: It has none.
    """
    try:
        factor, lower = cho_factor(curvature, lower=True, check_finite=False)
    except LinAlgError as error:
        raise SolverError(
            "the data and the model weigh too differently to be told apart in double precision; check the weights"
        ) from error
    return factor, bool(lower)


def invert(curvature: FloatArray) -> FloatArray:
    """Gives the inverse of a curvature.

    Raises:
        SolverError: It has none.
    """
    return _inverse_of(factorise(curvature)[0])


def _inverse_of(factor: FloatArray) -> FloatArray:
    inverse, _ = dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(lower, -1).T)


def build_landscape(problem: Problem) -> Landscape:
    """Gives a problem, whose start is of possible bodies, and the distance of its links to that start."""
    unknowns = problem.unknowns
    reference = unknowns.start.reshape(-1, PARAMETER_COUNT)
    maps = unknowns.transform.reshape(len(reference), PARAMETER_COUNT, -1)
    owners = unknowns.chosen // PARAMETER_COUNT
    links, sizes = np.unique(owners, return_counts=True)
    chosen = maps[links]
    alone = np.zeros(chosen.shape, dtype=np.bool_)
    for row, link in enumerate(links):
        alone[row][:, owners == link] = True
    apart = bool(np.all(np.diff(owners) >= 0) and not np.any(chosen[~alone]))
    flat, bent = chosen.reshape(-1, chosen.shape[2]), log_det_hessian(reference[links])
    if apart:
        ends = np.cumsum(sizes)
        own = [chosen[row][:, end - size : end] for row, (size, end) in enumerate(zip(sizes, ends, strict=True))]
        backs = [np.linalg.cholesky(part.T @ block @ part) for part, block in zip(own, bent, strict=True)]
        roots = [np.linalg.inv(each).T for each in backs]
        left = sparse.block_diag(roots, format="csr")
        root, back = left.toarray(), sparse.block_diag([each.T for each in backs]).toarray()
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
    plain = None
    if problem.answer is not None:
        seen = problem.answer.rows / noise
        rows = np.asarray((left.T @ (seen[:, :-1] @ unknowns.transform).T).T)
        plain = _Plain(matrix, right, gram, least, rows, seen[:, -1] - seen[:, :-1] @ unknowns.start, problem.answer)
    return Landscape(
        reference=reference,
        links=links,
        sizes=sizes,
        root=root,
        back=back,
        left=left,
        maps=maps,
        apart=apart,
        matrix=matrix,
        right=right,
        gram=gram,
        least=least,
        rank=problem.column_rank,
        noise=noise,
        plain=plain,
    )
