"""Draws from a posterior, and the errors of an estimate by them, from many parallel chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.sampling.hmc import MIXED, HmcSampler, Mixing, start_chains
from steelyard.identification.sampling.whitening import WhitePosterior, whiten
from steelyard.kinematics import one_blas_thread

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.sampling.hmc import Holds
    from steelyard.identification.sampling.posterior import Posterior

_MIXED_FOR_ERRORS = 1.2
"""R̂ up to which chains serve for standard errors, which pool all of them: a second or two for a humanoid
(docs/decisions/0012)."""

_FEWEST_CHAINS, _MOST_CHAINS = 64, 128
"""Parallel chains. Set by judgement: one array operation moves them all, so that 64 cost little more than one."""

_WARM_UP, _WARM_UP_AT_EDGES = 40, 20
"""Discarded moves. With hard constraints a move has many reflections, and chains forget their start sooner. Set by
judgement: where it is too short, R̂ shows it, and the moves so far are discarded as well."""

_LEAST_LENGTH, _MOST_LENGTH = 20, 640
"""Kept moves of each chain, at least and at most. Set by judgement: the length doubles until the chains converge."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from a posterior.

    Attributes:
        points: The unknowns ``z``, shape (count, k).
        parameters: Of all links, shape (count, n_links, 10).
        mixing: Convergence of the chains.
    """

    points: FloatArray
    parameters: FloatArray
    mixing: Mixing


def draw(posterior: Posterior, count: int, generator: np.random.Generator, *, holds: Holds | None = None) -> Draws:
    """Draw from a posterior; all draws are possible and satisfy all rows.

    Chains continue until they agree and their effective sample size reaches the count.

    Args:
        posterior: The posterior.
        count: Number of draws.
        generator: Random generator.
        holds: Function that returns, for parameters of shape (n, n_links, 10), which satisfy the constraints that are
            not among the rows, shape (n,).

    Raises:
        SolverError: Nothing strictly possible lies within the constraints, or the chains do not converge.
        IdentifiabilityError: The count is not a positive integer.
    """
    with one_blas_thread():
        white, sampler, mixing = _settle(posterior, count, generator, holds)
        if sampler is None:
            points = np.tile(white.offset, (count, 1))
        else:
            points = _spread_out(posterior, white, sampler.history, count, generator)
    return Draws(points, posterior.parameters(points), mixing)


def draw_errors(
    posterior: Posterior, about: FloatArray, count: int, generator: np.random.Generator, *, holds: Holds | None = None
) -> tuple[FloatArray, Mixing]:
    """Return the second moments of draws about a point, shape (k, k), and the convergence of the chains.

    All points of all chains count. In whitened coordinates, where off-diagonal entries are mostly sampling noise, these
    are shrunk accordingly [Schäfer and Strimmer, 2005], so that the matrix has full rank within the equations.

    Args:
        posterior: The posterior.
        about: The point ``z``, shape (k,).
        count: Effective sample size that the chains must reach.
        generator: Random generator.
        holds: See `draw`.

    Raises:
        SolverError: Nothing strictly possible lies within the constraints, or the chains do not converge.
        IdentifiabilityError: The count is not a positive integer.
    """
    with one_blas_thread():
        white, sampler, mixing = _settle(posterior, count, generator, holds, enough=_MIXED_FOR_ERRORS)
        if sampler is None:
            away = white.offset - about
            return np.outer(away, away), mixing
        points = np.concatenate(sampler.history, axis=1)
        mean = points.mean(axis=1)
        covariance = np.cov(points).reshape(len(mean), len(mean))
        variances = np.asarray(np.diagonal(covariance))
        mixed = covariance - np.diag(variances)
        noise = (variances.sum() ** 2 - variances @ variances) / min(mixing.effective_count, points.shape[1])
        kept = max(0.0, 1.0 - noise / max(float(np.sum(np.square(mixed))), 1e-300))
        away = white.offset + white.basis @ mean - about
        return white.basis @ (np.diag(variances) + kept * mixed) @ white.basis.T + np.outer(away, away), mixing


def _settle(
    posterior: Posterior, count: int, generator: np.random.Generator, holds: Holds | None, *, enough: float = MIXED
) -> tuple[WhitePosterior, HmcSampler | None, Mixing]:
    """Run chains until they converge and their effective sample size reaches the count, or nearly so.

    Returns:
        The whitened posterior, the chains (None where equations determine all unknowns), and their convergence.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise IdentifiabilityError(f"the number of draws is {count!r}; give an integer, one or more")
    white = whiten(posterior)
    if not white.size:
        return white, None, Mixing(count, 0, 1, 0, 1.0, 1.0, float(count))
    chains = int(np.clip(count, _FEWEST_CHAINS, _MOST_CHAINS))
    allowed = None if holds is None else _in_whitened(holds, posterior, white)
    sampler = HmcSampler(white, generator, allowed, start_chains(white, generator, chains, allowed))
    warm_up = _WARM_UP if sampler.boundary is None else _WARM_UP_AT_EDGES
    sampler.warm_up(warm_up)
    length = max(_LEAST_LENGTH, -(-count // chains))
    sampler.run(length)
    mixing = sampler.mixing(warm_up)
    while not (mixing.r_hat <= enough and mixing.effective_count >= count) and length < _MOST_LENGTH:
        if mixing.r_hat > enough:
            # The kept moves belonged to the warm-up.
            warm_up += length
            sampler.forget()
        length *= 2
        sampler.run(length - len(sampler.history))
        mixing = sampler.mixing(warm_up)
    if mixing.r_hat > enough:
        raise SolverError(
            f"the chains do not converge, and the draws cannot be trusted: {mixing.words}; relax constraints "
            "that leave hardly any room, or give the prior more weight",
            status="not mixed",
        )
    return white, sampler, mixing


def _in_whitened(holds: Holds, posterior: Posterior, white: WhitePosterior) -> Holds:
    """Return a test of parameters as a test of whitened points in columns."""
    return lambda x: np.asarray(holds(posterior.parameters(white.points(x))), dtype=np.bool_)


def _spread_out(
    posterior: Posterior, white: WhitePosterior, history: list[FloatArray], count: int, generator: np.random.Generator
) -> FloatArray:
    """Return `count` points of the chains, as far apart in time as possible, in random order."""
    chains = history[0].shape[1]
    rounds = -(-count // chains)
    times = np.unique(np.linspace(len(history) - 1, 0, rounds).round().astype(int))[::-1]
    points = np.concatenate([white.points(history[time])[generator.permutation(chains)] for time in times])[:count]
    wrong = np.flatnonzero(~posterior.holds(posterior.parameters(points)))
    if len(wrong):
        # Within rounding of a constraint: points at other times replace them.
        others = np.concatenate([white.points(x) for x in history])
        others = others[posterior.holds(posterior.parameters(others))]
        points[wrong] = others[generator.choice(len(others), len(wrong), replace=False)]
    return points
