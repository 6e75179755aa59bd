"""Semidefinite programmes by clarabel, an interior-point solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from steelyard.identification.solvers.sdp_refinement import Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.lmi_blocks import Block
    from steelyard.identification.solvers.sdp_refinement import Programme

TOLERANCE = 1e-10
"""Gap and infeasibility that clarabel is asked for. Set by judgement; `refine` goes on from there."""


def independent_rows(equations: FloatArray) -> FloatArray:
    """Return the indices of equations that imply the others."""
    if not len(equations):
        return np.zeros(0, dtype=np.int64)
    _, triangle, order = qr(equations.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return np.sort(order[: len(sizes)][sizes > 1e-10 * sizes[0]])


def _triangle(size: int) -> tuple[Any, Any, FloatArray]:
    """Return rows, columns and weights of an upper triangle in the column-major order of clarabel."""
    pairs = np.array([(row, column) for column in range(size) for row in range(column + 1)])
    return pairs[:, 0], pairs[:, 1], np.where(pairs[:, 0] == pairs[:, 1], 1.0, np.sqrt(2.0))


def _cone_rows(blocks: Sequence[Block], count: int) -> tuple[list[Any], list[FloatArray]]:
    matrices, offsets = [], []
    for block in blocks:
        rows, columns, weights = _triangle(block.size)
        entries = block.basis[:, rows, columns].T * weights[:, None]
        indices = np.tile(block.columns, len(weights))
        starts = np.arange(len(weights) + 1) * len(block.columns)
        matrices.append(sparse.csr_array((-entries.reshape(-1), indices, starts), shape=(len(weights), count)))
        offsets.append(block.offset[rows, columns] * weights)
    return matrices, offsets


def solve_by_clarabel(programme: Programme, *, turned: bool = False) -> Any:
    """Return clarabel's solution, with ``y`` relative to the centre: so costs are small, and gaps exact.

    Turned, the variables are ``factor (y − centre)``: slower, as nothing is sparse then, but the factor is not squared.
    """
    count = len(programme.centre)
    kept = independent_rows(programme.equations)
    cone_rows, offsets = _cone_rows(programme.blocks, count)
    matrix = sparse.vstack(
        [sparse.csr_array(programme.equations[kept]), sparse.csr_array(-programme.rows), *cone_rows], format="csc"
    )
    right = np.concatenate([programme.right[kept], -programme.lower, *offsets])
    right = right - matrix @ programme.centre
    cones: list[Any] = [clarabel.ZeroConeT(len(kept)), clarabel.NonnegativeConeT(len(programme.rows))]
    cones += [clarabel.PSDTriangleConeT(block.size) for block in programme.blocks]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    if turned:
        matrix = solve_triangular(programme.factor, matrix.toarray().T, trans="T").T
        quadratic = sparse.eye(count, format="csc")
    else:
        quadratic = sparse.csc_matrix(np.triu(programme.factor.T @ programme.factor))
    return clarabel.DefaultSolver(quadratic, np.zeros(count), sparse.csc_matrix(matrix), right, cones, settings).solve()


def read_point(programme: Programme, solved: Any, *, turned: bool) -> Point:
    """Return the point and the multipliers of a solution by `solve_by_clarabel`."""
    multipliers = np.asarray(solved.z)
    kept = independent_rows(programme.equations)
    equations = np.zeros(len(programme.equations))
    equations[kept] = -multipliers[: len(kept)]
    begin = len(kept) + len(programme.rows)
    blocks = []
    for block in programme.blocks:
        rows, columns, weights = _triangle(block.size)
        entries = multipliers[begin : begin + len(rows)] / weights
        begin += len(rows)
        multiplier = np.zeros((block.size, block.size))
        multiplier[rows, columns] = multiplier[columns, rows] = entries
        blocks.append(multiplier)
    step = np.asarray(solved.x)
    return Point(
        programme.centre + (solve_triangular(programme.factor, step) if turned else step),
        equations,
        multipliers[len(kept) : len(kept) + len(programme.rows)],
        tuple(blocks),
    )
