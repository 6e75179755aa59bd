"""The system ``Y φ = H f`` of some samples: its rows, projected and whitened, or its residual without forming it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics import spread_blocks
from steelyard.model import PARAMETER_COUNT, WRENCH_AXES
from steelyard.motion import tree_motion
from steelyard.regression.kernels import add_inertial_errors, add_required_forces, fill_force_map, fill_regressor
from steelyard.regression.nuisance import INERTIAL, MeasuredSamples, Nuisance, nuisance_columns
from steelyard.regression.reduction import reduce_rows
from steelyard.regression.sensing import ALWAYS, RowPlan, Sensing, plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.kinematics import TreeMotion
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression.noise import NoiseDeviations


_STEP = 1e-4
"""Step (rad or m) of central differences: relative errors of 1e-9 from rounding, and as much from curvature."""


class RowTerms(NamedTuple):
    """Terms of the equations of some samples.

    Attributes:
        measured: ``H``: what a unit of each measured component adds to the right-hand side,
            shape (n, n_rows, n_measured).
        floor: The same for the noise of each region, where rows are whitened, shape (n, n_rows, 6 n_regions).
        unknown: The same for each unknown force, shape (n, n_rows, n_unknown).
        inertial: Derivatives of ``Y φ`` to errors of the inertial sensor, if they are nuisances, shape (n, n_rows, 9).
        by_position: Derivatives of ``Y φ − H f`` to the positions of joints, where encoder offsets are nuisances, shape
            (n, n_rows, n_q); else without columns.
        required: ``Y φ`` for each of some parameters, shape (n_parameters, n, n_rows).
    """

    measured: FloatArray
    floor: FloatArray
    unknown: FloatArray
    inertial: FloatArray
    required: FloatArray
    by_position: FloatArray


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
        start: Time at which the recording begins, s: drift is counted from there.
    """

    model: Model
    base: str
    sensing: Sensing
    nuisance: tuple[Nuisance, ...]
    noise: NoiseDeviations | None
    columns: IntArray
    start: float = 0.0

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
        return self.rows_of(plan, tree_motion(motion), present_forces(plan, motion), self.readings(motion))

    def readings(self, motion: Motion) -> MeasuredSamples:
        """Return what was measured in some samples."""
        return MeasuredSamples(self.forces(motion), motion.time - self.start, motion.bandwidth)

    def rows_of(
        self, plan: RowPlan, motion: TreeMotion, present: BoolArray, readings: MeasuredSamples
    ) -> tuple[FloatArray, int]:
        """Compute the rows of some samples as `rows` does.

        Args:
            plan: The rows.
            motion: The samples.
            present: Which unknown forces act, shape (n, n_unknown).
            readings: What was measured.
        """
        rows = np.zeros((len(readings.forces), plan.row_count, self.width))
        terms = self._fill_rows(rows, plan, motion, readings)
        rows[:, :, -1] = self._right_hand_side(plan, terms, readings.forces)
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
        terms = self._fill_rows(rows, plan, tree_motion(motion), self.readings(motion))
        rows = np.concatenate([rows, columns(plan, terms.measured)], axis=2)
        self._reduce(rows, plan, terms, present_forces(plan, motion))
        return rows

    def _fill_rows(self, rows: FloatArray, plan: RowPlan, motion: TreeMotion, readings: MeasuredSamples) -> RowTerms:
        """Fill ``[Y | nuisance]``, the first columns of `rows`, and return the other terms."""
        terms = self.evaluate(plan, motion, rows)
        if self.nuisance:
            last = self.width - 1
            rows[:, :, last - len(self.nuisance) : last] = self.nuisance_columns(plan, motion, terms, readings)
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
        required = np.zeros((len(parameters), count, plan.row_count))
        terms = RowTerms(measured, floor, unknown, errors, required, np.zeros((count, plan.row_count, 0)))
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
            for each, needed in zip(shaped, required, strict=True):
                add_required_forces(tree.arrays, plan.rows, states, each, needed[block])
        return terms

    def _inertial_lever(self, base: int) -> FloatArray:
        """Return the place of the base link's first inertial sensor in its frame, shape (3,); zeros without one."""
        frames = [self.model.frame(imu.frame) for imu in self.model.setup.imus]
        return next((frame.placement.translation for frame in frames if frame.body == base), np.zeros(3))

    def nuisance_columns(
        self, plan: RowPlan, motion: TreeMotion, terms: RowTerms, readings: MeasuredSamples
    ) -> FloatArray:
        """Compute the nuisance columns of some samples; see `steelyard.regression.nuisance.nuisance_columns`."""
        if any(column.group == "encoder_offset" for column in self.nuisance):
            terms = terms._replace(by_position=self._by_position(plan, motion, readings.forces))
        return nuisance_columns(self.model, self.nuisance, plan, motion, terms, readings, self.sensing)

    def _by_position(self, plan: RowPlan, motion: TreeMotion, forces: FloatArray) -> FloatArray:
        """Compute the derivatives of ``Y φ − H f`` to the joints' positions by central differences, at the model's φ.

        The base link's motion stays as it is. Shape (n, n_rows, n_q); zeros for ball joints.
        """
        arrays, out = self.model.tree.arrays, np.zeros((len(motion.q), plan.row_count, motion.q.shape[1]))
        for joint in self.model.joints:
            if self.model.joint(joint).velocity_size == 1:
                angle = int(arrays.q_starts[self.model.joint_body(joint)])
                for step in (_STEP, -_STEP):
                    moved = motion.q.copy()
                    moved[:, angle] += step
                    out[:, :, angle] += self._balance(plan, motion._replace(q=moved), forces) / (2.0 * step)
        return out

    def _balance(self, plan: RowPlan, motion: TreeMotion, forces: FloatArray) -> FloatArray:
        """Compute ``Y φ − H f`` of the wrenches at the model's parameters, shape (n, n_rows)."""
        tree, base = self.model.tree, self.model.frame(self.base).body
        left = np.zeros((len(forces), plan.row_count))
        measured = np.zeros((len(forces), plan.row_count, len(plan.measured.bodies)))
        for block, states in spread_blocks(tree, base, motion):
            add_required_forces(tree.arrays, plan.rows, states, self.model.parameters, left[block])
            if measured.size:
                fill_force_map(tree.arrays, plan.rows, states, plan.measured, measured[block])
        return np.asarray(left - np.einsum("nkm,nm->nk", measured, forces[:, : measured.shape[2]]))

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
