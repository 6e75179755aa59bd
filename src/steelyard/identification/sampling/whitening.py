"""Whitening of a posterior: coordinates in which it is nearly a unit Gaussian.

Equations among the rows are eliminated first: ``z = offset + basis y``. Then the *centre* is found, which minimises the
energy with a logarithmic barrier for each row, and for ``det P`` of links without weight. At an active constraint with
multiplier λ the density decays over 1/λ inwards; the barrier puts the centre 1/λ inside, with a curvature of λ² there,
which is the scale that a sampler needs, whether the constraint is active or not. The Hessian at the centre whitens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from steelyard.exceptions import SolverError
from steelyard.identification.sampling.posterior import EQUATION
from steelyard.identification.sampling.small_factors import (
    COLUMNS,
    COUNTS,
    DIAGONAL,
    ROWS,
    are_positive,
    factor_ldl,
    invert_ldl,
    to_matrices,
)
from steelyard.model import PARAMETER_COUNT, log_det_hessian, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.sampling.posterior import Posterior

_MOST_STEPS, _PATIENCE = 500, 12
"""Newton steps in all, and at one strength of the data before it is reduced. Set by judgement."""

_CLOSE = 1e-2
"""Least distance from a constraint at the start, in units of a link's own size; Newton's method is slow nearer to it.
Set by judgement."""

_NEAR, _MOST_ROUNDS = 3.0, 8
"""Standard deviations from the centre within which a row has a barrier, and most rounds of adding such rows. Many rows
farther away would shift the centre. Set by judgement."""

_WEAKEST = 1e-8
"""Least factor on the data while the centre is approached. Set by judgement."""

_ROUGH, _SETTLED = 0.01, 1e-9
"""Expected decrease of the energy at which an intermediate problem, and the last one, counts as solved: the energy's
unit is one, so that the centre is known far better than the posterior is wide."""


@dataclass(frozen=True, eq=False)
class WhitePosterior:
    """A posterior over ``x``, with ``z = offset + basis x``; chains are columns.

    The energy is ``½ Σ curvature x² + slope·x + Σ w (tr X − log det X)`` up to a constant, with the links' matrices
    ``X = entries + turn x`` relative to their references, where ``X = 1``.

    Attributes:
        offset: ``z`` at the centre, shape (k,).
        basis: Shape (k, d), d being k less the number of equations.
        curvature: Of the quadratic terms, shape (d,), from 0 (no information) to 1 (all of it).
        slope: Gradient of the quadratic terms at the centre, shape (d,).
        entries: Of the links' matrices at the centre, in the order of `small_factors`, shape (10, b).
        turn: Derivatives of the entries, shape (10 b, d), entry by entry.
        weights: Of these links, shape (b,).
        margins: Of the rows at the centre, positive, shape (m,).
        normals: Derivatives of the margins, shape (m, d).
    """

    offset: FloatArray
    basis: FloatArray
    curvature: FloatArray
    slope: FloatArray
    entries: FloatArray
    turn: FloatArray
    weights: FloatArray
    margins: FloatArray
    normals: FloatArray

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[1])

    def points(self, x: FloatArray) -> FloatArray:
        """Return the unknowns ``z``, one point per row, shape (n, k), of whitened points in columns, shape (d, n)."""
        return np.asarray(self.offset + (self.basis @ x).T)

    def matrices(self, x: FloatArray) -> FloatArray:
        """Return the entries of the links' matrices, shape (10, b, n)."""
        links = self.entries.shape[1]
        return np.asarray((self.turn @ x).reshape(10, links, x.shape[1]) + self.entries[:, :, None])


def whiten(posterior: Posterior) -> WhitePosterior:
    """Whiten a posterior: return it in coordinates in which it is nearly a unit Gaussian.

    Raises:
        SolverError: Nothing is strictly possible within the rows, or neither data nor prior bound some direction.
    """
    offset, basis = _without_equations(posterior)
    energy = _Energy.of(posterior, offset, basis)
    near = np.zeros(len(energy.margins), dtype=np.bool_)
    # Barriers of many far rows would shift the centre.
    for _ in range(_MOST_ROUNDS):
        centre, whitening = _centre_and_whitening(energy.with_rows(near))
        margins, normals = energy.margins + energy.normals @ centre, energy.normals @ whitening
        more = (margins < _NEAR * np.linalg.norm(normals, axis=1)) & ~near
        if not np.any(more):
            break
        near |= more
    else:
        centre, whitening = _centre_and_whitening(energy)
    _, values, turned = np.linalg.svd(energy.matrix @ whitening, full_matrices=True)
    whitening = whitening @ turned.T
    curvature = np.zeros(basis.shape[1])
    curvature[: len(values)] = np.minimum(np.square(values), 1.0)
    slope = whitening.T @ (energy.matrix.T @ (energy.matrix @ centre - energy.right))
    return WhitePosterior(
        offset=offset + basis @ centre,
        basis=basis @ whitening,
        curvature=curvature,
        slope=slope,
        entries=energy.entries + (energy.turn @ centre).reshape(10, -1),
        turn=energy.turn @ whitening,
        weights=energy.weights,
        margins=energy.margins + energy.normals @ centre,
        normals=energy.normals @ whitening,
    )


