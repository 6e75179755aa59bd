"""Straight flight between hard edges, with exact bounces, compiled.

What is possible is convex: a particle meets no edge exactly when the place where it would end is inside. Only what is
not inside there is looked at closer. A link's matrix ``X + t V`` becomes singular first at ``t = −1/μ``, with ``μ`` the
least eigenvalue of ``F⁻¹ V F⁻ᵀ`` and ``X = F Fᵀ``; the edge's normal there is ``u uᵀ``, with ``u`` what the matrix then
sends to zero. A flight with its bounces is undone by the same flight with the velocity turned round, and keeps volumes
and speeds [Mohasel Afshar and Domke, "Reflection, refraction, and Hamiltonian Monte Carlo", 2015].

A particle is followed by what its edges see of it, ``edges @ x``: a bounce changes that by a few columns of the edges'
Gram matrix, which costs a thirtieth of seeing it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from steelyard.identification.sampling.small_factors import COLUMNS, COUNTS, ROWS

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_SHORT = 1e-9
"""Share of its way by which a flight stops before an edge, so that rounding does not carry it over."""

_MOST_BOUNCES = 60
"""A particle that bounces more often in one flight sits in a corner, and does not get through."""


@dataclass(frozen=True, eq=False)
class Table:
    """The hard edges: matrices that must be positive definite, link by link, then margins that must be positive.

    Attributes:
        links: How many matrices there are, b.
        start: Ten entries of each matrix and the margins, at ``x = 0``, shape (10 b + m,).
        edges: How they change with ``x``, shape (10 b + m, d).
    """

    links: int
    start: FloatArray
    edges: FloatArray

    @cached_property
    def gram(self) -> FloatArray:
        """``edges edgesᵀ``."""
        return np.ascontiguousarray(self.edges @ self.edges.T)

    def see(self, x: FloatArray) -> FloatArray:
        """Gives entries and margins at places in columns, shape (n, 10 b + m)."""
        return np.ascontiguousarray(self.start + x.T @ self.edges.T)

    def fly(
        self, x: FloatArray, velocity: FloatArray, time: FloatArray, seen: FloatArray
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Gives places, velocities, and which particles got through, after a flight.

        Args:
            x: Places, one per column, all of them inside, shape (d, n).
            velocity: Shape (d, n).
            time: How long each flies, shape (n,).
            seen: What the edges see of `x`; afterwards, of the new places.
        """
        place, speed = np.array(x.T, order="C"), np.array(velocity.T, order="C")
        change = np.ascontiguousarray(speed @ self.edges.T)
        through = _fly(place, speed, time, seen, change, self.links, self.edges, self.gram, _MOST_BOUNCES)
        return np.ascontiguousarray(place.T), np.ascontiguousarray(speed.T), through


_compiled = njit(cache=True, nogil=True, error_model="numpy")


def _is_positive_plain(seen, change, first, time):  # type: ignore[no-untyped-def]
    """Tells whether the matrix whose entries begin at `first` is positive definite after some time."""
    a00 = seen[first] + time * change[first]
    if not a00 > 0.0:
        return False
    a10 = seen[first + 1] + time * change[first + 1]
    a20 = seen[first + 3] + time * change[first + 3]
    a30 = seen[first + 6] + time * change[first + 6]
    l10, l20, l30 = a10 / a00, a20 / a00, a30 / a00
    d1 = seen[first + 2] + time * change[first + 2] - l10 * a10
    if not d1 > 0.0:
        return False
    c21 = seen[first + 4] + time * change[first + 4] - l20 * a10
    c31 = seen[first + 7] + time * change[first + 7] - l30 * a10
    l21, l31 = c21 / d1, c31 / d1
    d2 = seen[first + 5] + time * change[first + 5] - l20 * a20 - l21 * c21
    if not d2 > 0.0:
        return False
    c32 = seen[first + 8] + time * change[first + 8] - l30 * a20 - l31 * c21
    return seen[first + 9] + time * change[first + 9] - l30 * a30 - l31 * c31 - c32 * c32 / d2 > 0.0


_is_positive = _compiled(_is_positive_plain)


