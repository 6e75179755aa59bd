"""Poses that follow each other closely share errors: an orientation that an inertial sensor tells wanders over seconds.

With ``n_k`` the errors of the orientations in a pose, in standard deviations, ``cov(n_k) = s`` and
``cov(n_k, n_l) = s c exp(−|t_k − t_l| / τ)``: a share c lasts for the time τ, the rest is new in each pose. Counted as
independent, 300 poses in two minutes would make offsets look several times as sure as they are; and the fit takes up
what lasts, so that what is left of the poses looks too quiet as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.fitting import Fit

_MOST, _FEWEST, _MOST_ERRORS = 120, 40, 720
"""Poses from which likeness is found, spread evenly: fewer where many inertial sensors tell much in each, as the work
grows with the cube of all their errors."""

_BLOCK = 2000
_SURE = 12.0
_STARTS = (1.0, 5.0, 20.0)
_NULL = 1e-6
_WORTH_LOOKING = 0.15
"""Correlation of what is left from one pose to the next below which errors are taken as independent."""


@dataclass(frozen=True)
class Likeness:
    """How alike errors of orientations are in poses that follow each other.

    Attributes:
        share: The share c that lasts.
        time: How long it lasts, τ (s).
        scale: How much larger their variance is than what is left of the poses says, s.
    """

    share: float
    time: float
    scale: float


def _loadings(fitted: Fit) -> FloatArray:
    """Gives how orientations' errors, in standard deviations, show in the reduced rows, (n_poses, n_rows, n_errors)."""
    problem, reduced = fitted.problem, fitted.solved.reduced
    numbers = [number for number, block in enumerate(problem.blocks) if block.kind == "orientation"]
    parts = []
    for number in numbers:
        block = problem.blocks[number]
        shown = reduced.whitening[:, :, block.rows] * np.sqrt(fitted.variances[:, None, block.rows])
        parts.append(np.where((block.there & ~fitted.aside[:, number])[:, None, None], shown, 0.0))
    joined = np.concatenate(parts, axis=2)
    return np.asarray(joined - reduced.range @ (np.swapaxes(reduced.range, 1, 2) @ joined))


