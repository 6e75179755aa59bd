"""Columns besides the parameters: what sensors get wrong and joints waste, each with a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erf

from steelyard.exceptions import EvidenceError
from steelyard.regression import kernels
from steelyard.regression.rows import tree_arrays
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.regression.kernel_arrays import MotionArrays, WalkArrays
    from steelyard.regression.sensing import RowPlan, Sensing

PRIORS: dict[str, float | tuple[float, float]] = {
    "wrench_offset": (5.0, 0.5),  # N and N m: drift of a six-axis foot sensor between two zeroings
    "accelerometer_bias": 0.1,  # m/s²: turn-on bias of a MEMS accelerometer, 10 mg
    "imu_mounting": 0.02,  # rad: a degree of misalignment
    "coulomb_friction": np.inf,
    "presliding_friction": np.inf,
    "viscous_friction": np.inf,
    "rotor_inertia": np.inf,
    "torque_offset": np.inf,
    "torque_ripple": 0.2,  # N m: what a joint torque sensor, its gear and its cables add, by angle
}
"""Groups of nuisance columns, and the standard deviation of their priors; infinite: no prior."""

PRESLIDING = 5e-4
"""How far (rad or m) a joint goes on behind a reversal before its presliding friction turns around: half a milliradian,
as the strain-wave gears of a KUKA LWR 4+ showed. Coulomb's turns around at once."""

_STEADY = 1e-9
"""Acceleration (rad/s² or m/s²) below which a joint does not reverse."""

RIPPLE_ORDERS = range(2, 9)
"""Waves a turn of a joint's torque ripple; one a turn could not be told from the weight that the joint carries."""


@dataclass(frozen=True)
class Nuisance:
    """One nuisance column: its name, its group, and the standard deviation of its prior (mean zero)."""

    name: str
    group: str
    prior: float


def plan_nuisance(
    model: Model, sensing: Sensing, groups: Sequence[str], priors: dict[str, float] | None = None
) -> tuple[Nuisance, ...]:
    """Gives the nuisance columns of some groups of `PRIORS`.

    Args:
        model: The model.
        sensing: What is measured.
        groups: Names of groups.
        priors: Standard deviations by column or group that replace the usual ones.

    Raises:
        EvidenceError: A group or a name in `priors` is unknown, or friction is asked for without joint torques.
    """
    columns: list[Nuisance] = []
    for group in dict.fromkeys(groups):
        if group not in PRIORS:
            raise EvidenceError(f"there is no nuisance {group!r}{did_you_mean(group, PRIORS)}", names=[group])
        usual = PRIORS[group]
        if group == "wrench_offset":
            force, moment = usual if isinstance(usual, tuple) else (usual, usual)
            columns += [
                Nuisance(f"{source.name}.offset", group, force if source.axis.startswith("f") else moment)
                for source in sensing.measured
            ]
        elif group in ("accelerometer_bias", "imu_mounting"):
            columns += [Nuisance(f"{group}.{axis}", group, float(usual)) for axis in "xyz"]  # type: ignore[arg-type]
        elif not sensing.torques:
            raise EvidenceError(f"{group} shows in joint torques, and none is used; name torques", names=[group])
        else:
            columns += [
                Nuisance(f"{joint}.{name}", group, float(usual))  # type: ignore[arg-type]
                for joint in sensing.torques
                if model.joint(joint).velocity_size == 1
                for name in _joint_columns(group)
            ]
    known = {column.name for column in columns} | {column.group for column in columns}
    chosen = priors or {}
    for name, prior in chosen.items():
        if name not in known:
            raise EvidenceError(f"no nuisance column is called {name!r}{did_you_mean(name, known)}", names=[name])
        if not prior > 0.0:
            raise EvidenceError(f"the prior of {name!r} is {prior}; it must be positive", names=[name])
    return tuple(
        replace(column, prior=chosen.get(column.name, chosen.get(column.group, column.prior))) for column in columns
    )


def _joint_columns(group: str) -> list[str]:
    """Gives the names of a group's columns, behind the joint's."""
    if group != "torque_ripple":
        return [group]
    return [f"{group}.{wave}{order}" for order in RIPPLE_ORDERS for wave in ("sin", "cos")]


