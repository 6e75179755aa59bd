"""Offsets: the result of a calibration, its uncertainty, and what is not observable."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.spatial.transform import Rotation
from scipy.stats import t as student

from steelyard.calibration.heights import rms
from steelyard.calibration.offsets_text import describe_offsets
from steelyard.motion import units_of, write_calibrated_model, write_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.error_correlation import ErrorCorrelation
    from steelyard.calibration.fitting import CalibrationFit
    from steelyard.calibration.marker_fit import MarkerFit
    from steelyard.calibration.observability import Observability
    from steelyard.calibration.pose_noise import Weights
    from steelyard.calibration.poses import PoseSet
    from steelyard.calibration.suspects import Suspect
    from steelyard.model import Model


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The estimated offsets on poses that were not used.

    Attributes:
        pose_count: How many there are.
        cost_before: Mean over the poses, without offsets, of [yamane2011] ``½ (L_k + C_k)``, m².
        cost_after: The same with the offsets.
        heights_before: Root mean square of corners' heights over their plane without offsets, m.
        heights_after: The same with the offsets.
    """

    pose_count: int
    cost_before: float
    cost_after: float
    heights_before: float
    heights_after: float


@dataclass(frozen=True, eq=False)
class Offsets:
    """Joint offsets: what must be added to an encoder's reading to get the true angle.

    Attributes:
        model: The model.
        fit: The fit behind it.
        observability: Observability of the offsets from the poses.
        cost_before: Mean over the poses of [yamane2011] ``½ (L_k + C_k)`` without offsets, m².
        cost_after: The same with the offsets.
        heights_before: Height of each corner of the contacts over the mean of its plane, in each pose, without offsets
            and with the root oriented by the inertial sensors, shape (n_poses, n_corners), m; NaN where a contact did
            not touch.
        heights_after: The same with the estimated offsets and root orientations.
        roots_before: Rotation of the root in the world without offsets, shape (n_poses, 3, 3).
        picked: Indices of the poses that were used among the candidates, shape (n_poses,).
        suspect_poses: What did not fit, pose by pose; poses by their index among the candidates.
        held_out: The offsets on poses that were not used, or None where there are none.
        error_correlation: Correlation of orientation errors between poses; None where they are independent.
        marker_fit: Distances of markers, and where they and the base are; None without markers.
        notes: Remarks, a sentence each.
        provenance: Hashes of model and recordings, version, options.
    """

    model: Model
    fit: CalibrationFit
    observability: Observability
    cost_before: float
    cost_after: float
    heights_before: FloatArray
    heights_after: FloatArray
    roots_before: FloatArray
    picked: NDArray[np.int64]
    suspect_poses: tuple[Suspect, ...]
    held_out: HeldOut | None
    error_correlation: ErrorCorrelation | None
    marker_fit: MarkerFit | None = None
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def joints(self) -> tuple[str, ...]:
        """The joints whose offsets were estimated."""
        return self.fit.problem.joints

    @property
    def poses(self) -> PoseSet:
        """The poses that were used."""
        return self.fit.problem.poses

    @property
    def noise(self) -> Weights:
        """The noise that was estimated or given, or plain sums."""
        return self.fit.weights

    @cached_property
    def values(self) -> dict[str, float]:
        """Offset of each joint, rad (m where it slides).

        Offsets that are not `observable` one by one may be so in combination: use all of them, or none.
        """
        found = self.fit.solved.state.offsets[self.fit.problem.free]
        return dict(zip(self.joints, found.tolist(), strict=True))

    @cached_property
    def standard_errors(self) -> dict[str, float]:
        """Standard error of each offset; along undetermined directions that of the prior."""
        return dict(zip(self.joints, self.observability.standard_errors.tolist(), strict=True))

    @cached_property
    def observable(self) -> dict[str, bool]:
        """Whether each offset is observable from the poses."""
        return dict(zip(self.joints, self.observability.observable.tolist(), strict=True))

    @property
    def undetermined(self) -> tuple[str, ...]:
        """What is not observable, a sentence each."""
        return self.observability.sentences()

    @property
    def covariance(self) -> FloatArray:
        """Of the offsets' errors, in the order of `joints`, shape (n, n)."""
        return self.observability.covariance

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return the confidence interval of each offset."""
        reach = float(student.ppf(0.5 * (1.0 + level), max(self.fit.freedoms, 1)))
        return {
            joint: (value - reach * self.standard_errors[joint], value + reach * self.standard_errors[joint])
            for joint, value in self.values.items()
        }

    @property
    def mountings(self) -> dict[str, FloatArray]:
        """Misalignment of each inertial sensor against its frame, as a rotation vector, rad."""
        return {name: Rotation.from_matrix(turn).as_rotvec() for name, turn in self.fit.solved.state.mountings.items()}

    def summary(self, width: int | None = None) -> str:
        """Return the offsets as text.

        Args:
            width: Characters in a line, 72 at least; by default 96.
        """
        return describe_offsets(self, width)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain numbers and texts."""
        intervals = self.intervals()
        return {
            "model": self.model.name,
            "joints": {
                joint: {
                    "offset": self.values[joint],
                    "standard_error": self.standard_errors[joint],
                    "low": intervals[joint][0],
                    "high": intervals[joint][1],
                    "observable": self.observable[joint],
                }
                for joint in self.joints
            },
            "undetermined": list(self.undetermined),
            "pose_count": len(self.poses),
            "cost_before": self.cost_before,
            "cost_after": self.cost_after,
            "heights_before": rms(self.heights_before),
            "heights_after": rms(self.heights_after),
            "noise": dict(vars(self.noise)),
            "suspect_poses": [vars(suspect) for suspect in self.suspect_poses],
            "held_out": None if self.held_out is None else vars(self.held_out),
            "markers": None if self.marker_fit is None else self.marker_fit.to_dict(),
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    def write(self, path: str | Path) -> Path:
        """Write the offsets: ``.json`` for `reconstruct_motion`, ``.csv`` as a table for the firmware.

        With the model's own ending (``.urdf``), the model's file is written with joint origins rotated by the offsets,
        so that it takes raw encoder readings.

        Raises:
            MotionError: The ending is none of these, or the file cannot be written.
            ModelError: The model's file cannot take offsets.
        """
        target = Path(path)
        if target.suffix.lower() in (".urdf", ".xml", ".mjcf"):
            return write_calibrated_model(self.model, self.values, target).path
        write_offsets(
            target,
            self.values,
            self.standard_errors,
            self.observable,
            units=units_of(self.model),
            extra=self.provenance,
        )
        return target
