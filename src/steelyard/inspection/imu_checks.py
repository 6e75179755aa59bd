"""Findings about IMUs with other axes or units than the setup states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.axis_permutations import describe_mounting, is_identity
from steelyard.inspection.check_state import CUTOFF, SensorChecks, permuted_columns
from steelyard.inspection.imu_mounting import (
    ACCELEROMETER_UNITS,
    GYRO_UNITS,
    ImuMounting,
    compare_imu,
    find_imu_mounting,
)

if TYPE_CHECKING:
    from steelyard.model import ColumnSource

_BAD_MISFIT = 4.0
"""Difference from the leg kinematics, relative to the tolerance, from which it is reported. Set by judgement: the
tolerance already allows for joint offsets and noise."""


def check_imus(state: SensorChecks) -> None:
    """Compare the IMUs with the leg kinematics, and add findings.

    Raises:
        MotionError: A segment is too short or its rate too low.
    """
    for imu in state.imus:
        what = f"the mounting of {imu.name}"
        if len(state.model.setup.soles) < 2:
            state.skip(what, "it needs two soles that are stationary together, and the setup does not define two")
            continue
        seen = compare_imu(state.model, state.segments, imu, CUTOFF)
        if seen is None:
            state.skip(what, "the feet are never stationary together; record a few seconds of standing")
            continue
        found = find_imu_mounting(imu.name, seen)
        if not found.as_stated:
            _report(state, found)
        elif found.misfit > _BAD_MISFIT:
            words = (
                f"{imu.name} disagrees with the leg kinematics, and no right-angle rotation or unit explains it; "
                "check its frame in the setup, and that the soles are flat on level ground"
            )
            state.add_finding("warning", "inertial-misfit", imu.name, words)


def _report(state: SensorChecks, found: ImuMounting) -> None:
    name = found.imu
    if found.without_gravity:
        words = (
            f"the accelerometer of {name} reads zero at rest: gravity was removed; record the raw readings, "
            "+9.81 m/s² upwards at rest"
        )
        state.add_finding("fault", "no-gravity", name, words)
        state.base_known = False
        return
    corrections: dict[str, ColumnSource] = {}
    for kind, axes, scale in (
        ("accel", found.accel_axes, ACCELEROMETER_UNITS[found.accel_unit]),
        ("gyro", found.gyro_axes, GYRO_UNITS[found.gyro_unit]),
    ):
        if not is_identity(axes) or scale != 1.0:
            corrections |= permuted_columns(f"{name}.{kind}.", f"{name}.{kind}.", axes, scale)
    # Rotations about the vertical are not observable on a robot that hardly moves: then no fix is offered.
    fix = state.fix(corrections) if not found.rivals else ()
    if found.accel_unit != "m/s²":
        words = f"the accelerometer of {name} is in {found.accel_unit}, not in m/s²; state the unit in the setup"
        state.add_finding("fault", "accelerometer-unit", name, words, fix)
    if found.gyro_unit != "rad/s":
        words = f"the gyro of {name} is in {found.gyro_unit}, not in rad/s; state the unit in the setup"
        state.add_finding("fault", "gyro-unit", name, words, fix)
    together = np.array_equal(found.accel_axes, found.gyro_axes)
    parts = {"": found.accel_axes} if together else {"accelerometer of ": found.accel_axes, "gyro of ": found.gyro_axes}
    for part, axes in parts.items():
        if is_identity(axes):
            continue
        if found.rivals:
            words = (
                f"{part}{name} is not mounted as the setup states, but the robot moves too little to tell which of "
                f"{found.rivals + 1} orientations is right; record it while it tilts and turns"
            )
        else:
            words = f"{part}{name} is {describe_mounting(axes)}; correct the frame in the model, or the setup"
        state.add_finding("fault", "inertial-axes", name, f"the {words}", fix)
    if found.rivals:
        state.base_known = False
    else:
        state.correct(corrections)
