"""The posterior of a robot's parameters: a density over the unknowns, as plain arrays.

With ``φ = start + transform z`` the parameters of all links, the density is ``exp(−energy(z))`` with::

    energy(z) = ½ ‖R z − g‖² + ½ ‖L z‖² + Σ w_l D(P_l(z) ‖ P0_l),   D(P ‖ P0) = tr(P P0⁻¹) − log det(P P0⁻¹) − 4,

and infinite where a link is physically impossible or a row ``lower ≤ A φ ≤ upper`` is violated. The geometric method
has weights ``w`` and no ``L``; the conic one has ``L`` and no weights: a Gaussian truncated to the possible region.
Each of two links tied as mirror images counts; links without unknowns are constant, and left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array

from steelyard.exceptions import IdentifiabilityError
from steelyard.model import PARAMETER_COUNT, is_possible, log_det_divergence, log_det_gradient, log_det_hessian

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintRows
    from steelyard.identification.problem import Problem

EQUATION = 1e-9
"""Relative width of a row, by its terms at the reference, up to which it is an equation; and the tolerance of rows: far
above rounding, far below any accuracy of a constraint."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The density ``exp(−energy(z))`` over the unknowns of an estimate.

    Attributes:
        start: The parameters where ``z = 0`` is, flat, shape (10 n_links,).
        transform: Shape (10 n_links, k).
        data_root: ``R``, already divided by the noise, shape (r, k); a triangular factor of at most k + 1 rows.
        data_right: ``g``, shape (r,).
        mode: The minimum of the energy, shape (k,); it may lie on the boundary of the possible region.
        reference: ``P0``: parameters of strictly possible bodies, shape (n_links, 10). Without weights they only set
            the scale of a link.
        weights: ``w`` of each link, zero or more, shape (n_links,).
        prior_root: ``L``, shape (l, k); empty where there is none.
        possible: Whether links must be physically possible; those with a weight always are.
        rows: ``A``, shape (m, 10 n_links).
        lower: Shape (m,); −inf where open.
        upper: Shape (m,); +inf where open, equal to `lower` for an equation.
    """

    start: FloatArray
    transform: FloatArray
    data_root: FloatArray
    data_right: FloatArray
    mode: FloatArray
    reference: FloatArray
    weights: FloatArray
    prior_root: FloatArray
    possible: bool
    rows: FloatArray
    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        for name, shape in _shapes(self).items():
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != shape:
                raise IdentifiabilityError(f"the posterior's {name} must have the shape {shape}, not {array.shape}")
            fine = ~np.isnan(array) if name in ("lower", "upper") else np.isfinite(array)
            if not np.all(fine):
                raise IdentifiabilityError(f"the posterior's {name} holds numbers that are not finite")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if np.any(self.weights < 0.0):
            raise IdentifiabilityError("the posterior's weights must not be negative")
        if np.any(self.lower > self.upper):
            raise IdentifiabilityError(
                "the posterior's rows contradict themselves: a lower bound is above its upper bound"
            )
        if not np.all(is_possible(self.reference[self.bodies])):
            raise IdentifiabilityError(
                "the posterior's reference must be strictly possible; project it first (project_to_interior)"
            )

    def __len__(self) -> int:
        """Return the number of unknowns."""
        return int(self.transform.shape[1])

    @cached_property
    def bodies(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Rows of the links that must be physically possible (with a weight, or all) and have unknowns."""
        moved = np.any(self.transform.reshape(len(self.reference), -1) != 0.0, axis=1)
        return np.flatnonzero(moved & (self.possible | (self.weights > 0.0)))

    @cached_property
    def information(self) -> tuple[FloatArray, FloatArray]:
        """The quadratic terms as one: ``H`` and ``h`` with ``½ zᵀ H z − hᵀ z``, shapes (k, k) and (k,)."""
        matrix = self.data_root.T @ self.data_root + self.prior_root.T @ self.prior_root
        return matrix, self.data_root.T @ self.data_right

    def parameters(self, points: Any) -> FloatArray:
        """Return the parameters of all links, shape (..., n_links, 10), at points of shape (..., k)."""
        array = np.asarray(points, dtype=np.float64)
        flat = self.start + array @ self.transform.T
        return np.asarray(flat.reshape(*array.shape[:-1], -1, PARAMETER_COUNT))

    def holds(self, parameters: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return where links are possible and rows hold, shape (...,), for parameters of shape (..., n_links, 10)."""
        array = np.asarray(parameters, dtype=np.float64)
        answer = np.all(is_possible(array[..., self.bodies, :]), axis=-1)
        if len(self.rows):
            values = array.reshape(*array.shape[:-2], -1) @ self.rows.T
            slack = EQUATION * self.row_sizes
            answer = answer & np.all((values >= self.lower - slack) & (values <= self.upper + slack), axis=-1)
        return np.asarray(answer)

    @cached_property
    def row_sizes(self) -> FloatArray:
        """Sum of the absolute terms of each row at the reference, shape (m,)."""
        return np.asarray(np.abs(self.rows) @ np.abs(self.reference.reshape(-1)))

    def energy(self, points: Any) -> FloatArray:
        """Return the energy at points of shape (..., k), shape (...,); inf where a constraint is violated."""
        array = np.asarray(points, dtype=np.float64)
        parameters = self.parameters(array)
        left = array @ self.data_root.T - self.data_right
        total = 0.5 * np.sum(np.square(left), axis=-1)
        total = total + 0.5 * np.sum(np.square(array @ self.prior_root.T), axis=-1)
        weighed = self._weighed
        divergence = log_det_divergence(parameters[..., weighed, :], self.reference[weighed])
        total = total + divergence @ self.weights[weighed]
        return np.asarray(np.where(self.holds(parameters), total, np.inf))

    def gradient(self, points: Any) -> FloatArray:
        """Return the energy's gradient by ``z`` at points of shape (..., k) where it is finite, shape (..., k)."""
        array = np.asarray(points, dtype=np.float64)
        matrix, right = self.information
        gradient = array @ matrix - right
        weighed = self._weighed
        pull = log_det_gradient(self.parameters(array)[..., weighed, :], self.reference[weighed])
        pull = pull * self.weights[weighed][:, None]
        return np.asarray(gradient + np.einsum("...lp,lpk->...k", pull, self._blocks[weighed]))

    def hessian(self, point: Any) -> FloatArray:
        """Return the energy's Hessian at one point of shape (k,) where it is finite, shape (k, k)."""
        weighed = self._weighed
        curvature = log_det_hessian(self.parameters(point)[weighed]) * self.weights[weighed][:, None, None]
        hessian = self.information[0].copy()
        for block, of_link in zip(self._blocks[weighed], curvature, strict=True):
            used = np.flatnonzero(np.any(block != 0.0, axis=0))
            hessian[np.ix_(used, used)] += block[:, used].T @ of_link @ block[:, used]
        return hessian

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON: nonzero entries of matrices, and None for infinite bounds."""
        stored: dict[str, Any] = {"possible": bool(self.possible)}
        for name in _shapes(self):
            array = getattr(self, name)
            stored[name] = _sparse(array) if name in _SPARSE else _plain(array)
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Posterior:
        """Return the posterior that `to_dict` wrote.

        Raises:
            ValueError: It is not one; also as KeyError, TypeError or IdentifiabilityError.
        """
        if not isinstance(stored, Mapping):
            raise TypeError("a posterior must be a table")
        if not isinstance(stored["possible"], bool):
            raise TypeError("possible must be true or false")
        arrays = {name: _dense(stored[name]) for name in _SPARSE}
        arrays |= {name: np.array(stored[name], dtype=np.float64) for name in _DENSE}
        for name, empty in (("lower", -np.inf), ("upper", np.inf)):
            bounds = [empty if bound is None else float(bound) for bound in stored[name]]
            arrays[name] = np.array(bounds, dtype=np.float64)
        arrays["reference"] = arrays["reference"].reshape(-1, PARAMETER_COUNT)
        return cls(possible=stored["possible"], **arrays)

    @cached_property
    def _weighed(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.bodies[self.weights[self.bodies] > 0.0]

    @cached_property
    def _blocks(self) -> FloatArray:
        """The transform, link by link, shape (n_links, 10, k)."""
        return self.transform.reshape(len(self.reference), PARAMETER_COUNT, -1)


def build_posterior(
    problem: Problem,
    mode: FloatArray,
    reference: Any,
    *,
    weights: Any = None,
    prior_root: FloatArray | None = None,
    possible: bool = True,
    rows: ConstraintRows | None = None,
) -> Posterior:
    """Build the posterior of a reduced problem: its data divided by their noise, a prior, and constraints.

    Args:
        problem: The problem.
        mode: The minimum ``z`` of the energy, shape (k,).
        reference: Strictly possible parameters, shape (n_links, 10); any for links without unknowns.
        weights: Of the divergence from the reference, for each link, shape (n_links,); None for none.
        prior_root: ``L`` of ``½ ‖L z‖²``, shape (l, k); None for none.
        possible: Whether links must be physically possible.
        rows: Linear rows on the parameters; None for none.

    Raises:
        IdentifiabilityError: Shapes do not match, the reference is impossible, or the data have no noise.
    """
    unknowns, noise = problem.unknowns, problem.noise
    if not noise > 0.0:
        raise IdentifiabilityError(
            "the data have no noise, so that there is nothing to draw from; give the noise of the sensors"
        )
    count, links = len(unknowns), len(unknowns.start) // PARAMETER_COUNT
    system = np.concatenate([problem.matrix, problem.right[:, None]], axis=1) / noise
    # Single precision, as estimates are stored: a loaded posterior draws the same robots, bit for bit.
    factor = np.asarray(np.linalg.qr(system, mode="r")).astype(np.float32).astype(np.float64)
    return Posterior(
        start=unknowns.start,
        transform=unknowns.transform,
        data_root=factor[:, :-1],
        data_right=factor[:, -1],
        mode=mode,
        reference=np.asarray(reference, dtype=np.float64).reshape(links, PARAMETER_COUNT),
        weights=np.zeros(links) if weights is None else weights,
        prior_root=np.zeros((0, count)) if prior_root is None else prior_root,
        possible=possible,
        rows=np.zeros((0, len(unknowns.start))) if rows is None else rows.matrix,
        lower=np.zeros(0) if rows is None else rows.lower,
        upper=np.zeros(0) if rows is None else rows.upper,
    )


_SPARSE = ("transform", "data_root", "prior_root", "rows")
_DENSE = ("start", "data_right", "mode", "reference", "weights")


def _shapes(posterior: Posterior) -> dict[str, tuple[int, ...]]:
    """Return the shape that each array must have, from the sizes of transform, data, prior and rows."""
    transform = np.asarray(posterior.transform)
    if transform.ndim != 2 or transform.shape[0] % PARAMETER_COUNT:
        raise IdentifiabilityError(f"the posterior's transform must be (10 n_links, k), not {transform.shape}")
    parameters, count = transform.shape
    data, prior, rows = (len(getattr(posterior, name)) for name in ("data_root", "prior_root", "rows"))
    links = parameters // PARAMETER_COUNT
    return {
        "start": (parameters,),
        "transform": (parameters, count),
        "data_root": (data, count),
        "data_right": (data,),
        "mode": (count,),
        "reference": (links, PARAMETER_COUNT),
        "weights": (links,),
        "prior_root": (prior, count),
        "rows": (rows, parameters),
        "lower": (rows,),
        "upper": (rows,),
    }


def _sparse(array: FloatArray) -> dict[str, Any]:
    places = np.nonzero(array)
    return {
        "shape": list(array.shape),
        "rows": places[0].tolist(),
        "columns": places[1].tolist(),
        "values": array[places].tolist(),
    }


def _dense(stored: Any) -> FloatArray:
    if isinstance(stored, np.ndarray):
        return stored
    height, width = (int(size) for size in stored["shape"])
    rows, columns = (np.array(stored[name], dtype=np.int64) for name in ("rows", "columns"))
    values = np.array(stored["values"], dtype=np.float64)
    return np.asarray(coo_array((values, (rows, columns)), shape=(height, width)).toarray())


def _plain(array: FloatArray) -> Any:
    return array.tolist() if np.all(np.isfinite(array)) else [x if np.isfinite(x) else None for x in array.tolist()]
