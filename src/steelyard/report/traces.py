"""Traces: what was measured in a recording beside what the model and the estimate predict, ready to be drawn.

A second pass over the motion at given parameters, as for a validation, that keeps what a picture needs and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.signal import welch

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import GRAVITY
from steelyard.validation import AXES, CANDIDATES, ROBOT, UNITS, plan_predictor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification import Estimate
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.validation import Prediction

Purpose = Literal["training", "unseen"]

MOST_SAMPLES = 2500
"""Samples of a recording that are drawn; of longer ones the samples that are explained worst stand for the others."""

LOADED = 0.05
"""Share of the robot's weight that a sole carries at least where it stands."""

_MOST_FOR_SPECTRUM = 65_536
_SPECTRUM_SECONDS = 8.0
_FEWEST_FOR_SPECTRUM = 32
_PIECE = 4096


class Spectrum(NamedTuple):
    """Amplitude spectral densities.

    Attributes:
        frequency: Hz, shape (m,).
        measured: Of what was measured, about its mean, by row, shape (m, n_rows); unit/√Hz.
        residuals: By candidate, of predicted − measured, shape (m, n_rows).
    """

    frequency: FloatArray
    measured: FloatArray
    residuals: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Trace:
    """One recording.

    Attributes:
        name: Of the recording.
        purpose: Whether the estimate was learned from it ("training") or never saw it ("unseen").
        rows: What is shown: axes of the total wrench, joints.
        units: Their units.
        base: The base link, in whose axes the wrench is.
        time: Shape (n,), s.
        measured: Shape (n, n_rows).
        predicted: By candidate ("reference", "estimate", "truth"), shape (n, n_rows).
        every: One of so many samples is kept.
        rmse: By candidate, of every sample, shape (n_rows,).
        spectrum: Of the first unbroken stretch; None where it is too short.
        loads: By sole that has a wrench sensor, the force that it carried, shape (n,), N.
        contacts: By sole, the stretches of time (s) in which it stood: as the motion says, else where it carried more
            than `LOADED` of the robot's weight.
        breaks: Times (s) at which the motion breaks off and goes on later.
        duration: Seconds of motion.
        bandwidth: Of the filter, Hz; None where there was none.
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
    spectrum: Spectrum | None
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
    nuisance: Sequence[str] = ROBOT,
) -> Trace:
    """Gives the trace of one recording.

    Args:
        estimate: The estimate.
        motions: The recording's motion, piece by piece.
        name: Of the recording.
        purpose: What it was used for; a recording that the estimate was made from is "training" in any case.
        truth: The true parameters where they are known, shape (n_links, 10), or an object with `parameters`.
        nuisance: Groups of the estimate's nuisance values that are applied, as for `validate`.

    Raises:
        EvidenceError: There is no motion.
    """
    stream = iter(motions)
    first = next(stream, None)
    if first is None:
        raise EvidenceError(f"there is no motion in {name} to draw")
    if first.origin and first.origin in {origin.sha256 for origin in estimate.origins}:
        purpose = "training"  # whatever it is called
    predictor, _ = plan_predictor(estimate, first, truth, nuisance=nuisance)
    plan = predictor.plan
    collector = _Collector(estimate.model, predictor.sensing.torques, CANDIDATES[: len(predictor.parameters)])
    with one_blas_thread():
        for motion in _chain(first, stream):
            for piece in motion.chunks(_PIECE):
                collector.add(piece, predictor.predict(piece, plan))
    return collector.trace(name, purpose)


def thin_traces(traces: Sequence[Trace], most: int) -> list[Trace]:
    """Gives traces with at most so many numbers together: of each, every so many-th sample that it still has."""
    numbers = sum(trace.measured.size * (1 + len(trace.predicted)) for trace in traces)
    every = max(1, -(-numbers // most))
    return [
        replace(
            trace,
            time=trace.time[::every],
            measured=trace.measured[::every],
            predicted={name: values[::every] for name, values in trace.predicted.items()},
            loads={name: values[::every] for name, values in trace.loads.items()},
            every=trace.every * every,
        )
        for trace in traces
    ]


def _chain(first: Motion, rest: Iterable[Motion]) -> Iterable[Motion]:
    yield first
    yield from rest


class _Collector:
    """Samples as they come, never more than four times those that are drawn."""

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
        self._note_breaks(piece.time)
        self._note_contacts(piece, dict(zip(self._sensors, loads, strict=True)))
        if self._head_count < _MOST_FOR_SPECTRUM:
            self._head.append(whole)
            self._head_count += len(whole)
        self._kept.append(self._thin(whole, self.every))
        self._kept_count += len(self._kept[-1])
        if self._kept_count > 4 * MOST_SAMPLES:
            self._halve()

    def _halve(self) -> None:
        self.every *= 2
        self._kept = [self._thin(np.concatenate(self._kept), 2)]
        self._kept_count = len(self._kept[0])

    def _thin(self, samples: FloatArray, every: int) -> FloatArray:
        """Gives one of so many neighbours: the one that the estimate explains worst, so that no misfit is hidden."""
        if every == 1:
            return samples
        count = len(self.rows)
        scale = np.sqrt(self._squares[0] / max(1, self._count)) + 1e-300
        worse = (np.square((samples[:, 1 + count : 1 + 2 * count] - samples[:, 1 : 1 + count]) / scale)).sum(axis=1)
        groups = -(-len(samples) // every)
        padded = np.full(groups * every, -1.0)
        padded[: len(samples)] = worse
        places = np.arange(groups) * every + np.argmax(padded.reshape(groups, every), axis=1)
        return np.asarray(samples[places])

    def _note_breaks(self, time: FloatArray) -> None:
        steps = np.diff(time, prepend=self._last if np.isfinite(self._last) else time[0] - self._step)
        self._breaks += time[np.abs(steps) > 1.5 * self._step].tolist()
        self._last = float(time[-1])

    def _loads(self, piece: Motion) -> list[FloatArray]:
        """Gives the force on each sole; not a number where its sensor says nothing."""
        silent = np.full((len(piece), 6), np.nan)
        return [np.linalg.norm(piece.wrenches.get(sensor, silent)[:, :3], axis=1) for sensor in self._sensors.values()]

    def _note_contacts(self, piece: Motion, loads: Mapping[str, FloatArray]) -> None:
        felt = {sole: load > self._least_load for sole, load in loads.items()}
        for sole, standing in (felt | dict(piece.contacts)).items():
            stretches = self._contacts.setdefault(sole, [])
            edges = np.flatnonzero(np.diff(np.concatenate([[False], standing, [False]]).astype(np.int8)))
            for start, stop in edges.reshape(-1, 2).tolist():
                begin, end = float(piece.time[start]), float(piece.time[stop - 1])
                if stretches and 0.0 <= begin - stretches[-1][1] <= 1.5 * self._step:
                    stretches[-1][1] = end
                else:
                    stretches.append([begin, end])

    def trace(self, name: str, purpose: Purpose) -> Trace:
        while self._kept_count > MOST_SAMPLES:
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

    def _spectrum(self, rows: Any, wanted: Sequence[int]) -> Spectrum | None:
        head = np.concatenate(self._head)
        broken = np.flatnonzero(np.abs(np.diff(head[:, 0]) - self._step) > 0.5 * self._step)
        whole = head[: int(broken[0]) + 1] if len(broken) else head
        if len(whole) < _FEWEST_FOR_SPECTRUM or not len(rows):
            return None
        count = len(self.rows)
        segment = min(len(whole), max(_FEWEST_FOR_SPECTRUM, round(_SPECTRUM_SECONDS / self._step)))

        def density(values: FloatArray) -> tuple[FloatArray, FloatArray]:
            frequency, power = welch(values, fs=1.0 / self._step, nperseg=segment, detrend="constant", axis=0)
            return frequency[1:], np.sqrt(power[1:])

        measured = whole[:, 1 + rows]
        frequency, of_measured = density(measured)
        residuals = {
            self.candidates[place]: density(whole[:, 1 + (1 + place) * count + rows] - measured)[1] for place in wanted
        }
        # Above what the filter lets through there is nothing to see.
        shown = np.ones(len(frequency), dtype=np.bool_)
        if self._bandwidth is not None:
            shown = frequency <= 2.0 * self._bandwidth
        return Spectrum(
            frequency[shown], of_measured[shown], {each: values[shown] for each, values in residuals.items()}
        )


def _joint_columns(model: Model, torques: Sequence[str]) -> Any:
    """Gives the torque rows that belong to joints with one axis."""
    columns, place = [], 0
    for joint in torques:
        size = model.joint(joint).velocity_size
        if size == 1:
            columns.append(place)
        place += size
    return np.array(columns, dtype=np.int64)
