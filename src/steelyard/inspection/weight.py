"""Mean vertical force compared with the model's weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding, write_fix
from steelyard.model import STANDARD_GRAVITY, WRENCH_AXES, ColumnSource
from steelyard.motion import GRAVITY, frame_motion, neutral_posture, sole_normal
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.inspection.findings import Severity
    from steelyard.inspection.survey import Survey
    from steelyard.model import Model, Setup

_REMARK = 0.02
"""Relative difference of force and weight from which a remark is made. Set by judgement: usual gain errors of wrench
sensors."""

_WARNING = 0.25
"""Relative difference from which it is a warning. Set by judgement: more than CAD masses are off; true robots of the
laboratory differ by 20 % a link."""

_PLAUSIBLE = 0.2
"""Relative difference within which another sign or unit explains the force. Set by judgement, below `_WARNING`."""


def check_weight(
    model: Model, setup: Setup, survey: Survey, corrections: Mapping[str, ColumnSource]
) -> tuple[Finding | None, dict[str, float]]:
    """Compare the mean force along the soles' normals with the weight that the sensors carry.

    Args:
        model: The model.
        setup: The setup whose map was applied when the recording was read.
        survey: Survey of the recording.
        corrections: By column, its true source in the recording.

    Returns:
        A finding or None, and ``force`` and ``weight`` (N); empty if a sole has no sensor.
    """
    total, carried = 0.0, np.ones(len(model.bodies), dtype=np.bool_)
    by_name = {sensor.name: sensor for sensor in model.setup.wrench_sensors}
    soles = [sole for sole in model.setup.soles if sole.wrench is not None]
    if not soles or len(soles) < len(model.setup.soles) or model.base != "floating":
        return None, {}
    posture = neutral_posture(model)
    linked = {str(sole.wrench): sole for sole in soles}
    if any(sensor.at == "ground" and sensor.name not in linked for sensor in model.setup.wrench_sensors):
        return None, {}
    for sole in linked.values():
        sensor = by_name[str(sole.wrench)]
        to_sensor = frame_motion(model, posture, sensor.frame).rotation[0].T
        normal = to_sensor @ frame_motion(model, posture, sole.frame).rotation[0] @ sole_normal(model, sole)
        needed = [axis for axis, share in zip(WRENCH_AXES[:3], normal, strict=True) if abs(share) > 0.05]
        for axis, share in zip(WRENCH_AXES[:3], normal, strict=True):
            source = corrections.get(f"{sensor.name}.{axis}", ColumnSource(f"{sensor.name}.{axis}"))
            column = survey.columns.get(source.name)
            if axis in sensor.axes and column is not None and column.count:
                sign = 1.0 if sensor.sign == "on_robot" else -1.0
                total += sign * share * (source.scale * column.mean + source.offset)
            elif axis in needed:
                return None, {}
        if sensor.at == "joint":
            carried &= ~model.tree.subtrees[model.frame(sensor.frame).body]
    masses = np.zeros(len(model.bodies))
    masses[list(model.link_bodies)] = model.parameters[:, 0]
    weight = GRAVITY * float(masses[carried].sum())
    numbers = {"force": float(total), "weight": weight}
    share = total / weight - 1.0
    if abs(share) < _REMARK:
        return None, numbers
    names = list(linked)
    for code, factor, words in (
        ("wrench-sign", -1.0, "read with the opposite sign: their sum points downwards"),
        ("wrench-unit", STANDARD_GRAVITY, "seem to read in kilograms: their sum is a tenth of the robot's weight"),
    ):
        if abs(factor * total / weight - 1.0) < _PLAUSIBLE:
            fix = {
                f"{name}.{axis}": ColumnSource(f"{name}.{axis}", factor)
                for name in names
                for axis in by_name[name].axes
            }
            return Finding("fault", code, names[0], f"{in_words(names)} {words}", write_fix(setup, fix)), numbers
    severity: Severity = "warning" if abs(share) > _WARNING else "remark"
    side = "above" if share > 0.0 else "below"
    advice = (
        "weigh the robot: the model's mass or the sensors' gain is wrong, or something else carries part of it"
        if severity == "warning"
        else "weigh the robot to find out whether the model or the sensors are off"
    )
    return (
        Finding(
            severity,
            "weight",
            "wrench sensors",
            f"the mean vertical force is {total:.1f} N, {100.0 * abs(share):.1f} % {side} the {weight:.1f} N that the "
            f"model weighs{' above the sensors' if not carried.all() else ''}; {advice}",
        ),
        numbers,
    )
