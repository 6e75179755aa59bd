"""Hamiltonian Monte Carlo in a whitened posterior, with many parallel chains.

Where the energy is smooth, the posterior is nearly a unit Gaussian, whose trajectories are known exactly: rotations of
position and velocity. The difference from it gives kicks between rotations [Neal, "MCMC using Hamiltonian dynamics",
2011, 5.5.1]. With hard constraints (rows; links without a weight, whose energy does not rise where bodies become
impossible), trajectories between kicks are straight and are reflected exactly (`reflections.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import SolverError
from steelyard.identification.sampling.convergence import effective_counts, r_hat
from steelyard.identification.sampling.reflections import Boundary
from steelyard.identification.sampling.small_factors import COUNTS, DIAGONAL, are_positive, factor_ldl, invert_ldl

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.identification.sampling.whitening import WhitePosterior

    Holds = Callable[[FloatArray], Any]

MIXED = 1.1
"""R̂ up to which chains count as converged: the limit of Gelman and Rubin's practice."""

_WANTED_ACCEPTANCE = 0.8
"""Acceptance rate that the step length is adapted to: the usual target of Hamiltonian Monte Carlo (0.65 to 0.9)."""

_CAREFUL = 0.1
"""Share of moves with small steps, which free chains caught where the energy is steep. Set by judgement."""

_PATIENCE, _MOST_HALVINGS = 2, 12
"""Excess of rejected over accepted moves of a chain beyond which its steps are halved in warm-up, and most halvings.
Set by judgement."""

_FAR = 4.0
"""Standard deviations from the centre beyond which a row is not a reflecting constraint: a Gaussian crosses it 3 times
in 100 000, and such moves are rejected."""

_QUARTER = 0.5 * np.pi
"""Angle after which the position of a Gaussian trajectory is independent of its start."""


