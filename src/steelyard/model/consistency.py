"""Physical consistency of bodies: the test, the distance to the nearest possible body, and the projection.

A body of mass ``m > 0`` is possible when its second moment about the centre of mass, ``Σ_c = ½ tr(I_c) 1 − I_c``, is
positive semidefinite. An eigenvalue of ``Σ_c`` divided by the mass is the mean square distance of the matter from
the centre of mass along that principal axis; its root, here called *extent*, is a length: a plate of
thickness t has extent t/√12 across it. A negative eigenvalue breaks the triangle inequality of principal moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.exceptions import ConsistencyError
from steelyard.model.parameters import as_parameters, from_pseudo_inertia, to_mass_com_inertia, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

SINGULAR_EXTENT = 1e-4
"""Extent (m) up to which a body counts as having none: a plate of 0.35 mm. Set by judgement: no link of a robot is
thinner (the thinnest lumped link of G1 and TALOS has 3.8 mm)."""

EXTENT_FLOOR = 1e-3
"""Least extent (m) that `project_to_interior` leaves, a plate of 3.5 mm. Each eigenvalue of ``Σ_c`` is then at
least m · (1 mm)²; the thinnest lumped link of G1 and TALOS has 3.8 mm, so that sound models pass unchanged."""

MASS_FLOOR = 1e-3
"""Mass (kg) that `project_to_interior` gives to a body whose mass is not positive. Set by judgement: a gram is little
against any link, and far above rounding."""

NOMINAL_LENGTH = 0.1
"""Length (m) that makes masses and moments comparable where a body has no mass to derive one from. Set by judgement:
the order of magnitude of a humanoid's links."""

Status = Literal["possible", "singular", "impossible"]


@dataclass(frozen=True, eq=False)
class Consistency:
    """Whether a body is physically possible, and how far it is from the nearest possible one.

    Attributes:
        status: "possible", "singular" (on the boundary: a point, a rod or a sheet without thickness) or "impossible".
        reasons: Why, a sentence each; empty for a possible body.
        second_moments: Ascending eigenvalues of ``Σ_c`` (kg m²), shape (3,); of ``Σ`` at the origin without mass.
        distance: Frobenius norm (kg m²) of the least change of ``Σ_c`` that makes the body possible; 0 if it is.
        relative_distance: `distance` over the norm of ``Σ_c``.
        mass_deficit: By how much the mass is below zero (kg).
        nearest: The ten parameters of the nearest possible body, shape (10,).
    """

    status: Status
    reasons: tuple[str, ...]
    second_moments: FloatArray
    distance: float
    relative_distance: float
    mass_deficit: float
    nearest: FloatArray


def smallest_second_moment(parameters: Any) -> FloatArray:
    """Return the smallest eigenvalue of ``Σ_c`` (kg m²), shape (...,); −inf where the mass is not positive."""
    array = as_parameters(parameters)
    smallest = np.full(array.shape[:-1], -np.inf)
    heavy = array[..., 0] > 0.0
    if np.any(heavy):
        smallest[heavy] = np.linalg.eigvalsh(_second_moment_at_com(array[heavy]))[..., 0]
    return smallest


