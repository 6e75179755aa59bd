"""What is said of inertial sensors that are turned or in other units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding
from steelyard.inspection.imu_mounting import (
    ACCELEROMETER_UNITS,
    GYRO_UNITS,
    ImuMounting,
    find_imu_mounting,
    compare_imu,
)
from steelyard.inspection.check_state import CUTOFF, SensorChecks, permuted_columns
from steelyard.inspection.axis_permutations import describe_mounting, is_identity

if TYPE_CHECKING:
    from steelyard.model import ColumnSource

_BAD_MISFIT = 4.0


def check_imus(state: SensorChecks) -> None:
    """Holds the inertial sensors against the legs.

    Raises:
        MotionError: A segment is too short or its rate too low.
    """
    for imu in state.imus:
        what = f"the mounting of {imu.name}"
        if len(state.model.setup.soles) < 2:
            state.skip(what, "it takes two soles that stand still together, and the setup does not name two")
            continue
        seen = compare_imu(state.model, state.segments, imu, CUTOFF)
        if seen is None:
            state.skip(what, "the feet never stand still together; record a segment of standing")
            continue
        found = find_imu_mounting(imu.name, seen)
        if not found.as_stated:
            _report(state, found)
        elif found.misfit > _BAD_MISFIT:
            state.add(
                Finding(
                    "warning",
                    "inertial-misfit",
                    imu.name,
                    f"{imu.name} contradicts the legs' joints, and no right-angled turn or unit explains it; check its "
                    "frame in the setup, and that the soles are flat on level ground",
                )
            )


def _report(state: SensorChecks, found: ImuMounting) -> None:
    name = found.imu
    if found.without_gravity:
        state.add(
            Finding(
                "fault",
                "no-gravity",
                name,
                f"the accelerometer of {name} reads nothing at rest: gravity was taken out of it; record what it "
                "really measures, +9.81 m/s² upwards at rest",
            )
        )
        state.base_known = False
        return
    corrections: dict[str, ColumnSource] = {}
    for kind, turn, scale in (
        ("accel", found.accel_axes, ACCELEROMETER_UNITS[found.accel_unit]),
        ("gyro", found.gyro_axes, GYRO_UNITS[found.gyro_unit]),
    ):
        if not is_identity(turn) or scale != 1.0:
            corrections |= permuted_columns(f"{name}.{kind}.", f"{name}.{kind}.", turn, scale)
    # A robot that hardly moves does not tell turns about the vertical apart: then no fix is sure.
    fix = state.fix(corrections) if not found.rivals else ()
    if found.accel_unit != "m/s²":
        words = f"the accelerometer of {name} is in {found.accel_unit}, not in m/s²; write the unit"
        state.add(Finding("fault", "accelerometer-unit", name, words, fix))
    if found.gyro_unit != "rad/s":
        words = f"the gyro of {name} is in {found.gyro_unit}, not in rad/s; write the unit"
        state.add(Finding("fault", "gyro-unit", name, words, fix))
    together = np.array_equal(found.accel_axes, found.gyro_axes)
    parts = {"": found.accel_axes} if together else {"accelerometer of ": found.accel_axes, "gyro of ": found.gyro_axes}
    for part, turn in parts.items():
        if is_identity(turn):
            continue
        if found.rivals:
            words = (
                f"{part}{name} is not mounted as the setup says, but the robot moves too little to tell which of "
                f"{found.rivals + 1} ways is right; record it while it leans and turns"
            )
        else:
            words = f"{part}{name} is {describe_mounting(turn)}; turn the frame, or write into the setup"
        state.add(Finding("fault", "inertial-axes", name, f"the {words}", fix))
    if found.rivals:
        state.base_known = False
    else:
        state.correct(corrections)
