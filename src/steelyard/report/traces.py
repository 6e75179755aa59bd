"""Traces: measured wrenches and torques of a recording with the predictions of the model and the estimate, for plots.

A second pass over the motion at given parameters, as for a validation, that keeps only what a plot needs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import GRAVITY, estimate_power_density
from steelyard.regression import PRIORS
from steelyard.validation import AXES, CANDIDATES, UNITS, plan_predictor, with_sensor_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification import Estimate
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.validation import Prediction

Purpose = Literal["training", "unseen"]

MOST_SAMPLES = 2500
"""Samples of a recording that are drawn: more than a screen has columns; see `_Collector` for longer ones."""

LOADED = 0.05
"""Load from which a sole counts as standing, as a share of the robot's weight. Set by judgement: above the offsets of
force sensors, some newtons, and below any stance."""

_MOST_FOR_SPECTRUM = 65_536
"""Samples that a spectrum is computed from at most: bounds the memory; two minutes at 500 Hz."""

_SEGMENT_SECONDS = 8.0
"""Length of a segment of Welch's method, s. Set by judgement: resolves 0.125 Hz, below the slowest motions."""

_FEWEST_FOR_SPECTRUM = 32
"""Samples below which no spectrum is shown. Set by judgement: sixteen frequencies are the least worth a plot."""

_TINY = 1e-300
"""Added to a scale that may be zero: below every error, above zero."""

_PIECE = 4096
"""Samples that are predicted at a time: bounds the memory."""


class ResidualSpectrum(NamedTuple):
    """Amplitude spectral densities.

    Attributes:
        frequency: Hz, shape (m,).
        measured: Of the measured values about their mean, shape (m, n_rows), unit/√Hz.
        residuals: Of predicted − measured, by candidate, shape (m, n_rows), unit/√Hz.
    """

    frequency: FloatArray
    measured: FloatArray
    residuals: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Trace:
    """Measured and predicted values of one recording.

    Attributes:
        name: Name of the recording.
        purpose: Whether the estimate was made from it ("training") or not ("unseen").
        rows: Axes of the total wrench, and joints.
        units: Their units.
        base: The base link, in whose axes the wrench is.
        time: Time, s, shape (n,).
        measured: Measured values, shape (n, n_rows).
        predicted: Predicted values, by candidate ("reference", "estimate", "truth"), shape (n, n_rows).
        every: Downsampling factor: one of this many samples is kept.
        rmse: RMS error over all samples, by candidate, shape (n_rows,).
        spectrum: Spectra of the first segment without gaps; None if that is too short.
        loads: Force on each sole that has a wrench sensor, N, shape (n,).
        contacts: Intervals (s) in which each sole stood: from the motion's contacts, or else where it carried more than
            `LOADED` of the robot's weight.
        breaks: Times (s) of the first samples after gaps.
        duration: Duration of the motion, s.
        bandwidth: Bandwidth of the filter, Hz; None without one.
    """

    name: str
    purpose: Purpose
    rows: tuple[str, ...]
    units: tuple[str, ...]
    base: str
    time: FloatArray
    measured: FloatArray
    predicted: Mapping[str, FloatArray]
    every: int
    rmse: Mapping[str, FloatArray]
    spectrum: ResidualSpectrum | None
    loads: Mapping[str, FloatArray]
    contacts: Mapping[str, tuple[tuple[float, float], ...]]
    breaks: tuple[float, ...]
    duration: float
    bandwidth: float | None


