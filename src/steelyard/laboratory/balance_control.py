"""A balance controller: what it plans, what it makes of its sensors, and what it tells the servos.

It knows a model of the robot, the servos and the task; of the robot itself it knows what its sensors say. Planning is
by inverse kinematics and inverse dynamics with its model. Feedback is that of a linear inverted pendulum, with the
divergent component of motion ``ξ = c + ċ / ω`` (docs/balance.md):

- S. Kajita et al., Biped walking stabilization based on linear inverted pendulum tracking, IROS 2010;
- S. Caron, A. Kheddar, O. Tempier, Stair climbing stabilization of the HRP-4 humanoid robot using whole-body admittance
  control, ICRA 2019: the law for ξ with an integral, and the admittance of the centre of mass;
- Y. Choi, D. Kim, Y. Oh, B.-J. You, Posture/walking control for humanoid robot based on kinematic resolution of CoM
  Jacobian with embedded motion, T-RO 2007: the centre of mass moved by the legs while the soles stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.exceptions import StanceError
from steelyard.motion import GRAVITY
from steelyard.stance import (
    Course,
    Trajectory,
    Wish,
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
"""Rate k (1/s) at which an error of the divergent component would vanish if its law were all there is."""

INTEGRAL_RATE = 1.5
"""Rate (1/s) at which a lasting error of the divergent component is taken out, as a share of the former's."""

ADMITTANCE = 1.0
"""Acceleration of the centre of mass for each metre of the zero-moment point's error, in ω²."""

OBSERVER_RATE = 2.0 * np.pi * 3.0
"""Natural frequency (rad/s) of the observer of the centre of mass and its velocity."""

ZMP_RATE = 2.0 * np.pi * 5.0
"""Rate (1/s) of the low pass on the measured zero-moment point's error: forces answer to a command at once, and a loop
around that without a lag of its own would rattle."""

INERTIAL_SHARE = 0.2
"""Share of the inertial sensor in the root's orientation; the rest is the legs'. By their variances: a sensor's
orientation wanders by 0.2°, that of two calibrated legs on flat soles is good to half of it."""

FARTHEST = 0.05
"""Distance (m) from its reference to which the law may send the zero-moment point."""

LEAST_LOAD = 0.3
"""Share of its weight that the soles must feel for feedback to act."""

_PROBE = 1e-3
"""Shift (m) of the centre of mass by which its effect on a posture is found."""


@dataclass(frozen=True, eq=False)
class Readings:
    """What sensors say at one instant.

    Attributes:
        positions: Of the joints, what is known of their offsets added, shape (n_joints,).
        rotation: From the inertial sensor's axes to the world's, shape (3, 3).
        soles: Of each foot fz, nx, ny at its sole's own frame, shape (n_feet, 3), N and N m.
    """

    positions: FloatArray
    rotation: FloatArray
    soles: FloatArray


@dataclass(frozen=True, eq=False)
class Command:
    """What servos are told: where to be, and at what speed to go on from there until they are told anew.

    Attributes:
        positions: Shape (n_joints,), rad or m.
        speeds: Shape (n_joints,), rad/s or m/s.
    """

    positions: FloatArray
    speeds: FloatArray


@dataclass(frozen=True, eq=False)
class Plan:
    """A task, worked out for a model.

    Attributes:
        course: Configurations, velocities and accelerations, `CONTROL_PERIOD` apart.
        shift: Change of the configuration for each metre by which the centre of mass is moved along x and y of the
            world, soles, root's height and tilt and upper joints kept, shape (n, velocity_size, 2).
        com: Centre of mass on the ground, its velocity and acceleration, shape (n, 3, 2).
        zmp: Zero-moment point of the course by the model, turning and all, shape (n, 2), m. Against that of the
            pendulum, feedback would take the arms' swing for a disturbance and fight it.
    """

    course: Course
    shift: FloatArray
    com: FloatArray
    zmp: FloatArray


def work_out(footing: Footing, task: BalanceTask) -> Plan:
    """Gives the whole-body motion that does a task as a model has it.

    Args:
        footing: The model that is believed, on its feet.
        task: The task.

    Raises:
        StanceError: The legs cannot put the centre of mass there.
    """
    times = task.knots
    postures, shifts = [], []
    guess = task.home
    for time in times.tolist():
        wish = task.wish(time)
        guess = _posture(footing, wish, guess, time)
        postures.append(guess[7:])
        shifts.append(_shift(footing, wish, guess, time))
    course = trace_course(
        footing, Trajectory("balance", times, footing.model.joints, np.array(postures)), 1.0 / CONTROL_PERIOD
    )
    inside = np.minimum(course.time, task.duration)
    flat = np.array(shifts).reshape(len(times), -1)
    between = np.stack([np.interp(inside, times, column) for column in flat.T], axis=1)
    com = np.stack([task.com(inside, order) for order in range(3)], axis=1)
    totals = [required_efforts(footing, q, v, a)[1] for q, v, a in zip(course.q, course.v, course.a, strict=True)]
    return Plan(course, between.reshape(len(inside), -1, 2), com, zero_moment_points(totals))


