"""Nuisance columns beside the parameters: errors of sensors and friction of joints, each with a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import erf

from steelyard.exceptions import EvidenceError
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.kinematics import TreeMotion
    from steelyard.model import Model
    from steelyard.regression.sensing import RowPlan, Sensing
    from steelyard.regression.system import RowTerms

PRIORS: dict[str, float | tuple[float, float]] = {
    "wrench_offset": (5.0, 0.5),  # N and N m: drift of a six-axis foot sensor between two zeroings
    "accelerometer_bias": 0.1,  # m/s²: turn-on bias of a MEMS accelerometer, 10 mg
    "gyro_bias": 0.01,  # rad/s: turn-on bias of a MEMS gyroscope, half a degree per second
    "imu_mounting": 0.02,  # rad: a degree of misalignment
    "coulomb_friction": np.inf,
    "presliding_friction": np.inf,
    "viscous_friction": np.inf,
    "rotor_inertia": np.inf,
    "torque_offset": np.inf,
    "torque_ripple": 0.2,  # N m: errors of a joint torque sensor, its gear and its cables, by angle
    "wrench_gain": 0.02,  # share: calibration of a strain-gauge sensor, 1 to 3 %
    "wrench_drift": (0.25, 0.025),  # N/s and N m/s: in 20 s as far as between two zeroings, a sensor that warms up
    "encoder_offset": 0.005,  # rad (or m): a third of a degree
}
"""Groups of nuisance columns, and the standard deviation of their priors; infinite: no prior. Finite ones are set by
judgement, to the size beside each."""

GROUP_WORDS = {
    "wrench_offset": "offsets of the wrench sensors",
    "accelerometer_bias": "bias of the accelerometer",
    "gyro_bias": "bias of the gyroscope",
    "imu_mounting": "mounting angles of the inertial sensor",
    "coulomb_friction": "Coulomb friction",
    "presliding_friction": "presliding friction",
    "viscous_friction": "viscous friction",
    "rotor_inertia": "rotor inertia",
    "torque_offset": "offsets of the torque sensors",
    "torque_ripple": "torque ripple",
    "wrench_gain": "gains of the wrench sensors",
    "wrench_drift": "drift of the wrench sensors",
    "encoder_offset": "offsets of the encoders",
}
"""Groups of nuisance columns in words."""

INERTIAL = ("accelerometer_bias", "imu_mounting", "gyro_bias")
"""Groups of the base link's inertial sensor, in the order of `add_inertial_errors`."""

LINEARISED = (*INERTIAL, "encoder_offset")
"""Groups whose columns depend on the parameters, and are linearised at the model's own."""

OFFSET = ".offset"
"""Ending of the names of wrench sensors' offsets."""

_OF_CHANNELS = {"wrench_offset": OFFSET, "wrench_gain": ".wrench_gain", "wrench_drift": ".wrench_drift"}
"""Groups with a column for each channel of the wrench sensors, and the endings of the columns' names."""

PRESLIDING = 5e-4
"""Travel (rad or m) of a joint after a reversal until its presliding friction reverses: half a milliradian, as measured
on the strain-wave gears of a KUKA LWR 4+. Coulomb friction reverses at once."""

_STEADY = 1e-9
"""Acceleration (rad/s² or m/s²) below which a joint does not reverse: rounding only."""

RIPPLE_ORDERS = range(2, 9)
"""Orders of a joint's torque ripple per revolution; the first is not observable beside the weight that the joint
carries. Up to eight, set by judgement: each order costs two columns."""


@dataclass(frozen=True)
class Nuisance:
    """One nuisance column: its name, its group, and the standard deviation of its prior (mean zero)."""

    name: str
    group: str
    prior: float


def belongs_to(name: str, group: str) -> bool:
    """Return whether a nuisance column of this name is of a group."""
    return name.endswith(OFFSET) if group == "wrench_offset" else group in name.split(".")


def usual_groups(source: str, *, wrenches: bool, torques: bool) -> tuple[str, ...]:
    """Return the groups of all sensors used: wrench offsets, errors of an IMU, and friction where torques are used.

    Args:
        source: Where the base link's motion comes from, as `Motion.source` states it.
        wrenches: Whether wrench sensors are used.
        torques: Whether joint torques are.
    """
    groups = ["wrench_offset"] if wrenches else []
    groups += INERTIAL if source == "imu" else ()
    groups += ["coulomb_friction", "viscous_friction"] if torques else []
    return tuple(groups)


