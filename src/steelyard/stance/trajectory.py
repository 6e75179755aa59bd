"""The Trajectory: joint positions over time, to be played with the feet on the ground."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin
from scipy.interpolate import make_interp_spline

from steelyard.exceptions import StanceError
from steelyard.model.names import did_you_mean, in_words
from steelyard.motion.kinematics import cross, quaternion_rotations

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

    from steelyard.model.parameters import FloatArray
    from steelyard.stance.footing import Footing


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Joint positions over time; it begins and ends at rest, and is smooth in between.

    Attributes:
        name: What it is called.
        time: Evenly spaced from zero, shape (n,), s.
        joints: Names of the joints of the columns.
        positions: Shape (n, n_joints), rad or m.
        holds: Stretches (start, end), s, in which the robot is meant to stand still.
    """

    name: str
    time: FloatArray
    joints: tuple[str, ...]
    positions: FloatArray
    holds: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        time, positions = (_as_numbers(getattr(self, name), name, self.name) for name in ("time", "positions"))
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "joints", tuple(self.joints))
        repeated = sorted({joint for joint in self.joints if self.joints.count(joint) > 1})
        if repeated:
            raise StanceError(f"the trajectory {self.name!r} names the joint {repeated[0]!r} twice", names=repeated)
        if positions.shape != (len(time), len(self.joints)):
            raise StanceError(
                f"the trajectory {self.name!r} has positions of shape {positions.shape}; {len(time)} times and "
                f"{len(self.joints)} joints need {(len(time), len(self.joints))}"
            )
        steps = np.diff(time)
        if time.ndim != 1 or len(time) < 6 or not np.all(steps > 0.0):
            raise StanceError(f"the trajectory {self.name!r} has no duration: it needs at least six increasing times")
        if not np.allclose(steps, steps[0], rtol=1e-6, atol=0.0) or abs(time[0]) > 1e-12:
            raise StanceError(f"the times of trajectory {self.name!r} must start at zero and be evenly spaced")

    @property
    def duration(self) -> float:
        """Seconds from begin to end."""
        return float(self.time[-1])

    @cached_property
    def spline(self) -> BSpline:
        """Positions as a spline of degree five in time, at rest at both ends."""
        still = [(1, np.zeros(len(self.joints))), (2, np.zeros(len(self.joints)))]
        return make_interp_spline(self.time, self.positions, k=5, bc_type=(still, still))


def _as_numbers(values: Any, what: str, name: str) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StanceError(f"the {what} of trajectory {name!r} are not numbers") from error
    if not np.all(np.isfinite(array)):
        raise StanceError(f"the {what} of trajectory {name!r} are not all finite")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Course:
    """A trajectory played with the soles on their stands: generalised coordinates at even times.

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
    """Checks that a trajectory is one for this robot.

    Raises:
        StanceError: It lacks a joint, has one too many, goes beyond a limit, or turns the soles against each other.
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
    for column, name in enumerate(trajectory.joints):
        joint, positions = model.joint(name), trajectory.positions[:, column]
        beyond = np.maximum(joint.lower - positions, positions - joint.upper)
        worst = int(np.argmax(beyond))
        if beyond[worst] > 1e-6:
            raise StanceError(
                f"the trajectory {trajectory.name!r} takes {name!r} to {positions[worst]:.3f} at "
                f"t = {trajectory.time[worst]:.2f} s; its limits are {joint.lower:.3f} and {joint.upper:.3f}",
                names=[name],
            )


def trace_course(footing: Footing, trajectory: Trajectory, rate: float, *, flat: float = 2e-3) -> Course:
    """Gives the course of a trajectory, sampled `rate` times a second, the base where the feet ask for it.

    Args:
        footing: The feet; the first stands exactly where it should.
        trajectory: The trajectory.
        rate: Samples a second.
        flat: How far (m) a corner of another sole may be from the ground.

    Raises:
        StanceError: See `check_trajectory`; also where a sole leaves the ground.
    """
    check_trajectory(footing, trajectory)
    columns = [trajectory.joints.index(joint) for joint in footing.model.joints]
    bases = _base_poses(footing, trajectory, columns, flat)
    still = [(1, np.zeros(7)), (2, np.zeros(7))]
    base = make_interp_spline(trajectory.time, bases, k=5, bc_type=(still, still))
    time = np.arange(round(trajectory.duration * rate) + 1) / rate
    inside = np.minimum(time, trajectory.duration)
    joints = [trajectory.spline(inside, order)[:, columns] for order in range(3)]
    pose, rate_of, change_of = (base(inside, order) for order in range(3))
    quaternion, turning, turning_change = _unit_quaternions(pose[:, 3:], rate_of[:, 3:], change_of[:, 3:])
    spin = 2.0 * _imaginary_product(quaternion, turning)
    # d/dt (q* q̇) = q* q̈ + |q̇|², and the last term is real: it has no part in the angular acceleration.
    spin_change = 2.0 * _imaginary_product(quaternion, turning_change)
    rotation = quaternion_rotations(quaternion)
    linear = np.einsum("nji,nj->ni", rotation, rate_of[:, :3])
    linear_change = np.einsum("nji,nj->ni", rotation, change_of[:, :3]) - cross(spin, linear)
    q = np.concatenate([pose[:, :3], quaternion, joints[0]], axis=1)
    v = np.concatenate([linear, spin, joints[1]], axis=1)
    a = np.concatenate([linear_change, spin_change, joints[2]], axis=1)
    return Course(time, q, v, a)


def _base_poses(footing: Footing, trajectory: Trajectory, columns: list[int], flat: float) -> FloatArray:
    """Gives the base's position and quaternion at the trajectory's times, shape (n, 7)."""
    built = footing.pinocchio
    data = footing.data
    q = np.array(footing.model.neutral)
    poses = np.empty((len(trajectory.time), 7))
    for row, positions in enumerate(trajectory.positions[:, columns]):
        q[7:] = positions
        pin.framesForwardKinematics(built, data, q)
        first = footing.feet[0]
        base = first.stand * data.oMf[first.frame].inverse()
        for foot in footing.feet[1:]:
            place = base * data.oMf[foot.frame]
            heights = foot.corners @ place.rotation[2] + place.translation[2]
            worst = float(np.max(np.abs(heights)))
            if worst > flat:
                raise StanceError(
                    f"the trajectory {trajectory.name!r} does not keep both soles flat: at "
                    f"t = {trajectory.time[row]:.2f} s the sole {foot.sole.name!r} is {1e3 * worst:.1f} mm off the "
                    f"ground of the sole {first.sole.name!r}",
                    names=[foot.sole.name],
                )
        poses[row] = pin.SE3ToXYZQUAT(base)
        if row and poses[row, 3:] @ poses[row - 1, 3:] < 0.0:
            poses[row, 3:] *= -1.0
    return poses


def _unit_quaternions(
    values: FloatArray, rates: FloatArray, changes: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gives the quaternions ``p / |p|`` with their first and second derivatives."""
    size = np.linalg.norm(values, axis=1, keepdims=True)
    along = np.sum(values * rates, axis=1, keepdims=True) / size
    size_change = (np.sum(values * changes + rates * rates, axis=1, keepdims=True) - along**2) / size
    unit = values / size
    first = (rates - unit * along) / size
    second = (changes - 2.0 * first * along - unit * size_change) / size
    return unit, first, second


def _imaginary_product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Gives the imaginary part of ``conj(first) second``, shape (n, 3)."""
    return np.asarray(first[:, 3:] * second[:, :3] - second[:, 3:] * first[:, :3] - cross(first[:, :3], second[:, :3]))