def nuisance_columns(
    model: Model,
    columns: Sequence[Nuisance],
    plan: RowPlan,
    walk: WalkArrays,
    motion: MotionArrays,
    force_columns: FloatArray,
    sensing: Sensing,
    bandwidth: float | None = None,
) -> FloatArray:
    """Gives the nuisance columns of some samples, shape (n, n_rows, n_columns): what each adds to ``Y φ``.

    What depends on the parameters (the inertial sensor's errors) is linear at the model's own.

    Args:
        model: The model.
        columns: Which columns.
        plan: The rows.
        walk: The traversal.
        motion: The samples.
        force_columns: ``H`` of the measured sources, shape (n, n_rows, n_measured).
        sensing: What is measured.
        bandwidth: Frequency (Hz) to which the torques were smoothed, where they were.
    """
    count = len(motion.rate)
    out = np.zeros((count, plan.row_count, len(columns)))
    offsets = {f"{source.name}.offset": number for number, source in enumerate(sensing.measured)}
    torque_rows: dict[str, int] = {}
    for row, body in enumerate(plan.rows.torque_bodies):
        torque_rows.setdefault(model.bodies[int(body)].joint.name, plan.rows.first_torque_row + row)
    tree = tree_arrays(model)

    def forces(moved: MotionArrays) -> FloatArray:
        needed = np.zeros((count, plan.row_count))
        kernels.required_forces(tree, walk, plan.rows, moved, np.ascontiguousarray(model.parameters), needed)
        return needed

    for number, column in enumerate(columns):
        if column.group == "wrench_offset":
            # Y φ = H (measured − offset)
            out[:, :, number] = force_columns[:, :, offsets[column.name]]
        elif column.group == "accelerometer_bias":
            unit = np.zeros_like(motion.pull)
            unit[:, "xyz".index(column.name[-1])] = 1.0
            still = np.zeros_like(motion.v)
            zeros = np.zeros_like(motion.rate)
            # The wrench is linear in the proper acceleration: its coefficient is the wrench at rest in a unit field.
            out[:, :, number] = -forces(motion._replace(v=still, a=still, rate=zeros, turn=zeros, pull=unit))
        elif column.group == "imu_mounting":
            axis = np.eye(3)["xyz".index(column.name[-1])]
            turned = [
                forces(
                    motion._replace(
                        rate=motion.rate + sign * np.cross(axis, motion.rate),
                        turn=motion.turn + sign * np.cross(axis, motion.turn),
                        pull=motion.pull + sign * np.cross(axis, motion.pull),
                    )
                )
                for sign in (1.0, -1.0)
            ]
            # The wrench is quadratic in these: the central difference is its derivative, whatever the step.
            out[:, :, number] = 0.5 * (turned[0] - turned[1])
        else:
            joint, _, wave = column.name.rpartition(f".{column.group}")
            body = model.joint_body(joint)
            place, angle = int(tree.v_starts[body]), int(tree.q_starts[body])
            speed = motion.v[:, place]
            if column.group == "torque_ripple":
                turns = int(wave[4:]) * motion.q[:, angle]
                values = np.sin(turns) if wave.startswith(".sin") else np.cos(turns)
            elif column.group in ("coulomb_friction", "presliding_friction"):
                slack = PRESLIDING if column.group == "presliding_friction" else 0.0
                values = _direction(speed, motion.a[:, place], slack, bandwidth)
            elif column.group == "torque_offset":
                values = np.ones(count)
            else:
                values = speed if column.group == "viscous_friction" else motion.a[:, place]
            out[:, torque_rows[joint], number] = values
    return out


def _direction(speed: FloatArray, acceleration: FloatArray, slack: float, bandwidth: float | None) -> FloatArray:
    """Gives the sign of a speed, late by a slack, and as a filter leaves it that the torques passed, shape (n,).

    About a reversal, ``v ≈ a t``: the time since then is ``v / a``, the slack is used up ``√(2 slack / |a|)`` after it,
    and a filter makes its step response of the step in time. That of a sharp filter rises with the slope
    ``4 bandwidth``; its overshoot is left out.
    """
    if bandwidth is None and not slack:
        return np.sign(speed)
    moving = np.abs(acceleration) > _STEADY
    steady = np.where(moving, acceleration, 1.0)
    late = speed / steady - np.sqrt(2.0 * slack / np.abs(steady))
    step = np.sign(late) if bandwidth is None else erf(2.0 * np.sqrt(np.pi) * bandwidth * late)
    return np.where(moving, np.sign(steady) * step, np.sign(speed))
