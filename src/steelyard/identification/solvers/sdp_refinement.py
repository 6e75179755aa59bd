"""Quadratic programmes over semidefinite blocks, near their minimum: refinement to rounding, and sensitivity to data.

Near a minimum the active set is known: of each block ``S`` and its multiplier ``Z``, the eigenvectors of ``W = S − Z``
with positive eigenvalues ``s`` are free, those with negative ones ``−z`` are null vectors of ``S``. Newton's method on
``S = Π(W)``, the projection onto the cone [Qi and Sun, "A quadratically convergent Newton method for computing the
nearest correlation matrix", 2006], is then least squares: entries of ``S`` between null vectors are held at zero,
entries between a null vector and a free one are springs of stiffness ``z / s``, and others are free. The springs are
the curvature of the cone [Shapiro, "First and second order analysis of nonlinear semidefinite programs",
1997].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.lmi_blocks import Block

_DEPENDENT = 1e-11
"""Length of the independent part of a held row of length one, below which it depends on others. Set by judgement: a
hundred times rounding."""

_MOST_STEPS = 30
"""Most Newton steps. Set by judgement; convergence is quadratic."""

_PATIENCE = 3
"""Steps in a row that may be no better than the best. Set by judgement: the active set may change for a while."""

_EXACT = 1e-13
"""Error of a minimum that is exact to rounding. Without refinement, parameters of g1 differ by 8e-6 of the greatest
(docs/decisions/0017)."""

_UNIT = 10.0
"""Unit in which a multiplier (cost) is compared with a margin (share of the reference): it only decides what counts as
active far from the minimum. From one to a hundred, weak priors took the fewest steps."""

_NEAR = 3.0
"""Standard errors within which a bound changes the covariance of a normal law noticeably: beyond three it cuts off one
in a thousand."""

_DIVERGED = 1e9
"""Distance, in usual deviations of a model, at which a search has diverged. Set by judgement."""


@dataclass(frozen=True, eq=False)
class Programme:
    """``min ½‖factor (y − centre)‖²`` under ``equations y = right``, ``rows y ≥ lower`` and ``S_k(y) ⪰ 0``.

    Attributes:
        factor: Upper triangular, of full rank, shape (n, n).
        centre: Where the minimum would be, shape (n,).
        equations: Rows of length one, shape (e, n).
        right: Shape (e,).
        rows: Rows of length one, shape (m, n).
        lower: Shape (m,).
        blocks: The semidefinite blocks.
        size: Least gradient that residuals are compared with.
    """

    factor: FloatArray
    centre: FloatArray
    equations: FloatArray
    right: FloatArray
    rows: FloatArray
    lower: FloatArray
    blocks: tuple[Block, ...]
    size: float = 1.0

    def gradient(self, unknowns: FloatArray) -> FloatArray:
        """Return the gradient of the cost, shape (n,)."""
        return np.asarray(self.factor.T @ (self.factor @ (unknowns - self.centre)))


@dataclass(frozen=True, eq=False)
class Point:
    """A point and its multipliers.

    Attributes:
        unknowns: ``y``, shape (n,).
        equations: Multipliers of equations, shape (e,).
        rows: Multipliers of rows, shape (m,).
        blocks: ``Z`` of each block.
    """

    unknowns: FloatArray
    equations: FloatArray
    rows: FloatArray
    blocks: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Quality:
    """Residuals of the optimality conditions; multipliers of the wrong sign count as zero.

    Attributes:
        stationarity: Norm of the Lagrangian's gradient, relative to the greatest of its terms and the programme's size.
        violation: The greatest violation of a row, an equation or an eigenvalue of a block, scaled.
        gap: The duality gap, ``Σ multiplier · margin``, in the cost's unit.
        error: The greatest of the three; the gap relative to the cost plus one.
    """

    stationarity: float
    violation: float
    gap: float
    error: float


@dataclass(frozen=True, eq=False)
class ActiveConstraint:
    """An active row, or an active block with its null vectors.

    Attributes:
        force: Norm of its term in the Lagrangian's gradient; of a row, its multiplier.
        row: Index of a row; −1 for a block.
        block: Index of a block; −1 for a row.
        null_vectors: Of a block, shape (d, count).
    """

    force: float
    row: int = -1
    block: int = -1
    null_vectors: FloatArray | None = None


def assess(programme: Programme, point: Point) -> Quality:
    """Return the residuals at a point."""
    count = len(point.unknowns)
    rows = np.maximum(point.rows, 0.0)
    force = programme.rows.T @ rows + programme.equations.T @ point.equations
    margins = programme.rows @ point.unknowns - programme.lower
    missed = np.abs(programme.equations @ point.unknowns - programme.right)
    violation = float(max(np.max(-margins, initial=0.0), np.max(missed, initial=0.0)))
    gap = float(np.abs(rows * margins).sum() + np.abs(point.equations) @ missed)
    for block, given in zip(programme.blocks, point.blocks, strict=True):
        value, multiplier = block.value(point.unknowns), _positive_part(given)
        force += block.adjoint(multiplier, count)
        violation = max(violation, -float(np.linalg.eigvalsh(value)[0]))
        gap += abs(float(np.sum(value * multiplier)))
    gradient = programme.gradient(point.unknowns)
    size = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(force)), programme.size)
    stationarity = float(np.linalg.norm(gradient - force)) / max(size, 1e-300)
    cost = 0.5 * float(np.sum(np.square(programme.factor @ (point.unknowns - programme.centre))))
    return Quality(stationarity, violation, gap, max(stationarity, violation, gap / (1.0 + cost)))


def refine(programme: Programme, point: Point, tolerance: float) -> tuple[Point, Quality]:
    """Return the minimum to rounding, from a point near it, by Newton's method; the best point where that diverges.

    Args:
        programme: The programme.
        point: Where to start.
        tolerance: Error at which the search ends once a step does not help.
    """
    best, quality = point, assess(programme, point)
    lowest, waited = np.inf, 0
    for _ in range(_MOST_STEPS):
        try:
            point = _Face(programme, point).minimum()
        except np.linalg.LinAlgError:
            break
        if not np.max(np.abs(point.unknowns), initial=0.0) < _DIVERGED:
            break
        with np.errstate(over="ignore", invalid="ignore"):
            found = assess(programme, point)
        if not np.isfinite(found.error):
            break
        lowest, waited = (found.error, 0) if found.error < lowest else (lowest, waited + 1)
        if found.error < quality.error:
            best, quality = point, found
        if quality.error <= _EXACT or waited > (0 if quality.error <= tolerance else _PATIENCE):
            break
    return best, quality


def sensitivity_root(programme: Programme, point: Point) -> FloatArray:
    """Return ``C`` with ``dy = C Cᵀ g`` where the gradient of the cost changes by ``−g``, shape (n, free).

    Active constraints are taken to stay active, and others inactive; null vectors turn with the curvature of the cone.
    """
    face = _Face(programme, point)
    factor = np.linalg.qr(face.stacked @ face.free, mode="r")
    return np.asarray(solve_triangular(factor, face.free.T, trans="T").T)


def find_active(programme: Programme, point: Point, least: float) -> list[ActiveConstraint]:
    """Return the constraints whose force is more than a share of the greatest, strongest first."""
    count = len(point.unknowns)
    margins = programme.rows @ point.unknowns - programme.lower
    found = [
        ActiveConstraint(float(point.rows[row]), row=int(row)) for row in np.flatnonzero(margins < _UNIT * point.rows)
    ]
    for number, (block, multiplier) in enumerate(zip(programme.blocks, point.blocks, strict=True)):
        values, vectors = np.linalg.eigh(block.value(point.unknowns) - _UNIT * multiplier)
        force = float(np.linalg.norm(block.adjoint(_positive_part(multiplier), count)))
        if values[0] < 0.0:
            found.append(ActiveConstraint(force, block=number, null_vectors=vectors[:, values < 0.0]))
    greatest = max([programme.size, *(constraint.force for constraint in found)])
    return sorted((each for each in found if each.force > least * greatest), key=lambda each: -each.force)


def is_near_edge(programme: Programme, unknowns: FloatArray, root: FloatArray) -> bool:
    """Return whether a row or a block is within three standard errors of its bound; `root` is one of the covariance."""
    deviations = np.linalg.norm(programme.rows @ root, axis=1)
    if np.any(programme.rows @ unknowns - programme.lower < _NEAR * deviations):
        return True
    for block in programme.blocks:
        values, vectors = np.linalg.eigh(block.value(unknowns))
        gradients = np.einsum("kij,ia,ja->ak", block.basis, vectors, vectors)
        if np.any(values < _NEAR * np.linalg.norm(gradients @ root[block.columns], axis=1)):
            return True
    return False


def _positive_part(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


class _Face:
    """The active constraints at a point: held rows, and springs."""

    def __init__(self, programme: Programme, point: Point) -> None:
        self.programme = programme
        self.count = len(point.unknowns)
        margins = programme.rows @ point.unknowns - programme.lower
        self.active = np.flatnonzero(margins < _UNIT * point.rows)
        self.parts = [
            _Part(block, point.unknowns, multiplier, _UNIT, self.count)
            for block, multiplier in zip(programme.blocks, point.blocks, strict=True)
        ]
        self.held = np.concatenate(
            [programme.equations, programme.rows[self.active], *(part.held for part in self.parts)]
        )
        self.goals = np.concatenate(
            [programme.right, programme.lower[self.active], *(part.held_goals for part in self.parts)]
        )
        self.stacked = np.concatenate([programme.factor, *(part.springs for part in self.parts)])
        self.targets = np.concatenate(
            [programme.factor @ programme.centre, *(part.spring_goals for part in self.parts)]
        )
        self.lengths = np.linalg.norm(self.held, axis=1)
        self.lengths[self.lengths == 0.0] = 1.0
        if len(self.held):
            self.basis, self.triangle, self.order = qr((self.held / self.lengths[:, None]).T, pivoting=True)
            sizes = np.abs(np.diagonal(self.triangle))
            self.rank = int(np.count_nonzero(sizes > _DEPENDENT * sizes[0]))
        else:
            self.basis, self.triangle, self.order, self.rank = np.eye(self.count), np.zeros((0, 0)), [], 0
        self.free = self.basis[:, self.rank :]

    def minimum(self) -> Point:
        """Return the minimum on the face, and the multipliers of held rows."""
        rank, order = self.rank, self.order
        kept = self.basis[:, :rank]
        triangle = self.triangle[:rank, :rank]
        unknowns = np.zeros(self.count)
        if rank:
            goals = (self.goals / self.lengths)[order][:rank]
            unknowns = kept @ solve_triangular(triangle, goals, trans="T")
        if self.free.shape[1]:
            basis, factor = np.linalg.qr(self.stacked @ self.free)
            step = solve_triangular(factor, basis.T @ (self.targets - self.stacked @ unknowns))
            unknowns = unknowns + self.free @ step
        multipliers = np.zeros(len(self.held))
        if rank:
            gradient = self.stacked.T @ (self.stacked @ unknowns - self.targets)
            multipliers[order[:rank]] = solve_triangular(triangle, kept.T @ gradient)
            multipliers /= self.lengths
        return self._point(unknowns, multipliers)

    def _point(self, unknowns: FloatArray, multipliers: FloatArray) -> Point:
        ends = np.cumsum([len(self.programme.equations), len(self.active), *(len(part.held) for part in self.parts)])
        equations, active, *blocks = np.split(multipliers, ends[:-1])
        rows = np.zeros(len(self.programme.rows))
        rows[self.active] = active
        return Point(
            unknowns,
            equations,
            rows,
            tuple(part.multiplier(unknowns, held) for part, held in zip(self.parts, blocks, strict=True)),
        )


class _Part:
    """Active entries of one block: rows between null vectors, springs between these and free ones."""

    def __init__(self, block: Block, unknowns: FloatArray, multiplier: FloatArray, unit: float, count: int) -> None:
        self.block = block
        values, self.vectors = np.linalg.eigh(block.value(unknowns) - unit * multiplier)
        null = [number for number, value in enumerate(values) if value < 0.0]
        free = [number for number, value in enumerate(values) if value >= 0.0]
        self.pairs = [(one, two) for one in null for two in null if two <= one]
        self.crossed = [(one, two) for one in null for two in free]
        self.stiffness = np.array([-values[one] / unit / max(values[two], 1e-300) for one, two in self.crossed])
        self.held, held_offsets = self._entries(self.pairs, count)
        self.held_goals = -held_offsets
        springs, offsets = self._entries(self.crossed, count)
        # Each entry stands in both triangles.
        roots = np.sqrt(2.0 * self.stiffness)
        self.springs, self.spring_goals = roots[:, None] * springs, -roots * offsets

    def multiplier(self, unknowns: FloatArray, held: FloatArray) -> FloatArray:
        """Return ``Z`` from the multipliers of held entries and the extension of springs."""
        turned = self.vectors.T @ self.block.value(unknowns) @ self.vectors
        found = np.zeros_like(turned)
        for (one, two), each in zip(self.pairs, held, strict=True):
            found[one, two] = found[two, one] = each if one == two else 0.5 * each
        for (one, two), stiffness in zip(self.crossed, self.stiffness, strict=True):
            found[one, two] = found[two, one] = -stiffness * turned[one, two]
        return np.asarray(self.vectors @ found @ self.vectors.T)

    def _entries(self, pairs: Sequence[tuple[int, int]], count: int) -> tuple[FloatArray, FloatArray]:
        """Return entries of the rotated block as rows on ``y``, and their offsets."""
        rows, offsets = np.zeros((len(pairs), count)), np.zeros(len(pairs))
        for row, (one, two) in enumerate(pairs):
            left, right = self.vectors[:, one], self.vectors[:, two]
            rows[row, self.block.columns] = left @ self.block.basis @ right
            offsets[row] = left @ self.block.offset @ right
        return rows, offsets
