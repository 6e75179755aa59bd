"""Checks of the sensors against the model's physics, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exceptions import EvidenceError, MotionError
from steelyard.inspection.imu_checks import check_imus
from steelyard.inspection.wrench_checks import check_wrenches

if TYPE_CHECKING:
    from steelyard.inspection.check_state import SensorChecks


def check_sensors(state: SensorChecks) -> None:
    """Check the sensors against the model, and add findings.

    The IMUs come first: wrench sensors are checked with the motion that these measure.
    """
    what = "the mounting of the wrench sensors"
    try:
        check_imus(state)
    except MotionError as error:
        state.skip("the mounting of the IMUs", str(error))
    if not state.sensors:
        return
    setup = state.model.setup
    recorded = {sensor.name for sensor in state.sensors}
    silent = [sole.wrench for sole in setup.soles if sole.wrench is not None and sole.wrench not in recorded]
    if silent:
        state.skip(what, f"{silent[0]}, the sensor of a foot, has no usable readings")
        return
    if not state.base_known:
        state.skip(what, "the IMU, which measures the base's motion, must be corrected first")
        return
    try:
        motions = state.motions()
        if motions is None:
            state.skip(what, "there is neither an IMU nor a sole to take the base's motion from")
            return
        check_wrenches(state, motions)
    except (EvidenceError, MotionError) as error:
        state.skip(what, str(error))
