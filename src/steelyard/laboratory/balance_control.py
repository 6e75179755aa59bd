"""A balance controller: its plan, its state estimation, and its commands to the servos.

It has a model of the robot, the servos, the task, and the readings of the sensors. Planning is by inverse kinematics
and inverse dynamics with its model. Feedback is that of a linear inverted pendulum, with the divergent component of
motion ``ξ = c + ċ / ω`` (docs/balance.md):

- S. Kajita et al., Biped walking stabilization based on linear inverted pendulum tracking, IROS 2010;
- S. Caron, A. Kheddar, O. Tempier, Stair climbing stabilization of the HRP-4 humanoid robot using whole-body admittance
  control, ICRA 2019: the law for ξ with an integral, and the admittance of the centre of mass;
- Y. Choi, D. Kim, Y. Oh, B.-J. You, Posture/walking control for humanoid robot based on kinematic resolution of CoM
  Jacobian with embedded motion, T-RO 2007: the centre of mass moved by the legs while the soles stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import StanceError
from steelyard.motion import GRAVITY
from steelyard.stance import (
    Course,
    PostureTarget,
    Trajectory,
    plant_feet,
    required_efforts,
    solve_posture,
    trace_course,
    zero_moment_points,
)

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.laboratory.servo import Servo
    from steelyard.model import Model
    from steelyard.stance import BalanceTask, Footing

CONTROL_PERIOD = 5e-3
"""Seconds between two commands: 200 Hz, as on HRP-2 and HRP-4."""

DCM_RATE = 6.0
"""Feedback gain k (1/s): the rate at which an error of the divergent component decays in the ideal loop. Set by
judgement: a quarter of a second, slower than the servos."""

INTEGRAL_RATE = 1.5
"""Integral gain (1/s), relative to `DCM_RATE`. Set by judgement: a quarter of it, so that the loops do not interact."""

ADMITTANCE = 1.0
"""Admittance: acceleration of the centre of mass per zero-moment point error, in units of ω². Set by judgement: that of
the pendulum itself."""

OBSERVER_RATE = 2.0 * np.pi * 3.0
"""Natural frequency (rad/s) of the observer of the centre of mass and its velocity. Set by judgement: above the
feedback's rate, below the noise of the encoders."""

ZMP_RATE = 2.0 * np.pi * 5.0
"""Rate (1/s) of the low pass on the measured zero-moment point error. Set by judgement: contact forces respond to a
command within a step, and the admittance loop oscillates without a low pass."""

INERTIAL_SHARE = 0.2
"""Weight of the inertial sensor in the root's orientation; the rest is that of the legs. By their variances: a sensor's
orientation drifts by 0.2°, that of two calibrated legs on flat soles is good to half of it."""

FARTHEST = 0.05
"""Greatest distance (m) of the commanded zero-moment point from its reference. Set by judgement: within the soles."""

LEAST_LOAD = 0.3
"""Least share of its weight on the soles for feedback to act. Set by judgement: less is a robot in flight."""

_PROBE = 1e-3
"""Step (m) of the finite difference of a posture by its centre of mass. Set by judgement: inverse kinematics converges
to 1e-8."""


@dataclass(frozen=True, eq=False)
class FeedbackReadings:
    """Readings of the controller's sensors at one instant.

    Attributes:
        positions: Of the joints, known offsets added, shape (n_joints,), rad or m.
        rotation: From the inertial sensor's axes to the world's, shape (3, 3).
        soles: Of each foot fz, nx, ny at its sole's own frame, shape (n_feet, 3), N and N m.
    """

    positions: FloatArray
    rotation: FloatArray
    soles: FloatArray


@dataclass(frozen=True, eq=False)
class Command:
    """Servo commands: positions, and the speeds at which they move until the next command.

    Attributes:
        positions: Shape (n_joints,), rad or m.
        speeds: Shape (n_joints,), rad/s or m/s.
    """

    positions: FloatArray
    speeds: FloatArray


