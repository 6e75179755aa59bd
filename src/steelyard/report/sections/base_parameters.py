"""Base parameters: estimates from the data alone, with relative standard deviations and correlations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.packing import pack_numbers
from steelyard.report.sections.panels import as_label
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from steelyard.report.report import Report

_MOST_IN_MAP = 150
"""Base parameters in the correlation map at most. Set by judgement: a cell is then about four pixels wide."""

_TERMS = 3
"""Terms of a linear combination that are written out. Set by judgement: as many as fit one line of the table."""


def list_base_parameters(report: Report) -> Section:
    """List every base parameter, by its effect, and the correlations of their errors."""
    base = report.estimate.base
    order = np.argsort(-base.effects * np.abs(base.reference)).tolist()
    intervals = base.intervals()
    rows = [
        {
            "name": base.names[index],
            "stands_for": base.describe(index, terms=_TERMS),
            "value": float(base.values[index]),
            "error": float(base.standard_errors[index]),
            "rsd": float(base.rsd[index]) if np.isfinite(base.rsd[index]) else None,
            "low": float(intervals[index, 0]),
            "high": float(intervals[index, 1]),
            "reference": float(base.reference[index]),
            "effect": float(base.effects[index] * abs(base.values[index])),
            "well": bool(base.well_identified[index]),
        }
        for index in order
    ]
    shown = sorted(order[:_MOST_IN_MAP])
    figures = {}
    if len(shown) > 1:
        names = [as_label(base.names[index]) for index in shown]
        figures["correlation"] = Figure(
            [
                {
                    "type": "heatmap",
                    "z": pack_numbers(base.correlation[np.ix_(shown, shown)]),
                    "x": names,
                    "y": names,
                    "zmin": -1,
                    "zmax": 1,
                    "meta": {"role": "correlation"},
                    "hovertemplate": "%{y}<br>%{x}<br>correlation %{z:.3f}<extra></extra>",
                }
            ],
            {
                "xaxis": {"type": "category", "showticklabels": False, "ticks": "", "constrain": "domain"},
                "yaxis": {
                    "type": "category",
                    "showticklabels": False,
                    "ticks": "",
                    "scaleanchor": "x",
                    "autorange": "reversed",
                    "constrain": "domain",
                },
                "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
            },
            "Correlations of the errors of base parameters; close to ±1 where two are hard to separate.",
            560,
        )
    pairs = [{"one": one, "other": other, "value": value} for one, other, value in base.strongest_pairs(8, above=0.9)]
    context = {
        "rows": rows,
        "rank": base.rank,
        "well": int(np.count_nonzero(base.well_identified)),
        "dropped": list(base.dropped[:12]),
        "dropped_count": len(base.dropped),
        "in_map": len(shown),
        "pairs": pairs,
        "whitened": bool(report.estimate.key.weights),
    }
    return Section("base", "Base parameters", "base_parameters.html", context, figures)
