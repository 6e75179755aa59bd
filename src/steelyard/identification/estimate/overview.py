"""An estimate in a few numbers a link, for programs and spreadsheets: no matrices."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from steelyard.identification.estimate.base_parameters import half_width

if TYPE_CHECKING:
    from steelyard.identification.estimate.estimate import Estimate

_COLUMNS = ("name", "mass", "low", "high", "reference", "com_x", "com_y", "com_z", "determined")


def overview(estimate: Estimate, level: float = 0.95) -> dict[str, Any]:
    """Return status, total mass and links of an estimate, with intervals, ready for JSON.

    Args:
        estimate: The estimate.
        level: Confidence level of the intervals.
    """
    half = half_width(level, estimate.freedom) * estimate.total_mass_error
    total = estimate.total_mass
    return {
        "status": estimate.status,
        "method": estimate.method,
        "total_mass": {
            "value": total,
            "low": total - half,
            "high": total + half,
            "reference": estimate.model.total_mass,
        },
        "links": _links(estimate, level),
        "notes": list(estimate.notes),
    }


def links_as_csv(estimate: Estimate, level: float = 0.95) -> str:
    """Return a table of the links as CSV text: mass (kg) with its interval, centre of mass (m), share of the data."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_links(estimate, level))
    return text.getvalue()


def _links(estimate: Estimate, level: float) -> list[dict[str, Any]]:
    rows = []
    intervals = estimate.intervals(level)
    for row, name in enumerate(estimate.model.links):
        mass = float(estimate.parameters[row, 0])
        centre = (estimate.parameters[row, 1:4] / mass).tolist() if mass > 0.0 else [None, None, None]
        rows.append(
            {
                "name": name,
                "mass": mass,
                "low": float(intervals[row, 0, 0]),
                "high": float(intervals[row, 0, 1]),
                "reference": float(estimate.reference[row, 0]),
                **dict(zip(("com_x", "com_y", "com_z"), centre, strict=True)),
                "determined": float(estimate.determined[row, 0]),
            }
        )
    return rows
