"""What a recording tells of the sensors before anything is weighed: how late they are, how loud, what they may hide.

With the usual figures from data sheets instead, a load is seen only where it is three times as great, and intervals are
as wrong as the sheets are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.progress import Progress

from steelyard.cli.progress import show_usual
from steelyard.cli.recording_reader import Reader, survey_seconds
from steelyard.cli.shared_options import Base
from steelyard.cli.terminal import on_one_line
from steelyard.exceptions import IdentifiabilityError, MotionError
from steelyard.inspection import Delays, estimate_delays
from steelyard.model import Model
from steelyard.motion import Base as BaseName
from steelyard.recording import Recording, sensor_of
from steelyard.regression import estimate_noise

_PIECES = 8
"""Pieces of a recording among which the longest tells the noise; each is half a minute at 500 Hz."""

_LATE = 1e-3
"""Seconds by which a sensor must be late, all of the interval on one side of zero, for its clock to be put right."""


class Noise(enum.StrEnum):
    """Where the noise of the sensors is taken from."""

    FOUND = "found"
    USUAL = "usual"
    EQUAL = "equal"


@dataclass(frozen=True)
class Heard:
    """What was heard.

    Attributes:
        delays: Seconds by which sensors come late, by name; only those that clearly do, where not all are asked for.
        weights: Noise, as `gather_evidence` takes it.
        nuisance: Groups of errors that the sensors may have.
        words: What to tell, a sentence each.
    """

    delays: Mapping[str, float]
    weights: Mapping[str, Any] | str | None
    nuisance: tuple[str, ...]
    words: tuple[str, ...]


def hear_sensors(
    model: Model,
    path: Path,
    progress: Progress,
    *,
    base: BaseName | None,
    offsets: Mapping[str, float],
    nuisance: Sequence[str] | None = None,
    noise: Noise = Noise.FOUND,
    all_delays: bool = False,
) -> Heard:
    """Gives what a recording tells of the sensors.

    Args:
        model: The model.
        path: The recording.
        progress: Where it is told how far this is.
        base: What tells of the base link's motion.
        offsets: Of the encoders.
        nuisance: Errors that sensors and joints may have; by default those of all sensors that are used, and friction
            where joint torques are.
        noise: Where the noise is taken from; where a recording is too short to tell it, the usual one is, and said.
        all_delays: Whether delays are taken out that may be none, too: where two recordings are held against each
            other, the likeliest delays serve better than none.

    Raises:
        SteelyardError: The recording is bad; the message names it.
    """
    reader = Reader(model, base, progress, offsets)
    words: list[str] = []
    with reader.naming():
        recording = reader.open(path)
        groups = tuple(nuisance) if nuisance is not None else _usual_nuisance(model, base, recording)
        with show_usual(progress, f"Hearing the sensors of {on_one_line(path.name)}", survey_seconds(recording)):
            delays = _late(_delays(model, recording, words), words, clear=not all_delays)
        weights: Mapping[str, Any] | str | None = {Noise.USUAL: "default", Noise.EQUAL: None}.get(noise)
        if noise is Noise.FOUND:
            timely = Reader(model, base, progress, offsets, delays)
            longest = max(islice(timely.motions([path]), _PIECES), key=len)
            try:
                weights = estimate_noise(model, longest, nuisance=groups).weights
            except IdentifiabilityError as error:
                weights = "default"
                words.append(f"the usual noise of sensors is assumed: {error}")
    return Heard(delays, weights, groups, tuple(words))


def _delays(model: Model, recording: Recording, words: list[str]) -> Delays | None:
    """Gives the delays of sensors; where they cannot be told, that is, and nothing is taken out."""
    if not _has_wrenches(model, recording):
        return None
    try:
        found = estimate_delays(model, recording)
    except MotionError as error:
        words.append(f"delays of sensors were not looked for: {error}")
        return None
    if not found.settled:
        words.append("delays of sensors could not be told, and none is taken out; the motion may be too slow")
        return None
    return found


def _late(delays: Delays | None, words: list[str], *, clear: bool) -> dict[str, float]:
    """Gives the sensors that are late or early, or only those that clearly are, and tells of the latter."""
    if delays is None:
        return {}
    sure = [
        each for each in delays.by_sensor.values() if abs(each.value) > _LATE and (each.low > 0.0 or each.high < 0.0)
    ]
    words += [
        f"{each.sensor} is {1e3 * abs(each.value):.1f} ms {'late' if each.value > 0.0 else 'early'} against the "
        "encoders; that is taken out"
        for each in sure
    ]
    return {each.sensor: each.value for each in (sure if clear else delays.by_sensor.values())}


def _has_wrenches(model: Model, recording: Recording) -> bool:
    there = {sensor_of(name) for name in recording.columns}
    return any(sensor.name in there for sensor in model.setup.wrench_sensors)


def _usual_nuisance(model: Model, base: str | None, recording: Recording) -> tuple[str, ...]:
    """Gives the errors that what is recorded may have: offsets of wrenches, an inertial sensor's, friction."""
    groups: list[str] = []
    if _has_wrenches(model, recording):
        groups.append("wrench_offset")
    if model.base == "floating" and base in (None, Base.IMU):
        groups += ["accelerometer_bias", "imu_mounting"]
    if model.setup.torques_measured:
        groups += ["coulomb_friction", "viscous_friction"]
    return tuple(groups)
