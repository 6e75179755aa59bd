"""What the pieces of motions add up to: moments of errors, squared errors in order of time, and their origins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.kinematics import quaternion_rotations
from steelyard.regression import Origin
from steelyard.validation.bootstrap import Gain, draw_blocks
from steelyard.validation.error_statistics import Moments
from steelyard.validation.prediction import AXES, UNFELT, Predictor, world_axes

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import RowPlan, Sensing
    from steelyard.validation.prediction import Prediction

_ALIKE = 0.01
"""Share by which two steps may differ and be the same."""

_MOST_KEPT = 200_000
"""Squared errors kept for the bootstrap; longer series are added up in pairs until they fit."""


class Gains(NamedTuple):
    """How much better the estimate predicts.

    Attributes:
        by_candidate: By the other candidate and by row.
        dark: PredictedRows that have too few blocks to tell it from chance.
        block: Seconds in the longest block of any row.
        blocks: How many blocks the row has that has fewest.
        twice: Seconds of motion that were given more than once.
    """

    by_candidate: dict[str, dict[str, Gain]]
    dark: tuple[str, ...]
    block: float
    blocks: float
    twice: float


@dataclass
class _Stretch:
    """Squared errors without a gap.

    Attributes:
        recording: Of which recording.
        start: Time of the first sample, s.
        end: Time of the last one, s.
        step: Seconds between samples.
        parts: The errors, shape (n, n_columns) each.
    """

    recording: str
    start: float
    end: float
    step: float
    parts: list[FloatArray]


class Tally:
    """What the pieces of the motions add up to."""

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
        self._series: list[_Stretch] = []
        self._width = 1
        self._unnamed = 0

    def add(self, piece: Motion) -> None:
        """Adds a piece of a motion."""
        seen = self.predictor.predict(piece, self.plan)
        step = self._step(piece)
        self.wrench.add(*seen.wrench, step)
        self.torque.add(*seen.torque, step)
        self.touching |= np.any(np.abs(seen.hidden) > UNFELT, axis=(0, 1))
        if piece.orientation is None:
            self.world = None
        elif self.world is not None:
            self.world.add(*world_axes(seen, quaternion_rotations(piece.orientation)), step)
        if seen.projected is not None:
            self.projected += step * seen.projected.sum(axis=1)
            self.equations += step * seen.equations
        squares = step * _squares(seen, len(piece))
        for part in _even_parts(piece.time, step):
            start, end = float(piece.time[part.start]), float(piece.time[part.stop - 1])
            last = self._series[-1] if self._series else None
            recording = self._recording(piece.origin, start)
            joined = last is not None and last.recording == recording and abs(start - last.end - step) < 0.5 * step
            if joined and last is not None:
                self.duration += end - last.end
                self.origins.append(Origin(piece.origin, last.end, end))
            else:
                last = _Stretch(recording, start, end, step, [])
                self.duration += end - start
                self.origins.append(Origin(piece.origin, start, end))
                self._series.append(last)
            last.end = end
            last.parts.append(_binned(squares[part], self._width))
        if sum(len(each) for stretch in self._series for each in stretch.parts) > _MOST_KEPT:
            for stretch in self._series:
                stretch.parts = [_binned(np.concatenate(stretch.parts), 2)]
            self._width *= 2

    def _step(self, piece: Motion) -> float:
        """Gives the usual step of a piece, s; that of the samples before where it is about the same."""
        steps = np.diff(piece.time)
        steps = steps[steps > 0.0]
        # Digits that rounding left over differ from piece to piece.
        step = float(f"{np.median(steps):.9g}") if len(steps) else 1.0 / piece.sample_rate
        last = self._series[-1].step if self._series else step
        alone = not len(steps) and bool(self._series) and self._series[-1].recording == self._named(piece.origin)
        return last if alone or abs(step - last) <= _ALIKE * last else step

    def _named(self, origin: str) -> str:
        return origin or f"unnamed {self._unnamed}"

    def _recording(self, origin: str, start: float) -> str:
        """Tells which recording a stretch is of: where nobody says, a new one when time goes back."""
        last = self._series[-1] if self._series else None
        if not origin and last is not None and last.recording == self._named("") and start <= last.end:
            self._unnamed += 1
        return self._named(origin)

    def columns(self, candidate: int) -> dict[str, list[int]]:
        """Gives the columns of `squares` that hold one candidate's errors, by row of `Validation.improvement`."""
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

    @property
    def reports_projected(self) -> bool:
        """Whether something is not measured in full, so that only the projected equations tell of it."""
        return self.equations > 0 and not (self.wrench.known.all() and self.torque.known.all())

    def gains(self, level: float, seed: int) -> Gains:
        """Gives how much better the estimate predicts each row than the others do, each with blocks of its own."""
        stretches, gaps, step, twice = _in_order(self._series, self._width)
        first = self.columns(0)
        found: dict[str, dict[str, Gain]] = {}
        dark: list[str] = []
        block, blocks = 0, np.inf
        for name, other in (("corrected", 1), ("reference", 2)):
            found[name] = {}
            for row, theirs in self.columns(other).items():
                sums = [
                    np.stack([each[:, first[row]].sum(axis=1), each[:, theirs].sum(axis=1)], axis=1)
                    for each in stretches
                ]
                draws = draw_blocks(sums, [(0, 1)], seed=seed, gaps=gaps)
                gain = found[name][row] = draws.gain([0], [1], level)
                block, blocks = max(block, draws.block), min(blocks, draws.blocks)
                if not len(draws.drawn) and gain.verdict == "undecided" and row not in dark:
                    dark.append(row)
        dark = [row for row in first if row in dark]
        return Gains(found, tuple(dark), block * step, float(blocks), twice)


