"""Benefit of a better model: the same balance controller on the same robot, with different models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.sections.panels import panel_line, panel_title
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory import BalanceRun

_ROLES = ("measured", "reference", "estimate", "truth")


def show_balance(runs: Mapping[str, BalanceRun]) -> Section:
    """Show tracking errors of centre of mass and zero-moment point, by the model of the controller.

    Args:
        runs: Balance runs by the name of the controller's model, worst first; at most four are plotted.
    """
    rows: list[dict[str, Any]] = []
    for name, run in runs.items():
        fall = run.fall
        row: dict[str, Any] = {"model": name, "fall": None if fall is None else f"{fall.start:.2f}"}
        if fall is None:
            row |= {
                "com": 1e3 * run.com_error.rms,
                "com_greatest": 1e3 * run.com_error.greatest,
                "zmp": 1e3 * run.zmp_error.rms,
                "zmp_greatest": 1e3 * run.zmp_error.greatest,
            }
        rows.append(row)
    data, panels = [], ("error of the centre of mass (mm)", "error of the zero-moment point (mm)")
    for role, (name, run) in zip(_ROLES, runs.items(), strict=False):
        errors = enumerate(_errors(run))
        data += [panel_line(name, role, panel, run.time, error, "%{y:.1f} mm") for panel, error in errors]
    standing = [run for run in runs.values() if run.fall is None] or list(runs.values())
    most = 1.15 * np.max([[error.max() for error in _errors(run)] for run in standing], axis=0)
    layout: dict[str, Any] = {
        "grid": {"rows": 2, "columns": 1, "pattern": "independent", "ygap": 0.25},
        "margin": {"l": 56, "r": 12, "t": 64, "b": 48},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "top", "yref": "container", "x": 0},
        "hovermode": "x",
        "xaxis2": {"matches": "x", "title": {"text": "time (s)"}},
        "xaxis": {"title": {"text": ""}},
        # Scaled to the runs without a fall.
        "yaxis": {"range": [0.0, float(most[0])]},
        "yaxis2": {"range": [0.0, float(most[1])]},
        "annotations": [panel_title(title, panel) for panel, title in enumerate(panels)],
    }
    alt = "Tracking errors of centre of mass and zero-moment point over time, for each model."
    return Section("balance", "Balance", "balance.html", {"rows": rows}, {"balance": Figure(data, layout, alt, 460)})


def _errors(run: BalanceRun) -> tuple[FloatArray, FloatArray]:
    """Return the distances of centre of mass and zero-moment point from their references, mm."""
    pairs = ((run.com, run.com_reference), (run.zmp, run.zmp_reference))
    com, zmp = (1e3 * np.linalg.norm(actual - wanted, axis=1) for actual, wanted in pairs)
    return com, zmp
