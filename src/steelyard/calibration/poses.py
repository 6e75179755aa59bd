"""The poses from which offsets are calibrated: what encoders, inertial sensors and markers said in each."""

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

_DAYS = 1e6
_UNIT = 0.02
"""How far the length of a quaternion may be from one."""


@dataclass(frozen=True, eq=False)
class PoseSet:
    """Poses of a robot, each a set of readings that belong together.

    Attributes:
        model: The model.
        time: Seconds at which each was taken, shape (n,); their numbers where there is no clock.
        positions: Readings of all joints in the model's order, shape (n, n_positions), rad or m.
        orientations: Of inertial sensors, by name: quaternions x y z w from the sensor's axes to the world's, shape
            (n, 4); not a number where there is no reading.
        markers: Positions of markers in the laboratory's frame, by name, shape (n, 3), m; not a number where a marker
            is not seen.
        touching: Whether a contact or a touch was on its place, by name, shape (n,); those not named always were.
        recordings: Number of the recording that each came from, shape (n,); clocks of different ones do not compare.
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
        """Gives some of the poses, by number, slice or mask."""
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
        """Times that compare: poses of different recordings are days apart, shape (n,), s."""
        return np.asarray(self.time + _DAYS * (0 if self.recordings is None else self.recordings))

    def touches(self, name: str) -> NDArray[np.bool_]:
        """Gives whether a contact was on its place in each pose, shape (n,)."""
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
    """Gives quaternions of length one; one that is none is an error, not a rounding."""
    lengths = np.linalg.norm(values, axis=1)
    there = np.isfinite(lengths)
    values = np.where(there[:, None], values, np.nan)
    refuse_lengths(name, lengths[there])
    return np.asarray(values / np.where(there, lengths, 1.0)[:, None])


def refuse_lengths(name: str, lengths: FloatArray) -> None:
    """Refuses quaternions of an inertial sensor whose length is not one.

    Raises:
        RecordingError: Some have another.
    """
    wrong = np.flatnonzero(np.abs(lengths - 1.0) > _UNIT)
    if len(wrong):
        raise RecordingError(
            f"the quaternion of {name!r} has the length {lengths[wrong[0]]:.3g}, and {len(wrong)} of {len(lengths)} "
            f"readings have another than one; check that '{name}.quat.x' to '.w' are a quaternion, not angles or a "
            "scaled copy",
            column=f"{name}.quat.x",
        )
