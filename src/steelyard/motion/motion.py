"""The Motion: a recording smoothed, on one clock, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.recording import usual_rate
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

_DOWNSAMPLED = 0.75
"""Usual rate of selected samples, as a share of the sample rate, below which the selection counts as downsampling. Set
by judgement: every other sample gives 0.5, gaps alone leave 1."""

GRAVITY = 9.81
"""Gravitational acceleration, m/s²: one value for equations, conventions and the laboratory's world."""

SAMPLED = ("time", "q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration")
"""Fields of a Motion that are plain arrays over samples."""


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion of a model, evenly sampled except at gaps, with the measured forces.

    Attributes:
        time: Times, s, shape (n,).
        q: Joint positions in the model's order, without the floating base, shape (n, n_q).
        v: Joint velocities, shape (n, n_v).
        a: Joint accelerations, shape (n, n_v).
        base: Name of the base link of the equations.
        angular_velocity: Angular velocity of the base link, in its own axes, rad/s, shape (n, 3).
        angular_acceleration: Angular acceleration of the base link, in its own axes, rad/s², shape (n, 3).
        proper_acceleration: ``a − g`` of the origin of the base link's frame, in its own axes, m/s², shape (n, 3).
        wrenches: By sensor, ``[fx fy fz nx ny nz]`` on the robot in the sensor's frame, shape (n, 6).
        torques: By joint, the measured torque or force, shape (n,) (a ball joint: (n, 3)).
        contacts: By sole, whether it is on the ground, shape (n,); a sole not named always is.
        sample_rate: Sample rate, Hz.
        bandwidth: Noise-equivalent bandwidth (Hz) of the filter of all channels; None without a filter.
        cutoff: Frequency (Hz) at half power of that filter; None without one.
        source: Where the base link's motion comes from: "imu", "sole", "pose" or "fixed"; empty if unknown.
        orientation: Quaternion x y z w of the base link in the world, shape (n, 4), or None.
        origin: Identity of the recording (`Recording.origin`); empty if unknown.
        notes: Choices made by the reconstruction, one sentence each.
    """

    time: FloatArray
    q: FloatArray
    v: FloatArray
    a: FloatArray
    base: str
    angular_velocity: FloatArray
    angular_acceleration: FloatArray
    proper_acceleration: FloatArray
    wrenches: Mapping[str, FloatArray] = field(default_factory=dict)
    torques: Mapping[str, FloatArray] = field(default_factory=dict)
    contacts: Mapping[str, np.ndarray[Any, np.dtype[np.bool_]]] = field(default_factory=dict)
    sample_rate: float = 1.0
    bandwidth: float | None = None
    cutoff: float | None = None
    source: str = ""
    orientation: FloatArray | None = None
    origin: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in SAMPLED:
            object.__setattr__(self, name, _as_numbers(getattr(self, name), name))
        for group in ("wrenches", "torques"):
            arrays = {name: _as_numbers(values, f"{group} of {name}") for name, values in getattr(self, group).items()}
            object.__setattr__(self, group, arrays)
        object.__setattr__(self, "notes", tuple(self.notes))
        contacts = {name: np.asarray(values, dtype=np.bool_) for name, values in self.contacts.items()}
        object.__setattr__(self, "contacts", contacts)
        if self.time.ndim != 1:
            raise MotionError(f"time has the shape {self.time.shape}; it must be one row of seconds", channel="time")
        if not (np.isfinite(self.sample_rate) and self.sample_rate > 0.0):
            raise MotionError(f"the sample rate is {self.sample_rate}; times must increase", channel="time")
        if self.bandwidth is not None and not self.bandwidth > 0.0:
            raise MotionError(f"the bandwidth is {self.bandwidth} Hz; it must be positive", channel="bandwidth")

    def __len__(self) -> int:
        return len(self.time)

    @property
    def effective_count(self) -> float:
        """Number of independent samples: a bandwidth of f Hz leaves 2 f per second."""
        if self.bandwidth is None:
            return float(len(self))
        return len(self) * min(1.0, 2.0 * self.bandwidth / self.sample_rate)

    def between(self, start: int, stop: int) -> Motion:
        """Return the samples from `start` to before `stop`, as views."""
        return self._at(slice(start, stop), self.sample_rate)

    def thinned(self, step: int) -> Motion:
        """Return every `step`-th sample, as views."""
        return self._at(slice(None, None, step), self.sample_rate / step)

    def where(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Motion:
        """Return the samples that a mask of shape (n,) selects.

        A mask that downsamples evenly lowers the sample rate; gaps leave it unchanged.
        """
        part = self._at(chosen, self.sample_rate)
        rate = usual_rate(part.time)
        return replace(part, sample_rate=rate) if 0.0 < rate < _DOWNSAMPLED * self.sample_rate else part

    def _at(self, part: Any, sample_rate: float) -> Motion:
        fields: dict[str, Any] = {name: getattr(self, name)[part] for name in SAMPLED}
        for group in ("wrenches", "torques", "contacts"):
            fields[group] = {name: values[part] for name, values in getattr(self, group).items()}
        orientation = None if self.orientation is None else self.orientation[part]
        return replace(self, sample_rate=sample_rate, orientation=orientation, **fields)

    def chunks(self, size: int) -> Iterator[Motion]:
        """Yield the motion in pieces of at most `size` samples, of about equal length, as views."""
        pieces = -(-len(self) // size)
        for number in range(pieces):
            yield self.between(number * len(self) // pieces, (number + 1) * len(self) // pieces)

    def check(self, model: Model) -> None:
        """Check the motion against a model.

        Raises:
            MotionError: An array has the wrong shape or a value that is not finite, or a name is unknown; the message
                names sample and channel.
        """
        count = len(self)
        if count == 0:
            raise MotionError("the motion has no samples")
        base_q, base_v = (7, 6) if model.base == "floating" else (0, 0)
        joint_q, joint_v = model.position_size - base_q, model.velocity_size - base_v
        widths = ((), (joint_q,), (joint_v,), (joint_v,), (3,), (3,), (3,))
        shapes: dict[str, tuple[FloatArray, tuple[int, ...]]] = {
            name: (getattr(self, name), width) for name, width in zip(SAMPLED, widths, strict=True)
        }
        sensors = [sensor.name for sensor in model.setup.wrench_sensors]
        for name, values in self.wrenches.items():
            if name not in sensors:
                raise MotionError(
                    f"{model.name} has no wrench sensor {name!r}{did_you_mean(name, sensors)}", channel=name
                )
            shapes[f"wrench of {name}"] = (values, (6,))
        for name, values in self.torques.items():
            size = model.joint(name).velocity_size
            shapes[f"torque of {name}"] = (values, () if size == 1 else (size,))
        self._check_contacts(model)
        for name, (values, shape) in shapes.items():
            if np.shape(values) != (count, *shape):
                raise MotionError(
                    f"{name} has the shape {np.shape(values)}; {count} samples of this model need {(count, *shape)}",
                    channel=name,
                )
            finite = np.isfinite(values).reshape(count, -1).all(axis=1)
            if not finite.all():
                sample = int(np.flatnonzero(~finite)[0])
                raise MotionError(
                    f"{name} is not finite at sample {sample} (t = {self.time[sample]:.4g} s); mask or drop such "
                    "samples before gathering",
                    channel=name,
                    sample=sample,
                )
        self._check_quaternions(model, base_q)
        self._check_base(model)

    def _check_contacts(self, model: Model) -> None:
        soles = [sole.name for sole in model.setup.soles]
        for name, touching in self.contacts.items():
            if name not in soles:
                raise MotionError(f"{model.name} has no sole {name!r}{did_you_mean(name, soles)}", channel=name)
            if touching.shape != self.time.shape:
                raise MotionError(
                    f"contacts of {name!r} have the shape {touching.shape}, not {self.time.shape}", channel=name
                )

    def _check_quaternions(self, model: Model, base_q: int) -> None:
        for index, body in enumerate(model.bodies):
            if body.joint.kind == "ball":
                start = int(model.tree.q_starts[index]) - base_q
                short = np.flatnonzero(np.linalg.norm(self.q[:, start : start + 4], axis=1) < 1e-6)
                if len(short):
                    raise MotionError(
                        f"the quaternion of ball joint {body.joint.name!r} is zero at sample {short[0]}; drop it",
                        channel=body.joint.name,
                        sample=int(short[0]),
                    )

    def _check_base(self, model: Model) -> None:
        if not isinstance(self.base, str):
            raise MotionError(f"the base link is {self.base!r}; give the name of a link", channel="base")
        frame = model.frame(self.base)
        link = model.bodies[frame.body].name
        if link != self.base:
            raise MotionError(
                f"the motion is given at {self.base!r}, which is a frame on the link {link!r}; give the motion of that "
                "link's own frame",
                channel="base",
            )


def _as_numbers(values: Any, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise MotionError(f"{name} is not an array of real numbers", channel=name)
    return array.astype(np.float64, copy=False)


def join_motions(pieces: Sequence[Motion]) -> Motion:
    """Concatenate the pieces of a motion, in their order.

    A sole whose contacts only some pieces name is on the ground in the others, as it is in a Motion that does not name
    it. The orientation is kept where all pieces have it.

    Args:
        pieces: At least one piece; all with the same base link, sensors and rate.

    Raises:
        MotionError: There is no piece, or a piece has another base link or other sensors.
    """
    if not pieces:
        raise MotionError("there is no motion to join")
    first = pieces[0]
    if len(pieces) == 1:
        return first
    for piece in pieces[1:]:
        if piece.base != first.base:
            raise MotionError(
                f"motions at {first.base!r} and at {piece.base!r} cannot be joined; reconstruct both with one base",
                channel="base",
            )
        other = {*first.wrenches, *first.torques} ^ {*piece.wrenches, *piece.torques}
        if other:
            name = min(other)
            raise MotionError(f"{name!r} is measured in some of the motions only; gather them as a list", channel=name)
    fields: dict[str, Any] = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in SAMPLED}
    for group in ("wrenches", "torques"):
        parts = [getattr(piece, group) for piece in pieces]
        fields[group] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    soles = dict.fromkeys(name for piece in pieces for name in piece.contacts)
    fields["contacts"] = {
        name: np.concatenate([piece.contacts.get(name, np.ones(len(piece), dtype=np.bool_)) for piece in pieces])
        for name in soles
    }
    orientations = [piece.orientation for piece in pieces if piece.orientation is not None]
    orientation = np.concatenate(orientations) if len(orientations) == len(pieces) else None
    return replace(first, orientation=orientation, **fields)


def motion_from_generalized(
    model: Model, time: Any, q: Any, v: Any, a: Any, *, gravity: float = GRAVITY, **measured: Any
) -> Motion:
    """Build a Motion from generalised coordinates in Pinocchio's convention, with the model's root as base link.

    Args:
        model: The model.
        time: Increasing times, s, shape (n,); evenly spaced except at gaps.
        q: Configurations, shape (n, position_size): the floating base's position and quaternion first.
        v: Velocities, shape (n, velocity_size): the floating base's in its own axes.
        a: Accelerations, likewise (the derivatives of `v`).
        gravity: Gravitational acceleration, along −z of the world, m/s².
        **measured: `wrenches`, `torques`, `contacts`, `bandwidth` of the Motion.

    Raises:
        MotionError: Times do not increase, or an array has the wrong shape.
    """
    arrays = {"time": time, "q": q, "v": v, "a": a}
    times, positions, velocities, accelerations = (_as_numbers(values, name) for name, values in arrays.items())
    if times.ndim != 1 or not np.all(np.isfinite(times)):
        raise MotionError("time must be one row of increasing seconds", channel="time")
    back = np.flatnonzero(np.diff(times) <= 0.0)
    if len(back):
        raise MotionError(
            f"time is not increasing after sample {back[0]} ({times[back[0]]:.4g} s); sort the samples, or gather from "
            "a list of motions",
            channel="time",
            sample=int(back[0]),
        )
    count = len(times)
    widths = (model.position_size, model.velocity_size, model.velocity_size)
    for name, values, width in zip("qva", (positions, velocities, accelerations), widths, strict=True):
        if values.shape != (count, width):
            raise MotionError(
                f"{name} has the shape {values.shape}; {count} samples need {(count, width)}", channel=name
            )
    rate = usual_rate(times) if count > 1 else 1.0
    root = model.bodies[0].name
    if model.base == "fixed":
        zeros = np.zeros((count, 3))
        joints = (positions, velocities, accelerations)
        base = (zeros, zeros, np.tile(gravity * model.bodies[0].placement.rotation[2], (count, 1)))
        return Motion(times, *joints, root, *base, sample_rate=rate, **measured)
    orientation = positions[:, 3:7] / np.linalg.norm(positions[:, 3:7], axis=1, keepdims=True)
    x, y, z, w = orientation.T
    up = np.stack([2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)], axis=1)
    # The base velocity is expressed in rotating axes: its acceleration has a term ω × v.
    proper = accelerations[:, :3] + np.cross(velocities[:, 3:6], velocities[:, :3]) + gravity * up
    joints = (positions[:, 7:], velocities[:, 6:], accelerations[:, 6:])
    base = (velocities[:, 3:6], accelerations[:, 3:6], proper)
    return Motion(times, *joints, root, *base, sample_rate=rate, orientation=orientation, **measured)


_ARRAYS = ("time", "q", "v", "a", "wrenches", "torques", "contacts", "bandwidth", "gravity")


def motion_from_arrays(model: Model, arrays: Mapping[str, Any]) -> Motion:
    """Build a Motion from plain arrays by name; see `motion_from_generalized`.

    Raises:
        MotionError: An array is missing, or a name is unknown.
    """
    for name in arrays:
        if name not in _ARRAYS:
            raise MotionError(f"there is no array {name!r} in a motion{did_you_mean(name, _ARRAYS)}", channel=name)
    for name in _ARRAYS[:4]:
        if name not in arrays:
            raise MotionError(f"the array {name!r} is missing; a motion needs time, q, v and a", channel=name)
    return motion_from_generalized(model, **arrays)
