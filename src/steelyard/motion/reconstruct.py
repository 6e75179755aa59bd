"""From a Recording to a Motion: one clock, one filter, derivatives, and the motion of the base link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.motion.base_choice import SOURCES, Base, choose_base
from steelyard.motion.base_state import ImuBase, PoseBase
from steelyard.motion.channels import read_channels
from steelyard.motion.cutoff import HIGHEST, choose_cutoff
from steelyard.motion.encoder_offsets import as_offsets
from steelyard.motion.joint_state import (
    POSITIONS,
    Positions,
    check_offsets,
    empty_torques,
    force_columns,
    position_columns,
    read_joints,
    read_torques,
    read_wrenches,
)
from steelyard.motion.motion import Motion, join_motions
from steelyard.motion.readings import Readings, find_slowest, survey_readings
from steelyard.motion.segments import Dropouts, even_segments, find_runs, longest_bridged_gap, sample_rate
from steelyard.motion.smoothing import KINDS, Smoothing, SmoothingKind, butterworth, local_cubic, local_cubic_of_cutoff
from steelyard.recording import Recording, usual_rate
from steelyard.wording import count, show_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.model import Model
    from steelyard.motion.base_state import BaseSource
    from steelyard.motion.encoder_offsets import OffsetsLike

__all__ = ["Base", "reconstruct_motion", "stream_motion"]

_NOTABLE_LOSS = 0.01
"""Share of a recording lost to gaps from which a note reports it. Set by judgement: one percent changes no estimate."""

_SLOWEST_SHARE = 0.25
"""Highest chosen cutoff as a share of the rate of the slowest required column: linear interpolation attenuates signals
near half that rate. Set by judgement, half of the limit."""

_INTERPOLATION_LOSS = 0.1
"""Share of a slower sensor's rate above which linear interpolation between its readings loses some 3 % or more:
one minus sinc²(0.1)."""

_SLOWER = 0.9
"""Rate of a column as a share of the row rate below which it counts as slower. Set by judgement: single lost readings
leave more."""

_PIECE_ROWS = 16384
"""Rows of a piece in memory. Set by judgement: 33 s at 500 Hz, some 13 MB with a hundred columns."""

_PIECE_EDGES = 4
"""Least length of a piece in filter edges, so that at most half of it overlaps its neighbours. Set by judgement."""


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
    offsets: OffsetsLike | None = None,
    positions: Positions = "q",
) -> Motion:
    """Reconstruct the motion of a recording: smoothed, with derivatives and the measured forces.

    Every channel (joint positions, IMU, wrenches, torques) passes the same zero-phase filter, which also differentiates
    it. Samples without a full filter window (at the ends, and next to gaps) are dropped, not extrapolated. The rest is
    downsampled to about two samples per period of the cutoff: more would not be independent.

    Uneven times are resampled to even ones first. At a gap of the clock or of a channel, the motion is interrupted.
    `Motion.notes` report gaps and all choices.

    Args:
        model: The model.
        recording: The recording, in memory or not.
        base: Source of the base link's motion. "imu": an IMU; its link is the base link, and neither position nor
            orientation is needed. "sole": a sole that is flat on the ground and stationary throughout. "pose": the
            columns ``base.position.x`` … and ``base.quat.x`` …, of the root in the world. "fixed": none, it does not
            move. By default "fixed" for a fixed model, "sole" with ``positions="q_command"``, else "imu".
        imu: Name of the IMU; by default the first of the setup that is recorded.
        sole: Name of the sole; by default the first of the setup.
        smoothing: "butterworth", or "cubic" for local cubic polynomials; see `Smoothing`.
        cutoff: Frequency (Hz) at half power; by default chosen from the data, see `choose_cutoff`.
        order: Order of the Butterworth filter, which is applied twice.
        window: Half width (s) of a local cubic, instead of a cutoff.
        decimate: Whether to downsample.
        offsets: Encoder offsets by joint, added to the readings, rad or m; or an offset file, see `read_offsets`; or an
            object that has them as `values`.
        positions: "q" for measured joint positions, "q_command" for commanded ones (as instruments, for example).

    Raises:
        MotionError: The arguments are inconsistent, do not match the model or the recording, or no segment is long
            enough.
        RecordingError: A column is missing.
    """
    plan = _plan(model, recording, base, imu, sole, smoothing, cutoff, order, window, decimate, offsets, positions)
    return plan.reconstruct()


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
    offsets: OffsetsLike | None = None,
    positions: Positions = "q",
    rows: int | None = None,
) -> Iterator[Motion]:
    """Reconstruct the motion of a recording of any length, piece by piece, as `gather_evidence` takes it.

    Pieces overlap by the filter's edges, so that together they equal the result of `reconstruct_motion`.

    Args:
        model: The model.
        recording: The recording, in memory or not.
        base: As for `reconstruct_motion`, like all others below.
        imu: Name of the IMU.
        sole: Name of the sole.
        smoothing: Kind of the filter.
        cutoff: Frequency (Hz) at half power.
        order: Order of the Butterworth filter.
        window: Half width (s) of a local cubic.
        decimate: Whether to downsample.
        offsets: Encoder offsets by joint.
        positions: "q" or "q_command".
        rows: Approximate number of the recording's rows per piece.

    Raises:
        MotionError: As for `reconstruct_motion`.
        RecordingError: A column is missing.
    """
    if rows is not None and not (isinstance(rows, int | np.integer) and rows >= 1):
        raise MotionError(f"rows is {rows!r}; give an integer of at least one")
    plan = _plan(model, recording, base, imu, sole, smoothing, cutoff, order, window, decimate, offsets, positions)
    return plan.pieces(rows)


@dataclass(frozen=True, eq=False)
class _Plan:
    """All options of a reconstruction, requested or chosen.

    Attributes:
        model: The model.
        recording: The recording, restricted to the used columns.
        source: Source of the base link's motion.
        smoothing: The filter.
        decimate: Whether to downsample.
        offsets: Encoder offsets by joint.
        positions: Which joint positions are used.
        needed: Required columns.
        readings: Sampling of the columns.
        bandwidth: Nyquist frequency (Hz) of the slowest force sensor.
        notes: The choices, one sentence each.
    """

    model: Model
    recording: Recording
    source: BaseSource
    smoothing: Smoothing
    decimate: bool
    offsets: Mapping[str, float]
    positions: Positions
    needed: tuple[str, ...]
    readings: Mapping[str, Readings]
    bandwidth: float
    notes: tuple[str, ...]

    def pieces(self, rows: int | None, dropouts: Dropouts | None = None) -> Iterator[Motion]:
        """Yield the motion piece by piece, each of about `rows` rows of the recording."""
        dropouts = dropouts if dropouts is not None else self.dropouts()
        orientation = [name for name in self.recording.columns if name not in self.needed]
        found = False
        for segment in even_segments(self.recording, dropouts):
            rate = sample_rate(segment)
            edge = self.smoothing.edge(rate)
            step = self.smoothing.decimation(rate) if self.decimate else 1
            size = rows if rows is not None else max(_PIECE_ROWS, _PIECE_EDGES * edge)
            oriented_runs = find_runs(segment, orientation, size, self.dropouts()) if orientation else []
            slack = int(dropouts.most(orientation) * rate)
            for start, stop in find_runs(segment, self.needed, size, dropouts):
                kept = -(-(stop - start - 2 * edge) // step)
                oriented = any(first <= start + slack and stop - slack <= last for first, last in oriented_runs)
                for first in range(0, kept, max(1, size // step)):
                    last = min(kept, first + max(1, size // step))
                    found = True
                    yield self._piece(
                        segment, start + first * step, start + (last - 1) * step + 2 * edge + 1, step, oriented=oriented
                    )
        if not found:
            raise self._too_short()

    def dropouts(self) -> Dropouts:
        """Return the tolerated dropouts."""
        return Dropouts(longest_bridged_gap(self.smoothing.cutoff), self.readings)

    def reconstruct(self) -> Motion:
        """Return the motion as one; notes report interpolated dropouts and the loss from gaps."""
        dropouts = self.dropouts()
        motion = join_motions(list(self.pieces(None, dropouts)))
        notes = list(motion.notes)
        if dropouts.seconds:
            worst = max(dropouts.seconds, key=lambda name: dropouts.seconds[name])
            others = f", and at most as much of {len(dropouts.seconds) - 1} more" if len(dropouts.seconds) > 1 else ""
            notes.append(
                f"{dropouts.seconds[worst]:.3g} s of {'rows' if worst == 'time' else repr(worst)} are missing in short "
                f"dropouts (up to {1e3 * max(dropouts.longest.values()):.3g} ms){others}; interpolated linearly"
            )
        rate = usual_rate(self.recording.time)
        duration = self.recording.duration
        lost = duration - 2.0 * self.smoothing.edge(rate) / rate - len(motion) / motion.sample_rate
        if lost >= max(_NOTABLE_LOSS * duration, 1.5 / motion.sample_rate):
            notes.append(f"gaps cost {lost:.3g} s of {duration:.3g} s, including the filter's edges next to them")
        return replace(motion, notes=tuple(notes))

    def _too_short(self) -> MotionError:
        """Return the error for a recording without any usable segment, with the worst column and the remedy."""
        rate = usual_rate(self.recording.time)
        seconds = 2.0 * self.smoothing.edge(rate) / rate
        problem = f"{self.recording.name} has no gap-free segment longer than the {seconds:.3g} s that "
        problem += f"{self.smoothing} needs; "
        dropouts = self.dropouts()
        clock = max((segment.duration for segment in even_segments(self.recording, dropouts)), default=0.0)
        if clock <= seconds:
            return MotionError(f"{problem}its longest lasts {clock:.3g} s: choose a higher cutoff", channel="time")
        longest = dict.fromkeys(self.needed, 0.0)
        for segment in even_segments(self.recording, dropouts):
            for name in self.needed:
                for start, stop in find_runs(segment, [name], _PIECE_ROWS, dropouts):
                    longest[name] = max(longest[name], (stop - 1 - start) / sample_rate(segment))
        worst = min(longest, key=lambda name: longest[name])
        if not self.readings[worst].count:
            empty = [name for name in self.needed if not self.readings[name].count]
            cause = f"{show_names(empty)} {'has' if len(empty) == 1 else 'have'} no readings at all"
        elif longest[worst] <= seconds:
            cause = f"{worst!r} never has more than {longest[worst]:.3g} s without gaps"
        else:
            return MotionError(f"{problem}columns drop out in turn: choose a higher cutoff, or see `steelyard inspect`")
        return MotionError(f"{problem}{cause}: {self._remedy(worst)}", channel=worst)

    def _remedy(self, column: str) -> str:
        """Return the remedy for a column that leaves no usable segment."""
        higher = ", or choose a higher cutoff" if self.readings[column].count else ""
        if column in position_columns(self.model, self.positions):
            return f"lock the joint in the setup if it does not move{higher}"
        if column in self.source.columns:
            another = "name another with imu=, or " if isinstance(self.source, ImuBase) else ""
            return f"{another}choose another base={higher}"
        return f"leave out all columns of that sensor (recording.select) if the motion does not need them{higher}"

    def _piece(self, segment: Recording, start: int, stop: int, step: int, *, oriented: bool) -> Motion:
        """Return the motion of some rows of a segment."""
        silence = self.dropouts().most(segment.columns)
        channels = read_channels(segment, start, stop, self.smoothing, step, silence)
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
            bandwidth=min(self.bandwidth, self.smoothing.bandwidth(channels.rate)),
            cutoff=self.smoothing.cutoff,
            source=SOURCES[type(self.source)],
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
    offsets: OffsetsLike | None,
    positions: Positions,
) -> _Plan:
    if not isinstance(recording, Recording):
        raise MotionError(f"a Recording is needed, not a {type(recording).__name__}; load a file with read_recording")
    if positions not in POSITIONS:
        raise MotionError(f"positions is {positions!r}; choose 'q' (measured) or 'q_command' (commanded)")
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    added = as_offsets(offsets)
    check_offsets(model, added)
    joints, forces = position_columns(model, positions), force_columns(model, recording)
    imus = [ImuBase(each) for each in model.setup.imus]
    imu_columns = [name for each in imus for name in (*each.columns, *each.orientation_columns)]
    readings = survey_readings(recording, [*joints, *forces, *imu_columns, *PoseBase().columns])
    source, base_note = choose_base(model, recording, readings, base, imu, sole, positions)
    empty = empty_torques(model, forces, readings)
    needed = (*joints, *source.columns, *(name for name in forces if name not in empty))
    orientation = [name for name in source.orientation_columns if name in readings and readings[name].count]
    if len(orientation) < len(source.orientation_columns):
        orientation = []
    used = recording.select([*needed, *orientation])
    slow, slow_rate = find_slowest(readings, needed)
    chosen, why = _choose_smoothing(
        model, recording, source, smoothing, cutoff, order, window, highest=_SLOWEST_SHARE * slow_rate
    )
    rate = usual_rate(recording.time)
    step = chosen.decimation(rate) if decimate else 1
    notes = [f"all channels pass {chosen}: {why}"]
    if step > 1:
        notes.append(f"downsampled from {rate:.4g} to {rate / step:.4g} Hz")
    notes.append(base_note)
    if chosen.cutoff > _INTERPOLATION_LOSS * slow_rate and slow_rate < _SLOWER * rate:
        notes.append(f"{slow!r} is sampled at {slow_rate:.3g} Hz and interpolated linearly")
    if added:
        notes.append(f"encoder offsets are added to {count(len(added), 'joint', 'joints')}")
    if empty:
        notes.append(f"{show_names(empty)} {'has' if len(empty) == 1 else 'have'} no readings: treated as not recorded")
    _, force_rate = find_slowest(readings, force_columns(model, recording, declared=True))
    return _Plan(
        model, used, source, chosen, decimate, dict(added), positions, needed, readings, 0.5 * force_rate, tuple(notes)
    )


def _choose_smoothing(
    model: Model,
    recording: Recording,
    source: BaseSource,
    kind: SmoothingKind,
    cutoff: float | None,
    order: int,
    window: float | None,
    *,
    highest: float,
) -> tuple[Smoothing, str]:
    """Return the filter, and why it was chosen."""
    if kind not in KINDS:
        raise MotionError(f"the smoothing is {kind!r}; choose 'butterworth' or 'cubic'")
    if window is not None and kind == "butterworth":
        raise MotionError("a Butterworth filter has no window; give a cutoff, or smoothing='cubic'")
    if window is not None and cutoff is not None:
        raise MotionError("a local cubic has a window or a cutoff; give one of them")
    why = "as requested"
    if window is not None:
        return local_cubic(window), why
    if cutoff is None:
        cutoff, why = choose_cutoff(model, recording, source, highest=min(HIGHEST, highest))
    return (butterworth(cutoff, order) if kind == "butterworth" else local_cubic_of_cutoff(cutoff)), why
