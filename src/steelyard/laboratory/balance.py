"""The payoff: the same balance controller on the same true robot, with one model or another to believe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import pinocchio as pin

from steelyard.exceptions import LaboratoryError
from steelyard.laboratory.balance_control import CONTROL_PERIOD, Controller
from steelyard.laboratory.balance_senses import Senses
from steelyard.laboratory.events import FALL_DROP, FALL_TILT, find_events
from steelyard.laboratory.hose import Hose
from steelyard.laboratory.physics import collect_states
from steelyard.laboratory.servo import tune_servo
from steelyard.laboratory.world import TIME_STEP, build_world
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
"""Seconds for which the robot stands under control before the task begins; they are not recorded."""

_STEPS = round(CONTROL_PERIOD / TIME_STEP)


@dataclass(frozen=True, eq=False)
class TrackingError:
    """How far something was from where it should have been, on the ground.

    Attributes:
        rms: Root mean square distance, m.
        greatest: Greatest distance, m.
        mean: Mean of the error along x and y of the world, shape (2,), m: the part that lasts.
        moving: Root mean square distance from that mean, m: ``rms² = |mean|² + moving²``.
    """

    rms: float
    greatest: float
    mean: FloatArray
    moving: float

    def to_dict(self) -> dict[str, Any]:
        """Gives the numbers in millimetres."""
        return {
            "rms_mm": 1e3 * self.rms,
            "greatest_mm": 1e3 * self.greatest,
            "mean_mm": (1e3 * self.mean).tolist(),
            "moving_mm": 1e3 * self.moving,
        }


def tracking_error(actual: FloatArray, reference: FloatArray) -> TrackingError:
    """Gives how far points were from where they should have been, shape (n, 2) each."""
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
    """What became of a balance task on a true robot.

    Attributes:
        time: `CONTROL_PERIOD` apart, shape (n,), s, from the beginning of the task; shorter than it where the robot
            fell, and from when it was let go where it did not even stand until then.
        com: True centre of mass on the ground, shape (n, 2), m.
        com_reference: Where it should have been, shape (n, 2), m.
        zmp: True zero-moment point, of the floor's forces, shape (n, 2), m.
        zmp_reference: Where it should have been, by the pendulum, shape (n, 2), m.
        com_believed: Where the controller took the centre of mass to be, shape (n, 2), m.
        support: Corners of the support polygon, counter-clockwise, shape (k, 2), m.
        events: What went wrong, in order of time.
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
        """How far the true centre of mass was from its reference.

        Raises:
            LaboratoryError: The robot fell.
        """
        self._check_standing()
        return tracking_error(self.com, self.com_reference)

    @cached_property
    def zmp_error(self) -> TrackingError:
        """How far the true zero-moment point was from its reference.

        Raises:
            LaboratoryError: The robot fell.
        """
        self._check_standing()
        return tracking_error(self.zmp, self.zmp_reference)

    def _check_standing(self) -> None:
        if self.fall is not None:
            raise LaboratoryError(
                f"the robot fell at {self.fall.start:.2f} s ({self.fall.detail}): what it did until then is no "
                "tracking; choose another task or model, or see run.events"
            )

    def to_dict(self) -> dict[str, Any]:
        """Gives the errors as plain numbers; None where the robot fell."""
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
    """Lets a balance controller that believes a model do a task on the true robot of a trial.

    The task is stated in the world and drawn by `seed`, the same for every model: a path of the true robot's centre of
    mass, with the pendulum's zero-moment point that belongs to it. Noise, gains and servos are the same too. The model
    decides what the controller makes of them: postures, torques, and where it takes the centre of mass to be.

    Args:
        trial: Its true robot with its sensors (see `Trial.with_noise` for others), whatever it did in the trial.
        model: What the controller believes of the robot.
        seed: Of the task and of the noise.
        duration: Seconds.
        offsets: Of the encoders, as calibration found them: what the controller adds to their readings, rad or m by
            joint; none by default.
        hose: A force at the root link that no sensor feels.

    Raises:
        LaboratoryError: An argument makes no sense, or the robot lacks a sensor that the controller needs.
        MotionError: An offset is of a joint that is not there.
        StanceError: The task cannot be done as the model has it.
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
    senses = Senses(world, truth, trial.sensors, known, as_seed(seed), len(rows))
    times = TIME_STEP * np.arange(_STEPS * len(rows), dtype=np.float64)
    pull = (hose or Hose()).pull(times, np.random.default_rng([as_seed(seed), 6]))
    states, believed = _play(world, controller, senses, rows, pull)
    return _judge(states, task, controller, believed, servo, standing.footing, settling)


def _check_robot(robot: Model, model: Model) -> None:
    if model.joints != robot.joints or model.links != robot.links:
        raise LaboratoryError(
            f"the controller believes in {model.name}, which has other links or joints than the robot, {robot.name}; "
            "give a model of the same robot"
        )
    if not robot.setup.imus:
        raise LaboratoryError(f"{robot.name} has no inertial sensor to balance by; add an [[imu]] to its setup file")


def _play(
    world: World, controller: Controller, senses: Senses, rows: np.ndarray, pull: FloatArray
) -> tuple[States, FloatArray]:
    """Lets the robot move under control until it is done or lies; gives its states, and what was believed of it."""
    compiled, course = world.compiled, controller.plan.course
    data = mujoco.MjData(compiled)
    start = course.q[0]
    data.qpos[:3], data.qpos[3:7] = start[:3], start[[6, 3, 4, 5]]
    data.qpos[world.q_columns] = start[7:] + senses.remaining
    mujoco.mj_forward(compiled, data)
    steps, size = _STEPS * len(rows), compiled.nq + compiled.nv
    states, forces = np.empty((steps + 1, size)), np.empty((steps + 1, compiled.nsensordata))
    commands, believed = np.empty((steps, len(start) - 7)), np.empty((len(rows), 2))
    states[0, : compiled.nq], states[0, compiled.nq :], forces[0] = data.qpos, data.qvel, data.sensordata
    done = 0
    for number, row in enumerate(rows.tolist()):
        told = controller.tell(row, senses.read(number, done, states, forces))
        believed[number] = controller.com
        for step in range(_STEPS):
            commands[done] = told.positions + senses.remaining + step * TIME_STEP * told.speeds
            # The first three generalised forces of a free body are a force at its origin, in world axes.
            data.ctrl[:], data.qfrc_applied[:3] = commands[done], pull[done]
            mujoco.mj_step(compiled, data)
            # Sensor values belong to the state before a step.
            forces[done] = data.sensordata
            done += 1
            states[done, : compiled.nq], states[done, compiled.nq :] = data.qpos, data.qvel
        if _lies(states[done], course.q[row]):
            break
    return collect_states(world, states[: done + 1], forces[:done], commands[:done]), believed[: done // _STEPS]


def _lies(state: FloatArray, planned: FloatArray) -> bool:
    """Tells whether a robot lies on the floor, or its physics blew up."""
    if not np.all(np.isfinite(state)):
        return True
    tilt = pin.log3(pin.Quaternion(state[3], state[4], state[5], state[6]).normalized().matrix())
    return bool(np.linalg.norm(tilt) > 2.0 * FALL_TILT or abs(1.0 - state[2] / planned[2]) > FALL_DROP)


def _judge(
    states: States,
    task: BalanceTask,
    controller: Controller,
    believed: FloatArray,
    servo: Servo,
    footing: Footing,
    settling: int,
) -> BalanceRun:
    """Holds what happened after the robot had settled against what was asked for."""
    plan, count = controller.plan, len(believed) - settling
    # Of a robot that did not stand until the task began, all is kept, so that it can be told when it fell.
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