@dataclass(frozen=True, eq=False)
class Plan:
    """The whole-body motion of a task for a model.

    Attributes:
        course: Configurations, velocities and accelerations, `CONTROL_PERIOD` apart.
        shift: Derivative of the configuration by the centre of mass along x and y of the world, with soles, upper
            joints, and height and tilt of the root kept, shape (n, velocity_size, 2).
        com: Centre of mass on the ground, its velocity and acceleration, shape (n, 3, 2).
        zmp: Zero-moment point of the course by inverse dynamics, shape (n, 2), m. Against that of the pendulum,
            feedback would act on the angular momentum of the arms as on a disturbance.
    """

    course: Course
    shift: FloatArray
    com: FloatArray
    zmp: FloatArray


_PLANS: BoundedCache[Plan] = BoundedCache(8)
"""Plans by model and task; they take a third of the time of a run. Set by judgement: more than are compared at once."""


def plan_whole_body(footing: Footing, task: BalanceTask) -> Plan:
    """Plan the whole-body motion of a task for a model.

    Args:
        footing: The controller's model on its feet.
        task: The task.

    Raises:
        StanceError: The legs cannot reach the centre of mass of the task.
    """
    times = task.knots
    postures, shifts = [], []
    guess = task.home
    for time in times.tolist():
        target = task.target(time)
        guess = _posture(footing, target, guess, time)
        postures.append(guess[7:])
        shifts.append(_shift(footing, target, guess, time))
    course = trace_course(
        footing, Trajectory("balance", times, footing.model.joints, np.array(postures)), 1.0 / CONTROL_PERIOD
    )
    inside = np.minimum(course.time, task.duration)
    flat = np.array(shifts).reshape(len(times), -1)
    between = np.stack([np.interp(inside, times, column) for column in flat.T], axis=1)
    com = np.stack([task.com(inside, order) for order in range(3)], axis=1)
    totals = [required_efforts(footing, q, v, a)[1] for q, v, a in zip(course.q, course.v, course.a, strict=True)]
    return Plan(course, between.reshape(len(inside), -1, 2), com, zero_moment_points(totals))


def _posture(footing: Footing, target: PostureTarget, guess: FloatArray, time: float) -> FloatArray:
    posture = solve_posture(footing, target, guess)
    if not posture.meets_target:
        raise StanceError(
            f"the task is not feasible for the model of {footing.model.name}: at {time:.2f} s the legs cannot move the "
            "centre of mass to its reference; choose another seed"
        )
    return posture.q


def _shift(footing: Footing, target: PostureTarget, q: FloatArray, time: float) -> FloatArray:
    columns = []
    for step in _PROBE * np.eye(2):
        there, back = (
            _posture(footing, replace(target, com=target.com + sign * step), q, time) for sign in (1.0, -1.0)
        )
        columns.append(pin.difference(footing.pinocchio, back, there) / (2.0 * _PROBE))
    return np.stack(columns, axis=1)


