"""Recordings on their way into a command: one after the other, with how far it is, and by name where one is bad."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from steelyard.cli.progress import shorten
from steelyard.cli.terminal import on_one_line, print_wrapped
from steelyard.exceptions import RecordingWarning, SteelyardError
from steelyard.model import Model
from steelyard.motion import Base, Motion, check_offsets, read_offsets, stream_motion
from steelyard.recording import Recording, read_recording, sensor_of
from steelyard.regression import Evidence, gather_evidence

_CHECKS, _VALUES_A_SECOND = 0.6, 1.7e6
_MOST_DENSE = 250_000
"""Rows of a recording of which a picture may see every sample; of longer ones, those that say something new."""


class Reader:
    """Reads recordings of a model, in pieces of bounded size."""

    def __init__(
        self,
        model: Model,
        base: Base | None,
        progress: Progress,
        offsets: Mapping[str, float] | None = None,
        delays: Mapping[str, float] | None = None,
    ) -> None:
        self._told: list[tuple[str, str]] = []
        self._remarks: list[str] = []
        self._model, self._base, self._progress = model, base, progress
        self._offsets, self._delays = offsets, dict(delays or {})
        self._path = Path()

    def motions(self, paths: Sequence[Path], *, dense: bool = False) -> Iterator[Motion]:
        """Gives the motions of recordings, piece by piece, one recording after the other.

        Args:
            paths: The recordings.
            dense: Whether all samples are wanted, as pictures do, where there are not too many of them.
        """
        for path in paths:
            self._path = path
            yield from self._pieces(path, dense=dense)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What there is to know of the recordings that were read, each note behind its recording's name."""
        return tuple(self._remarks)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Puts the name of the recording that is being read before an error that does not have it."""
        try:
            yield
        except SteelyardError as error:
            if self._path.name not in str(error):
                error.args = (f"{self._path.name}: {error}",)
            raise

    def recordings(self, paths: Sequence[Path]) -> list[Recording]:
        """Gives recordings as they are, opened one after the other."""
        opened = []
        for path in paths:
            self._path = path
            opened.append(self._open(path))
            self._told.append((f"{on_one_line(opened[-1].name)}: {opened[-1].duration:.2f} s", "bold"))
            self._told += [(f"  {on_one_line(note)}", "yellow") for note in opened[-1].notes]
        return opened

    def open(self, path: Path) -> Recording:
        """Gives a recording as it is, its delays taken out, before anything is told of it."""
        self._path = path
        return self._open(path)

    def _open(self, path: Path) -> Recording:
        with warnings.catch_warnings():
            # They are told with the recording.
            warnings.simplefilter("ignore", RecordingWarning)
            recording = read_recording(path, self._model)
        there = {sensor_of(name) for name in recording.columns}
        return recording.without_delays({name: late for name, late in self._delays.items() if name in there})

    def _pieces(self, path: Path, *, dense: bool) -> Iterator[Motion]:
        task = self._progress.add_task(shorten(f"Reading {on_one_line(path.name)}"), total=None)
        recording = self._open(path)
        self._progress.update(task, total=recording.duration)
        start, samples, seconds, chosen = recording.time[0], 0, 0.0, dict[str, None]()
        thin = not dense or len(recording) > _MOST_DENSE
        for piece in stream_motion(self._model, recording, base=self._base, offsets=self._offsets, decimate=thin):
            samples, seconds = samples + len(piece), seconds + len(piece) / piece.sample_rate
            chosen |= dict.fromkeys(piece.notes)
            self._progress.update(task, completed=float(piece.time[-1] - start))
            yield piece
        self._progress.remove_task(task)
        used = f"{recording.duration:.2f} s, of which {seconds:.2f} s are used, in {samples} samples"
        self._told.append((f"{on_one_line(recording.name)}: {used}", "bold"))
        self._told += [(f"  {on_one_line(note)}", "yellow") for note in recording.notes]
        self._told += [(f"  {on_one_line(note)}", "dim") for note in chosen]
        self._remarks += [f"{on_one_line(recording.name)}: {on_one_line(note)}" for note in (*recording.notes, *chosen)]

    def tell(self, console: Console) -> None:
        """Prints which recordings were read, and what to know of them."""
        for words, style in self._told:
            print_wrapped(console, words, style)


def gather_each(model: Model, reader: Reader, paths: Sequence[Path], **options: Any) -> list[Evidence]:
    """Gives the Evidence of each recording; one that does not add to those before it is told by its name.

    Args:
        model: The model.
        reader: What reads the recordings.
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
    """Gives about how many seconds it takes to look at all values of a recording, and to hold sensors against it."""
    return _CHECKS + len(recording) * len(recording.columns) / _VALUES_A_SECOND


def take_offsets(model: Model, path: Path | None) -> dict[str, float]:
    """Gives the offsets of encoders that a file holds, before any recording is read; none where there is no file.

    Raises:
        SteelyardError: The file is bad, or names what the model does not have; the message names the file.
    """
    if path is None:
        return {}
    # The folder that calibration wrote will do.
    path = path / "offsets.json" if path.is_dir() else path
    offsets = read_offsets(path)
    try:
        check_offsets(model, offsets)
    except SteelyardError as error:
        error.args = (f"{path}: {error}",)
        raise
    return offsets
