"""From a Recording to a Motion: one clock, smooth, with derivatives, at a base link whose motion is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.motion.base_choice import Base, choose_base
from steelyard.motion.base_state import ImuBase, PoseBase
from steelyard.motion.channels import read_channels
from steelyard.motion.cutoff import HIGHEST, choose_cutoff
from steelyard.motion.encoder_offsets import as_offsets
from steelyard.motion.joint_state import (
    POSITIONS,
    Positions,
    check_offsets,
    empty_torques,
    measured_columns,
    needed_forces,
    position_columns,
    read_joints,
    read_torques,
    read_wrenches,
)
from steelyard.motion.motion import Motion
from steelyard.motion.readings import Readings, slowest, survey_readings
from steelyard.motion.smoothing import KINDS, Smoothing, SmoothingKind, butterworth, local_cubic, local_cubic_of_cutoff
from steelyard.motion.stretches import Silences, bridged_at, even_stretches, find_runs, sample_rate
from steelyard.recording import Recording, usual_rate
from steelyard.wording import count, show_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.model import Model
    from steelyard.motion.base_state import BaseSource
    from steelyard.motion.encoder_offsets import OffsetsLike

__all__ = ["Base", "reconstruct_motion", "stream_motion"]

_WORTH_TELLING = 0.01
_SLOWEST_SHARE = 0.25
"""Highest cutoff that is chosen, as a share of the readings a second of the slowest column that is needed."""

_STRAIGHT = 0.1
"""Share of a slower sensor's rate from which on straight lines between its readings lose some 3 % or more."""