def _rotate_plain(matrix, p, q, cosine, sine):  # type: ignore[no-untyped-def]
    """Turns columns p and q of a matrix of four rows."""
    for k in range(4):
        one, other = matrix[k, p], matrix[k, q]
        matrix[k, p], matrix[k, q] = cosine * one - sine * other, sine * one + cosine * other


_rotate = _compiled(_rotate_plain)


def _least_pair_plain(matrix):  # type: ignore[no-untyped-def]
    """Gives the least eigenvalue of a symmetric 4 × 4 matrix, and its vector, by Jacobi's rotations; changes it."""
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


_least_pair = _compiled(_least_pair_plain)


def _first_singular_plain(seen, change, first, sent):  # type: ignore[no-untyped-def]
    """Gives when a matrix, positive definite now, first is singular, and writes what it then sends to zero."""
    factor, relative = np.zeros((4, 4)), np.empty((4, 4))
    for entry in range(10):
        row, column = ROWS[entry], COLUMNS[entry]
        value = seen[first + entry]
        for k in range(column):
            value -= factor[row, k] * factor[column, k]
        if row == column:
            factor[row, row] = np.sqrt(max(value, 1e-300))
        else:
            factor[row, column] = value / factor[column, column]
        relative[row, column] = change[first + entry]
        relative[column, row] = change[first + entry]
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
            value -= factor[k, row] * sent[k]
        sent[row] = value / factor[row, row]
    return -1.0 / least


_first_singular = _compiled(_first_singular_plain)


def _next_edge_plain(seen, change, links, left, vector):  # type: ignore[no-untyped-def]
    """Gives when a particle meets an edge, at most `left`, and which (−1: none); writes what that matrix then loses."""
    hit, which = left, -1
    sent = np.zeros(4)
    for row in range(10 * links, len(seen)):
        if change[row] < 0.0 and seen[row] + change[row] * hit < 0.0:
            hit, which = max(seen[row], 0.0) / -change[row], row
    for link in range(links):
        if not _is_positive(seen, change, 10 * link, hit):
            when = _first_singular(seen, change, 10 * link, sent)
            if when < hit:
                hit, which = when, 10 * link
                vector[:] = sent
    return hit, which


_next_edge = _compiled(_next_edge_plain)


def _mirror_plain(speed, change, first, weights, edges, gram):  # type: ignore[no-untyped-def]
    """Mirrors a velocity, and what the edges see of it, at the edge whose normal is weighted rows of `edges`."""
    outwards, length = 0.0, 0.0
    for one in range(len(weights)):
        outwards += weights[one] * change[first + one]
        for other in range(len(weights)):
            length += weights[one] * gram[first + one, first + other] * weights[other]
    for one in range(len(weights)):
        factor = 2.0 * outwards / length * weights[one]
        for column in range(len(speed)):
            speed[column] -= factor * edges[first + one, column]
        for column in range(len(change)):
            change[column] -= factor * gram[first + one, column]


_mirror = _compiled(_mirror_plain)


def _fly_plain(place, speed, time, seen, change, links, edges, gram, most):  # type: ignore[no-untyped-def]
    """Flies each particle, one per row, in place; gives which got through."""
    through = np.ones(len(seen), dtype=np.bool_)
    vector, weights, single = np.zeros(4), np.zeros(10), np.ones(1)
    for n in range(len(seen)):
        left = time[n]
        for bounce in range(most + 1):
            hit, which = _next_edge(seen[n], change[n], links, left, vector)
            flown = left if which < 0 else hit * (1.0 - _SHORT)
            for column in range(place.shape[1]):
                place[n, column] += flown * speed[n, column]
            for column in range(seen.shape[1]):
                seen[n, column] += flown * change[n, column]
            left -= flown
            if which < 0:
                break
            if bounce == most:
                through[n] = False
            elif which >= 10 * links:
                _mirror(speed[n], change[n], which, single, edges, gram)
            else:
                largest = max(abs(vector[0]), abs(vector[1]), abs(vector[2]), abs(vector[3]))
                for entry in range(10):
                    one, other = vector[ROWS[entry]] / largest, vector[COLUMNS[entry]] / largest
                    weights[entry] = one * other * COUNTS[entry]
                _mirror(speed[n], change[n], which, weights, edges, gram)
    return through


_fly = _compiled(_fly_plain)
