"""Measured and predicted wrenches over time, residuals and their spectra, and contacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.packing import pack_numbers
from steelyard.report.sections.panels import as_label, axis_suffix, panel_line, panel_title
from steelyard.report.sections.section import Figure, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.report.report import Report
    from steelyard.report.traces import Trace

ROLES = {"measured": "measured", "reference": "model file", "estimate": "identified", "truth": "truth"}
"""Names of the lines in legends, by role."""

_MOST_ROWS = 12
"""Rows that are plotted: six axes of the wrench and six torques. Set by judgement: more would slow the page down."""

_COLUMNS = 2
"""Panels side by side: forces left, moments right of them on a laptop's screen."""

_ROW_HEIGHT = 200
"""Height of a panel, pixels. Set by judgement: three rows fill a screen."""


def show_wrenches(report: Report) -> Section:
    """Plot measured and predicted wrenches and torques of each recording over time."""
    figures = {f"wrench-{number}": _over_time(trace) for number, trace in enumerate(report.traces)}
    return Section("wrenches", "Wrenches", "wrenches.html", {"traces": _tabs(report.traces)}, figures)


def show_residuals(report: Report) -> Section:
    """Plot the residuals of each recording over time, and their spectra."""
    figures: dict[str, Figure] = {}
    for number, trace in enumerate(report.traces):
        figures[f"residual-{number}"] = _residuals(trace)
        if trace.spectrum is not None:
            figures[f"spectrum-{number}"] = _spectrum(trace)
    tabs = [
        tab | {"spectrum": trace.spectrum is not None}
        for tab, trace in zip(_tabs(report.traces), report.traces, strict=True)
    ]
    return Section("residuals", "Residuals", "residuals.html", {"traces": tabs}, figures)


def show_contacts(report: Report) -> Section | None:
    """Plot contact phases and loads of the soles; None where no recording has contacts."""
    traces = [trace for trace in report.traces if trace.contacts]
    if not traces:
        return None
    figures = {f"contact-{number}": _contacts(trace) for number, trace in enumerate(traces)}
    return Section("contacts", "Contacts", "contacts.html", {"traces": _tabs(traces)}, figures)


