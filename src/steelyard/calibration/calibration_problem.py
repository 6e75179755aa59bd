"""The least-squares problem of calibration: its unknowns and its residual rows.

Unknowns that all poses share: joint offsets, the mounting of inertial sensors, where markers sit, where the
laboratory's frame is, and where touched planes and points are. Unknowns of one pose alone: the root's orientation, its
position where that matters, and the height of each plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.calibration.frame_chains import FrameChains, chains_to
from steelyard.calibration.residual_rows import (
    ResidualRows,
    contact_rows,
    marker_rows,
    orientation_rows,
    point_rows,
    tangents,
    touched_plane_rows,
    touched_point_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.contacts import Contact, Touch
    from steelyard.calibration.poses import PoseSet
    from steelyard.model import Marker

Kind = Literal["orientation", "contact", "marker", "touch"]


@dataclass(frozen=True, eq=False)
class RowBlock:
    """The rows of one contact, sensor, marker or touch in a pose.

    Attributes:
        kind: Its kind; each kind has one noise level.
        name: Its name.
        rows: Its rows.
        there: Whether it has readings in each pose, shape (n_poses,).
    """

    kind: Kind
    name: str
    rows: slice
    there: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class State:
    """Values of all unknowns.

    Attributes:
        offsets: Of all joints of the chains, shape (n_joints,), rad or m.
        root: Rotation of the root in the world, shape (n_poses, 3, 3).
        origin: Of the root in the world, shape (n_poses, 3), m.
        heights: Of planes above the root's origin, shape (n_poses, n_planes), m.
        mountings: Rotation from each inertial sensor's axes to its frame's, by name.
        markers: Position of each marker in its frame, by name, m.
        laboratory: Rotation and translation of the world in the laboratory.
        touched: Point, or normal and distance (4,), of each touch, by name.
    """

    offsets: FloatArray
    root: FloatArray
    origin: FloatArray
    heights: FloatArray
    mountings: Mapping[str, FloatArray]
    markers: Mapping[str, FloatArray]
    laboratory: tuple[FloatArray, FloatArray]
    touched: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Residuals and Jacobians of all poses at a state; zero where there is no reading.

    Attributes:
        residuals: Shape (n_poses, n_rows).
        by_pose: By the unknowns of the pose, shape (n_poses, n_rows, n_pose).
        by_shared: By the unknowns that all poses share, shape (n_poses, n_rows, n_shared).
        by_joint: By the readings of all joints, shape (n_poses, n_rows, n_joints).
    """

    residuals: FloatArray
    by_pose: FloatArray
    by_shared: FloatArray
    by_joint: FloatArray