def is_possible(parameters: Any, *, extent: float = 0.0) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which bodies have positive mass and an extent of more than `extent` metres along every axis.

    Args:
        parameters: Shape (..., 10).
        extent: Least extent, m; 0 demands a strictly positive definite pseudo-inertia.

    Returns:
        Booleans, shape (...,).
    """
    array = as_parameters(parameters)
    return np.asarray(smallest_second_moment(array) > np.maximum(array[..., 0], 0.0) * extent**2)


def diagnose(parameters: Any) -> Consistency:
    """Return whether a body, shape (10,), is possible, why not, and the nearest possible one.

    The caller leaves out connectors, whose ten parameters are all zero.
    """
    array = as_parameters(parameters)
    mass = float(array[0])
    if mass <= 0.0:
        nearest = from_scaled_pseudo_inertia(_clip(scaled_pseudo_inertia(array), 0.0))
        moments = _eigenvalues(to_pseudo_inertia(array)[:3, :3])
        change = float(np.linalg.norm(to_pseudo_inertia(nearest)[:3, :3] - to_pseudo_inertia(array)[:3, :3]))
        reason = "its mass is zero but its inertia is not" if mass == 0.0 else f"its mass is {mass:.4g} kg"
        return Consistency("impossible", (reason,), moments, change, _ratio(change, moments), -mass, nearest)
    second_moment = _second_moment_at_com(array)
    moments = _eigenvalues(second_moment)
    tolerance = mass * SINGULAR_EXTENT**2
    if moments[0] > tolerance:
        return Consistency("possible", (), moments, 0.0, 0.0, 0.0, array.copy())
    nearest = _with_second_moment_at_com(array, _clip(second_moment, 0.0))
    change = float(np.linalg.norm(np.minimum(moments, 0.0)))
    status: Status
    if moments[0] < -tolerance:
        status, reason = "impossible", _explain_impossible(array)
    else:
        status, reason = "singular", _explain_singular(mass, moments, tolerance)
    return Consistency(status, (reason,), moments, change, _ratio(change, moments), 0.0, nearest)


def project_to_interior(parameters: Any, *, extent: float = EXTENT_FLOOR, mass: float = MASS_FLOOR) -> FloatArray:
    """Return the nearest bodies strictly inside the set of possible ones.

    A body of positive mass keeps its mass and its centre of mass; the eigenvalues of its second moment ``Σ_c`` are
    raised to at least ``m · extent²``. That is the projection in the Frobenius norm of ``Σ_c``, whatever the frame. A
    body whose mass is not positive has no centre of mass to keep: its pseudo-inertia, with lengths in units of
    `NOMINAL_LENGTH`, is projected onto the semidefinite cone, given at least the mass `mass`, and then as above.

    Bodies that have the extent already are returned bit by bit unchanged.

    Args:
        parameters: Shape (..., 10).
        extent: The eigenvalue floor, as a length (m).
        mass: Mass (kg) given to bodies that have none.

    Raises:
        ConsistencyError: A parameter is not finite.
    """
    result = as_parameters(parameters).copy()
    if not np.all(np.isfinite(result)):
        rows = np.flatnonzero(~np.isfinite(result.reshape(-1, result.shape[-1])).all(axis=1)).tolist()
        raise ConsistencyError(
            "parameters that are not finite cannot be projected; check where they came from", rows=rows
        )
    flat = result.reshape(-1, result.shape[-1])
    for row in np.flatnonzero(~is_possible(flat, extent=extent)):
        body = flat[row]
        if body[0] <= 0.0:
            body = from_scaled_pseudo_inertia(_clip(scaled_pseudo_inertia(body), 0.0))
            body[0] = max(body[0], mass)
        second_moment = _second_moment_at_com(body)
        # Above the floor by the rounding error of moving the moments to the origin and back.
        size = float(body[1:4] @ body[1:4]) / body[0] + float(np.linalg.norm(second_moment))
        floor = body[0] * extent**2 + 64.0 * np.finfo(np.float64).eps * size
        flat[row] = _with_second_moment_at_com(body, _clip(second_moment, floor))
    return result


_LENGTH_SCALES = np.outer(*2 * [np.array([1.0 / NOMINAL_LENGTH] * 3 + [1.0])])
"""Factors that take the entries of a pseudo-inertia to masses, shape (4, 4)."""


def scaled_pseudo_inertia(parameters: Any) -> FloatArray:
    """Return pseudo-inertias (..., 4, 4) with lengths in units of `NOMINAL_LENGTH`: all entries are masses, in kg."""
    return np.asarray(to_pseudo_inertia(parameters) * _LENGTH_SCALES)


def from_scaled_pseudo_inertia(scaled: FloatArray) -> FloatArray:
    """Return the ten parameters, shape (..., 10), of what `scaled_pseudo_inertia` returned."""
    return from_pseudo_inertia(scaled / _LENGTH_SCALES)


def _clip(symmetric: FloatArray, floor: float) -> FloatArray:
    values, vectors = np.linalg.eigh(symmetric)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _eigenvalues(symmetric: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.eigvalsh(symmetric), dtype=np.float64)


def _second_moment_at_com(parameters: FloatArray) -> FloatArray:
    tensor = to_mass_com_inertia(parameters)[2]
    trace = np.trace(tensor, axis1=-2, axis2=-1)
    return np.asarray(0.5 * trace[..., None, None] * np.eye(3) - tensor)


def _with_second_moment_at_com(parameters: FloatArray, second_moment: FloatArray) -> FloatArray:
    pseudo = to_pseudo_inertia(parameters)
    first_moment = pseudo[:3, 3]
    pseudo[:3, :3] = second_moment + np.outer(first_moment, first_moment) / pseudo[3, 3]
    result = from_pseudo_inertia(pseudo)
    result[:4] = parameters[:4]
    return result


def _ratio(change: float, moments: FloatArray) -> float:
    size = float(np.linalg.norm(moments))
    return change / size if size > 0.0 else 0.0


def _explain_impossible(parameters: FloatArray) -> str:
    low, middle, high = np.linalg.eigvalsh(to_mass_com_inertia(parameters)[2])
    if low < 0.0:
        return f"its inertia has a negative principal moment, {low:.3g} kg·m²"
    return (
        "its principal moments break the triangle inequality: "
        f"{high:.3g} > {low:.3g} + {middle:.3g} kg·m² (no body has one moment above the sum of the others)"
    )


def _explain_singular(mass: float, moments: FloatArray, tolerance: float) -> str:
    without = int(np.sum(moments <= tolerance))
    shape = {1: "a sheet without thickness", 2: "a rod without thickness", 3: "a point mass"}[without]
    return f"it is {shape}: {mass:.4g} kg with no extent along {('one axis', 'two axes', 'any axis')[without - 1]}"
