"""The Report: an estimate with everything that is shown with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import ModelError, SolverError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.calibration import Offsets
    from steelyard.identification import Estimate
    from steelyard.regression import Evidence
    from steelyard.report.sections.section import Section
    from steelyard.report.traces import Trace
    from steelyard.validation import Validation


@dataclass(frozen=True, eq=False)
class Report:
    """The contents of a report; only the estimate is required.

    Attributes:
        estimate: The estimate.
        evidence: The Evidence that it was made from, for the excitation of each link.
        validation: Its validation.
        traces: Recordings, training first; see `trace_motions`.
        calibration: The calibration, if any.
        offsets: Encoder offsets that were used, rad or m by joint.
        truth: True parameters where known, shape (n_links, 10).
        true_offsets: True encoder offsets where known, rad or m by joint.
        further: Additional sections, after the validation.
        remarks: Notes on the recordings and their motions.
        command: The command that made the report; empty if none did.
    """

    estimate: Estimate
    evidence: Evidence | None = None
    validation: Validation | None = None
    traces: tuple[Trace, ...] = ()
    calibration: Offsets | None = None
    offsets: Mapping[str, float] = field(default_factory=dict)
    truth: FloatArray | None = None
    true_offsets: Mapping[str, float] = field(default_factory=dict)
    further: tuple[Section, ...] = ()
    remarks: tuple[str, ...] = ()
    command: str = ""

    def __post_init__(self) -> None:
        if self.estimate.status == "failed":
            raise SolverError("a failed estimate cannot be reported; its notes say what to do", status="failed")
        if self.calibration is not None and not self.offsets:
            object.__setattr__(self, "offsets", dict(self.calibration.values))
        if self.truth is not None:
            true: Any = getattr(self.truth, "parameters", self.truth)
            array = np.asarray(true, dtype=np.float64)
            if array.shape != self.estimate.reference.shape:
                raise ModelError(
                    f"the true parameters have the shape {array.shape}, the estimate's {self.estimate.reference.shape}"
                )
            object.__setattr__(self, "truth", array)

    def write(self, path: str | Path) -> None:
        """Write the report as one self-contained HTML file; see `write_report`."""
        from steelyard.report.page import write_report  # noqa: PLC0415  (it needs Report)

        write_report(self, path)
