"""How far the model is to be trusted, found from the data: the weights that make them likeliest.

Each group of links has a weight ``w``: before any data, the pseudo-inertia of a link is Wishart distributed around its
reference with ``2 w`` degrees of freedom, and off by about ``1/√w`` of itself. That is ``exp(−w D)`` over the volume
that neither units nor frames change, ``det(P)^(−5/2) dP``; its mean is the reference. The noise of the data, as what no
parameters explain tells it, misses errors that look like parameters (of encoders, of accelerations); a factor ``κ``
makes up for it. Both are those that make the data likeliest once parameters are integrated out (Laplace), by MacKay's
fixed point ("Bayesian interpolation", 1992): ``w = γ / 2D`` and ``κ² = misfit / (rank − γ)``, where ``γ`` counts the
combinations that the data rather than the model decided, in a group and in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, multigammaln

from steelyard.identification.methods.geometric_energy import EXACT
from steelyard.model import PARAMETER_COUNT

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.methods.geometric_energy import IntArray, Landscape, Minimum

USUAL_SPREAD = 0.2
"""How far models are off where nothing else is known."""

_USUAL, _GROUP, _NOISE = 5.0, 15.0, 5.0
"""What is believed beforehand, in numbers of parameters that would have shown it: that the model is off by as much as
usual, a group of links by as much as the others, and that the noise is what it seems."""

VOLUME = 2.5
"""Power of the determinant in the volume that neither units nor frames change."""

_LEAST, _GREATEST = 4.0, 1e6
"""Weights between which the search stays: deviations of 50 % and of 0.1 %."""

_LOUDEST = 30.0
_SETTLED = 3e-3
_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """How far each group of links, and the noise, is trusted.

    Attributes:
        by_group: ``w`` of each group.
        by_link: The same for each link of the landscape.
        noise: ``κ``.
        decided: ``γ`` of each group: how many of its parameters the data decided.
        freedom: How many squares told the weights, what was believed among them; infinite where all are given.
        rounds: How many times the weights were changed.
        settled: Whether they had settled then.
        landscape: What was minimised, its nuisances as this noise leaves them.
        minimum: The likeliest parameters with them.
    """

    by_group: FloatArray
    by_link: FloatArray
    noise: float
    decided: FloatArray
    freedom: float
    rounds: int
    settled: bool
    landscape: Landscape
    minimum: Minimum


def find_prior_weights(
    landscape: Landscape, groups: IntArray, *, weights: FloatArray | None = None, noise: float | None = None
) -> PriorWeights:
    """Gives the weights that make the data likeliest.

    Args:
        landscape: The problem and its prior.
        groups: Number of the group of each of the landscape's links, from zero.
        weights: Of each group; NaN where it is looked for, as all are by default.
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
    place: FloatArray | None = None
    settled, rounds = not np.any(sought) and noise is not None, 0
    decided: FloatArray = np.zeros(count)
    while not settled and rounds < _ROUNDS:
        rounds += 1
        landscape = landscape.at(factor)
        minimum = landscape.minimise(found[groups], factor, place, exact=1e-4)
        place = minimum.place
        share = found[groups] * landscape.shares(minimum.covariance, landscape.blocks(place))
        # Both from the same approximation: what no data touched counts for nothing, also where Laplace is off.
        known = _sizes(landscape.sizes, found[groups]) * np.maximum(1.0 - share / landscape.sizes, 0.0)
        apart = 2.0 * landscape.divergences(place)
        decided = np.asarray(np.bincount(groups, known, count), dtype=np.float64)
        before, loud = found, factor
        if np.any(sought):
            own = sought[groups]
            overall = _between(known[own].sum(), apart[own].sum(), _USUAL, usual)
            better = [
                _between(one, far, _GROUP, overall)
                for one, far in zip(decided, np.bincount(groups, apart, count), strict=True)
            ]
            found = np.where(sought, np.clip(better, _LEAST, _GREATEST), found)
        if noise is None:
            open_ones = max(0.0, landscape.rank - (len(place) - float(share.sum())))
            # What looks like parameters only adds to the noise that is seen.
            said = _between(open_ones, landscape.misfit(place), _NOISE, 1.0) ** -0.5
            factor = float(np.clip(said, 1.0, _LOUDEST))
        settled = bool(
            np.max(np.abs(np.log(found / before)), initial=0.0) < _SETTLED and abs(np.log(factor / loud)) < _SETTLED
        )
    landscape = landscape.at(factor)
    minimum = landscape.minimise(found[groups], factor, place, exact=EXACT)
    return PriorWeights(
        found,
        found[groups],
        factor,
        decided,
        float(decided[sought].sum()) + _USUAL + _GROUP if np.any(sought) else np.inf,
        rounds,
        settled,
        landscape,
        minimum,
    )


def _between(count: float, squares: float, beliefs: float, believed: float) -> float:
    """Gives what a number of squares say of their inverse variance, and what was believed of it, by their numbers.

    Between the two it is the mean of the logarithms: that of ``count / squares`` has the variance ``2 / count``.
    """
    if count <= 0.0:
        return believed
    said = np.log(count / max(squares, 1e-300))
    return float(np.exp((count * said + beliefs * np.log(believed)) / (count + beliefs)))


def log_evidence(landscape: Landscape, minimum: Minimum, weights: FloatArray, noise: float) -> float:
    """Gives the logarithm of the data's likelihood with some weights, parameters integrated out, but for a constant."""
    whole = landscape.sizes == PARAMETER_COUNT
    share = weights * landscape.shares(minimum.covariance, landscape.blocks(minimum.place)) / landscape.sizes
    # Laplace of the prior where the data leave it alone, and exact where they decide: it must cancel what it meets.
    prior = -0.5 * landscape.sizes * np.log(weights / (2.0 * np.pi))
    prior = prior + np.where(whole, (1.0 - share) * (_log_norm(weights) - prior), 0.0)
    volume = VOLUME * np.linalg.slogdet(landscape.relative(minimum.place)[whole])[1]
    unit = 0.5 * len(minimum.place) * np.log(2.0 * np.pi)
    data = -landscape.rank * np.log(noise)
    return float(unit - minimum.energy - 0.5 * minimum.log_determinant - np.sum(volume) - np.sum(prior) + data)


def _sizes(sizes: IntArray, weights: FloatArray) -> FloatArray:
    """Gives ``−2 w ∂ log Z/∂w`` of each link: the number of its parameters, a little more where it may be far off."""
    halves = np.arange(4) / 2.0
    whole = digamma(weights[:, None] - halves).sum(axis=1) - 4.0 * np.log(weights)
    return np.asarray(np.where(sizes == PARAMETER_COUNT, -2.0 * weights * whole, sizes))


def _log_norm(weights: FloatArray) -> FloatArray:
    """Gives the logarithm of ``∫ exp(−w D) det(X)^(−5/2) dx`` of a link, all of whose parameters are looked for."""
    # Of the ten elements of X = P0^{-1/2} P P0^{-1/2}, the six beside the diagonal count √2 times in x.
    gammas = np.array([multigammaln(weight, 4) for weight in weights])
    return np.asarray(4.0 * weights + gammas - 4.0 * weights * np.log(weights) + 3.0 * np.log(2.0))
