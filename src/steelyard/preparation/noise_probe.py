"""The effect of white noise: the motion of a recording, and that of the same readings with more noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.inspection import estimate_white_noise
from steelyard.motion import stream_motion

if TYPE_CHECKING:
    from steelyard.motion import Motion
    from steelyard.preparation.preparation import Preparation
    from steelyard.preparation.sources import RecordingLike
    from steelyard.recording import Recording

_SECONDS = 60.0
"""Longest part of a recording that is probed, s. Set by judgement: white noise is the same throughout, and a minute at
two samples a second measures it to a tenth."""


def probe_noise(prepared: Preparation, source: RecordingLike, seed: int = 0) -> list[tuple[Motion, Motion]]:
    """Return motions of a recording in pairs: as it is, and with its sensors' white noise added a second time.

    The level of each channel's noise is that of its spectrum above the band of motions. What differs between the two
    is, whatever the filter and the model, as large as what the noise in the readings does.

    Args:
        prepared: How recordings are prepared.
        source: The recording; of a long one, its first minute.
        seed: Of the added noise.

    Returns:
        The pairs, with equal times; none where the recording is too short, or no noise is observable in it.
    """
    recording = prepared.open(source).aligned
    start = float(recording.time[0])
    part = recording.between(start, start + _SECONDS).loaded()
    chosen = prepared.chosen_for(recording)
    cutoff = prepared.cutoff if chosen is None else chosen.cutoff
    try:
        plain = _motions(prepared, part, cutoff)
        cutoff = plain[0].cutoff
        names = [name for name in part.columns if _is_sensed(name) and np.any(part.measured(name))]
        levels = estimate_white_noise(part, names, cutoff or _USUAL)
        noisy = _motions(prepared, _with_noise(part, levels, seed), cutoff)
    except MotionError:
        return []
    if not levels or [len(each) for each in plain] != [len(each) for each in noisy]:
        return []
    return list(zip(plain, noisy, strict=True))


_USUAL = 10.0
"""Cutoff (Hz) that decides what is a gap where the motion is not filtered. Set by judgement."""


def _is_sensed(name: str) -> bool:
    """Return whether a column is a reading that predictions of wrenches and torques depend on."""
    kind = name.split(".")
    return kind[0] not in ("v", "q_command") and (kind[0] == "base" or "quat" not in kind)


def _motions(prepared: Preparation, recording: Recording, cutoff: float | None) -> list[Motion]:
    return list(
        stream_motion(
            prepared.model, recording, base=prepared.base, imu=prepared.imu, sole=prepared.sole, cutoff=cutoff,
            offsets=prepared.offsets,
        )
    )  # fmt: skip


def _with_noise(recording: Recording, levels: dict[str, float], seed: int) -> Recording:
    generator = np.random.default_rng(seed)
    values = {name: recording.column(name) for name in recording.columns}
    for name in sorted(levels):
        # Missing readings stay missing.
        values[name] = values[name] + levels[name] * generator.normal(size=len(recording))
    return recording.with_values(values)
