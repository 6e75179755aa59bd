"""Setup drafted from a model file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steelyard.drafting.body_tree import upward
from steelyard.drafting.draft_findings import DraftFinding
from steelyard.drafting.legs import Leg, find_legs, find_up
from steelyard.drafting.locks import propose_locks
from steelyard.drafting.pair_patterns import cover_pairs
from steelyard.drafting.sections import (
    DraftedSole,
    SetupSection,
    base_lines,
    imu_section,
    lock_section,
    mirror_section,
    sole_section,
    torque_section,
    wrench_section,
)
from steelyard.drafting.sensor_clues import find_clues, known_frames
from steelyard.drafting.sensor_search import choose_imus, choose_wrenches
from steelyard.drafting.symmetry import find_symmetry
from steelyard.drafting.toml_text import comment, plain, quoted
from steelyard.drafting.undersides import LostMeshes, Underside
from steelyard.drafting.words import words_of
from steelyard.exceptions import ModelError
from steelyard.model import (
    BaseKind,
    Setup,
    WrenchSensor,
    as_path,
    build_model,
    find_file,
    is_folder,
    load_model,
    lock_followers,
    parse_setup,
    read_description,
    ready_setups,
    resolve_locks,
)
from steelyard.whole_file import draft_of
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.drafting.sensor_search import DraftedWrench
    from steelyard.model import Description, Model

_SUFFIXES = (".urdf", ".xml", ".mjcf")
_SCHEMES = ("file", "package", "model")
_NEAR_PLANE = 0.01
"""Largest distance (m) from the plane of a sole to the origin of a frame named sole. Set by judgement: the sole frames
of TALOS, iCub and Romeo lie within 2 mm of the plane, ankle frames centimetres above it."""


@dataclass(frozen=True, eq=False)
class SetupDraft:
    """Setup drafted from a model file.

    Attributes:
        setup: Parsed setup.
        model: Model loaded with it.
        findings: Entries that were found, guessed, or not found.
        source: Model file as given: a path, or ``package://…``.
        packages: Folders with ROS packages, as given.
        halves: TOML text before and after the line with the model file.
    """

    setup: Setup
    model: Model
    findings: tuple[DraftFinding, ...]
    source: str
    packages: tuple[Path, ...]
    halves: tuple[str, str]

    @property
    def text(self) -> str:
        """TOML text for a setup beside the model file; `write` refers to the model from the setup's own folder."""
        return self._text(self.model.description.file.path.name)

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the setup file atomically, after checking that it loads as the same model.

        The model's path is relative to the setup's folder, so that both can move together; ``package://…`` is kept.

        Args:
            path: File to write; ends in .toml.
            force: Whether an existing file may be replaced.

        Raises:
            ModelError: The file exists, or cannot be written.
        """
        target = as_path(path)
        if target.suffix.lower() != ".toml":
            raise ModelError("a setup file must end in .toml; rename it", path=target)
        if is_folder(target):
            raise ModelError("this is a folder; give the name of a file in it", path=target)
        try:
            if not force and (target.exists() or target.is_symlink()):
                raise ModelError("this file already exists; choose another name, or replace it with force", path=target)
            with draft_of(target) as draft:
                draft.write_text(self._text(self._reference(target)), encoding="utf-8")
                self._read_back(draft, target)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(
                f"the setup cannot be written ({reason}); choose another path, or fix this one", path=target
            ) from error
        return target

    def _text(self, reference: str) -> str:
        return f"{self.halves[0]}file = {quoted(reference)}\n{self.halves[1]}"

    def _reference(self, target: Path) -> str:
        """Return the reference to the model file from a setup at `target`."""
        if urlsplit(self.source).scheme in _SCHEMES:
            return self.source
        file = self.model.description.file.path
        location = Path(os.path.realpath(file.parent)) / file.name
        folder = Path(os.path.realpath(target)).parent
        try:
            shared = Path(os.path.commonpath([location, folder]))
        except ValueError:  # on different drives
            return location.as_posix()
        if shared == Path(shared.anchor):
            return location.as_posix()
        reference = Path(os.path.relpath(location, folder)).as_posix()
        special = reference.startswith("~") or urlsplit(reference).scheme in _SCHEMES
        return f"./{reference}" if special else reference

    def _read_back(self, draft: Path, target: Path) -> None:
        """Raise if the text does not load as the drafted model."""
        setup = parse_setup(tomllib.loads(draft.read_text(encoding="utf-8")), target)
        file = find_file(str(setup.model_file), beside=target, packages=self.packages)
        again = load_model(file, setup=setup, packages=self.packages)
        if again.links != self.model.links or again.tree.sha256 != self.model.tree.sha256:
            raise ModelError("the setup does not load as the drafted model, so it was not written", path=target)


def draft_setup(path: str | Path, *, packages: Sequence[str | Path] = ()) -> SetupDraft:
    """Draft the setup of a URDF or MJCF: base, sensors, soles, mirror pairs, and joints to lock.

    Args:
        path: The model file, or ``package://name/path``.
        packages: Folders with ROS packages, besides ROS_PACKAGE_PATH and the installed example robots.

    Raises:
        ModelError: The file is missing, broken, or not a model; the message says what, where, and what to do.
    """
    source, folders = str(path), tuple(Path(folder) for folder in packages)
    _refuse_other_files(source)
    file = find_file(source, packages=folders)
    description = replace(read_description(file), packages=folders)
    proposed = propose_locks(description)
    locks = resolve_locks(description, {name: lock[0] for name, lock in proposed.items()}, "the draft")
    locks = lock_followers(description, locks)
    uncut = build_model(description, Setup(), base=description.base or "floating", locks=locks)
    found = find_legs(uncut) if uncut.base == "floating" else []
    base, why, sure = _base_kind(uncut, found)
    clues = find_clues(description)
    framed = {leg: frame for leg in found if (frame := _sole_frame(uncut, leg)) is not None}
    legs, frames = list(framed), list(framed.values())
    sensors, others = choose_wrenches(uncut, legs, frames, clues.sensors)
    if base == "fixed":
        sensors, others = others, []
    imus = choose_imus(uncut, clues.sensors, [sensor.name for sensor in sensors])
    soles = [_sole(uncut, *each) for each in zip(legs, frames, sensors, strict=True)] if base == "floating" else []
    cut = build_model(description, Setup(wrench_sensors=_as_sensors(sensors)), base=base, locks=locks)
    no_legs = "the base is fixed: no feet are expected" if base == "fixed" else "no legs were found"
    sections = [
        base_lines(base, why, sure=sure),
        lock_section(proposed),
        imu_section(imus),
        wrench_section(sensors, others, no_legs),
        sole_section(soles, no_legs),
        torque_section([name for name in clues.torques if name in cut.joints]),
        _mirror(cut),
    ]
    findings = [finding for section in sections for finding in section.findings]
    findings += [DraftFinding("sensor", "missing", words, "check the file") for words in clues.lost]
    findings += _remarks(uncut, found, legs)
    halves = (_head(description), "\n".join(line for section in sections for line in section.lines) + "\n")
    setup = parse_setup(tomllib.loads(f"{halves[0]}file = {quoted(source)}\n{halves[1]}"))
    model = build_model(description, setup, base=base, locks=locks)
    return SetupDraft(setup, model, tuple(findings), source, folders, halves)


def _refuse_other_files(source: str) -> None:
    if source.lower().endswith(".toml"):
        raise ModelError("this is already a setup; give a URDF or MJCF", path=Path(source))
    if source.lower().endswith(".xacro"):
        raise ModelError(f"{source} is a xacro file; expand it first: xacro {source} > robot.urdf", names=[source])
    if source in ready_setups():
        raise ModelError(f"{source!r} is a ready setup: use it directly, or give a URDF or MJCF")
    if not source.lower().endswith(_SUFFIXES) and not is_folder(as_path(source)):
        raise ModelError("a model file must end in .urdf, .xml or .mjcf", path=Path(source))


def _head(description: Description) -> str:
    name, file = plain(description.name), plain(description.file.path.name)
    lines = comment(f"{name}: drafted by `steelyard init` from {file}.")
    lines += comment("Entries marked found come from the file; entries marked guessed are likely, but need a check.")
    return "\n".join([*lines, "", "[model]", ""])


def _base_kind(model: Model, legs: Sequence[Leg]) -> tuple[BaseKind, str, bool]:
    """Return the kind of base, the reason, and whether the file states it."""
    declared = model.description.base
    if declared is not None:
        joint = "has a free joint" if declared == "floating" else "has no free joint"
        return declared, f"the root {joint} in the file", True
    if all(body.massless for body in model.bodies[1:]):
        return "floating", "only the root has mass", False
    if model.description.root.lower() == "world" and not legs:
        return "fixed", "the root link is named world", True
    if legs:
        return "floating", f"the model has {len(legs)} leg{'s' if len(legs) > 1 else ''}", False
    return "fixed", "no legs were found, so the root is held; write floating if it moves freely", False


def _sole_frame(model: Model, leg: Leg) -> str | None:
    """Return the frame of a sole: one named sole that lies in its plane, else the frame of the foot's lowest part.

    None where every frame name there is ambiguous.
    """
    body, underside = model.bodies[leg.foot], leg.underside
    usable = known_frames(model.description)
    called = [name for name in usable if model.frames[name].body == leg.foot and "sole" in words_of(name)]
    if isinstance(underside, Underside):
        offsets = {
            name: abs(float(model.frames[name].placement.translation @ underside.up) - underside.height)
            for name in called
        }
        near = [name for name in called if offsets[name] <= _NEAR_PLANE]
        if near:
            return min(near, key=lambda name: offsets[name])
        called = [underside.part]
    on_foot = [name for name in usable if model.frames[name].body == leg.foot]
    return next((name for name in [*called, body.name, body.joint.name, *on_foot] if name in on_foot), None)


def _sole(model: Model, leg: Leg, frame: str, sensor: DraftedWrench) -> DraftedSole:
    underside, foot = leg.underside, model.bodies[leg.foot].name
    if isinstance(underside, Underside):
        placement = model.frames[frame].placement
        vertices: FloatArray = (underside.corners - placement.translation) @ placement.rotation
        words = f"{len(vertices)} corners of the underside of {underside.part}"
        verb = "touches" if len(leg.also) == 1 else "touch"
        toes = f"; {in_words(leg.also)} also {verb} the ground, and is not included" if leg.also else ""
        sure = underside.sure and leg.sure and not leg.also
        advice = "" if sure else "check the corners"
        detail = f"{words}, from {underside.source}{toes}"
        return DraftedSole(leg.name, frame, vertices, sensor.name, words + toes, detail, sure, advice)
    if isinstance(underside, LostMeshes):
        words = f"the shapes of {foot} cannot be read"
        detail, advice = f"{words}: {underside.messages[0]}", "give --package-path, or enter the corners"
    else:
        detail = words = f"{foot} has no shapes, or none with a flat underside"
        advice = "enter the corners of the sole"
    return DraftedSole(leg.name, frame, None, sensor.name, words, detail, False, advice)


def _as_sensors(sensors: Sequence[DraftedWrench]) -> tuple[WrenchSensor, ...]:
    return tuple(WrenchSensor(sensor.name, sensor.frame, sensor.at, sensor.sign, sensor.axes) for sensor in sensors)


def _mirror(model: Model) -> SetupSection:
    """Return the mirror section of a model that is cut at its sensors."""
    symmetry = find_symmetry(model)
    if symmetry is None:
        return mirror_section(None, (), 0)
    links = {*model.link_bodies}
    pairs = [
        (model.bodies[pair.left].name, model.bodies[pair.right].name, pair.marks)
        for pair in symmetry.partners
        if {pair.left, pair.right} <= links
    ]
    return mirror_section(symmetry, cover_pairs(pairs, model.links), 2 * len(pairs))


def _remarks(model: Model, found: Sequence[Leg], used: Sequence[Leg]) -> list[DraftFinding]:
    """Return findings on ambiguous names and on the upward axis."""
    words = "a body and a joint of this foot share a name but not a position, and the foot has no other frame"
    remarks = [DraftFinding(f"sole {leg.name}", "missing", words, "rename one") for leg in found if leg not in used]
    up = find_up(model)
    if found and not bool((up == upward(model)).all()):
        axis = "xyz"[int(abs(up).argmax())]
        words = f"the legs extend along {axis} of the base link, so {axis} is taken as up; the laboratory needs z up"
        remarks.append(DraftFinding("up", "guessed", words, "rotate the root of the model file so that z is up"))
    return remarks
