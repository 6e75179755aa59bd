"""A trial in the virtual laboratory: a true robot, what it did, and what its sensors said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import LaboratoryError
from steelyard.laboratory.events import Event, find_events
from steelyard.laboratory.hose import Hose
from steelyard.laboratory.measuring import draw_biases, measure
from steelyard.laboratory.physics import States, play
from steelyard.laboratory.sensors import Sensors, choose_sensors
from steelyard.laboratory.servo import servo_commands, tune_servo
from steelyard.laboratory.signals import Signals, link_torques, sense
from steelyard.laboratory.true_robot import GREATEST_SPREAD, Payload, add_payloads, draw_offsets, draw_parameters
from steelyard.laboratory.world import TIME_STEP, build_world
from steelyard.model import Model, project_to_interior
from steelyard.stance import Trajectory, as_seed, plan_motion, stand_up, trace_course

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.motion import Motion
    from steelyard.recording import Recording
    from steelyard.stance import Footing

_TORQUES_EVERY = 20
"""Physics steps between two computations of the torques that a course asks for."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What nobody knows outside the laboratory.

    Attributes:
        model: The true robot, payloads and all.
        offsets: Of the encoders, by joint: what must be added to a reading to get the true position, rad or m.
        biases: Constant errors of the other sensors, by column; mountings as ``<imu>.mounting.x``, rad.
        armature: Rotor inertia by joint, kg m² or kg.
        states: What really happened: clean states with accelerations of the same instant, and the floor's forces.
        footing: The feet.
    """

    model: Model
    offsets: Mapping[str, float]
    biases: Mapping[str, float]
    armature: Mapping[str, float]
    states: States
    footing: Footing

    @property
    def parameters(self) -> FloatArray:
        """The true ten parameters of each link, shape (n_links, 10)."""
        return self.model.parameters

    @property
    def masses(self) -> dict[str, float]:
        """The true mass of each link, kg, by name."""
        return self.model.masses

    @property
    def motion(self) -> Motion:
        """The true motion at the root, `TIME_STEP` apart."""
        return self.states.motion

    @cached_property
    def ground_wrench(self) -> FloatArray:
        """The floor's total wrench on the robot, about the root's origin in the root's axes, shape (n, 6)."""
        return np.asarray(self.states.feet_in_root.sum(axis=1))

    @cached_property
    def torques(self) -> FloatArray:
        """The torque that each joint passes on to its link, shape (n, n_joints), N m or N."""
        return link_torques(self.states, self.footing)


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial.

    Attributes:
        truth: What nobody knows outside.
        trajectory: What was to be done.
        events: What went wrong, in order of time.
        sensors: The errors of the sensors.
        seed: Of the true robot and its sensors' biases.
        noise_seed: Of the sensors' noise.
        planned: Planned joint positions at the times of the states, shape (n, n_joints).
    """

    truth: Truth
    trajectory: Trajectory
    events: tuple[Event, ...]
    sensors: Sensors
    seed: int
    noise_seed: int
    planned: FloatArray

    @property
    def fell(self) -> bool:
        """Whether the robot fell."""
        return any(event.kind == "fall" for event in self.events)

    @cached_property
    def signals(self) -> Signals:
        """What perfect sensors read.

        Raises:
            LaboratoryError: The robot fell.
        """
        for event in self.events:
            if event.kind == "fall":
                raise LaboratoryError(
                    f"the robot fell at {event.start:.2f} s ({event.detail}): its data are no recording of "
                    f"{self.trajectory.name!r}; choose another motion, seed or payload, or see trial.events"
                )
        return sense(self.truth.states, self.truth.footing, self.planned)

    @cached_property
    def recording(self) -> Recording:
        """What the sensors said.

        Raises:
            LaboratoryError: The robot fell.
        """
        return measure(
            self.truth.model,
            self.signals,
            self.sensors,
            offsets=self.truth.offsets,
            biases=self.truth.biases,
            seed=self.noise_seed,
            name=f"{self.truth.model.name} {self.trajectory.name}",
        )

    def with_noise(self, seed: int, *, noise: Any = ...) -> Trial:
        """Measures the same motion of the same robot again.

        Args:
            seed: Of the noise.
            noise: Other sensors; see `simulate`. Without it, the same.
        """
        sensors = self.sensors if noise is ... else choose_sensors(noise)
        biases = draw_biases(self.truth.model, sensors, self.seed)
        again = replace(self, sensors=sensors, noise_seed=as_seed(seed), truth=replace(self.truth, biases=biases))
        # The physics is the same, and so is what perfect sensors make of it.
        if not self.fell:
            again.__dict__["signals"] = self.signals
        return again

    def __repr__(self) -> str:
        troubles = f"{len(self.events)} events" if self.events else "no events"
        return f"<Trial of {self.truth.model.name}, {self.trajectory.name}: {self.trajectory.duration:g} s, {troubles}>"


def simulate(
    model: Model,
    motion: str | Trajectory,
    *,
    seed: int = 0,
    noise: Any = "default",
    spread: float = 0.2,
    payloads: Mapping[str, float | Payload] | None = None,
    offsets: Any = None,
    hose: Hose | None = None,
    duration: float | None = None,
) -> Trial:
    """Plays a motion on a virtual robot that is not quite what its model says.

    Args:
        model: The reference, with soles in its setup.
        motion: A name from the library (`steelyard.laboratory.motions.MOTIONS`), or a trajectory.
        seed: Of the true robot, of the motion where it has a name, and of the noise; each has its own stream.
        noise: "default" for sensors as their data sheets say; None for perfect ones; or `Sensors`.
        spread: Standard deviation of the relative change of each link's mass, extents and place of its centre of mass.
        payloads: Kilograms, or `Payload`, by link or frame.
        offsets: Of the encoders: what must be added to their readings to get true positions, rad by joint; or one
            number, the greatest, to draw them up to. The servos are told so that the true joints follow the plan: the
            soles are flat although the encoders are off.
        hose: A force at the root link that no sensor feels.
        duration: Seconds, for a motion from the library.

    Returns:
        The trial. Where the robot fell, its recording raises; `Trial.events` says when and how.

    Raises:
        LaboratoryError: An argument makes no sense.
        StanceError: The model cannot stand, or the trajectory is none for it.
    """
    if not isinstance(model, Model):
        raise LaboratoryError(f"the model is {model!r}; load it first, with load_model")
    _check_ground_sensors(model)
    reference = _REFERENCES.get(model, lambda: model.with_parameters(project_to_interior(model.parameters)))
    chosen = choose_sensors(noise)
    root = as_seed(seed)
    if not is_finite_number(spread) or not 0.0 <= spread <= GREATEST_SPREAD:
        raise LaboratoryError(f"the spread is {spread!r}; give a share from 0 to {GREATEST_SPREAD}")
    bare = draw_parameters(reference, float(spread), np.random.default_rng([root, 0]))
    true = reference.with_parameters(add_payloads(reference, bare, payloads))
    encoders = draw_offsets(reference, offsets, np.random.default_rng([root, 1]))
    standing = stand_up(reference)
    trajectory = _trajectory(reference, motion, root, duration)
    footing = standing.footing
    course = trace_course(footing, trajectory, 1.0 / TIME_STEP)
    servo = tune_servo(footing, standing.home)
    commands = servo_commands(footing, servo, course, _TORQUES_EVERY)
    world = build_world(footing, true, servo, standing.feasibility.clearances)
    if hose is not None and not isinstance(hose, Hose):
        raise LaboratoryError(f"the hose is {hose!r}; give a Hose")
    times = TIME_STEP * np.arange(len(commands), dtype=np.float64)
    pull = None if hose is None else hose.pull(times, np.random.default_rng([root, 2]))
    states = play(world, course.q[0], commands, pull)
    truth = Truth(
        true,
        encoders,
        draw_biases(true, chosen, root),
        dict(zip(true.joints, servo.armature.tolist(), strict=True)),
        states,
        footing,
    )
    events = find_events(states, footing, course, servo)
    return Trial(truth, trajectory, events, chosen, root, root, course.q[:, 7:])


def _check_ground_sensors(model: Model) -> None:
    """Refuses a sensor under a foot that no sole names: it would read nothing for ever."""
    named = {sole.wrench for sole in model.setup.soles}
    feet = {model.frame(sole.frame).body for sole in model.setup.soles}
    for sensor in model.setup.wrench_sensors:
        if sensor.at == "ground" and sensor.name not in named and model.frame(sensor.frame).body in feet:
            raise LaboratoryError(
                f"no sole stands on the wrench sensor {sensor.name!r}; name it in the [[sole]] of its foot: "
                f'wrench = "{sensor.name}"',
                names=[sensor.name],
            )


_REFERENCES: BoundedCache[Model] = BoundedCache(16)
"""Models with links that can exist, by model: the same object each time, so that plans for it are found again."""


def _trajectory(model: Model, motion: str | Trajectory, seed: int, duration: float | None) -> Trajectory:
    if isinstance(motion, Trajectory):
        if duration is not None:
            raise LaboratoryError(
                f"the trajectory {motion.name!r} lasts {motion.duration:g} s; leave the duration out, or name a motion"
            )
        return motion
    return plan_motion(model, motion, seed=seed, duration=duration)
