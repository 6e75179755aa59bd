"""Robots on flat feet whose encoders are off: poses, readings and noise for studies of calibration."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard import load_model, plan_motion
from steelyard.calibration import PoseSet, soles_as_contacts
from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.design import exact_poses
from steelyard.calibration.frame_chains import chains_to
from steelyard.calibration.starting_states import starting_states
from steelyard.stance.footing import plant_feet
from steelyard.stance.postures import stand_on_soles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard import Model
    from steelyard.arrays import FloatArray
    from steelyard.calibration import Contact, PoseNoise

DEGREE = np.pi / 180.0
ROBOTS = ("g1", "talos", "icub", "romeo")
MINUTES = 240.0
"""Seconds of `limp`, as many as the paper recorded."""


@cache
def robot(name: str) -> Model:
    """Gives a robot; the same object each time."""
    return load_model(name)


def sensor(name: str) -> str:
    """Gives the inertial sensor that is used: the first."""
    return robot(name).setup.imus[0].name


def joints(name: str) -> tuple[str, ...]:
    """Gives the joints whose offsets are looked for."""
    model = robot(name)
    frames = {imu.name: imu.frame for imu in model.setup.imus}
    return chains_to(model, [frames[sensor(name)], *(sole.frame for sole in model.setup.soles)]).joints


@cache
def limp_configurations(name: str, count: int) -> FloatArray:
    """Gives configurations of four minutes of `limp`, evenly spaced, soles exactly flat, shape (count, n_q)."""
    model = robot(name)
    plan = plan_motion(model, "limp", seed=0, duration=MINUTES)
    rows = np.linspace(50, len(plan.time) - 51, count).astype(np.int64)
    footing = plant_feet(model)
    return np.array([stand_on_soles(footing, positions) for positions in plan.positions[rows]])


def draw_offsets(name: str, generator: np.random.Generator, most: float = 5.0 * DEGREE) -> dict[str, float]:
    """Draws offsets up to five degrees."""
    return {joint: float(generator.uniform(-most, most)) for joint in joints(name)}


def with_heights(name: str, configurations: FloatArray, targets: FloatArray) -> FloatArray:
    """Gives configurations near others whose soles' height and tilts are what is asked for.

    Args:
        name: The robot.
        configurations: With flat soles, shape (n, n_q).
        targets: What each sole's modes should be, sole by sole; see `Contact.modes`. Shape (n, 3 n_soles), m.
    """
    model = robot(name)
    contacts = soles_as_contacts(model)
    found = np.array(configurations)
    root = Rotation.from_quat(found[:, 3:7]).as_matrix()
    for _ in range(4):
        problem = CalibrationProblem(PoseSet(model, np.arange(len(found)), found[:, 7:]), (), contacts)
        chains = problem.chains
        start = starting_states(problem)[0]
        state = type(start)(**{**vars(start), "root": root})
        linear = problem.linearise(state)
        away = linear.residuals - targets
        # At whatever height the root is.
        height = linear.by_pose[:, :, 3:]
        slopes = np.concatenate([linear.by_joint, height], axis=2)
        step = np.einsum("nij,nj->ni", np.linalg.pinv(slopes, rcond=1e-6), away)
        found[:, 7 + chains.columns] -= step[:, :-1]
    return found


def uneven(name: str, configurations: FloatArray, flatness: float, generator: np.random.Generator) -> FloatArray:
    """Gives configurations whose soles rest on corners that are off the floor by chance."""
    count = 3 * len(robot(name).setup.soles)
    return with_heights(name, configurations, generator.normal(0.0, flatness, (len(configurations), count)))


def tilted(
    name: str, configurations: FloatArray, which: FloatArray, sole: FloatArray, axes: FloatArray, angle: float
) -> FloatArray:
    """Gives configurations in which one sole of some poses is tilted.

    Args:
        name: The robot.
        configurations: Shape (n, n_q).
        which: Numbers of the poses.
        sole: Number of the sole that is tilted, for each of these.
        axes: Horizontal unit vector in the sole's own axes about which it is tilted, for each, shape (m, 3).
        angle: By how much, rad.
    """
    model = robot(name)
    contacts = soles_as_contacts(model)
    problem = CalibrationProblem(PoseSet(model, np.arange(len(configurations)), configurations[:, 7:]), (), contacts)
    start = starting_states(problem)[0]
    root = Rotation.from_quat(configurations[:, 3:7]).as_matrix()
    linear = problem.linearise(type(start)(**{**vars(start), "root": root}))
    targets = np.array(linear.residuals)
    for pose, number, axis in zip(which, sole, axes, strict=True):
        contact = contacts[number]
        middle = contact.vertices.mean(axis=0)
        heights = np.cross(angle * axis, contact.vertices - middle) @ _upright(contact)
        spread = contact.modes[0] - np.outer(contact.modes[1], middle)
        # Heights of the corners as the sole's modes.
        basis = np.linalg.lstsq(contact.vertices - middle, heights, rcond=None)[0]
        targets[pose, 3 * number : 3 * number + 3] += spread @ basis
    return with_heights(name, configurations, targets)


def _upright(contact: Contact) -> FloatArray:
    normal = contact.normal
    return np.asarray(normal * np.sign(normal[int(np.argmax(np.abs(normal)))]))


def read(
    name: str,
    configurations: FloatArray,
    offsets: Mapping[str, float],
    noise: PoseNoise,
    generator: np.random.Generator,
) -> PoseSet:
    """Gives what encoders and the inertial sensor read in configurations."""
    exact = exact_poses(robot(name), configurations, [sensor(name)])
    positions = np.array(exact.positions)
    for joint, offset in offsets.items():
        positions[:, robot(name).joints.index(joint)] -= offset
    positions += generator.normal(0.0, noise.encoder, positions.shape)
    turns = {
        imu: (
            Rotation.from_quat(each) * Rotation.from_rotvec(generator.normal(0.0, noise.orientation, (len(each), 3)))
        ).as_quat()
        for imu, each in exact.orientations.items()
    }
    return PoseSet(robot(name), np.arange(len(positions)) * MINUTES / len(positions), positions, turns)
