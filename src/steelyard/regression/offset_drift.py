"""Offsets of wrench sensors that drift within a long recording: linear between knots of time, eliminated knot by knot.

The offsets ``e_k`` at knot ``k`` change to the next by ``e_{k+1} − e_k ~ N(0, σ²)``. The rows between two knots have
the offsets' columns twice, weighted by ``1 − s`` and ``s``, where ``s`` runs from 0 to 1. Each knot is eliminated as
soon as the rows up to the next one are factored: memory does not grow with the recording, and the result equals one
joint solve with the offsets of all knots as columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from steelyard.regression.chunk_factors import ChunkTotals
from steelyard.regression.factor import triangle_of
from steelyard.regression.nuisance import OFFSET
from steelyard.regression.recording_errors import KNOT_SECONDS, ErrorBlock, RecordingErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.motion import Motion
    from steelyard.regression.evidence import Evidence
    from steelyard.regression.evidence_key import EvidenceKey

DRIFT_FORCE, DRIFT_MOMENT = 1.0 / 60.0, 0.05 / 60.0
"""Prior standard deviations of a wrench sensor's drift: 1 N and 0.05 N m a minute. Set by judgement: a strain-gauge
sensor that warms up by some degrees in ten minutes drifts by a percent of its range."""


class Hats(NamedTuple):
    """The span between two knots, and the columns that have a value of their own at each.

    Attributes:
        start: Time of the first knot, s.
        columns: Columns of the drifting errors.
    """

    start: float
    columns: IntArray

    def split(self, rows: FloatArray, time: FloatArray) -> FloatArray:
        """Return rows with the drifting columns twice: for the first knot in their place, for the next at the end.

        Args:
            rows: Shape (n_samples · n_rows, width).
            time: Times of the samples, shape (n_samples,).

        Returns:
            Shape (n_samples · n_rows, width + n_columns).
        """
        share = np.repeat((time - self.start) / KNOT_SECONDS, len(rows) // len(time))[:, None]
        both = np.empty((len(rows), rows.shape[1] + len(self.columns)))
        both[:, : rows.shape[1]] = rows
        both[:, rows.shape[1] :] = share * rows[:, self.columns]
        both[:, self.columns] -= both[:, rows.shape[1] :]
        return both


def drifting_columns(key: EvidenceKey) -> list[int]:
    """Return the places, among the nuisances, of each recording's own offsets of wrench sensors."""
    return [place for place, name in enumerate(key.nuisance) if name in key.own and name.endswith(OFFSET)]


def look_ahead(motions: Iterator[Motion]) -> tuple[bool, Iterator[Motion]]:
    """Return whether the motions of a recording last longer than the span between two knots, and all of them."""
    held: list[Motion] = []
    for motion in motions:
        held.append(motion)
        if motion.time[-1] - held[0].time[0] > KNOT_SECONDS:
            return True, chain(held, motions)
    return False, iter(held)


def split_at_knots(motions: Iterator[Motion]) -> Iterator[tuple[int, float, Iterator[Motion]]]:
    """Yield the number of each knot, its time, and the motions up to the next; knots before a gap are left out."""
    first = next(motions)
    begun = float(first.time[0])

    def parts() -> Iterator[tuple[int, Motion]]:
        for motion in chain([first], motions):
            knots = np.floor((motion.time - begun) / KNOT_SECONDS).astype(np.int64)
            edges = [0, *(np.flatnonzero(np.diff(knots)) + 1).tolist(), len(motion)]
            for start, stop in pairwise(edges):
                yield int(knots[start]), motion.between(start, stop)

    for knot, group in groupby(parts(), key=lambda part: part[0]):
        yield knot, begun + knot * KNOT_SECONDS, (motion for _, motion in group)


def gather_drifting(
    build: Callable[[ChunkTotals], Evidence],
    factor: Callable[..., ChunkTotals],
    motions: Iterator[Motion],
    size: int,
    weights: FloatArray | None,
    key: EvidenceKey,
    dependence: FloatArray,
) -> Evidence:
    """Gather the Evidence of a long recording, whose own errors are eliminated with their drift.

    Args:
        build: What returns the Evidence of sums over chunks, with the errors as columns.
        factor: `factor_chunks` with its system, workers and hinges.
        motions: The recording's motions.
        size: Most samples of a chunk.
        weights: Weights of the samples, shape (n,), or None.
        key: Identity of the system, with the errors as columns.
        dependence: `Evidence.dependence`.
    """
    first, count = len(dependence), len(dependence) + len(key.nuisance)
    drifting = first + np.array(drifting_columns(key), dtype=np.int64)
    elimination = DriftElimination(key, first, drifting.tolist())
    totals: list[ChunkTotals] = []
    done = 0

    def chunks(parts: Iterator[Motion]) -> Iterator[Motion]:
        nonlocal done
        for part in parts:
            done += len(part)
            yield from part.chunks(size)

    for knot, start, parts in split_at_knots(motions):
        left = None if weights is None else weights[done:]
        tally = factor(chunks(parts), left, hats=Hats(start, drifting))
        # The same rows with constant offsets, whose two columns add up, tell how large the noise of a row is.
        steady = tally.factor[:, : count + 1].copy()
        steady[:, drifting] += tally.factor[:, count + 1 :]
        elimination.add(knot, tally.factor, build(replace(tally, factor=steady)).row_noise())
        totals.append(tally)
    rest, errors, spent = elimination.finish(
        totals[0].origins[0].sha256,
        lambda rows: np.concatenate([rows[:, :first] @ dependence, rows[:, first:]], axis=1),
    )
    evidence = build(replace(reduce(ChunkTotals.plus, totals), factor=rest))
    return replace(evidence, key=key.without_own(), errors=(errors,), spent=spent)


