"""A quadratic programme over semidefinite blocks, near its minimum: refined to rounding, and how it answers to data.

Near a minimum it is known what binds: of each block ``S`` and its multiplier ``Z``, the eigenvectors of ``W = S − Z``
with positive eigenvalues ``s`` are free, those with negative ones ``−z`` are null vectors of ``S``. Newton's method on
``S = Π(W)``, the projection onto the cone [Qi and Sun, "A quadratically convergent Newton method for computing the
nearest correlation matrix", 2006], is then least squares once more: entries of ``S`` between null vectors are held at
zero, entries between a null vector and a free one are springs of stiffness ``z / s``, and others are left alone. The
springs are the curvature of the cone [Shapiro, "First and second order analysis of nonlinear semidefinite programs",
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
"""Part of a held row, scaled to one, that must be left beside the others."""

_MOST_STEPS = 30
_PATIENCE = 3
"""How many steps in a row may be no better than the best before the search gives up."""

_EXACT = 1e-13
_UNIT = 10.0
"""Beside which a multiplier (cost) is compared with a margin (share of the reference): it only decides what is taken to
bind far from the minimum. From one to a hundred, weak priors took the fewest steps."""

_NEAR = 3.0
"""Standard errors within which an edge cuts off so much of a normal law that its covariance is another."""

_ASTRAY = 1e9
"""Distance, in units of how far a model is usually off, from which a search has gone astray."""


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
        size: What gradients are compared with where nothing binds.
    """

    factor: FloatArray
    centre: FloatArray
    equations: FloatArray
    right: FloatArray
    rows: FloatArray
    lower: FloatArray
    blocks: tuple[Block, ...]
    size: float = 1.0

    def gradient(self, place: FloatArray) -> FloatArray:
        """Gives the gradient of what is minimised, shape (n,)."""
        return np.asarray(self.factor.T @ (self.factor @ (place - self.centre)))


@dataclass(frozen=True, eq=False)
class Point:
    """A point and its multipliers.

    Attributes:
        place: ``y``, shape (n,).
        equations: Multipliers of equations, shape (e,).
        rows: Multipliers of rows, shape (m,).
        blocks: ``Z`` of each block.
    """

    place: FloatArray
    equations: FloatArray
    rows: FloatArray
    blocks: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Quality:
    """How far a point is from being the minimum; multipliers of the wrong sign count as zero.

    Attributes:
        stationarity: What is left of the gradient beside the push of what binds, as a share of the greatest of both and
            of the programme's size.
        violation: The most by which a row, an equation or an eigenvalue of a block is below its bound, scaled.
        gap: Between the cost and its lower bound by duality: ``Σ multiplier · margin``, in the cost's unit.
        error: The greatest of the three; the gap as a share of the cost and one.
    """

    stationarity: float
    violation: float
    gap: float
    error: float


@dataclass(frozen=True, eq=False)
class Leaning:
    """What a minimum leans on: null vectors of blocks, and rows.

    Attributes:
        push: How hard, as a gradient.
        row: Index of a row; −1 for a block.
        block: Index of a block; −1 for a row.
        null_vectors: Of a block, shape (d, count).
    """

    push: float
    row: int = -1
    block: int = -1
    null_vectors: FloatArray | None = None


def assess(programme: Programme, point: Point) -> Quality:
    """Gives the quality of a point."""
    count = len(point.place)
    rows = np.maximum(point.rows, 0.0)
    push = programme.rows.T @ rows + programme.equations.T @ point.equations
    margins = programme.rows @ point.place - programme.lower
    missed = np.abs(programme.equations @ point.place - programme.right)
    violation = float(max(np.max(-margins, initial=0.0), np.max(missed, initial=0.0)))
    gap = float(np.abs(rows * margins).sum() + np.abs(point.equations) @ missed)
    for block, given in zip(programme.blocks, point.blocks, strict=True):
        value, multiplier = block.value(point.place), _positive_part(given)
        push += block.push(multiplier, count)
        violation = max(violation, -float(np.linalg.eigvalsh(value)[0]))
        gap += abs(float(np.sum(value * multiplier)))
    gradient = programme.gradient(point.place)
    size = max(float(np.linalg.norm(gradient)), float(np.linalg.norm(push)), programme.size)
    stationarity = float(np.linalg.norm(gradient - push)) / max(size, 1e-300)
    cost = 0.5 * float(np.sum(np.square(programme.factor @ (point.place - programme.centre))))
    return Quality(stationarity, violation, gap, max(stationarity, violation, gap / (1.0 + cost)))


def refine(programme: Programme, point: Point, tolerance: float) -> tuple[Point, Quality]:
    """Gives the minimum to rounding, from a point near it, by Newton's method; the best point where it goes astray.

    Args:
        programme: The programme.
        point: Where to start.
        tolerance: Of stationarity and violation, by which the search counts as done once a step does not help.
    """
    best, quality = point, assess(programme, point)
    lowest, waited = np.inf, 0
    for _ in range(_MOST_STEPS):
        try:
            point = _Face(programme, point).minimum()
        except np.linalg.LinAlgError:
            break
        if not np.max(np.abs(point.place), initial=0.0) < _ASTRAY:
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


def answer_to_centre(programme: Programme, point: Point) -> FloatArray:
    """Gives ``C`` with ``dy = C Cᵀ g`` where the gradient of what is minimised changes by ``−g``, shape (n, free).

    What binds is taken to go on binding, and others not to begin to; null vectors of blocks turn as the cone is curved.
    """
    face = _Face(programme, point)
    factor = np.linalg.qr(face.stacked @ face.free, mode="r")
    return np.asarray(solve_triangular(factor, face.free.T, trans="T").T)