def plan_nuisance(
    model: Model, sensing: Sensing, groups: Sequence[str], priors: dict[str, float] | None = None
) -> tuple[Nuisance, ...]:
    """Return the nuisance columns of some groups of `PRIORS`.

    Args:
        model: The model.
        sensing: What is measured.
        groups: Names of groups.
        priors: Standard deviations by column or group that replace the default ones.

    Raises:
        EvidenceError: A group or a name in `priors` is unknown, or friction is named without joint torques.
    """
    columns: list[Nuisance] = []
    for group in dict.fromkeys(groups):
        if group not in PRIORS:
            raise EvidenceError(f"there is no nuisance {group!r}{did_you_mean(group, PRIORS)}", names=[group])
        default = PRIORS[group]
        if group in _OF_CHANNELS:
            force, moment = default if isinstance(default, tuple) else (default, default)
            columns += [
                Nuisance(f"{source.name}{_OF_CHANNELS[group]}", group, force if source.axis.startswith("f") else moment)
                for source in sensing.measured
            ]
        elif group == "encoder_offset":
            columns += [
                Nuisance(f"{joint}.{group}", group, float(default))  # type: ignore[arg-type]
                for joint in model.joints
                if model.joint(joint).velocity_size == 1
            ]
        elif group in INERTIAL:
            columns += [Nuisance(f"{group}.{axis}", group, float(default)) for axis in "xyz"]  # type: ignore[arg-type]
        elif not sensing.torques:
            raise EvidenceError(f"{group} shows in joint torques, and none is used; name torques", names=[group])
        else:
            columns += [
                Nuisance(f"{joint}.{name}", group, float(default))  # type: ignore[arg-type]
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
    """Return the names of a group's columns, without the joint's."""
    if group != "torque_ripple":
        return [group]
    return [f"{group}.{wave}{order}" for order in RIPPLE_ORDERS for wave in ("sin", "cos")]


class MeasuredSamples(NamedTuple):
    """What nuisance columns need of some samples, beside their motion.

    Attributes:
        forces: Measured components and torques, shape (n, n_measured + n_torques).
        seconds: Time since the recording began, shape (n,).
        bandwidth: Cutoff (Hz) to which the torques were smoothed, where they were.
    """

    forces: FloatArray
    seconds: FloatArray
    bandwidth: float | None = None


def nuisance_columns(
    model: Model,
    columns: Sequence[Nuisance],
    plan: RowPlan,
    motion: TreeMotion,
    terms: RowTerms,
    readings: MeasuredSamples,
    sensing: Sensing,
) -> FloatArray:
    """Compute the nuisance columns of some samples, shape (n, n_rows, n_columns): what each adds to ``Y φ``.

    Columns that depend on the parameters (`LINEARISED`) are linearised at the model's own.

    Args:
        model: The model.
        columns: Which columns.
        plan: The rows.
        motion: The samples.
        terms: Terms of their rows.
        readings: What was measured.
        sensing: What is measured.
    """
    count = len(motion.q)
    out = np.zeros((count, plan.row_count, len(columns)))
    channels = {source.name: number for number, source in enumerate(sensing.measured)}
    torque_rows: dict[str, int] = {}
    for row, body in enumerate(plan.rows.torque_bodies):
        torque_rows.setdefault(model.bodies[int(body)].joint.name, plan.rows.first_torque_row + row)
    tree = model.tree.arrays
    for number, column in enumerate(columns):
        if column.group in _OF_CHANNELS:
            channel = channels[column.name.removesuffix(_OF_CHANNELS[column.group])]
            # Y φ = H (measured − offset), H (measured − drift · seconds), H (1 − gain) measured
            factors = {"wrench_gain": readings.forces[:, channel], "wrench_drift": readings.seconds}
            out[:, :, number] = terms.measured[:, :, channel]
            out[:, :, number] *= factors.get(column.group, np.ones(count))[:, None]
            continue
        if column.group in INERTIAL:
            place = 3 * INERTIAL.index(column.group) + "xyz".index(column.name[-1])
            out[:, :, number] = terms.inertial[:, :, place]
            continue
        joint, _, wave = column.name.rpartition(f".{column.group}")
        body = model.joint_body(joint)
        place, angle = int(tree.v_starts[body]), int(tree.q_starts[body])
        if column.group == "encoder_offset":
            out[:, :, number] = terms.by_position[:, :, angle]
            continue
        speed = motion.v[:, place]
        if column.group == "torque_ripple":
            turns = int(wave[4:]) * motion.q[:, angle]
            values = np.sin(turns) if wave.startswith(".sin") else np.cos(turns)
        elif column.group in ("coulomb_friction", "presliding_friction"):
            slack = PRESLIDING if column.group == "presliding_friction" else 0.0
            values = _direction(speed, motion.a[:, place], slack, readings.bandwidth)
        elif column.group == "torque_offset":
            values = np.ones(count)
        else:
            values = speed if column.group == "viscous_friction" else motion.a[:, place]
        out[:, torque_rows[joint], number] = values
    return out


def _direction(speed: FloatArray, acceleration: FloatArray, slack: float, bandwidth: float | None) -> FloatArray:
    """Return the sign of a velocity, delayed by a slack, and filtered as the torques were, shape (n,).

    Near a reversal, ``v ≈ a t``: the time since then is ``v / a``, the slack is used up ``√(2 slack / |a|)`` after it,
    and a filter turns the step in time into its step response. That of a sharp filter rises with the slope
    ``4 bandwidth``; its overshoot is neglected.
    """
    if bandwidth is None and not slack:
        return np.sign(speed)
    moving = np.abs(acceleration) > _STEADY
    steady = np.where(moving, acceleration, 1.0)
    late = speed / steady - np.sqrt(2.0 * slack / np.abs(steady))
    step = np.sign(late) if bandwidth is None else erf(2.0 * np.sqrt(np.pi) * bandwidth * late)
    return np.where(moving, np.sign(steady) * step, np.sign(speed))
