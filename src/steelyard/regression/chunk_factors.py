"""Factoring the chunks of a stream of motions on all cores, in bounded memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.regression.factor import Factor
from steelyard.regression.origins import Origin, merge_origins, origins_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from steelyard.arrays import FloatArray
    from steelyard.motion import Motion
    from steelyard.regression.offset_drift import Hats
    from steelyard.regression.system import System

_MANY = 1000
"""Origins of chunks that are collected before they are merged, so that a long stream does not fill memory."""


@dataclass(eq=False)
class ChunkTotals:
    """Sums over the chunks of a stream."""

    factor: FloatArray
    counts: FloatArray
    totals: FloatArray
    travel: FloatArray
    origins: list[Origin]

    def plus(self, other: ChunkTotals) -> ChunkTotals:
        """Return the sums over the chunks of both, with the other's factor."""
        low, high = (each(self.travel[k], other.travel[k]) for k, each in enumerate((np.minimum, np.maximum)))
        return ChunkTotals(
            other.factor,
            self.counts + other.counts,
            self.totals + other.totals,
            np.stack([low, high]),
            list(merge_origins([*self.origins, *other.origins])),
        )


def factor_chunks(
    system: System,
    pieces: Iterable[Motion],
    factors: FloatArray | None,
    *,
    workers: int,
    hinges: list[int],
    hats: Hats | None = None,
) -> ChunkTotals:
    """Factor the chunks, each worker into its own factor, and add the workers' factors in order.

    Args:
        system: The map from samples to rows.
        pieces: The chunks.
        factors: Weights of the samples, shape (n,), or None.
        workers: Number of threads.
        hinges: Columns of the positions whose range is found.
        hats: Columns of errors that drift, and the knot at which the chunks begin; their columns at the next knot are
            the last of the factor.
    """
    triangles = [Factor(system.width + (0 if hats is None else len(hats.columns))) for _ in range(workers)]
    counts = np.zeros((workers, 3))
    totals: list[Any] = [0.0] * workers
    travel = np.tile([[np.inf], [-np.inf]], (workers, 1, len(hinges)))
    origins: list[Origin] = []
    done = 0

    def work(worker: int, piece: Motion, weights: FloatArray | None) -> None:
        rows, kept = system.rows(piece)
        if hats is not None:
            rows = hats.split(rows, piece.time)
        if weights is not None:
            rows *= np.repeat(np.sqrt(weights), len(rows) // len(piece))[:, None]
        triangles[worker].add(rows)
        used, share = _weigh(weights, len(piece))
        counts[worker] += (used, share * piece.effective_count, share * kept)
        positions = piece.q[:, hinges]
        travel[worker, 0] = np.minimum(travel[worker, 0], positions.min(axis=0))
        travel[worker, 1] = np.maximum(travel[worker, 1], positions.max(axis=0))
        forces = system.forces(piece)
        totals[worker] = totals[worker] + np.stack([forces.sum(axis=0), np.square(forces).sum(axis=0)])

    with ThreadPoolExecutor(workers) as pool:
        pending: list[Any] = [None] * workers
        for number, piece in enumerate(pieces):
            worker = number % workers
            # At most one chunk for each worker is in memory, and each worker takes its chunks in order.
            if pending[worker] is not None:
                pending[worker].result()
            weights = None if factors is None else factors[done : done + len(piece)]
            pending[worker] = pool.submit(work, worker, piece, weights)
            done += len(piece)
            if len(origins) > _MANY:
                origins = list(merge_origins(origins))
            origins += origins_of(piece)
        for future in pending:
            if future is not None:
                future.result()
    for other in triangles[1:]:
        triangles[0].add(np.array(other.matrix))
    extremes = np.stack([travel[:, 0].min(axis=0), travel[:, 1].max(axis=0)])
    return ChunkTotals(np.array(triangles[0].matrix), counts.sum(axis=0), np.asarray(sum(totals)), extremes, origins)


def _weigh(weights: FloatArray | None, count: int) -> tuple[int, float]:
    """Return how many samples have any weight, and their effective number as a share of all samples."""
    if weights is None:
        return count, 1.0
    squares = float(np.sum(np.square(weights)))
    effective = float(np.sum(weights)) ** 2 / squares if squares > 0.0 else 0.0
    return int(np.count_nonzero(weights)), effective / count
