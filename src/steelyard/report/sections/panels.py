"""Parts of figures that several sections share: escaped names, titles of panels, lines and axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.packing import pack_numbers

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Joint

NAME_AXIS = {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1}
"""A vertical axis of names, from top to bottom."""


def as_label(name: str) -> str:
    """Escape what plotly would take for markup in a name."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def axis_suffix(panel: int) -> str:
    """Return the suffix of a panel's axes in plotly: "" for the first, then "2", "3", ..."""
    return str(panel + 1) if panel else ""


def panel_title(title: str, panel: int) -> dict[str, Any]:
    """Return the annotation of plotly for the title above a panel of a figure."""
    return {
        "text": title,
        "xref": f"x{axis_suffix(panel)} domain",
        "yref": f"y{axis_suffix(panel)} domain",
        "x": 0.0,
        "y": 1.0,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def panel_line(name: str, role: str, panel: int, x: FloatArray, y: FloatArray, hover: str) -> dict[str, Any]:
    """Return the trace of plotly for a line in a panel; lines of one role share an entry of the legend."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": as_label(name),
        "legendgroup": role,
        "showlegend": panel == 0,
        "meta": {"role": role},
        "x": pack_numbers(x),
        "y": pack_numbers(y),
        "xaxis": f"x{axis_suffix(panel)}",
        "yaxis": f"y{axis_suffix(panel)}",
        "hovertemplate": hover,
    }


def joint_unit(joint: Joint) -> tuple[float, str]:
    """Return the factor and the unit that positions of a joint are shown in: degrees, or millimetres."""
    return (1e3, "mm") if joint.kind == "prismatic" else (float(np.rad2deg(1.0)), "°")
