"""The robot in three dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.packing import pack_indices, pack_numbers
from steelyard.report.scene import build_scene
from steelyard.report.sections.section import Section

if TYPE_CHECKING:
    from steelyard.report.report import Report


def show_robot(report: Report) -> tuple[Section, dict[str, Any]]:
    """Gives the section, and what the page draws the robot from."""
    estimate = report.estimate
    scene = build_scene(estimate)
    before, after = np.asarray(estimate.reference), np.asarray(estimate.parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100.0 * (after[:, 0] / before[:, 0] - 1.0)
    determined = 100.0 * estimate.determined[:, :4].mean(axis=1)
    links = [
        {
            "name": shape.name,
            "vertices": pack_numbers(shape.vertices),
            "triangles": pack_indices(shape.triangles),
            "com": shape.coms,
            "ellipsoid": shape.ellipsoids,
            "mass": [before[row, 0], after[row, 0]],
            "error": estimate.standard_errors[row, 0],
            "change": change[row],
            "determined": determined[row],
        }
        for row, shape in enumerate(scene.links)
    ]
    finite = np.abs(change[np.isfinite(change)])
    most = max(5.0, float(np.ceil(np.max(finite, initial=0.0) / 5.0) * 5.0))
    drawn = {"links": links, "joints": pack_numbers(scene.joints), "most_change": min(most, 100.0)}
    bare = [shape.name for shape in scene.links if not len(shape.triangles)]
    context = {
        "unread": list(scene.unread[:3]),
        "unread_count": len(scene.unread),
        "bare": bare,
        "most_change": drawn["most_change"],
    }
    return Section("robot", "Robot", "robot.html", context), drawn