def trace_motions(
    estimate: Estimate,
    motions: Iterable[Motion],
    *,
    name: str,
    purpose: Purpose,
    truth: Any = None,
    nuisance: Sequence[str] = tuple(PRIORS),
    sensor_errors: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None,
) -> Trace:
    """Predict a recording's motion, and return its trace.

    Args:
        estimate: The estimate.
        motions: The motion, piece by piece.
        name: Name of the recording.
        purpose: What it was used for; a recording that the estimate was made from is always "training".
        truth: The true parameters where known, shape (n_links, 10), or an object with `parameters`.
        nuisance: Groups of errors of sensors and joints to apply, as for `validate`.
        sensor_errors: Those of recordings that have their own, as `Validation.sensor_errors` has them.

    Raises:
        EvidenceError: There is no motion.
    """
    stream = iter(motions)
    first = next(stream, None)
    if first is None:
        raise EvidenceError(f"there is no motion in {name} to plot")
    if first.origin and first.origin in {origin.sha256 for origin in estimate.origins}:
        purpose = "training"
    predictor, _ = plan_predictor(estimate, first, truth, nuisance=nuisance)
    predictor = with_sensor_errors(predictor, sensor_errors or {})
    plan = predictor.plan
    collector = _Collector(estimate.model, predictor.sensing.torques, CANDIDATES[: len(predictor.parameters)])
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for motion in chain([first], stream):
            pieces = list(motion.chunks(_PIECE))
            for piece, predicted in zip(pieces, pool.map(partial(predictor.predict, plan=plan), pieces), strict=True):
                collector.add(piece, predicted)
    return collector.trace(name, purpose)


