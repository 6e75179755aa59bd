"""Chains that wander in a whitened posterior side by side: Hamiltonian Monte Carlo.

Where the energy is smooth, the posterior is nearly a unit Gaussian, whose motion is a rotation of place and velocity,
known exactly; what the posterior has beside it gives kicks between rotations [Neal, "MCMC using Hamiltonian dynamics",
2011, 5.5.1]. Where there are hard edges (rows; links without a weight, whose energy does not rise at what is
impossible), chains fly straight between kicks and bounce off the edges exactly (`billiards.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.sampling.convergence import effective_counts, r_hat
from steelyard.identification.sampling.reflections import Table
from steelyard.identification.sampling.small_factors import COUNTS, DIAGONAL, are_positive, factor_ldl, invert_ldl

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.identification.sampling.whitening import WhitePosterior

    Holds = Callable[[FloatArray], Any]

MIXED = 1.1
"""R̂ up to which chains count as mixed."""

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


def start_chains(
    white: WhitePosterior, generator: np.random.Generator, chains: int, allowed: Holds | None
) -> FloatArray:
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
        below: Their factors; see `factor_ldl`.
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
        below, pivots = factor_ldl(entries)
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


class HmcSampler:
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
        pull = -white.weights[:, None] * invert_ldl(place.below, place.pivots) * COUNTS[:, None, None]
        pull[DIAGONAL] += white.weights[:, None]
        pull[:, ~place.positive] = 0.0
        return np.asarray(force - white.turn.T @ pull.reshape(len(white.turn), x.shape[1]))
