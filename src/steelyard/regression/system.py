"""The system ``Y φ = H f`` of some samples: formed, projected, whitened; or its residual without forming it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model import PARAMETER_COUNT, WRENCH_AXES
from steelyard.regression import kernels
from steelyard.regression.nuisance import Nuisance, nuisance_columns
from steelyard.regression.reduction import reduce_rows
from steelyard.regression.rows import motion_arrays, tree_arrays, walk_arrays
from steelyard.regression.sensing import ALWAYS, RowPlan, Sensing, plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression.kernel_arrays import MotionArrays, SourceArrays
    from steelyard.regression.noise import Noise


@dataclass(frozen=True, eq=False)
class System:
    """What turns samples into rows.

    Attributes:
        model: The model.
        base: Name of the base link.
        sensing: What is measured.
        nuisance: Nuisance columns.
        noise: By what rows are whitened; None for plain sums.
        columns: Column of each parameter, −1 for none, shape (n_links, 10).
    """

    model: Model
    base: str
    sensing: Sensing
    nuisance: tuple[Nuisance, ...]
    noise: Noise | None
    columns: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def width(self) -> int:
        """Number of columns: parameters, nuisance, and the measured forces."""
        return int(np.count_nonzero(self.columns >= 0)) + len(self.nuisance) + 1

    def plan(self, motion: Motion) -> RowPlan:
        """Gives the rows of a stretch of motion."""
        soles = [sole.name for sole in self.model.setup.soles]
        return plan_rows(
            self.model, self.sensing, frozenset(name for name in soles if np.all(motion.contacts.get(name, True)))
        )

    def rows(self, motion: Motion) -> tuple[FloatArray, int]:
        """Gives the rows ``[Y | nuisance | f]``, shape (n · n_rows, width), and how many of them say something."""
        plan = self.plan(motion)
        present, forces = present_forces(plan, motion), self.forces(motion)
        return self.rows_of(plan, motion_arrays(motion), present, forces, motion.bandwidth)

    def rows_of(
        self,
        plan: RowPlan,
        motion: MotionArrays,
        present: np.ndarray[Any, np.dtype[np.bool_]],
        forces: FloatArray,
        bandwidth: float | None = None,
    ) -> tuple[FloatArray, int]:
        """Does what `rows` does, on arrays for kernels.

        Args:
            plan: The rows.
            motion: The samples.
            present: Which unknown forces act, shape (n, n_unknown).
            forces: Measured components and torques, shape (n, n_measured + n_torques).
            bandwidth: `Motion.bandwidth`.
        """
        tree, walk = tree_arrays(self.model), walk_arrays(self.model, self.model.frame(self.base).body)
        rows = np.zeros((len(forces), plan.row_count, self.width))
        kernels.regressor_rows(tree, walk, plan.rows, motion, self.columns, rows)
        maps = self._measured_map(plan, motion)
        rows[:, :, -1] = self._right_hand_side(plan, maps, forces)
        if self.nuisance:
            place = self.width - 1 - len(self.nuisance)
            rows[:, :, place:-1] = nuisance_columns(
                self.model, self.nuisance, plan, walk, motion, maps, self.sensing, bandwidth
            )
        kept = self._reduce(rows, plan, motion, maps, present)
        return rows.reshape(-1, self.width), kept

    def rows_beside(self, motion: Motion, columns: Callable[[RowPlan, FloatArray], FloatArray]) -> FloatArray:
        """Gives ``[Y | nuisance]`` with other columns beside them, all projected and whitened like `rows`.

        Args:
            motion: The samples.
            columns: What gives the other columns, shape (n, n_rows, n_columns), from the plan of the rows and ``H`` of
                the measured components, shape (n, n_rows, n_measured).

        Returns:
            Shape (n, n_rows, n_parameters + n_nuisance + n_columns).
        """
        plan = self.plan(motion)
        arrays = motion_arrays(motion)
        tree, walk = tree_arrays(self.model), walk_arrays(self.model, self.model.frame(self.base).body)
        maps = self._measured_map(plan, arrays)
        others = columns(plan, maps)
        first, place = self.width - 1 - len(self.nuisance), self.width - 1
        rows = np.zeros((len(motion), plan.row_count, place + others.shape[2]))
        kernels.regressor_rows(tree, walk, plan.rows, arrays, self.columns, rows)
        if self.nuisance:
            rows[:, :, first:place] = nuisance_columns(
                self.model, self.nuisance, plan, walk, arrays, maps, self.sensing, motion.bandwidth
            )
        rows[:, :, place:] = others
        self._reduce(rows, plan, arrays, maps, present_forces(plan, motion))
        return rows

    def needed(self, plan: RowPlan, motion: Motion, parameters: FloatArray) -> FloatArray:
        """Gives ``Y φ`` without forming ``Y``, neither projected nor whitened; shape (n, n_rows)."""
        tree, walk = tree_arrays(self.model), walk_arrays(self.model, self.model.frame(self.base).body)
        needed = np.zeros((len(motion), plan.row_count))
        shaped = np.ascontiguousarray(parameters, dtype=np.float64).reshape(-1, PARAMETER_COUNT)
        kernels.required_forces(tree, walk, plan.rows, motion_arrays(motion), shaped, needed)
        return needed

    def residuals(self, motion: Motion, parameters: FloatArray) -> FloatArray:
        """Gives ``Y φ − H f``, projected and whitened like the rows, without forming ``Y``; shape (n, n_rows)."""
        plan = self.plan(motion)
        arrays = motion_arrays(motion)
        needed = self.needed(plan, motion, parameters)
        maps = self._measured_map(plan, arrays)
        needed -= self._right_hand_side(plan, maps, self.forces(motion))
        rows = needed[:, :, None]
        self._reduce(rows, plan, arrays, maps, present_forces(plan, motion))
        return needed

    def forces(self, motion: Motion) -> FloatArray:
        """Gives the measured wrench components and torques side by side, shape (n, n_measured + n_torques)."""
        columns = [
            motion.wrenches[source.name.rpartition(".")[0]][:, WRENCH_AXES.index(source.axis)]
            for source in self.sensing.measured
        ]
        for joint in self.sensing.torques:
            values = motion.torques[joint]
            columns += [values] if values.ndim == 1 else list(values.T)
        return np.stack(columns, axis=1) if columns else np.zeros((len(motion), 0))

    def _measured_map(self, plan: RowPlan, motion: MotionArrays) -> FloatArray:
        return self._map(plan, plan.measured, motion)

    def _map(self, plan: RowPlan, sources: SourceArrays, motion: MotionArrays) -> FloatArray:
        tree, walk = tree_arrays(self.model), walk_arrays(self.model, self.model.frame(self.base).body)
        maps = np.zeros((len(motion.rate), plan.row_count, len(sources.bodies)))
        if len(sources.bodies):
            kernels.force_map(tree, walk, plan.rows, motion, sources, maps)
        return maps

    def _right_hand_side(self, plan: RowPlan, maps: FloatArray, forces: FloatArray) -> FloatArray:
        measured = len(self.sensing.measured)
        right = np.einsum("nkm,nm->nk", maps, forces[:, :measured])
        right[:, plan.rows.first_torque_row :] += forces[:, measured:]
        return np.asarray(right)

    def _reduce(
        self,
        rows: FloatArray,
        plan: RowPlan,
        motion: MotionArrays,
        maps: FloatArray,
        present: np.ndarray[Any, np.dtype[np.bool_]],
    ) -> int:
        """Projects and whitens rows in place, and gives how many say something."""
        count = len(rows)
        if self.noise is None and not len(plan.unknown_soles):
            return count * plan.row_count
        roots = np.zeros((count, plan.row_count, 0))
        if self.noise is not None:
            floor = self._map(plan, plan.floor, motion)
            floor *= np.resize(self.noise.floor, floor.shape[2])
            torque = np.zeros((plan.row_count, len(self.noise.torques)))
            torque[
                plan.rows.first_torque_row + np.arange(len(self.noise.torques)), np.arange(len(self.noise.torques))
            ] = self.noise.torques
            shaped = np.broadcast_to(torque, (count, *torque.shape))
            roots = np.concatenate([maps * self.noise.wrenches, floor, shaped], axis=2)
        kept = np.empty(count, dtype=np.int64)
        reduce_rows(rows, roots, self._map(plan, plan.unknown, motion), present, kept)
        return int(kept.sum())


def present_forces(plan: RowPlan, motion: Motion) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tells which unknown forces act at each sample, shape (n, n_unknown)."""
    present = np.ones((len(motion), len(plan.unknown_soles)), dtype=np.bool_)
    for number, sole in enumerate(plan.unknown_soles):
        if sole != ALWAYS and sole in motion.contacts:
            present[:, number] = motion.contacts[sole]
    return present
