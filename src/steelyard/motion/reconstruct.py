"""From a Recording to a Motion: one clock, smooth, with derivatives, at a base link whose motion is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.motion.base_state import BaseSource, FixedBase, ImuBase, PoseBase, SoleBase
from steelyard.motion.channels import read_channels
from steelyard.motion.cutoff import choose_cutoff
from steelyard.motion.joint_state import (
    POSITIONS,
    Positions,
    check_offsets,
    measured_columns,
    position_columns,
    read_joints,
    read_torques,
    read_wrenches,
)
from steelyard.motion.motion import Motion
from steelyard.motion.smoothing import KINDS, Smoothing, SmoothingKind, butterworth, local_cubic, local_cubic_of_cutoff
from steelyard.motion.stretches import LONGEST_GAP, even_stretches, find_runs, sample_rate
from steelyard.recording.resampling import usual_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.model import Model
    from steelyard.model.setup import Imu, Sole
    from steelyard.recording import Recording

Base = Literal["imu", "sole", "pose", "fixed"]
BASES: tuple[Base, ...] = ("imu", "sole", "pose", "fixed")

_WORTH_TELLING = 0.01
_PIECE_ROWS = 16384
_EDGES_A_PIECE = 4
"""A piece is at least so many times as long as what it shares with its neighbours."""


def reconstruct_motion(
    model: Model,
    recording: Recording,
    *,
    base: Base | None = None,
    imu: str | None = None,
    sole: str | None = None,
    smoothing: SmoothingKind = "butterworth",
    cutoff: float | None = None,
    order: int = 4,
    window: float | None = None,
    decimate: bool = True,
    offsets: Mapping[str, float] | None = None,
    positions: Positions = "q",
) -> Motion:
    """Gives the motion that a recording tells: smooth, with derivatives, and with all that was measured on the way.

    Every channel (joint positions, inertial sensor, wrenches, torques) passes the same filter without a shift in time,
    and is differentiated there. Samples whose neighbours are not all there (the ends, and the edges of gaps) are left
    out, not guessed. Of the rest, about two are kept for each period of the cutoff: more would say nothing new.

    Uneven times are put on even ones first. Where the clock or a channel has a gap, the motion ends and begins again
    behind it; `Motion.notes` tell of it, as of everything that was chosen.

    Args:
        model: The model.
        recording: The recording, in memory or not.
        base: What tells of the base link's motion. "imu": an inertial sensor; its link is the base link, and neither
            position nor orientation is needed. "sole": a sole that stands flat and still throughout. "pose": the
            columns ``base.position.x`` … and ``base.quat.x`` …, of the root in the world. "fixed": nothing, it does not
            move. By default "fixed" for a fixed model, "sole" with ``positions="q_command"``, else "imu".
        imu: Name of the inertial sensor; by default the first of the setup that is recorded.
        sole: Name of the sole; by default the first of the setup.
        smoothing: "butterworth", or "cubic" for local cubic polynomials; see `Smoothing`.
        cutoff: Frequency (Hz) at which the power is halved; by default chosen from the data, see `choose_cutoff`.
        order: Of the Butterworth filter, which passes twice.
        window: Seconds on each side of a local cubic, instead of a cutoff.
        decimate: Whether samples that say nothing new are left out.
        offsets: Of the encoders, by joint: what is added to their readings, rad or m.
        positions: "q" for measured joint positions, "q_command" for commanded ones (as instruments, say).

    Raises:
        MotionError: The arguments do not fit each other, the model or the recording, or no stretch is long enough.
        RecordingError: A column is missing.
    """
    plan = _plan(model, recording, base, imu, sole, smoothing, cutoff, order, window, decimate, offsets, positions)
    return plan.whole()


def stream_motion(
    model: Model,
    recording: Recording,
    *,
    base: Base | None = None,
    imu: str | None = None,
    sole: str | None = None,
    smoothing: SmoothingKind = "butterworth",
    cutoff: float | None = None,
    order: int = 4,
    window: float | None = None,
    decimate: bool = True,
    offsets: Mapping[str, float] | None = None,
    positions: Positions = "q",
    rows: int | None = None,
) -> Iterator[Motion]:
    """Gives the motion of a recording of any length, piece by piece, as `gather_evidence` takes it.

    Pieces share what the filter needs, so that together they are what `reconstruct_motion` gives.

    Args:
        model: The model.
        recording: The recording, in memory or not.
        base: As for `reconstruct_motion`, and so are all others.
        imu: Name of the inertial sensor.
        sole: Name of the sole.
        smoothing: Kind of the filter.
        cutoff: Frequency (Hz) at which the power is halved.
        order: Of the Butterworth filter.
        window: Seconds on each side of a local cubic.
        decimate: Whether samples that say nothing new are left out.
        offsets: Of the encoders, by joint.
        positions: "q" or "q_command".
        rows: Of the recording in each piece, about.

    Raises:
        MotionError: As for `reconstruct_motion`.
        RecordingError: A column is missing.
    """
    if rows is not None and not (isinstance(rows, int | np.integer) and rows >= 1):
        raise MotionError(f"a piece of {rows!r} rows holds nothing; give a whole number, at least one")
    plan = _plan(model, recording, base, imu, sole, smoothing, cutoff, order, window, decimate, offsets, positions)
    return plan.pieces(rows)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything that was asked for or chosen.

    Attributes:
        model: The model.
        recording: The recording.
        source: What tells of the base link's motion.
        smoothing: The filter.
        decimate: Whether samples that say nothing new are left out.
        offsets: Of the encoders, by joint.
        positions: Which joint positions are used.
        notes: What was chosen.
    """

    model: Model
    recording: Recording
    source: BaseSource
    smoothing: Smoothing
    decimate: bool
    offsets: Mapping[str, float]
    positions: Positions
    notes: tuple[str, ...]

    def pieces(self, rows: int | None) -> Iterator[Motion]:
        """Gives the motion piece by piece, each of about so many rows of the recording."""
        needed = (
            *position_columns(self.model, self.positions),
            *self.source.columns,
            *measured_columns(self.model, self.recording),
        )
        orientation = [name for name in self.source.orientation_columns if name in self.recording.values]
        if len(orientation) < len(self.source.orientation_columns):
            orientation = []
        found = False
        for stretch in even_stretches(self.recording.select([*needed, *orientation])):
            rate = sample_rate(stretch)
            edge = self.smoothing.edge(rate)
            step = self.smoothing.decimation(rate) if self.decimate else 1
            size = rows if rows is not None else max(_PIECE_ROWS, _EDGES_A_PIECE * edge)
            told = find_runs(stretch, orientation, size) if orientation else []
            for start, stop in find_runs(stretch, needed, size):
                kept = -(-(stop - start - 2 * edge) // step)
                oriented = bool(orientation) and _is_told(start, stop, told, rate)
                for first in range(0, kept, max(1, size // step)):
                    last = min(kept, first + max(1, size // step))
                    found = True
                    yield self._piece(
                        stretch, start + first * step, start + (last - 1) * step + 2 * edge + 1, step, oriented=oriented
                    )
        if not found:
            seconds = 2.0 * edge / rate
            raise MotionError(
                f"{self.recording.name} has no stretch without gaps that is longer than {seconds:.3g} s, as "
                f"{self.smoothing} needs; see `steelyard inspect` for its gaps, or choose a higher "
                "cutoff"
            )

    def whole(self) -> Motion:
        """Gives the motion as one; a note tells what gaps cost."""
        motion = _joined(list(self.pieces(None)))
        rate = usual_rate(self.recording.time)
        duration = self.recording.duration
        lost = duration - 2.0 * self.smoothing.edge(rate) / rate - len(motion) / motion.sample_rate
        if lost < max(_WORTH_TELLING * duration, 1.5 / motion.sample_rate):
            return motion
        told = f"gaps cost {lost:.3g} s of {duration:.3g} s, with what the filter needs next to them"
        return replace(motion, notes=(*motion.notes, told))

    def _piece(self, stretch: Recording, start: int, stop: int, step: int, *, oriented: bool) -> Motion:
        """Gives the motion of some rows of a stretch."""
        channels = read_channels(stretch, start, stop, self.smoothing, step)
        joints = read_joints(self.model, channels, self.positions, self.offsets)
        base = self.source.state(self.model, channels, joints, oriented=oriented)
        return Motion(
            channels.time,
            joints.q,
            joints.v,
            joints.a,
            base.link,
            base.angular_velocity,
            base.angular_acceleration,
            base.proper_acceleration,
            wrenches=read_wrenches(self.model, channels),
            torques=read_torques(self.model, channels),
            sample_rate=channels.rate / step,
            bandwidth=self.smoothing.bandwidth(channels.rate),
            orientation=base.orientation,
            origin=self.recording.origin,
            notes=self.notes,
        )


def _plan(
    model: Model,
    recording: Recording,
    base: Base | None,
    imu: str | None,
    sole: str | None,
    smoothing: SmoothingKind,
    cutoff: float | None,
    order: int,
    window: float | None,
    decimate: bool,
    offsets: Mapping[str, float] | None,
    positions: Positions,
) -> _Plan:
    if positions not in POSITIONS:
        raise MotionError(f"positions are {positions!r}; choose 'q' (measured) or 'q_command' (commanded)")
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    check_offsets(model, offsets or {})
    source = _choose_base(model, recording, base, imu, sole, positions)
    chosen, why = _choose_smoothing(model, recording, source, smoothing, cutoff, order, window)
    rate = usual_rate(recording.time)
    step = chosen.decimation(rate) if decimate else 1
    notes = [f"all channels pass {chosen}: {why}"]
    if step > 1:
        notes.append(f"one of {step} samples is kept: {rate / step:.4g} of {rate:.4g} a second")
    return _Plan(model, recording, source, chosen, decimate, dict(offsets or {}), positions, tuple(notes))


def _choose_smoothing(
    model: Model,
    recording: Recording,
    source: BaseSource,
    kind: SmoothingKind,
    cutoff: float | None,
    order: int,
    window: float | None,
) -> tuple[Smoothing, str]:
    """Gives the filter, and in words who chose it."""
    if kind not in KINDS:
        raise MotionError(f"the smoothing is {kind!r}; choose 'butterworth' or 'cubic'")
    if window is not None and kind == "butterworth":
        raise MotionError("a window belongs to local cubics; give a cutoff, or smoothing='cubic'")
    if window is not None and cutoff is not None:
        raise MotionError("a local cubic has a window or a cutoff; give one of them")
    if window is not None:
        return local_cubic(window), "as asked for"
    why = "as asked for"
    if cutoff is None:
        cutoff, why = choose_cutoff(model, recording, source)
    return (butterworth(cutoff, order) if kind == "butterworth" else local_cubic_of_cutoff(cutoff)), why


def _choose_base(
    model: Model, recording: Recording, base: Base | None, imu: str | None, sole: str | None, positions: Positions
) -> BaseSource:
    if base is None:
        base = "fixed" if model.base == "fixed" else "sole" if positions == "q_command" else "imu"
    if base not in BASES:
        raise MotionError(f"the base is {base!r}; choose 'imu', 'sole', 'pose' or 'fixed'")
    if imu is not None and base != "imu":
        raise MotionError(f"an inertial sensor, {imu!r}, is named, but the base is {base!r}; leave one of them out")
    if sole is not None and base != "sole":
        raise MotionError(f"a sole, {sole!r}, is named, but the base is {base!r}; leave one of them out")
    if base == "fixed" and model.base != "fixed":
        raise MotionError(f"{model.name} floats; say how its base moves, or load it with base='fixed'")
    if base != "fixed" and model.base == "fixed":
        raise MotionError(f"the base of {model.name} is fixed and does not move; leave base={base!r} out")
    if base == "imu":
        return ImuBase(_choose_imu(model, recording, imu))
    if base == "sole":
        return SoleBase(_choose_sole(model, sole))
    if base == "pose":
        missing = [name for name in PoseBase().columns if name not in recording.values]
        if missing:
            raise MotionError(
                f"{recording.name} has no column {missing[0]!r}; base='pose' needs base.position.x, y, z and "
                "base.quat.x, y, z, w",
                channel=missing[0],
            )
        return PoseBase()
    return FixedBase()


def _choose_imu(model: Model, recording: Recording, name: str | None) -> Imu:
    known = [imu for imu in model.setup.imus if name in (None, imu.name)]
    if not known:
        names = ", ".join(repr(imu.name) for imu in model.setup.imus) or "none"
        raise MotionError(f"the setup of {model.name} has no inertial sensor {name or 'at all'} (it has {names})")
    recorded = [imu for imu in known if all(column in recording.values for column in ImuBase(imu).columns)]
    return (recorded or known)[0]


def _choose_sole(model: Model, name: str | None) -> Sole:
    for sole in model.setup.soles:
        if name in (None, sole.name):
            return sole
    known = ", ".join(repr(sole.name) for sole in model.setup.soles) or "none"
    raise MotionError(f"the setup of {model.name} has no sole {name or 'at all'} (it has {known})")


def _is_told(start: int, stop: int, told: Sequence[tuple[int, int]], rate: float) -> bool:
    """Tells whether the orientation is known all over a run of rows, but for less than a gap at its ends."""
    silent = int(LONGEST_GAP * rate)
    return any(first <= start + silent and stop - silent <= last for first, last in told)


def _joined(pieces: Sequence[Motion]) -> Motion:
    """Gives pieces of a motion as one."""
    first = pieces[0]

    def all_of(values: Sequence[Any]) -> Any:
        return np.concatenate(values) if len(values) > 1 else values[0]

    def by_name(group: str) -> dict[str, Any]:
        return {name: all_of([getattr(piece, group)[name] for piece in pieces]) for name in getattr(first, group)}

    orientations = [piece.orientation for piece in pieces if piece.orientation is not None]
    return replace(
        first,
        **{
            name: all_of([getattr(piece, name) for piece in pieces])
            for name in ("time", "q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration")
        },
        wrenches=by_name("wrenches"),
        torques=by_name("torques"),
        orientation=all_of(orientations) if len(orientations) == len(pieces) else None,
    )
