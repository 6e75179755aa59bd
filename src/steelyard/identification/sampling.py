"""Draws from a posterior: Hamiltonian Monte Carlo, many chains side by side, in whitened coordinates.

Where the energy is smooth, the posterior is nearly a unit Gaussian, whose motion is a rotation of place and velocity,
known exactly; what the posterior has beside it gives kicks between rotations [Neal, "MCMC using Hamiltonian dynamics",
2011, 5.5.1]. Where there are hard edges (rows; links without a weight, whose energy does not rise at what is
impossible), chains fly straight between kicks and bounce off the edges exactly (`billiards.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.billiards import Table
from steelyard.identification.mixing import effective_counts, r_hat
from steelyard.identification.small_factors import COUNTS, DIAGONAL, are_positive, factorise, invert
from steelyard.identification.whitening import WhitePosterior, whiten
from steelyard.regression.blas import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.identification.posterior import Posterior
    from steelyard.model.parameters import FloatArray

    Holds = Callable[[FloatArray], Any]

MIXED, MIXED_FOR_ERRORS = 1.1, 1.2
"""R̂ up to which chains count as mixed: for draws, and for mean squares, of which the slowest combination of parameters
is known to a tenth then, as chains are many."""

_FEWEST_CHAINS, _MOST_CHAINS = 64, 128
_WARM_UP, _WARM_UP_AT_EDGES = 40, 20
"""Moves before the first that counts. With edges, a move is many bounces, and chains forget where they began sooner."""

_LEAST_LENGTH = 20
_MOST_LENGTH = 640
_WANTED_ACCEPTANCE = 0.8
_CAREFUL = 0.1
"""Share of moves with small steps."""

_PATIENCE, _MOST_HALVINGS = 2, 12
"""Moves that a chain is refused, more than it is granted, before its steps are halved while it warms up; how often."""

_FAR = 4.0
"""Standard deviations from the centre beyond which a row is far."""

_QUARTER = 0.5 * np.pi
"""The turn after which a Gaussian's place has become independent."""


@dataclass(frozen=True)
class Mixing:
    """How well chains have mixed.

    Attributes:
        chains: Chains side by side.
        warm_up: Moves of each that were thrown away.
        moves: Moves of each that were kept.
        steps: Steps in a move.
        acceptance: Share of moves that were accepted.
        r_hat: The greatest R̂ of a coordinate or of the energy; 1 when the chains agree.
        effective_count: How many independent draws the chains are worth, for the worst coordinate.
    """

    chains: int
    warm_up: int
    moves: int
    steps: int
    acceptance: float
    r_hat: float
    effective_count: float

    @property
    def mixed(self) -> bool:
        """Whether the chains agree."""
        return self.r_hat <= MIXED

    @property
    def words(self) -> str:
        """The same in a sentence."""
        return (
            f"{self.chains} chains, {self.moves} moves after {self.warm_up} to warm up, {self.acceptance:.0%} taken: "
            f"R̂ is {self.r_hat:.3f}, and they are worth {self.effective_count:.0f} independent draws"
        )


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
class _Chains:
    """Chains that agree.

    Attributes:
        white: The posterior that they wander in.
        sampler: They themselves; None where equations leave nothing to wander in.
        mixing: How well they have mixed.
    """

    white: WhitePosterior
    sampler: _Sampler | None
    mixing: Mixing


def _settle(
    posterior: Posterior,
    count: int,
    generator: np.random.Generator,
    holds: Holds | None,
    warm_up: int | None,
    *,
    enough: float = MIXED,
) -> _Chains:
    """Gives chains that agree, and are worth as many independent draws as are asked for, or nearly."""
    white = whiten(posterior)
    if not white.size:
        return _Chains(white, None, Mixing(count, 0, 1, 0, 1.0, 1.0, float(count)))
    chains = int(np.clip(count, _FEWEST_CHAINS, _MOST_CHAINS))
    allowed = _predicate(posterior, white, holds)
    sampler = _Sampler(white, generator, allowed, _start(white, generator, chains, allowed))
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
    return _Chains(white, sampler, mixing)


def _predicate(posterior: Posterior, white: WhitePosterior, holds: Holds | None) -> Holds | None:
    if holds is None:
        return None

    def allowed(x: FloatArray) -> Any:
        return np.asarray(holds(posterior.parameters(white.points(x))), dtype=np.bool_)

    return allowed


