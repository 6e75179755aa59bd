"""Distances between bodies that do not depend on units and frames: divergence and distance of pseudo-inertias.

Both are invariant under ``P → M P Mᵀ`` of each pseudo-inertia: a change of frame, of the unit of length, and of the
unit of mass. To second order the divergence is half of the squared distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model.parameters import PARAMETER_COUNT, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_BASIS = to_pseudo_inertia(np.eye(PARAMETER_COUNT))
"""The pseudo-inertia of each parameter alone, shape (10, 4, 4): it is linear in them."""


def log_det_divergence(parameters: Any, reference: Any) -> FloatArray:
    """Return ``tr(P P₀⁻¹) − log det(P P₀⁻¹) − 4`` of bodies from their references, shape (...,).

    It is the Bregman divergence of ``−log det``: convex in the parameters, zero at the reference, and infinite for
    impossible bodies [Lee, Wensing and Park, "Geometric robot dynamic identification: a convex programming approach",
    2019].

    Args:
        parameters: Shape (..., 10).
        reference: Of possible bodies, shape (..., 10).
    """
    values = _relative_eigenvalues(parameters, reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = values - np.log(values) - 1.0
    return np.asarray(np.sum(np.where(values > 0.0, terms, np.inf), axis=-1))


def log_det_gradient(parameters: Any, reference: Any) -> FloatArray:
    """Return the gradient of the divergence with respect to the parameters, shape (..., 10)."""
    difference = np.linalg.inv(to_pseudo_inertia(reference)) - np.linalg.inv(to_pseudo_inertia(parameters))
    return np.asarray(np.einsum("...ij,kij->...k", difference, _BASIS))


def log_det_hessian(parameters: Any) -> FloatArray:
    """Return the Hessian of the divergence, shape (..., 10, 10), which does not depend on the reference."""
    inverse = np.linalg.inv(to_pseudo_inertia(parameters))
    products = np.einsum("...ij,kjl->...kil", inverse, _BASIS)
    return np.asarray(np.einsum("...kij,...lji->...kl", products, products))


def affine_distance(parameters: Any, other: Any) -> FloatArray:
    """Return the affine-invariant distance ``‖log(P₀⁻¹ P)‖``, shape (...,); inf where a body is impossible."""
    values = _relative_eigenvalues(parameters, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(values > 0.0, np.log(values), np.inf)
    return np.asarray(np.linalg.norm(logs, axis=-1))


def _relative_eigenvalues(parameters: Any, reference: Any) -> FloatArray:
    """Return the eigenvalues of ``P₀⁻¹ P``, shape (..., 4)."""
    lower = np.linalg.cholesky(to_pseudo_inertia(reference))
    half = np.linalg.solve(lower, to_pseudo_inertia(parameters))
    whole = np.linalg.solve(lower, np.swapaxes(half, -1, -2))
    return np.asarray(np.linalg.eigvalsh(0.5 * (whole + np.swapaxes(whole, -1, -2))))
