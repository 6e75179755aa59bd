"""The robot in three dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification import half_width
from steelyard.model import build_scene
from steelyard.report.packing import pack_indices, pack_numbers
from steelyard.report.sections.section import Section
from steelyard.stance import resting_posture

if TYPE_CHECKING:
    from steelyard.report.report import Report


_SATURATION = 90
"""Percentile of the changes of mass at which colours saturate, so that one outlier does not pale the others."""


def _end_of_scale(change: np.ndarray) -> float:
    """Return the change of mass, percent, at which colours saturate."""
    finite = np.abs(change[np.isfinite(change)])
    usual = float(np.percentile(finite, _SATURATION)) if len(finite) else 0.0
    return float(np.clip(5.0 * np.ceil(usual / 5.0), 5.0, 100.0))


def show_robot(report: Report) -> tuple[Section, dict[str, Any]]:
    """Return the section, and the scene that the page draws."""
    estimate = report.estimate
    scene = build_scene(estimate.model, resting_posture(estimate.model), (estimate.reference, estimate.parameters))
    before, after = np.asarray(estimate.reference), np.asarray(estimate.parameters)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = 100.0 * (after[:, 0] / before[:, 0] - 1.0)
    width = half_width(0.95, estimate.freedom)
    determined = 100.0 * estimate.determined[:, :4].mean(axis=1)
    links = [
        {
            "name": shape.name,
            "vertices": pack_numbers(shape.vertices),
            "triangles": pack_indices(shape.triangles),
            "com": shape.coms,
            "ellipsoid": shape.ellipsoids,
            "mass": [before[row, 0], after[row, 0]],
            "interval": width * estimate.standard_errors[row, 0],
            "change": change[row],
            "determined": determined[row],
        }
        for row, shape in enumerate(scene.links)
    ]
    drawn = {"links": links, "joints": pack_numbers(scene.joints), "most_change": _end_of_scale(change)}
    bare = [shape.name for shape in scene.links if not len(shape.triangles)]
    context = {
        "unread": list(scene.unread[:3]),
        "unread_count": len(scene.unread),
        "bare": bare,
        "most_change": drawn["most_change"],
    }
    return Section("robot", "Robot", "robot.html", context), drawn
