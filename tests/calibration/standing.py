"""Robots on flat feet, with encoders that are off and sensors that are noisy, by Pinocchio and by chance."""

from __future__ import annotations

from functools import cache

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

from steelyard import load_model
from steelyard.calibration import PoseNoise, PoseSet, soles_as_contacts
from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.design import draw_flat_poses
from steelyard.calibration.frame_chains import chains_to

DEGREE = np.pi / 180.0


@cache
def robot(name):
    return load_model(name)


@cache
def flat(name, count=120, placements=3):
    """Gives configurations with both soles flat, shape (count, position_size)."""
    return draw_flat_poses(robot(name), count, placements=placements).configurations


def chained(name, imus):
    """Gives the joints that calibration looks at."""
    model = robot(name)
    frames = [imu.frame for imu in model.setup.imus if imu.name in imus]
    return chains_to(model, [*frames, *(sole.frame for sole in model.setup.soles)]).joints


def offsets_of(joints, seed=0, most=5.0):
    """Draws offsets up to a few degrees, by joint, rad."""
    return dict(zip(joints, np.random.default_rng([seed, 1]).uniform(-most, most, len(joints)) * DEGREE, strict=True))


def uneven(model, q, flatness, rng):
    """Gives configurations whose soles' corners are off the floor by chance, as far as a rigid sole can be."""
    contacts = soles_as_contacts(model)
    joints = chains_to(model, [contact.frame for contact in contacts]).joints
    problem = CalibrationProblem(PoseSet(model, np.arange(len(q)), q[:, 7:]), joints, contacts)
    q = np.array(q)
    columns = 7 + problem.chains.columns
    corners = [rng.normal(0.0, flatness, (len(q), len(contact.vertices))) for contact in contacts]
    built, data = model.pinocchio, model.pinocchio.createData()
    for _ in range(3):
        for number in range(len(q)):
            pin.computeJointJacobians(built, data, q[number])
            pin.updateFramePlacements(built, data)
            wanted, slopes = [], []
            for contact, off in zip(contacts, corners, strict=True):
                frame = built.getFrameId(contact.frame)
                place = data.oMf[frame]
                jacobian = pin.getFrameJacobian(built, data, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
                for vertex, height in zip(contact.vertices, off[number], strict=True):
                    arm = place.rotation @ vertex
                    slopes.append((jacobian[:3] - pin.skew(arm) @ jacobian[3:])[2])
                    wanted.append(height - (place.translation + arm)[2])
            # Corners of a rigid sole cannot all be anywhere: the nearest that it can.
            step = np.linalg.lstsq(np.array(slopes)[:, columns - 1], np.array(wanted), rcond=1e-6)[0]
            q[number, columns] += step
    return q


def readings(name, q, imus, offsets, noise=None, seed=0, mounting=None):
    """Gives what sensors say in configurations: Pinocchio's placements, offsets taken off, noise added."""
    model = robot(name)
    rng = np.random.default_rng([seed, 2])
    if noise is not None and noise.flatness > 1e-8:
        q = uneven(model, q, noise.flatness, rng)
    built, data = model.pinocchio, model.pinocchio.createData()
    frames = {imu.name: built.getFrameId(imu.frame) for imu in model.setup.imus}
    turns = {imu: np.empty((len(q), 3, 3)) for imu in imus}
    for number, each in enumerate(q):
        pin.framesForwardKinematics(built, data, each)
        for imu in imus:
            turns[imu][number] = data.oMf[frames[imu]].rotation
    positions = np.array(q[:, 7:])
    for joint, offset in offsets.items():
        positions[:, model.joints.index(joint)] -= offset
    orientations = {imu: Rotation.from_matrix(turn) for imu, turn in turns.items()}
    if mounting is not None:
        orientations = {imu: turn * Rotation.from_rotvec(mounting) for imu, turn in orientations.items()}
    if noise is not None:
        positions += rng.normal(0.0, noise.encoder, positions.shape) if noise.encoder else 0.0
        orientations = {
            imu: turn * Rotation.from_rotvec(rng.normal(0.0, noise.orientation, (len(q), 3)))
            for imu, turn in orientations.items()
        }
    return PoseSet(model, np.arange(len(q)), positions, {imu: turn.as_quat() for imu, turn in orientations.items()})


QUIET = PoseNoise(encoder=0.0, orientation=1e-9, flatness=1e-9)
USUAL = PoseNoise()