_SLOWER = 0.9
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
    offsets: OffsetsLike | None = None,
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
        offsets: Of the encoders, by joint: what is added to their readings, rad or m; or a file of them, see
            `read_offsets`; or what has them as `values`.
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
    offsets: OffsetsLike | None = None,
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
        recording: The recording, only with the columns that are used.
        source: What tells of the base link's motion.
        smoothing: The filter.
        decimate: Whether samples that say nothing new are left out.
        offsets: Of the encoders, by joint.
        positions: Which joint positions are used.
        needed: Columns without which there is no motion.
        readings: How often columns have readings.
        bandwidth: The most (Hz) that the slowest of the sensors of forces tells of.
        notes: What was chosen.
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

    def pieces(self, rows: int | None, silences: Silences | None = None) -> Iterator[Motion]:
        """Gives the motion piece by piece, each of about so many rows of the recording."""
        silences = silences if silences is not None else self.silences()
        orientation = [name for name in self.recording.columns if name not in self.needed]
        found = False
        for stretch in even_stretches(self.recording, silences):
            rate = sample_rate(stretch)
            edge = self.smoothing.edge(rate)
            step = self.smoothing.decimation(rate) if self.decimate else 1
            size = rows if rows is not None else max(_PIECE_ROWS, _EDGES_A_PIECE * edge)
            aside = Silences(silences.bridged, self.readings)
            told = find_runs(stretch, orientation, size, aside) if orientation else []
            silent = int(silences.most(orientation) * rate)
            for start, stop in find_runs(stretch, self.needed, size, silences):
                kept = -(-(stop - start - 2 * edge) // step)
                oriented = any(first <= start + silent and stop - silent <= last for first, last in told)
                for first in range(0, kept, max(1, size // step)):
                    last = min(kept, first + max(1, size // step))
                    found = True
                    yield self._piece(
                        stretch, start + first * step, start + (last - 1) * step + 2 * edge + 1, step, oriented=oriented
                    )
        if not found:
            raise self._too_short()

    def silences(self) -> Silences:
        """Gives how long columns may be silent."""
        return Silences(bridged_at(self.smoothing.cutoff), self.readings)

    def whole(self) -> Motion:
        """Gives the motion as one; notes tell what was bridged, and what gaps cost."""
        silences = self.silences()
        motion = _joined(list(self.pieces(None, silences)))
        notes = list(motion.notes)
        if silences.seconds:
            worst = max(silences.seconds, key=lambda name: silences.seconds[name])
            others = f", and as much or less of {len(silences.seconds) - 1} more" if len(silences.seconds) > 1 else ""
            notes.append(
                f"{silences.seconds[worst]:.3g} s of {'rows' if worst == 'time' else repr(worst)} are missing in short "
                f"silences (up to {1e3 * max(silences.longest.values()):.3g} ms){others}; straight lines are in "
                "their place"
            )
        rate = usual_rate(self.recording.time)
        duration = self.recording.duration
        lost = duration - 2.0 * self.smoothing.edge(rate) / rate - len(motion) / motion.sample_rate
        if lost >= max(_WORTH_TELLING * duration, 1.5 / motion.sample_rate):
            notes.append(f"gaps cost {lost:.3g} s of {duration:.3g} s, with what the filter needs next to them")
        return replace(motion, notes=tuple(notes))

    def _too_short(self) -> MotionError:
        """Gives the error that tells why there is no motion: which column leaves the least, and what can be done."""
        rate = usual_rate(self.recording.time)
        seconds = 2.0 * self.smoothing.edge(rate) / rate
        words = f"{self.recording.name} has no stretch without gaps that is longer than {seconds:.3g} s, as "
        words += f"{self.smoothing} needs; "
        silences = self.silences()
        clock = max((stretch.duration for stretch in even_stretches(self.recording, silences)), default=0.0)
        if clock <= seconds:
            return MotionError(f"{words}its longest lasts {clock:.3g} s: choose a higher cutoff", channel="time")
        longest = dict.fromkeys(self.needed, 0.0)
        for stretch in even_stretches(self.recording, silences):
            for name in self.needed:
                for start, stop in find_runs(stretch, [name], _PIECE_ROWS, silences):
                    longest[name] = max(longest[name], (stop - 1 - start) / sample_rate(stretch))
        worst = min(longest, key=lambda name: longest[name])
        if not self.readings[worst].count:
            empty = [name for name in self.needed if not self.readings[name].count]
            told = f"{show_names(empty)} {'has' if len(empty) == 1 else 'have'} no readings at all"
        elif longest[worst] <= seconds:
            told = f"{worst!r} is never there for longer than {longest[worst]:.3g} s"
        else:
            return MotionError(
                f"{words}columns are silent in turns: choose a higher cutoff, or see `steelyard inspect`"
            )
        return MotionError(f"{words}{told}: {self._remedy(worst)}", channel=worst)

    def _remedy(self, column: str) -> str:
        """Gives what can be done where a column leaves nothing."""
        higher = ", or choose a higher cutoff" if self.readings[column].count else ""
        if column in position_columns(self.model, self.positions):
            return f"lock the joint in the setup, if it does not move{higher}"
        if column in self.source.columns:
            another = "name another with imu=, or " if isinstance(self.source, ImuBase) else ""
            return f"{another}choose another base={higher}"
        return f"leave out all columns of that sensor (recording.select), if the motion can do without{higher}"

    def _piece(self, stretch: Recording, start: int, stop: int, step: int, *, oriented: bool) -> Motion:
        """Gives the motion of some rows of a stretch."""
        silence = self.silences().most(stretch.columns)
        channels = read_channels(stretch, start, stop, self.smoothing, step, silence)
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
        raise MotionError(f"a Recording is needed, not {type(recording).__name__}; read a file with read_recording")
    if positions not in POSITIONS:
        raise MotionError(f"positions are {positions!r}; choose 'q' (measured) or 'q_command' (commanded)")
    if len(recording) < 2:
        raise MotionError(f"{recording.name} has one row; a motion needs many", channel="time")
    added = as_offsets(offsets)
    check_offsets(model, added)
    joints, forces = position_columns(model, positions), measured_columns(model, recording)
    of_imus = [
        name for each in model.setup.imus for name in (*ImuBase(each).columns, *ImuBase(each).orientation_columns)
    ]
    readings = survey_readings(recording, [*joints, *forces, *of_imus, *PoseBase().columns])
    source, told = choose_base(model, recording, readings, base, imu, sole, positions)
    empty = empty_torques(model, forces, readings)
    needed = (*joints, *source.columns, *(name for name in forces if name not in empty))
    orientation = [name for name in source.orientation_columns if name in readings and readings[name].count]
    if len(orientation) < len(source.orientation_columns):
        orientation = []
    used = recording.select([*needed, *orientation])
    slow, slow_rate = slowest(readings, needed)
    chosen, why = _choose_smoothing(
        model, recording, source, smoothing, cutoff, order, window, highest=_SLOWEST_SHARE * slow_rate
    )
    rate = usual_rate(recording.time)
    step = chosen.decimation(rate) if decimate else 1
    notes = [f"all channels pass {chosen}: {why}"]
    if step > 1:
        notes.append(f"one of {step} samples is kept: {rate / step:.4g} of {rate:.4g} a second")
    notes.append(told)
    if chosen.cutoff > _STRAIGHT * slow_rate and slow_rate < _SLOWER * rate:
        notes.append(f"{slow!r} has {slow_rate:.3g} readings a second, with straight lines between them")
    if added:
        notes.append(f"offsets are added to the readings of {count(len(added), 'joint', 'joints')}")
    if empty:
        notes.append(f"{show_names(empty)} {'has' if len(empty) == 1 else 'have'} no readings: taken as not recorded")
    _, force_rate = slowest(readings, needed_forces(model, recording))
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
        cutoff, why = choose_cutoff(model, recording, source, highest=min(HIGHEST, highest))
    return (butterworth(cutoff, order) if kind == "butterworth" else local_cubic_of_cutoff(cutoff)), why


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
