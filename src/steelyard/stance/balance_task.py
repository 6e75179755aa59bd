"""The task of a balance run: a sway and a reach, stated in the world, whatever the robot weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.interpolate import BSpline

from steelyard.arrays import is_finite_number
from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import LaboratoryError
from steelyard.stance.motion_builder import KNOTS_PER_SECOND, Style, compose, shortest_duration
from steelyard.stance.motions import LONGEST, as_seed
from steelyard.stance.postures import Wish
from steelyard.stance.standing import stand_up

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

STYLE = Style(tempo=1.2, upper=0.6, sway=(0.6, 0.5))
"""What the task is made of: weight from foot to foot, forwards and back, while the arms reach; calm enough that the
robot's turning adds little to the zero-moment point of a pendulum."""

BALANCE_DURATION = 16.0
"""Seconds that the task takes unless others are asked for."""

_DEGREE = 3
_TASKS: BoundedCache[BalanceTask] = BoundedCache(16)


@dataclass(frozen=True, eq=False)
class BalanceTask:
    """Where the robot's centre of mass is to be, and what its upper body does meanwhile.

    The zero-moment point belongs to it by the linear inverted pendulum: ``p = c − c̈ / ω²`` with ``ω² = g / z``.

    Attributes:
        curve: The upper joints' positions (rad or m), and the centre of mass on the ground (m), over time; shape
            (n_upper + 2,) at each time.
        height: Of the root's origin above the ground, m.
        frequency: The pendulum's ω, 1/s; part of the task, the same for every model that the controller uses.
        home: A configuration to begin the search for postures from, shape (position_size,).
        duration: Seconds.
    """

    curve: BSpline
    height: float
    frequency: float
    home: FloatArray
    duration: float

    def com(self, times: FloatArray, order: int = 0) -> FloatArray:
        """Gives where the centre of mass is to be on the ground, or a derivative of that, shape (n, 2)."""
        return np.asarray(self.curve(times, order)[:, -2:])

    def zmp(self, times: FloatArray) -> FloatArray:
        """Gives where the zero-moment point belongs, shape (n, 2), m."""
        return self.com(times) - self.com(times, 2) / self.frequency**2

    def wish(self, time: float) -> Wish:
        """Gives the posture that is asked for at a time."""
        point = self.curve(time)
        return Wish(point[:-2], point[-2:], self.height, np.zeros(3))

    @property
    def knots(self) -> FloatArray:
        """Times at which inverse kinematics is solved, evenly spaced from zero to the end, shape (n,), s."""
        return np.linspace(0.0, self.duration, round(self.duration * KNOTS_PER_SECOND) + 1)


def plan_balance(model: Model, *, seed: int = 0, duration: float = BALANCE_DURATION) -> BalanceTask:
    """Draws a task that a robot can do as its model has it: within limits, without touching itself, well balanced.

    Args:
        model: The reference, with soles in its setup.
        seed: What is drawn differs from seed to seed.
        duration: Seconds.

    Raises:
        LaboratoryError: There is no such duration.
        StanceError: The model cannot stand, or cannot move; the message says what is in the way.
    """
    shortest = shortest_duration(STYLE)
    if not is_finite_number(duration) or not shortest <= duration <= LONGEST:
        raise LaboratoryError(
            f"the duration is {duration!r}; to sway and reach takes {shortest:g} s at least, to leave home and come "
            f"back to rest, and {LONGEST:g} s at most"
        )
    key = (model, as_seed(seed), float(duration))
    return _TASKS.get(key, lambda: _plan(*key))


def _plan(model: Model, seed: int, duration: float) -> BalanceTask:
    standing = stand_up(model)
    builder = compose(standing, STYLE, duration, np.random.default_rng([seed, 4]))
    # The first control point is there for the beginning of the builder's path only.
    points = np.array(builder.points[1:])
    count, footing = builder.upper_count, standing.footing
    away = points[:, count : count + 2] @ np.stack([footing.lateral, footing.forward])
    control = np.concatenate([points[:, :count], standing.wish.com + away], axis=1)
    knots = builder.tempo * (np.arange(len(control) + _DEGREE + 1) - _DEGREE)
    com = pin.centerOfMass(footing.pinocchio, footing.data, standing.home)
    frequency = float(np.sqrt(-footing.pinocchio.gravity.linear[2] / com[2]))
    curve = BSpline(knots, control, _DEGREE)
    return BalanceTask(curve, standing.wish.height, frequency, np.array(standing.home), duration)
