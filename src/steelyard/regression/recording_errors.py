"""Sensor errors that belong to one recording: eliminated from its factor before Evidence adds, and read back later.

The offset of a wrench sensor and the bias of an accelerometer hold from one zeroing or power-on to the next. With the
rows ``[E | X | f]`` of a recording, ``E`` the columns of its own errors ``e`` and ``X`` all others, and priors of
standard deviation ``σ``, the triangular factor of ``[E, X, f; w/σ, 0, 0]`` with ``E`` first is::

    R_e e + R_x x = r        the first rows: e for given x
            S x = s          the other rows: what the recording tells about x, whatever e is

Adding the ``[S | s]`` of several recordings equals one joint solve in which every recording has columns of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

OWN_GROUPS = ("wrench_offset", "accelerometer_bias")
"""Groups of nuisance columns that belong to a recording: what zeroing or switching on a sensor changes. Mounting,
friction, rotor inertia and gains belong to the robot."""

MOST_READ_BACK = 256
"""Sets of errors that a sum keeps for reading back. Set by judgement: 10 MB for a humanoid; of more recordings, each
one's own Evidence keeps its set."""


@dataclass(frozen=True, eq=False)
class RecordingErrors:
    """The eliminated sensor errors ``e`` of a recording: ``triangle e + rows [φ, nuisance, −1] = 0``.

    Attributes:
        recording: Identity of the recording (`Recording.origin`); empty if unknown.
        names: Their names.
        triangle: ``R_e``, upper triangular, shape (n_errors, n_errors).
        rows: ``[R_x | r]`` of all parameters, of the robot's nuisances and of the forces, shape (n_errors, n + 1).
        noise: Standard deviation of a row, correlated samples counted.
    """

    recording: str
    names: tuple[str, ...]
    triangle: FloatArray
    rows: FloatArray
    noise: float

    def values(self, unknowns: FloatArray) -> FloatArray:
        """Return the errors at given parameters and robot's nuisances, side by side; shape (n_errors,)."""
        right = -self.rows @ np.append(unknowns, -1.0)
        return np.asarray(solve_triangular(self.triangle, right))

    def covariance(self, unknowns: FloatArray) -> FloatArray:
        """Return the covariance of the errors, from the noise and from the covariance of the unknowns."""
        inverse = solve_triangular(self.triangle, np.eye(len(self.names)))
        through = inverse @ self.rows[:, :-1]
        return np.asarray(self.noise**2 * inverse @ inverse.T + through @ unknowns @ through.T)


class Elimination(NamedTuple):
    """A factor without some of its columns.

    Attributes:
        factor: Of the other columns, upper triangular, shape (m, m).
        triangle: ``R_e``, shape (n_errors, n_errors).
        rows: ``[R_x | r]``, shape (n_errors, m).
        taken: Number of equations that determining the errors took.
    """

    factor: FloatArray
    triangle: FloatArray
    rows: FloatArray
    taken: float


def eliminate_columns(factor: FloatArray, columns: Sequence[int], weights: FloatArray) -> Elimination:
    """Eliminate columns with priors from a triangular factor.

    Args:
        factor: ``[X | E | f]`` in any order, shape (n_rows, n).
        columns: Places of ``E``.
        weights: ``w/σ``: noise of a row over the prior's standard deviation, shape (n_errors,).
    """
    count = len(columns)
    others = np.setdiff1d(np.arange(factor.shape[1]), columns)
    held = np.concatenate([np.diag(weights), np.zeros((count, len(others)))], axis=1)
    stacked = np.concatenate([factor[:, [*columns, *others]], held])
    triangle: FloatArray = np.asarray(np.linalg.qr(stacked, mode="r"))
    signs = np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)
    triangle = np.ascontiguousarray(signs[:, None] * triangle)
    own = triangle[:count, :count]
    share = solve_triangular(own, np.diag(weights), trans="T")
    taken = count - float(np.sum(np.square(share)))
    rest = np.zeros((len(others), len(others)))
    left = triangle[count:, count:]
    rest[: len(left)] = left
    return Elimination(rest, own, triangle[:count, count:], taken)
