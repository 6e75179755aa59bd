"""Sensor delays, sensor noise and nuisance groups, estimated from a recording before anything is identified.

With data-sheet noise instead, a payload is detected only at three times the mass, and intervals are as wrong as the
data sheets are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.progress import Progress

from steelyard.cli.progress import show_task
from steelyard.cli.recording_reader import Reader, survey_seconds
from steelyard.cli.shared_options import BaseOption
from steelyard.cli.terminal import on_one_line
from steelyard.exceptions import IdentifiabilityError, MotionError
from steelyard.inspection import Delays, estimate_delays
from steelyard.model import Model
from steelyard.motion import Base as BaseName
from steelyard.recording import Recording, sensor_of
from steelyard.regression import estimate_noise

_PIECES = 8
"""Pieces of a recording of which the longest serves to estimate the noise; each is half a minute at 500 Hz. Set by
judgement: four minutes are plenty, and bound the time that it takes."""

_CLEAR_DELAY = 1e-3
"""Delay (s) from which a sensor's clock is corrected, if its interval excludes zero. Set by judgement: half a sample at
the 500 Hz of most robots."""


class NoiseSource(enum.StrEnum):
    """Where the noise of the sensors is taken from."""

    FOUND = "found"
    USUAL = "usual"
    EQUAL = "equal"


@dataclass(frozen=True)
class SensorPreparation:
    """What was chosen for the sensors.

    Attributes:
        delays: Delays (s) to remove, by sensor; only the clear ones, unless all were asked for.
        weights: Noise, as `gather_evidence` takes it.
        nuisance: Groups of sensor and joint errors to estimate.
        notes: What a user should know, a sentence each.
    """

    delays: Mapping[str, float]
    weights: Mapping[str, Any] | str | None
    nuisance: tuple[str, ...]
    notes: tuple[str, ...]


def prepare_sensors(
    model: Model,
    path: Path,
    progress: Progress,
    *,
    base: BaseName | None,
    offsets: Mapping[str, float],
    nuisance: Sequence[str] | None = None,
    noise: NoiseSource = NoiseSource.FOUND,
    withhold: Sequence[str] = (),
    all_delays: bool = False,
) -> SensorPreparation:
    """Estimate delays and noise of the sensors from a recording, and choose the nuisance groups.

    Args:
        model: The model.
        path: The recording.
        progress: The progress bar.
        base: Where the motion of the base link comes from.
        offsets: Encoder offsets, rad or m by joint.
        nuisance: Nuisance groups; by default those of all sensors used, and friction if joint torques are measured.
        noise: Where the noise is taken from; where a recording is too short to estimate it, the default is assumed,
            with a note.
        withhold: Sensors or components to treat as not measured.
        all_delays: Whether to remove also delays that are not clear: where two recordings are compared, the likeliest
            delays serve better than none.

    Raises:
        SteelyardError: The recording is bad; the message names it.
    """
    reader = Reader(model, base, progress, offsets)
    notes: list[str] = []
    with reader.naming():
        recording = reader.open(path)
        groups = tuple(nuisance) if nuisance is not None else _default_nuisance(model, base, recording)
        with show_task(progress, f"Estimating delays in {on_one_line(path.name)}", survey_seconds(recording)):
            delays = _choose_delays(_estimate_delays(model, recording, notes), notes, clear=not all_delays)
        weights: Mapping[str, Any] | str | None = {NoiseSource.USUAL: "default", NoiseSource.EQUAL: None}.get(noise)
        if noise is NoiseSource.FOUND:
            corrected = Reader(model, base, progress, offsets, delays)
            longest = max(islice(corrected.motions([path]), _PIECES), key=len)
            try:
                weights = estimate_noise(model, longest, nuisance=groups, withhold=withhold).weights
            except IdentifiabilityError as error:
                weights = "default"
                notes.append(f"the default sensor noise is assumed: {error}")
    return SensorPreparation(delays, weights, groups, tuple(notes))


def _estimate_delays(model: Model, recording: Recording, notes: list[str]) -> Delays | None:
    """Return the delays of the sensors; None, with a note, where they cannot be estimated."""
    if not _has_wrenches(model, recording):
        return None
    try:
        found = estimate_delays(model, recording)
    except MotionError as error:
        notes.append(f"sensor delays were not estimated: {error}")
        return None
    if not found.settled:
        notes.append("sensor delays could not be estimated, and none is corrected; the motion may be too slow")
        return None
    return found


def _choose_delays(delays: Delays | None, notes: list[str], *, clear: bool) -> dict[str, float]:
    """Return the delays to remove: the clear ones, which get a note each, or all."""
    if delays is None:
        return {}
    sure = [
        each
        for each in delays.by_sensor.values()
        if abs(each.value) > _CLEAR_DELAY and (each.low > 0.0 or each.high < 0.0)
    ]
    notes += [
        f"{each.sensor} is {1e3 * abs(each.value):.1f} ms {'late' if each.value > 0.0 else 'early'} relative to the "
        "encoders; this is corrected"
        for each in sure
    ]
    return {each.sensor: each.value for each in (sure if clear else delays.by_sensor.values())}


def _has_wrenches(model: Model, recording: Recording) -> bool:
    there = {sensor_of(name) for name in recording.columns}
    return any(sensor.name in there for sensor in model.setup.wrench_sensors)


def _default_nuisance(model: Model, base: str | None, recording: Recording) -> tuple[str, ...]:
    """Return the nuisance groups of what is recorded: wrench offsets, errors of an inertial sensor, friction."""
    groups: list[str] = []
    if _has_wrenches(model, recording):
        groups.append("wrench_offset")
    if model.base == "floating" and base in (None, BaseOption.IMU):
        groups += ["accelerometer_bias", "imu_mounting"]
    if model.setup.torques_measured:
        groups += ["coulomb_friction", "viscous_friction"]
    return tuple(groups)
