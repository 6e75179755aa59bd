"""Simulation of a course on the true robot: MuJoCo's states in Steelyard's conventions, each of one instant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import mujoco
import mujoco.rollout
import numpy as np

from steelyard.kinematics import FrameMotion, cross, quaternion_rotations
from steelyard.laboratory.world import TIME_STEP, set_configuration
from steelyard.motion import Motion, body_motions, motion_from_generalized

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.laboratory.world import World
    from steelyard.model import Model
    from steelyard.stance import Foot

SETTLING = 1.0
"""Seconds at rest on the floor before a course begins, not recorded. Set by judgement: many time constants of the
contact."""


@dataclass(frozen=True, eq=False)
class States:
    """The true states, `TIME_STEP` apart, all quantities of the same instant.

    With implicitly damped servos MuJoCo does not integrate its own accelerations. Here the acceleration is the change
    of velocity over the step that follows, which with the floor's forces of the instant satisfies the equation of
    motion of the base exactly.

    Attributes:
        model: The true robot.
        time: Shape (n,), s.
        q: Configurations, shape (n, position_size).
        v: Velocities, shape (n, velocity_size).
        a: Accelerations, shape (n, velocity_size).
        feet: The floor's wrench on each foot about the world's origin, in world axes, shape (n, n_feet, 6).
        self_contacts: Number of contacts of the robot with itself, shape (n,).
        commands: Commanded positions of the servos, shape (n, n_joints).
        pull: External force at the root's origin, in world axes, shape (n, 3); None where there is none.
    """

    model: Model
    time: FloatArray
    q: FloatArray
    v: FloatArray
    a: FloatArray
    feet: FloatArray
    self_contacts: FloatArray
    commands: FloatArray
    pull: FloatArray | None = None

    @cached_property
    def motion(self) -> Motion:
        """The states as a Motion at the root, without sensors."""
        return motion_from_generalized(self.model, self.time, self.q, self.v, self.a)

    @cached_property
    def known(self) -> dict[int, FrameMotion]:
        """Body motions computed so far, for `body_motions`; large, and cleared after sensing. Work on a copy."""
        return {}

    @cached_property
    def rotation(self) -> FloatArray:
        """From the root's axes to the world's, shape (n, 3, 3)."""
        return quaternion_rotations(self.q[:, 3:7])

    @cached_property
    def feet_in_root(self) -> FloatArray:
        """The floor's wrench on each foot about the root's origin, in the root's axes, shape (n, n_feet, 6)."""
        force = self.feet[..., :3]
        moment = self.feet[..., 3:] - cross(self.q[:, None, :3], force)
        return np.concatenate([force @ self.rotation, moment @ self.rotation], axis=-1)

    def sole_placements(self, foot: Foot) -> tuple[FloatArray, FloatArray]:
        """Return the placement of a sole's own frame in the world: rotations (n, 3, 3) and positions (n, 3)."""
        known = dict(self.known)
        sole = body_motions(self.model, self.motion, foot.body, known)[foot.body].moved(foot.placement)
        self.known.update(known)
        return self.rotation @ sole.rotation, self.q[:, :3] + np.einsum("nij,nj->ni", self.rotation, sole.position)


def play(world: World, start: FloatArray, commands: FloatArray, pull: FloatArray | None = None) -> States:
    """Simulate the robot at rest, then following its commands.

    Args:
        world: The robot on its floor.
        start: Initial configuration, shape (position_size,).
        commands: Commanded positions of the servos, `TIME_STEP` apart, shape (n, n_joints).
        pull: External force at the root's origin at the same times, in world axes, shape (n, 3).
    """
    compiled = world.compiled
    data = mujoco.MjData(compiled)
    set_configuration(data, world.q_columns, start)
    everything = mujoco.mjtState.mjSTATE_FULLPHYSICS
    before = np.zeros(mujoco.mj_stateSize(compiled, everything))
    mujoco.mj_getState(compiled, data, before, everything)
    standing = round(SETTLING / TIME_STEP)
    driven, kind = commands, int(mujoco.mjtState.mjSTATE_CTRL)
    if pull is not None:
        # The first three generalised forces of a free body are a force at its origin, in world axes.
        applied = np.zeros((len(commands), compiled.nv))
        applied[:, :3] = pull
        driven, kind = np.concatenate([commands, applied], axis=1), kind | int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
    control = np.concatenate([np.broadcast_to(driven[0], (standing, driven.shape[1])), driven])
    after, sensors = mujoco.rollout.rollout(compiled, data, before[None], control[None], control_spec=kind)
    # Sensor values belong to the state before a step; states are those after it.
    states, readings = after[0, standing - 1 :, 1:], sensors[0, standing:]
    return replace(collect_states(world, states, readings, commands), pull=pull)


def collect_states(world: World, states: FloatArray, readings: FloatArray, commands: FloatArray) -> States:
    """Convert MuJoCo's states and readings, one more state than readings, to Steelyard's conventions."""
    compiled, model = world.compiled, world.model
    positions = states[:, : compiled.nq]
    velocities = states[:, compiled.nq : compiled.nq + compiled.nv]
    accelerations: FloatArray = np.diff(velocities, axis=0) / TIME_STEP
    positions, velocities = positions[:-1], velocities[:-1]
    quaternion = positions[:, [4, 5, 6, 3]]
    rotation = quaternion_rotations(quaternion)
    linear = np.einsum("nji,nj->ni", rotation, velocities[:, :3])
    # The root's velocity is expressed in its own axes: its derivative has a term from their rotation.
    linear_change = np.einsum("nji,nj->ni", rotation, accelerations[:, :3]) - cross(velocities[:, 3:6], linear)
    q = np.concatenate([positions[:, :3], quaternion, positions[:, world.q_columns]], axis=1)
    v = np.concatenate([linear, velocities[:, 3:6], velocities[:, world.v_columns]], axis=1)
    a = np.concatenate([linear_change, accelerations[:, 3:6], accelerations[:, world.v_columns]], axis=1)
    return States(
        model,
        TIME_STEP * np.arange(len(q), dtype=np.float64),
        q,
        v,
        a,
        world.foot_readings(readings),
        world.self_contacts(readings),
        commands,
    )