def _tabs(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    return [
        {
            "name": trace.name,
            "purpose": trace.purpose,
            "duration": trace.duration,
            "every": trace.every,
            "base": trace.base,
            "bandwidth": trace.bandwidth,
            "left_out": max(0, len(trace.rows) - _MOST_ROWS),
            "rows": [
                {"row": row, "unit": unit, **{each: float(values[panel]) for each, values in trace.rmse.items()}}
                for panel, (row, unit) in enumerate(zip(trace.rows, trace.units, strict=True))
            ],
        }
        for trace in traces
    ]


def _grid(trace: Trace, quantity: str, *, x_title: str, log: bool = False) -> tuple[dict[str, Any], int]:
    """Return the layout of one panel per row, two side by side, all with the same horizontal axis, and its height."""
    count = min(len(trace.rows), _MOST_ROWS)
    lines = max(1, -(-count // _COLUMNS))
    layout: dict[str, Any] = {
        "grid": {"rows": lines, "columns": _COLUMNS, "pattern": "independent", "ygap": 0.32, "xgap": 0.14},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "top", "yref": "container", "x": 0},
        "margin": {"l": 60, "r": 16, "t": 56, "b": 64},
        "hovermode": "x",
        "annotations": [],
    }
    for panel in range(count):
        suffix = axis_suffix(panel)
        last = panel >= count - _COLUMNS
        layout[f"xaxis{suffix}"] = {
            "matches": "x" if panel else None,
            "title": {"text": x_title if last else "", "standoff": 6},
        }
        layout[f"yaxis{suffix}"] = {"title": {"text": ""}, "nticks": 5}
        if log:
            layout[f"yaxis{suffix}"] |= {"type": "log", "exponentformat": "power", "dtick": 1}
            layout[f"xaxis{suffix}"] |= {"type": "log", "dtick": "D2"}
        title = f"{as_label(trace.rows[panel])} ({quantity.format(unit=as_label(trace.units[panel]))})"
        layout["annotations"].append(panel_title(title, panel))
    return layout, 80 + _ROW_HEIGHT * lines


def _line(trace: Trace, panel: int, role: str, x: FloatArray, y: FloatArray) -> dict[str, Any]:
    return panel_line(ROLES[role], role, panel, x, y, f"%{{y:.4g}} {as_label(trace.units[panel])}")


def _broken(trace: Trace, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Insert NaN at gaps of the motion, so that no line is drawn across."""
    rows = np.searchsorted(trace.time, trace.breaks)
    return np.insert(trace.time, rows, np.nan), np.insert(values, rows, np.nan)


def _over_time(trace: Trace) -> Figure:
    layout, height = _grid(trace, "{unit}", x_title="time (s)")
    data = []
    for panel in range(min(len(trace.rows), _MOST_ROWS)):
        data.append(_line(trace, panel, "measured", *_broken(trace, trace.measured[:, panel])))
        data += [
            _line(trace, panel, role, *_broken(trace, trace.predicted[role][:, panel]))
            for role in ("reference", "estimate")
        ]
    alt = f"Forces and moments of {trace.name} over time: measured, and predicted by both models."
    return Figure(data, layout, alt, height)


def _residuals(trace: Trace) -> Figure:
    layout, height = _grid(trace, "error, {unit}", x_title="time (s)")
    data = []
    for panel in range(min(len(trace.rows), _MOST_ROWS)):
        data += [
            _line(trace, panel, role, *_broken(trace, trace.predicted[role][:, panel] - trace.measured[:, panel]))
            for role in ("reference", "estimate")
        ]
    alt = f"Residuals of the model file and of the identified model on {trace.name}, over time."
    return Figure(data, layout, alt, height)


def _spectrum(trace: Trace) -> Figure:
    spectrum = trace.spectrum
    assert spectrum is not None  # noqa: S101  (the caller checked)
    layout, height = _grid(trace, "{unit}/√Hz", x_title="frequency (Hz)", log=True)
    data = []
    for panel in range(min(len(trace.rows), _MOST_ROWS)):
        # Quantised evenly, numbers over many decades would be lost: logarithms are packed.
        lines = {"measured": spectrum.measured} | {
            role: spectrum.residuals[role] for role in ("reference", "estimate") if role in spectrum.residuals
        }
        for role, values in lines.items():
            line = _line(trace, panel, role, spectrum.frequency, values[:, panel])
            line["y"] = pack_numbers(np.log10(np.maximum(values[:, panel], 1e-12))) | {"power_of_ten": True}
            data.append(line)
    alt = f"Spectra of the measured values of {trace.name} and of the residuals of both models."
    return Figure(data, layout, alt, height)


def _contacts(trace: Trace) -> Figure:
    soles = list(trace.contacts)
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": as_label(sole),
            "base": [start for start, _ in trace.contacts[sole]],
            "x": [end - start for start, end in trace.contacts[sole]],
            "y": [as_label(sole)] * len(trace.contacts[sole]),
            "meta": {"role": f"sole-{panel % 4}"},
            "showlegend": False,
            "hovertemplate": "%{base:.2f} s, for %{x:.2f} s",
            "width": 0.5,
        }
        for panel, sole in enumerate(soles)
    ]
    loads = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": as_label(sole),
            **dict(zip("xy", map(pack_numbers, _broken(trace, trace.loads[sole])), strict=True)),
            "meta": {"role": f"sole-{panel % 4}"},
            "xaxis": "x",
            "yaxis": "y2",
            "hovertemplate": "%{y:.4g} N",
        }
        for panel, sole in enumerate(soles)
        if sole in trace.loads
    ]
    layout = {
        "barmode": "overlay",
        "margin": {"l": 90, "r": 12, "t": 30, "b": 44},
        "xaxis": {"title": {"text": "time (s)"}, "anchor": "y2"},
        "yaxis": {"domain": [0.66, 1.0], "autorange": "reversed", "type": "category"},
        "yaxis2": {"domain": [0.0, 0.56], "title": {"text": "load (N)"}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    }
    alt = f"Contact phases of each sole in {trace.name}, and the force on it."
    return Figure([*bars, *loads], layout, alt, 320)