def find_leanings(programme: Programme, point: Point, least: float) -> list[Leaning]:
    """Gives what the minimum leans on by more than a share of the whole push, strongest first."""
    count = len(point.place)
    margins = programme.rows @ point.place - programme.lower
    found = [Leaning(float(point.rows[row]), row=int(row)) for row in np.flatnonzero(margins < _UNIT * point.rows)]
    for number, (block, multiplier) in enumerate(zip(programme.blocks, point.blocks, strict=True)):
        values, vectors = np.linalg.eigh(block.value(point.place) - _UNIT * multiplier)
        push = float(np.linalg.norm(block.push(_positive_part(multiplier), count)))
        if values[0] < 0.0:
            found.append(Leaning(push, block=number, null_vectors=vectors[:, values < 0.0]))
    greatest = max([programme.size, *(leaning.push for leaning in found)])
    return sorted((each for each in found if each.push > least * greatest), key=lambda each: -each.push)


def is_near_edge(programme: Programme, place: FloatArray, root: FloatArray) -> bool:
    """Tells whether a row or a block's edge is nearer than three standard errors; `root` is one of the covariance."""
    deviations = np.linalg.norm(programme.rows @ root, axis=1)
    if np.any(programme.rows @ place - programme.lower < _NEAR * deviations):
        return True
    for block in programme.blocks:
        values, vectors = np.linalg.eigh(block.value(place))
        slopes = np.einsum("kij,ia,ja->ak", block.basis, vectors, vectors)
        if np.any(values < _NEAR * np.linalg.norm(slopes @ root[block.columns], axis=1)):
            return True
    return False


def _positive_part(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


class _Face:
    """What binds at a point: held rows, and springs."""

    def __init__(self, programme: Programme, point: Point) -> None:
        self.programme = programme
        self.count = len(point.place)
        self.unit = _UNIT
        margins = programme.rows @ point.place - programme.lower
        self.active = np.flatnonzero(margins < self.unit * point.rows)
        self.parts = [
            _Part(block, point.place, multiplier, self.unit, self.count)
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
        """Gives the minimum on the face, and the multipliers of what is held."""
        rank, order = self.rank, self.order
        kept = self.basis[:, :rank]
        triangle = self.triangle[:rank, :rank]
        place = np.zeros(self.count)
        if rank:
            goals = (self.goals / self.lengths)[order][:rank]
            place = kept @ solve_triangular(triangle, goals, trans="T")
        if self.free.shape[1]:
            basis, factor = np.linalg.qr(self.stacked @ self.free)
            step = solve_triangular(factor, basis.T @ (self.targets - self.stacked @ place))
            place = place + self.free @ step
        multipliers = np.zeros(len(self.held))
        if rank:
            gradient = self.stacked.T @ (self.stacked @ place - self.targets)
            multipliers[order[:rank]] = solve_triangular(triangle, kept.T @ gradient)
            multipliers /= self.lengths
        return self._point(place, multipliers)

    def _point(self, place: FloatArray, multipliers: FloatArray) -> Point:
        ends = np.cumsum([len(self.programme.equations), len(self.active), *(len(part.held) for part in self.parts)])
        equations, active, *blocks = np.split(multipliers, ends[:-1])
        rows = np.zeros(len(self.programme.rows))
        rows[self.active] = active
        return Point(
            place,
            equations,
            rows,
            tuple(part.multiplier(place, held) for part, held in zip(self.parts, blocks, strict=True)),
        )


class _Part:
    """What binds of one block: rows of its entries between null vectors, springs between these and free ones."""

    def __init__(self, block: Block, place: FloatArray, multiplier: FloatArray, unit: float, count: int) -> None:
        self.block = block
        values, self.vectors = np.linalg.eigh(block.value(place) - unit * multiplier)
        null = [number for number, value in enumerate(values) if value < 0.0]
        free = [number for number, value in enumerate(values) if value >= 0.0]
        self.pairs = [(one, two) for one in null for two in null if two <= one]
        self.crossed = [(one, two) for one in null for two in free]
        self.stiffness = np.array([-values[one] / unit / max(values[two], 1e-300) for one, two in self.crossed])
        self.held, held_offsets = self._entries(self.pairs, count)
        self.held_goals = -held_offsets
        springs, offsets = self._entries(self.crossed, count)
        # Both triangles count.
        roots = np.sqrt(2.0 * self.stiffness)
        self.springs, self.spring_goals = roots[:, None] * springs, -roots * offsets

    def multiplier(self, place: FloatArray, held: FloatArray) -> FloatArray:
        """Gives ``Z`` from the multipliers of held entries and from how far springs are drawn."""
        turned = self.vectors.T @ self.block.value(place) @ self.vectors
        found = np.zeros_like(turned)
        for (one, two), each in zip(self.pairs, held, strict=True):
            found[one, two] = found[two, one] = each if one == two else 0.5 * each
        for (one, two), stiffness in zip(self.crossed, self.stiffness, strict=True):
            found[one, two] = found[two, one] = -stiffness * turned[one, two]
        return np.asarray(self.vectors @ found @ self.vectors.T)

    def _entries(self, pairs: Sequence[tuple[int, int]], count: int) -> tuple[FloatArray, FloatArray]:
        """Gives entries of the turned block as rows on ``y``, and their offsets."""
        rows, offsets = np.zeros((len(pairs), count)), np.zeros(len(pairs))
        for row, (one, two) in enumerate(pairs):
            left, right = self.vectors[:, one], self.vectors[:, two]
            rows[row, self.block.columns] = left @ self.block.basis @ right
            offsets[row] = left @ self.block.offset @ right
        return rows, offsets