class DriftElimination:
    """Elimination of a recording's own errors, drifting and constant, as its rows are added in the order of time."""

    def __init__(self, key: EvidenceKey, first: int, drifting: Sequence[int]) -> None:
        """Begin.

        Args:
            key: Identity of the system, with the errors as columns.
            first: Column of the first nuisance.
            drifting: Columns of the drifting errors.
        """
        own = [first + place for place, name in enumerate(key.nuisance) if name in key.own]
        self._names = {first + place: name for place, name in enumerate(key.nuisance)}
        self._priors = {first + place: prior for place, prior in enumerate(key.priors)}
        self._drifting = list(drifting)
        self._constant = [column for column in own if column not in self._drifting]
        self._held = [*self._constant, *(k for k in range(first + len(key.nuisance) + 1) if k not in own)]
        self._carry: FloatArray = np.zeros((0, len(drifting) + len(self._held)))
        self._first: FloatArray = np.zeros(0)
        self._steps: list[FloatArray] = []
        self._blocks: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        self._noise: list[float] = []

    def add(self, knot: int, factor: FloatArray, noise: float) -> None:
        """Add the factor of the rows up to the next knot, and eliminate the errors of the knot before.

        Args:
            knot: Number of the knot at which the rows begin; between knots that are left out there are no rows.
            factor: With the drifting columns of the next knot last, shape (n, width + n_drifting).
            noise: Standard deviation of a row, correlated samples counted.
        """
        if not self._blocks:
            self._first = noise / np.array([self._priors[column] for column in self._drifting])
            self._carry = np.eye(len(self._drifting), self._carry.shape[1]) * self._first[:, None]
        while len(self._blocks) < knot:
            self._eliminate(np.zeros((0, factor.shape[1])), noise)
        self._eliminate(factor, noise)
        self._noise.append(noise)

    def _eliminate(self, factor: FloatArray, noise: float) -> None:
        count, width = len(self._drifting), self._carry.shape[1]
        rates = [DRIFT_FORCE if self._is_force(column) else DRIFT_MOMENT for column in self._drifting]
        step = noise / (KNOT_SECONDS * np.array(rates))
        change = np.concatenate([-np.diag(step), np.diag(step), np.zeros((count, width - count))], axis=1)
        before = np.insert(self._carry, [count] * count, 0.0, axis=1)
        last = factor.shape[1]
        triangle = triangle_of(
            np.concatenate([factor[:, [*self._drifting, *range(last - count, last), *self._held]], before, change])
        )
        shown = 2 * count + len(self._constant)
        self._blocks.append((triangle[:count, :count], triangle[:count, count:shown], triangle[:count, shown:]))
        self._carry = triangle[count:, count:]
        self._steps.append(step)

    def finish(
        self, recording: str, expand: Callable[[FloatArray], FloatArray]
    ) -> tuple[FloatArray, RecordingErrors, float]:
        """Eliminate the last knot and the constant errors.

        Args:
            recording: Identity of the recording.
            expand: What puts every parameter's column into rows of the remaining columns.

        Returns:
            The factor of the remaining columns, the eliminated errors, and how many equations they took.
        """
        noise = float(np.sqrt(np.mean(np.square(self._noise))))
        drifting, own = len(self._drifting), len(self._drifting) + len(self._constant)
        constant = noise / np.array([self._priors[column] for column in self._constant])
        held = np.eye(len(constant), self._carry.shape[1], drifting) * constant[:, None]
        triangle = triangle_of(np.concatenate([self._carry, held]))
        self._blocks.append((triangle[:own, :own], np.zeros((own, 0)), triangle[:own, own:]))
        blocks = tuple(
            ErrorBlock(self._names_at(knot), one, two, expand(rest))
            for knot, (one, two, rest) in enumerate(self._blocks)
        )
        errors = RecordingErrors(recording, blocks, noise)
        return triangle[own:, own:], errors, errors.spent(np.append(self._first, constant), self._steps)

    def _is_force(self, column: int) -> bool:
        return self._names[column].removesuffix(OFFSET).rpartition(".")[2].startswith("f")

    def _names_at(self, knot: int) -> tuple[str, ...]:
        ending = f"@{knot * KNOT_SECONDS:.0f}s" if knot else ""
        names = [f"{self._names[column]}{ending}" for column in self._drifting]
        if knot == len(self._blocks) - 1:
            names += [self._names[column] for column in self._constant]
        return tuple(names)