def _squares(seen: Prediction, count: int) -> FloatArray:
    """Gives squared errors of the first three candidates, shape (n, 3 · (6 + n_torques + 1))."""
    blocks = []
    for candidate in range(3):
        blocks.append(np.square(seen.wrench.predicted[candidate] - seen.wrench.measured))
        blocks.append(np.square(seen.torque.predicted[candidate] - seen.torque.measured))
        projected = np.zeros(count) if seen.projected is None else seen.projected[candidate]
        blocks.append(projected[:, None])
    return np.concatenate(blocks, axis=1)


def _in_order(series: list[_Stretch], width: int) -> tuple[list[FloatArray], list[float], float, float]:
    """Gives stretches in order of recording and time, on the coarsest step of all.

    What was given twice is laid on itself: it is no more evidence than what was given once.

    Returns:
        The stretches, the samples missing before each, the step (s), and the seconds that were given more than once.
    """
    step = max((stretch.step for stretch in series), default=1.0) * width
    stretches: list[FloatArray] = []
    gaps: list[float] = []
    twice = 0.0
    recording, end = "", 0.0
    for stretch in sorted(series, key=lambda each: (each.recording, each.start)):
        values = np.concatenate(stretch.parts)
        if stretch.step * width < (1.0 - _ALIKE) * step:
            values = _coarser(values, stretch.step * width / step)
        if stretch.recording != recording or stretch.start > end:
            stretches.append(values)
            gaps.append(max(0, round((stretch.start - end) / step) - 1) if stretch.recording == recording else np.inf)
            end = stretch.end
        else:
            before = stretches[-1]
            place = max(0, len(before) - 1 - round((end - stretch.start) / step))
            both = np.zeros((max(len(before), place + len(values)), values.shape[1]))
            both[: len(before)] = before
            both[place : place + len(values)] += values
            stretches[-1] = both
            twice += min(end, stretch.end) - stretch.start
            end = max(end, stretch.end)
        recording = stretch.recording
    return stretches, gaps, step, twice


def _coarser(values: FloatArray, share: float) -> FloatArray:
    """Gives sums over steps of which each sample fills a share, what lies across two divided; the last may be part."""
    running = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    edges = np.minimum(np.arange(int(np.ceil(len(values) * share - 1e-9)) + 1) / share, len(values))
    whole = np.minimum(edges.astype(np.int64), len(values) - 1)
    there = running[whole] + (edges - whole)[:, None] * values[whole]
    return np.asarray(np.maximum(np.diff(there, axis=0), 0.0))


def _binned(series: FloatArray, width: int) -> FloatArray:
    """Gives sums over `width` neighbours; the last may have fewer."""
    return series if width == 1 else np.asarray(np.add.reduceat(series, np.arange(0, len(series), width), axis=0))


def _even_parts(time: FloatArray, step: float) -> list[slice]:
    """Gives the parts of a piece between which time jumps."""
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
