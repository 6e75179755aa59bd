"""Recordings on their way into a command: one after the other, with how far it is, and by name where one is bad."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from steelyard.cli.progress import shorten
from steelyard.cli.progress import show_progress as show_progress  # noqa: PLC0414  (commands take it from here too)
from steelyard.cli.wording import on_one_line
from steelyard.cli.wording import print_wrapped as print_wrapped  # noqa: PLC0414  (commands take it from here too)
from steelyard.exceptions import RecordingWarning, SteelyardError
from steelyard.model import Model
from steelyard.motion import Motion, read_offsets, stream_motion
from steelyard.motion.joint_state import check_offsets
from steelyard.motion.reconstruct import Base
from steelyard.recording import Recording, read_recording
from steelyard.recording.recording import sensor_of


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
        self._model, self._base, self._progress = model, base, progress
        self._offsets, self._delays = offsets, dict(delays or {})
        self._path = Path()

    def motions(self, paths: Sequence[Path]) -> Iterator[Motion]:
        """Gives the motions of recordings, piece by piece, one recording after the other."""
        for path in paths:
            self._path = path
            yield from self._pieces(path)

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

    def _open(self, path: Path) -> Recording:
        with warnings.catch_warnings():
            # They are told with the recording.
            warnings.simplefilter("ignore", RecordingWarning)
            recording = read_recording(path, self._model)
        there = {sensor_of(name) for name in recording.columns}
        return recording.without_delays({name: late for name, late in self._delays.items() if name in there})

    def _pieces(self, path: Path) -> Iterator[Motion]:
        task = self._progress.add_task(shorten(f"Reading {on_one_line(path.name)}"), total=None)
        recording = self._open(path)
        self._progress.update(task, total=recording.duration)
        start, samples, seconds, chosen = recording.time[0], 0, 0.0, dict[str, None]()
        for piece in stream_motion(self._model, recording, base=self._base, offsets=self._offsets):
            samples, seconds = samples + len(piece), seconds + len(piece) / piece.sample_rate
            chosen |= dict.fromkeys(piece.notes)
            self._progress.update(task, completed=float(piece.time[-1] - start))
            yield piece
        self._progress.remove_task(task)
        used = f"{recording.duration:.2f} s, of which {seconds:.2f} s are used, in {samples} samples"
        self._told.append((f"{on_one_line(recording.name)}: {used}", "bold"))
        self._told += [(f"  {on_one_line(note)}", "yellow") for note in recording.notes]
        self._told += [(f"  {on_one_line(note)}", "dim") for note in chosen]

    def tell(self, console: Console) -> None:
        """Prints which recordings were read, and what to know of them."""
        for words, style in self._told:
            print_wrapped(console, words, style)


def take_offsets(model: Model, path: Path | None) -> dict[str, float]:
    """Gives the offsets of encoders that a file holds, before any recording is read; none where there is no file.

    Raises:
        SteelyardError: The file is bad, or names what the model does not have; the message names the file.
    """
    if path is None:
        return {}
    offsets = read_offsets(path)
    try:
        check_offsets(model, offsets)
    except SteelyardError as error:
        error.args = (f"{path}: {error}",)
        raise
    return offsets
