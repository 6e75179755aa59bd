"""Choice of the filter's cutoff from the data: signal lost above it against noise passed below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.motion.acceleration_spectra import WELCH_SEGMENT, ChannelGroup, estimate_acceleration_spectra
from steelyard.motion.base_state import ImuBase, PoseBase
from steelyard.motion.com_sensitivity import compute_com_sensitivity, sample_postures
from steelyard.motion.joint_state import ball_columns, position_columns
from steelyard.motion.segments import longest_bridged_gap, split_at_gaps
from steelyard.recording import usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion.base_state import BaseSource
    from steelyard.motion.joint_state import Positions
    from steelyard.recording import Recording

LOWEST = 2.0
"""Lower bound (Hz) of the chosen cutoff. Estimates hardly depend on the cutoff from 2 to 7 Hz (docs/motion.md)."""

HIGHEST = 25.0
"""Upper bound (Hz) of the chosen cutoff. Set by judgement: robots move at up to a few hertz and are not rigid above
some tens; perfect sensors in docs/motion.md are best at 16 Hz or below."""

USUAL = 10.0
"""Cutoff (Hz) for recordings too short to choose from. Set by judgement: from 10 Hz on, noise in the accelerations
makes estimates worse (docs/motion.md)."""

_LOST_WEIGHT = 0.1
"""Weight of the lost signal power against the noise power. All channels are filtered alike, so that linear relations
between them hold; only products suffer. With 0.1, the residual of the true parameters is near its minimum in the
laboratory (table in docs/motion.md)."""

_SAMPLED_SEGMENTS, _WHOLE_DURATION = 32, 128.0
"""Evenly spaced Welch segments that sample a long recording, and the duration (s) up to which it is used whole. Set by
judgement: both are 128 s of data, enough to average spectra over."""

_EDGE_SHARE = 1.0 / 3.0
"""Largest share of a recording that filter edges may take. Set by judgement: two thirds remain usable."""

_EDGE_PERIODS = 3.7
"""Filter edge on each side, in periods of the cutoff: 3.6 at order 4 (decision 9), rounded up."""

_NOISE_EXPONENT = 2.5
"""Exponent of the acceleration spectrum's growth with frequency above which it is taken for differentiated noise: white
noise in positions gives 4, a spectrum of real motion falls. Set by judgement, between the two."""


def choose_cutoff(
    model: Model, recording: Recording, base: BaseSource | None = None, *, highest: float = HIGHEST
) -> tuple[float, str]:
    """Choose the cutoff (Hz) from the data; return it with the reason.

    The spectra of joint, angular and proper acceleration are summed, weighted by their effect on the acceleration of
    the centre of mass, which the feet measure (for a fixed base or measured torques: by joint inertia). The noise of
    each channel is assumed white before differentiation and estimated above the band of the motion; see
    `estimate_acceleration_spectra`. The cutoff f minimises ``0.1 ∫_f^∞ signal + ∫_0^f noise``. It is then rounded up to
    the next at which an integer downsampling factor leaves two samples per period: white noise stays nearly white.

    Args:
        model: The model.
        recording: The recording, in memory or not; of a long one, two minutes are sampled evenly.
        base: Source of the base link's motion; by default the first recorded IMU.
        highest: Upper bound of the cutoff, Hz.
    """
    rate = usual_rate(recording.time)
    commanded = all(name in recording.values for name in position_columns(model, "q_command"))
    measured = all(name in recording.values for name in position_columns(model, "q"))
    positions: Positions = "q_command" if commanded and not measured else "q"
    sensor = _base_columns(model, recording, base)
    columns = (*position_columns(model, positions), *sensor)
    parts = list(_parts(recording, columns))
    spectra = estimate_acceleration_spectra(parts, _groups(model, parts, positions, sensor), rate)
    if spectra is None:
        cutoff = _snap_to_rate(min(USUAL, highest), rate, highest)
        return cutoff, "the default, because the recording is too short to choose one from"
    frequencies, signal, noise = spectra.frequencies, spectra.signal, spectra.noise
    step = frequencies[1]
    end = _end_of_signal(signal, noise, step, spectra.moved)
    signal = np.where(np.arange(len(signal)) < end, np.maximum(signal, 0.0), 0.0)
    lost = step * (signal.sum() - np.cumsum(signal))
    best = float(frequencies[np.argmin(_LOST_WEIGHT * lost + step * np.cumsum(noise))])
    at_edges = 2.0 * _EDGE_PERIODS / (_EDGE_SHARE * recording.duration)
    cutoff = _snap_to_rate(float(np.clip(best, max(LOWEST, at_edges), min(highest, HIGHEST))), rate, highest)
    if best > HIGHEST and highest >= HIGHEST and spectra.growth(0.5 * HIGHEST, HIGHEST) > _NOISE_EXPONENT:
        return cutoff, (
            "the upper bound; the acceleration spectrum grows there as differentiated noise does, but no noise floor "
            "is visible: give a lower cutoff"
        )
    share = 100.0 * float(np.interp(cutoff, frequencies, lost)) / max(step * float(signal.sum()), 1e-300)
    return cutoff, _explain_choice(best, at_edges, highest, share)


def _explain_choice(best: float, at_edges: float, highest: float, share: float) -> str:
    """Return why a cutoff was chosen.

    Args:
        best: The optimum, Hz.
        at_edges: The lowest at which filter edges leave enough of the recording, Hz.
        highest: Upper bound, Hz.
        share: Acceleration power above the chosen cutoff, percent.
    """
    if highest < HIGHEST and max(best, LOWEST, at_edges) > highest:
        return "the highest that the slowest sensor allows"
    if best < at_edges and at_edges > LOWEST:
        return "a lower one would lose more than a third of this short recording to the filter's edges"
    if best < LOWEST:
        return "the lower bound; hardly any signal above it exceeds the noise"
    if best > HIGHEST:
        return "the upper bound; the signal exceeds the noise even above it"
    above = f"{share:.2g}" if share >= 0.001 else "less than 0.001"
    return f"above it the noise exceeds the signal ({above} % of the acceleration power)"


def _snap_to_rate(cutoff: float, rate: float, highest: float = HIGHEST) -> float:
    """Return the next higher cutoff that is the sample rate over twice an integer (at least two), within the bound."""
    lowest_step = int(np.ceil(rate / (2.0 * min(highest, HIGHEST)) - 1e-6))
    return rate / (2.0 * max(2, lowest_step, int(rate / (2.0 * cutoff) + 1e-9)))


def _base_columns(model: Model, recording: Recording, base: BaseSource | None) -> tuple[str, ...]:
    if base is not None:
        return base.columns
    recorded = (ImuBase(imu).columns for imu in model.setup.imus)
    return next((names for names in recorded if all(name in recording.values for name in names)), ())


def _groups(
    model: Model, parts: Sequence[Recording], positions: Positions, sensor: tuple[str, ...]
) -> list[ChannelGroup]:
    """Return the joint positions, and the base's pose or its angular velocity and proper acceleration."""
    joint_weights, rotation_weight = compute_com_sensitivity(model, sample_postures(model, parts, positions))
    joints = position_columns(model, positions)
    groups = [ChannelGroup(joints, 2, joint_weights, ball_columns(model))] if joints else []
    if sensor == PoseBase().columns:
        return [*groups, ChannelGroup(sensor, 2, np.array([1.0] * 3 + [4.0 * rotation_weight] * 4), (3,))]
    if sensor:
        groups += [ChannelGroup(sensor[:3], 1, np.full(3, rotation_weight)), ChannelGroup(sensor[3:], 0, np.ones(3))]
    return groups


