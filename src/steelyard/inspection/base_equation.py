"""The base equation with model errors eliminated: the remaining residual is due to the sensors.

Measured wrenches must equal those that the motion requires, ``Y φ = H f``. The model is uncertain: its parameters are
unknowns with a wide prior around the model, and so are the wrench sensors' offsets and the accelerometer's bias and
mounting. They are eliminated; no plausible error of theirs resembles a rotated or delayed sensor, or another unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dorgqr, dormqr

from steelyard.exceptions import EvidenceError
from steelyard.model import model_spread
from steelyard.regression import System, all_columns, plan_noise, plan_nuisance, plan_sensing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan

    Columns = Callable[[System, Motion, RowPlan, FloatArray], FloatArray]

OFFSET_SPREAD = (30.0, 3.0)
"""Prior standard deviations (N, N m) of a wrench sensor's offset. Set by judgement: wide enough that an untared
sensor's offset is not taken for another mounting."""

_WORK = 64
"""Columns of LAPACK's workspace, for each column of a matrix: as many as its block size on common processors."""


@dataclass(frozen=True, eq=False)
class BaseEquation:
    """The whitened base equation of some motions, its unknowns eliminated.

    Attributes:
        columns: The model's wrench and the requested columns, projected onto the complement of the unknowns, shape
            (n_rows, 1 + n_columns). The priors' rows are the last.
        samples: Index of each row's sample, −1 for the priors' rows, shape (n_rows,).
        reflectors: LAPACK's Householder reflectors of the eliminated unknowns, and their scales.
    """

    columns: FloatArray
    samples: np.ndarray[tuple[int], np.dtype[np.int64]]
    reflectors: tuple[FloatArray, FloatArray]

    @cached_property
    def unknowns(self) -> FloatArray:
        """Orthonormal basis of the eliminated unknowns, shape (n_rows, n_unknowns)."""
        factor, scales = self.reflectors
        return np.asarray(dorgqr(factor, scales, lwork=_WORK * factor.shape[1])[0])

    @cached_property
    def triangle(self) -> FloatArray:
        """Triangular factor of the columns: ``‖columns x‖ = ‖triangle x‖``."""
        return np.asarray(np.linalg.qr(self.columns, mode="r"))

    @property
    def freedom(self) -> int:
        """Number of measurement rows."""
        return int(np.count_nonzero(self.samples >= 0))


def plan_system(model: Model, motion: Motion, *, offsets: tuple[float, float] = OFFSET_SPREAD) -> System:
    """Build the system of a motion's measured wrenches, with wrench offsets and IMU errors as nuisances.

    Args:
        model: The model.
        motion: The motion; its wrenches are used.
        offsets: Standard deviations (N, N m) of the wrench sensors' offsets.
    """
    sensing = plan_sensing(model, wrenches=motion.wrenches)
    priors = {f"{source.name}.offset": offsets[0 if source.axis.startswith("f") else 1] for source in sensing.measured}
    nuisance = plan_nuisance(model, sensing, ("wrench_offset", "accelerometer_bias", "imu_mounting"), priors)
    return System(model, motion.base, sensing, nuisance, plan_noise(model, sensing, "default"), all_columns(model))


def build_base_equation(system: System, motions: Sequence[Motion], columns: Columns) -> BaseEquation:
    """Build the base equation of some motions.

    Args:
        system: System from `plan_system`.
        motions: Motions with the same base link and sensors.
        columns: Function that returns the requested columns; see `System.rows_beside`.

    Raises:
        EvidenceError: Unmeasured components leave no equation.
    """
    spread = model_spread(system.model)
    place = spread.shape[0] + len(system.nuisance)
    reference = system.model.parameters.reshape(-1)
    unknowns, columns_by_motion, samples = [], [], []
    count = 0
    for motion in motions:
        rows = system.rows_beside(motion, partial(columns, system, motion))
        flat = rows.reshape(-1, rows.shape[2])
        # Rows that unmeasured components project out are zero.
        nonzero = np.any(flat != 0.0, axis=1)
        flat = flat[nonzero]
        weights = flat[:, : len(reference)]
        unknowns.append(np.concatenate([weights @ spread, flat[:, len(reference) : place]], axis=1))
        columns_by_motion.append(np.concatenate([(weights @ reference)[:, None], flat[:, place:]], axis=1))
        samples.append(count + np.repeat(np.arange(len(motion)), rows.shape[1])[nonzero])
        count += len(motion)
    if sum(len(each) for each in columns_by_motion) == 0:
        raise EvidenceError("the wrench sensors measure too few axes: the unmeasured ones leave no equation to check")
    priors = np.concatenate([np.ones(len(reference)), [1.0 / column.prior for column in system.nuisance]])
    unknowns.append(np.diag(priors))
    columns_by_motion.append(np.zeros((len(priors), columns_by_motion[0].shape[1])))
    samples.append(np.full(len(priors), -1))
    reflectors = qr(np.concatenate(unknowns), mode="raw", overwrite_a=True, check_finite=False)[0]
    left = _project_out(reflectors, np.concatenate(columns_by_motion))
    return BaseEquation(left, np.concatenate(samples), reflectors)


def _project_out(reflectors: tuple[FloatArray, FloatArray], columns: FloatArray) -> FloatArray:
    """Project columns onto the complement of the unknowns; forming a basis of them takes as long as factoring them."""
    factor, scales = reflectors
    turned = dormqr("L", "T", factor, scales, columns, _WORK * columns.shape[1])[0]
    turned[: len(scales)] = 0.0
    return np.ascontiguousarray(dormqr("L", "N", factor, scales, turned, _WORK * columns.shape[1])[0])


def block_jackknife_covariance(
    equation: BaseEquation, jacobian: FloatArray, residual: FloatArray, size: int, precision: FloatArray
) -> tuple[FloatArray, int]:
    """Estimate the covariance of parameters of the base equation; return it with its degrees of freedom.

    Residuals are autocorrelated: the scores ``jacobianᵀ residual`` are summed over blocks of samples, and the
    covariance is that between blocks (cluster-robust). Each block's residual is first corrected for the block's own
    influence on the fit, ``(1 − H)⁻¹ residual`` with the block's part H of the projection (the jackknife, CR3).

    Args:
        equation: The base equation.
        jacobian: Derivative of its rows with respect to each parameter, shape (n_rows, n_parameters).
        residual: Its residual, shape (n_rows,).
        size: Samples per block.
        precision: Prior precision of the parameters, shape (n_parameters,).
    """
    measured = equation.samples >= 0
    # Rows are ordered by sample: blocks are slices.
    blocks = equation.samples[measured] // size
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    basis = np.concatenate([equation.unknowns, np.linalg.qr(jacobian).Q], axis=1)[measured]
    scores = np.empty((len(starts), jacobian.shape[1]))
    for number, part in enumerate(np.split(np.arange(len(blocks)), starts[1:])):
        complement = np.eye(len(part)) - basis[part] @ basis[part].T
        scores[number] = jacobian[part].T @ np.linalg.solve(complement, residual[part])
    freedom = max(1, len(starts) - jacobian.shape[1])
    inverse = np.linalg.inv(jacobian.T @ jacobian + np.diag(precision))
    # Model uncertainty adds to the covariance: each prior row is one draw of unit variance.
    middle = scores.T @ scores + jacobian[~measured].T @ jacobian[~measured] + np.diag(precision)
    return np.asarray(inverse @ middle @ inverse), freedom