def _start(white: WhitePosterior, generator: np.random.Generator, chains: int, allowed: Holds | None) -> FloatArray:
    """Gives Gaussian draws around the centre, each drawn back towards it until it is possible, shape (d, chains)."""
    x = generator.normal(size=(white.size, chains))
    centre: FloatArray = np.zeros((white.size, 1))
    highest = _energy(white, centre, _Place.at(white, centre)) + white.size
    for _ in range(60):
        place = _Place.at(white, x)
        with np.errstate(invalid="ignore"):
            outside = ~(place.possible & _within(white, x) & (_energy(white, x, place) <= highest))
        if allowed is not None:
            outside |= ~allowed(x)
        if not np.any(outside):
            return x
        x[:, outside] *= 0.7
    raise SolverError(
        "no robot near the middle of what is possible holds all constraints, so that none can be drawn; loosen those "
        "that leave no room"
    )


@dataclass(frozen=True, eq=False)
class _Place:
    """What is known of the points where chains are.

    Attributes:
        entries: Of the links' matrices, shape (10, b, chains).
        below: Their factors; see `factorise`.
        pivots: Their pivots.
        positive: Which are positive definite, shape (b, chains).
    """

    entries: FloatArray
    below: FloatArray
    pivots: FloatArray
    positive: Any

    @classmethod
    def at(cls, white: WhitePosterior, x: FloatArray) -> _Place:
        entries = white.matrices(x)
        below, pivots = factorise(entries)
        return cls(entries, below, pivots, are_positive(pivots))

    @property
    def possible(self) -> Any:
        """Whether all links of each chain are, shape (chains,)."""
        return np.all(self.positive, axis=0)


def _within(white: WhitePosterior, x: FloatArray) -> Any:
    """Tells which chains hold all rows, shape (chains,)."""
    return np.all(white.margins[:, None] + white.normals @ x > 0.0, axis=0)


def _energy(white: WhitePosterior, x: FloatArray, place: _Place) -> FloatArray:
    """Gives the energy of each chain, shape (chains,), up to a constant; any number, or none, where it is outside."""
    total = 0.5 * white.curvature @ np.square(x) + white.slope @ x
    if np.any(white.weights > 0.0):
        with np.errstate(invalid="ignore", divide="ignore"):
            log_det = np.sum(np.log(place.pivots), axis=0)
        total = total + white.weights @ (np.sum(place.entries[DIAGONAL], axis=0) - log_det)
    return np.asarray(total)


def _edges(white: WhitePosterior) -> Table | None:
    """Gives the hard edges: rows, and links without a weight, whose energy does not rise at what is impossible.

    Rows so far away that hardly any chain meets them are left out: a path that ends beyond one is refused.
    """
    free = np.flatnonzero(white.weights == 0.0)
    near = white.margins < _FAR * np.linalg.norm(white.normals, axis=1)
    if not len(free) and not np.any(near):
        return None
    entries = np.swapaxes(white.entries[:, free], 0, 1).reshape(-1)
    turn = white.turn.reshape(10, len(white.weights), white.size)[:, free]
    turn = np.swapaxes(turn, 0, 1).reshape(10 * len(free), white.size)
    edges = np.concatenate([turn, white.normals[near]])
    return Table(len(free), np.concatenate([entries, white.margins[near]]), edges)


