"""Prediction of the total wrench and joint torques by given parameters, sample by sample, beside the measurement.

``Y φ`` is computed without forming ``Y``. No measured row is ever used to predict itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steelyard.model import WRENCH_AXES
from steelyard.motion import tree_motion
from steelyard.regression import System, plan_rows, present_forces, reduce_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import Nuisance, RowPlan, Sensing

    BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

UNFELT = 1e-9
"""Effect of a unit force on a row below which it counts as none: rounding."""

_FLAT = float(np.sin(np.deg2rad(1.0)))
"""The same for rows in world axes: horizontal forces on a sole that is flat within a degree have no vertical part."""


class PredictedRows(NamedTuple):
    """Measured and predicted rows of some samples.

    Attributes:
        measured: Shape (n, n_rows).
        predicted: By each candidate, shape (n_candidates, n, n_rows).
        known: Which rows are measured in full, shape (n_rows,).
    """

    measured: FloatArray
    predicted: FloatArray
    known: BoolArray


class Prediction(NamedTuple):
    """Measurement and prediction of some samples.

    Attributes:
        wrench: The total external wrench on the compared part, about the base link's origin in its axes.
        torque: Joint torques.
        projected: Squared norm of the residual without unknown forces, by candidate and sample,
            shape (n_candidates, n); None where no force is unknown.
        equations: Number of equations in it.
        hidden: Effect of a unit of each unknown force on the wrench, where it acts, shape (n, 6, n_unknown).
        weighed: Whether any part of the robot can be compared.
    """

    wrench: PredictedRows
    torque: PredictedRows
    projected: FloatArray | None
    equations: int
    hidden: FloatArray
    weighed: bool


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predictor of all candidates.

    Attributes:
        model: The model.
        base: The base link.
        sensing: What is measured.
        nuisance: Nuisance columns.
        values: Their values for each candidate, shape (n_candidates, n_nuisance).
        parameters: Of each candidate, shape (n_candidates, n_links, 10).
        scales: Factors on them, shape (n_candidates,); candidates with the same parameters are computed once.
        own: Values for recordings that have their own, by origin, likewise.
    """

    model: Model
    base: str
    sensing: Sensing
    nuisance: tuple[Nuisance, ...]
    values: FloatArray
    parameters: Sequence[FloatArray]
    scales: Sequence[float]
    own: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def plan(self) -> RowPlan:
        """Rows of every region, whichever soles are in contact."""
        return plan_rows(self.model, self.sensing, frozenset())

    def part(self, plan: RowPlan) -> BoolArray:
        """Return which regions are compared as one part, shape (n_regions,).

        Forces between two of them cancel. They are the root's region and every other on which no unmeasured force acts:
        not the feet below ankle sensors, because the ground forces under them are not measured.
        """
        regions = plan.rows.regions
        count = plan.rows.first_torque_row // 6
        chosen = np.ones(count, dtype=np.bool_)
        for source in self.sensing.unknown:
            region = int(regions[self.model.frame(source.frame).body])
            if not source.inside and region >= 0:
                chosen[region] = False
        if self.model.base == "floating" and regions[0] >= 0:
            chosen[int(regions[0])] = True
        return chosen

    def links(self, plan: RowPlan) -> int:
        """Return the number of links that are compared as one part."""
        chosen = self.part(plan)
        regions = plan.rows.regions[list(self.model.link_bodies)]
        return int(sum(bool(chosen[region]) for region in regions if region >= 0))

    def unknown(self, plan: RowPlan) -> list[str]:
        """Return the names of the unknown forces that the plan has, in its order."""
        regions = plan.rows.regions
        return [
            source.name
            for source in self.sensing.unknown
            if source.inside or self.sensing.torques or regions[self.model.frame(source.frame).body] >= 0
        ]

    def predict(self, motion: Motion, plan: RowPlan) -> Prediction:
        """Return the measurement and the prediction of each candidate.

        Args:
            motion: The samples.
            plan: `Predictor.plan`.
        """
        system = System(self.model, self.base, self.sensing, self.nuisance, None, np.zeros((0, 0), dtype=np.int64))
        states = tree_motion(motion)
        # The reference occurs twice, as it is and scaled: its forces are computed once.
        places = [next(k for k, other in enumerate(self.parameters) if other is one) for one in self.parameters]
        different = sorted(set(places))
        terms = system.evaluate(plan, states, parameters=[self.parameters[place] for place in different])
        first = plan.rows.first_torque_row
        forces = system.forces(motion)
        felt = np.einsum("nkm,nm->nk", terms.measured, forces[:, : len(self.sensing.measured)])
        torques = forces[:, len(self.sensing.measured) :]
        done = dict(zip(different, terms.required, strict=True))
        needed = np.stack([scale * done[place] for place, scale in zip(places, self.scales, strict=True)])
        if self.nuisance:
            columns = system.nuisance_columns(plan, states, terms, system.readings(motion))
            needed += np.einsum("nrk,ck->cnr", columns, self.own.get(motion.origin, self.values))
        unknown = terms.unknown
        present = present_forces(plan, motion)
        unknown *= present[:, None, :]
        chosen = np.repeat(self.part(plan), 6)
        total = np.tile(np.eye(6), (1, first // 6)) * chosen
        hidden = np.einsum("wk,nku->nwu", total, unknown[:, :first])
        known = ~np.any(np.abs(hidden) > UNFELT, axis=(0, 2)) & bool(chosen.any())
        wrench = PredictedRows(felt[:, :first] @ total.T, needed[:, :, :first] @ total.T, known)
        fill, determined = _fill(unknown, first)
        # Y φ = τ + Jᵀ f; unmeasured forces follow from the equations of the regions.
        gap = needed[:, :, :first] - felt[:, :first]
        carried = felt[:, first:] + np.einsum("ntk,cnk->cnt", fill, gap)
        torque = PredictedRows(torques, needed[:, :, first:] - carried, determined)
        if not unknown.shape[2]:
            return Prediction(wrench, torque, None, 0, hidden, bool(chosen.any()))
        right = felt
        right[:, first:] += torques
        rows = np.ascontiguousarray(np.moveaxis(needed - right, 0, 2))
        kept = np.empty(len(motion), dtype=np.int64)
        reduce_rows(rows, np.zeros((len(motion), plan.row_count, 0)), unknown, present, kept)
        left = np.square(rows).sum(axis=1).T
        return Prediction(wrench, torque, left, int(kept.sum()), hidden, bool(chosen.any()))


def _fill(unknown: FloatArray, first: int) -> tuple[FloatArray, BoolArray]:
    """Return the map from the residual of the regions' equations to the torques of the unknown forces behind it.

    Args:
        unknown: Effect of each unknown force on each row, shape (n, n_rows, n_unknown); zeros where it does not act.
        first: The first torque row.

    Returns:
        The matrix from the regions' rows to the torque rows, shape (n, n_torques, first), and which torque rows it
        determines, shape (n_torques,).
    """
    below, rows = unknown[:, first:], unknown[:, :first]
    if not np.any(below):
        return np.zeros((len(unknown), below.shape[1], first)), np.ones(below.shape[1], dtype=np.bool_)
    inverse = np.linalg.pinv(rows, rcond=1e-9)
    fill = below @ inverse
    left = np.abs(fill @ rows - below)
    return fill, ~np.any(left > 1e-6, axis=(0, 2))


def world_axes(prediction: Prediction, rotations: FloatArray) -> PredictedRows:
    """Return the wrench in world axes, about the same points.

    Which rows are measured in full is decided in world axes: with flat feet that measure no horizontal forces, the
    vertical force is.

    Args:
        prediction: With the wrench in a link's axes.
        rotations: From the link's axes to the world's, shape (n, 3, 3).
    """

    def turned(values: FloatArray) -> FloatArray:
        halves = values.reshape(*values.shape[:-1], 2, 3)
        return np.asarray(np.einsum("nij,...nhj->...nhi", rotations, halves).reshape(values.shape))

    hidden = turned(np.moveaxis(prediction.hidden, 2, 0))
    known = ~np.any(np.abs(hidden) > _FLAT, axis=(0, 1)) & prediction.weighed
    return PredictedRows(turned(prediction.wrench.measured), turned(prediction.wrench.predicted), known)


def nuisance_values(columns: Sequence[Nuisance], values: Sequence[Mapping[str, float]]) -> FloatArray:
    """Return the values of nuisance columns for each candidate, shape (n_candidates, n_nuisance); zero without one."""
    found = [[float(each.get(column.name, 0.0)) for column in columns] for each in values]
    return np.array(found, dtype=np.float64).reshape(len(values), len(columns))


AXES = WRENCH_AXES
UNITS = ("N", "N", "N", "N m", "N m", "N m")
