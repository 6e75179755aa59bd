"""D-optimal selection of poses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.gauss_newton import ReducedRows


def pick_by_information(reduced: ReducedRows, usual: FloatArray, count: int) -> NDArray[np.int64]:
    """Return the indices, in order, of the poses with the most information on the shared unknowns.

    One after the other, each pose is the one that raises ``log det (1 + Σ JᵀJ)`` most, with J the reduced rows of the
    poses in units of the prior size (D-optimal, greedy; within a factor of 1 − 1/e of the best by [Nemhauser, Wolsey
    and Fisher 1978]).

    Args:
        reduced: Rows of all candidates.
        usual: Prior size of each shared unknown, shape (n_shared,).
        count: How many to pick.
    """
    slopes = reduced.by_shared * usual
    total = len(slopes)
    if count >= total:
        return np.arange(total)
    free = np.ones(total, dtype=bool)
    picked: list[int] = []
    # With C the covariance that is left, J C and J C Jᵀ of each candidate are kept: a step is a small product for each.
    spread = np.array(slopes)
    inner = spread @ np.swapaxes(slopes, 1, 2)
    rows = slopes.shape[1]
    while len(picked) < count:
        gains = np.linalg.slogdet(np.eye(rows) + inner)[1]
        best = int(np.argmax(np.where(free, gains, -np.inf)))
        picked.append(best)
        free[best] = False
        gain = np.linalg.solve(np.eye(rows) + inner[best], spread[best])
        # The information of the picked pose is removed from every candidate.
        cross = slopes @ spread[best].T
        half = np.linalg.cholesky(np.linalg.inv(np.eye(rows) + inner[best]))
        taken = cross @ half
        inner = inner - taken @ np.swapaxes(taken, 1, 2)
        spread = spread - cross @ gain
    return np.sort(np.array(picked, dtype=np.int64))


def exchange(reduced: ReducedRows, usual: FloatArray, picked: NDArray[np.int64], rounds: int = 10) -> NDArray[np.int64]:
    """Exchange each pose for the best other while the information grows [Fedorov 1972].

    Args:
        reduced: Rows of all candidates.
        usual: Prior size of each shared unknown, shape (n_shared,).
        picked: Indices of the poses to begin with.
        rounds: Greatest number of passes over all poses.
    """
    slopes = reduced.by_shared * usual
    chosen = list(picked)
    rows = slopes.shape[1]
    for _ in range(rounds):
        changed = False
        for place, pose in enumerate(chosen):
            rest = [other for other in chosen if other != pose]
            flat = slopes[rest].reshape(-1, slopes.shape[2])
            covariance = np.linalg.inv(np.eye(slopes.shape[2]) + flat.T @ flat)
            gains = np.linalg.slogdet(np.eye(rows) + slopes @ covariance @ np.swapaxes(slopes, 1, 2))[1]
            gains[rest] = -np.inf
            best = int(np.argmax(gains))
            if gains[best] > gains[pose] + 1e-9:
                chosen[place], changed = best, True
        if not changed:
            break
    return np.sort(np.array(chosen, dtype=np.int64))
