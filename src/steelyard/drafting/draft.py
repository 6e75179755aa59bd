"""A setup drafted by looking at a model file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steelyard.drafting.findings import DraftFinding
from steelyard.drafting.legs import Leg, find_legs, find_up
from steelyard.drafting.locks import propose_locks
from steelyard.drafting.pair_patterns import cover_pairs
from steelyard.drafting.places import upward
from steelyard.drafting.sections import (
    DraftedSole,
    Section,
    base_lines,
    imu_section,
    lock_section,
    mirror_section,
    sole_section,
    torque_section,
    wrench_section,
)
from steelyard.drafting.sensor_clues import find_clues, known_frames
from steelyard.drafting.sensors import choose_imus, choose_wrenches
from steelyard.drafting.symmetry import find_symmetry
from steelyard.drafting.toml_text import comment, plain, quoted
from steelyard.drafting.undersides import LostMeshes, Underside
from steelyard.drafting.words import words_of
from steelyard.exceptions import ModelError
from steelyard.model.loading import build_model, describe, load_model
from steelyard.model.lumping import lock_followers, resolve_locks
from steelyard.model.names import in_words
from steelyard.model.packages import as_path, find_file, is_folder
from steelyard.model.setup import BaseKind, Setup, WrenchSensor, parse_setup, ready_setups
from steelyard.model.whole_file import draft_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.drafting.sensors import DraftedWrench
    from steelyard.model import Model
    from steelyard.model.description import Description
    from steelyard.model.parameters import FloatArray

_SUFFIXES = (".urdf", ".xml", ".mjcf")
_SCHEMES = ("file", "package", "model")
_NEAR_PLANE = 0.01
"""How far (m) from the plane of a sole the origin of a frame that is called so may be."""


@dataclass(frozen=True, eq=False)
class SetupDraft:
    """A setup that was made by looking at a model file.

    Attributes:
        setup: What it says.
        model: The model, read with it.
        findings: What was found, what was guessed, and what was not found.
        source: The model file as it was named: a path, or ``package://…``.
        packages: Folders that hold ROS packages, given when it was drafted.
        halves: Its text before and after the line that names the model file.
    """

    setup: Setup
    model: Model
    findings: tuple[DraftFinding, ...]
    source: str
    packages: tuple[Path, ...]
    halves: tuple[str, str]

    @property
    def text(self) -> str:
        """The TOML as it is beside the model file; `write` names the file from where the setup goes."""
        return self._text(self.model.description.file.path.name)

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Writes the setup file, complete or not at all, after it was read back as the same model.

        The model is named from the setup's own folder, so that both can move together; ``package://…`` stays as it is.

        Args:
            path: Where to write; the name ends in .toml.
            force: Whether a file that is there already may be replaced.

        Raises:
            ModelError: The file is there already, or cannot be written.
        """
        target = as_path(path)
        if target.suffix.lower() != ".toml":
            raise ModelError("a setup file ends in .toml; name it so", path=target)
        if is_folder(target):
            raise ModelError("this is a folder; name a file in it", path=target)
        try:
            if not force and (target.exists() or target.is_symlink()):
                raise ModelError("this file is there already; name another, or replace it with force", path=target)
            with draft_of(target) as draft:
                draft.write_text(self._text(self._reference(target)), encoding="utf-8")
                self._read_back(draft, target)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelError(
                f"the setup cannot be written ({reason}); name another place, or mend that one", path=target
            ) from error
        return target

    def _text(self, reference: str) -> str:
        return f"{self.halves[0]}file = {quoted(reference)}\n{self.halves[1]}"

    def _reference(self, target: Path) -> str:
        """Gives how a setup at `target` names the model file."""
        if urlsplit(self.source).scheme in _SCHEMES:
            return self.source
        file = self.model.description.file.path
        place = Path(os.path.realpath(file.parent)) / file.name
        folder = Path(os.path.realpath(target)).parent
        try:
            shared = Path(os.path.commonpath([place, folder]))
        except ValueError:  # on different drives
            return place.as_posix()
        if shared == Path(shared.anchor):
            return place.as_posix()
        reference = Path(os.path.relpath(place, folder)).as_posix()
        special = reference.startswith("~") or urlsplit(reference).scheme in _SCHEMES
        return f"./{reference}" if special else reference

    def _read_back(self, draft: Path, target: Path) -> None:
        """Refuses a text that does not read as the drafted model."""
        setup = parse_setup(tomllib.loads(draft.read_text(encoding="utf-8")), target)
        file = find_file(str(setup.model_file), beside=target, packages=self.packages)
        again = load_model(file, setup=setup, packages=self.packages)
        if again.links != self.model.links or again.tree.sha256 != self.model.tree.sha256:
            raise ModelError(
                "the setup does not read back as the model that was drafted; it was not written", path=target
            )


