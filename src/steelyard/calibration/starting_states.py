"""Starting states: no offsets, the root oriented by the inertial sensors, markers and touches where they fit best."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.calibration.calibration_problem import State
from steelyard.exceptions import IdentifiabilityError

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem
    from steelyard.calibration.frame_chains import FramePlacements

_ROUNDS = 30
"""Alternations between the laboratory's frame and the markers; set by judgement, as the solver refines the result."""

_HEADINGS = 8
"""Headings of the laboratory that are tried where it is unknown: 45° apart, within the basin of the minimum."""


def starting_states(problem: CalibrationProblem) -> list[State]:
    """Return the starting states: one, or several where the laboratory's heading is unknown.

    As [yamane2011] section II-B: offsets are zero, and the root's orientation is the average over the inertial sensors.
    Without any, the first contact of each pose is level.
    """
    chains, poses = problem.chains, problem.poses
    places = chains.place(np.asarray(poses.positions))
    root = _root(problem, places)
    count = len(poses)
    touched = {
        touch.name: np.zeros(3) if touch.kind == "point" else np.array([0.0, 0.0, 1.0, 0.0])
        for touch in problem.touches
    }
    state = State(
        offsets=np.zeros(len(chains.joints)),
        root=root,
        origin=np.zeros((count, 3)),
        heights=np.zeros((count, len(problem.planes))),
        mountings={name: np.eye(3) for name in problem.imus},
        markers={marker.name: np.array(marker.position) for marker in problem.markers},
        laboratory=(np.eye(3), np.zeros(3)),
        touched=touched,
    )
    state = _with_heights(problem, state)
    if not problem.markers:
        return [_with_touches(problem, state, places)]
    if not problem.floating:
        return [_with_touches(problem, _with_laboratory(problem, state, places), places)]
    headings = Rotation.from_euler("z", np.arange(_HEADINGS)[:, None] * 2.0 * np.pi / _HEADINGS).as_matrix()
    return [_with_touches(problem, _with_origins(problem, state, places, heading), places) for heading in headings]


def _root(problem: CalibrationProblem, places: FramePlacements) -> FloatArray:
    """Return the root's orientations, shape (n_poses, 3, 3)."""
    count = len(problem.poses)
    if not problem.floating:
        return np.tile(np.eye(3), (count, 1, 1))
    total = np.zeros((count, 3, 3))
    seen = np.zeros(count, dtype=bool)
    for block, name in zip(problem.blocks, problem.imus, strict=False):
        frame = problem.chains.frames.index(problem.imu_frames[name])
        own = problem.measured[name] @ np.swapaxes(places.rotations[frame], 1, 2)
        total += np.where(block.there[:, None, None], own, 0.0)
        seen |= block.there
    left, _, right = np.linalg.svd(np.where(seen[:, None, None], total, np.eye(3)))
    sign = np.linalg.det(left @ right)
    left[:, :, 2] *= sign[:, None]
    root = left @ right
    for pose in np.flatnonzero(~seen):
        root[pose] = _level_first_contact(problem, places, int(pose))
    return np.asarray(root)


def _level_first_contact(problem: CalibrationProblem, places: FramePlacements, pose: int) -> FloatArray:
    """Return the root's orientation that levels the first contact of a pose, at zero heading."""
    for contact in problem.contacts:
        if problem.poses.touches(contact.name)[pose]:
            frame = problem.chains.frames.index(contact.frame)
            normal = places.rotations[frame][pose] @ contact.normal
            normal = normal if normal[2] >= 0.0 else -normal
            return np.asarray(Rotation.align_vectors([[0.0, 0.0, 1.0]], normal[None])[0].as_matrix())
    if problem.markers or problem.touches:
        return np.eye(3)
    raise IdentifiabilityError(
        f"pose {pose} has neither an orientation nor a contact; leave it out, or name a contact that is flat in it"
    )


