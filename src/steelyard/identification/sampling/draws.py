"""Draws from a posterior, and what they say of an estimate: many chains side by side, in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.sampling.hmc import MIXED, HmcSampler, Mixing, start_chains
from steelyard.identification.sampling.whitening import WhitePosterior, whiten
from steelyard.kinematics import one_blas_thread

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.sampling.hmc import Holds
    from steelyard.identification.sampling.posterior import Posterior

MIXED_FOR_ERRORS = 1.2
"""R̂ up to which chains are mixed enough for mean squares: of the slowest combination of parameters these are known to a
tenth then, as chains are many."""

_FEWEST_CHAINS, _MOST_CHAINS = 64, 128
_WARM_UP, _WARM_UP_AT_EDGES = 40, 20
"""Moves before the first that counts. With edges, a move is many bounces, and chains forget where they began sooner."""

_LEAST_LENGTH = 20
_MOST_LENGTH = 640


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from a posterior.

    Attributes:
        points: The unknowns ``z``, shape (count, k).
        parameters: Of all links, shape (count, n_links, 10).
        mixing: How well the chains have mixed.
    """

    points: FloatArray
    parameters: FloatArray
    mixing: Mixing


def draw(
    posterior: Posterior,
    count: int,
    generator: np.random.Generator,
    *,
    holds: Holds | None = None,
    warm_up: int | None = None,
) -> Draws:
    """Gives draws from a posterior; all are possible, and hold all rows.

    Chains go on until they agree and are worth as many independent draws as are asked for.

    Args:
        posterior: The posterior.
        count: How many.
        generator: Where chance comes from: the same one gives the same draws.
        holds: Tells of parameters, shape (n, n_links, 10), which hold what rows cannot say, shape (n,).
        warm_up: Moves before the first that counts, in which the length of a step is found; None for a usual number.

    Raises:
        SolverError: Nothing strictly possible lies within the constraints, or the chains do not mix.
        IdentifiabilityError: The count is no positive number.
    """
    check_count(count)
    with one_blas_thread():
        chains = _settle(posterior, count, generator, holds, warm_up)
        if chains.sampler is None:
            points = np.tile(chains.white.offset, (count, 1))
        else:
            points = _spread_out(posterior, chains.white, chains.sampler.history, count, generator)
    return Draws(points, posterior.parameters(points), chains.mixing)


def draw_errors(
    posterior: Posterior, about: FloatArray, count: int, generator: np.random.Generator, *, holds: Holds | None = None
) -> tuple[FloatArray, Mixing]:
    """Gives mean squares and products of how far draws are from a point, shape (k, k), and how well chains have mixed.

    All places that chains were at count. In the coordinates in which the posterior is about a unit Gaussian, what is
    beside the diagonal is mostly chance, and shrunk by as much [Schäfer and Strimmer, 2005]; it is of full rank within
    what equations leave.

    Args:
        posterior: The posterior.
        about: The point ``z``, shape (k,).
        count: How many independent draws the chains must be worth.
        generator: Where chance comes from.
        holds: See `draw`.

    Raises:
        SolverError: Nothing strictly possible lies within the constraints, or the chains do not mix.
        IdentifiabilityError: The count is no positive number.
    """
    check_count(count)
    with one_blas_thread():
        chains = _settle(posterior, count, generator, holds, None, enough=MIXED_FOR_ERRORS)
        white, sampler = chains.white, chains.sampler
        if sampler is None:
            away = white.offset - about
            return np.outer(away, away), chains.mixing
        places = np.concatenate(sampler.history, axis=1)
        middle = places.mean(axis=1)
        products = np.cov(places)
        products = products.reshape(len(middle), len(middle))
        beside = products - np.diag(np.diagonal(products))
        variances = np.asarray(np.diagonal(products))
        chance = (variances.sum() ** 2 - variances @ variances) / min(chains.mixing.effective_count, places.shape[1])
        real = max(0.0, 1.0 - chance / max(float(np.sum(np.square(beside))), 1e-300))
        away = white.offset + white.basis @ middle - about
        return white.basis @ (np.diag(variances) + real * beside) @ white.basis.T + np.outer(away, away), chains.mixing


def check_count(count: int) -> None:
    """Refuses a number of draws that is none."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise IdentifiabilityError(f"the number of draws is {count!r}; it must be a whole number from 1")


@dataclass(frozen=True, eq=False)
class _Settled:
    """Chains that agree.

    Attributes:
        white: The posterior that they wander in.
        sampler: They themselves; None where equations leave nothing to wander in.
        mixing: How well they have mixed.
    """

    white: WhitePosterior
    sampler: HmcSampler | None
    mixing: Mixing


def _settle(
    posterior: Posterior,
    count: int,
    generator: np.random.Generator,
    holds: Holds | None,
    warm_up: int | None,
    *,
    enough: float = MIXED,
) -> _Settled:
    """Gives chains that agree, and are worth as many independent draws as are asked for, or nearly."""
    white = whiten(posterior)
    if not white.size:
        return _Settled(white, None, Mixing(count, 0, 1, 0, 1.0, 1.0, float(count)))
    chains = int(np.clip(count, _FEWEST_CHAINS, _MOST_CHAINS))
    allowed = _predicate(posterior, white, holds)
    sampler = HmcSampler(white, generator, allowed, start_chains(white, generator, chains, allowed))
    if warm_up is None:
        warm_up = _WARM_UP if sampler.table is None else _WARM_UP_AT_EDGES
    sampler.warm_up(warm_up)
    length = max(_LEAST_LENGTH, -(-count // chains))
    sampler.run(length)
    mixing = sampler.mixing(warm_up)
    while not (mixing.r_hat <= enough and mixing.effective_count >= count) and length < _MOST_LENGTH:
        if mixing.r_hat > enough:
            # What was kept was still warming up.
            warm_up += length
            sampler.forget()
        length *= 2
        sampler.run(length - len(sampler.history))
        mixing = sampler.mixing(warm_up)
    if mixing.r_hat > enough:
        raise SolverError(
            f"the draws cannot be trusted, because the chains do not agree: {mixing.words}; loosen constraints "
            "that leave hardly any room, or give the prior more weight",
            status="not mixed",
        )
    return _Settled(white, sampler, mixing)


def _predicate(posterior: Posterior, white: WhitePosterior, holds: Holds | None) -> Holds | None:
    if holds is None:
        return None

    def allowed(x: FloatArray) -> Any:
        return np.asarray(holds(posterior.parameters(white.points(x))), dtype=np.bool_)

    return allowed


def _spread_out(
    posterior: Posterior, white: WhitePosterior, history: list[FloatArray], count: int, generator: np.random.Generator
) -> FloatArray:
    """Gives `count` of the points that chains were at, as far apart as can be, in random order."""
    chains = history[0].shape[1]
    rounds = -(-count // chains)
    times = np.unique(np.linspace(len(history) - 1, 0, rounds).round().astype(int))[::-1]
    points = np.concatenate([white.points(history[time])[generator.permutation(chains)] for time in times])[:count]
    wrong = np.flatnonzero(~posterior.holds(posterior.parameters(points)))
    if len(wrong):
        # Within rounding of an edge: the same chain was elsewhere at another time.
        others = np.concatenate([white.points(x) for x in history])
        others = others[posterior.holds(posterior.parameters(others))]
        points[wrong] = others[generator.choice(len(others), len(wrong), replace=False)]
    return points
