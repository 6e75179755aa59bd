"""What the pieces of motions add up to: moments of errors, squared errors in order of time, and their origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.motion.kinematics import quaternion_rotations
from steelyard.regression.origins import Origin
from steelyard.validation.bootstrap import Gain, draw_blocks
from steelyard.validation.fit import Moments
from steelyard.validation.prediction import AXES, Predictor, world_axes

if TYPE_CHECKING:
    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray
    from steelyard.motion import Motion
    from steelyard.regression.sensing import RowPlan, Sensing
    from steelyard.validation.prediction import Prediction

_MOST_KEPT = 200_000
"""Squared errors kept for the bootstrap; longer series are added up in pairs until they fit."""


class Gains(NamedTuple):
    """How much better the estimate predicts.

    Attributes:
        by_candidate: By the other candidate and by row.
        dark: Rows that have too few blocks to tell it from chance.
        block: Seconds in the longest block of any row.
        blocks: How many blocks the row has that has fewest.
    """

    by_candidate: dict[str, dict[str, Gain]]
    dark: tuple[str, ...]
    block: float
    blocks: float


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
        self.equations = 0
        self.series: list[list[FloatArray]] = []
        self.duration = 0.0
        self.rate = 1.0
        self.origins: list[Origin] = []
        self._last: tuple[str, float] | None = None
        self._width = 1

    def add(self, piece: Motion) -> None:
        """Adds a piece of a motion."""
        seen = self.predictor.predict(piece, self.plan)
        self.wrench.add(*seen.wrench)
        self.torque.add(*seen.torque)
        if piece.orientation is None:
            self.world = None
        elif self.world is not None:
            self.world.add(*world_axes(seen.wrench, quaternion_rotations(piece.orientation)))
        if seen.projected is not None:
            self.projected += seen.projected.sum(axis=1)
            self.equations += seen.equations
        squares = _squares(seen, len(piece))
        origin = piece.origin
        self.rate = piece.sample_rate
        step = 1.0 / piece.sample_rate
        for part in _even_parts(piece.time, step):
            start, end = float(piece.time[part.start]), float(piece.time[part.stop - 1])
            joined = (
                self._last is not None and self._last[0] == origin and abs(start - self._last[1] - step) < 0.5 * step
            )
            self.duration += end - start + (step if joined else 0.0)
            if joined and self._last is not None:
                start = self._last[1]
            else:
                self.series.append([])
            self.series[-1].append(_binned(squares[part], self._width))
            self.origins.append(Origin(origin, start, end))
            self._last = (origin, end)
        if sum(len(each) for parts in self.series for each in parts) > _MOST_KEPT:
            self.series = [[_binned(np.concatenate(parts), 2)] for parts in self.series]
            self._width *= 2

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
        stretches = [np.concatenate(parts) for parts in self.series]
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
                draws = draw_blocks(sums, [(0, 1)], seed=seed)
                gain = found[name][row] = draws.gain([0], [1], level)
                block, blocks = max(block, draws.block), min(blocks, draws.blocks)
                if not len(draws.drawn) and gain.verdict == "undecided" and row not in dark:
                    dark.append(row)
        return Gains(found, tuple(dark), block * self._width / self.rate, float(blocks))


def _squares(seen: Prediction, count: int) -> FloatArray:
    """Gives squared errors of the first three candidates, shape (n, 3 · (6 + n_torques + 1))."""
    blocks = []
    for candidate in range(3):
        blocks.append(np.square(seen.wrench.predicted[candidate] - seen.wrench.measured))
        blocks.append(np.square(seen.torque.predicted[candidate] - seen.torque.measured))
        projected = np.zeros(count) if seen.projected is None else seen.projected[candidate]
        blocks.append(projected[:, None])
    return np.concatenate(blocks, axis=1)


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
