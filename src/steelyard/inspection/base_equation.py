"""The base equation with the model's own errors taken out: what is left is the sensors' doing.

The wrenches that sensors read must be those that the motion asks for, ``Y φ = H f``. The model is wrong, or nobody
would be weighing the robot: its parameters are unknowns with a wide prior around the model, and so are the sensors'
offsets and the accelerometer's bias and mounting. They are eliminated; no plausible error of theirs looks like a sensor
that is turned, late, or in another unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

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
"""Standard deviations (N, N m) of the offsets that a wrench sensor may have."""


@dataclass(frozen=True, eq=False)
class BaseEquation:
    """The base equation of some stretches of motion, its unknowns eliminated.

    Attributes:
        columns: The wrench that the model asks for, and the columns asked for, as far as no plausible model and no
            sensor offset explains them, shape (n_rows, 1 + n_columns). The rows of the priors are the last.
        samples: Number of the sample that each row belongs to, −1 for those of the priors, shape (n_rows,).
        unknowns: Orthonormal columns that span what was eliminated, shape (n_rows, n_unknowns).
    """

    columns: FloatArray
    samples: np.ndarray[tuple[int], np.dtype[np.int64]]
    unknowns: FloatArray

    @cached_property
    def triangle(self) -> FloatArray:
        """Triangular factor of the columns: ``‖columns x‖ = ‖triangle x‖``."""
        return np.asarray(np.linalg.qr(self.columns, mode="r"))

    @property
    def freedom(self) -> int:
        """How many rows of measurements there are."""
        return int(np.count_nonzero(self.samples >= 0))


def plan_system(model: Model, motion: Motion, *, offsets: tuple[float, float] = OFFSET_SPREAD) -> System:
    """Gives the system of a motion's measured wrenches, with sensor offsets and the inertial sensor's errors beside it.

    Args:
        model: The model.
        motion: The motion; its wrenches are those that count.
        offsets: Standard deviations (N, N m) of the wrench sensors' offsets.
    """
    sensing = plan_sensing(model, wrenches=motion.wrenches)
    priors = {f"{source.name}.offset": offsets[0 if source.axis.startswith("f") else 1] for source in sensing.measured}
    nuisance = plan_nuisance(model, sensing, ("wrench_offset", "accelerometer_bias", "imu_mounting"), priors)
    return System(model, motion.base, sensing, nuisance, plan_noise(model, sensing, "default"), all_columns(model))


def build_base_equation(system: System, motions: Sequence[Motion], columns: Columns) -> BaseEquation:
    """Gives the base equation of some motions.

    Args:
        system: From `plan_system`.
        motions: Stretches of motion with the same base link and sensors.
        columns: What gives the columns asked for; see `System.rows_beside`.

    Raises:
        EvidenceError: What is not measured explains everything.
    """
    spread = model_spread(system.model)
    place = spread.shape[0] + len(system.nuisance)
    reference = system.model.parameters.reshape(-1)
    unknowns, asked, samples = [], [], []
    count = 0
    for motion in motions:
        rows = system.rows_beside(motion, partial(columns, system, motion))
        flat = rows.reshape(-1, rows.shape[2])
        # Rows that unmeasured components use up are zero: they say nothing.
        speaking = np.any(flat != 0.0, axis=1)
        flat = flat[speaking]
        weights = flat[:, : len(reference)]
        unknowns.append(np.concatenate([weights @ spread, flat[:, len(reference) : place]], axis=1))
        asked.append(np.concatenate([(weights @ reference)[:, None], flat[:, place:]], axis=1))
        samples.append(count + np.repeat(np.arange(len(motion)), rows.shape[1])[speaking])
        count += len(motion)
    if sum(len(each) for each in asked) == 0:
        raise EvidenceError("the wrench sensors measure too few axes: what they leave unmeasured explains everything")
    priors = np.concatenate([np.ones(len(reference)), [1.0 / column.prior for column in system.nuisance]])
    unknowns.append(np.diag(priors))
    asked.append(np.zeros((len(priors), asked[0].shape[1])))
    samples.append(np.full(len(priors), -1))
    eliminated, given = np.linalg.qr(np.concatenate(unknowns)).Q, np.concatenate(asked)
    return BaseEquation(given - eliminated @ (eliminated.T @ given), np.concatenate(samples), eliminated)


def spread_by_blocks(
    equation: BaseEquation, change: FloatArray, rest: FloatArray, size: int, precision: FloatArray
) -> tuple[FloatArray, int]:
    """Gives the covariance of unknowns of the base equation, and its degrees of freedom.

    Residuals are alike from sample to sample: the scores ``changeᵀ rest`` are added up over blocks of samples, and
    their spread from block to block is taken. What all the unknowns soaked up of a block's residual is put back first,
    ``(1 − H)⁻¹ rest`` with the block's part H of the projection, as leaving the block out would (the jackknife, CR3).

    Args:
        equation: The base equation.
        change: Its columns per unit of each unknown, shape (n_rows, n_unknowns).
        rest: Its residual, shape (n_rows,).
        size: Samples of a block.
        precision: Of the unknowns' priors, shape (n_unknowns,).
    """
    measured = equation.samples >= 0
    # Rows are in the order of samples: blocks are slices.
    blocks = equation.samples[measured] // size
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    spanned = np.concatenate([equation.unknowns, np.linalg.qr(change).Q], axis=1)[measured]
    scores = np.empty((len(starts), change.shape[1]))
    for number, part in enumerate(np.split(np.arange(len(blocks)), starts[1:])):
        soaked = np.eye(len(part)) - spanned[part] @ spanned[part].T
        scores[number] = change[part].T @ np.linalg.solve(soaked, rest[part])
    freedom = max(1, len(starts) - change.shape[1])
    inverse = np.linalg.inv(change.T @ change + np.diag(precision))
    # What the model may be off by spreads the unknowns too: each row of a prior is one draw of unit variance.
    middle = scores.T @ scores + change[~measured].T @ change[~measured] + np.diag(precision)
    return np.asarray(inverse @ middle @ inverse), freedom
