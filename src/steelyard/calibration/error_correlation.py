"""Correlated orientation errors: the error of an inertial sensor's orientation drifts over seconds.

With ``n_k`` the errors of the orientations in a pose, in standard deviations, ``cov(n_k) = s`` and
``cov(n_k, n_l) = s c exp(−|t_k − t_l| / τ)``: a share c is correlated over the time τ, the rest is independent from
pose to pose. With errors counted as independent, 300 poses in two minutes would make standard errors several times too
small; and the fit absorbs the correlated part, so that the residuals are too small as well.
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
    from steelyard.calibration.fitting import CalibrationFit

_MOST, _FEWEST, _MOST_ERRORS = 120, 40, 720
"""Poses used to estimate the correlation, evenly spaced: fewer with many inertial sensors, as the work grows with the
cube of the number of errors. With these limits nine sensors take 4 s instead of 87."""

_BLOCK = 2000
"""Poses whose kernel rows are held at once: bounds memory to 32 MB for 2000 neighbours."""

_LEAST_GAIN = 12.0
"""Decrease of -2 log likelihood that the two more parameters must bring: by chance it has p = 0.002."""

_STARTS = (1.0, 5.0, 20.0)
"""Correlation times (s) from which the search starts: those of usual orientation filters; set by judgement."""

_NULL = 1e-6
"""Singular value, in standard deviations, below which an error does not show in the rows."""

_LEAST_CORRELATION = 0.15
"""Lag-one correlation of the residuals below which errors are taken as independent; set by judgement."""


@dataclass(frozen=True)
class ErrorCorrelation:
    """Correlation of orientation errors between poses.

    Attributes:
        share: The correlated share c.
        time: The correlation time τ (s).
        scale: Ratio s of the error variance to that of the residuals.
    """

    share: float
    time: float
    scale: float


def _loadings(fitted: CalibrationFit) -> FloatArray:
    """Compute how unit orientation errors show in the reduced rows, shape (n_poses, n_rows, n_errors)."""
    problem, reduced = fitted.problem, fitted.solved.reduced
    numbers = [number for number, block in enumerate(problem.blocks) if block.kind == "orientation"]
    parts = []
    for number in numbers:
        block = problem.blocks[number]
        shown = reduced.whitening[:, :, block.rows] * np.sqrt(fitted.variances[:, None, block.rows])
        parts.append(np.where((block.there & ~fitted.aside[:, number])[:, None, None], shown, 0.0))
    joined = np.concatenate(parts, axis=2)
    return np.asarray(joined - reduced.range @ (np.swapaxes(reduced.range, 1, 2) @ joined))


def estimate_correlation(fitted: CalibrationFit, usual: FloatArray) -> ErrorCorrelation | None:
    """Estimate the correlation of orientation errors; return None where they may well be independent.

    Maximises the likelihood of s, c and τ with the shared unknowns marginalised: the other rows are their prior.

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
    if np.sum(felt[1:] * felt[:-1]) < _LEAST_CORRELATION * np.sum(felt**2):
        return None
    seen = np.einsum("nre,nr->ne", basis, residuals).ravel()
    columns = np.einsum("nre,nrs->nes", basis, slopes).reshape(len(seen), -1)
    own = np.einsum("nre,nrf->nef", basis, loads)
    # The prior of the shared unknowns from all other rows.
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
        """Return −2 log likelihood at log s, logit c and log τ; c is zero where only s is given."""
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
    if independent.fun - found.fun < _LEAST_GAIN:
        return None
    return ErrorCorrelation(
        float(expit(found.x[1])),
        float(np.exp(np.clip(found.x[2], -2.0, 4.6))),
        float(np.exp(np.clip(found.x[0], -3.0, 5.0))),
    )


def _blocks(each: FloatArray) -> FloatArray:
    """Return the block-diagonal matrix of blocks of shape (n, m, m)."""
    count, size = each.shape[:2]
    whole = np.zeros((count, size, count, size))
    whole[np.arange(count), :, np.arange(count)] = each
    return whole.reshape(count * size, count * size)


def score_covariance(fitted: CalibrationFit, found: ErrorCorrelation) -> FloatArray:
    """Compute what correlation adds to the covariance of the shared unknowns' scores, shape (n_shared, n_shared)."""
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
