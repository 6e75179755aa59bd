"""Notes, active constraints and nuisance values; provenance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from steelyard.report.sections.section import Section

if TYPE_CHECKING:
    from steelyard.report.report import Report


def list_notes(report: Report) -> Section:
    """List all notes, numbered consecutively, active constraints and nuisance values."""
    groups = [("On the estimate", list(report.estimate.notes))]
    if report.validation is not None:
        groups.append(("On the validation", list(report.validation.notes)))
    if report.remarks:
        groups.append(("On the recordings", list(report.remarks)))
    numbered, number = [], 0
    for title, notes in groups:
        if notes:
            numbered.append({"title": title, "start": number + 1, "notes": notes})
            number += len(notes)
    nuisance = [{"name": name, "value": float(value)} for name, value in report.estimate.nuisance.items()]
    context = {"groups": numbered, "nuisance": nuisance, "active": list(report.estimate.active)}
    return Section("notes", "Notes", "notes.html", context)


def show_provenance(report: Report) -> Section:
    """List hashes, options and other facts, and the command that made the report."""
    estimate, provenance = report.estimate, report.estimate.provenance
    fit = estimate.fit
    facts = [
        ("Model", f"{estimate.model.name}, {estimate.model.description.file.path.name}"),
        ("Model file, SHA-256", provenance["model"]["sha256"]),
        ("Identified from", _names(report, "training")),
        ("Validated on", _names(report, "unseen")),
        ("Method", estimate.method),
        ("Status", estimate.status),
        ("Base link", estimate.key.base),
        ("Samples", f"{fit.sample_count}, effective {fit.effective_count:.0f}"),
        ("Equations", f"{fit.row_count}, {'whitened' if estimate.key.weights else 'unweighted'}"),
        ("Measured", ", ".join(estimate.key.measured) or "joint torques only"),
        ("Joint torques", ", ".join(estimate.key.torques) or "none"),
        ("Base parameters", f"{estimate.base.rank}, condition number {estimate.base.condition:.3g}"),
        ("Cost", f"{fit.cost:.4g}; model file {fit.reference_cost:.4g}; scaled {fit.corrected_cost:.4g}"),
        ("Identified by", f"Steelyard {provenance['steelyard']}"),
    ]
    context = {
        "facts": [(name, value) for name, value in facts if value],
        "recordings": [
            {"sha256": each["sha256"], "start": each["start"], "end": each["end"]} for each in provenance["recordings"]
        ],
        "options": json.dumps(provenance["options"], indent=2, default=_plain, ensure_ascii=False),
        "command": report.command,
    }
    return Section("provenance", "Provenance", "provenance.html", context)


def _names(report: Report, purpose: str) -> str:
    return ", ".join(trace.name for trace in report.traces if trace.purpose == purpose)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)
