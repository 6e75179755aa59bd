"""Choosing a filter's cutoff from the data: what is lost above it against the noise that is let in below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.motion.base_state import ImuBase, PoseBase
from steelyard.motion.joint_state import position_columns
from steelyard.motion.leverage import joint_leverage, recorded_postures
from steelyard.motion.spectra import SEGMENT, Group, find_spectra
from steelyard.motion.stretches import bridged_at, clean_parts
from steelyard.recording import usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion.base_state import BaseSource
    from steelyard.motion.joint_state import Positions
    from steelyard.recording import Recording

LOWEST = 2.0
HIGHEST = 25.0
"""Bounds (Hz) of what is chosen: robots move up to a few hertz, and are not rigid above some tens."""

USUAL = 10.0
"""What is taken (Hz) where a recording is too short to choose from."""

_COUNTED = 0.1
"""Share of the lost power that counts. All channels lose the same, so that what is linear in them (most of it) still
fits together; only products of them suffer. With a tenth, the residual of the true parameters is near its least in the
laboratory; see docs/motion.md."""

_SPREAD = (32, 128.0)
"""A long recording is looked at in so many segments, spread evenly; one up to so many seconds long as a whole."""

_LOST_TO_EDGES = 1.0 / 3.0
_EDGE_PERIODS = 3.7
_LIKE_NOISE = 2.5
"""Power of the frequency from which on accelerations grow as noise of positions does (with the fourth)."""


def choose_cutoff(
    model: Model, recording: Recording, base: BaseSource | None = None, *, highest: float = HIGHEST
) -> tuple[float, str]:
    """Gives the cutoff (Hz) that the data ask for, and why, in words.

    The spectra of joint accelerations, angular acceleration and proper acceleration are added up by what each does to
    the acceleration of the centre of mass, which is what the feet feel (of a fixed robot, or one whose torques are
    measured, by inertia). Of each channel, the noise is taken to be white before it is differentiated, and read off
    behind what moves; see `find_spectra`. The cutoff f makes the least of ``0.1 ∫_f^∞ signal + ∫_0^f noise``. It is
    then moved up to the next at which an integer step leaves two samples for each period: what was white stays nearly
    white.

    Args:
        model: The model.
        recording: The recording, in memory or not; of a long one, two minutes are looked at, spread evenly.
        base: What tells of the base link's motion; by default the first inertial sensor that is recorded.
        highest: The highest that may be chosen, Hz.
    """
    rate = usual_rate(recording.time)
    commanded = all(name in recording.values for name in position_columns(model, "q_command"))
    measured = all(name in recording.values for name in position_columns(model, "q"))
    positions: Positions = "q_command" if commanded and not measured else "q"
    sensor = _base_columns(model, recording, base)
    columns = (*position_columns(model, positions), *sensor)
    parts = list(_parts(recording, columns))
    spectra = find_spectra(parts, _groups(model, parts, positions, sensor), rate)
    if spectra is None:
        return _snapped(
            min(USUAL, highest), rate, highest
        ), "the usual one, because too little was recorded to choose from"
    frequencies, signal, noise = spectra.frequencies, spectra.signal, spectra.noise
    step = frequencies[1]
    end = _end_of_signal(signal, noise, step, spectra.moved)
    signal = np.where(np.arange(len(signal)) < end, np.maximum(signal, 0.0), 0.0)
    lost = step * (signal.sum() - np.cumsum(signal))
    best = float(frequencies[np.argmin(_COUNTED * lost + step * np.cumsum(noise))])
    at_edges = 2.0 * _EDGE_PERIODS / (_LOST_TO_EDGES * recording.duration)
    cutoff = _snapped(float(np.clip(best, max(LOWEST, at_edges), min(highest, HIGHEST))), rate, highest)
    if best > HIGHEST and highest >= HIGHEST and spectra.growth(0.5 * HIGHEST, HIGHEST) > _LIKE_NOISE:
        return cutoff, (
            "the highest that is chosen; accelerations grow with the frequency there as noise does, but no floor of "
            "noise is to be seen: give a cutoff that is lower"
        )
    share = 100.0 * float(np.interp(cutoff, frequencies, lost)) / max(step * float(signal.sum()), 1e-300)
    return cutoff, _reason(best, at_edges, highest, share)


def _reason(best: float, at_edges: float, highest: float, share: float) -> str:
    """Gives in words why a cutoff was chosen.

    Args:
        best: The one that the data ask for, Hz.
        at_edges: The lowest that leaves enough of the recording, Hz.
        highest: The highest that may be chosen, Hz.
        share: Of the accelerations' power above it, per cent.
    """
    if highest < HIGHEST and max(best, LOWEST, at_edges) > highest:
        return "the highest that the slowest sensor allows"
    if best < at_edges and at_edges > LOWEST:
        return "any lower, and more than a third of so short a recording would be lost to the filter's edges"
    if best < LOWEST:
        return "the lowest that is chosen; hardly anything that moves faster stands out of the noise"
    if best > HIGHEST:
        return "the highest that is chosen; what moves stands out of the noise even beyond it"
    above = f"{share:.2g}" if share >= 0.001 else "less than 0.001"
    return f"above it noise outweighs what moves ({above} % of the accelerations' power)"


def _snapped(cutoff: float, rate: float, highest: float = HIGHEST) -> float:
    """Gives the next higher cutoff that is the sample rate over twice an integer, at least two; within the highest."""
    lowest_step = int(np.ceil(rate / (2.0 * min(highest, HIGHEST)) - 1e-6))
    return rate / (2.0 * max(2, lowest_step, int(rate / (2.0 * cutoff) + 1e-9)))


def _base_columns(model: Model, recording: Recording, base: BaseSource | None) -> tuple[str, ...]:
    if base is not None:
        return base.columns
    recorded = (ImuBase(imu).columns for imu in model.setup.imus)
    return next((names for names in recorded if all(name in recording.values for name in names)), ())


def _groups(model: Model, parts: Sequence[Recording], positions: Positions, sensor: tuple[str, ...]) -> list[Group]:
    """Gives the joints' positions, and what the base's sensor tells: a pose, or rates and proper accelerations."""
    leverage, turning = joint_leverage(model, recorded_postures(model, parts, positions))
    joints = position_columns(model, positions)
    starts: list[int] = []
    place = 0
    for joint in model.joints:
        ball = model.joint(joint).kind == "ball"
        starts += [place] if ball else []
        place += 4 if ball else 1
    groups = [Group(joints, 2, leverage, tuple(starts))] if joints else []
    if sensor == PoseBase().columns:
        return [*groups, Group(sensor, 2, np.array([1.0] * 3 + [4.0 * turning] * 4), (3,))]
    if sensor:
        groups += [Group(sensor[:3], 1, np.full(3, turning)), Group(sensor[3:], 0, np.ones(3))]
    return groups


def _parts(recording: Recording, columns: Sequence[str]) -> Iterator[Recording]:
    chosen = recording.select(columns)
    count, longest = _SPREAD
    bridged = bridged_at(LOWEST)
    if recording.duration <= longest:
        yield from clean_parts(chosen.loaded(), bridged)
        return
    for start in np.linspace(recording.time[0], recording.time[-1] - SEGMENT, count):
        first, last = np.searchsorted(recording.time, [start, start + SEGMENT])
        if last - first > 1:
            yield from clean_parts(chosen.rows(int(first), int(last)).loaded(), bridged)


def _end_of_signal(signal: FloatArray, noise: FloatArray, step: float, moved: float) -> int:
    """Gives the number of the frequency, behind most of what moved, at which the signal first falls below the noise.

    Args:
        signal: Power densities; averages over 1 Hz are looked at.
        noise: Likewise.
        step: From one frequency to the next, Hz.
        moved: Frequency (Hz) below which nearly all of what moved lies.
    """
    width = max(1, round(1.0 / step))
    clear = np.convolve(signal - noise, np.ones(width) / width, mode="valid")
    first = round(moved / step)
    below = np.flatnonzero(clear[first:] <= 0.0)
    return first + int(below[0]) + width // 2 if len(below) else len(signal)