def find_likeness(fitted: Fit, usual: FloatArray) -> Likeness | None:
    """Finds how alike errors of orientations are, or None where they could well be independent.

    The likeliest s, c and τ, with the shared unknowns integrated out: what the other rows say of them is their prior. A
    likelihood that is better by six than that of independent errors is no chance.

    Args:
        fitted: A fit.
        usual: Usual size of each shared unknown, shape (n_shared,).
    """
    problem, reduced = fitted.problem, fitted.solved.reduced
    time = problem.poses.clock
    order = np.argsort(time, kind="stable")
    if not problem.imus:
        return None
    most = min(_MOST, max(_FEWEST, _MOST_ERRORS // (3 * len(problem.imus))), len(order))
    order = order[np.unique(np.linspace(0, len(order) - 1, most).astype(np.int64))]
    if len(order) < 8 or np.ptp(time) <= 0.0:
        return None
    loads = _loadings(fitted)[order]
    slopes, residuals = (reduced.by_shared * usual)[order], reduced.residuals[order]
    left, values, _ = np.linalg.svd(loads, full_matrices=False)
    basis = left * (values > _NULL)[:, None, :]
    felt = np.einsum("nre,nr->ne", loads, residuals)
    if np.sum(felt[1:] * felt[:-1]) < _WORTH_LOOKING * np.sum(felt**2):
        return None
    seen = np.einsum("nre,nr->ne", basis, residuals).ravel()
    columns = np.einsum("nre,nrs->nes", basis, slopes).reshape(len(seen), -1)
    own = np.einsum("nre,nrf->nef", basis, loads)
    # What all else says of the shared unknowns: a prior of these rows.
    rest = slopes - basis @ np.einsum("nre,nrs->nes", basis, slopes)
    left_over = residuals - np.einsum("nre,ne->nr", basis, np.einsum("nre,nr->ne", basis, residuals))
    information = np.einsum("nrs,nrt->st", rest, rest) + np.eye(slopes.shape[2])
    spread = np.linalg.inv(information)
    mean = seen - columns @ (spread @ np.einsum("nrs,nr->s", rest, left_over))
    known = columns @ spread @ columns.T
    there = np.flatnonzero(np.einsum("nre->ne", basis**2).ravel() > 0.5)
    mean, known = mean[there], known[np.ix_(there, there)]
    alone = _blocks(np.eye(own.shape[1]) - own @ np.swapaxes(own, 1, 2))[np.ix_(there, there)]
    shared = np.einsum("nef,mgf->nemg", own, own).reshape(len(seen), len(seen))[np.ix_(there, there)]
    gaps = np.abs(time[order][:, None] - time[order][None, :])
    gaps = np.asarray(np.kron(gaps, np.ones((own.shape[1],) * 2))[np.ix_(there, there)], dtype=np.float64)
    same = np.asarray(np.kron(np.eye(len(order)), np.ones((own.shape[1],) * 2))[np.ix_(there, there)] > 0.0)

    def unlikely(unknowns: FloatArray) -> float:
        """Gives minus twice the log likelihood at log s, logit c and log τ; c of zero where only s is given."""
        scale = float(np.exp(np.clip(unknowns[0], -3.0, 5.0)))
        share, tau = (
            (float(expit(unknowns[1])), float(np.exp(np.clip(unknowns[2], -2.0, 4.6))))
            if len(unknowns) > 1
            else (0.0, 1.0)
        )
        kernel = np.where(same, 1.0, share * np.exp(-gaps / tau))
        try:
            factor = np.linalg.cholesky(alone + scale * kernel * shared + known)
        except np.linalg.LinAlgError:
            return np.inf
        whitened = solve_triangular(factor, mean, lower=True, check_finite=False)
        return float(whitened @ whitened + 2.0 * np.sum(np.log(np.diagonal(factor))))

    if not np.isfinite(unlikely(np.zeros(1))):
        return None
    independent = minimize(unlikely, np.zeros(1), method="Nelder-Mead", options={"xatol": 0.05, "fatol": 0.05})
    begin = min(
        ([float(independent.x[0]), 2.0, float(np.log(tau))] for tau in _STARTS),
        key=lambda each: unlikely(np.array(each)),
    )
    found = minimize(
        unlikely, np.array(begin), method="Nelder-Mead", options={"xatol": 0.05, "fatol": 0.05, "maxfev": 120}
    )
    if independent.fun - found.fun < _SURE:
        return None
    return Likeness(
        float(expit(found.x[1])),
        float(np.exp(np.clip(found.x[2], -2.0, 4.6))),
        float(np.exp(np.clip(found.x[0], -3.0, 5.0))),
    )


def _blocks(each: FloatArray) -> FloatArray:
    """Gives a block-diagonal matrix of small ones, shape (n, m, m)."""
    count, size = each.shape[:2]
    whole = np.zeros((count, size, count, size))
    whole[np.arange(count), :, np.arange(count)] = each
    return whole.reshape(count * size, count * size)


def score_covariance(fitted: Fit, found: Likeness) -> FloatArray:
    """Gives what likeness adds to the covariance of the shared unknowns' scores, shape (n_shared, n_shared)."""
    problem, reduced = fitted.problem, fitted.solved.reduced
    order = np.argsort(problem.poses.clock, kind="stable")
    time = problem.poses.clock[order]
    slopes = np.einsum("nre,nrs->nes", _loadings(fitted)[order], reduced.by_shared[order])
    flat = slopes.reshape(-1, slopes.shape[2])
    total = (found.scale - 1.0) * flat.T @ flat
    reach = 8.0 * found.time
    for start in range(0, len(time), _BLOCK):
        stop = min(len(time), start + _BLOCK)
        first, last = np.searchsorted(time, [time[start] - reach, time[stop - 1] + reach])
        kernel = np.exp(-np.abs(time[start:stop, None] - time[None, first:last]) / found.time)
        kernel[np.arange(stop - start), np.arange(start, stop) - first] = 0.0
        lasting = np.einsum("pq,qes->pes", kernel, slopes[first:last], optimize=True)
        total += found.scale * found.share * np.einsum("pes,pet->st", slopes[start:stop], lasting, optimize=True)
    return np.asarray(0.5 * (total + total.T))