def thin_traces(traces: Sequence[Trace], most: int) -> list[Trace]:
    """Downsample traces, all by the same factor, to about `most` numbers together.

    Kept are whole samples, as `choose_samples` chooses them: extremes of every channel, and gaps, survive whatever the
    factor, and may exceed `most` where channels are many.
    """
    numbers = sum(trace.measured.size * (1 + len(trace.predicted)) for trace in traces)
    every = max(1, -(-numbers // most))
    return [_thin(trace, every) for trace in traces] if every > 1 else list(traces)


def _thin(trace: Trace, every: int) -> Trace:
    residuals = [values - trace.measured for values in trace.predicted.values()]
    loads = [values[:, None] for values in trace.loads.values()]
    channels = np.concatenate([trace.measured, *trace.predicted.values(), *residuals, *loads], axis=1)
    scale = np.array(next((trace.rmse[name] for name in trace.predicted), np.ones(len(trace.rows)))) + _TINY
    misfit = np.square(residuals[0] / scale).sum(axis=1) if residuals else np.zeros(len(trace.time))
    rows = choose_samples(channels, misfit, every)
    return replace(
        trace,
        time=trace.time[rows],
        measured=trace.measured[rows],
        predicted={name: values[rows] for name, values in trace.predicted.items()},
        loads={name: values[rows] for name, values in trace.loads.items()},
        every=trace.every * every,
    )


def choose_samples(channels: FloatArray, misfit: FloatArray, every: int) -> IntArray:
    """Choose about one of `every` neighbouring samples to plot, such that nothing notable is hidden.

    The greatest and the least value of each channel are kept, and the first sample of each gap (NaN) in a channel. Of
    neighbours without any of these, the one with the largest misfit is kept.

    Args:
        channels: The plotted values, shape (n, n_channels).
        misfit: A measure of each sample's residuals, shape (n,).
        every: Downsampling factor.

    Returns:
        Indices of the samples, in order.
    """
    missing = np.isnan(channels)
    kept = np.any(missing & ~np.concatenate([np.zeros_like(missing[:1]), missing[:-1]]), axis=1)
    if len(channels):
        kept[np.argmax(np.where(missing, -np.inf, channels), axis=0)] = True
        kept[np.argmin(np.where(missing, np.inf, channels), axis=0)] = True
    count = -(-len(channels) // every)
    padded = np.full(count * every, -1.0)
    padded[: len(misfit)] = np.where(np.isnan(misfit), 0.0, misfit)
    worst = np.arange(count) * every + np.argmax(padded.reshape(count, every), axis=1)
    settled = np.zeros(count, dtype=np.bool_)
    settled[np.flatnonzero(kept) // every] = True
    kept[worst[~settled]] = True
    return np.flatnonzero(kept)


class _Collector:
    """Collects samples, about four times those that are drawn at most."""

    def __init__(self, model: Model, torques: Sequence[str], candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        joints = [joint for joint in torques if model.joint(joint).velocity_size == 1]
        self._joint_columns = _joint_columns(model, torques)
        self.rows = (*AXES, *joints)
        self.units = (*UNITS, *("N" if model.joint(joint).kind == "prismatic" else "N m" for joint in joints))
        self.known = np.ones(len(self.rows), dtype=np.bool_)
        self._sensors = {sole.name: sole.wrench for sole in model.setup.soles if sole.wrench is not None}
        self._least_load = LOADED * GRAVITY * model.total_mass
        self.every = 1
        self._kept: list[FloatArray] = []
        self._kept_count = 0
        self._head: list[FloatArray] = []
        self._head_count = 0
        self._squares = np.zeros((len(self.candidates), len(self.rows)))
        self._count = 0
        self._contacts: dict[str, list[list[float]]] = {}
        self._breaks: list[float] = []
        self._last = -np.inf
        self._step = 1.0
        self._seconds = 0.0
        self._base = ""
        self._bandwidth: float | None = None

    def add(self, piece: Motion, seen: Prediction) -> None:
        measured = np.concatenate([seen.wrench.measured, seen.torque.measured[:, self._joint_columns]], axis=1)
        predicted = np.concatenate([seen.wrench.predicted, seen.torque.predicted[:, :, self._joint_columns]], axis=2)
        self.known &= np.concatenate([seen.wrench.known, seen.torque.known[self._joint_columns]])
        errors = predicted - measured
        self._squares += np.square(errors).sum(axis=1)
        self._count += len(piece)
        self._step, self._base, self._bandwidth = 1.0 / piece.sample_rate, piece.base, piece.bandwidth
        self._seconds += len(piece) * self._step
        loads = self._loads(piece)
        whole = np.concatenate([piece.time[:, None], measured, *predicted, *(each[:, None] for each in loads)], axis=1)
        self._add_breaks(piece.time)
        self._add_contacts(piece, dict(zip(self._sensors, loads, strict=True)))
        if self._head_count < _MOST_FOR_SPECTRUM:
            self._head.append(whole)
            self._head_count += len(whole)
        self._kept.append(self._downsample(whole, self.every))
        self._kept_count += len(self._kept[-1])
        if self._kept_count > 4 * MOST_SAMPLES:
            self._halve()

    def _halve(self) -> None:
        self.every *= 2
        self._kept = [self._downsample(np.concatenate(self._kept), 2)]
        self._kept_count = len(self._kept[0])

    def _downsample(self, samples: FloatArray, every: int) -> FloatArray:
        """Keep about one of `every` neighbours; see `choose_samples`."""
        if every == 1:
            return samples
        count = len(self.rows)
        measured, shown = samples[:, 1 : 1 + count], 1 + count * (1 + len(self.candidates))
        residuals = [samples[:, start : start + count] - measured for start in range(1 + count, shown, count)]
        scale = np.sqrt(self._squares[0] / max(1, self._count)) + _TINY
        misfit = np.square(residuals[0] / scale).sum(axis=1)
        return np.asarray(samples[choose_samples(np.concatenate([samples[:, 1:], *residuals], axis=1), misfit, every)])

    def _add_breaks(self, time: FloatArray) -> None:
        steps = np.diff(time, prepend=self._last if np.isfinite(self._last) else time[0] - self._step)
        self._breaks += time[np.abs(steps) > 1.5 * self._step].tolist()
        self._last = float(time[-1])

    def _loads(self, piece: Motion) -> list[FloatArray]:
        """Return the force on each sole; NaN where its sensor has no data."""
        silent = np.full((len(piece), 6), np.nan)
        return [np.linalg.norm(piece.wrenches.get(sensor, silent)[:, :3], axis=1) for sensor in self._sensors.values()]

    def _add_contacts(self, piece: Motion, loads: Mapping[str, FloatArray]) -> None:
        loaded = {sole: load > self._least_load for sole, load in loads.items()}
        for sole, standing in (loaded | dict(piece.contacts)).items():
            intervals = self._contacts.setdefault(sole, [])
            edges = np.flatnonzero(np.diff(np.concatenate([[False], standing, [False]]).astype(np.int8)))
            for start, stop in edges.reshape(-1, 2).tolist():
                begin, end = float(piece.time[start]), float(piece.time[stop - 1])
                if intervals and 0.0 <= begin - intervals[-1][1] <= 1.5 * self._step:
                    intervals[-1][1] = end
                else:
                    intervals.append([begin, end])

    def trace(self, name: str, purpose: Purpose) -> Trace:
        before = np.inf
        # Extremes and gaps stay, however many there are.
        while MOST_SAMPLES < self._kept_count < before:
            before = self._kept_count
            self._halve()
        kept = np.concatenate(self._kept)
        rows = np.flatnonzero(self.known)
        count = len(self.rows)

        def part(number: int) -> FloatArray:
            return np.asarray(kept[:, 1 + number * count + rows])

        wanted = [place for place, candidate in enumerate(self.candidates) if candidate != "corrected"]
        rmse = np.sqrt(self._squares / max(1, self._count))
        return Trace(
            name=name,
            purpose=purpose,
            rows=tuple(self.rows[row] for row in rows),
            units=tuple(self.units[row] for row in rows),
            base=self._base,
            time=kept[:, 0],
            measured=part(0),
            predicted={self.candidates[place]: part(1 + place) for place in wanted},
            every=self.every,
            rmse={candidate: rmse[place, rows] for place, candidate in enumerate(self.candidates)},
            spectrum=self._spectrum(rows, wanted),
            loads={
                sole: kept[:, 1 + (1 + len(self.candidates)) * count + place]
                for place, sole in enumerate(self._sensors)
            },
            contacts={sole: tuple((start, end) for start, end in each) for sole, each in self._contacts.items()},
            breaks=tuple(self._breaks),
            duration=self._seconds,
            bandwidth=self._bandwidth,
        )

    def _spectrum(self, rows: Any, wanted: Sequence[int]) -> ResidualSpectrum | None:
        head = np.concatenate(self._head)
        broken = np.flatnonzero(np.abs(np.diff(head[:, 0]) - self._step) > 0.5 * self._step)
        whole = head[: int(broken[0]) + 1] if len(broken) else head
        if len(whole) < _FEWEST_FOR_SPECTRUM or not len(rows):
            return None
        count = len(self.rows)
        segment = min(len(whole), max(_FEWEST_FOR_SPECTRUM, round(_SEGMENT_SECONDS / self._step)))

        def density(values: FloatArray) -> tuple[FloatArray, FloatArray]:
            frequency, power = estimate_power_density(values, 1.0 / self._step, segment)
            return frequency[1:], np.sqrt(power[1:])

        measured = whole[:, 1 + rows]
        frequency, of_measured = density(measured)
        residuals = {
            self.candidates[place]: density(whole[:, 1 + (1 + place) * count + rows] - measured)[1] for place in wanted
        }
        # Above the bandwidth of the filter there is nothing to see.
        shown = np.ones(len(frequency), dtype=np.bool_)
        if self._bandwidth is not None:
            shown = frequency <= 2.0 * self._bandwidth
        return ResidualSpectrum(
            frequency[shown], of_measured[shown], {each: values[shown] for each, values in residuals.items()}
        )


def _joint_columns(model: Model, torques: Sequence[str]) -> Any:
    """Return the columns of the torques that belong to joints with one axis."""
    columns, place = [], 0
    for joint in torques:
        size = model.joint(joint).velocity_size
        if size == 1:
            columns.append(place)
        place += size
    return np.array(columns, dtype=np.int64)
