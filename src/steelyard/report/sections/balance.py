"""What a better model is worth: the same balance controller on the same robot, with one model or another to believe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.packing import pack_numbers
from steelyard.report.sections.labels import as_label, panel_title
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory import BalanceRun

_ROLES = ("measured", "reference", "estimate", "truth")


def show_balance(runs: Mapping[str, BalanceRun]) -> Section:
    """Gives how far centre of mass and zero-moment point strayed, by whom the controller believed.

    Args:
        runs: By what the controller believed, in words, worst first; at most four of them are drawn.
    """
    rows: list[dict[str, Any]] = []
    for words, run in runs.items():
        fall = run.fall
        row: dict[str, Any] = {"believed": words, "fall": None if fall is None else f"{fall.start:.2f}"}
        if fall is None:
            row |= {
                "com": 1e3 * run.com_error.rms,
                "com_greatest": 1e3 * run.com_error.greatest,
                "zmp": 1e3 * run.zmp_error.rms,
                "zmp_greatest": 1e3 * run.zmp_error.greatest,
            }
        rows.append(row)
    data, panels = [], ("centre of mass: distance from its reference (mm)", "zero-moment point: the same (mm)")
    for role, (words, run) in zip(_ROLES, runs.items(), strict=False):
        data += [_line(words, role, place, run.time, strayed) for place, strayed in enumerate(_distances(run))]
    standing = [run for run in runs.values() if run.fall is None] or list(runs.values())
    most = 1.15 * np.max([[strayed.max() for strayed in _distances(run)] for run in standing], axis=0)
    layout: dict[str, Any] = {
        "grid": {"rows": 2, "columns": 1, "pattern": "independent", "ygap": 0.25},
        "margin": {"l": 56, "r": 12, "t": 64, "b": 48},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "top", "yref": "container", "x": 0},
        "hovermode": "x",
        "xaxis2": {"matches": "x", "title": {"text": "time (s)"}},
        "xaxis": {"title": {"text": ""}},
        # What falls leaves the picture, so that what stands is seen.
        "yaxis": {"range": [0.0, float(most[0])]},
        "yaxis2": {"range": [0.0, float(most[1])]},
        "annotations": [panel_title(words, suffix) for words, suffix in zip(panels, ("", "2"), strict=True)],
    }
    alt = "How far centre of mass and zero-moment point were from where they should have been, for each model."
    return Section("balance", "Balance", "balance.html", {"rows": rows}, {"balance": Figure(data, layout, alt, 460)})


def _distances(run: BalanceRun) -> tuple[FloatArray, FloatArray]:
    """Gives how far centre of mass and zero-moment point were from their references, mm."""
    pairs = ((run.com, run.com_reference), (run.zmp, run.zmp_reference))
    com, zmp = (1e3 * np.linalg.norm(actual - wanted, axis=1) for actual, wanted in pairs)
    return com, zmp


def _line(words: str, role: str, place: int, time: FloatArray, distance: FloatArray) -> dict[str, Any]:
    suffix = "" if place == 0 else "2"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": as_label(words),
        "legendgroup": role,
        "showlegend": place == 0,
        "meta": {"role": role},
        "x": pack_numbers(time),
        "y": pack_numbers(distance),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "hovertemplate": "%{y:.1f} mm",
    }
