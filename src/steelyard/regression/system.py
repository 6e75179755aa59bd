"""The system ``Y φ = H f`` of some samples: formed, projected, whitened; or its residual without forming it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from steelyard.kinematics import spread_motion
from steelyard.model import PARAMETER_COUNT, WRENCH_AXES
from steelyard.motion import tree_motion
from steelyard.regression.kernels import add_required_forces, fill_force_map, fill_regressor
from steelyard.regression.nuisance import Nuisance, nuisance_columns
from steelyard.regression.reduction import reduce_rows
from steelyard.regression.sensing import ALWAYS, RowPlan, Sensing, plan_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.kinematics import BodyMotions, TreeMotion
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression.kernels import SourceArrays
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
    columns: IntArray

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

    @cached_property
    def base_body(self) -> int:
        """Index of the base link's body."""
        return self.model.frame(self.base).body

    def spread(self, motion: TreeMotion) -> BodyMotions:
        """Compute the motion of all bodies, from which rows, force maps and nuisance columns are made."""
        return spread_motion(self.model.tree, self.base_body, motion)

    def rows(self, motion: Motion) -> tuple[FloatArray, int]:
        """Compute the rows ``[Y | nuisance | f]``, shape (n · n_rows, width), and how many of them are not used up."""
        plan = self.plan(motion)
        present, forces = present_forces(plan, motion), self.forces(motion)
        return self.rows_of(plan, tree_motion(motion), present, forces, motion.bandwidth)

    def rows_of(
        self,
        plan: RowPlan,
        motion: TreeMotion,
        present: BoolArray,
        forces: FloatArray,
        bandwidth: float | None = None,
    ) -> tuple[FloatArray, int]:
        """Compute the rows of some samples as `rows` does.

        Args:
            plan: The rows.
            motion: The samples.
            present: Which unknown forces act, shape (n, n_unknown).
            forces: Measured components and torques, shape (n, n_measured + n_torques).
            bandwidth: `Motion.bandwidth`.
        """
        bodies = self.spread(motion)
        maps = self.force_map(plan, plan.measured, bodies)
        right = self._right_hand_side(plan, maps, forces)
        rows, kept = self._reduced(plan, motion, bodies, maps, right[:, :, None], present, bandwidth)
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
        plan, states = self.plan(motion), tree_motion(motion)
        bodies = self.spread(states)
        maps = self.force_map(plan, plan.measured, bodies)
        present = present_forces(plan, motion)
        return self._reduced(plan, states, bodies, maps, columns(plan, maps), present, motion.bandwidth)[0]

    def _reduced(
        self,
        plan: RowPlan,
        motion: TreeMotion,
        bodies: BodyMotions,
        maps: FloatArray,
        others: FloatArray,
        present: BoolArray,
        bandwidth: float | None,
    ) -> tuple[FloatArray, int]:
        """Compute ``[Y | nuisance | others]``, projected and whitened, and how many rows are not used up."""
        last = self.width - 1
        rows = np.zeros((len(maps), plan.row_count, last + others.shape[2]))
        fill_regressor(self.model.tree.arrays, plan.rows, bodies, self.columns, rows)
        if self.nuisance:
            rows[:, :, last - len(self.nuisance) : last] = self.nuisance_columns(plan, motion, bodies, maps, bandwidth)
        rows[:, :, last:] = others
        return rows, self._reduce(rows, plan, bodies, maps, present)

    def nuisance_columns(
        self, plan: RowPlan, motion: TreeMotion, bodies: BodyMotions, maps: FloatArray, bandwidth: float | None
    ) -> FloatArray:
        """Compute the nuisance columns of some samples; see `steelyard.regression.nuisance.nuisance_columns`."""
        return nuisance_columns(
            self.model, self.nuisance, plan, motion, bodies, self.base_body, maps, self.sensing, bandwidth
        )

    def required_forces(self, plan: RowPlan, bodies: BodyMotions, parameters: FloatArray) -> FloatArray:
        """Compute ``Y φ`` without forming ``Y``, neither projected nor whitened; shape (n, n_rows)."""
        needed = np.zeros((len(bodies.position), plan.row_count, 1))
        shaped = np.ascontiguousarray(parameters, dtype=np.float64).reshape(-1, PARAMETER_COUNT)
        add_required_forces(self.model.tree.arrays, plan.rows, bodies, shaped, needed)
        return needed[:, :, 0]

    def residuals(self, motion: Motion, parameters: FloatArray) -> FloatArray:
        """Compute ``Y φ − H f``, projected and whitened like the rows, without forming ``Y``; shape (n, n_rows)."""
        plan = self.plan(motion)
        bodies = self.spread(tree_motion(motion))
        maps = self.force_map(plan, plan.measured, bodies)
        left = self.required_forces(plan, bodies, parameters)
        left -= self._right_hand_side(plan, maps, self.forces(motion))
        self._reduce(left[:, :, None], plan, bodies, maps, present_forces(plan, motion))
        return left

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

    def force_map(self, plan: RowPlan, sources: SourceArrays, bodies: BodyMotions) -> FloatArray:
        """Compute ``H``: what a unit of each source adds to the right-hand side, shape (n, n_rows, n_sources)."""
        maps = np.zeros((len(bodies.position), plan.row_count, len(sources.bodies)))
        if len(sources.bodies):
            fill_force_map(self.model.tree.arrays, plan.rows, bodies, sources, maps)
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
        bodies: BodyMotions,
        maps: FloatArray,
        present: BoolArray,
    ) -> int:
        """Project and whiten rows in place, and return how many are not used up."""
        count = len(rows)
        if self.noise is None and not len(plan.unknown_soles):
            return count * plan.row_count
        roots = np.zeros((count, plan.row_count, 0))
        if self.noise is not None:
            floor = self.force_map(plan, plan.floor, bodies)
            floor *= np.resize(self.noise.floor, floor.shape[2])
            torque = np.zeros((plan.row_count, len(self.noise.torques)))
            torque[
                plan.rows.first_torque_row + np.arange(len(self.noise.torques)), np.arange(len(self.noise.torques))
            ] = self.noise.torques
            shaped = np.broadcast_to(torque, (count, *torque.shape))
            roots = np.concatenate([maps * self.noise.wrenches, floor, shaped], axis=2)
        kept = np.empty(count, dtype=np.int64)
        reduce_rows(rows, roots, self.force_map(plan, plan.unknown, bodies), present, kept)
        return int(kept.sum())


def present_forces(plan: RowPlan, motion: Motion) -> BoolArray:
    """Tells which unknown forces act at each sample, shape (n, n_unknown)."""
    present = np.ones((len(motion), len(plan.unknown_soles)), dtype=np.bool_)
    for number, sole in enumerate(plan.unknown_soles):
        if sole != ALWAYS and sole in motion.contacts:
            present[:, number] = motion.contacts[sole]
    return present
