"""Validation: errors of the predictions on motions that the estimate has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.report.sections.section import Section

if TYPE_CHECKING:
    from steelyard.report.report import Report
    from steelyard.validation import Candidates, Validation

_VERDICTS = {"real": "better", "worse": "worse", "undecided": "not significant"}


def show_validation(report: Report) -> Section:
    """Compare the errors of every candidate, axis by axis, and whether the gain is significant."""
    validation = report.validation
    context: dict[str, Any] = {"validation": None}
    if validation is not None:
        context = {
            "validation": True,
            "kind": validation.kind,
            "duration": validation.duration,
            "base": validation.base,
            "truth": validation.wrench.truth is not None,
            "rows": [
                *_rows(validation, validation.wrench, ""),
                *([] if validation.torque is None else _rows(validation, validation.torque, "torque ")),
            ],
            "total": _verdicts(validation, "total") or _verdicts(validation, "torques"),
            "level": 100.0 * validation.level,
        }
    return Section("validation", "Validation", "validation.html", context)


def _rows(validation: Validation, candidates: Candidates, prefix: str) -> list[dict[str, Any]]:
    rows = []
    for index, (row, unit) in enumerate(zip(candidates.rows, candidates.units, strict=True)):
        if not np.isfinite(candidates.estimate.rmse[index]):
            continue
        rows.append(
            {
                "row": row,
                "unit": unit,
                "reference": float(candidates.reference.rmse[index]),
                "corrected": float(candidates.corrected.rmse[index]),
                "estimate": float(candidates.estimate.rmse[index]),
                "truth": None if candidates.truth is None else float(candidates.truth.rmse[index]),
                "verdicts": _verdicts(validation, f"{prefix}{row}"),
            }
        )
    return rows


def _verdicts(validation: Validation, row: str) -> list[dict[str, Any]]:
    found = []
    for other, called in (("corrected", "scaled model file"), ("reference", "model file")):
        gain = validation.improvement[other].get(row)
        if gain is not None:
            found.append(
                {
                    "other": called,
                    "ratio": float(gain.ratio),
                    "low": float(gain.low) if np.isfinite(gain.low) else None,
                    "high": float(gain.high) if np.isfinite(gain.high) else None,
                    "words": _VERDICTS[gain.verdict],
                }
            )
    return found
