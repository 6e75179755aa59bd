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

OWN_GROUPS = ("wrench_offset", "wrench_drift", "accelerometer_bias", "gyro_bias")
"""Groups of nuisance columns that belong to a recording: what zeroing or switching on a sensor changes, and drift.
Mounting, friction, rotor inertia, gains and encoder offsets belong to the robot."""

KNOT_SECONDS = 120.0
"""Seconds between two knots of a drifting offset. Set by judgement: a sensor's temperature changes over minutes."""

MOST_READ_BACK = 256
"""Knots of errors that a sum keeps for reading back, one for each recording of up to two minutes. Set by judgement:
10 MB for a humanoid; of more recordings, each one's own Evidence keeps its knots."""


@dataclass(frozen=True, eq=False)
class ErrorBlock:
    """Eliminated errors ``e`` of one knot of time: ``triangle e + coupling next + rows [φ, nuisance, −1] = 0``.

    Attributes:
        names: Names of the errors.
        triangle: ``R_e``, upper triangular, shape (n, n).
        coupling: On the errors of the next knot and those that are constant, which the last block has; shape
            (n, n_next), without columns in the last block.
        rows: ``[R_x | r]`` of all parameters, of the robot's nuisances and of the forces, shape (n, n_unknowns + 1).
    """

    names: tuple[str, ...]
    triangle: FloatArray
    coupling: FloatArray
    rows: FloatArray


@dataclass(frozen=True, eq=False)
class RecordingErrors:
    """The eliminated sensor errors of a recording: one block, or one for each knot where offsets drift.

    Attributes:
        recording: Identity of the recording (`Recording.origin`); empty if unknown.
        blocks: The blocks, in the order of time.
        noise: Standard deviation of a row, correlated samples counted.
    """

    recording: str
    blocks: tuple[ErrorBlock, ...]
    noise: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all errors; those of later knots end with their time, ``left_foot.fx.offset@120s``."""
        return tuple(name for block in self.blocks for name in block.names)

    def values(self, unknowns: FloatArray) -> FloatArray:
        """Return the errors at given parameters and robot's nuisances, side by side; shape (n_errors,)."""
        return np.asarray(self.gains() @ np.append(unknowns, -1.0))

    def gains(self) -> FloatArray:
        """Return the errors' dependence on the unknowns and −1, shape (n_errors, n_unknowns + 1)."""
        return np.concatenate([gain for gain, _, _ in self._solve()])

    def standard_errors(self, covariance: FloatArray) -> FloatArray:
        """Return the errors' own standard errors, from the noise and from the unknowns' covariance; (n_errors,)."""
        variances = [
            self.noise**2 * np.diagonal(own) + np.einsum("ij,jk,ik->i", gain[:, :-1], covariance, gain[:, :-1])
            for gain, own, _ in self._solve()
        ]
        return np.asarray(np.sqrt(np.maximum(np.concatenate(variances), 0.0)))

    def spent(self, first: FloatArray, steps: Sequence[FloatArray]) -> float:
        """Return the number of equations that determining the errors took; the priors decided the rest.

        Args:
            first: ``w/σ`` of the errors at the first knot and of the constant ones, shape (n,).
            steps: ``w/σ`` of the changes from each knot to the next, shape (n_drifting,) each.
        """
        solved = self._solve()
        count = len(self.blocks[0].names) if steps else 0
        taken = float(sum(len(block.names) for block in self.blocks))
        taken -= float(np.square(first[:count]) @ np.diagonal(solved[0][1])[:count])
        taken -= float(np.square(first[count:]) @ np.diagonal(solved[-1][1])[count:])
        for weights, (_, _, change) in zip(steps, solved, strict=False):
            taken -= float(np.square(weights) @ change)
        return taken

    def _solve(self) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Return for each block the errors' dependence on the unknowns and −1, their covariance for rows of unit noise
        and given unknowns, and the variances of the changes to the next knot.
        """  # noqa: D205
        last = self.blocks[-1]
        gain = -np.asarray(solve_triangular(last.triangle, last.rows))
        inverse = np.asarray(solve_triangular(last.triangle, np.eye(len(last.names))))
        own = inverse @ inverse.T
        found = [(gain, own, np.zeros(0))]
        for block in reversed(self.blocks[:-1]):
            count = len(block.names)
            through = -np.asarray(solve_triangular(block.triangle, block.coupling))
            inverse = np.asarray(solve_triangular(block.triangle, np.eye(count)))
            here = through @ gain - np.asarray(solve_triangular(block.triangle, block.rows))
            noise = inverse @ inverse.T
            moved = np.eye(count, through.shape[1]) - through
            change = np.einsum("ij,jk,ik->i", moved, own, moved) + np.diagonal(noise)
            # The state is that of this knot with the constant errors beside it.
            mixed = np.concatenate([through, np.eye(len(own) - count, len(own), count)])
            own = mixed @ own @ mixed.T
            own[:count, :count] += noise
            gain = np.concatenate([here, gain[count:]])
            found.append((here, own[:count, :count], change))
        return found[::-1]


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


def keep_readable(errors: Sequence[RecordingErrors]) -> tuple[RecordingErrors, ...]:
    """Return the first recordings' errors, as many as have `MOST_READ_BACK` knots together."""
    knots = np.cumsum([len(each.blocks) for each in errors])
    return tuple(each for each, count in zip(errors, knots, strict=True) if count <= MOST_READ_BACK)
