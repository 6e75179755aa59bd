"""The ten inertial parameters of a link: their order, and every other way to write them.

This file is the only authority on the order. A vector of ten is taken at the origin of the link's
joint frame, in that frame's axes::

    [m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]

with ``m`` the mass (kg), ``(mx, my, mz) = m c`` the first moment (kg m), and ``I`` the rotational inertia
about the *origin of the frame* (kg m²), not about the centre of mass. It is Pinocchio's order.

Every function works on whole batches: shapes are ``(..., 10)``, ``(..., 3, 3)``, ``(..., 4, 4)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import ConsistencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray

PARAMETER_SYMBOLS = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Names of the ten parameters, in order."""

PARAMETER_COUNT = len(PARAMETER_SYMBOLS)

_TENSOR_ROWS = np.array([0, 0, 1, 0, 1, 2])
"""Row in the inertia tensor of each of the last six parameters."""

_TENSOR_COLUMNS = np.array([0, 1, 1, 2, 2, 2])
"""Column in the inertia tensor of each of the last six parameters."""


def parameter_names(links: Sequence[str]) -> list[str]:
    """Return the name of each parameter, ``"<link>.<symbol>"``, link by link in order."""
    return [f"{link}.{symbol}" for link in links for symbol in PARAMETER_SYMBOLS]


def as_parameters(parameters: Any) -> FloatArray:
    """Return `parameters` as a float array whose last axis is the ten parameters.

    Raises:
        ConsistencyError: The last axis is not of length ten.
    """
    array = np.asarray(parameters, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != PARAMETER_COUNT:
        raise ConsistencyError(f"the last axis must hold the ten parameters of a link; the shape is {array.shape}")
    return array


def rotational_inertia_at_origin(parameters: Any) -> FloatArray:
    """Return the symmetric tensors ``I`` about the frame's origin, shape (..., 3, 3), kg m²."""
    array = as_parameters(parameters)
    tensor = np.empty((*array.shape[:-1], 3, 3))
    tensor[..., _TENSOR_ROWS, _TENSOR_COLUMNS] = array[..., 4:]
    tensor[..., _TENSOR_COLUMNS, _TENSOR_ROWS] = array[..., 4:]
    return tensor


def _join(mass: FloatArray, first_moment: FloatArray, tensor_at_origin: FloatArray) -> FloatArray:
    parameters = np.empty((*tensor_at_origin.shape[:-2], PARAMETER_COUNT))
    parameters[..., 0] = mass
    parameters[..., 1:4] = first_moment
    parameters[..., 4:] = tensor_at_origin[..., _TENSOR_ROWS, _TENSOR_COLUMNS]
    return parameters


def _point_mass_inertia(vector: FloatArray, other: FloatArray) -> FloatArray:
    """Return ``(a·b) 1 − a bᵀ``, symmetrised: the inertia of a unit point mass when a = b."""
    outer = vector[..., :, None] * other[..., None, :]
    dot = np.einsum("...i,...i->...", vector, other)
    return np.asarray(dot[..., None, None] * np.eye(3) - 0.5 * (outer + np.swapaxes(outer, -1, -2)))


def from_mass_com_inertia(mass: Any, com: Any, inertia_at_com: Any) -> FloatArray:
    """Return the ten parameters of bodies from mass, centre of mass and inertia, as model files state them.

    Args:
        mass: Shape (...,), kg.
        com: Centre of mass in the frame, shape (..., 3), m.
        inertia_at_com: Rotational inertia about the centre of mass, in the frame's axes, shape (..., 3, 3), kg m².

    Returns:
        Parameters, shape (..., 10).
    """
    masses, coms, tensors = (np.asarray(x, dtype=np.float64) for x in (mass, com, inertia_at_com))
    first_moment = masses[..., None] * coms
    return _join(masses, first_moment, tensors + _point_mass_inertia(first_moment, coms))


def to_mass_com_inertia(parameters: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mass (...,), centre of mass (..., 3) and rotational inertia about it (..., 3, 3).

    Raises:
        ConsistencyError: A mass is zero, so that there is no centre of mass.
    """
    array = as_parameters(parameters)
    mass = array[..., 0]
    if np.any(mass == 0.0):
        rows = np.flatnonzero(np.atleast_1d(mass).ravel() == 0.0).tolist()
        raise ConsistencyError("a body without mass has no centre of mass; leave it out, or give it mass", rows=rows)
    com = array[..., 1:4] / mass[..., None]
    return mass, com, rotational_inertia_at_origin(array) - _point_mass_inertia(array[..., 1:4], com)


def to_pseudo_inertia(parameters: Any) -> FloatArray:
    """Return the pseudo-inertia ``[[Σ, h], [hᵀ, m]]``, shape (..., 4, 4).

    ``Σ = ∫ x xᵀ dm = ½ tr(I) 1 − I`` and ``h = ∫ x dm``. A body is physically possible exactly when this matrix
    is positive semidefinite [Wensing, Kim and Slotine, "Linear matrix inequalities for physically consistent
    inertial parameter identification", 2018].
    """
    array = as_parameters(parameters)
    tensor = rotational_inertia_at_origin(array)
    trace = np.trace(tensor, axis1=-2, axis2=-1)
    pseudo = np.empty((*array.shape[:-1], 4, 4))
    pseudo[..., :3, :3] = 0.5 * trace[..., None, None] * np.eye(3) - tensor
    pseudo[..., :3, 3] = pseudo[..., 3, :3] = array[..., 1:4]
    pseudo[..., 3, 3] = array[..., 0]
    return pseudo


def from_pseudo_inertia(pseudo_inertia: Any) -> FloatArray:
    """Return the ten parameters, shape (..., 10), of pseudo-inertias of shape (..., 4, 4)."""
    pseudo = np.asarray(pseudo_inertia, dtype=np.float64)
    second_moment = pseudo[..., :3, :3]
    trace = np.trace(second_moment, axis1=-2, axis2=-1)
    tensor = trace[..., None, None] * np.eye(3) - second_moment
    return _join(pseudo[..., 3, 3], pseudo[..., :3, 3], tensor)


def change_frame(parameters: Any, rotation: Any, translation: Any) -> FloatArray:
    """Return the parameters of the same bodies in another frame, or of their mirror images.

    A point at ``x`` in the old frame is at ``rotation @ x + translation`` in the new one. With ``det(rotation) = −1``
    the result is the mirror image: the pseudo-inertia transforms alike, ``P' = M P Mᵀ``.

    Args:
        parameters: Shape (..., 10).
        rotation: Orthogonal, shape (..., 3, 3).
        translation: Shape (..., 3), m.
    """
    array = as_parameters(parameters)
    turn, shift = np.asarray(rotation, dtype=np.float64), np.asarray(translation, dtype=np.float64)
    mass = array[..., 0]
    turned = np.einsum("...ij,...j->...i", turn, array[..., 1:4])
    tensor = turn @ rotational_inertia_at_origin(array) @ np.swapaxes(turn, -1, -2)
    first_moment = turned + mass[..., None] * shift
    tensor = tensor + _point_mass_inertia(turned, 2.0 * shift)
    tensor = tensor + mass[..., None, None] * _point_mass_inertia(shift, shift)
    return _join(mass, first_moment, tensor)


def change_frame_matrix(rotation: Any, translation: Any) -> FloatArray:
    """Return the 10 × 10 matrix ``T`` with ``change_frame(p, rotation, translation) = T p``."""
    return change_frame(np.eye(PARAMETER_COUNT), rotation, translation).T
