"""Choosing a filter's cutoff from the data: what is lost above it against the noise that is let in below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.signal import welch

from steelyard.motion.base_state import ImuBase, PoseBase
from steelyard.motion.joint_state import position_columns
from steelyard.motion.stretches import clean_parts, filled
from steelyard.recording.resampling import usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray
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

_SEGMENT = 4.0
_SHORTEST = 1.0
_FEWEST = 16
_SPREAD = (32, 128.0)
"""A long recording is looked at in so many segments, spread evenly; one up to so many seconds long as a whole."""

_FLOOR = (0.25, 0.45)
"""Shares of a sensor's rate between which there is taken to be noise alone."""

_LOST_TO_EDGES = 1.0 / 3.0
_EDGE_PERIODS = 3.7
_SHORTEST_ARM = 0.1


@dataclass(frozen=True, eq=False)
class _Group:
    """Columns that tell of accelerations.

    Attributes:
        columns: Their names.
        differences: How often they are differentiated to give accelerations.
        weights: Square of the acceleration of the centre of mass for a unit of each, shape (n_columns,).
    """

    columns: tuple[str, ...]
    differences: int
    weights: FloatArray


def choose_cutoff(model: Model, recording: Recording, *, pose: bool = False) -> tuple[float, str]:
    """Gives the cutoff (Hz) that the data ask for, and why, in words.

    The spectra of joint accelerations, angular acceleration and proper acceleration are added up by what each does to
    the acceleration of the centre of mass, which is what the feet feel. Of each channel, the noise is taken to be white
    before it is differentiated, and read off at its highest frequencies. The cutoff f makes the least of
    ``0.1 ∫_f^∞ signal + ∫_0^f noise``. It is then moved up to the next at which an integer step leaves two samples
    for each period: what was white stays nearly white.

    Args:
        model: The model.
        recording: The recording, in memory or not; of a long one, two minutes are looked at, spread evenly.
        pose: Whether the base's motion comes from its tracked pose, not from an inertial sensor.
    """
    rate = usual_rate(recording.time)
    groups = _groups(model, recording, pose=pose)
    spectra = _spectra(recording, groups, rate)
    if spectra is None:
        return _snapped(USUAL, rate), "the usual one, because too little was recorded to choose from"
    frequencies, signal, noise = spectra
    step = frequencies[1]
    signal = np.where(np.arange(len(signal)) < _end_of_signal(signal, noise, step), np.maximum(signal, 0.0), 0.0)
    lost = step * (signal.sum() - np.cumsum(signal))
    best = float(frequencies[np.argmin(_COUNTED * lost + step * np.cumsum(noise))])
    at_edges = 2.0 * _EDGE_PERIODS / (_LOST_TO_EDGES * recording.duration)
    cutoff = _snapped(float(np.clip(best, max(LOWEST, at_edges), HIGHEST)), rate)
    if best < at_edges and at_edges > LOWEST:
        return cutoff, "any lower, and more than a third of so short a recording would be lost to the filter's edges"
    if best < LOWEST:
        return cutoff, "the lowest that is chosen; hardly anything that moves faster stands out of the noise"
    if best > HIGHEST:
        return cutoff, "the highest that is chosen; what moves stands out of the noise even beyond it"
    share = 100.0 * float(np.interp(cutoff, frequencies, lost)) / (step * float(signal.sum()))
    above = f"{share:.2g}" if share >= 0.001 else "less than 0.001"
    return cutoff, f"above it noise outweighs what moves ({above} % of the accelerations' power)"


def _snapped(cutoff: float, rate: float) -> float:
    """Gives the next higher cutoff that is the sample rate over twice an integer, at least two; within `HIGHEST`."""
    lowest_step = int(np.ceil(rate / (2.0 * HIGHEST) - 1e-9))
    return rate / (2.0 * max(2, lowest_step, int(rate / (2.0 * cutoff) + 1e-9)))


