"""The Preparation: the choices between raw recordings and Evidence, made once, frozen, saved and hashed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.exceptions import RecordingError, SteelyardError
from steelyard.model import load_model, setup_tables
from steelyard.motion import check_offsets, stream_motion
from steelyard.preparation.sources import naming, open_masked
from steelyard.recording import sensor_of
from steelyard.regression import gather_evidence
from steelyard.whole_file import draft_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from steelyard.model import Model
    from steelyard.motion import Base, Motion
    from steelyard.preparation.sources import RecordingLike
    from steelyard.recording import Recording
    from steelyard.regression import Evidence

FORMAT = 1
"""Version of the file layout; files of another version are refused."""

MOST_BESIDE = 16
"""Entries of recordings beside the prepared ones that stay open. Set by judgement: a command reads each of its unseen
recordings twice; a stream of thousands must not fill the memory."""

MOST_DENSE = 250_000
"""Rows of a recording from which plots get downsampled motion. Set by judgement: about eight minutes at 500 Hz, of
which a report draws 2500 samples anyway."""


@dataclass(frozen=True)
class PreparedRecording:
    """What was chosen for one recording.

    Attributes:
        name: Its name.
        path: Its file; empty for a recording in memory.
        sha256: Its identity (`Recording.origin`).
        duration: Seconds.
        cutoff: Cutoff of the filter, Hz.
        noise: Standard deviations of its sensors' noise, as `weights` of `gather_evidence`; None where it was not
            estimated, and that of all recordings together serves.
    """

    name: str
    path: str
    sha256: str
    duration: float
    cutoff: float
    noise: Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class Opened:
    """A recording that was opened, as it is and with delays removed, and its motion where that is small."""

    recording: Recording
    aligned: Recording
    motions: tuple[Motion, ...] | None


@dataclass(frozen=True, eq=False)
class Preparation:
    """Everything that is chosen between raw recordings and their Evidence.

    The same files and the same Preparation give the same Evidence, in any process and in any order.

    Attributes:
        model: The model.
        base: Source of the base link's motion: "imu", "sole", "pose" or "fixed".
        imu: The IMU whose link is the base link, or None.
        sole: The sole that stands still, or None.
        offsets: Encoder offsets, added to readings, rad or m by joint.
        delays: Delays (s) that are removed, by sensor.
        cutoff: Cutoff (Hz) that was asked for; None where each recording has its own.
        noise: Noise for recordings that were not prepared: standard deviations, "default", or None for plain sums.
        nuisance: Groups of sensor and joint errors that are estimated beside the parameters.
        withhold: Sensors or components that are treated as not measured.
        shared_offsets: Whether offsets and biases are the same in all recordings; by default each has its own.
        masked: Whether outliers are masked; see `detect_outliers`.
        contacts: Contact phases by recording; none are detected yet, and soles count as standing.
        recordings: What was chosen for each recording.
        remarks: What was chosen and why, a sentence each.
    """

    model: Model
    base: Base
    imu: str | None
    sole: str | None
    offsets: Mapping[str, float]
    delays: Mapping[str, float]
    cutoff: float | None
    noise: Mapping[str, Any] | str | None
    nuisance: tuple[str, ...]
    withhold: tuple[str, ...] = ()
    shared_offsets: bool = False
    masked: bool = True
    contacts: Mapping[str, Any] = field(default_factory=dict)
    recordings: tuple[PreparedRecording, ...] = ()
    remarks: tuple[str, ...] = ()
    _opened: dict[str, Opened] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """Hash of the choices that make data unlike: all but the noise and the recordings. Evidence holds it."""
        plain = self.to_dict()
        for name in ("noise", "recordings", "remarks", "setup", "format"):
            del plain[name]
        return _digest(plain)

    @property
    def sha256(self) -> str:
        """Hash of all choices, without the paths of files and the remarks."""
        plain = self.to_dict()
        for name in ("remarks", "setup"):
            del plain[name]
        for each in plain["recordings"]:
            del each["path"]
        return _digest(plain)

    def motions(
        self, recording: RecordingLike, *, dense: bool = False, on_piece: Callable[[Motion], None] | None = None
    ) -> Iterator[Motion]:
        """Yield the motion of a recording piece by piece, prepared as chosen.

        Args:
            recording: A path or a Recording, one of those that were prepared or another.
            dense: Whether to keep all samples, as for plots, unless there are too many.
            on_piece: Called with each piece.

        Raises:
            RecordingError: The file cannot be read, or changed since it was prepared.
            MotionError: The recording lacks a sensor, or has no usable segment.
        """
        opened = self.open(recording)
        chosen = self.chosen_for(opened.recording)
        with naming(opened.recording.name):
            pieces: Iterator[Motion]
            if opened.motions is not None and not dense:
                pieces = iter(opened.motions)
            else:
                pieces = stream_motion(
                    self.model,
                    opened.aligned,
                    base=self.base,
                    imu=self.imu,
                    sole=self.sole,
                    cutoff=self.cutoff if chosen is None else chosen.cutoff,
                    offsets=self.offsets,
                    decimate=not dense or len(opened.recording) > MOST_DENSE,
                )
            for piece in pieces:
                if on_piece is not None:
                    on_piece(piece)
                yield piece

    def gather(
        self, *recordings: RecordingLike, workers: int | None = None, on_piece: Callable[[Motion], None] | None = None
    ) -> Evidence:
        """Gather the Evidence of some recordings, added; by default of all that were prepared.

        Args:
            recordings: Paths or Recordings.
            workers: Number of threads; by default one for each core.
            on_piece: Called with each piece of motion.

        Raises:
            SteelyardError: As `motions` and `gather_evidence` raise; the message names the recording.
        """
        wanted = list(recordings) if recordings else [self._source(each) for each in self.recordings]
        if not wanted:
            raise RecordingError("the preparation has no recordings; name those to gather")
        opened = sorted((self.open(each).recording for each in wanted), key=lambda each: each.origin)
        return reduce(add, [self._gather_one(each, workers, on_piece) for each in opened])

    def _gather_one(
        self, recording: Recording, workers: int | None, on_piece: Callable[[Motion], None] | None
    ) -> Evidence:
        chosen = self.chosen_for(recording)
        own = None if chosen is None else chosen.noise
        with naming(recording.name):
            evidence = gather_evidence(
                self.model,
                self.motions(recording, on_piece=on_piece),
                weights=self.noise if own is None else own,
                nuisance=self.nuisance,
                withhold=self.withhold,
                shared_offsets=self.shared_offsets,
                workers=workers,
            )
        return replace(evidence, key=replace(evidence.key, preparation=self.key), preparation=self.to_dict())

    def open(self, recording: RecordingLike) -> Opened:
        """Open a recording, or return it as it was opened before; outliers are masked, delays are removed.

        Raises:
            RecordingError: The file cannot be read, or changed since it was prepared.
        """
        place = _place(recording)
        if place in self._opened:
            return self._opened[place]
        fresh = open_masked(self.model, recording, mask=self.masked)
        known = self._opened.get(fresh.origin)
        if known is not None:
            return known
        for each in self.recordings:
            if place and each.path == place and each.sha256 != fresh.origin:
                raise RecordingError(f"{fresh.name} changed since it was prepared; prepare it again")
        opened = Opened(fresh, remove_known_delays(fresh, self.delays), None)
        beside = [name for name, each in self._opened.items() if self.chosen_for(each.recording) is None]
        for name in beside[: len(beside) - MOST_BESIDE]:
            del self._opened[name]
        self._opened.update({fresh.origin: opened, place: opened})
        return opened

    def chosen_for(self, recording: Recording) -> PreparedRecording | None:
        """Return what was chosen for a recording; None for one that was not prepared."""
        return next((each for each in self.recordings if each.sha256 == recording.origin), None)

    def _source(self, prepared: PreparedRecording) -> RecordingLike:
        if prepared.sha256 in self._opened:
            return self._opened[prepared.sha256].recording
        if not prepared.path:
            raise RecordingError(f"{prepared.name} was in memory when it was prepared; give it to gather again")
        return prepared.path

    def to_dict(self) -> dict[str, Any]:
        """Return the choices as plain numbers and text, as `save` writes them."""
        setup = self.model.setup.path or self.model.description.file.path
        return {
            "format": FORMAT,
            "model": _identify_model(self.model),
            "setup": str(setup),
            "base": self.base,
            "imu": self.imu,
            "sole": self.sole,
            "offsets": {name: float(value) for name, value in sorted(self.offsets.items())},
            "delays": {name: float(value) for name, value in sorted(self.delays.items())},
            "cutoff": self.cutoff,
            "noise": dict(self.noise) if not isinstance(self.noise, str | None) else self.noise,
            "nuisance": list(self.nuisance),
            "withhold": list(self.withhold),
            "shared_offsets": self.shared_offsets,
            "masked": self.masked,
            "contacts": dict(self.contacts),
            "recordings": [asdict(each) for each in self.recordings],
            "remarks": list(self.remarks),
        }

    def save(self, path: str | Path) -> None:
        """Write the choices to a JSON file, all of it or nothing.

        Raises:
            RecordingError: The file cannot be written.
        """
        try:
            with draft_of(Path(path)) as draft:
                draft.write_text(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise RecordingError(f"{path}: the preparation cannot be written ({error.strerror})") from error


def load_preparation(path: str | Path, model: Model | None = None) -> Preparation:
    """Read a Preparation that `Preparation.save` wrote.

    Args:
        path: The file.
        model: The model; by default loaded from the setup that the Preparation names.

    Raises:
        RecordingError: The file is missing, is no Preparation, or is of another model or of other sensors.
    """
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordingError(f"{path}: there is no such file; check the path") from error
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RecordingError(f"{path} is not a preparation: it cannot be read as JSON ({error})") from error
    return preparation_of(stored, model, str(path))


def preparation_of(stored: Any, model: Model | None, where: str) -> Preparation:
    """Rebuild a Preparation from plain numbers and text, as `Preparation.to_dict` returns them.

    Args:
        stored: The choices.
        model: The model; by default loaded from the setup that the choices name.
        where: What is read, for messages.

    Raises:
        RecordingError: It is no Preparation, or one of another model or of other sensors.
    """
    if not isinstance(stored, dict) or "nuisance" not in stored or "recordings" not in stored:
        raise RecordingError(f"{where} is not a preparation; write one with Preparation.save")
    if stored.get("format") != FORMAT:
        raise RecordingError(
            f"{where} has the layout {stored.get('format')!r}, this version reads {FORMAT}; prepare again"
        )
    if model is None:
        try:
            model = load_model(stored["setup"])
        except SteelyardError as error:
            raise RecordingError(f"{where}: its model cannot be loaded ({error}); give the model") from error
    here, there = _identify_model(model), stored["model"]
    for aspect, what in (("tree", "another model"), ("sensors", "other sensors")):
        if here[aspect] != there.get(aspect):
            raise RecordingError(
                f"{where} was made for {what} than {model.name}'s; prepare the recordings with this model again"
            )
    try:
        recordings = tuple(PreparedRecording(**each) for each in stored["recordings"])
        fields = {
            name: stored[name] for name in ("base", "imu", "sole", "offsets", "delays", "cutoff", "noise", "contacts")
        }
        check_offsets(model, fields["offsets"])
        return Preparation(
            model,
            **fields,
            nuisance=tuple(stored["nuisance"]),
            withhold=tuple(stored["withhold"]),
            shared_offsets=bool(stored["shared_offsets"]),
            # Preparations of earlier versions masked nothing.
            masked=bool(stored.get("masked", False)),
            recordings=recordings,
            remarks=tuple(stored["remarks"]),
        )
    except (KeyError, TypeError) as error:
        raise RecordingError(f"{where} is not a whole preparation ({error}); prepare again") from error


def remove_known_delays(recording: Recording, delays: Mapping[str, float]) -> Recording:
    """Return a recording with the delays of those sensors removed that it has."""
    there = {sensor_of(name) for name in recording.columns}
    return recording.without_delays({name: late for name, late in delays.items() if name in there})


def _place(recording: RecordingLike) -> str:
    return str(Path(recording).resolve()) if isinstance(recording, str | Path) else recording.origin


def _identify_model(model: Model) -> dict[str, str]:
    tables = setup_tables(model.setup)
    sensors = {name: tables.get(name) for name in ("imu", "wrench_sensor", "sole", "torque")}
    return {"name": model.name, "tree": model.tree.sha256, "sensors": _digest(sensors)}


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()