class _Sampler:
    """Chains that move side by side, as columns; it keeps where they were."""

    def __init__(
        self, white: WhitePosterior, generator: np.random.Generator, allowed: Holds | None, x: FloatArray
    ) -> None:
        self.white = white
        self.generator = generator
        self.allowed = allowed
        self.x = x
        self.weighed = bool(np.any(white.weights > 0.0))
        self.table = _edges(white)
        self.step = 0.1
        self.history: list[FloatArray] = []
        self.energies: list[FloatArray] = []
        self.accepted: list[float] = []

    def warm_up(self, moves: int) -> None:
        """Moves the chains, and finds the step with which enough moves are accepted.

        A chain may be where the energy is so steep that it is refused whatever the others' step; almost none comes to
        such a place by itself, but one may begin there. Its own steps are halved until it leaves.
        """
        logs: list[float] = []
        refused = np.zeros(self.x.shape[1])
        for move in range(moves):
            halvings = np.clip(refused - _PATIENCE, 0.0, _MOST_HALVINGS)
            by_energy, _, moved = self.move(0.5**halvings)
            refused = np.maximum(refused + np.where(moved, -1.0, 1.0), 0.0)
            usual = halvings == 0.0
            rate = float(np.mean(by_energy[usual])) if np.any(usual) else 0.0
            self.step *= float(np.exp((rate - _WANTED_ACCEPTANCE) * 2.0 / np.sqrt(1.0 + move)))
            self.step = float(np.clip(self.step, 1e-3, 0.6))
            logs.append(np.log(self.step))
        self.step = float(np.exp(np.mean(logs[len(logs) // 2 :])))

    def run(self, moves: int) -> None:
        """Moves the chains, and keeps where they are after each move."""
        for _ in range(moves):
            self.accepted.append(float(np.mean(self.move()[1])))
            self.history.append(self.x)
            self.energies.append(_energy(self.white, self.x, _Place.at(self.white, self.x)))

    def forget(self) -> None:
        """Throws away what was kept."""
        self.history, self.energies, self.accepted = [], [], []

    def mixing(self, warm_up: int) -> Mixing:
        """Gives how well what was kept has mixed."""
        history = np.stack(self.history).swapaxes(1, 2)
        history = np.concatenate([history, np.stack(self.energies)[:, :, None]], axis=2)
        return Mixing(
            chains=history.shape[1],
            warm_up=warm_up,
            moves=len(history),
            steps=self.steps,
            acceptance=float(np.mean(self.accepted)),
            r_hat=float(np.max(r_hat(history))),
            effective_count=float(np.min(effective_counts(history))),
        )

    @property
    def steps(self) -> int:
        """Steps in a move: about a quarter turn."""
        return int(np.ceil(_QUARTER / self.step))

    def move(self, shares: Any = 1.0) -> tuple[FloatArray, FloatArray, Any]:
        """Moves every chain once, with steps that are shares of the usual one.

        Returns:
            How probable it was to be accepted by energy, and by all that must hold; and who was; shape (chains,) each.
        """
        white, generator, x = self.white, self.generator, self.x
        chains = x.shape[1]
        # Each chain has a step of its own, so that none comes back to where it was; now and then a much smaller one, so
        # that none is caught where the energy is steep.
        usual, small = generator.uniform(0.7, 1.1, size=chains), 10.0 ** generator.uniform(-1.5, 0.0, size=chains)
        angle = self.step * shares * np.where(generator.uniform(size=chains) < _CAREFUL, small, usual)
        velocity = generator.normal(size=x.shape)
        chance = generator.uniform(size=chains)
        place = _Place.at(white, x)
        before = _energy(white, x, place) + 0.5 * np.sum(np.square(velocity), axis=0)
        x, velocity, going = self._follow(x, velocity, angle, place)
        place = _Place.at(white, x)
        after = _energy(white, x, place) + 0.5 * np.sum(np.square(velocity), axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            probability = np.where(going & place.possible, np.minimum(1.0, np.exp(before - after)), 0.0)
        probability[np.isnan(probability)] = 0.0
        by_energy = probability.copy()
        probability[~_within(white, x)] = 0.0
        if self.allowed is not None:
            probability[~self.allowed(x)] = 0.0
        moved = chance < probability
        self.x = np.where(moved, x, self.x)
        return by_energy, probability, moved

    def _follow(
        self, x: FloatArray, velocity: FloatArray, angle: FloatArray, place: _Place
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Gives where paths end, and which did not come to a place outside: those are refused, and stay there."""
        going = np.ones(x.shape[1], dtype=np.bool_)
        cosine, sine = np.cos(angle), np.sin(angle)
        seen = None if self.table is None else self.table.see(x)
        kick = 0.5 * angle * self.force(x, place)
        for _ in range(self.steps):
            velocity = velocity + kick
            if self.table is None or seen is None:
                x, velocity = cosine * x + sine * velocity, cosine * velocity - sine * x
            else:
                x, velocity, through = self.table.fly(x, velocity, np.where(going, angle, 0.0), seen)
                going &= through
            if self.weighed:
                place = _Place.at(self.white, x)
                going &= place.possible
            kick = np.where(going, 0.5 * angle * self.force(x, place), 0.0)
            velocity = velocity + kick
        return x, velocity, going

    def force(self, x: FloatArray, place: _Place) -> FloatArray:
        """Gives the force of all, or beside the unit Gaussian's where the motion is its; shape (d, chains)."""
        white = self.white
        force = ((1.0 if self.table is None else 0.0) - white.curvature)[:, None] * x - white.slope[:, None]
        if not self.weighed:
            return np.asarray(force)
        pull = -white.weights[:, None] * invert(place.below, place.pivots) * COUNTS[:, None, None]
        pull[DIAGONAL] += white.weights[:, None]
        pull[:, ~place.positive] = 0.0
        return np.asarray(force - white.turn.T @ pull.reshape(len(white.turn), x.shape[1]))


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
