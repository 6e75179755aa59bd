"""Choices that all recordings decide together: the base, the sensors' delays and noise, and the errors looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from steelyard.exceptions import EvidenceError, IdentifiabilityError, MotionError
from steelyard.inspection import estimate_delays
from steelyard.recording import sensor_of
from steelyard.regression import GROUP_WORDS, OWN_GROUPS, estimate_noise, usual_groups
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from steelyard.inspection import Delay
    from steelyard.model import Model
    from steelyard.motion import Base, Motion
    from steelyard.recording import Recording

CLEAR_DELAY = 1e-3
"""Delay (s) from which a sensor's clock is corrected, if its interval excludes zero. Set by judgement: half a sample at
the 500 Hz of most robots."""

_NORMAL = float(ndtri(0.975))
"""Half width of a 95 % interval in standard errors."""

_APART = 3.0
"""Standard errors between the delays of two recordings from which they contradict each other. Set by judgement: chance
in one of 370."""

POSE_COLUMNS = (*(f"base.position.{axis}" for axis in "xyz"), *(f"base.quat.{axis}" for axis in "xyzw"))
"""Columns of a tracked pose."""


def choose_common_base(
    model: Model, recordings: Iterable[Recording], wanted: Base | None, remarks: list[str]
) -> tuple[Base, str | None, str | None]:
    """Return the source of the base link's motion for all recordings, with the IMU or sole that it takes.

    Without a request: none for a fixed base; the first IMU of the setup that all recordings have; else the tracked
    pose, where all have that; else an IMU, whose absence is then an error of the reconstruction.
    """
    imus = [each.name for each in model.setup.imus if all(_has_imu(each.name, one) for one in recordings)]
    if wanted is None:
        posed = all(name in one.values for one in recordings for name in POSE_COLUMNS)
        wanted = "fixed" if model.base == "fixed" else "imu" if imus or not posed else "pose"
        if wanted == "pose":
            remarks.append("no inertial sensor is in all recordings: the base's motion comes from its tracked pose")
    imu = imus[0] if wanted == "imu" and imus else None
    sole = model.setup.soles[0].name if wanted == "sole" and model.setup.soles else None
    return wanted, imu, sole


def _has_imu(name: str, recording: Recording) -> bool:
    columns = [f"{name}.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"]
    return all(column in recording.values and np.any(recording.measured(column)) for column in columns)


def has_wrenches(model: Model, recordings: Iterable[Recording]) -> bool:
    """Return whether any recording has a wrench sensor of the setup."""
    there = {sensor_of(name) for one in recordings for name in one.columns}
    return any(sensor.name in there for sensor in model.setup.wrench_sensors)


def choose_error_groups(
    model: Model, recordings: Iterable[Recording], base: Base, wanted: Sequence[str]
) -> tuple[str, ...]:
    """Return the nuisance groups that are wanted; "auto" stands for those of all sensors used.

    Those are the groups that `gather_evidence` chooses for one motion.
    """
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if "auto" in names:
        torques = bool(model.setup.torques_measured)
        usual = usual_groups(base, wrenches=has_wrenches(model, recordings), torques=torques)
        place = names.index("auto")
        names[place : place + 1] = usual
    return tuple(dict.fromkeys(names))


def describe_groups(groups: Sequence[str], *, shared: bool) -> list[str]:
    """Return what is estimated beside the parameters, in a sentence; none where nothing is."""
    own = in_words([GROUP_WORDS[group] for group in groups if group in OWN_GROUPS])
    robot = in_words([GROUP_WORDS[group] for group in groups if group not in OWN_GROUPS])
    whose = "common to all recordings" if shared else "for each recording by itself"
    parts = [f"{own} ({whose})"] if own else []
    parts += [robot] if robot else []
    return [f"estimated beside the parameters: {'; '.join(parts)}"] if parts else []


def choose_delays(
    model: Model,
    recordings: Iterable[Recording],
    imu: str | None,
    remarks: list[str],
    *,
    offsets: Mapping[str, float],
    clear: bool,
    on_step: Callable[[str, Recording | None], None],
) -> dict[str, float]:
    """Estimate the delay of each sensor from every recording, and return their weighted means.

    Args:
        model: The model.
        recordings: The recordings.
        imu: The IMU whose link is the base link.
        remarks: Where sentences are added.
        offsets: Encoder offsets, added to the readings.
        clear: Whether to return the clear delays only: above `CLEAR_DELAY`, with an interval that excludes zero. All of
            them serve better where two recordings are compared.
        on_step: Called with what is about to be done, and the recording.
    """
    found: dict[str, list[tuple[str, Delay]]] = {}
    for recording in recordings:
        if not has_wrenches(model, [recording]):
            continue
        on_step(f"Estimating delays in {recording.name}", recording)
        try:
            delays = estimate_delays(model, recording, imu=imu, offsets=offsets)
        except MotionError as error:
            remarks.append(f"{recording.name}: sensor delays were not estimated: {error}")
            continue
        if not delays.settled:
            remarks.append(
                f"{recording.name}: sensor delays could not be estimated from it; the motion may be too slow"
            )
            continue
        for sensor, delay in delays.by_sensor.items():
            found.setdefault(sensor, []).append((recording.name, delay))
    chosen: dict[str, float] = {}
    for sensor, each in found.items():
        values = np.array([delay.value for _, delay in each])
        errors = np.array([max(delay.high - delay.low, 1e-9) / (2.0 * _NORMAL) for _, delay in each])
        weights = 1.0 / np.square(errors)
        value, half = float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)
        if np.max(np.abs(values - value) / np.maximum(errors, CLEAR_DELAY / _APART)) > _APART:
            parts = in_words([f"{1e3 * delay.value:+.1f} ms in {name}" for name, delay in each])
            remarks.append(f"the delays of {sensor} differ between the recordings: {parts}; their mean is corrected")
        is_clear = abs(value) > CLEAR_DELAY and abs(value) > _NORMAL * half
        if is_clear:
            side = "late" if value > 0.0 else "early"
            remarks.append(f"{sensor} is {1e3 * abs(value):.1f} ms {side} relative to the encoders; this is corrected")
        if is_clear or not clear:
            chosen[sensor] = value
    return chosen


def find_noise(
    model: Model, motion: Motion, groups: Sequence[str], withhold: Sequence[str], name: str, remarks: list[str]
) -> dict[str, Any] | None:
    """Return the noise of each sensor in a motion as weights; None, with a remark, where it is too short."""
    try:
        return dict(estimate_noise(model, motion, nuisance=groups, withhold=withhold).weights)
    except IdentifiabilityError as error:
        remarks.append(f"{name}: the noise of its sensors is not estimated: {error}")
        return None


def pool_noise(levels: Sequence[Mapping[str, Any]], seconds: Sequence[float]) -> dict[str, Any]:
    """Return the root mean square of several recordings' noise, weighted by their durations."""
    names = {name for each in levels for name in each}
    pooled: dict[str, Any] = {}
    for name in sorted(names):
        having = [(each[name], weight) for each, weight in zip(levels, seconds, strict=True) if name in each]
        values = np.array([value for value, _ in having], dtype=np.float64)
        weights = np.array([weight for _, weight in having])
        mean = np.sqrt(np.tensordot(weights, np.square(values), 1) / weights.sum())
        pooled[name] = mean.tolist() if np.ndim(mean) else float(mean)
    return pooled


def check_noise(noise: Any) -> Any:
    """Return a request for the noise: "auto", "default", None, or weights by sensor.

    Raises:
        EvidenceError: It is something else.
    """
    if noise is None or isinstance(noise, dict) or noise in ("auto", "default"):
        return noise
    raise EvidenceError(f"noise is {noise!r}; write 'auto', 'default', None, or standard deviations by sensor")
