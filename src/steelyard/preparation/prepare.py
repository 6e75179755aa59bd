"""Making the choices between raw recordings and Evidence, from all recordings together."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from steelyard.exceptions import RecordingError
from steelyard.motion import as_offsets, check_offsets, stream_motion
from steelyard.preparation.preparation import Opened, Preparation, PreparedRecording, remove_known_delays
from steelyard.preparation.sensor_choices import (
    check_noise,
    choose_common_base,
    choose_delays,
    choose_error_groups,
    describe_groups,
    find_noise,
    pool_noise,
)
from steelyard.preparation.sources import Shelf, naming
from steelyard.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from steelyard.model import Model
    from steelyard.motion import Base, Motion, OffsetsLike
    from steelyard.preparation.sources import RecordingLike

_PIECES = 8
"""Pieces of a recording of which the longest serves to estimate the noise; each is half a minute at 500 Hz. Set by
judgement: four minutes are plenty, and bound the time that it takes. The motion of shorter recordings is kept."""


def prepare(
    model: Model,
    recordings: RecordingLike | Iterable[RecordingLike],
    *,
    base: Base | Literal["auto"] | None = "auto",
    offsets: OffsetsLike | None = None,
    delays: Mapping[str, float] | Literal["auto", "all"] | None = "auto",
    noise: Mapping[str, Any] | Literal["auto", "default"] | None = "auto",
    nuisance: Sequence[str] | Literal["auto"] = "auto",
    cutoff: float | None = None,
    withhold: Sequence[str] = (),
    shared_offsets: bool = False,
    mask: bool = True,
    on_step: Callable[[str, Recording | None], None] = lambda step, recording: None,
) -> Preparation:
    """Choose everything that stands between raw recordings and their Evidence, from all recordings together.

    Args:
        model: The model.
        recordings: One or several paths or Recordings, in any order.
        base: Source of the base link's motion, as for `reconstruct_motion`; "auto": an inertial sensor that all
            recordings have, else the tracked pose; none for a fixed base.
        offsets: Encoder offsets, rad or m by joint, an offset file, or an object that has them as `values`.
        delays: Seconds by sensor that are removed; None for none; "auto": estimated, and removed where they are clear;
            "all": estimated, and removed wherever they were found.
        noise: Standard deviations of the sensors' noise as `weights` of `gather_evidence`; "auto": estimated for each
            recording; "default": those of common sensors; None: plain sums, as in the papers.
        nuisance: Groups of sensor and joint errors to estimate beside the parameters, () for none; "auto", alone or
            among others: those of all sensors used.
        cutoff: Cutoff (Hz) of the filter; by default chosen for each recording.
        withhold: Sensors or components to treat as not measured.
        shared_offsets: Whether nobody zeroed a sensor or switched it off between the recordings; by default each
            recording has offsets and biases of its own.
        mask: Whether to mask jumps, held readings, spikes and clipped readings; remarks name them.
        on_step: Called with what is about to be done, and the recording that it is done with.

    Raises:
        SteelyardError: A recording is bad, or an argument is; the message names the recording.
    """
    sources = [recordings] if isinstance(recordings, str | Path | Recording) else list(recordings)
    if not sources:
        raise RecordingError("there are no recordings to prepare; give at least one")
    check_noise(noise)
    added = dict(as_offsets(offsets))
    check_offsets(model, added)
    shelf = Shelf(model, sources, lambda name: on_step(f"Reading {name}", None), mask=mask)
    remarks = [f"{recording.name}: {note}" for recording in shelf for note in recording.notes]
    source_name, imu, sole = choose_common_base(model, shelf, None if base == "auto" else base, remarks)
    groups = choose_error_groups(model, shelf, source_name, nuisance)
    remarks += describe_groups(groups, shared=shared_offsets)
    late: Mapping[str, float] = {}
    if delays in ("auto", "all"):
        late = choose_delays(model, shelf, imu, remarks, offsets=added, clear=delays == "auto", on_step=on_step)
    elif delays is not None:
        late = dict(delays)  # type: ignore[arg-type]
    prepared: list[PreparedRecording] = []
    kept: dict[str, Opened] = {}
    for recording in shelf:
        on_step(f"Estimating noise in {recording.name}", recording)
        with naming(recording.name):
            aligned = remove_known_delays(recording, late)
            pieces = list(islice(
                stream_motion(
                    model, aligned, base=source_name, imu=imu, sole=sole, cutoff=cutoff, offsets=added
                ),
                _PIECES + 1,
            ))  # fmt: skip
            longest = max(pieces[:_PIECES], key=len)
            level = find_noise(model, longest, groups, withhold, recording.name, remarks) if noise == "auto" else None
        remarks += [f"{recording.name}: {note}" for note in _notes(pieces)]
        path = shelf.path(recording)
        if shelf.keeps(recording):
            kept[recording.origin] = Opened(recording, aligned, tuple(pieces) if len(pieces) <= _PIECES else None)
            if path:
                kept[path] = kept[recording.origin]
        prepared.append(
            PreparedRecording(
                recording.name, path, recording.origin, recording.duration, float(longest.cutoff or 0.0), level
            )
        )
    found = [(each.noise, each.duration) for each in prepared if each.noise is not None]
    common: Mapping[str, Any] | str | None = "default" if noise == "auto" else noise
    if found:
        common = pool_noise([level for level, _ in found], [seconds for _, seconds in found])
    elif noise == "auto":
        remarks.append("the default sensor noise is assumed: no recording is long enough to estimate it; record longer")
    return Preparation(
        model,
        source_name,
        imu,
        sole,
        added,
        late,
        cutoff,
        common,
        groups,
        tuple(withhold),
        shared_offsets,
        mask,
        recordings=tuple(prepared),
        remarks=tuple(remarks),
        _opened=kept,
    )


def _notes(pieces: Sequence[Motion]) -> list[str]:
    return list(dict.fromkeys(note for piece in pieces for note in piece.notes))
