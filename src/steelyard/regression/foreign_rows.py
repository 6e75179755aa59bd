"""Evidence from a regressor that was computed elsewhere."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.model import PARAMETER_COUNT
from steelyard.regression.evidence import Evidence
from steelyard.regression.evidence_key import EvidenceKey
from steelyard.regression.factor import Factor

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

_ROWS_AT_ONCE = 4096
"""Rows that are factored at once. Set by judgement: long enough for the speed of a matrix product."""


def factor_rows(
    model: Model, rows: Any, forces: Any, weights: Any, effective_count: float | None, label: str
) -> Evidence:
    """Return the Evidence of rows and forces, whitened; the arguments are those of `Evidence.from_rows`."""
    matrix, right = (_finite(name, values) for name, values in (("rows", rows), ("forces", forces)))
    width = PARAMETER_COUNT * len(model.links)
    if matrix.ndim != 2 or matrix.shape[1] != width or not len(matrix):
        raise EvidenceError(f"rows has the shape {matrix.shape}; {model.name} needs (n, {width}), ten for each link")
    if right.shape != (len(matrix),):
        raise EvidenceError(f"forces has the shape {right.shape}; {len(matrix)} rows need as many numbers")
    system = np.column_stack([matrix, right])
    if weights is not None:
        deviations = _finite("weights", weights)
        if deviations.shape not in ((), right.shape) or not np.all(deviations > 0.0):
            raise EvidenceError(f"weights are one positive number, or one for each of {len(matrix)} rows")
        system = system / np.broadcast_to(deviations, right.shape)[:, None]
    worth = float(len(matrix)) if effective_count is None else float(effective_count)
    if not 0.0 < worth <= len(matrix):
        raise EvidenceError(f"effective_count is {effective_count}; it must be positive, and at most {len(matrix)}")
    total = Factor(width + 1)
    with one_blas_thread():
        for start in range(0, len(system), _ROWS_AT_ONCE):
            total.add(np.ascontiguousarray(system[start : start + _ROWS_AT_ONCE]))
    key = EvidenceKey(
        links=model.links,
        tree=model.tree.sha256,
        sensing=hashlib.sha256(f"rows {label}".encode()).hexdigest(),
        reference="",
        gravity=(),
        nuisance=(),
        priors=(),
        base=model.bodies[0].name,
        measured=(),
        unknown=(),
        torques=(),
        weights=() if weights is None else (1.0,),
    )
    return Evidence(key, np.array(total.matrix), np.arange(width), np.eye(width), len(matrix), worth, len(matrix))


def _finite(name: str, values: Any) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EvidenceError(f"{name} is not an array of numbers") from error
    if not np.all(np.isfinite(array)):
        raise EvidenceError(f"{name} holds a number that is not finite; leave such rows out", names=[name])
    return array