def draft_setup(path: str | Path, *, packages: Sequence[str | Path] = ()) -> SetupDraft:
    """Drafts the setup of a URDF or MJCF by looking: base, sensors, soles, mirror pairs, and joints to lock.

    Args:
        path: The model file, or ``package://name/path``.
        packages: Folders that hold ROS packages, besides ROS_PACKAGE_PATH and the installed example robots.

    Raises:
        ModelError: The file is missing, broken, or no model; the message says what, where, and what to do.
    """
    source, folders = str(path), tuple(Path(folder) for folder in packages)
    _refuse_other_files(source)
    file = find_file(source, packages=folders)
    description = replace(describe(file), packages=folders)
    proposed = propose_locks(description)
    locks = resolve_locks(description, {name: lock[0] for name, lock in proposed.items()}, "the draft")
    locks = lock_followers(description, locks)
    looked_at = build_model(description, Setup(), base=description.base or "floating", locks=locks)
    seen = find_legs(looked_at) if looked_at.base == "floating" else []
    base, why, sure = _hold(looked_at, seen)
    clues = find_clues(description)
    framed = {leg: frame for leg in seen if (frame := _sole_frame(looked_at, leg)) is not None}
    legs, frames = list(framed), list(framed.values())
    sensors, others = choose_wrenches(looked_at, legs, frames, clues.sensors)
    if base == "fixed":
        sensors, others = others, []
    imus = choose_imus(looked_at, clues.sensors, [sensor.name for sensor in sensors])
    soles = [_sole(looked_at, *each) for each in zip(legs, frames, sensors, strict=True)] if base == "floating" else []
    cut = build_model(description, Setup(wrench_sensors=_as_sensors(sensors)), base=base, locks=locks)
    no_legs = "the base is fixed: nothing of it stands" if base == "fixed" else "no legs are seen"
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
    findings += _remarks(looked_at, seen, legs)
    halves = (_head(description), "\n".join(line for section in sections for line in section.lines) + "\n")
    setup = parse_setup(tomllib.loads(f"{halves[0]}file = {quoted(source)}\n{halves[1]}"))
    model = build_model(description, setup, base=base, locks=locks)
    return SetupDraft(setup, model, tuple(findings), source, folders, halves)


def _refuse_other_files(source: str) -> None:
    if source.lower().endswith(".toml"):
        raise ModelError("this is a setup already; name a URDF or MJCF to draft one from", path=Path(source))
    if source.lower().endswith(".xacro"):
        raise ModelError(f"{source} is a xacro file; expand it first: xacro {source} > robot.urdf", names=[source])
    if source in ready_setups():
        raise ModelError(f"{source!r} is a ready setup, to be used as it is; name a URDF or MJCF to draft one from")
    if not source.lower().endswith(_SUFFIXES) and not is_folder(as_path(source)):
        raise ModelError("a model file ends in .urdf, .xml or .mjcf; name one", path=Path(source))


def _head(description: Description) -> str:
    name, file = plain(description.name), plain(description.file.path.name)
    lines = comment(f"{name}: drafted by `steelyard init` from {file}.")
    lines += comment("What is marked as found, the file says; what is marked as guessed is likely: check it.")
    return "\n".join([*lines, "", "[model]", ""])


def _hold(model: Model, legs: Sequence[Leg]) -> tuple[BaseKind, str, bool]:
    """Gives how the robot is held, why, and whether the file says so."""
    said = model.description.base
    if said is not None:
        joint = "has a free joint" if said == "floating" else "has no free joint"
        return said, f"the root {joint} in the file", True
    if all(body.massless for body in model.bodies[1:]):
        return "floating", "nothing but the root itself could move", False
    if model.description.root.lower() == "world" and not legs:
        return "fixed", "its root is called world", True
    if legs:
        return "floating", f"it has {len(legs)} leg{'s' if len(legs) > 1 else ''} to stand on", False
    return "fixed", "no legs are seen, so it is held by its root; write floating if it moves freely", False


def _sole_frame(model: Model, leg: Leg) -> str | None:
    """Gives the frame of a sole: one that is called so and lies in its plane, else that of the foot's lowest part.

    None where every name of a frame there stands for two places.
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
    there = [name for name in usable if model.frames[name].body == leg.foot]
    return next((name for name in [*called, body.name, body.joint.name, *there] if name in there), None)


def _sole(model: Model, leg: Leg, frame: str, sensor: DraftedWrench) -> DraftedSole:
    underside, foot = leg.underside, model.bodies[leg.foot].name
    if isinstance(underside, Underside):
        placement = model.frames[frame].placement
        vertices: FloatArray = (underside.corners - placement.translation) @ placement.rotation
        words = f"{len(vertices)} corners of the underside of {underside.part}"
        verb = "touches" if len(leg.also) == 1 else "touch"
        toes = f"; {in_words(leg.also)} {verb} the ground too, and is not in it" if leg.also else ""
        sure = underside.sure and leg.sure and not leg.also
        advice = "" if sure else "check the corners"
        detail = f"{words}, from {underside.source}{toes}"
        return DraftedSole(leg.name, frame, vertices, sensor.name, words + toes, detail, sure, advice)
    if isinstance(underside, LostMeshes):
        words = f"the shapes of {foot} cannot be read"
        detail, advice = f"{words}: {underside.messages[0]}", "give --package-path, or write the corners"
    else:
        detail = words = f"{foot} has no shapes, or none to stand flat on"
        advice = "write the corners of the sole"
    return DraftedSole(leg.name, frame, None, sensor.name, words, detail, False, advice)


def _as_sensors(sensors: Sequence[DraftedWrench]) -> tuple[WrenchSensor, ...]:
    return tuple(WrenchSensor(sensor.name, sensor.frame, sensor.at, sensor.sign, sensor.axes) for sensor in sensors)


def _mirror(model: Model) -> Section:
    """Gives the mirror pairs of a model that is cut at its sensors."""
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


def _remarks(model: Model, seen: Sequence[Leg], used: Sequence[Leg]) -> list[DraftFinding]:
    """Gives what else is worth telling."""
    words = "a body and a joint of this foot share a name, but not a place, and it has no other frame"
    remarks = [DraftFinding(f"sole {leg.name}", "missing", words, "rename one") for leg in seen if leg not in used]
    up = find_up(model)
    if seen and not bool((up == upward(model)).all()):
        axis = "xyz"[int(abs(up).argmax())]
        words = (
            f"its legs stretch along {axis} of the base link, so {axis} is taken as up; Steelyard stands robots on z"
        )
        remarks.append(DraftFinding("up", "guessed", words, "turn the root of the model file so that z is up"))
    return remarks
