"""The weights of the prior and the noise scale, by maximum marginal likelihood.

Each group of links has a weight ``w``: a priori, the pseudo-inertia of a link is Wishart distributed around its
reference with ``2 w`` degrees of freedom, a relative deviation of about ``1/√w``. That is ``exp(−w D)`` over the volume
that neither units nor frames change, ``det(P)^(−5/2) dP``; its mean is the reference. The residual misses errors that
correlate with parameters (of encoders, of accelerations); a noise scale ``κ`` corrects for it. Both maximise the
marginal likelihood (Laplace's approximation), by MacKay's fixed point ("Bayesian interpolation", 1992): ``w = γ / 2D``
and ``κ² = misfit / (rank − γ)``, where ``γ`` is the effective number of parameters that the data decided, in a group
and in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, multigammaln

from steelyard.identification.methods.geometric_energy import EXACT
from steelyard.model import PARAMETER_COUNT

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification.methods.geometric_energy import EnergyMinimum, GeometricEnergy

USUAL_SPREAD = 0.2
"""Usual relative deviation of models, where nothing else is known (docs/decisions/0012)."""

_USUAL, _GROUP, _NOISE = 5.0, 15.0, 5.0
"""Pseudo-counts of the hyperpriors, in numbers of parameters: that the model deviates as usual, a group of links as the
others, and that the noise is the residual's (docs/decisions/0012)."""

VOLUME = 2.5
"""Power of the determinant in the volume that neither units nor frames change."""

_LEAST, _GREATEST = 4.0, 1e6
"""Bounds of the weights: deviations of 50 % and of 0.1 %, those that `spread` may have. Set by judgement."""

_GREATEST_NOISE = 30.0
"""Greatest noise scale. Set by judgement: beyond it the data are wrong rather than noisy."""

_SETTLED = 3e-3
"""Relative change of weights and noise scale at which the fixed point has converged. Set by judgement: a weight is
known to tens of percent."""

_ROUNDS = 60
"""Most rounds of the fixed point. Set by judgement; a remark says where they were not enough."""


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """The weights of the prior, and the minimum with them.

    Attributes:
        by_group: ``w`` of each group.
        by_link: The same for each link of the energy.
        noise: ``κ``.
        decided: ``γ`` of each group: the effective number of parameters that the data decided.
        freedom: Degrees of freedom of the weights, pseudo-counts included; infinite where all are given.
        rounds: Number of fixed-point rounds.
        settled: Whether they converged.
        energy: The energy at this noise scale.
        minimum: Its minimum.
    """

    by_group: FloatArray
    by_link: FloatArray
    noise: float
    decided: FloatArray
    freedom: float
    rounds: int
    settled: bool
    energy: GeometricEnergy
    minimum: EnergyMinimum


