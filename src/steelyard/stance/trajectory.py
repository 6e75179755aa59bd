"""The Trajectory: joint positions over time, with the feet on the ground."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import make_interp_spline

from steelyard.exceptions import StanceError
from steelyard.kinematics import cross, quaternion_rotations
from steelyard.stance.postures import stand_on_soles
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

    from steelyard.arrays import FloatArray
    from steelyard.stance.footing import Footing

_LIMIT_TOLERANCE = 1e-3
"""Distance (rad or m) beyond a joint limit that is accepted. Set by judgement: a spline overshoots its knots a
little."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Joint positions over time; it begins and ends at rest, and is smooth in between.

    Attributes:
        name: Its name.
        time: Evenly spaced from zero, shape (n,), s.
        joints: Names of the joints of the columns.
        positions: Shape (n, n_joints), rad or m.
        holds: Intervals (start, end), s, in which the robot stands still.
    """

    name: str
    time: FloatArray
    joints: tuple[str, ...]
    positions: FloatArray
    holds: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(joint, str) for joint in _as_tuple(self.joints)):
            raise StanceError(f"the joints of trajectory {self.name!r} are {self.joints!r}; give names")
        time, positions = (_as_numbers(getattr(self, name), name, self.name) for name in ("time", "positions"))
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "joints", tuple(self.joints))
        repeated = sorted({joint for joint in self.joints if self.joints.count(joint) > 1})
        if repeated:
            raise StanceError(f"the trajectory {self.name!r} names the joint {repeated[0]!r} twice", names=repeated)
        if time.ndim != 1 or positions.shape != (len(time), len(self.joints)):
            raise StanceError(
                f"the trajectory {self.name!r} has times of shape {time.shape} and positions of shape "
                f"{positions.shape}; n times and {len(self.joints)} joints need (n,) and (n, {len(self.joints)})"
            )
        steps = np.diff(time)
        if len(time) < 6 or not np.all(steps > 0.0):
            raise StanceError(f"the trajectory {self.name!r} has no duration: it needs at least six increasing times")
        if not np.allclose(steps, steps[0], rtol=1e-6, atol=0.0) or abs(time[0]) > 1e-12:
            raise StanceError(f"the times of trajectory {self.name!r} must start at zero and be evenly spaced")

    @property
    def duration(self) -> float:
        """Duration, s."""
        return float(self.time[-1])

    @cached_property
    def spline(self) -> BSpline:
        """Positions as a spline of degree five in time, at rest at both ends."""
        still = [(1, np.zeros(len(self.joints))), (2, np.zeros(len(self.joints)))]
        return make_interp_spline(self.time, self.positions, k=5, bc_type=(still, still))


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, list | tuple) else (None,)


def _as_numbers(values: Any, what: str, name: str) -> FloatArray:
    try:
        array = np.array(values)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf":
        raise StanceError(f"the {what} of trajectory {name!r} are not real numbers")
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise StanceError(f"the {what} of trajectory {name!r} are not all finite")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Course:
    """Generalised coordinates of a trajectory with the soles on their stands, evenly sampled.

    Attributes:
        time: Shape (n,), s.
        q: Configurations, shape (n, position_size).
        v: Velocities, shape (n, velocity_size); the base's in its own axes.
        a: Accelerations, shape (n, velocity_size).
    """

    time: FloatArray
    q: FloatArray
    v: FloatArray
    a: FloatArray


def check_trajectory(footing: Footing, trajectory: Trajectory) -> None:
    """Check that a trajectory has the joints of this robot, and no others.

    Raises:
        StanceError: A joint is missing or unknown.
    """
    model = footing.model
    unknown = [joint for joint in trajectory.joints if joint not in model.joints]
    if unknown:
        raise StanceError(
            f"{model.name} has no joint {unknown[0]!r}{did_you_mean(unknown[0], model.joints)}, which the trajectory "
            f"{trajectory.name!r} moves",
            names=unknown,
        )
    missing = [joint for joint in model.joints if joint not in trajectory.joints]
    if missing:
        raise StanceError(
            f"the trajectory {trajectory.name!r} does not say where the joint {in_words(missing)} of {model.name} goes",
            names=missing,
        )


def trace_course(footing: Footing, trajectory: Trajectory, rate: float) -> Course:
    """Return the generalised coordinates of a trajectory; the feet on their stands place the base.

    Args:
        footing: The feet; the first is exactly on its stand.
        trajectory: The trajectory.
        rate: Sample rate, Hz.

    Raises:
        StanceError: See `check_trajectory`; also where a joint exceeds its limits, at or between the trajectory's
            times, or a sole leaves its stand.
    """
    check_trajectory(footing, trajectory)
    columns = [trajectory.joints.index(joint) for joint in footing.model.joints]
    bases = _base_poses(footing, trajectory, columns)
    still = [(1, np.zeros(7)), (2, np.zeros(7))]
    base = make_interp_spline(trajectory.time, bases, k=5, bc_type=(still, still))
    time = np.arange(round(trajectory.duration * rate) + 1) / rate
    inside = np.minimum(time, trajectory.duration)
    joints = [trajectory.spline(inside, order)[:, columns] for order in range(3)]
    _check_limits(footing, trajectory, inside, joints[0])
    pose, rate_of, change_of = (base(inside, order) for order in range(3))
    quaternion, turning, turning_change = _unit_quaternions(pose[:, 3:], rate_of[:, 3:], change_of[:, 3:])
    spin = 2.0 * _imaginary_product(quaternion, turning)
    # d/dt (q* q̇) = q* q̈ + |q̇|², and the last term is real: it does not contribute to the angular acceleration.
    spin_change = 2.0 * _imaginary_product(quaternion, turning_change)
    rotation = quaternion_rotations(quaternion)
    linear = np.einsum("nji,nj->ni", rotation, rate_of[:, :3])
    linear_change = np.einsum("nji,nj->ni", rotation, change_of[:, :3]) - cross(spin, linear)
    q = np.concatenate([pose[:, :3], quaternion, joints[0]], axis=1)
    v = np.concatenate([linear, spin, joints[1]], axis=1)
    a = np.concatenate([linear_change, spin_change, joints[2]], axis=1)
    return Course(time, q, v, a)


def _check_limits(footing: Footing, trajectory: Trajectory, time: FloatArray, positions: FloatArray) -> None:
    for column, name in enumerate(footing.model.joints):
        joint = footing.model.joint(name)
        beyond = np.maximum(joint.lower - positions[:, column], positions[:, column] - joint.upper)
        worst = int(np.argmax(beyond))
        if beyond[worst] > _LIMIT_TOLERANCE:
            raise StanceError(
                f"the trajectory {trajectory.name!r} takes {name!r} to {positions[worst, column]:.3f} at "
                f"t = {time[worst]:.2f} s; its limits are {joint.lower:.3f} and {joint.upper:.3f}",
                names=[name],
            )


def _base_poses(footing: Footing, trajectory: Trajectory, columns: list[int]) -> FloatArray:
    """Return the base's position and quaternion at the trajectory's times, shape (n, 7)."""
    times = trajectory.time
    poses = np.empty((len(times), 7))
    for row, positions in enumerate(trajectory.positions[:, columns]):
        try:
            poses[row] = stand_on_soles(footing, positions)[:7]
        except StanceError as error:
            raise StanceError(
                f"the trajectory {trajectory.name!r} does not keep the soles flat: at t = {times[row]:.2f} s {error}",
                names=error.names,
            ) from error
        if row and poses[row, 3:] @ poses[row - 1, 3:] < 0.0:
            poses[row, 3:] *= -1.0
    # Between two times the soles follow the spline, which stays flat only where the times are dense enough.
    between = trajectory.spline(0.5 * (times[1:] + times[:-1]))[:, columns]
    for row, positions in enumerate(between):
        try:
            stand_on_soles(footing, positions)
        except StanceError as error:
            raise StanceError(
                f"the trajectory {trajectory.name!r} keeps the soles flat at its times but not between "
                f"{times[row]:.2f} s and {times[row + 1]:.2f} s; give more times ({error})",
                names=error.names,
            ) from error
    return poses


def _unit_quaternions(
    values: FloatArray, rates: FloatArray, changes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the quaternions ``p / |p|`` with their first and second derivatives."""
    size = np.linalg.norm(values, axis=1, keepdims=True)
    along = np.sum(values * rates, axis=1, keepdims=True) / size
    size_change = (np.sum(values * changes + rates * rates, axis=1, keepdims=True) - along**2) / size
    unit = values / size
    first = (rates - unit * along) / size
    second = (changes - 2.0 * first * along - unit * size_change) / size
    return unit, first, second


def _imaginary_product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the imaginary part of ``conj(first) second``, shape (n, 3)."""
    return np.asarray(first[:, 3:] * second[:, :3] - second[:, 3:] * first[:, :3] - cross(first[:, :3], second[:, :3]))
