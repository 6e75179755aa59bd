"""What is known of the sensors, check after check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding, write_fix
from steelyard.inspection.stretches import corrected
from steelyard.model import ColumnSource
from steelyard.motion import reconstruct_motion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.inspection.delays import Delays
    from steelyard.model import Imu, Model, Setup, WrenchSensor
    from steelyard.motion import Base, Motion
    from steelyard.recording import Recording

CUTOFF = 5.0
"""Frequency (Hz) up to which the sensors are compared with the model."""

SAMPLES_PER_PERIOD = 3.0
"""Samples that are kept of each period of the cutoff."""


@dataclass
class SensorChecks:
    """What the physics says of the sensors, check after check.

    Each check sees the recording as the checks before it corrected it.

    Attributes:
        model: The model.
        stretches: The stretches looked at: evenly sampled, in memory, without gaps.
        read_with: The setup with whose map and delays the recording was read; fixes come on top of these.
        findings: What was found.
        corrections: By column, which column of the recording really holds it.
        delays: How late the sensors are, where that could be found.
        misfit: Root mean square of the base equation's whitened residual, with all corrections.
        base_known: Whether the inertial sensors can be used, as far as is known.
    """

    model: Model
    stretches: Sequence[Recording]
    read_with: Setup
    findings: list[Finding] = field(default_factory=list)
    corrections: dict[str, ColumnSource] = field(default_factory=dict)
    delays: Delays | None = None
    misfit: float | None = None
    base_known: bool = True

    @property
    def imus(self) -> list[Imu]:
        """Inertial sensors that are recorded."""
        return [imu for imu in self.model.setup.imus if f"{imu.name}.accel.x" in self.stretches[0].values]

    @property
    def sensors(self) -> list[WrenchSensor]:
        """Wrench sensors that are recorded."""
        recorded = self.stretches[0].values
        return [each for each in self.model.setup.wrench_sensors if f"{each.name}.{each.axes[0]}" in recorded]

    def motions(self) -> list[Motion] | None:
        """Gives the motions of the stretches, thinned to what the filter leaves; None where nothing tells of the base.

        Raises:
            MotionError: A stretch is too short or its rate too low for the cutoff.
        """
        imu = self.imus[0].name if self.imus else None
        if imu is None and not self.model.setup.soles:
            return None
        base: Base = "imu" if imu is not None else "sole"
        motions = []
        for stretch in self.stretches:
            motion = reconstruct_motion(self.model, stretch, base=base, imu=imu, cutoff=CUTOFF, decimate=False)
            motions.append(motion.thinned(max(1, round(motion.sample_rate / (SAMPLES_PER_PERIOD * CUTOFF)))))
        return motions

    def composed(self, corrections: Mapping[str, ColumnSource]) -> dict[str, ColumnSource]:
        """Gives corrections of columns as they are now as corrections of the recording's own."""
        result = {}
        for target, source in corrections.items():
            before = self.corrections.get(source.name, ColumnSource(source.name))
            result[target] = ColumnSource(
                before.name, source.scale * before.scale, source.scale * before.offset + source.offset
            )
        return result

    def fix(self, corrections: Mapping[str, ColumnSource]) -> tuple[str, ...]:
        """Gives the lines of the setup that correct columns as they are now."""
        return write_fix(self.read_with, self.composed(corrections))

    def correct(self, corrections: Mapping[str, ColumnSource]) -> None:
        """Takes corrections of columns as they are now into account from here on."""
        composed = self.composed(corrections)
        self.stretches = corrected(self.stretches, corrections)
        self.corrections |= composed

    def add(self, finding: Finding) -> None:
        """Takes a finding."""
        self.findings.append(finding)

    def skip(self, what: str, why: str) -> None:
        """Says that something was not checked, and why."""
        self.add(Finding("remark", "not-checked", what, f"{what} could not be checked: {why}"))


def turned_columns(target: str, source: str, turn: FloatArray, scale: float) -> dict[str, ColumnSource]:
    """Gives the corrections of three columns whose names begin alike: ``target = scale * turn @ source``."""
    corrections = {}
    for row, axis in enumerate("xyz"):
        column = int(np.argmax(np.abs(turn[row])))
        corrections[f"{target}{axis}"] = ColumnSource(f"{source}{'xyz'[column]}", float(scale * turn[row, column]))
    return corrections
