"""The system ``Y φ = H f`` of some samples: its rows, projected and whitened, or its residual without forming it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics import spread_blocks
from steelyard.model import PARAMETER_COUNT, WRENCH_AXES
from steelyard.motion import tree_motion
from steelyard.regression.kernels import add_inertial_errors, add_required_forces, fill_force_map, fill_regressor
from steelyard.regression.nuisance import INERTIAL, Nuisance, nuisance_columns
from steelyard.regression.reduction import reduce_rows
from steelyard.regression.sensing import ALWAYS, RowPlan, Sensing, plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.kinematics import TreeMotion
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression.noise import NoiseDeviations


class RowTerms(NamedTuple):
    """Terms of the equations of some samples.

    Attributes:
        measured: ``H``: what a unit of each measured component adds to the right-hand side,
            shape (n, n_rows, n_measured).
        floor: The same for the noise of each region, where rows are whitened, shape (n, n_rows, 6 n_regions).
        unknown: The same for each unknown force, shape (n, n_rows, n_unknown).
        inertial: Derivatives of ``Y φ`` to errors of the inertial sensor, if they are nuisances, shape (n, n_rows, 9).
        required: ``Y φ`` for each of some parameters, shape (n_parameters, n, n_rows).
    """

    measured: FloatArray
    floor: FloatArray
    unknown: FloatArray
    inertial: FloatArray
    required: FloatArray


@dataclass(frozen=True, eq=False)
class System:
    """The map from samples to rows.

    Attributes:
        model: The model.
        base: Name of the base link.
        sensing: What is measured.
        nuisance: Nuisance columns.
        noise: Noise by which rows are whitened; None for plain sums.
        columns: Column of each parameter, −1 for none, shape (n_links, 10).
    """

    model: Model
    base: str
    sensing: Sensing
    nuisance: tuple[Nuisance, ...]
    noise: NoiseDeviations | None
    columns: IntArray

    @property
    def width(self) -> int:
        """Number of columns: parameters, nuisance, and the measured forces."""
        return int(np.count_nonzero(self.columns >= 0)) + len(self.nuisance) + 1

    def plan(self, motion: Motion) -> RowPlan:
        """Return the plan of the rows of some samples."""
        soles = [sole.name for sole in self.model.setup.soles]
        return plan_rows(
            self.model, self.sensing, frozenset(name for name in soles if np.all(motion.contacts.get(name, True)))
        )

    def rows(self, motion: Motion) -> tuple[FloatArray, int]:
        """Compute the rows ``[Y | nuisance | f]``, shape (n · n_rows, width), and how many of them are not used up."""
        plan = self.plan(motion)
        present, forces = present_forces(plan, motion), self.forces(motion)
        return self.rows_of(plan, tree_motion(motion), present, forces, motion.bandwidth)

    def rows_of(
        self, plan: RowPlan, motion: TreeMotion, present: BoolArray, forces: FloatArray, bandwidth: float | None = None
    ) -> tuple[FloatArray, int]:
        """Compute the rows of some samples as `rows` does.

        Args:
            plan: The rows.
            motion: The samples.
            present: Which unknown forces act, shape (n, n_unknown).
            forces: Measured components and torques, shape (n, n_measured + n_torques).
            bandwidth: `Motion.bandwidth`.
        """
        rows = np.zeros((len(forces), plan.row_count, self.width))
        terms = self._fill_rows(rows, plan, motion, bandwidth)
        rows[:, :, -1] = self._right_hand_side(plan, terms, forces)
        kept = self._reduce(rows, plan, terms, present)
        return rows.reshape(-1, self.width), kept

    def rows_beside(self, motion: Motion, columns: Callable[[RowPlan, FloatArray], FloatArray]) -> FloatArray:
        """Compute ``[Y | nuisance]`` with other columns beside them, all projected and whitened like `rows`.

        Args:
            motion: The samples.
            columns: What returns the other columns, shape (n, n_rows, n_columns), from the plan of the rows and ``H``
                of the measured components, shape (n, n_rows, n_measured).

        Returns:
            Shape (n, n_rows, n_parameters + n_nuisance + n_columns).
        """
        plan = self.plan(motion)
        rows = np.zeros((len(motion), plan.row_count, self.width - 1))
        terms = self._fill_rows(rows, plan, tree_motion(motion), motion.bandwidth)
        rows = np.concatenate([rows, columns(plan, terms.measured)], axis=2)
        self._reduce(rows, plan, terms, present_forces(plan, motion))
        return rows

    def _fill_rows(self, rows: FloatArray, plan: RowPlan, motion: TreeMotion, bandwidth: float | None) -> RowTerms:
        """Fill ``[Y | nuisance]``, the first columns of `rows`, and return the other terms."""
        terms = self.evaluate(plan, motion, rows)
        if self.nuisance:
            last = self.width - 1
            rows[:, :, last - len(self.nuisance) : last] = self.nuisance_columns(plan, motion, terms, bandwidth)
        return terms

    def evaluate(
        self,
        plan: RowPlan,
        motion: TreeMotion,
        regressor: FloatArray | None = None,
        parameters: Sequence[FloatArray] = (),
    ) -> RowTerms:
        """Compute the terms of some samples' rows in one pass over the tree for each sample.

        Args:
            plan: The rows.
            motion: The samples.
            regressor: Where ``Y`` is written, shape (n, n_rows, n_columns); None where it is not needed.
            parameters: Each ``φ`` for which ``Y φ`` is needed, shape (n_links, 10) or flat.
        """
        count, tree = len(motion.q), self.model.tree
        inertial = any(column.group in INERTIAL for column in self.nuisance)
        sizes = (len(plan.measured.bodies), len(plan.floor.bodies) * (self.noise is not None), len(plan.unknown.bodies))
        measured, floor, unknown, errors = (np.zeros((count, plan.row_count, size)) for size in (*sizes, 9 * inertial))
        terms = RowTerms(measured, floor, unknown, errors, np.zeros((len(parameters), count, plan.row_count)))
        shaped = [np.ascontiguousarray(each, dtype=np.float64).reshape(-1, PARAMETER_COUNT) for each in parameters]
        base = self.model.frame(self.base).body
        lever = self._inertial_lever(base)
        for block, states in spread_blocks(tree, base, motion):
            if regressor is not None:
                fill_regressor(tree.arrays, plan.rows, states, self.columns, regressor[block])
            for sources, maps in zip((plan.measured, plan.floor, plan.unknown), terms[:3], strict=True):
                if maps.size:
                    fill_force_map(tree.arrays, plan.rows, states, sources, maps[block])
            if inertial:
                add_inertial_errors(
                    tree.arrays, plan.rows, states, base, lever, self.model.parameters, terms.inertial[block]
                )
            for each, required in zip(shaped, terms.required, strict=True):
                add_required_forces(tree.arrays, plan.rows, states, each, required[block])
        return terms

    def _inertial_lever(self, base: int) -> FloatArray:
        """Return the place of the base link's first inertial sensor in its frame, shape (3,); zeros without one."""
        frames = [self.model.frame(imu.frame) for imu in self.model.setup.imus]
        return next((frame.placement.translation for frame in frames if frame.body == base), np.zeros(3))

    def nuisance_columns(
        self, plan: RowPlan, motion: TreeMotion, terms: RowTerms, bandwidth: float | None
    ) -> FloatArray:
        """Compute the nuisance columns of some samples; see `steelyard.regression.nuisance.nuisance_columns`."""
        return nuisance_columns(
            self.model, self.nuisance, plan, motion, terms.measured, terms.inertial, self.sensing, bandwidth
        )

    def required_forces(self, plan: RowPlan, motion: Motion, parameters: FloatArray) -> FloatArray:
        """Compute ``Y φ`` without forming ``Y``, neither projected nor whitened; shape (n, n_rows)."""
        return np.asarray(self.evaluate(plan, tree_motion(motion), parameters=[parameters]).required[0])

    def residuals(self, motion: Motion, parameters: FloatArray) -> FloatArray:
        """Compute ``Y φ − H f``, projected and whitened like the rows, without forming ``Y``; shape (n, n_rows)."""
        plan = self.plan(motion)
        terms = self.evaluate(plan, tree_motion(motion), parameters=[parameters])
        left: FloatArray = terms.required[0]
        left -= self._right_hand_side(plan, terms, self.forces(motion))
        self._reduce(left[:, :, None], plan, terms, present_forces(plan, motion))
        return left

    def forces(self, motion: Motion) -> FloatArray:
        """Return the measured wrench components and torques side by side, shape (n, n_measured + n_torques)."""
        columns = [
            motion.wrenches[source.name.rpartition(".")[0]][:, WRENCH_AXES.index(source.axis)]
            for source in self.sensing.measured
        ]
        for joint in self.sensing.torques:
            values = motion.torques[joint]
            columns += [values] if values.ndim == 1 else list(values.T)
        return np.stack(columns, axis=1) if columns else np.zeros((len(motion), 0))

    def _right_hand_side(self, plan: RowPlan, terms: RowTerms, forces: FloatArray) -> FloatArray:
        measured = len(self.sensing.measured)
        right = np.einsum("nkm,nm->nk", terms.measured, forces[:, :measured])
        right[:, plan.rows.first_torque_row :] += forces[:, measured:]
        return np.asarray(right)

    def _reduce(self, rows: FloatArray, plan: RowPlan, terms: RowTerms, present: BoolArray) -> int:
        """Project and whiten rows in place, and return how many are not used up."""
        count = len(rows)
        if self.noise is None and not len(plan.unknown_soles):
            return count * plan.row_count
        roots = np.zeros((count, plan.row_count, 0))
        if self.noise is not None:
            floor = terms.floor * np.resize(self.noise.floor, terms.floor.shape[2])
            torques = np.arange(len(self.noise.torques))
            torque = np.zeros((plan.row_count, len(torques)))
            torque[plan.rows.first_torque_row + torques, torques] = self.noise.torques
            shaped = np.broadcast_to(torque, (count, *torque.shape))
            roots = np.concatenate([terms.measured * self.noise.wrenches, floor, shaped], axis=2)
        kept = np.empty(count, dtype=np.int64)
        reduce_rows(rows, roots, terms.unknown, present, kept)
        return int(kept.sum())


def present_forces(plan: RowPlan, motion: Motion) -> BoolArray:
    """Return which unknown forces act at each sample, shape (n, n_unknown)."""
    present = np.ones((len(motion), len(plan.unknown_soles)), dtype=np.bool_)
    for number, sole in enumerate(plan.unknown_soles):
        if sole != ALWAYS and sole in motion.contacts:
            present[:, number] = motion.contacts[sole]
    return present
