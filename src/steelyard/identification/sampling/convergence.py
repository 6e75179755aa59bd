"""Convergence of Markov chains: the potential scale reduction R̂ and effective sample sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray


def r_hat(history: FloatArray) -> FloatArray:
    """Compute the potential scale reduction R̂ of each quantity, near 1 where chains have mixed, shape (n,).

    It is that of [Gelman and Rubin, "Inference from iterative simulation using multiple sequences", 1992], for many
    short chains: these are not split in halves to detect a drift, because the mean of all chains shows it, and its
    square is added to the variance. A quantity that is constant in every chain has 1 if they agree, else inf.

    Args:
        history: Shape (n_draws, n_chains, n), at least four draws.
    """
    length = len(history)
    within = np.mean(np.var(history, axis=0, ddof=1), axis=0)
    between = np.var(np.mean(history, axis=0), axis=0, ddof=1) if history.shape[1] > 1 else np.zeros_like(within)
    halves = np.mean(history[: length // 2], axis=(0, 1)), np.mean(history[-(length // 2) :], axis=(0, 1))
    total = (length - 1) / length * within + between + np.square(halves[1] - halves[0])
    moves = within > 0.0
    still = np.where(between > 0.0, np.inf, 1.0)
    return np.where(moves, np.sqrt(np.divide(total, within, out=np.ones_like(total), where=moves)), still)


def effective_counts(history: FloatArray) -> FloatArray:
    """Compute the effective sample size of the mean of each quantity, shape (n,).

    The autocorrelation of all chains is summed in pairs of lags by the initial monotone sequence [Geyer, "Practical
    Markov chain Monte Carlo", 1992]. Differences between chains count as correlation, and the result is at most twice
    the number of draws.

    Args:
        history: Shape (n_draws, n_chains, n), at least four draws.
    """
    length, chains, _ = history.shape
    within = np.mean(np.var(history, axis=0, ddof=1), axis=0)
    centred = history - np.mean(history, axis=0)
    between = np.var(np.mean(history, axis=0), axis=0, ddof=1) if chains > 1 else np.zeros_like(within)
    total = (length - 1) / length * within + between
    moves = total > 0.0
    scale = np.where(moves, total, 1.0)
    sums, previous = np.zeros_like(total), np.full_like(total, np.inf)
    going = moves.copy()
    for lag in range(0, length - 1, 2):
        pair = np.zeros_like(total)
        for each in (lag, lag + 1):
            products = np.einsum("tcn,tcn->n", centred[: length - each], centred[each:]) / (length * chains)
            pair += 1.0 - (within * (length - 1) / length - products) / scale
        going &= pair > 0.0
        if not np.any(going):
            break
        previous = np.where(going, np.minimum(previous, pair), previous)
        sums += np.where(going, previous, 0.0)
    count = float(length * chains)
    return np.where(moves, count / np.maximum(2.0 * sums - 1.0, 0.5), count)
