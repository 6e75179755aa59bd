"""Markers after a calibration: how far off they are, where each sits on its link, and where the robot's base is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.calibration.fitting import fit, fit_pose_unknowns
from steelyard.calibration.heights import rms
from steelyard.calibration.pose_noise import PoseNoise
from steelyard.calibration.residual_rows import skew
from steelyard.calibration.starting_states import starting_states

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, State
    from steelyard.calibration.fitting import CalibrationFit
    from steelyard.calibration.gauss_newton import Solved

_FOLDS, _FEWEST = 10, 5
"""Folds of cross-validation, the usual number, and groups of poses below which there is none."""

_TOGETHER = 2.0
"""Seconds within which poses are held out together: neighbours of a motion are nearly the same pose, and would tell
each other's errors. Set by judgement."""

_SEED = 0
"""Of the division into folds, so that the same poses give the same figures."""


@dataclass(frozen=True)
class MarkerDistances:
    """Distances from predicted to measured markers, over all poses and markers, m.

    Attributes:
        rms: Root mean square.
        mean: Mean.
        greatest: The greatest one.
    """

    rms: float
    mean: float
    greatest: float

    @classmethod
    def of(cls, distances: FloatArray) -> MarkerDistances:
        """Return the figures of an array of distances; NaN counts as not seen."""
        return cls(rms(distances), float(np.nanmean(distances)), float(np.nanmax(distances)))

    def in_millimetres(self) -> dict[str, float]:
        """Return the figures in mm, by name."""
        return {name: 1e3 * value for name, value in vars(self).items()}


@dataclass(frozen=True, eq=False)
class MarkerPlacement:
    """Where a marker sits.

    Attributes:
        frame: The frame of its link.
        position: In that frame, shape (3,), m.
        standard_errors: Of the position, shape (3,), m.
    """

    frame: str
    position: FloatArray
    standard_errors: FloatArray


@dataclass(frozen=True, eq=False)
class BasePlacement:
    """Where the robot's base is in the frame of the motion capture; with a floating base, in each pose.

    Attributes:
        rotation: From the base's axes to the capture's, shape (3, 3), or (n_poses, 3, 3).
        position: Of the base's origin, shape (3,), or (n_poses, 3), m.
        rotation_errors: Standard errors of small turns about the capture's axes, shape of `position`, rad.
        position_errors: Standard errors of the position, m.
    """

    rotation: FloatArray
    position: FloatArray
    rotation_errors: FloatArray
    position_errors: FloatArray

    @property
    def rotation_vector(self) -> FloatArray:
        """The rotation as axis times angle, shape of `position`, rad."""
        return np.asarray(Rotation.from_matrix(self.rotation).as_rotvec())


