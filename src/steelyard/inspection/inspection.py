"""The Inspection of a recording: its quality, and its problems with their remedies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.inspection.active_segments import choose_segments, corrected
from steelyard.inspection.channel_spectra import ChannelSpectrum, estimate_channel_spectra
from steelyard.inspection.check_state import CUTOFF, SensorChecks
from steelyard.inspection.delays import Delays, estimate_lags
from steelyard.inspection.entry_checks import (
    ABSURD,
    check_channel_names,
    check_clock,
    check_columns,
    check_joints,
    group_of,
)
from steelyard.inspection.findings import SEVERITIES, Finding
from steelyard.inspection.outlier_checks import check_outliers
from steelyard.inspection.outliers import detect_outliers, mask_outliers
from steelyard.inspection.sensor_checks import check_sensors
from steelyard.inspection.survey import survey_recording
from steelyard.inspection.velocities import check_velocities
from steelyard.inspection.weight import check_weight
from steelyard.kinematics import one_blas_thread
from steelyard.model import RecordingMap
from steelyard.motion import LONGEST_GAP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.inspection.survey import Clock, Column, Survey
    from steelyard.model import Model, Setup
    from steelyard.recording import Recording


@dataclass(frozen=True, eq=False)
class Channel:
    """Properties of one column.

    Attributes:
        name: Name of the column.
        group: The group in which it is shown.
        column: Statistics of its readings.
        spectrum: Its noise and band; None if no segment was long enough.
        lows: Minimum in each of many equal bins of time, for plots.
        highs: Maximum in each bin.
    """

    name: str
    group: str
    column: Column
    spectrum: ChannelSpectrum | None
    lows: FloatArray
    highs: FloatArray


@dataclass(frozen=True, eq=False)
class Inspection:
    """Result of inspecting a recording.

    Attributes:
        name: Name of the recording.
        model: Name of the model that it was compared with, or None.
        row_count: Number of rows.
        clock: Properties of the clock.
        channels: Properties of the columns.
        findings: Findings, the most severe first.
        delays: Sensor delays, or None if they could not be estimated.
        vertical_force: Mean force along the soles' normals and the weight that they carry, N; empty if unknown.
        misfit: RMS of the whitened residual of the base equation, in units of the sensors' noise; None if unknown.
        corrections: Columns that findings correct, as ``(column, scale, offset)`` by name.
    """

    name: str
    model: str | None
    row_count: int
    clock: Clock
    channels: tuple[Channel, ...]
    findings: tuple[Finding, ...]
    delays: Delays | None
    vertical_force: Mapping[str, float]
    misfit: float | None
    corrections: Mapping[str, tuple[str, float, float]]

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that must be fixed before the recording is used."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    @property
    def setup_lines(self) -> tuple[str, ...]:
        """All lines for the setup, the columns under one heading."""
        columns: dict[str, str] = {}
        others: list[str] = []
        for finding in self.findings:
            if finding.fix[:1] == ("[recording.columns]",):
                columns |= {line.partition(" = ")[0]: line for line in finding.fix[1:]}
            else:
                others += finding.fix
        return (*others, *(("[recording.columns]", *columns.values()) if columns else ()))

    @property
    def good(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    def codes(self, severity: str | None = None) -> set[tuple[str, str]]:
        """Return the findings as pairs of code and location, of one severity or of all."""
        return {(finding.code, finding.where) for finding in self.findings if severity in (None, finding.severity)}

    def summary(self) -> str:
        """Return a summary in a few lines."""
        clock = self.clock
        lines = [
            f"{self.name}: {self.row_count} rows, {clock.end - clock.start:.2f} s at {clock.rate:.5g} Hz, "
            f"{len(self.channels)} columns"
        ]
        lines += [f"  {finding.severity}: {finding.words}" for finding in self.findings]
        if not self.findings:
            lines.append("  no problems found")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; NaN becomes None."""
        clock = self.clock
        plain = {
            "recording": self.name,
            "model": self.model,
            "good": self.good,
            "rows": self.row_count,
            "start": clock.start,
            "end": clock.end,
            "rate": clock.rate,
            "jitter": clock.jitter,
            "gaps": [list(gap) for gap in clock.gaps],
            "findings": [finding.to_dict() for finding in self.findings],
            "vertical_force": dict(self.vertical_force),
            "misfit": self.misfit,
            "delays": {
                name: {"value": delay.value, "low": delay.low, "high": delay.high}
                for name, delay in (self.delays.by_sensor.items() if self.delays else ())
            },
            "channels": {channel.name: _channel_values(channel) for channel in self.channels},
        }
        return {key: _without_nan(value) for key, value in plain.items()}


