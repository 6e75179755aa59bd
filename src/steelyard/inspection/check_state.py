"""State shared by the sensor checks: segments, findings and corrections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.active_segments import corrected
from steelyard.inspection.findings import Finding, write_fix
from steelyard.model import ColumnSource
from steelyard.motion import reconstruct_motion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.delays import Delays
    from steelyard.inspection.findings import Severity
    from steelyard.model import Imu, Model, Setup, WrenchSensor
    from steelyard.motion import Base, Motion
    from steelyard.recording import Recording

CUTOFF = 5.0
"""Cutoff (Hz) of the comparison with the model. Set by judgement, within the 2 to 7 Hz in which the cutoff hardly
matters for estimates (docs/motion.md)."""

SAMPLES_PER_PERIOD = 3.0
"""Samples kept per period of the cutoff. Set by judgement: two would be independent, a third covers the filter's
skirt."""


@dataclass
class SensorChecks:
    """State of the sensor checks; each check works on the recording as corrected by those before it.

    Attributes:
        model: The model.
        segments: The segments in use: evenly sampled, in memory, without gaps.
        read_with: The setup whose map and delays were applied on reading; fixes are composed with these.
        findings: Findings so far.
        corrections: By column, its true source in the recording.
        delays: Sensor delays, or None if unknown.
        misfit: RMS of the base equation's whitened residual, with all corrections.
        base_known: Whether the IMUs can be used.
    """

    model: Model
    segments: Sequence[Recording]
    read_with: Setup
    findings: list[Finding] = field(default_factory=list)
    corrections: dict[str, ColumnSource] = field(default_factory=dict)
    delays: Delays | None = None
    misfit: float | None = None
    base_known: bool = True

    @property
    def imus(self) -> list[Imu]:
        """IMUs that are recorded."""
        return [imu for imu in self.model.setup.imus if f"{imu.name}.accel.x" in self.segments[0].values]

    @property
    def sensors(self) -> list[WrenchSensor]:
        """Wrench sensors that are recorded."""
        recorded = self.segments[0].values
        return [each for each in self.model.setup.wrench_sensors if f"{each.name}.{each.axes[0]}" in recorded]

    def motions(self) -> list[Motion] | None:
        """Reconstruct and downsample the motions of the segments; None without a source of the base's motion.

        Raises:
            MotionError: A segment is too short or its rate too low for the cutoff.
        """
        imu = self.imus[0].name if self.imus else None
        if imu is None and not self.model.setup.soles:
            return None
        base: Base = "imu" if imu is not None else "sole"
        motions = []
        for segment in self.segments:
            motion = reconstruct_motion(self.model, segment, base=base, imu=imu, cutoff=CUTOFF, decimate=False)
            motions.append(motion.thinned(max(1, round(motion.sample_rate / (SAMPLES_PER_PERIOD * CUTOFF)))))
        return motions

    def composed(self, corrections: Mapping[str, ColumnSource]) -> dict[str, ColumnSource]:
        """Return corrections of the current columns as corrections of the recording's own."""
        return {
            target: source.after(self.corrections.get(source.name, ColumnSource(source.name)))
            for target, source in corrections.items()
        }

    def fix(self, corrections: Mapping[str, ColumnSource]) -> tuple[str, ...]:
        """Return the setup lines that correct the current columns."""
        return write_fix(self.read_with, self.composed(corrections))

    def correct(self, corrections: Mapping[str, ColumnSource]) -> None:
        """Apply corrections of the current columns from here on."""
        composed = self.composed(corrections)
        self.segments = corrected(self.segments, corrections)
        self.corrections |= composed

    def add_finding(self, severity: Severity, code: str, where: str, words: str, fix: tuple[str, ...] = ()) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, code, where, words, fix))

    def skip(self, what: str, why: str) -> None:
        """Add a remark that a check was skipped, and why."""
        self.add_finding("remark", "not-checked", what, f"{what} could not be checked: {why}")


def permuted_columns(target: str, source: str, axes: FloatArray, scale: float) -> dict[str, ColumnSource]:
    """Return the corrections of three columns with common prefixes: ``target = scale * axes @ source``."""
    corrections = {}
    for row, axis in enumerate("xyz"):
        column = int(np.argmax(np.abs(axes[row])))
        corrections[f"{target}{axis}"] = ColumnSource(f"{source}{'xyz'[column]}", float(scale * axes[row, column]))
    return corrections