def _centre_and_whitening(energy: _Energy) -> tuple[FloatArray, FloatArray]:
    """Return the centre, shape (d,), and the inverse root of the Hessian there, shape (d, d).

    Raises:
        SolverError: There is no centre.
    """
    centre = _find_centre(energy)
    if centre is None and energy.open:
        raise SolverError("neither data nor prior bound some parameters; give the prior some weight")
    if centre is None:
        raise SolverError(
            "no robot is strictly possible within the constraints, so that none can be drawn; relax those that leave "
            "no room"
        )
    triangle = np.asarray(np.linalg.qr(energy.root(centre), mode="r"))
    # LAPACK's signs depend on rounding; the draws should not.
    triangle = triangle * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)[:, None]
    return centre, np.asarray(solve_triangular(triangle, np.eye(len(centre))))


def _without_equations(posterior: Posterior) -> tuple[FloatArray, FloatArray]:
    """Return a point near the mode that satisfies the equations, and a scaled basis of their null space."""
    scale = _scales(posterior)
    equations = _equations(posterior)
    if not np.any(equations):
        return posterior.mode, np.diag(scale)
    rows = posterior.rows[equations]
    wanted = 0.5 * (posterior.lower + posterior.upper)[equations]
    sizes = np.linalg.norm(rows @ posterior.transform * scale, axis=1)
    sizes = np.maximum(sizes, 1e-6 * posterior.row_sizes[equations] + 1e-300)
    matrix = rows @ posterior.transform * scale / sizes[:, None]
    left, values, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.sum(values > 1e-9 * np.max(values, initial=1e-3)))
    offset = np.array(posterior.mode)
    for _ in range(3):
        missing = (wanted - rows @ posterior.start - rows @ (posterior.transform @ offset)) / sizes
        offset = offset + scale * (right[:rank].T @ ((left[:, :rank].T @ missing) / values[:rank]))
    found = rows @ (posterior.start + posterior.transform @ offset)
    if np.any(np.abs(found - wanted) > EQUATION * np.maximum(posterior.row_sizes[equations], np.abs(wanted))):
        raise SolverError("equations among the constraints contradict each other, or fixed parameters; relax one")
    return offset, scale[:, None] * right[rank:].T


def _equations(posterior: Posterior) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(posterior.upper - posterior.lower <= EQUATION * posterior.row_sizes)


def _scales(posterior: Posterior) -> FloatArray:
    """Return the scale of each unknown, shape (k,): by the links' own size, or by the data."""
    squares = np.sum(np.square(posterior.data_root), axis=0) + np.sum(np.square(posterior.prior_root), axis=0)
    if len(posterior.bodies):
        blocks = posterior.transform.reshape(len(posterior.reference), PARAMETER_COUNT, -1)[posterior.bodies]
        curvature = log_det_hessian(posterior.reference[posterior.bodies])
        own = np.einsum("lpk,lpq,lqk->k", blocks, curvature, blocks, optimize=True)
        squares = np.where(own > 0.0, own, squares)
    return np.asarray(1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)))


