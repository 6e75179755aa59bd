"""The Motion: what a recording becomes once it is clean, on one clock, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.recording import usual_rate
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

_SLOWER = 0.75
"""Share of the sample rate below which samples were left out throughout."""

GRAVITY = 9.81
"""Acceleration of free fall (m/s²), downwards."""


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion of a model, sampled evenly except over gaps, with all that was measured on the way.

    Attributes:
        time: Seconds, shape (n,).
        q: Joint positions in the model's order, without the floating base, shape (n, n_q).
        v: Joint velocities, shape (n, n_v).
        a: Joint accelerations, shape (n, n_v).
        base: Name of the link whose motion is given: the base link of the equations.
        angular_velocity: Of the base link, in its own axes, rad/s, shape (n, 3).
        angular_acceleration: Of the base link, in its own axes, rad/s², shape (n, 3).
        proper_acceleration: ``a − g`` of the origin of the base link's frame, in its own axes, m/s², shape (n, 3).
        wrenches: By sensor, ``[fx fy fz nx ny nz]`` on the robot in the sensor's frame, shape (n, 6).
        torques: By joint, the measured torque or force, shape (n,) (a ball joint: (n, 3)).
        contacts: By sole, whether it stands on the ground, shape (n,); a sole not named always does.
        sample_rate: Samples a second.
        bandwidth: Noise-equivalent bandwidth (Hz) of the filter that all channels passed: that of the ideal one which
            lets as much white noise through; None where there was none.
        orientation: Quaternion x y z w of the base link in the world, shape (n, 4), where it is known.
        origin: Which recording it was made of (`Recording.origin`); empty where that is not known.
        notes: What was chosen on the way and why, one sentence each.
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
    orientation: FloatArray | None = None
    origin: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("time", "q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration"):
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
        """How many independent samples the motion is worth: a bandwidth of f Hz leaves 2 f of them a second."""
        if self.bandwidth is None:
            return float(len(self))
        return len(self) * min(1.0, 2.0 * self.bandwidth / self.sample_rate)

    def between(self, start: int, stop: int) -> Motion:
        """Gives the samples from `start` to before `stop`, as views."""
        return self._at(slice(start, stop), self.sample_rate)

    def thinned(self, step: int) -> Motion:
        """Gives every `step`-th sample, as views."""
        return self._at(slice(None, None, step), self.sample_rate / step)

    def where(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Motion:
        """Gives the samples that a mask of shape (n,) chooses.

        Where it chooses every so many-th, the sample rate is theirs; gaps leave it as it is.
        """
        part = self._at(chosen, self.sample_rate)
        rate = usual_rate(part.time)
        return replace(part, sample_rate=rate) if 0.0 < rate < _SLOWER * self.sample_rate else part

    def _at(self, part: Any, sample_rate: float) -> Motion:
        return replace(
            self,
            sample_rate=sample_rate,
            time=self.time[part],
            q=self.q[part],
            v=self.v[part],
            a=self.a[part],
            angular_velocity=self.angular_velocity[part],
            angular_acceleration=self.angular_acceleration[part],
            proper_acceleration=self.proper_acceleration[part],
            wrenches={name: values[part] for name, values in self.wrenches.items()},
            torques={name: values[part] for name, values in self.torques.items()},
            contacts={name: values[part] for name, values in self.contacts.items()},
            orientation=None if self.orientation is None else self.orientation[part],
        )

    def chunks(self, size: int) -> Iterator[Motion]:
        """Gives the motion in pieces of at most `size` samples, about equally long, as views."""
        pieces = -(-len(self) // size)
        for number in range(pieces):
            yield self.between(number * len(self) // pieces, (number + 1) * len(self) // pieces)

    def check(self, model: Model) -> None:
        """Checks that the motion fits a model.

        Raises:
            MotionError: An array has the wrong shape or a number that is not finite, or a name is unknown; the message
                says which sample and which channel.
        """
        count = len(self)
        if count == 0:
            raise MotionError("the motion has no samples")
        base_q, base_v = (7, 6) if model.base == "floating" else (0, 0)
        shapes = {
            "time": (self.time, ()),
            "q": (self.q, (model.position_size - base_q,)),
            "v": (self.v, (model.velocity_size - base_v,)),
            "a": (self.a, (model.velocity_size - base_v,)),
            "angular_velocity": (self.angular_velocity, (3,)),
            "angular_acceleration": (self.angular_acceleration, (3,)),
            "proper_acceleration": (self.proper_acceleration, (3,)),
        }
        for name, values in self.wrenches.items():
            sensors = [sensor.name for sensor in model.setup.wrench_sensors]
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
            raise MotionError(f"the base link is {self.base!r}; give a link's name", channel="base")
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


def motion_from_generalized(
    model: Model, time: Any, q: Any, v: Any, a: Any, *, gravity: float = GRAVITY, **measured: Any
) -> Motion:
    """Gives the Motion of generalised coordinates in Pinocchio's manner, with the model's root as base link.

    Args:
        model: The model.
        time: Increasing seconds, shape (n,); evenly spaced except over gaps.
        q: Configurations, shape (n, position_size): the floating base's position and quaternion first.
        v: Velocities, shape (n, velocity_size): the floating base's in its own axes.
        a: Accelerations, likewise (the derivatives of `v`).
        gravity: Acceleration of free fall, along −z of the world, m/s².
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
    widths = {"q": (positions, model.position_size), "v": (velocities, model.velocity_size)}
    widths["a"] = (accelerations, model.velocity_size)
    for name, (values, width) in widths.items():
        if values.shape != (count, width):
            raise MotionError(
                f"{name} has the shape {values.shape}; {count} samples need {(count, width)}", channel=name
            )
    rate = usual_rate(times) if count > 1 else 1.0
    root = model.bodies[0].name
    if model.base == "fixed":
        zeros = np.zeros((count, 3))
        up = model.bodies[0].placement.rotation[2]
        pull = np.tile(gravity * up, (count, 1))
        return Motion(
            times, positions, velocities, accelerations, root, zeros, zeros, pull, sample_rate=rate, **measured
        )
    orientation = positions[:, 3:7] / np.linalg.norm(positions[:, 3:7], axis=1, keepdims=True)
    x, y, z, w = orientation.T
    up = np.stack([2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)], axis=1)
    # The base's velocity is written in its own turning axes: its acceleration has a part from their turning.
    pull = accelerations[:, :3] + np.cross(velocities[:, 3:6], velocities[:, :3]) + gravity * up
    return Motion(
        times,
        positions[:, 7:],
        velocities[:, 6:],
        accelerations[:, 6:],
        root,
        velocities[:, 3:6],
        accelerations[:, 3:6],
        pull,
        sample_rate=rate,
        orientation=orientation,
        **measured,
    )


_ARRAYS = ("time", "q", "v", "a", "wrenches", "torques", "contacts", "bandwidth", "gravity")


def motion_from_arrays(model: Model, arrays: Mapping[str, Any]) -> Motion:
    """Gives the Motion of plain arrays by name; see `motion_from_generalized`.

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