def _with_heights(problem: CalibrationProblem, state: State) -> State:
    """Return a state whose planes are at the mean height of their contacts."""
    if not problem.planes:
        return state
    linear = problem.linearise(state)
    slopes = linear.by_pose[:, :, problem.pose_columns["height"]]
    away = np.einsum("nra,nr->na", slopes, linear.residuals) / np.maximum(np.sum(slopes**2, axis=1), 1e-12)
    return problem.move(
        state,
        np.zeros(problem.shared_count),
        np.concatenate([np.zeros((len(away), problem.pose_columns["height"].start)), -away], axis=1),
    )


def _with_laboratory(problem: CalibrationProblem, state: State, places: FramePlacements) -> State:
    """Return a state with the best-fitting markers and laboratory frame, by alternation."""
    markers = dict(state.markers)
    turn, place = np.eye(3), np.zeros(3)
    frames = [problem.chains.frames.index(marker.frame) for marker in problem.markers]
    there = [np.asarray(np.isfinite(problem.poses.markers[marker.name]).all(axis=1)) for marker in problem.markers]
    for _ in range(_ROUNDS):
        inside = np.concatenate(
            [
                (places.positions[frame] + places.rotations[frame] @ markers[marker.name])[seen]
                for marker, frame, seen in zip(problem.markers, frames, there, strict=True)
            ]
        )
        seen_at = np.concatenate(
            [problem.poses.markers[marker.name][seen] for marker, seen in zip(problem.markers, there, strict=True)]
        )
        turn, place = _fit_rigid_transform(inside, seen_at)
        for marker, frame, seen in zip(problem.markers, frames, there, strict=True):
            wanted = (problem.poses.markers[marker.name][seen] - place) @ turn - places.positions[frame][seen]
            own = np.einsum("nji,nj->ni", places.rotations[frame][seen], wanted)
            markers[marker.name] = np.median(own, axis=0)
    return replace(state, markers=markers, laboratory=(turn, place))


def _fit_rigid_transform(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit the rigid transform between two point sets robustly, by reweighting."""
    weights = np.ones(len(inside))
    turn, place = np.eye(3), np.zeros(3)
    for _ in range(5):
        share = weights / weights.sum()
        middle, other = share @ inside, share @ outside
        left, _, right = np.linalg.svd((outside - other).T @ (share[:, None] * (inside - middle)))
        left[:, 2] *= np.sign(np.linalg.det(left @ right))
        turn = left @ right
        place = other - turn @ middle
        far = np.linalg.norm(outside - inside @ turn.T - place, axis=1)
        weights = 1.0 / np.maximum(far, np.median(far) + 1e-12)
    return np.asarray(turn), np.asarray(place)


def _with_origins(problem: CalibrationProblem, state: State, places: FramePlacements, heading: FloatArray) -> State:
    """Return a state whose roots put the markers' mean where it was seen."""
    total, count = np.zeros((len(problem.poses), 3)), np.zeros(len(problem.poses))
    for marker in problem.markers:
        frame = problem.chains.frames.index(marker.frame)
        inside = places.positions[frame] + places.rotations[frame] @ state.markers[marker.name]
        seen = problem.poses.markers[marker.name]
        there = np.asarray(np.isfinite(seen).all(axis=1))
        away = np.where(there[:, None], seen, 0.0) @ heading - np.einsum("nij,nj->ni", state.root, inside)
        total += np.where(there[:, None], away, 0.0)
        count += there
    return replace(state, origin=total / np.maximum(count, 1.0)[:, None], laboratory=(heading, np.zeros(3)))


def _with_touches(problem: CalibrationProblem, state: State, places: FramePlacements) -> State:
    """Return a state with the best-fitting touched points and planes."""
    if not problem.touches:
        return state
    touched = dict(state.touched)
    for touch in problem.touches:
        frame = problem.chains.frames.index(touch.frame)
        inside = places.positions[frame] + places.rotations[frame] @ touch.point
        world = (np.einsum("nij,nj->ni", state.root, inside) + state.origin)[problem.poses.touches(touch.name)]
        if touch.kind == "point":
            touched[touch.name] = world.mean(axis=0)
        else:
            normal = np.linalg.svd(world - world.mean(axis=0))[2][2]
            touched[touch.name] = np.array([*normal, float(world.mean(axis=0) @ normal)])
    return replace(state, touched=touched)