@dataclass(frozen=True, eq=False)
class _Energy:
    """The energy over ``y`` with logarithmic barriers, for Newton's method.

    Attributes:
        matrix: Of the quadratic terms ``½ ‖matrix y − right‖²``.
        right: Their right side.
        entries: Of the links' matrices at ``y = 0``, shape (10, b).
        turn: Derivatives of the entries, shape (10 b, d).
        weights: Shape (b,).
        barrier: Factor on each link's ``−log det``, shape (b,).
        margins: Of the rows at ``y = 0``, in units of ``y``, shape (m,).
        normals: Unit normals of the rows, shape (m, d).
    """

    matrix: FloatArray
    right: FloatArray
    entries: FloatArray
    turn: FloatArray
    weights: FloatArray
    barrier: FloatArray
    margins: FloatArray
    normals: FloatArray

    @classmethod
    def of(cls, posterior: Posterior, offset: FloatArray, basis: FloatArray) -> _Energy:
        quadratic = np.concatenate([posterior.data_root, posterior.prior_root])
        right = np.concatenate([posterior.data_right, np.zeros(len(posterior.prior_root))]) - quadratic @ offset
        chosen = posterior.bodies
        blocks = (posterior.transform @ basis).reshape(len(posterior.reference), PARAMETER_COUNT, -1)[chosen]
        lower = np.linalg.cholesky(to_pseudo_inertia(posterior.reference[chosen])).astype(np.float64)
        now = _relative_entries(posterior.parameters(offset)[chosen], lower)
        change = _relative_entries(np.moveaxis(blocks, 1, 2), lower[:, None])
        links, weights = len(chosen), posterior.weights[chosen]
        margins, normals = _margins(posterior, offset, basis)
        return cls(
            matrix=quadratic @ basis,
            right=right,
            entries=np.ascontiguousarray(now.T),
            turn=np.ascontiguousarray(np.moveaxis(change, 2, 0).reshape(10 * links, basis.shape[1])),
            weights=weights,
            barrier=np.maximum(weights, 1.0),
            margins=margins,
            normals=normals,
        )

    def with_rows(self, chosen: Any) -> _Energy:
        """Return the energy with barriers of some of the rows only."""
        return replace(self, margins=self.margins[chosen], normals=self.normals[chosen])

    @property
    def open(self) -> bool:
        """Whether neither quadratic terms nor weights bound some direction; rows may do so."""
        weighed = np.tile(self.weights > 0.0, 10)
        triangle = np.asarray(np.linalg.qr(np.concatenate([self.matrix, self.turn[weighed]]), mode="r"))
        sizes = np.abs(np.diagonal(triangle))
        return len(triangle) < triangle.shape[1] or bool(np.min(sizes) <= 1e-12 * np.max(sizes))

    def slack(self, y: FloatArray) -> float:
        """Return the least relaxation of all constraints with which a point is strictly inside; ≤ 0 if it is."""
        entries, margins = self._relaxed(y, 0.0)
        least = np.linalg.eigvalsh(to_matrices(entries.T))[:, 0]
        return -float(np.min(np.concatenate([least, margins]), initial=np.inf))

    def value(self, y: FloatArray, slack: float) -> float:
        """Return the energy with all constraints relaxed by `slack`; inf outside."""
        left = self.matrix @ y - self.right
        entries, margins = self._relaxed(y, slack)
        _, pivots = factor_ldl(entries)
        if not np.all(are_positive(pivots)) or np.any(margins <= 0.0):
            return np.inf
        log_det = np.sum(np.log(pivots), axis=0)
        traces = np.sum(entries[DIAGONAL], axis=0)
        return float(0.5 * left @ left + self.weights @ traces - self.barrier @ log_det - np.sum(np.log(margins)))

    def gradient(self, y: FloatArray, slack: float) -> FloatArray:
        """Return the gradient of `value`."""
        entries, margins = self._relaxed(y, slack)
        pull = -self.barrier * invert_ldl(*factor_ldl(entries)) * COUNTS[:, None]
        pull[DIAGONAL] += self.weights
        gradient = self.matrix.T @ (self.matrix @ y - self.right) + self.turn.T @ pull.reshape(-1)
        return np.asarray(gradient - self.normals.T @ (1.0 / margins))

    def root(self, y: FloatArray, slack: float = 0.0) -> FloatArray:
        """Return a root of the Hessian, with as many rows as terms."""
        entries, margins = self._relaxed(y, slack)
        below, pivots = factor_ldl(entries)
        links = entries.shape[1]
        factor = np.zeros((links, 4, 4))
        factor[:, range(4), range(4)] = 1.0
        factor[:, [1, 2, 2, 3, 3, 3], [0, 0, 1, 0, 1, 2]] = below.T
        factor *= np.sqrt(pivots).T[:, None, :]
        inverse = np.linalg.inv(factor)
        # −log det has the Hessian ‖F⁻¹ dX F⁻ᵀ‖², whose entries below the diagonal count twice.
        mapped = (inverse[:, None] @ to_matrices(np.eye(10)) @ np.swapaxes(inverse, 1, 2)[:, None])[..., ROWS, COLUMNS]
        mapped = mapped * np.sqrt(COUNTS) * np.sqrt(self.barrier)[:, None, None]
        cones = np.swapaxes(mapped, 1, 2) @ np.swapaxes(self.turn.reshape(10, links, self.turn.shape[1]), 0, 1)
        return np.concatenate([self.matrix, cones.reshape(self.turn.shape), self.normals / margins[:, None]])

    def newton_step(self, y: FloatArray, slack: float) -> tuple[FloatArray, float]:
        """Return Newton's step, and the decrease that it predicts."""
        gradient, root = self.gradient(y, slack), self.root(y, slack)
        hessian = root.T @ root
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(hessian), 1e-300))
        hessian = hessian * scale[:, None] * scale
        hessian[np.diag_indices_from(hessian)] += 1e-13
        step = -scale * cho_solve(cho_factor(hessian), scale * gradient)
        return step, -0.5 * float(gradient @ step)

    def weakened(self, strength: float) -> _Energy:
        """Return the energy with the roots of its quadratic terms multiplied by `strength`."""
        return self if strength == 1.0 else replace(self, matrix=strength * self.matrix, right=strength * self.right)

    def _relaxed(self, y: FloatArray, slack: float) -> tuple[FloatArray, FloatArray]:
        entries = self.entries + (self.turn @ y).reshape(10, -1)
        entries[DIAGONAL] += slack
        return entries, self.margins + self.normals @ y + slack


