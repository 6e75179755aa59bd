"""Excitation of each link, and range of motion of each joint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.sections.labels import as_label
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.regression import Evidence
    from steelyard.report.report import Report

_ROW = 20
"""Height of a bar in a chart of links, pixels: that of its label."""


def show_excitation(report: Report) -> Section:
    """Show how far the data determined each link, the condition numbers, and the range of motion of each joint."""
    evidence, estimate = report.evidence, report.estimate
    determined = 100.0 * estimate.determined[:, :4].mean(axis=1)
    labels = [as_label(link) for link in estimate.model.links]
    figures = {
        "determined": Figure(
            [
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": np.round(determined, 1),
                    "y": labels,
                    "meta": {"role": "estimate"},
                    "hovertemplate": "%{x:.0f} % determined by the data",
                }
            ],
            {
                "xaxis": {"title": {"text": "determined by the data (%)"}, "range": [0, 100]},
                "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1},
                "margin": {"l": 60, "r": 24, "t": 12, "b": 56},
            },
            "How far the data, rather than the model file, determined each link's mass and centre of mass.",
            90 + _ROW * len(labels),
        )
    }
    context = {"conditions": False, "singular": [], "joints": []}
    if evidence is not None:
        conditions = evidence.link_conditions
        figures["conditions"] = _conditions(conditions)
        context = {
            "conditions": True,
            "singular": [link for link, value in conditions.items() if not np.isfinite(value)],
            "joints": _travel(estimate.model, evidence),
        }
    return Section("excitation", "Excitation", "excitation.html", context, figures)


def _conditions(conditions: dict[str, float]) -> Figure:
    finite = [value for value in conditions.values() if np.isfinite(value)]
    most = max(finite, default=1.0)
    return Figure(
        [
            {
                "type": "bar",
                "orientation": "h",
                "x": [value if np.isfinite(value) else most for value in conditions.values()],
                "y": [as_label(link) for link in conditions],
                "text": ["" if np.isfinite(value) else "singular" for value in conditions.values()],
                "meta": {"role": "reference"},
                "hovertemplate": "condition number %{x:.3g} %{text}",
            }
        ],
        {
            "xaxis": {
                "title": {"text": "condition number, smaller is better"},
                "type": "log",
                "exponentformat": "power",
            },
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1},
            "margin": {"l": 60, "r": 24, "t": 12, "b": 56},
        },
        "Condition number of each link's ten columns of the regressor.",
        90 + _ROW * len(conditions),
    )


def _travel(model: Model, evidence: Evidence) -> list[dict[str, object]]:
    rows = []
    for name, (low, high) in evidence.travel.items():
        joint = model.joint(name)
        slides = joint.kind == "prismatic"
        scale, unit = (1e3, "mm") if slides else (float(np.rad2deg(1.0)), "°")
        room = joint.upper - joint.lower
        rows.append(
            {
                "joint": name,
                "low": scale * low,
                "high": scale * high,
                "unit": unit,
                "share": 100.0 * (high - low) / room if np.isfinite(room) and room > 0.0 else None,
            }
        )
    return rows