def _parts(recording: Recording, columns: Sequence[str]) -> Iterator[Recording]:
    chosen = recording.select(columns)
    bridged = longest_bridged_gap(LOWEST)
    if recording.duration <= _WHOLE_DURATION:
        yield from split_at_gaps(chosen.loaded(), bridged)
        return
    for start in np.linspace(recording.time[0], recording.time[-1] - WELCH_SEGMENT, _SAMPLED_SEGMENTS):
        first, last = np.searchsorted(recording.time, [start, start + WELCH_SEGMENT])
        if last - first > 1:
            yield from split_at_gaps(chosen.rows(int(first), int(last)).loaded(), bridged)


def _end_of_signal(signal: FloatArray, noise: FloatArray, step: float, moved: float) -> int:
    """Return the index of the first frequency above the band of the motion at which the signal is below the noise.

    Args:
        signal: Power densities, averaged over 1 Hz for the comparison.
        noise: Likewise.
        step: Frequency resolution, Hz.
        moved: Frequency (Hz) below which nearly all power of the positions lies.
    """
    width = max(1, round(1.0 / step))
    excess = np.convolve(signal - noise, np.ones(width) / width, mode="valid")
    first = round(moved / step)
    below = np.flatnonzero(excess[first:] <= 0.0)
    return first + int(below[0]) + width // 2 if len(below) else len(signal)