def _channel_values(channel: Channel) -> dict[str, Any]:
    column, spectrum = channel.column, channel.spectrum
    return {
        "group": channel.group,
        "readings": column.count,
        "mean": column.mean,
        "spread": column.spread,
        "low": column.low,
        "high": column.high,
        "longest_silence": column.silence,
        "rate": spectrum.rate if spectrum else None,
        "noise": spectrum.noise if spectrum else None,
        "band": spectrum.band if spectrum else None,
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def inspect_recording(recording: Recording, model: Model | None = None) -> Inspection:
    """Inspect a recording for problems.

    One pass over all of it checks the clock, names, gaps, limits and units, another looks for outliers, which are then
    masked. The segments with the most motion, a minute
    in total, are then compared with the model: mounting, units, offsets and delays of the sensors, and the noise floor
    and band of each channel.

    Args:
        recording: The recording; it may be larger than memory.
        model: The robot, with its sensors and soles; without it, only checks that need no model are made.
    """
    raw = survey = survey_recording(recording)
    findings = [Finding("remark", "note", recording.name, note) for note in recording.notes]
    sensors = _sensor_names(model) if model is not None else set()
    findings += [*check_clock(survey), *check_columns(survey, sensors)]
    outliers = detect_outliers(recording)
    if outliers:
        findings += check_outliers(outliers)
        recording = mask_outliers(recording, outliers)
        survey = survey_recording(recording)
    segments = choose_segments(recording, survey, _usable_columns(survey), CUTOFF)
    spectra = estimate_channel_spectra(segments) if segments else {}
    checks: SensorChecks | None = None
    force: dict[str, float] = {}
    if model is not None:
        with one_blas_thread():
            checks, force = _check_with_model(recording, model, survey, segments, findings)
    channels = tuple(
        Channel(name, group_of(name), column, spectra.get(name), raw.lows[name], raw.highs[name])
        for name, column in raw.columns.items()
    )
    order = {severity: number for number, severity in enumerate(SEVERITIES)}
    return Inspection(
        name=recording.name,
        model=None if model is None else model.name,
        row_count=len(recording),
        clock=survey.clock,
        channels=channels,
        findings=tuple(sorted(findings, key=lambda finding: order[finding.severity])),
        delays=checks.delays if checks else None,
        vertical_force=force,
        misfit=checks.misfit if checks else None,
        corrections={
            name: (source.name, source.scale, source.offset)
            for name, source in (checks.corrections.items() if checks else ())
        },
    )


def estimate_delays(
    model: Model, recording: Recording, *, imu: str | None = None, offsets: Mapping[str, float] | None = None
) -> Delays:
    """Estimate the delays of the wrench sensors and an IMU relative to the encoders, with confidence intervals.

    ``recording.without_delays(delays.values)`` corrects them.

    Args:
        model: The model.
        recording: The recording; the minute with the most motion is used.
        imu: Name of the IMU; by default the first of the setup.
        offsets: Encoder offsets, added to the readings, rad or m by joint.

    Raises:
        MotionError: No segment is long enough, or no wrench sensor is recorded.
        RecordingError: A column is missing.
        EvidenceError: Unmeasured components leave no equation.
    """
    survey = survey_recording(recording)
    segments = choose_segments(recording, survey, _sensor_columns(model, survey), CUTOFF)
    if not segments:
        raise MotionError(f"{recording.name} has no gap-free segment of motion; see `steelyard inspect`")
    names = [each.name for each in model.setup.imus if f"{each.name}.accel.x" in recording.values]
    chosen = imu if imu is not None else next(iter(names), None)
    with one_blas_thread():
        return estimate_lags(model, segments, imu=chosen, cutoff=CUTOFF, offsets=offsets)


def _check_with_model(
    recording: Recording, model: Model, survey: Survey, segments: list[Recording], findings: list[Finding]
) -> tuple[SensorChecks | None, dict[str, float]]:
    setup = _applied_setup(model, recording)
    findings += check_channel_names(model, survey)
    joint_findings, corrections = check_joints(model, survey, setup)
    findings += joint_findings
    if segments:
        findings += check_velocities(model, setup, corrected(segments, corrections), CUTOFF)
    checks: SensorChecks | None = None
    obstacle = _obstacle(model, survey, findings)
    used = [] if obstacle else choose_segments(recording, survey, _sensor_columns(model, survey), CUTOFF)
    if used:
        checks = SensorChecks(model, used, setup)
        checks.correct(corrections)
        check_sensors(checks)
        findings += checks.findings
    elif _sensor_names(model):
        why = obstacle or "no segment of four seconds is free of gaps"
        words = f"the sensors could not be compared with the model: {why}"
        findings.append(Finding("remark", "not-checked", "sensors", words))
    found, force = check_weight(model, setup, survey, checks.corrections if checks else {})
    if found is not None:
        findings.append(found)
    return checks, force


def _sensor_names(model: Model) -> set[str]:
    return {*(imu.name for imu in model.setup.imus), *(sensor.name for sensor in model.setup.wrench_sensors)}


def _applied_setup(model: Model, recording: Recording) -> Setup:
    """Return the setup whose map and delays were applied when the recording was read: the model's, or neither."""
    setup = model.setup
    if recording.mapped:
        return setup
    return replace(
        setup,
        recording=RecordingMap(),
        imus=tuple(replace(imu, delay=0.0) for imu in setup.imus),
        wrench_sensors=tuple(replace(sensor, delay=0.0) for sensor in setup.wrench_sensors),
    )


def _obstacle(model: Model, survey: Survey, findings: list[Finding]) -> str:
    """Return why the sensors cannot be compared with the model, or an empty string."""
    if model.base != "floating":
        return "the base is fixed, and joint torques are not checked"
    if any(model.joint(joint).velocity_size != 1 for joint in model.joints):
        return "the model has ball joints"
    codes = {finding.code for finding in findings}
    for code, words in (
        ("missing-joint", "a joint's position is missing"),
        ("missing-axis", "an axis of a sensor is missing"),
        ("absurd", "there are absurd values"),
    ):
        if code in codes:
            return words
    silent = [joint for joint in model.joints if survey.columns[f"q.{joint}"].count == 0]
    return f"there is no reading of the joint {silent[0]!r}" if silent else ""


def _usable_columns(survey: Survey) -> list[str]:
    """Return the columns with readings throughout, at a rate sufficient for a motion."""
    span = survey.clock.end - survey.clock.start
    usable = {
        name: column.count
        for name, column in survey.columns.items()
        if column.count and column.silence < 0.5 * span and max(abs(column.low), abs(column.high)) < ABSURD
    }
    return [name for name, count in usable.items() if count > span / LONGEST_GAP] or list(usable)


def _sensor_columns(model: Model, survey: Survey) -> list[str]:
    """Return the recorded columns that the sensor checks need, without dead sensors."""
    setup = model.setup
    wanted = [f"q.{joint}" for joint in model.joints]
    groups = [[f"{imu.name}.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"] for imu in setup.imus]
    groups += [[f"{sensor.name}.{axis}" for axis in sensor.axes] for sensor in setup.wrench_sensors]
    for group in groups:
        # Sensors too slow for a motion would leave no segment at all.
        least = (survey.clock.end - survey.clock.start) / LONGEST_GAP
        alive = all(name in survey.columns and survey.columns[name].count > least for name in group)
        if alive and any(survey.columns[name].spread > 0.0 for name in group):
            wanted += group
    return [name for name in wanted if name in survey.columns]