@dataclass(frozen=True)
class Mixing:
    """Convergence of chains.

    Attributes:
        chains: Number of chains.
        warm_up: Discarded moves of each.
        moves: Kept moves of each.
        steps: Steps in a move.
        acceptance: Share of accepted moves.
        r_hat: The greatest R̂ of a coordinate or of the energy; 1 when the chains agree.
        effective_count: Least effective sample size of a coordinate.
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
        """Whether the chains converged."""
        return self.r_hat <= MIXED

    @property
    def words(self) -> str:
        """The same as text."""
        return (
            f"{self.chains} chains, {self.moves} moves after a warm-up of {self.warm_up}, {self.acceptance:.0%} "
            f"accepted: R̂ is {self.r_hat:.3f}, and they are worth {self.effective_count:.0f} independent draws"
        )


def start_chains(
    white: WhitePosterior, generator: np.random.Generator, chains: int, allowed: Holds | None
) -> FloatArray:
    """Draw Gaussian starts around the centre, each pulled towards it until it is possible, shape (d, chains)."""
    x = generator.normal(size=(white.size, chains))
    centre: FloatArray = np.zeros((white.size, 1))
    highest = _energy(white, centre, _Bodies.at(white, centre)) + white.size
    for _ in range(60):
        bodies = _Bodies.at(white, x)
        with np.errstate(invalid="ignore"):
            outside = ~(bodies.possible & _within(white, x) & (_energy(white, x, bodies) <= highest))
        if allowed is not None:
            outside |= ~allowed(x)
        if not np.any(outside):
            return x
        x[:, outside] *= 0.7
    raise SolverError(
        "no robot near the centre of the posterior satisfies all constraints, so that none can be drawn; relax those "
        "that leave no room"
    )


@dataclass(frozen=True, eq=False)
class _Bodies:
    """The links' matrices at the positions of chains.

    Attributes:
        entries: Of the matrices, shape (10, b, chains).
        below: Their factors; see `factor_ldl`.
        pivots: Their pivots.
        positive: Which are positive definite, shape (b, chains).
    """

    entries: FloatArray
    below: FloatArray
    pivots: FloatArray
    positive: Any

    @classmethod
    def at(cls, white: WhitePosterior, x: FloatArray) -> _Bodies:
        entries = white.matrices(x)
        below, pivots = factor_ldl(entries)
        return cls(entries, below, pivots, are_positive(pivots))

    @property
    def possible(self) -> Any:
        """Whether all links of each chain are physically possible, shape (chains,)."""
        return np.all(self.positive, axis=0)


def _within(white: WhitePosterior, x: FloatArray) -> Any:
    """Return which chains satisfy all rows, shape (chains,)."""
    return np.all(white.margins[:, None] + white.normals @ x > 0.0, axis=0)


def _energy(white: WhitePosterior, x: FloatArray, bodies: _Bodies) -> FloatArray:
    """Return the energy of each chain, shape (chains,), up to a constant; undefined where a body is impossible."""
    total = 0.5 * white.curvature @ np.square(x) + white.slope @ x
    if np.any(white.weights > 0.0):
        with np.errstate(invalid="ignore", divide="ignore"):
            log_det = np.sum(np.log(bodies.pivots), axis=0)
        total = total + white.weights @ (np.sum(bodies.entries[DIAGONAL], axis=0) - log_det)
    return np.asarray(total)


def _find_boundary(white: WhitePosterior) -> Boundary | None:
    """Return the hard constraints: rows, and links without a weight; None if there are none.

    Rows so far away that hardly any chain meets them are left out: a move that ends beyond one is rejected.
    """
    free = np.flatnonzero(white.weights == 0.0)
    near = white.margins < _FAR * np.linalg.norm(white.normals, axis=1)
    if not len(free) and not np.any(near):
        return None
    entries = np.swapaxes(white.entries[:, free], 0, 1).reshape(-1)
    turn = white.turn.reshape(10, len(white.weights), white.size)[:, free]
    turn = np.swapaxes(turn, 0, 1).reshape(10 * len(free), white.size)
    normals = np.concatenate([turn, white.normals[near]])
    return Boundary(len(free), np.concatenate([entries, white.margins[near]]), normals)


class HmcSampler:
    """Parallel chains of Hamiltonian Monte Carlo, as columns, with their history."""

    def __init__(
        self, white: WhitePosterior, generator: np.random.Generator, allowed: Holds | None, x: FloatArray
    ) -> None:
        self.white = white
        self.generator = generator
        self.allowed = allowed
        self.x = x
        self.weighed = bool(np.any(white.weights > 0.0))
        self.boundary = _find_boundary(white)
        self.step = 0.1
        self.history: list[FloatArray] = []
        self.energies: list[FloatArray] = []
        self.accepted: list[float] = []

    def warm_up(self, moves: int) -> None:
        """Move the chains, and adapt the step length to the wanted acceptance rate.

        A chain may start where the energy is so steep that its moves are rejected at the common step length; its own
        steps are halved until it leaves.
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
        """Move the chains, and keep their positions after each move."""
        for _ in range(moves):
            self.accepted.append(float(np.mean(self.move()[1])))
            self.history.append(self.x)
            self.energies.append(_energy(self.white, self.x, _Bodies.at(self.white, self.x)))

    def forget(self) -> None:
        """Discard the history."""
        self.history, self.energies, self.accepted = [], [], []

    def mixing(self, warm_up: int) -> Mixing:
        """Return the convergence of the kept moves."""
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
        """Steps in a move: about a quarter of a rotation."""
        return int(np.ceil(_QUARTER / self.step))

    def move(self, shares: Any = 1.0) -> tuple[FloatArray, FloatArray, Any]:
        """Move every chain once, with steps that are shares of the common one.

        Returns:
            Probability of acceptance by the energy alone, and with all constraints; and which chains moved; shape
            (chains,) each.
        """
        white, generator, x = self.white, self.generator, self.x
        chains = x.shape[1]
        # Random steps avoid periodic orbits; occasional small ones free chains caught where the energy is steep.
        usual, small = generator.uniform(0.7, 1.1, size=chains), 10.0 ** generator.uniform(-1.5, 0.0, size=chains)
        angle = self.step * shares * np.where(generator.uniform(size=chains) < _CAREFUL, small, usual)
        velocity = generator.normal(size=x.shape)
        uniform = generator.uniform(size=chains)
        bodies = _Bodies.at(white, x)
        before = _energy(white, x, bodies) + 0.5 * np.sum(np.square(velocity), axis=0)
        x, velocity, going = self._follow(x, velocity, angle, bodies)
        bodies = _Bodies.at(white, x)
        after = _energy(white, x, bodies) + 0.5 * np.sum(np.square(velocity), axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            probability = np.where(going & bodies.possible, np.minimum(1.0, np.exp(before - after)), 0.0)
        probability[np.isnan(probability)] = 0.0
        by_energy = probability.copy()
        probability[~_within(white, x)] = 0.0
        if self.allowed is not None:
            probability[~self.allowed(x)] = 0.0
        moved = uniform < probability
        self.x = np.where(moved, x, self.x)
        return by_energy, probability, moved

    def _follow(
        self, x: FloatArray, velocity: FloatArray, angle: FloatArray, bodies: _Bodies
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Return the end points of trajectories, their velocities, and which trajectories stayed possible."""
        going = np.ones(x.shape[1], dtype=np.bool_)
        cosine, sine = np.cos(angle), np.sin(angle)
        values = None if self.boundary is None else self.boundary.evaluate(x)
        kick = 0.5 * angle * self.force(x, bodies)
        for _ in range(self.steps):
            velocity = velocity + kick
            if self.boundary is None or values is None:
                x, velocity = cosine * x + sine * velocity, cosine * velocity - sine * x
            else:
                x, velocity, through = self.boundary.advance(x, velocity, np.where(going, angle, 0.0), values)
                going &= through
            if self.weighed:
                bodies = _Bodies.at(self.white, x)
                going &= bodies.possible
            kick = np.where(going, 0.5 * angle * self.force(x, bodies), 0.0)
            velocity = velocity + kick
        return x, velocity, going

    def force(self, x: FloatArray, bodies: _Bodies) -> FloatArray:
        """Return the force, without that of the unit Gaussian where trajectories are rotations; shape (d, chains)."""
        white = self.white
        force = ((1.0 if self.boundary is None else 0.0) - white.curvature)[:, None] * x - white.slope[:, None]
        if not self.weighed:
            return np.asarray(force)
        pull = -white.weights[:, None] * invert_ldl(bodies.below, bodies.pivots) * COUNTS[:, None, None]
        pull[DIAGONAL] += white.weights[:, None]
        pull[:, ~bodies.positive] = 0.0
        return np.asarray(force - white.turn.T @ pull.reshape(len(white.turn), x.shape[1]))