def _groups(model: Model, recording: Recording, *, pose: bool) -> list[_Group]:
    jacobian, arm = _com_jacobian(model)
    weights = []
    for joint in model.joints:
        body = model.joint_body(joint)
        start = int(model.tree.v_starts[body])
        squares = np.sum(jacobian[:, start : start + model.joint(joint).velocity_size] ** 2, axis=0)
        # Half an angle is in a quaternion.
        weights += [float(squares[0])] if len(squares) == 1 else [4.0 * float(squares.mean())] * 4
    groups = [_Group(position_columns(model, "q"), 2, np.array(weights))]
    turning = max(_SHORTEST_ARM, arm) ** 2
    if pose:
        columns = PoseBase().columns
        return [*groups, _Group(columns, 2, np.array([1.0] * 3 + [4.0 * turning] * 4))]
    for imu in model.setup.imus:
        columns = ImuBase(imu).columns
        if all(name in recording.values for name in columns):
            groups += [_Group(columns[:3], 1, np.full(3, turning)), _Group(columns[3:], 0, np.ones(3))]
            break
    return groups


def _com_jacobian(model: Model) -> tuple[FloatArray, float]:
    """Gives the centre of mass's Jacobian in the neutral posture, shape (3, n_v), and its distance from the root, m."""
    data = model.pinocchio.createData()
    jacobian = pin.jacobianCenterOfMass(model.pinocchio, data, np.array(model.neutral))
    return np.asarray(jacobian), float(np.linalg.norm(data.com[0]))


def _spectra(
    recording: Recording, groups: Sequence[_Group], rate: float
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Gives frequencies (Hz), and the power density of the signal and of the noise at each; None where all is short."""
    length = round(_SEGMENT * rate)
    if length < _FEWEST:
        return None
    powers: list[FloatArray | float] = [0.0] * len(groups)
    readings: list[FloatArray | float] = [0.0] * len(groups)
    seconds = 0.0
    for part in _parts(recording, [name for group in groups for name in group.columns]):
        if part.duration < _SHORTEST or len(part) < _FEWEST:
            continue
        seconds += part.duration
        for number, group in enumerate(groups):
            values = np.stack([part.column(name) for name in group.columns], axis=1)
            readings[number] += np.isfinite(values).mean() * part.duration
            changes = np.diff(filled(part.time, values), n=group.differences, axis=0) * rate**group.differences
            powers[number] += part.duration * _power(changes, rate, length)
    if seconds == 0.0:
        return None
    frequencies = np.arange(length // 2 + 1) * rate / length
    signal, noise = np.zeros_like(frequencies), np.zeros_like(frequencies)
    for group, total, told in zip(groups, powers, readings, strict=True):
        power = np.asarray(total) / seconds
        # The power gain of the differences that were taken.
        gain = (2.0 * rate * np.sin(np.pi * frequencies / rate)) ** (2 * group.differences)
        own_rate = rate * float(told) / seconds
        high = (frequencies >= _FLOOR[0] * own_rate) & (frequencies <= _FLOOR[1] * own_rate)
        # The median of a chi-square is below its mean; a tenth more covers that, for a handful of segments.
        floor = 1.1 * np.median(power[high] / gain[high, None], axis=0)
        of_noise = gain * float(floor @ group.weights)
        noise += of_noise
        signal += power @ group.weights - of_noise
    return frequencies, signal, noise


def _power(values: FloatArray, rate: float, length: int) -> FloatArray:
    return np.asarray(welch(values, rate, nperseg=min(length, len(values)), nfft=length, axis=0)[1])


def _parts(recording: Recording, columns: Sequence[str]) -> Iterator[Recording]:
    chosen = recording.select(columns)
    count, longest = _SPREAD
    if recording.duration <= longest:
        yield from clean_parts(chosen.loaded())
        return
    for start in np.linspace(recording.time[0], recording.time[-1] - _SEGMENT, count):
        first, last = np.searchsorted(recording.time, [start, start + _SEGMENT])
        if last - first > 1:
            yield from clean_parts(chosen.rows(int(first), int(last)).loaded())


def _end_of_signal(signal: FloatArray, noise: FloatArray, step: float) -> int:
    """Gives the number of the frequency at which the signal, averaged over 1 Hz, first falls below the noise."""
    width = max(1, round(1.0 / step))
    clear = np.convolve(signal - noise, np.ones(width) / width, mode="valid")
    below = np.flatnonzero(clear <= 0.0)
    return int(below[0]) + width // 2 if len(below) else len(signal)
