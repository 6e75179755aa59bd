"""Excitation of each link, and range of motion of each joint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.sections.panels import NAME_AXIS, as_label, joint_unit
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model import Model
    from steelyard.regression import Evidence
    from steelyard.report.report import Report

_ROW = 20
"""Height of a bar in a chart of links, pixels: that of its label."""


def show_excitation(report: Report) -> Section:
    """Show how far the data determined each link, the condition numbers, and the range of motion of each joint."""
    evidence, estimate = report.evidence, report.estimate
    determined = 100.0 * estimate.determined[:, :4].mean(axis=1)
    figures = {
        "determined": _bars(
            dict(zip(estimate.model.links, np.round(determined, 1).tolist(), strict=True)),
            {"title": {"text": "determined by the data (%)"}, "range": [0, 100]},
            "How far the data, rather than the model file, determined each link's mass and centre of mass.",
            meta={"role": "estimate"},
            hovertemplate="%{x:.0f} % determined by the data",
        )
    }
    context: dict[str, Any] = {"conditions": False, "singular": [], "joints": []}
    if evidence is not None:
        conditions = evidence.link_conditions
        largest = max((value for value in conditions.values() if np.isfinite(value)), default=1.0)
        figures["conditions"] = _bars(
            {link: value if np.isfinite(value) else largest for link, value in conditions.items()},
            {"title": {"text": "condition number, smaller is better"}, "type": "log", "exponentformat": "power"},
            "Condition number of each link's ten columns of the regressor.",
            text=["" if np.isfinite(value) else "singular" for value in conditions.values()],
            meta={"role": "reference"},
            hovertemplate="condition number %{x:.3g} %{text}",
        )
        singular = [link for link, value in conditions.items() if not np.isfinite(value)]
        context = {"conditions": True, "singular": singular, "joints": _list_ranges(estimate.model, evidence)}
    return Section("excitation", "Excitation", "excitation.html", context, figures)


def _bars(values: Mapping[str, float], x_axis: dict[str, Any], alt: str, **trace: Any) -> Figure:
    bars = {"type": "bar", "orientation": "h", "x": list(values.values()), "y": [as_label(link) for link in values]}
    layout = {"xaxis": x_axis, "yaxis": NAME_AXIS, "margin": {"l": 60, "r": 24, "t": 12, "b": 56}}
    return Figure([bars | trace], layout, alt, 90 + _ROW * len(values))


def _list_ranges(model: Model, evidence: Evidence) -> list[dict[str, object]]:
    rows = []
    for name, (low, high) in evidence.travel.items():
        joint = model.joint(name)
        scale, unit = joint_unit(joint)
        room = joint.upper - joint.lower
        share = 100.0 * (high - low) / room if np.isfinite(room) and room > 0.0 else None
        rows.append({"joint": name, "low": scale * low, "high": scale * high, "unit": unit, "share": share})
    return rows