class Controller:
    """A balance controller with its state; one for each run.

    Args:
        model: Its model of the robot.
        servo: The servos.
        task: The task.

    Attributes:
        plan: The whole-body motion of the task.
        com: Estimated centre of mass on the ground, shape (2,), m.
    """

    def __init__(self, model: Model, servo: Servo, task: BalanceTask) -> None:
        self._footing = plant_feet(model)
        self._servo, self._task = servo, task
        self.plan = _PLANS.get((model, task), lambda: plan_whole_body(self._footing, task))
        built = self._footing.pinocchio
        imu = model.setup.imus[0]
        self._imu = built.getFrameId(imu.frame)
        self._weight = GRAVITY * model.total_mass
        self._moment_arms = np.array([_moment_arms(foot.stand) for foot in self._footing.feet])
        # Estimated centre of mass and velocity, and the difference of the commanded ones from the plan.
        self.com = np.array(self.plan.com[0, 0])
        self._velocity = np.zeros(2)
        self._moved = np.zeros((3, 2))
        self._zmp_away = np.zeros(2)
        self._integral = np.zeros(2)

    def update(self, row: int, readings: FeedbackReadings) -> Command:
        """Update the state from the readings, and return the commands to the servos.

        Args:
            row: Row of the plan.
            readings: Readings of the sensors.
        """
        reference = self.plan.com[row]
        self._observe(readings, reference[2] + self._moved[2])
        zmp = self._zmp(readings.soles)
        if zmp is None:
            # Without contact the legs have no effect on the zero-moment point.
            return self._command(row)
        omega = self._task.frequency
        error = self.com + self._velocity / omega - (reference[0] + reference[1] / omega)
        self._integral += CONTROL_PERIOD * INTEGRAL_RATE * error
        wanted = (1.0 + DCM_RATE / omega) * error + DCM_RATE / omega * self._integral
        length = float(np.linalg.norm(wanted))
        if length > FARTHEST:
            self._integral -= CONTROL_PERIOD * INTEGRAL_RATE * error
            wanted *= FARTHEST / length
        away = zmp - self.plan.zmp[row]
        self._zmp_away += (1.0 - np.exp(-CONTROL_PERIOD * ZMP_RATE)) * (away - self._zmp_away)
        self._moved[2] = ADMITTANCE * omega**2 * (self._zmp_away - wanted)
        self._moved[1] += CONTROL_PERIOD * self._moved[2]
        self._moved[0] += CONTROL_PERIOD * self._moved[1]
        return self._command(row)

    def _command(self, row: int) -> Command:
        """Return positions with feedforward for torque, damping and rotors, by the model."""
        course, shift, servo = self.plan.course, self.plan.shift[row], self._servo
        q = pin.integrate(self._footing.pinocchio, course.q[row], shift @ self._moved[0])
        v = course.v[row] + shift @ self._moved[1]
        a = course.a[row] + shift @ self._moved[2]
        torques, _ = required_efforts(self._footing, q, v, a)
        lead = servo.damping * v[6:] + servo.armature * a[6:] + torques
        return Command(q[7:] + lead / servo.stiffness, v[6:])

    def _observe(self, readings: FeedbackReadings, acceleration: FloatArray) -> None:
        """Update the observer of the centre of mass, with the commanded acceleration as feedforward."""
        error = self._centre(readings) - self.com
        self.com += CONTROL_PERIOD * (self._velocity + 1.6 * OBSERVER_RATE * error)
        self._velocity += CONTROL_PERIOD * (acceleration + OBSERVER_RATE**2 * error)

    def _centre(self, readings: FeedbackReadings) -> FloatArray:
        """Return the model's centre of mass above standing feet, from encoders and inertial sensor, shape (2,)."""
        built, data = self._footing.pinocchio, self._footing.data
        q = np.concatenate([self._footing.model.neutral[:7], readings.positions])
        centre = pin.centerOfMass(built, data, q)
        root = data.oMi[1]
        feet = [root.actInv(pin.updateFramePlacement(built, data, foot.frame)) for foot in self._footing.feet]
        stands = [foot.stand for foot in self._footing.feet]
        by_legs = _mean_rotation([stand.rotation @ foot.rotation.T for stand, foot in zip(stands, feet, strict=True)])
        imu = pin.updateFramePlacement(built, data, self._imu)
        by_sensor = readings.rotation @ (root.rotation.T @ imu.rotation).T
        turn = by_legs @ pin.exp3(INERTIAL_SHARE * pin.log3(by_legs.T @ by_sensor))
        load = np.maximum(readings.soles[:, 0], 1.0)
        roots = np.array(
            [stand.translation - turn @ foot.translation for stand, foot in zip(stands, feet, strict=True)]
        )
        return np.asarray((load @ roots / load.sum() + turn @ root.actInv(centre))[:2])

    def _zmp(self, soles: FloatArray) -> FloatArray | None:
        """Return the measured zero-moment point, shape (2,); None below `LEAST_LOAD`."""
        # Weighted by force, so that a foot without load does not contribute.
        moment = np.einsum("fij,fj->i", self._moment_arms, soles)
        total = float(soles[:, 0].sum())
        return moment / total if total > LEAST_LOAD * self._weight else None


def _moment_arms(stand: pin.SE3) -> FloatArray:
    """Return what a sole's fz, nx, ny add to the zero-moment point times the total force, shape (2, 3)."""
    rotation = stand.rotation[:2, :2]
    return np.column_stack([stand.translation[:2], rotation[:, 1], -rotation[:, 0]])


def _mean_rotation(turns: list[FloatArray]) -> FloatArray:
    """Return the mean of nearly equal rotations."""
    away = np.mean([pin.log3(turns[0].T @ turn) for turn in turns], axis=0)
    return np.asarray(turns[0] @ pin.exp3(away))
