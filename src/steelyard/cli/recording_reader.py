"""Reading recordings for a command: one after the other, with progress, and errors that name the recording."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from steelyard.cli.progress import shorten
from steelyard.cli.terminal import on_one_line, print_note
from steelyard.exceptions import RecordingWarning, SteelyardError
from steelyard.model import Model
from steelyard.motion import Base, Motion, check_offsets, read_offsets, stream_motion
from steelyard.recording import Recording, read_recording, sensor_of
from steelyard.regression import Evidence, gather_evidence

_CHECK_SECONDS, _VALUES_PER_SECOND = 0.6, 1.7e6
"""Time of the checks that do not grow with a recording, s, and values inspected per second. They only set the time left
that a progress bar shows; no measurement is on record."""

_MOST_DENSE = 250_000
"""Rows of a recording from which plots get downsampled motion. Set by judgement: about eight minutes at 500 Hz, of
which a report draws 2500 samples anyway."""


class Reader:
    """Reads recordings of a model, in pieces of bounded size, and collects what to print about them."""

    def __init__(
        self,
        model: Model,
        base: Base | None,
        progress: Progress,
        offsets: Mapping[str, float] | None = None,
        delays: Mapping[str, float] | None = None,
    ) -> None:
        self._lines: list[tuple[str, str]] = []
        self._remarks: list[str] = []
        self._model, self._base, self._progress = model, base, progress
        self._offsets, self._delays = offsets, dict(delays or {})
        self._path = Path()

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes of all recordings that were read, each after its recording's name."""
        return tuple(self._remarks)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Add the name of the recording being read to errors that do not mention it."""
        try:
            yield
        except SteelyardError as error:
            if self._path.name not in str(error):
                error.args = (f"{self._path.name}: {error}",)
            raise

    def open(self, path: Path) -> Recording:
        """Read a recording, with delays removed."""
        self._path = path
        with warnings.catch_warnings():
            # They are printed with the recording's notes.
            warnings.simplefilter("ignore", RecordingWarning)
            recording = read_recording(path, self._model)
        there = {sensor_of(name) for name in recording.columns}
        return recording.without_delays({name: late for name, late in self._delays.items() if name in there})

    def recordings(self, paths: Sequence[Path]) -> list[Recording]:
        """Read recordings as they are, one after the other."""
        opened = []
        for path in paths:
            opened.append(self.open(path))
            self._describe(opened[-1], f"{opened[-1].duration:.2f} s")
        return opened

    def motions(self, paths: Sequence[Path], *, dense: bool = False) -> Iterator[Motion]:
        """Yield the motions of recordings, piece by piece, one recording after the other.

        Args:
            paths: The recordings.
            dense: Whether to keep all samples, as for plots, unless there are too many.
        """
        for path in paths:
            yield from self._pieces(path, dense=dense)

    def _pieces(self, path: Path, *, dense: bool) -> Iterator[Motion]:
        task = self._progress.add_task(shorten(f"Reading {on_one_line(path.name)}"), total=None)
        recording = self.open(path)
        self._progress.update(task, total=recording.duration)
        start, samples, seconds, notes = recording.time[0], 0, 0.0, dict[str, None]()
        thin = not dense or len(recording) > _MOST_DENSE
        for piece in stream_motion(self._model, recording, base=self._base, offsets=self._offsets, decimate=thin):
            samples, seconds = samples + len(piece), seconds + len(piece) / piece.sample_rate
            notes |= dict.fromkeys(piece.notes)
            self._progress.update(task, completed=float(piece.time[-1] - start))
            yield piece
        self._progress.remove_task(task)
        self._describe(recording, f"{recording.duration:.2f} s, {seconds:.2f} s used ({samples} samples)", [*notes])

    def _describe(self, recording: Recording, facts: str, notes: Sequence[str] = ()) -> None:
        name = on_one_line(recording.name)
        self._lines.append((f"{name}: {facts}", "bold"))
        for style, group in (("yellow", recording.notes), ("dim", notes)):
            self._lines += [(f"  {on_one_line(note)}", style) for note in group]
            self._remarks += [f"{name}: {on_one_line(note)}" for note in group]

    def print_notes(self, console: Console) -> None:
        """Print the recordings that were read, each with its notes."""
        for line, style in self._lines:
            print_note(console, line, style)


def gather_each(model: Model, reader: Reader, paths: Sequence[Path], **options: Any) -> list[Evidence]:
    """Gather the Evidence of each recording; an error about one that does not add to those before it names it.

    Args:
        model: The model.
        reader: Reads the recordings.
        paths: The recordings.
        options: For `gather_evidence`.
    """
    evidence: list[Evidence] = []
    for path in paths:
        with reader.naming():
            evidence.append(gather_evidence(model, reader.motions([path]), **options))
            sum(evidence[1:], start=evidence[0])
    return evidence


def survey_seconds(recording: Recording) -> float:
    """Return about how many seconds it takes to inspect a recording, or to estimate its delays."""
    return _CHECK_SECONDS + len(recording) * len(recording.columns) / _VALUES_PER_SECOND


def load_offsets(model: Model, path: Path | None) -> dict[str, float]:
    """Read encoder offsets from a file, or from a folder that calibration wrote; none without a path.

    Raises:
        SteelyardError: The file is bad, or names joints that the model does not have; the message names the file.
    """
    if path is None:
        return {}
    path = path / "offsets.json" if path.is_dir() else path
    offsets = read_offsets(path)
    try:
        check_offsets(model, offsets)
    except SteelyardError as error:
        error.args = (f"{path}: {error}",)
        raise
    return offsets
