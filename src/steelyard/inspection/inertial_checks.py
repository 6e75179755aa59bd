"""What is said of inertial sensors that are turned or in other units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding
from steelyard.inspection.inertial import (
    ACCELEROMETER_UNITS,
    GYRO_UNITS,
    InertialMounting,
    find_inertial_mounting,
    predict_readings,
)
from steelyard.inspection.state import CUTOFF, SensorChecks, turned_columns
from steelyard.inspection.turns import describe_mounting, is_same

if TYPE_CHECKING:
    from steelyard.model import ColumnSource

_BAD_MISFIT = 4.0


def check_inertial(state: SensorChecks) -> None:
    """Holds the inertial sensors against the legs.

    Raises:
        MotionError: A stretch is too short or its rate too low.
    """
    for imu in state.imus:
        what = f"the mounting of {imu.name}"
        if len(state.model.setup.soles) < 2:
            state.skip(what, "it takes two soles that stand still together, and the setup does not name two")
            continue
        seen = predict_readings(state.model, state.stretches, imu, CUTOFF)
        if seen is None:
            state.skip(what, "the feet never stand still together; record a stretch of standing")
            continue
        found = find_inertial_mounting(imu.name, seen)
        if not found.as_stated:
            _say(state, found)
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


def _say(state: SensorChecks, found: InertialMounting) -> None:
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
        ("accel", found.accel_turn, ACCELEROMETER_UNITS[found.accel_unit]),
        ("gyro", found.gyro_turn, GYRO_UNITS[found.gyro_unit]),
    ):
        if not is_same(turn) or scale != 1.0:
            corrections |= turned_columns(f"{name}.{kind}.", f"{name}.{kind}.", turn, scale)
    # A robot that hardly moves does not tell turns about the vertical apart: then no fix is sure.
    fix = state.fix(corrections) if not found.rivals else ()
    if found.accel_unit != "m/s²":
        words = f"the accelerometer of {name} is in {found.accel_unit}, not in m/s²; write the unit"
        state.add(Finding("fault", "accelerometer-unit", name, words, fix))
    if found.gyro_unit != "rad/s":
        words = f"the gyro of {name} is in {found.gyro_unit}, not in rad/s; write the unit"
        state.add(Finding("fault", "gyro-unit", name, words, fix))
    together = np.array_equal(found.accel_turn, found.gyro_turn)
    parts = {"": found.accel_turn} if together else {"accelerometer of ": found.accel_turn, "gyro of ": found.gyro_turn}
    for part, turn in parts.items():
        if is_same(turn):
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
