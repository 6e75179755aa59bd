"""Poses for calibration: the readings of encoders, inertial sensors and markers in each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

_RECORDING_GAP = 1e6
"""Seconds by which recordings are set apart on one clock: longer than any error is correlated."""

_UNIT = 0.02
"""Deviation of a quaternion's norm from one that rounding in a log file may cause; set by judgement."""


@dataclass(frozen=True, eq=False)
class PoseSet:
    """Poses of a robot, each a set of readings that belong together.

    Attributes:
        model: The model.
        time: Seconds at which each was taken, shape (n,); their indices where there is no clock.
        positions: Readings of all joints in the model's order, shape (n, n_positions), rad or m.
        orientations: Of inertial sensors, by name: quaternions x y z w from the sensor's axes to the world's, shape
            (n, 4); NaN where there is no reading.
        markers: Positions of markers in the laboratory's frame, by name, shape (n, 3), m; NaN where a marker is
            not seen.
        touching: Whether a contact or a touch is in contact, by name, shape (n,); those not named always are.
        recordings: Index of the recording of each pose, shape (n,); their clocks are not comparable.
    """

    model: Model
    time: FloatArray
    positions: FloatArray
    orientations: Mapping[str, FloatArray] = field(default_factory=dict)
    markers: Mapping[str, FloatArray] = field(default_factory=dict)
    touching: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    recordings: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        size = self.model.position_size - (7 if self.model.base == "floating" else 0)
        positions = _array("positions", self.positions, size)
        count = len(positions)
        time = np.arange(count, dtype=np.float64) if self.time is None else np.array(self.time, dtype=np.float64)
        if time.shape != (count,):
            raise RecordingError(
                f"{count} poses have times of the shape {time.shape}; give one for each", column="time"
            )
        if not np.all(np.isfinite(positions)):
            wrong = int(np.flatnonzero(~np.isfinite(positions).all(axis=1))[0])
            raise RecordingError(f"pose {wrong} has a joint position that is not a number; leave the pose out")
        imus = [imu.name for imu in self.model.setup.imus]
        orientations = {}
        for name, values in self.orientations.items():
            if name not in imus:
                raise RecordingError(
                    f"the setup of {self.model.name} has no inertial sensor {name!r}{did_you_mean(name, imus)}",
                    column=name,
                )
            orientations[name] = _quaternions(name, _array(name, values, 4))
        markers = {name: _array(name, values, 3) for name, values in self.markers.items()}
        touching = {name: np.array(values, dtype=bool) for name, values in self.touching.items()}
        recordings = np.zeros(count, dtype=np.int64) if self.recordings is None else np.array(self.recordings)
        for name, values in {**orientations, **markers, **touching, "recordings": recordings}.items():
            if len(values) != count:
                raise RecordingError(f"{name!r} has {len(values)} readings in {count} poses", column=name)
        for name, value in (
            ("time", time), ("positions", positions), ("recordings", recordings),
            ("orientations", MappingProxyType(orientations)), ("markers", MappingProxyType(markers)),
            ("touching", MappingProxyType(touching)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.positions)

    def pick(self, which: Any) -> PoseSet:
        """Return some of the poses, by index, slice or mask."""
        return replace(
            self,
            time=self.time[which],
            positions=self.positions[which],
            orientations={name: values[which] for name, values in self.orientations.items()},
            markers={name: values[which] for name, values in self.markers.items()},
            touching={name: values[which] for name, values in self.touching.items()},
            recordings=None if self.recordings is None else self.recordings[which],
        )

    @property
    def clock(self) -> FloatArray:
        """Times on one clock: poses of different recordings are days apart, shape (n,), s."""
        return np.asarray(self.time + _RECORDING_GAP * (0 if self.recordings is None else self.recordings))

    def touches(self, name: str) -> NDArray[np.bool_]:
        """Return whether a contact touches in each pose, shape (n,)."""
        return self.touching.get(name, np.ones(len(self), dtype=bool))


def _array(name: str, values: Any, width: int) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RecordingError(f"{name!r} of the poses must be numbers, shape (n, {width})", column=name) from error
    if array.ndim != 2 or array.shape[1] != width:
        raise RecordingError(f"{name!r} of the poses has the shape {array.shape}; give (n, {width})", column=name)
    array.setflags(write=False)
    return array


def _quaternions(name: str, values: FloatArray) -> FloatArray:
    """Normalise quaternions, which must be of length one but for rounding."""
    lengths = np.linalg.norm(values, axis=1)
    there = np.isfinite(lengths)
    values = np.where(there[:, None], values, np.nan)
    check_quaternion_lengths(name, lengths[there])
    return np.asarray(values / np.where(there, lengths, 1.0)[:, None])


def check_quaternion_lengths(name: str, lengths: FloatArray) -> None:
    """Raise where quaternions of an inertial sensor have a norm other than one.

    Raises:
        RecordingError: Some have.
    """
    wrong = np.flatnonzero(np.abs(lengths - 1.0) > _UNIT)
    if len(wrong):
        raise RecordingError(
            f"the quaternion of {name!r} has the norm {lengths[wrong[0]]:.3g}; {len(wrong)} of {len(lengths)} readings "
            f"have a norm other than one; check that '{name}.quat.x' to '.w' are a quaternion, not angles or a "
            "scaled copy",
            column=f"{name}.quat.x",
        )