@dataclass(frozen=True, eq=False)
class MarkerFit:
    """What a calibration says of markers. All readings count, those that were set aside too.

    Attributes:
        fit: The fit.
        covariance: Of all its shared unknowns, shape (n_shared, n_shared).
        robust: Whether cross-validation sets outliers aside where it fits, as the fit does.
    """

    fit: CalibrationFit
    covariance: FloatArray
    robust: bool

    @cached_property
    def distances_before(self) -> FloatArray:
        """Distance of each marker in each pose with the best placements and no offsets, encoders taken as exact.

        Shape (n_poses, n_markers), m; NaN where it was not seen.
        """
        weights = self.fit.weights
        weights = replace(weights, encoder=0.0) if isinstance(weights, PoseNoise) else weights
        placed = fit(replace(self.fit.problem, joints=()), weights, robust=False, start=self._start(self.fit.problem))
        return _distances(placed.problem, placed.solved)

    @cached_property
    def distances_after(self) -> FloatArray:
        """The same with the estimated offsets."""
        return _distances(self.fit.problem, self.fit.solved)

    @cached_property
    def distances_held_out(self) -> FloatArray | None:
        """The same in poses that were not used, by ten-fold cross-validation; None where there are too few poses."""
        problem = self.fit.problem
        poses, names = problem.poses, [marker.name for marker in problem.markers]
        seen = np.stack([np.isfinite(poses.markers[name]).all(axis=1) for name in names], axis=1)
        groups = np.unique(np.floor((poses.clock - poses.clock.min()) / _TOGETHER), return_inverse=True)[1]
        count = int(groups.max()) + 1
        if count < _FEWEST:
            return None
        held_out = np.full(seen.shape, np.nan)
        for some in np.array_split(np.random.default_rng(_SEED).permutation(count), min(_FOLDS, count)):
            own = np.isin(groups, some)
            # A marker that only one side sees has no placement, or nothing to compare.
            both = np.flatnonzero(seen[own].any(axis=0) & seen[~own].any(axis=0))
            if not len(both):
                continue
            fold = replace(problem, markers=tuple(problem.markers[number] for number in both))
            used, rest = (replace(fold, poses=poses.pick(which)) for which in (~own, own))
            found = fit(used, None if self.fit.found else self.fit.weights, robust=self.robust, start=self._start(used))
            after = fit_pose_unknowns(rest, found.solved.state, found.weights)
            held_out[np.ix_(own, both)] = _distances(rest, after)
        return held_out

    def _start(self, problem: CalibrationProblem) -> State:
        """Return the starting state of a problem with the heading nearest to the one that was found."""
        heading = self.fit.solved.state.laboratory[0]
        return max(starting_states(problem), key=lambda state: float(np.sum(state.laboratory[0] * heading)))

    @property
    def placements(self) -> dict[str, MarkerPlacement]:
        """Where each marker sits on its link, by name."""
        problem, spread = self.fit.problem, np.sqrt(np.diagonal(self.covariance))
        places = self.fit.solved.state.markers
        return {
            marker.name: MarkerPlacement(
                marker.frame, places[marker.name], spread[problem.shared_columns[f"marker.{marker.name}"]]
            )
            for marker in problem.markers
        }

    @cached_property
    def base(self) -> BasePlacement:
        """Where the robot's base is in the capture's frame."""
        return _place_base(self.fit, self.covariance)

    @property
    def before(self) -> MarkerDistances:
        """Figures of the distances without offsets."""
        return MarkerDistances.of(self.distances_before)

    @property
    def after(self) -> MarkerDistances:
        """Figures of the distances with the estimated offsets."""
        return MarkerDistances.of(self.distances_after)

    @property
    def held_out(self) -> MarkerDistances | None:
        """Figures of the distances in poses that were not used."""
        return None if self.distances_held_out is None else MarkerDistances.of(self.distances_held_out)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers: distances in mm, all else in SI units."""
        held_out = self.held_out
        return {
            "distances_mm": {
                "before": self.before.in_millimetres(),
                "after": self.after.in_millimetres(),
                "held_out": None if held_out is None else held_out.in_millimetres(),
            },
            "placements": {
                name: {
                    "frame": each.frame,
                    "position": each.position.tolist(),
                    "standard_errors": each.standard_errors.tolist(),
                    "rms_mm": 1e3 * rms(self.distances_after[:, number]),
                }
                for number, (name, each) in enumerate(self.placements.items())
            },
            "base": {
                "position": self.base.position.tolist(),
                "position_errors": self.base.position_errors.tolist(),
                "rotation_vector": self.base.rotation_vector.tolist(),
                "rotation_errors": self.base.rotation_errors.tolist(),
            },
        }


def _distances(problem: CalibrationProblem, solved: Solved) -> FloatArray:
    """Compute the distance of each marker in each pose, shape (n_poses, n_markers), m; NaN where it was not seen."""
    return np.stack(
        [
            np.where(block.there, np.linalg.norm(solved.reduced.linear.residuals[:, block.rows], axis=1), np.nan)
            for block in problem.blocks
            if block.kind == "marker"
        ],
        axis=1,
    )


def _place_base(fitted: CalibrationFit, covariance: FloatArray) -> BasePlacement:
    """Return the base's placement in the capture's frame, with its errors to first order."""
    problem, state, reduced = fitted.problem, fitted.solved.state, fitted.solved.reduced
    turn, place = state.laboratory
    columns = problem.shared_columns["laboratory"]
    if not problem.floating:
        errors = np.sqrt(np.diagonal(covariance)[columns])
        return BasePlacement(turn, place, errors[:3], errors[3:])
    # Unknowns of a pose follow the shared ones, and have errors of their own.
    own = reduced.inverse * fitted.unit
    by_shared = -reduced.inverse @ (reduced.whitening @ reduced.linear.by_shared)
    parts = []
    for name, lever in (
        ("turn", np.broadcast_to(np.eye(3), (len(own), 3, 3))),
        ("place", -skew(state.origin @ turn.T)),
    ):
        moved = turn @ by_shared[:, problem.pose_columns[name]]
        moved[:, :, columns] += lever
        alone = turn @ own[:, problem.pose_columns[name]]
        parts.append(np.sqrt(np.sum(alone**2, axis=2) + np.einsum("nis,st,nit->ni", moved, covariance, moved)))
    return BasePlacement(turn @ state.root, state.origin @ turn.T + place, *parts)
