"""Log-Cholesky vectors: physically possible bodies as ten free numbers, to draw them and to search among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model.parameters import from_pseudo_inertia, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray


def from_log_cholesky(log_cholesky: Any) -> FloatArray:
    """Return the ten parameters of log-Cholesky vectors ``[α, d1, d2, d3, s12, s23, s13, t1, t2, t3]``.

    The pseudo-inertia is ``U Uᵀ`` with::

        U = e^α [[e^d1, s12,  s13,  t1],
                 [0,    e^d2, s23,  t2],
                 [0,    0,    e^d3, t3],
                 [0,    0,    0,    1 ]]

    so that every vector of ten reals is a physically possible body [Rucker and Wensing, "Smooth parameterization
    of rigid-body inertia", 2022]. The order is Pinocchio's ``LogCholeskyParameters``.
    """
    vector = np.asarray(log_cholesky, dtype=np.float64)
    factor = np.zeros((*vector.shape[:-1], 4, 4))
    for axis in range(3):
        factor[..., axis, axis] = np.exp(vector[..., 1 + axis])
    factor[..., 0, 1], factor[..., 1, 2], factor[..., 0, 2] = vector[..., 4], vector[..., 5], vector[..., 6]
    factor[..., :3, 3] = vector[..., 7:10]
    factor[..., 3, 3] = 1.0
    factor *= np.exp(vector[..., 0])[..., None, None]
    return from_pseudo_inertia(factor @ np.swapaxes(factor, -1, -2))


def to_log_cholesky(parameters: Any) -> FloatArray:
    """Return the log-Cholesky vectors, shape (..., 10), of strictly possible bodies; see `from_log_cholesky`."""
    pseudo = to_pseudo_inertia(parameters)
    flipped = pseudo[..., ::-1, ::-1]
    # Cholesky gives a lower factor; of the matrix with both axes reversed it is the upper one reversed.
    factor = np.linalg.cholesky(flipped)[..., ::-1, ::-1]
    scale = factor[..., 3, 3]
    factor = factor / scale[..., None, None]
    vector = np.empty((*pseudo.shape[:-2], 10))
    vector[..., 0] = np.log(scale)
    for axis in range(3):
        vector[..., 1 + axis] = np.log(factor[..., axis, axis])
    vector[..., 4], vector[..., 5], vector[..., 6] = factor[..., 0, 1], factor[..., 1, 2], factor[..., 0, 2]
    vector[..., 7:10] = factor[..., :3, 3]
    return vector
