"""All bodies that are allowed as factors of their pseudo-inertias, for searches that know nothing of cones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from steelyard.identification.methods.conic import FLOOR
from steelyard.model.parameters import from_pseudo_inertia, to_pseudo_inertia
from tests.identification.constrained_worlds import arm

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem


def bodies_of_factors(factors: FloatArray) -> FloatArray:
    """Gives ``P = floor P₀ + U Uᵀ`` for lower triangular U: all bodies that are allowed, and no others."""
    lower = np.zeros((len(arm().links), 4, 4))
    lower[:, *np.tril_indices(4)] = factors.reshape(-1, 10)
    return from_pseudo_inertia(FLOOR * to_pseudo_inertia(arm().parameters) + lower @ np.swapaxes(lower, -1, -2))


def factors_of(bodies: FloatArray) -> FloatArray:
    return np.linalg.cholesky(to_pseudo_inertia(bodies))[:, *np.tril_indices(4)].ravel()


def derivative_of_bodies(factors: FloatArray) -> FloatArray:
    """Gives the derivative of all parameters by all factors, link by link."""
    rows, columns = np.tril_indices(4)
    blocks = []
    for link in factors.reshape(-1, 10):
        lower = np.zeros((4, 4))
        lower[rows, columns] = link
        steps = np.zeros((10, 4, 4))
        steps[np.arange(10), rows, columns] = 1.0
        halves = steps @ lower.T
        blocks.append(from_pseudo_inertia(halves + np.swapaxes(halves, -1, -2)).T)
    return block_diag(*blocks)


def stacked(given: Problem, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Gives ``M, c`` with the cost ``‖M z - c‖²``."""
    prior = np.sqrt(alpha) * np.linalg.inv(given.unknowns.spread)
    matrix = np.concatenate([given.matrix / given.noise, prior])
    return matrix, np.concatenate([given.right / given.noise, np.zeros(len(prior))])
