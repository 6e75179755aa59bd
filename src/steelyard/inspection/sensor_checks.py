"""The checks that need the model's physics, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exceptions import EvidenceError, MotionError
from steelyard.inspection.inertial_checks import check_inertial
from steelyard.inspection.wrench_checks import check_wrenches

if TYPE_CHECKING:
    from steelyard.inspection.state import SensorChecks


def check_sensors(state: SensorChecks) -> None:
    """Adds what the physics says of the sensors to what is known already.

    The inertial sensors come first: wrench sensors are judged in the motion that these tell of.
    """
    what = "the mounting of the wrench sensors"
    try:
        check_inertial(state)
    except MotionError as error:
        state.skip("the mounting of the inertial sensors", str(error))
    if not state.sensors:
        return
    setup = state.model.setup
    recorded = {sensor.name for sensor in state.sensors}
    silent = [sole.wrench for sole in setup.soles if sole.wrench is not None and sole.wrench not in recorded]
    if silent:
        state.skip(what, f"{silent[0]} of a foot that may stand has no usable readings")
        return
    if not state.base_known:
        state.skip(what, "the inertial sensor, which tells how the robot moves, must be put right first")
        return
    try:
        motions = state.motions()
        if motions is None:
            state.skip(what, "there is neither an inertial sensor nor a sole to stand on")
            return
        check_wrenches(state, motions)
    except (EvidenceError, MotionError) as error:
        state.skip(what, str(error))
