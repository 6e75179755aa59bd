"""The task of a balance run: a path of the centre of mass and a motion of the arms, the same for every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.interpolate import BSpline

from steelyard.arrays import is_finite_number
from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import LaboratoryError
from steelyard.stance.motion_builder import KNOTS_PER_SECOND, SPLINE_DEGREE, Style, build_motion, shortest_duration
from steelyard.stance.motions import LONGEST, as_seed
from steelyard.stance.postures import PostureTarget
from steelyard.stance.standing import stand_up

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

STYLE = Style(tempo=1.2, upper=0.6, sway=(0.6, 0.5))
"""The style of the task: weight from foot to foot, forwards and back, while the arms reach. Set by judgement: slow
enough for the linear inverted pendulum, which leaves out angular momentum; docs/balance.md has the errors that
remain."""

BALANCE_DURATION = 16.0
"""Default duration of the task, s. Set by judgement: several transfers of weight."""

_TASKS: BoundedCache[BalanceTask] = BoundedCache(16)
"""Tasks by model, seed and duration. Set by judgement."""


@dataclass(frozen=True, eq=False)
class BalanceTask:
    """Reference paths of the centre of mass and of the upper joints.

    The reference of the zero-moment point is that of the linear inverted pendulum: ``p = c − c̈ / ω²``, ``ω² = g / z``.

    Attributes:
        curve: Positions of the upper joints (rad or m), and the centre of mass on the ground (m), over time; shape
            (n_upper + 2,) at each time.
        height: Height of the root's origin above the ground, m.
        frequency: The pendulum's ω, 1/s; part of the task, the same for every model that the controller uses.
        home: Initial guess of inverse kinematics, shape (position_size,).
        duration: Seconds.
    """

    curve: BSpline
    height: float
    frequency: float
    home: FloatArray
    duration: float

    def com(self, times: FloatArray, order: int = 0) -> FloatArray:
        """Return the reference of the centre of mass on the ground, or a derivative of it, shape (n, 2)."""
        return np.asarray(self.curve(times, order)[:, -2:])

    def zmp(self, times: FloatArray) -> FloatArray:
        """Return the reference of the zero-moment point, shape (n, 2), m."""
        return self.com(times) - self.com(times, 2) / self.frequency**2

    def target(self, time: float) -> PostureTarget:
        """Return the target of inverse kinematics at a time."""
        point = self.curve(time)
        return PostureTarget(point[:-2], point[-2:], self.height, np.zeros(3))

    @property
    def knots(self) -> FloatArray:
        """Times at which inverse kinematics is solved, evenly spaced from zero to the end, shape (n,), s."""
        return np.linspace(0.0, self.duration, round(self.duration * KNOTS_PER_SECOND) + 1)


def plan_balance(model: Model, *, seed: int = 0, duration: float = BALANCE_DURATION) -> BalanceTask:
    """Draw a task that is feasible for a model: within limits, free of self-collision, balanced.

    Args:
        model: The reference, with soles in its setup.
        seed: Seed of the random task.
        duration: Seconds.

    Raises:
        LaboratoryError: The duration is not possible.
        StanceError: The model cannot stand or move; the message says why.
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
    builder = build_motion(standing, STYLE, duration, np.random.default_rng([seed, 4]))
    # The first control point only serves the beginning of the builder's path.
    points = np.array(builder.points[1:])
    count, footing = builder.upper_count, standing.footing
    away = points[:, count : count + 2] @ np.stack([footing.lateral, footing.forward])
    control = np.concatenate([points[:, :count], standing.target.com + away], axis=1)
    knots = builder.tempo * (np.arange(len(control) + SPLINE_DEGREE + 1) - SPLINE_DEGREE)
    com = pin.centerOfMass(footing.pinocchio, footing.data, standing.home)
    frequency = float(np.sqrt(-footing.pinocchio.gravity.linear[2] / com[2]))
    curve = BSpline(knots, control, SPLINE_DEGREE)
    return BalanceTask(curve, standing.target.height, frequency, np.array(standing.home), duration)