def _posture(footing: Footing, wish: Wish, guess: FloatArray, time: float) -> FloatArray:
    posture = solve_posture(footing, wish, guess)
    if not posture.fulfils:
        raise StanceError(
            f"{footing.model.name} cannot do the task as its model has it: at {time:.2f} s the legs cannot put the "
            "centre of mass where it should be; choose another seed"
        )
    return posture.q


def _shift(footing: Footing, wish: Wish, q: FloatArray, time: float) -> FloatArray:
    columns = []
    for step in _PROBE * np.eye(2):
        there, back = (
            _posture(footing, Wish(wish.upper, wish.com + sign * step, wish.height, wish.tilt), q, time)
            for sign in (1.0, -1.0)
        )
        columns.append(pin.difference(footing.pinocchio, back, there) / (2.0 * _PROBE))
    return np.stack(columns, axis=1)


class Controller:
    """Keeps a robot balanced while it does a task. It has a memory, and is for one run.

    Args:
        model: What is believed of the robot.
        servo: Its servos.
        task: What is to be done.

    Attributes:
        plan: The task, worked out for the model.
        com: The centre of mass on the ground that is believed, shape (2,), m.
    """

    def __init__(self, model: Model, servo: Servo, task: BalanceTask) -> None:
        self._footing = plant_feet(model)
        self._servo, self._task = servo, task
        self.plan = work_out(self._footing, task)
        built = self._footing.pinocchio
        imu = model.setup.imus[0]
        self._imu = built.getFrameId(imu.frame)
        self._weight = GRAVITY * model.total_mass
        # Centre of mass and velocity as they are believed, and by how much the commanded ones differ from the plan.
        self.com = np.array(self.plan.com[0, 0])
        self._velocity = np.zeros(2)
        self._moved = np.zeros((3, 2))
        self._zmp_away = np.zeros(2)
        self._integral = np.zeros(2)

    def tell(self, row: int, readings: Readings) -> Command:
        """Gives what the servos are told.

        Args:
            row: Place in the plan.
            readings: What the sensors say.
        """
        reference = self.plan.com[row]
        self._observe(readings, reference[2] + self._moved[2])
        zmp = self._zmp(readings.soles)
        if zmp is None:
            # In the air nothing that the legs do moves the zero-moment point.
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
        """Gives positions that lead by what the servos lose to torque, speed and rotors, by the model."""
        course, shift, servo = self.plan.course, self.plan.shift[row], self._servo
        q = pin.integrate(self._footing.pinocchio, course.q[row], shift @ self._moved[0])
        v = course.v[row] + shift @ self._moved[1]
        a = course.a[row] + shift @ self._moved[2]
        torques, _ = required_efforts(self._footing, q, v, a)
        lead = servo.damping * v[6:] + servo.armature * a[6:] + torques
        return Command(q[7:] + lead / servo.stiffness, v[6:])

    def _observe(self, readings: Readings, acceleration: FloatArray) -> None:
        """Takes a reading into what is believed of the centre of mass; the commanded acceleration spares it a lag."""
        error = self._centre(readings) - self.com
        self.com += CONTROL_PERIOD * (self._velocity + 1.6 * OBSERVER_RATE * error)
        self._velocity += CONTROL_PERIOD * (acceleration + OBSERVER_RATE**2 * error)

    def _centre(self, readings: Readings) -> FloatArray:
        """Gives the model's centre of mass above feet that stand, from encoders and inertial sensor, shape (2,)."""
        built, data = self._footing.pinocchio, self._footing.data
        q = np.concatenate([self._footing.model.neutral[:7], readings.positions])
        centre = pin.centerOfMass(built, data, q)
        pin.updateFramePlacements(built, data)
        root = data.oMi[1]
        feet = [root.actInv(data.oMf[foot.frame]) for foot in self._footing.feet]
        stands = [foot.stand for foot in self._footing.feet]
        by_legs = _mean_rotation([stand.rotation @ foot.rotation.T for stand, foot in zip(stands, feet, strict=True)])
        by_sensor = readings.rotation @ (root.rotation.T @ data.oMf[self._imu].rotation).T
        turn = by_legs @ pin.exp3(INERTIAL_SHARE * pin.log3(by_legs.T @ by_sensor))
        load = np.maximum(readings.soles[:, 0], 1.0)
        places = np.array(
            [stand.translation - turn @ foot.translation for stand, foot in zip(stands, feet, strict=True)]
        )
        place = load @ places / load.sum()
        return np.asarray((place + turn @ root.actInv(centre))[:2])

    def _zmp(self, soles: FloatArray) -> FloatArray | None:
        """Gives the zero-moment point of the readings under feet that stand, shape (2,); None where they hardly do."""
        total, moment = 0.0, np.zeros(2)
        for foot, (force, along, across) in zip(self._footing.feet, soles, strict=True):
            # Force times place, so that a foot without load has no part in it.
            turn, place = foot.stand.rotation[:2, :2], foot.stand.translation[:2]
            moment += force * place + turn @ np.array([-across, along])
            total += force
        return moment / total if total > LEAST_LOAD * self._weight else None


def _mean_rotation(turns: list[FloatArray]) -> FloatArray:
    """Gives the mean of rotations that are nearly alike."""
    away = np.mean([pin.log3(turns[0].T @ turn) for turn in turns], axis=0)
    return np.asarray(turns[0] @ pin.exp3(away))
