"""A trial in the virtual laboratory: a true robot, its motion, and the recording of its sensors."""

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
from steelyard.laboratory.signals import Signals, compute_signals, link_torques
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
"""Physics steps between two computations of the feedforward torques. Set by judgement: 10 ms, short beside the
motions."""


@dataclass(frozen=True, eq=False)
class Truth:
    """The truth that only the laboratory knows.

    Attributes:
        model: The true robot with its payloads.
        offsets: Encoder offsets, to be added to a reading to get the true position, rad or m by joint.
        biases: Biases of the other sensors, by column; mountings as ``<imu>.mounting.x``, rad.
        armature: Rotor inertia by joint, kg m² or kg.
        states: The true states, with accelerations of the same instant, and the floor's forces.
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
        """The ten true parameters of each link, shape (n_links, 10)."""
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
        """The torque that each joint exerts on its link, shape (n, n_joints), N m or N."""
        return link_torques(self.states, self.footing)


@dataclass(frozen=True, eq=False)
class Trial:
    """A simulated trial: the true robot, its motion and its recording.

    Attributes:
        truth: The true robot, its states and its sensors' constant errors.
        trajectory: The planned trajectory.
        events: Falls, slips and limits reached, in order of time.
        sensors: The errors of the sensors.
        seed: Seed of the true robot and its sensors' biases.
        noise_seed: Seed of the sensors' noise.
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
        """The signals of perfect sensors.

        Raises:
            LaboratoryError: The robot fell.
        """
        for event in self.events:
            if event.kind == "fall":
                raise LaboratoryError(
                    f"the robot fell at {event.start:.2f} s ({event.detail}): there is no recording of "
                    f"{self.trajectory.name!r}; choose another motion, seed or payload, or see trial.events"
                )
        return compute_signals(self.truth.states, self.truth.footing, self.planned)

    @cached_property
    def recording(self) -> Recording:
        """The recording of the sensors.

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
        """Measure the same motion of the same robot again.

        Args:
            seed: Seed of the noise.
            noise: Other sensors; see `simulate`. By default the same.
        """
        sensors = self.sensors if noise is ... else choose_sensors(noise)
        biases = draw_biases(self.truth.model, sensors, self.seed)
        again = replace(self, sensors=sensors, noise_seed=as_seed(seed), truth=replace(self.truth, biases=biases))
        # The physics is the same, and so are the signals of perfect sensors.
        if not self.fell:
            again.__dict__["signals"] = self.signals
        return again

    def __repr__(self) -> str:
        events = f"{len(self.events)} events" if self.events else "no events"
        return f"<Trial of {self.truth.model.name}, {self.trajectory.name}: {self.trajectory.duration:g} s, {events}>"


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
    """Simulate a motion on a virtual robot that differs from its model.

    Args:
        model: The reference, with soles in its setup.
        motion: The name of a motion of the library (`steelyard.laboratory.MOTIONS`), or a trajectory.
        seed: Seed of the true robot, of a motion of the library, and of the noise, with a random stream each.
        noise: "default" for the errors of real sensors, by their data sheets; None for perfect ones; or `Sensors`.
        spread: Standard deviation of the relative change of each link's mass, extents and centre of mass.
        payloads: Kilograms, or `Payload`, by link or frame.
        offsets: Encoder offsets, to be added to readings to get true positions, rad by joint; or one number, the
            greatest, up to which they are drawn. The true joints follow the plan: the soles are flat in spite of the
            offsets.
        hose: A force at the root link that no sensor measures.
        duration: Seconds, for a motion of the library.

    Returns:
        The trial. Where the robot fell, its recording raises; `Trial.events` has when and how.

    Raises:
        LaboratoryError: An argument is not valid.
        StanceError: The model cannot stand, or the trajectory does not fit it.
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
    """Raise for a sensor under a foot that no sole names: it would read zero throughout."""
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
"""Models with physically possible links, by model: the same object each time, so that its plans are found again."""


def _trajectory(model: Model, motion: str | Trajectory, seed: int, duration: float | None) -> Trajectory:
    if isinstance(motion, Trajectory):
        if duration is not None:
            raise LaboratoryError(
                f"the trajectory {motion.name!r} lasts {motion.duration:g} s; leave the duration out, or name a motion"
            )
        return motion
    return plan_motion(model, motion, seed=seed, duration=duration)
