"""Balance runs: the same controller on the same true robot, with one model or another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pinocchio as pin

from steelyard.exceptions import LaboratoryError
from steelyard.laboratory.balance_control import CONTROL_PERIOD, Controller
from steelyard.laboratory.events import FALL_DROP, FALL_TILT, find_events
from steelyard.laboratory.feedback_sensors import FeedbackSensors
from steelyard.laboratory.hose import Hose
from steelyard.laboratory.physics import collect_states
from steelyard.laboratory.servo import tune_servo
from steelyard.laboratory.world import TIME_STEP, build_world, set_configuration
from steelyard.motion import check_offsets
from steelyard.stance import BALANCE_DURATION, Course, as_seed, plan_balance, plant_feet, stand_up, zero_moment_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.laboratory.events import Event
    from steelyard.laboratory.physics import States
    from steelyard.laboratory.servo import Servo
    from steelyard.laboratory.trial import Trial
    from steelyard.laboratory.world import World
    from steelyard.model import Model
    from steelyard.stance import BalanceTask, Footing

SETTLING = 3.0
"""Seconds under control before the task begins, not recorded. Set by judgement: several time constants of the
feedback."""

_STEPS = round(CONTROL_PERIOD / TIME_STEP)


@dataclass(frozen=True, eq=False)
class TrackingError:
    """A tracking error on the ground.

    Attributes:
        rms: Root mean square distance, m.
        greatest: Greatest distance, m.
        mean: Mean error along x and y of the world, shape (2,), m: the constant part.
        moving: Root mean square distance from that mean, m: ``rms² = |mean|² + moving²``.
    """

    rms: float
    greatest: float
    mean: FloatArray
    moving: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers in millimetres."""
        return {
            "rms_mm": 1e3 * self.rms,
            "greatest_mm": 1e3 * self.greatest,
            "mean_mm": (1e3 * self.mean).tolist(),
            "moving_mm": 1e3 * self.moving,
        }


def tracking_error(actual: FloatArray, reference: FloatArray) -> TrackingError:
    """Return the error of points against their reference, shape (n, 2) each."""
    error = actual - reference
    distance = np.linalg.norm(error, axis=1)
    mean = error.mean(axis=0)
    return TrackingError(
        float(np.sqrt(np.mean(distance**2))),
        float(distance.max()),
        mean,
        float(np.sqrt(np.mean(np.sum((error - mean) ** 2, axis=1)))),
    )