def find_prior_weights(
    energy: GeometricEnergy, groups: IntArray, *, weights: FloatArray | None = None, noise: float | None = None
) -> PriorWeights:
    """Return the weights of maximum marginal likelihood.

    Args:
        energy: The problem and its prior.
        groups: Index of the group of each of the energy's links.
        weights: Of each group; NaN where unknown, as all are by default.
        noise: ``κ``, where it is known.

    Raises:
        SolverError: No minimum was found.
    """
    usual = 1.0 / USUAL_SPREAD**2
    count = int(groups.max(initial=-1)) + 1 if weights is None else len(weights)
    given = np.full(count, np.nan) if weights is None else np.asarray(weights, dtype=np.float64)
    sought = np.isnan(given)
    found = np.where(sought, usual, given)
    factor = 1.0 if noise is None else float(noise)
    point: FloatArray | None = None
    settled, rounds = not np.any(sought) and noise is not None, 0
    decided: FloatArray = np.zeros(count)
    while not settled and rounds < _ROUNDS:
        rounds += 1
        energy = energy.at_noise(factor)
        minimum = energy.minimise(found[groups], factor, point, exact=1e-4)
        point = minimum.point
        share = found[groups] * energy.shares(minimum.covariance, energy.blocks(point))
        # Both from the same approximation: what no data observe counts for nothing, also where Laplace is inexact.
        known = _sizes(energy.sizes, found[groups]) * np.maximum(1.0 - share / energy.sizes, 0.0)
        apart = 2.0 * energy.divergences(point)
        decided = np.asarray(np.bincount(groups, known, count), dtype=np.float64)
        before, previous = found, factor
        if np.any(sought):
            own = sought[groups]
            overall = _between(known[own].sum(), apart[own].sum(), _USUAL, usual)
            better = [
                _between(one, far, _GROUP, overall)
                for one, far in zip(decided, np.bincount(groups, apart, count), strict=True)
            ]
            found = np.where(sought, np.clip(better, _LEAST, _GREATEST), found)
        if noise is None:
            open_ones = max(0.0, energy.rank - (len(point) - float(share.sum())))
            # Errors that correlate with parameters only add to the noise of the residual.
            better_noise = _between(open_ones, energy.misfit(point), _NOISE, 1.0) ** -0.5
            factor = float(np.clip(better_noise, 1.0, _GREATEST_NOISE))
        settled = bool(
            np.max(np.abs(np.log(found / before)), initial=0.0) < _SETTLED and abs(np.log(factor / previous)) < _SETTLED
        )
    energy = energy.at_noise(factor)
    minimum = energy.minimise(found[groups], factor, point, exact=EXACT)
    return PriorWeights(
        found,
        found[groups],
        factor,
        decided,
        float(decided[sought].sum()) + _USUAL + _GROUP if np.any(sought) else np.inf,
        rounds,
        settled,
        energy,
        minimum,
    )


def _between(count: float, squares: float, beliefs: float, believed: float) -> float:
    """Return the inverse variance from a number of squares and from a prior value, weighted by their counts.

    It is the weighted mean of the logarithms: that of ``count / squares`` has the variance ``2 / count``.
    """
    if count <= 0.0:
        return believed
    logarithm = np.log(count / max(squares, 1e-300))
    return float(np.exp((count * logarithm + beliefs * np.log(believed)) / (count + beliefs)))


def log_evidence(energy: GeometricEnergy, minimum: EnergyMinimum, weights: FloatArray, noise: float) -> float:
    """Return the log marginal likelihood of some weights, but for a constant."""
    whole = energy.sizes == PARAMETER_COUNT
    share = weights * energy.shares(minimum.covariance, energy.blocks(minimum.point)) / energy.sizes
    # Laplace's approximation of the prior where the data do not decide, to cancel the posterior's; exact where they do.
    prior = -0.5 * energy.sizes * np.log(weights / (2.0 * np.pi))
    prior = prior + np.where(whole, (1.0 - share) * (_log_norm(weights) - prior), 0.0)
    volume = VOLUME * np.linalg.slogdet(energy.relative(minimum.point)[whole])[1]
    unit = 0.5 * len(minimum.point) * np.log(2.0 * np.pi)
    data = -energy.rank * np.log(noise)
    return float(unit - minimum.value - 0.5 * minimum.log_determinant - np.sum(volume) - np.sum(prior) + data)


def _sizes(sizes: IntArray, weights: FloatArray) -> FloatArray:
    """Return ``−2 w ∂ log Z/∂w`` of each link: the number of its parameters, a little more where weights are small."""
    halves = np.arange(4) / 2.0
    whole = digamma(weights[:, None] - halves).sum(axis=1) - 4.0 * np.log(weights)
    return np.asarray(np.where(sizes == PARAMETER_COUNT, -2.0 * weights * whole, sizes))


def _log_norm(weights: FloatArray) -> FloatArray:
    """Return the logarithm of ``∫ exp(−w D) det(X)^(−5/2) dx`` of a link, all of whose parameters are unknown."""
    # Of the ten elements of X = P0^{-1/2} P P0^{-1/2}, the six beside the diagonal count √2 times in x.
    gammas = np.array([multigammaln(weight, 4) for weight in weights])
    return np.asarray(4.0 * weights + gammas - 4.0 * weights * np.log(weights) + 3.0 * np.log(2.0))
