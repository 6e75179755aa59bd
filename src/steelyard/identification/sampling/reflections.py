"""Straight trajectories with exact reflections at hard constraints, compiled.

The possible region is convex: a particle meets no constraint exactly when its end point is inside; only other
constraints are examined. A link's matrix ``X + t V`` first becomes singular at ``t = −1/μ``, with ``μ`` the least
eigenvalue of ``F⁻¹ V F⁻ᵀ`` and ``X = F Fᵀ``; the normal there is ``u uᵀ``, with ``u`` the null vector of the singular
matrix. A reflected trajectory is reversible and preserves volume and speed [Mohasel Afshar and Domke, "Reflection,
refraction, and Hamiltonian Monte Carlo", 2015].

A particle is tracked by its constraint values, ``normals @ x``: a reflection changes them by a few columns of the Gram
matrix of the normals, which costs a thirtieth of computing them anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.sampling.small_factors import COLUMNS, COUNTS, ROWS
from steelyard.kinematics import compile_kernel

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_SHORT = 1e-9
"""Relative distance by which a trajectory stops before a constraint, so that rounding does not cross it. Set by
judgement: far above rounding, far below any step."""

_MOST_REFLECTIONS = 60
"""A particle with more reflections in one trajectory sits in a corner, and its move is rejected. Set by judgement."""


@dataclass(frozen=True, eq=False)
class Boundary:
    """Hard constraints: matrices that must be positive definite, link by link, then margins that must be positive.

    Attributes:
        links: Number of matrices, b.
        start: Ten entries of each matrix and the margins, at ``x = 0``, shape (10 b + m,).
        normals: Their derivatives by ``x``, shape (10 b + m, d).
    """

    links: int
    start: FloatArray
    normals: FloatArray

    @cached_property
    def gram(self) -> FloatArray:
        """``normals normalsᵀ``."""
        return np.ascontiguousarray(self.normals @ self.normals.T)

    def evaluate(self, x: FloatArray) -> FloatArray:
        """Return entries and margins at points in columns, shape (n, 10 b + m)."""
        return np.ascontiguousarray(self.start + x.T @ self.normals.T)

    def advance(
        self, x: FloatArray, velocity: FloatArray, time: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Return positions, velocities, and which particles completed their trajectories.

        Args:
            x: Positions, one per column, all of them inside, shape (d, n).
            velocity: Shape (d, n).
            time: Duration of each, shape (n,).
            values: Constraint values at `x`; replaced by those at the new positions.
        """
        position, speed = np.array(x.T, order="C"), np.array(velocity.T, order="C")
        rates = np.ascontiguousarray(speed @ self.normals.T)
        through = _advance(position, speed, time, values, rates, self.links, self.normals, self.gram, _MOST_REFLECTIONS)
        return np.ascontiguousarray(position.T), np.ascontiguousarray(speed.T), through


_compiled = compile_kernel()


@_compiled
def _is_positive(values, rates, first, time):  # type: ignore[no-untyped-def]
    """Return whether the matrix whose entries begin at `first` is positive definite after some time."""
    a00 = values[first] + time * rates[first]
    if not a00 > 0.0:
        return False
    a10 = values[first + 1] + time * rates[first + 1]
    a20 = values[first + 3] + time * rates[first + 3]
    a30 = values[first + 6] + time * rates[first + 6]
    l10, l20, l30 = a10 / a00, a20 / a00, a30 / a00
    d1 = values[first + 2] + time * rates[first + 2] - l10 * a10
    if not d1 > 0.0:
        return False
    c21 = values[first + 4] + time * rates[first + 4] - l20 * a10
    c31 = values[first + 7] + time * rates[first + 7] - l30 * a10
    l21, l31 = c21 / d1, c31 / d1
    d2 = values[first + 5] + time * rates[first + 5] - l20 * a20 - l21 * c21
    if not d2 > 0.0:
        return False
    c32 = values[first + 8] + time * rates[first + 8] - l30 * a20 - l31 * c21
    return values[first + 9] + time * rates[first + 9] - l30 * a30 - l31 * c31 - c32 * c32 / d2 > 0.0


@_compiled
def _rotate(matrix, p, q, cosine, sine):  # type: ignore[no-untyped-def]
    """Rotate columns p and q of a matrix of four rows."""
    for k in range(4):
        one, other = matrix[k, p], matrix[k, q]
        matrix[k, p], matrix[k, q] = cosine * one - sine * other, sine * one + cosine * other


