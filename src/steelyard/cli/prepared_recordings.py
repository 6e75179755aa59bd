"""Recordings of a command: prepared and gathered with progress, and what is printed about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from steelyard.cli.progress import shorten
from steelyard.cli.terminal import on_one_line, print_note
from steelyard.exceptions import SteelyardError
from steelyard.model import Model
from steelyard.motion import Motion, check_offsets, read_offsets
from steelyard.preparation import Preparation, PreparedMotions, prepare
from steelyard.recording import Recording
from steelyard.regression import Evidence

_CHECK_SECONDS, _VALUES_PER_SECOND = 0.6, 1.7e6
"""Time of the checks that do not grow with a recording, s, and values inspected per second. They only set the time left
that a progress bar shows; no measurement is on record."""


@dataclass
class Used:
    """What was used of a recording."""

    duration: float
    seconds: float = 0.0
    samples: int = 0
    notes: dict[str, None] = field(default_factory=dict)


class PreparedRecordings:
    """The recordings of a command: read once, prepared together, and described after they were used.

    Attributes:
        prepared: What was chosen.
        current: Name of the recording that was read last, for messages.
    """

    def __init__(self, prepared: Preparation, progress: Progress) -> None:
        self.prepared = prepared
        self._progress = progress
        self._used: dict[str, Used] = {}
        self._printed: set[str] = set()
        self._remarks: tuple[str, ...] = ()
        self.current = ""

    @classmethod
    def prepare(cls, model: Model, paths: Sequence[Path], progress: Progress, **options: Any) -> PreparedRecordings:
        """Prepare recordings; the options are those of `prepare`."""
        tasks: list[TaskID] = []

        def show(step: str, recording: Recording | None) -> None:
            for task in tasks:
                progress.remove_task(task)
            expected = None if recording is None else survey_seconds(recording)
            tasks[:] = [progress.add_task(shorten(on_one_line(step)), total=None, expected=expected)]

        prepared = prepare(model, paths, on_step=show, **options)
        for task in tasks:
            progress.remove_task(task)
        road = cls(prepared, progress)
        road._remarks = prepared.remarks
        return road

    def on(self, progress: Progress) -> PreparedRecordings:
        """Show further work on another progress bar; return this."""
        self._progress = progress
        return self

    def gather(self, paths: Sequence[Path] | None = None) -> list[Evidence]:
        """Gather the Evidence of each recording, in the Preparation's own order; by default of all prepared ones.

        An error about one that does not add to those before it names it.
        """
        chosen = None if paths is None else {str(path.resolve()) for path in paths}
        evidence: list[Evidence] = []
        for each in self.prepared.recordings:
            if chosen is not None and each.path not in chosen:
                continue
            with self._watch(Path(each.path)) as on_piece:
                evidence.append(self.prepared.gather(each.path, on_piece=on_piece))
                _ = sum(evidence)
        return evidence

    def motions(self, paths: Sequence[Path], *, dense: bool = False) -> PreparedMotions:
        """Return the motions of recordings, piece by piece, one recording after the other; they can be read again."""
        return _WatchedMotions(self, paths, dense)

    def read_motions(self, paths: Sequence[Path], *, dense: bool, counted: bool) -> Iterator[Motion]:
        """Yield motions of recordings once; `counted` in what is printed about them."""
        for path in paths:
            with self._watch(path, counted=counted) as on_piece:
                yield from self.prepared.motions(path, dense=dense, on_piece=on_piece)

    @contextmanager
    def _watch(self, path: Path, *, counted: bool = True) -> Iterator[Callable[[Motion], None]]:
        """Show the progress of a recording; yield what is to be called with each piece of its motion."""
        task = self._progress.add_task(shorten(f"Reading {on_one_line(path.name)}"), total=None)
        self.current = path.name
        recording = self.prepared.open(path).recording
        self._progress.update(task, total=recording.duration)
        used, start = Used(recording.duration), recording.time[0]
        if counted:
            used = self._used.setdefault(on_one_line(recording.name), used)
        beside = self.prepared.chosen_for(recording) is None
        used.notes |= dict.fromkeys(recording.notes if beside else ())

        def count(piece: Motion) -> None:
            used.seconds += len(piece) / piece.sample_rate
            used.samples += len(piece)
            used.notes |= dict.fromkeys(piece.notes if beside else ())
            self._progress.update(task, completed=float(piece.time[-1] - start))

        try:
            yield count
        finally:
            self._progress.remove_task(task)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The choices, and notes of recordings that were read beside the prepared ones."""
        others = [f"{name}: {note}" for name, used in self._used.items() for note in used.notes]
        return tuple(dict.fromkeys((*self._remarks, *others)))

    def print_notes(self, console: Console) -> None:
        """Print the recordings read since the last call, with their notes, then choices that all made together."""
        left = [on_one_line(remark) for remark in self._remarks]
        for name, used in self._used.items():
            own = [remark for remark in left if remark.startswith(f"{name}: ")]
            left = [remark for remark in left if remark not in own]
            if name in self._printed:
                continue
            facts = f"{used.duration:.2f} s, {used.seconds:.2f} s used ({used.samples} samples)"
            print_note(console, f"{name}: {facts}", "bold")
            for note in (*(remark[len(name) + 2 :] for remark in own), *map(on_one_line, used.notes)):
                print_note(console, f"  {note}", "dim")
        for remark in left if not self._printed else ():
            print_note(console, f"  {remark}")
        self._printed |= set(self._used)


class _WatchedMotions(PreparedMotions):
    """Motions whose reading is shown, and which count as used when they are read first."""

    def __init__(self, road: PreparedRecordings, paths: Sequence[Path], dense: bool) -> None:
        super().__init__(road.prepared, paths)
        self._road, self._paths, self._dense = road, paths, dense
        self._counted = not dense

    def __iter__(self) -> Iterator[Motion]:
        counted, self._counted = self._counted, False
        return self._road.read_motions(self._paths, dense=self._dense, counted=counted)


def print_recordings(console: Console, recordings: Sequence[Recording]) -> None:
    """Print recordings that were read as they are, each with its notes."""
    for recording in recordings:
        print_note(console, f"{on_one_line(recording.name)}: {recording.duration:.2f} s", "bold")
        for note in recording.notes:
            print_note(console, f"  {on_one_line(note)}")


def survey_seconds(recording: Recording) -> float:
    """Return about how many seconds it takes to inspect a recording, or to estimate its delays."""
    return _CHECK_SECONDS + len(recording) * len(recording.columns) / _VALUES_PER_SECOND


def load_offsets(model: Model, path: Path | None) -> Mapping[str, float]:
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
