"""Errors against the truth, which is known in the virtual laboratory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.model import affine_distance
from steelyard.report.sections.panels import NAME_AXIS, as_label
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.report.report import Report


def _distance(parameters: FloatArray, truth: FloatArray) -> float | None:
    """Return the RMS affine-invariant distance of the links; None if a link is physically impossible."""
    distances = affine_distance(parameters, truth)
    return float(np.sqrt(np.mean(np.square(distances)))) if np.all(np.isfinite(distances)) else None


def show_truth(report: Report) -> Section | None:
    """Compare model file and estimate with the truth; None where it is not known."""
    truth = report.truth
    if truth is None:
        return None
    estimate = report.estimate
    candidates = {"reference": np.asarray(estimate.reference), "estimate": np.asarray(estimate.parameters)}
    rows = []
    for role, called in (("reference", "model file"), ("estimate", "identified")):
        parameters = candidates[role]
        masses = parameters[:, 0] - truth[:, 0]
        there = (parameters[:, 0] > 0.0) & (truth[:, 0] > 0.0)
        coms = parameters[there, 1:4] / parameters[there, :1] - truth[there, 1:4] / truth[there, :1]
        rows.append(
            {
                "called": called,
                "mass": 1e3 * float(np.sqrt(np.mean(np.square(masses)))),
                "total": 1e3 * float(masses.sum()),
                "com": 1e3 * float(np.sqrt(np.mean(np.sum(np.square(coms), axis=1)))),
                "distance": _distance(parameters, truth),
            }
        )
    labels = [as_label(link) for link in estimate.model.links]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "model file" if role == "reference" else "identified",
            "x": np.round(1e3 * (parameters[:, 0] - truth[:, 0]), 2),
            "y": labels,
            "meta": {"role": role},
            "marker": {"symbol": "x" if role == "reference" else "circle", "size": 9},
            "hovertemplate": "%{x:+.0f} g",
        }
        for role, parameters in candidates.items()
    ]
    layout = {
        "xaxis": {"title": {"text": "mass minus true mass (g)"}, "zeroline": True},
        "yaxis": NAME_AXIS,
        "margin": {"l": 60, "r": 12, "t": 36, "b": 44},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    figure = Figure(
        data, layout, "Error of each link's mass before and after, against the truth.", 110 + 20 * len(labels)
    )
    return Section("truth", "Truth", "truth.html", {"rows": rows}, {"truth": figure})
