"""Findings about outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.inspection.findings import Finding
from steelyard.inspection.outliers import describe_outliers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.inspection.outliers import Outlier


def check_outliers(outliers: Sequence[Outlier]) -> Iterator[Finding]:
    """Yield a finding for each column and kind of outliers."""
    for first, words in describe_outliers(outliers):
        if first.kind == "clipped":
            remedy = "the sensor's range is too small for this motion: choose a calmer one, or a larger range"
        elif first.kind == "erratic":
            remedy = "check the sensor's cable and driver, and record again"
        elif first.kind == "step":
            remedy = "the encoder slipped or lost its zero: cut the recording there"
        else:
            remedy = "these readings are masked, and the others used: check the sensor's cable and driver"
        yield Finding("warning", "outlier", first.column, f"{words}; {remedy}", time=first.time)