@dataclass(frozen=True, eq=False)
class BalanceRun:
    """The result of a balance task on a true robot.

    Attributes:
        time: `CONTROL_PERIOD` apart, shape (n,), s, from the beginning of the task; shorter than it where the robot
            fell, and from its release where it fell before the task began.
        com: True centre of mass on the ground, shape (n, 2), m.
        com_reference: Its reference, shape (n, 2), m.
        zmp: True zero-moment point, of the floor's forces, shape (n, 2), m.
        zmp_reference: Its reference, that of the pendulum, shape (n, 2), m.
        com_believed: The controller's estimate of the centre of mass, shape (n, 2), m.
        support: Vertices of the support polygon, counter-clockwise, shape (k, 2), m.
        events: Falls, slips and limits reached, in order of time.
    """

    time: FloatArray
    com: FloatArray
    com_reference: FloatArray
    zmp: FloatArray
    zmp_reference: FloatArray
    com_believed: FloatArray
    support: FloatArray
    events: tuple[Event, ...]

    @property
    def fall(self) -> Event | None:
        """The fall, if the robot fell."""
        return next((event for event in self.events if event.kind == "fall"), None)

    @cached_property
    def com_error(self) -> TrackingError:
        """Error of the true centre of mass.

        Raises:
            LaboratoryError: The robot fell.
        """
        self._check_standing()
        return tracking_error(self.com, self.com_reference)

    @cached_property
    def zmp_error(self) -> TrackingError:
        """Error of the true zero-moment point.

        Raises:
            LaboratoryError: The robot fell.
        """
        self._check_standing()
        return tracking_error(self.zmp, self.zmp_reference)

    def _check_standing(self) -> None:
        if self.fall is not None:
            raise LaboratoryError(
                f"the robot fell at {self.fall.start:.2f} s ({self.fall.detail}): there is no "
                "tracking error; choose another task or model, or see run.events"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as plain numbers; None where the robot fell."""
        fell = self.fall is not None
        return {
            "fell_at": None if self.fall is None else self.fall.start,
            "com": None if fell else self.com_error.to_dict(),
            "zmp": None if fell else self.zmp_error.to_dict(),
            "events": [str(event) for event in self.events],
        }

    def __repr__(self) -> str:
        if self.fall is not None:
            return f"<BalanceRun: fell at {self.fall.start:.2f} s>"
        return (
            f"<BalanceRun: {self.time[-1]:g} s, centre of mass {1e3 * self.com_error.rms:.1f} mm and zero-moment point "
            f"{1e3 * self.zmp_error.rms:.1f} mm rms off>"
        )


def simulate_balance(
    trial: Trial,
    model: Model,
    *,
    seed: int = 0,
    duration: float = BALANCE_DURATION,
    offsets: Mapping[str, float] | None = None,
    hose: Hose | None = None,
) -> BalanceRun:
    """Simulate a balance task on the true robot of a trial, with a controller that uses a model.

    The task is drawn by `seed` and the same for every model: a path of the true robot's centre of mass in the world,
    with the zero-moment point of the linear inverted pendulum. Noise, gains and servos are the same too. The model
    determines the controller's postures, torques and estimate of the centre of mass.

    Args:
        trial: A trial of the true robot, with its sensors (see `Trial.with_noise` for others).
        model: The controller's model of the robot.
        seed: Seed of the task and of the noise.
        duration: Seconds.
        offsets: Encoder offsets found by calibration, which the controller adds to the readings, rad or m by joint;
            none by default.
        hose: A force at the root link that no sensor measures.

    Raises:
        LaboratoryError: An argument is not valid, or the robot lacks a sensor that the controller needs.
        MotionError: An offset is of an unknown joint.
        StanceError: The task is not feasible for the model.
    """
    truth = trial.truth
    _check_robot(truth.model, model)
    known = dict(offsets or {})
    check_offsets(truth.model, known)
    if hose is not None and not isinstance(hose, Hose):
        raise LaboratoryError(f"the hose is {hose!r}; give a Hose")
    reference = truth.footing.model
    task = plan_balance(reference, seed=seed, duration=duration)
    standing = stand_up(reference)
    servo = tune_servo(standing.footing, standing.home)
    controller = Controller(model, servo, task)
    world = build_world(standing.footing, truth.model, servo, standing.feasibility.clearances)
    settling = round(SETTLING / CONTROL_PERIOD)
    rows = np.maximum(np.arange(settling + len(controller.plan.zmp)) - settling, 0)
    sensors = FeedbackSensors(world, truth, trial.sensors, known, as_seed(seed), len(rows))
    times = TIME_STEP * np.arange(_STEPS * len(rows), dtype=np.float64)
    pull = (hose or Hose()).pull(times, np.random.default_rng([as_seed(seed), 6]))
    states, believed = _play(world, controller, sensors, rows, pull)
    return _judge(states, task, controller, believed, servo, standing.footing, settling)


def _check_robot(robot: Model, model: Model) -> None:
    if model.joints != robot.joints or model.links != robot.links:
        raise LaboratoryError(
            f"the controller's model, {model.name}, has other links or joints than the robot, {robot.name}; give a "
            "model of the same robot"
        )
    if not robot.setup.imus:
        raise LaboratoryError(f"{robot.name} has no inertial sensor for balance; add an [[imu]] to its setup file")


def _play(
    world: World, controller: Controller, sensors: FeedbackSensors, rows: np.ndarray, pull: FloatArray
) -> tuple[States, FloatArray]:
    """Simulate the robot under control until the task ends or it falls; return its states and the estimated CoM."""
    compiled, course = world.compiled, controller.plan.course
    data = mujoco.MjData(compiled)
    start = course.q[0]
    set_configuration(data, world.q_columns, np.concatenate([start[:7], start[7:] + sensors.remaining]))
    mujoco.mj_forward(compiled, data)
    steps, size = _STEPS * len(rows), compiled.nq + compiled.nv
    states, forces = np.empty((steps + 1, size)), np.empty((steps + 1, compiled.nsensordata))
    commands, believed = np.empty((steps, len(start) - 7)), np.empty((len(rows), 2))
    # Views of MuJoCo's memory, taken once rather than at each of many thousand steps.
    qpos, qvel, sensed, ctrl, applied = data.qpos, data.qvel, data.sensordata, data.ctrl, data.qfrc_applied
    states[0, : compiled.nq], states[0, compiled.nq :], forces[0] = qpos, qvel, sensed
    within = TIME_STEP * np.arange(_STEPS)[:, None]
    done = 0
    for number, row in enumerate(rows.tolist()):
        command = controller.update(row, sensors.read(number, done, states, forces))
        believed[number] = controller.com
        commands[done : done + _STEPS] = command.positions + sensors.remaining + within * command.speeds
        for _ in range(_STEPS):
            # The first three generalised forces of a free body are a force at its origin, in world axes.
            ctrl[:], applied[:3] = commands[done], pull[done]
            mujoco.mj_step(compiled, data)
            # Sensor values belong to the state before a step.
            forces[done] = sensed
            done += 1
            states[done, : compiled.nq], states[done, compiled.nq :] = qpos, qvel
        if _has_fallen(states[done], course.q[row]):
            break
    return collect_states(world, states[: done + 1], forces[:done], commands[:done]), believed[: done // _STEPS]


def _has_fallen(state: FloatArray, planned: FloatArray) -> bool:
    """Return whether a robot lies on the floor, or its simulation diverged."""
    if not np.all(np.isfinite(state)):
        return True
    height, w, x, y, z = state[2:7].tolist()
    tilt = 2.0 * math.atan2(math.hypot(x, y, z), abs(w))
    return tilt > 2.0 * FALL_TILT or abs(1.0 - height / planned[2]) > FALL_DROP


def _judge(
    states: States,
    task: BalanceTask,
    controller: Controller,
    believed: FloatArray,
    servo: Servo,
    footing: Footing,
    settling: int,
) -> BalanceRun:
    """Compare what happened after settling with the references."""
    plan, count = controller.plan, len(believed) - settling
    # Of a robot that fell before the task began all samples are kept, so that the fall is found.
    begin, rows = (_STEPS * settling, np.arange(count)) if count > 0 else (0, np.zeros(len(believed), dtype=np.int64))
    kept = replace(
        states,
        time=TIME_STEP * np.arange(len(states.time) - begin, dtype=np.float64),
        **{name: getattr(states, name)[begin:] for name in ("q", "v", "a", "feet", "self_contacts", "commands")},
    )
    held = np.repeat(rows, _STEPS)
    course = Course(kept.time, *(getattr(plan.course, name)[held] for name in ("q", "v", "a")))
    with np.errstate(invalid="ignore"):
        zmp = zero_moment_points(kept.feet[::_STEPS].sum(axis=1))
    return BalanceRun(
        kept.time[::_STEPS],
        _true_com(states.model, kept.q[::_STEPS]),
        plan.com[rows, 0],
        zmp,
        task.zmp(np.minimum(plan.course.time[rows], task.duration)),
        believed[-len(rows) :],
        footing.support_polygon,
        find_events(kept, footing, course, servo),
    )


def _true_com(model: Model, q: FloatArray) -> FloatArray:
    built = plant_feet(model).pinocchio
    data = built.createData()
    return np.array([pin.centerOfMass(built, data, row)[:2] for row in q])
