"""The table of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification import half_width
from steelyard.report.sections.section import Section

if TYPE_CHECKING:
    from steelyard.report.report import Report


def list_links(report: Report) -> Section:
    """List masses with intervals, shifts of the centres of mass, and how far the data determined each link."""
    estimate = report.estimate
    before, after = np.asarray(estimate.reference), np.asarray(estimate.parameters)
    width = half_width(0.95, estimate.freedom)
    rows = []
    for row, link in enumerate(estimate.model.links):
        masses = before[row, 0], after[row, 0]
        moved = (
            1e3 * float(np.linalg.norm(after[row, 1:4] / masses[1] - before[row, 1:4] / masses[0]))
            if min(masses) > 0.0
            else None
        )
        rows.append(
            {
                "link": link,
                "before": float(masses[0]),
                "after": float(masses[1]),
                "interval": width * float(estimate.standard_errors[row, 0]),
                "kilograms": float(masses[1] - masses[0]),
                "percent": 100.0 * float(masses[1] / masses[0] - 1.0) if masses[0] > 0.0 else None,
                "moved": moved,
                "determined": 100.0 * float(estimate.determined[row, :4].mean()),
                "truth": None if report.truth is None else float(report.truth[row, 0]),
            }
        )
    total = {
        "before": float(before[:, 0].sum()),
        "after": estimate.total_mass,
        "interval": width * estimate.total_mass_error,
        "truth": None if report.truth is None else float(report.truth[:, 0].sum()),
    }
    context = {"rows": rows, "total": total, "known": report.truth is not None}
    return Section("links", "Links", "links.html", context)