@dataclass(frozen=True, eq=False)
class CalibrationProblem:
    """A calibration problem.

    Attributes:
        poses: The poses.
        joints: Joints whose offsets are estimated.
        contacts: Flat contacts.
        markers: Markers.
        touches: Touched planes and points.
        imus: Inertial sensors whose orientation is used.
        mounting: Standard deviation (rad) of the misalignment of sensors; zero where there is none, infinite where
            nothing is known.
    """

    poses: PoseSet
    joints: tuple[str, ...]
    contacts: tuple[Contact, ...] = ()
    markers: tuple[Marker, ...] = ()
    touches: tuple[Touch, ...] = ()
    imus: tuple[str, ...] = ()
    mounting: float = 0.0

    @cached_property
    def imu_frames(self) -> dict[str, str]:
        """Frame of each inertial sensor."""
        return {imu.name: imu.frame for imu in self.poses.model.setup.imus}

    @cached_property
    def chains(self) -> FrameChains:
        """The chains from the root to all frames in use."""
        things: list[Contact | Marker | Touch] = [*self.contacts, *self.markers, *self.touches]
        frames = [self.imu_frames[name] for name in self.imus] + [thing.frame for thing in things]
        return chains_to(self.poses.model, frames)

    @property
    def floating(self) -> bool:
        """Whether the root moves from pose to pose."""
        return self.poses.model.base == "floating"

    @property
    def placed(self) -> bool:
        """Whether the root's position in each pose is an unknown."""
        return self.floating and bool(self.markers or self.touches)

    @cached_property
    def planes(self) -> tuple[str, ...]:
        """Names of the planes."""
        return tuple(dict.fromkeys(contact.plane for contact in self.contacts))

    @cached_property
    def blocks(self) -> tuple[RowBlock, ...]:
        """The rows of each pose, block by block."""
        blocks: list[RowBlock] = []

        def add(kind: Kind, name: str, count: int, there: NDArray[np.bool_]) -> None:
            start = blocks[-1].rows.stop if blocks else 0
            blocks.append(RowBlock(kind, name, slice(start, start + count), there))

        poses = self.poses
        for name in self.imus:
            add("orientation", name, 3, np.isfinite(poses.orientations[name][:, 0]))
        for contact in self.contacts:
            add("contact", contact.name, 3, poses.touches(contact.name))
        for marker in self.markers:
            add("marker", marker.name, 3, np.asarray(np.isfinite(poses.markers[marker.name]).all(axis=1)))
        for touch in self.touches:
            add("touch", touch.name, 3 if touch.kind == "point" else 1, poses.touches(touch.name))
        return tuple(blocks)

    @property
    def row_count(self) -> int:
        """Rows of a pose."""
        return self.blocks[-1].rows.stop if self.blocks else 0

    @cached_property
    def pose_columns(self) -> dict[str, slice]:
        """Columns of the unknowns of a pose."""
        sizes = {"turn": 3 if self.floating else 0, "place": 3 if self.placed else 0, "height": len(self.planes)}
        return _slices(sizes)

    @cached_property
    def shared_columns(self) -> dict[str, slice]:
        """Columns of the unknowns that all poses share, the offsets last."""
        sizes: dict[str, int] = {}
        if self.mounting > 0.0:
            sizes |= {f"mounting.{name}": 3 for name in self.imus}
        sizes |= {f"marker.{marker.name}": 3 for marker in self.markers}
        if self.markers:
            # A root that is free in each pose absorbs the laboratory's origin.
            sizes["laboratory"] = 3 if self.floating else 6
        sizes |= {f"touch.{touch.name}": 3 for touch in self.touches}
        sizes["offsets"] = len(self.joints)
        return _slices(sizes)

    @property
    def shared_count(self) -> int:
        """How many unknowns all poses share."""
        return int(self.shared_columns["offsets"].stop)

    @cached_property
    def free(self) -> NDArray[np.int64]:
        """Where the joints whose offsets are looked for stand among those of the chains."""
        return np.array([self.chains.joints.index(joint) for joint in self.joints], dtype=np.int64)

    @cached_property
    def prior_rows(self) -> tuple[FloatArray, FloatArray]:
        """What is known of the shared unknowns beforehand: standard deviations and which they are, (n_shared,) each."""
        deviations = np.full(self.shared_count, np.inf)
        for name, columns in self.shared_columns.items():
            if name.startswith("mounting."):
                deviations[columns] = self.mounting
        for marker in self.markers:
            deviations[self.shared_columns[f"marker.{marker.name}"]] = marker.deviation
        return deviations, np.isfinite(deviations)

    def prior_residuals(self, state: State) -> FloatArray:
        """Compute the whitened deviations of the shared unknowns from their priors, shape (n_shared,)."""
        deviations, known = self.prior_rows
        away = np.zeros(self.shared_count)
        for name in self.imus:
            if f"mounting.{name}" in self.shared_columns:
                away[self.shared_columns[f"mounting.{name}"]] = Rotation.from_matrix(state.mountings[name]).as_rotvec()
        for marker in self.markers:
            away[self.shared_columns[f"marker.{marker.name}"]] = state.markers[marker.name] - marker.position
        return np.where(known, away / np.where(known, deviations, 1.0), 0.0)

    @cached_property
    def measured(self) -> dict[str, FloatArray]:
        """Measured rotations of the inertial sensors, by name; the unit where there is no reading."""
        found = {}
        for name in self.imus:
            quaternions = self.poses.orientations[name]
            there = np.isfinite(quaternions[:, 0])
            found[name] = Rotation.from_quat(np.where(there[:, None], quaternions, [0.0, 0.0, 0.0, 1.0])).as_matrix()
        return found

    def linearise(self, state: State) -> Linearisation:
        """Compute residuals and Jacobians at a state."""
        count, poses, chains = len(self.poses), self.poses, self.chains
        linear = Linearisation(
            np.zeros((count, self.row_count)),
            np.zeros((count, self.row_count, sum(size_of(each) for each in self.pose_columns.values()))),
            np.zeros((count, self.row_count, self.shared_count)),
            np.zeros((count, self.row_count, len(chains.joints))),
        )
        positions = np.array(poses.positions)
        positions[:, chains.columns] += state.offsets
        places = chains.place(positions)
        number = {frame: index for index, frame in enumerate(chains.frames)}
        blocks = iter(self.blocks)
        for name in self.imus:
            rows = orientation_rows(
                chains, places, number[self.imu_frames[name]], state.root, state.mountings[name], self.measured[name]
            )
            self._put(linear, next(blocks), rows, own=self.shared_columns.get(f"mounting.{name}"))
        for contact in self.contacts:
            plane = self.planes.index(contact.plane)
            rows = contact_rows(chains, places, number[contact.frame], contact, state.root, state.heights[:, plane])
            block = next(blocks)
            self._put(linear, block, rows)
            start = self.pose_columns["height"].start + plane
            linear.by_pose[:, block.rows, start] = np.where(block.there[:, None], rows.by_own[:, :, 0], 0.0)
        for marker in self.markers:
            frame, place = number[marker.frame], state.markers[marker.name]
            world = point_rows(chains, places, frame, place, state.root, state.origin)
            block = next(blocks)
            seen = np.where(block.there[:, None], poses.markers[marker.name], 0.0)
            rows = marker_rows(world, *state.laboratory, seen)
            self._put(linear, block, rows, own=self.shared_columns[f"marker.{marker.name}"])
        for touch in self.touches:
            world = point_rows(chains, places, number[touch.frame], touch.point, state.root, state.origin)
            where = state.touched[touch.name]
            if touch.kind == "point":
                rows = touched_point_rows(world, where)
            else:
                rows = touched_plane_rows(world, where[:3], float(where[3]))
            self._put(linear, next(blocks), rows, own=self.shared_columns[f"touch.{touch.name}"])
        linear.by_shared[:, :, self.shared_columns["offsets"]] = linear.by_joint[:, :, self.free]
        return linear

    def _put(self, linear: Linearisation, block: RowBlock, rows: ResidualRows, own: slice | None = None) -> None:
        there = block.there[:, None]
        linear.residuals[:, block.rows] = np.where(there, rows.residuals, 0.0)
        there = there[:, :, None]
        linear.by_joint[:, block.rows] = np.where(there, rows.by_joint, 0.0)
        linear.by_pose[:, block.rows, self.pose_columns["turn"]] = np.where(there, rows.by_turn, 0.0)[
            :, :, : 3 if self.floating else 0
        ]
        if self.placed and rows.by_place is not None:
            linear.by_pose[:, block.rows, self.pose_columns["place"]] = np.where(there, rows.by_place, 0.0)
        if rows.by_laboratory is not None:
            columns = self.shared_columns["laboratory"]
            linear.by_shared[:, block.rows, columns] = np.where(there, rows.by_laboratory, 0.0)[
                :, :, : size_of(columns)
            ]
        if own is not None:
            linear.by_shared[:, block.rows, own] = np.where(there, rows.by_own, 0.0)

    def move(self, state: State, by_shared: FloatArray, by_pose: FloatArray) -> State:
        """Return the state after a step.

        Args:
            state: The state before.
            by_shared: Of the shared unknowns, shape (n_shared,).
            by_pose: Of the unknowns of each pose, shape (n_poses, n_pose).
        """
        shared, own = self.shared_columns, self.pose_columns
        offsets = np.array(state.offsets)
        offsets[self.free] += by_shared[shared["offsets"]]
        changes: dict[str, Any] = {"offsets": offsets, "heights": state.heights + by_pose[:, own["height"]]}
        if self.floating:
            changes["root"] = Rotation.from_rotvec(by_pose[:, own["turn"]]).as_matrix() @ state.root
        if self.placed:
            # A turn of the root leaves its origin where it is.
            changes["origin"] = state.origin + by_pose[:, own["place"]]
        if self.mounting > 0.0:
            changes["mountings"] = {
                name: turn @ _turn(by_shared[shared[f"mounting.{name}"]]) for name, turn in state.mountings.items()
            }
        if self.markers:
            changes["markers"] = {
                name: place + by_shared[shared[f"marker.{name}"]] for name, place in state.markers.items()
            }
            step = by_shared[shared["laboratory"]]
            turn, place = state.laboratory
            changes["laboratory"] = (_turn(step[:3]) @ turn, place if self.floating else place + step[3:])
        if self.touches:
            changes["touched"] = {
                touch.name: _touched(touch, state.touched[touch.name], by_shared[shared[f"touch.{touch.name}"]])
                for touch in self.touches
            }
        return replace(state, **changes)


def _touched(touch: Touch, where: FloatArray, step: FloatArray) -> FloatArray:
    if touch.kind == "point":
        return where + step
    normal = where[:3] + step[:2] @ tangents(where[:3])
    return np.array([*(normal / np.linalg.norm(normal)), where[3] + step[2]])


def _turn(vector: FloatArray) -> FloatArray:
    return np.asarray(Rotation.from_rotvec(vector).as_matrix())


def _slices(sizes: Mapping[str, int]) -> dict[str, slice]:
    found, start = {}, 0
    for name, size in sizes.items():
        found[name] = slice(start, start + size)
        start += size
    return found


def size_of(columns: slice) -> int:
    """Return the length of a slice."""
    return int(columns.stop - columns.start)
