"""Joint offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.sections.panels import joint_unit
from steelyard.report.sections.section import Section

if TYPE_CHECKING:
    from steelyard.report.report import Report


def show_offsets(report: Report) -> Section | None:
    """List the offsets that were added to the encoder readings; None without any."""
    if not report.offsets:
        return None
    calibration, model = report.calibration, report.estimate.model
    rows = []
    for joint, value in report.offsets.items():
        scale, unit = joint_unit(model.joint(joint)) if joint in model.joints else (float(np.rad2deg(1.0)), "°")
        known = calibration is not None and joint in calibration.standard_errors
        rows.append(
            {
                "joint": joint,
                "unit": unit,
                "value": scale * value,
                "error": scale * calibration.standard_errors[joint] if known and calibration is not None else None,
                "observable": calibration.observable[joint] if known and calibration is not None else None,
                "truth": scale * report.true_offsets[joint] if joint in report.true_offsets else None,
            }
        )
    context = {
        "rows": rows,
        "known": bool(report.true_offsets),
        "errors": any(row["error"] is not None for row in rows),
        "undetermined": [] if calibration is None else list(calibration.undetermined),
        "notes": [] if calibration is None else list(calibration.notes),
    }
    return Section("offsets", "Joint offsets", "offsets.html", context)
