"""Accumulation of prediction errors over the chunks of motions: moments, squared errors in order of time, origins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics import quaternion_rotations
from steelyard.regression import Origin
from steelyard.validation.bootstrap import Gain, draw_blocks
from steelyard.validation.error_freedom import count_freedom
from steelyard.validation.error_statistics import Moments
from steelyard.validation.prediction import AXES, UNFELT, Predictor, world_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan, Sensing
    from steelyard.validation.prediction import Prediction

_ALIKE = 0.01
"""Relative difference up to which two time steps count as equal. Set by judgement: above jitter, below any change of
rate."""

_MOST_KEPT = 200_000
"""Squared errors kept for the bootstrap, to bound its memory; longer series are summed in pairs until they fit."""


_MOST_SIGNED = 50_000
"""Samples whose errors are kept with their signs, to bound the memory: longer motions have blocks enough. Set by
judgement."""


class Gains(NamedTuple):
    """Improvement of the estimate over the other candidates.

    Attributes:
        by_candidate: By the other candidate and by row.
        unresolved: Rows that have too few blocks for a decision.
        block: Seconds in the longest block of any row.
        blocks: Least number of blocks of any row.
        repeated: Seconds of motion that were given more than once.
    """

    by_candidate: dict[str, dict[str, Gain]]
    unresolved: tuple[str, ...]
    block: float
    blocks: float
    repeated: float


@dataclass
class _Segment:
    """Squared errors without a gap.

    Attributes:
        recording: Name of the recording.
        start: Time of the first sample, s.
        end: Time of the last one, s.
        step: Seconds between samples.
        parts: The squared errors, shape (n, n_columns) each.
        errors: The errors with their signs, likewise without the column of projected ones; see `Tally.freedom`.
    """

    recording: str
    start: float
    end: float
    step: float
    parts: list[FloatArray]
    errors: list[FloatArray]


class Tally:
    """Prediction errors, accumulated over the chunks of motions."""

    def __init__(self, predictor: Predictor, plan: RowPlan, truth: bool) -> None:
        model, sensing = predictor.model, predictor.sensing
        count = len(predictor.parameters)
        self.predictor, self.plan, self.truth = predictor, plan, truth
        self.joints, self.units = _torque_rows(model, sensing)
        self.wrench = Moments(6, count)
        self.world: Moments | None = Moments(6, count)
        self.torque = Moments(len(self.joints), count)
        self.projected = np.zeros(count)
        self.equations = 0.0
        self.touching = np.zeros(len(plan.unknown_soles), dtype=np.bool_)
        self.duration = 0.0
        self.origins: list[Origin] = []
        self._series: list[_Segment] = []
        self._width = 1
        self._signed = True
        self._unnamed = 0

    def add(self, chunk: Motion) -> None:
        """Add a chunk of a motion."""
        prediction = self.predictor.predict(chunk, self.plan)
        step = self._step(chunk)
        self.wrench.add(*prediction.wrench, step)
        self.torque.add(*prediction.torque, step)
        self.touching |= np.any(np.abs(prediction.hidden) > UNFELT, axis=(0, 1))
        if chunk.orientation is None:
            self.world = None
        elif self.world is not None:
            self.world.add(*world_axes(prediction, quaternion_rotations(chunk.orientation)), step)
        if prediction.projected is not None:
            self.projected += step * prediction.projected.sum(axis=1)
            self.equations += step * prediction.equations
        errors = _errors(prediction)
        squares = step * _squares(prediction, errors, len(chunk))
        self._signed = self._signed and sum(len(each) for one in self._series for each in one.errors) <= _MOST_SIGNED
        for part in _even_parts(chunk.time, step):
            start, end = float(chunk.time[part.start]), float(chunk.time[part.stop - 1])
            last = self._series[-1] if self._series else None
            recording = self._recording(chunk.origin, start)
            joined = last is not None and last.recording == recording and abs(start - last.end - step) < 0.5 * step
            if joined and last is not None:
                self.duration += end - last.end
                self.origins.append(Origin(chunk.origin, last.end, end))
            else:
                last = _Segment(recording, start, end, step, [], [])
                self.duration += end - start
                self.origins.append(Origin(chunk.origin, start, end))
                self._series.append(last)
            last.end = end
            last.parts.append(_binned(squares[part], self._width))
            if self._signed:
                last.errors.append(errors[part])
        if sum(len(each) for segment in self._series for each in segment.parts) > _MOST_KEPT:
            for segment in self._series:
                segment.parts = [_binned(np.concatenate(segment.parts), 2)]
            self._width *= 2

    def _step(self, chunk: Motion) -> float:
        """Return the time step of a chunk, s; that of the chunk before if it is about the same."""
        steps = np.diff(chunk.time)
        steps = steps[steps > 0.0]
        # The last digits vary between chunks by rounding.
        step = float(f"{np.median(steps):.9g}") if len(steps) else 1.0 / chunk.sample_rate
        last = self._series[-1].step if self._series else step
        alone = not len(steps) and bool(self._series) and self._series[-1].recording == self._named(chunk.origin)
        return last if alone or abs(step - last) <= _ALIKE * last else step

    def _named(self, origin: str) -> str:
        return origin or f"unnamed {self._unnamed}"

    def _recording(self, origin: str, start: float) -> str:
        """Return the name of a segment's recording: without an origin, a new one whenever time goes back."""
        last = self._series[-1] if self._series else None
        if not origin and last is not None and last.recording == self._named("") and start <= last.end:
            self._unnamed += 1
        return self._named(origin)

    def columns(self, candidate: int) -> dict[str, list[int]]:
        """Return the columns of the squared errors of one candidate, by row of `Validation.improvement`."""
        width = 7 + len(self.joints)
        start = candidate * width
        axes = [number for number in range(6) if self.wrench.known[number]]
        joints = [number for number in range(len(self.joints)) if self.torque.known[number]]
        chosen = {AXES[number]: [start + number] for number in axes}
        if axes:
            chosen["total"] = [start + number for number in axes]
        chosen |= {f"torque {self.joints[number]}": [start + 6 + number] for number in joints}
        if len(joints) > 1:
            chosen["torques"] = [start + 6 + number for number in joints]
        if self.reports_projected:
            chosen["projected"] = [start + width - 1]
        return chosen

    def freedom(self, columns: Sequence[int]) -> float:
        """Return the degrees of freedom of the sum of squares in some columns; 0 where they are not known.

        They are not where signs were not kept, or of the residual with unknown forces projected out.
        """
        width = 7 + len(self.joints)
        rows = [(column // width, column % width) for column in columns]
        if not self._signed or any(row == width - 1 for _, row in rows):
            return 0.0
        chosen = tuple(np.transpose(rows))
        # Of several rates, samples are weighted by the time that they stand for, as their squares are.
        return count_freedom(
            [np.sqrt(each.step) * np.concatenate(each.errors)[:, chosen[0], chosen[1]] for each in self._series]
        )

    @property
    def reports_projected(self) -> bool:
        """Whether something is not measured in full, so that the projected equations are reported."""
        return self.equations > 0 and not (self.wrench.known.all() and self.torque.known.all())

    def gains(self, level: float, seed: int) -> Gains:
        """Return the improvement in each row over each other candidate, each with its own block length."""
        segments, gaps, step, repeated = _in_order(self._series, self._width)
        first = self.columns(0)
        found: dict[str, dict[str, Gain]] = {}
        unresolved: set[str] = set()
        block, blocks = 0, np.inf
        for name, other in (("corrected", 1), ("reference", 2)):
            found[name] = {}
            for row, theirs in self.columns(other).items():
                sums = [
                    np.stack([each[:, first[row]].sum(axis=1), each[:, theirs].sum(axis=1)], axis=1)
                    for each in segments
                ]
                draws = draw_blocks(sums, [(0, 1)], seed=seed, gaps=gaps)
                few = not len(draws.drawn) and not repeated
                freedom = (self.freedom(first[row]), self.freedom(theirs)) if few else (0.0, 0.0)
                gain = found[name][row] = draws.gain([0], [1], level, freedom)
                block, blocks = max(block, draws.block), min(blocks, draws.blocks)
                if np.isnan(gain.low):
                    unresolved.add(row)
        return Gains(found, tuple(row for row in first if row in unresolved), block * step, float(blocks), repeated)


def _errors(prediction: Prediction) -> FloatArray:
    """Return the errors of the first three candidates, shape (n, 3, 6 + n_torques)."""
    parts = [(rows.predicted[:3] - rows.measured) for rows in (prediction.wrench, prediction.torque)]
    return np.moveaxis(np.concatenate(parts, axis=2), 0, 1)


def _squares(prediction: Prediction, errors: FloatArray, count: int) -> FloatArray:
    """Return the squared errors of the first three candidates, shape (n, 3 · (6 + n_torques + 1))."""
    projected = np.zeros((3, count)) if prediction.projected is None else prediction.projected[:3]
    return np.concatenate([np.square(errors), projected.T[:, :, None]], axis=2).reshape(count, -1)


def _in_order(series: list[_Segment], width: int) -> tuple[list[FloatArray], list[float], float, float]:
    """Return segments in order of recording and time, on the coarsest time step of all.

    Samples that were given more than once are summed: repetition is no additional evidence.

    Returns:
        The segments, the samples missing before each, the step (s), and the seconds that were given more than once.
    """
    step = max((segment.step for segment in series), default=1.0) * width
    segments: list[FloatArray] = []
    gaps: list[float] = []
    repeated = 0.0
    recording, end = "", 0.0
    for segment in sorted(series, key=lambda each: (each.recording, each.start)):
        values = np.concatenate(segment.parts)
        if segment.step * width < (1.0 - _ALIKE) * step:
            values = _coarser(values, segment.step * width / step)
        if segment.recording != recording or segment.start > end:
            segments.append(values)
            gaps.append(max(0, round((segment.start - end) / step) - 1) if segment.recording == recording else np.inf)
            end = segment.end
        else:
            before = segments[-1]
            place = max(0, len(before) - 1 - round((end - segment.start) / step))
            both = np.zeros((max(len(before), place + len(values)), values.shape[1]))
            both[: len(before)] = before
            both[place : place + len(values)] += values
            segments[-1] = both
            repeated += min(end, segment.end) - segment.start
            end = max(end, segment.end)
        recording = segment.recording
    return segments, gaps, step, repeated


def _coarser(values: FloatArray, share: float) -> FloatArray:
    """Return sums over coarser steps, samples across two of them divided by time; the last step may be incomplete."""
    running = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    edges = np.minimum(np.arange(int(np.ceil(len(values) * share - 1e-9)) + 1) / share, len(values))
    whole = np.minimum(edges.astype(np.int64), len(values) - 1)
    there = running[whole] + (edges - whole)[:, None] * values[whole]
    return np.asarray(np.maximum(np.diff(there, axis=0), 0.0))


def _binned(series: FloatArray, width: int) -> FloatArray:
    """Return sums over `width` neighbours; the last may have fewer."""
    return series if width == 1 else np.asarray(np.add.reduceat(series, np.arange(0, len(series), width), axis=0))


def _even_parts(time: FloatArray, step: float) -> list[slice]:
    """Return the parts of a chunk between jumps of time."""
    cuts = np.flatnonzero(np.abs(np.diff(time) - step) > 0.5 * step) + 1
    return [slice(int(a), int(b)) for a, b in zip([0, *cuts], [*cuts, len(time)], strict=True)]


def _torque_rows(model: Model, sensing: Sensing) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names: list[str] = []
    units: list[str] = []
    for name in sensing.torques:
        joint = model.joint(name)
        names += [name] if joint.velocity_size == 1 else [f"{name}.{axis}" for axis in "xyz"]
        units += ["N" if joint.kind == "prismatic" else "N m"] * joint.velocity_size
    return tuple(names), tuple(units)