def _relative_entries(parameters: FloatArray, lower: FloatArray) -> FloatArray:
    """Return the entries of ``L⁻¹ P L⁻ᵀ``, shape (..., 10); linear in the parameters."""
    half = np.linalg.solve(lower, to_pseudo_inertia(parameters))
    whole = np.linalg.solve(lower, np.swapaxes(half, -1, -2))
    return np.asarray(whole[..., ROWS, COLUMNS])


def _margins(posterior: Posterior, offset: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distances of the inequality rows from their bounds, in units of ``y``, and their normals."""
    open_rows = ~_equations(posterior)
    rows = posterior.rows[open_rows]
    values = rows @ (posterior.start + posterior.transform @ offset)
    normals = rows @ posterior.transform @ basis
    lengths = np.linalg.norm(normals, axis=1)
    sizes = posterior.row_sizes[open_rows]
    moved = lengths > 1e-12 * np.maximum(sizes, 1e-300)
    margins, directions = [np.zeros(0)], [np.zeros((0, basis.shape[1]))]
    for bound, sign in ((posterior.lower[open_rows], 1.0), (posterior.upper[open_rows], -1.0)):
        with np.errstate(invalid="ignore"):
            distance = sign * (values - bound)
        if np.any(distance[~moved] < -EQUATION * sizes[~moved]):
            raise SolverError("a constraint on fixed parameters is violated; relax it")
        used = moved & np.isfinite(bound)
        margins.append(distance[used] / lengths[used])
        directions.append(sign * normals[used] / lengths[used, None])
    return np.concatenate(margins), np.concatenate(directions)


def _find_centre(energy: _Energy) -> FloatArray | None:
    """Return the minimum of the energy with its barriers; None where nothing is inside of them.

    From outside, all constraints are relaxed, and tightened step by step. Data that pull strongly at a constraint are
    weakened first and restored step by step: each minimum is a good start for the next.
    """
    y = np.zeros(energy.turn.shape[1])
    needed = energy.slack(y)
    # From close to a constraint, too, it is faster to relax it first.
    slack = 0.0 if needed < -_CLOSE else 2.0 * max(needed, 0.0) + _CLOSE
    strength, growing, steps = 1.0, False, 0
    for _ in range(_MOST_STEPS):
        now = energy.weakened(strength)
        step, decrement = now.newton_step(y, slack)
        steps += 1
        if decrement <= _ROUGH and slack > 0.0:
            needed, steps = energy.slack(y), 0
            if needed < 0.0:
                slack = 0.0
            elif needed < 0.5 * slack:
                # The centre of the relaxed problem is inside a tighter one.
                slack = needed + 0.2 * (slack - needed)
            elif strength > _WEAKEST:
                strength *= 0.1
            else:
                return None
        elif decrement <= _ROUGH and strength < 1.0:
            strength, growing = min(1.0, 5.0 * strength), True
        elif decrement <= _SETTLED and strength == 1.0:
            return y
        elif steps > _PATIENCE and not growing and strength > _WEAKEST:
            strength, steps = 0.1 * strength, 0
        else:
            length, before = 1.0, now.value(y, slack)
            while now.value(y + length * step, slack) > before - 0.1 * length * decrement and length > 1e-12:
                length *= 0.5
            if length <= 1e-12:
                return y if slack == 0.0 and strength == 1.0 and decrement <= 1e-4 else None
            y = y + length * step
    return None