@_compiled
def _least_pair(matrix):  # type: ignore[no-untyped-def]
    """Return the least eigenpair of a symmetric 4 × 4 matrix by Jacobi rotations, in position."""
    vectors, other_way = np.zeros((4, 4)), matrix.T
    for row in range(4):
        vectors[row, row] = 1.0
    for _ in range(30):
        off, size = 0.0, 0.0
        for row in range(4):
            size += matrix[row, row] ** 2
            for column in range(row):
                off += matrix[row, column] ** 2
        if off <= 1e-30 * size:
            break
        for p, q in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
            if matrix[p, q] == 0.0:
                continue
            theta = 0.5 * (matrix[q, q] - matrix[p, p]) / matrix[p, q]
            tangent = (1.0 if theta >= 0.0 else -1.0) / (abs(theta) + np.sqrt(1.0 + theta * theta))
            cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
            _rotate(matrix, p, q, cosine, tangent * cosine)
            _rotate(other_way, p, q, cosine, tangent * cosine)
            _rotate(vectors, p, q, cosine, tangent * cosine)
    least = 0
    for each in range(1, 4):
        if matrix[each, each] < matrix[least, least]:
            least = each
    return matrix[least, least], vectors[:, least]


@_compiled
def _first_singular(values, rates, first, null):  # type: ignore[no-untyped-def]
    """Return when a positive definite matrix first becomes singular; write its null vector then to `null`."""
    factor, relative = np.zeros((4, 4)), np.empty((4, 4))
    for entry in range(10):
        row, column = ROWS[entry], COLUMNS[entry]
        value = values[first + entry]
        for k in range(column):
            value -= factor[row, k] * factor[column, k]
        if row == column:
            factor[row, row] = np.sqrt(max(value, 1e-300))
        else:
            factor[row, column] = value / factor[column, column]
        relative[row, column] = rates[first + entry]
        relative[column, row] = rates[first + entry]
    # F⁻¹ V, and then F⁻¹ (F⁻¹ V)ᵀ.
    for _ in range(2):
        for column in range(4):
            for row in range(4):
                value = relative[row, column]
                for k in range(row):
                    value -= factor[row, k] * relative[k, column]
                relative[row, column] = value / factor[row, row]
        relative = relative.T.copy()
    least, vector = _least_pair(relative)
    if not least < 0.0:
        return np.inf
    for row in range(3, -1, -1):
        value = vector[row]
        for k in range(row + 1, 4):
            value -= factor[k, row] * null[k]
        null[row] = value / factor[row, row]
    return -1.0 / least


@_compiled
def _next_contact(values, rates, links, left, vector):  # type: ignore[no-untyped-def]
    """Return when, at most `left`, and which constraint a particle meets (−1: none); write the null vector."""
    contact, which = left, -1
    null = np.zeros(4)
    for row in range(10 * links, len(values)):
        if rates[row] < 0.0 and values[row] + rates[row] * contact < 0.0:
            contact, which = max(values[row], 0.0) / -rates[row], row
    for link in range(links):
        if not _is_positive(values, rates, 10 * link, contact):
            when = _first_singular(values, rates, 10 * link, null)
            if when < contact:
                contact, which = when, 10 * link
                vector[:] = null
    return contact, which


@_compiled
def _reflect(speed, rates, first, weights, normals, gram):  # type: ignore[no-untyped-def]
    """Mirror a velocity, and its constraint rates, at the constraint whose normal is weighted rows of `normals`."""
    outward, length = 0.0, 0.0
    for one in range(len(weights)):
        outward += weights[one] * rates[first + one]
        for other in range(len(weights)):
            length += weights[one] * gram[first + one, first + other] * weights[other]
    for one in range(len(weights)):
        factor = 2.0 * outward / length * weights[one]
        for column in range(len(speed)):
            speed[column] -= factor * normals[first + one, column]
        for column in range(len(rates)):
            rates[column] -= factor * gram[first + one, column]


@_compiled
def _advance(position, speed, time, values, rates, links, normals, gram, most):  # type: ignore[no-untyped-def]
    """Advance each particle, one per row, in position; return which completed their trajectories."""
    through = np.ones(len(values), dtype=np.bool_)
    vector, weights, single = np.zeros(4), np.zeros(10), np.ones(1)
    for n in range(len(values)):
        left = time[n]
        for reflection in range(most + 1):
            contact, which = _next_contact(values[n], rates[n], links, left, vector)
            moved = left if which < 0 else contact * (1.0 - _SHORT)
            for column in range(position.shape[1]):
                position[n, column] += moved * speed[n, column]
            for column in range(values.shape[1]):
                values[n, column] += moved * rates[n, column]
            left -= moved
            if which < 0:
                break
            if reflection == most:
                through[n] = False
            elif which >= 10 * links:
                _reflect(speed[n], rates[n], which, single, normals, gram)
            else:
                largest = max(abs(vector[0]), abs(vector[1]), abs(vector[2]), abs(vector[3]))
                for entry in range(10):
                    one, other = vector[ROWS[entry]] / largest, vector[COLUMNS[entry]] / largest
                    weights[entry] = one * other * COUNTS[entry]
                _reflect(speed[n], rates[n], which, weights, normals, gram)
    return through
