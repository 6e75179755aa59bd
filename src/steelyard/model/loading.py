"""From a name or a file to a Model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.constraints import link_patterns
from steelyard.model.files.mjcf import describe_mjcf
from steelyard.model.files.packages import as_path, find_file, is_folder
from steelyard.model.files.urdf import describe_urdf
from steelyard.model.files.xml_document import XmlDocument, read_xml
from steelyard.model.lumping import lock_followers, lump, resolve_locks
from steelyard.model.model import Frame, Model
from steelyard.model.name_patterns import match_pattern, pair_by_patterns
from steelyard.model.parameters import change_frame
from steelyard.model.setup import BaseKind, Imu, Marker, Setup, Sole, WrenchSensor, read_setup, ready_setups
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Description
    from steelyard.model.lumping import Body

_KINDS = {Imu: "IMU", WrenchSensor: "wrench sensor", Sole: "sole", Marker: "marker"}
_MODEL_SUFFIXES = (".urdf", ".xml", ".mjcf")


def load_model(
    source: str | Path,
    *,
    setup: str | Path | Setup | None = None,
    base: BaseKind | None = None,
    lock: Mapping[str, float | tuple[float, ...]] | None = None,
    packages: Sequence[str | Path] = (),
) -> Model:
    """Load the Model of a ready setup ("g1"), of a setup file (.toml), or of a URDF or MJCF alone.

    Args:
        source: The name of a ready setup, a path, or ``package://name/path``.
        setup: A setup to read a model file with, in place of the file that the setup itself names: an identified model
            is read again with ``load_model("g1_identified.urdf", setup="g1")``.
        base: "floating" or "fixed"; by default the setup's, else an MJCF's own, else "floating".
        lock: Joints to lock, by name or pattern, at a position (rad or m); they are added to the setup's.
        packages: Folders that hold ROS packages, besides ROS_PACKAGE_PATH and the installed example robots.

    Raises:
        ModelError: Something is missing, broken or unknown; the message says what, where, and what to do.
    """
    folders = [Path(folder) for folder in packages]
    chosen = setup if isinstance(setup, Setup) else Setup() if setup is None else read_setup(setup)
    if str(source).lower().endswith(_MODEL_SUFFIXES):
        path = find_file(str(source), packages=folders)
    else:
        if setup is not None:
            raise ModelError(f"{str(source)!r} is a setup already; give a model file, or leave out setup=")
        _refuse_unknown(source)
        chosen = read_setup(source)
        if chosen.model_file is None:
            raise chosen.error("in [model]: 'file' is missing; write the path of the URDF or MJCF")
        path = find_file(chosen.model_file, beside=chosen.path, packages=folders)
    description = replace(read_description(path), packages=tuple(folders))
    locks = resolve_locks(description, chosen.locks, "the setup")
    locks = lock_followers(description, resolve_locks(description, lock or {}, "the call", locks))
    model = build_model(description, chosen, base=base or chosen.base or description.base or "floating", locks=locks)
    if base is None and not lock:  # a link that the setup names may be locked or fixed by the call
        _refuse_welded(model)
    return model


def read_description(path: Path) -> Description:
    """Read a URDF or MJCF file; its outermost element decides which it is."""
    return describe_document(read_xml(path))


def describe_document(document: XmlDocument) -> Description:
    """Return the description of a URDF or MJCF document."""
    if document.root.tag in ("mujoco", "mujocoinclude"):
        return describe_mjcf(document)
    return describe_urdf(document)


def build_model(description: Description, setup: Setup, *, base: BaseKind, locks: Mapping[str, FloatArray]) -> Model:
    """Build the Model of a description, cut at the setup's wrench sensors, and check every name in the setup.

    Raises:
        ModelError: The setup names a frame, link or joint that is not there.
    """
    if base not in ("floating", "fixed"):
        raise ModelError(f"base is {base!r}; write 'floating' or 'fixed'")
    if base == "floating" and description.jointed_to_world:
        raise description.error(
            'the root has joints to the world, and cannot float as well; remove them, or load with base="fixed"',
            description.root,
        )
    _check_names(description, setup)
    cuts = _find_cuts(description, setup)
    bodies = tuple(lump(description, base=base, locks=locks, cuts=cuts))
    frames = _place_frames(description, bodies)
    rows = [body.lumped_parameters for body in bodies if not body.massless]
    if base == "fixed" and not bodies[0].massless:
        rows = rows[1:]
    parameters = np.array(rows).reshape(len(rows), 10)
    parameters.setflags(write=False)
    if not len(parameters):
        raise description.error("no moving link has mass; there is nothing to identify")
    return Model(description.name, base, bodies, parameters, frames, dict(locks), setup, description)


def lock_joints(model: Model, locks: Mapping[str, float | tuple[float, ...]]) -> Model:
    """Return `model` with more joints locked; its parameters, which may differ from the file's, are lumped again."""
    for pattern in locks:
        if not match_pattern(pattern, model.joints):
            locked = " (it is locked)" if pattern in model.locks else did_you_mean(pattern, model.joints)
            raise ModelError(f"{model.name} has no moving joint {pattern!r}{locked}", names=[pattern])
    every = lock_followers(model.description, resolve_locks(model.description, locks, "the call", model.locks))
    smaller = build_model(model.description, model.setup, base=model.base, locks=every)
    parameters = np.zeros_like(smaller.parameters)
    for row, index in enumerate(model.link_bodies):
        first = model.bodies[index].members[0]
        frame = smaller.frames[first.part.name]
        placement = frame.placement * first.placement.inverse()
        target = smaller.tree.rows[frame.body]
        if target >= 0:
            parameters[target] += change_frame(model.parameters[row], placement.rotation, placement.translation)
        elif not np.array_equal(model.parameters[row], model.bodies[index].lumped_parameters):
            raise ModelError(
                f"locked, link {model.links[row]!r} is a part of the fixed base, which has no parameters, and its "
                "changed ones would be lost; lock first, and change parameters then",
                names=[model.links[row]],
            )
    return smaller.with_parameters(parameters)


def _refuse_unknown(source: str | Path) -> None:
    text = str(source)
    if text.lower().endswith(".toml") or text in ready_setups():
        return
    if is_folder(as_path(text)):
        raise ModelError(f"{text!r} is a folder; name the setup or the model file in it", names=[text])
    if text.endswith(".xacro"):
        raise ModelError(f"{text} is a xacro file; expand it first: xacro {text} > robot.urdf", names=[text])
    raise ModelError(
        f"{text!r} is neither a ready setup ({', '.join(ready_setups())}) nor a .toml, .urdf or .xml file"
        f"{did_you_mean(text, ready_setups())}",
        names=[text],
    )


def _find_cuts(description: Description, setup: Setup) -> set[str]:
    """Return the joints at which wrench sensors sit inside a limb: nothing is lumped across them."""
    above = {connection.child: connection.joint.name for connection in description.connections}
    cuts = set()
    for sensor in setup.wrench_sensors:
        if sensor.at != "joint":
            continue
        part = sensor.frame if sensor.frame in description.parts else description.frames[sensor.frame][0]
        if part not in above:
            raise setup.error(
                f'the wrench sensor {sensor.name!r} is inside the limb (at = "joint"), but its frame {sensor.frame!r} '
                "is on the root, with no joint above it; name a frame below the sensor",
                sensor.frame,
            )
        cuts.add(above[part])
    return cuts


def _place_frames(description: Description, bodies: Iterable[Body]) -> dict[str, Frame]:
    frames = {
        member.part.name: Frame(index, member.placement) for index, body in enumerate(bodies) for member in body.members
    }
    for name, (part, placement) in description.frames.items():
        # A part and a joint may share a name: the part's own frame comes first.
        if name not in frames:
            frames[name] = Frame(frames[part].body, frames[part].placement * placement)
    return frames


def _check_names(description: Description, setup: Setup) -> None:
    """Check that the file has everything that the setup names, locked joints and welded parts included."""
    named: list[Imu | WrenchSensor | Sole | Marker] = [
        *setup.imus, *setup.wrench_sensors, *setup.soles, *setup.markers
    ]  # fmt: skip
    for entry in named:
        _need_frame(description, setup, f"the {_KINDS[type(entry)]} {entry.name!r}", entry.frame)
    parts = list(description.parts)
    for pattern in setup.torques_measured:
        _need_match(setup, "[torque] measured", pattern, "joint", list(description.moving))
    for where, pattern in _link_patterns(setup):
        _need_match(setup, where, pattern, "link", parts)
    if setup.mirror is None:
        return
    for left, right in setup.mirror.pairs:
        if not pair_by_patterns(left, right, parts):
            hint = did_you_mean(left, parts)
            raise setup.error(
                f"in [mirror]: the patterns {left!r} and {right!r} match no pair of links{hint}", left, right
            )
    single = [c.joint.name for c in description.connections if c.joint.position_size == 1]
    for joint in setup.mirror.posture:
        _need_match(setup, "[mirror] posture", joint, "joint with one axis", single)


def welded_into(bodies: Iterable[Body], pattern: str) -> str:
    """Return a clause on why the first part that a pattern matches is no link; empty where it matches none."""
    for body in bodies:
        for member in body.members:
            if match_pattern(pattern, [member.part.name]):
                if member.part.name == body.name:
                    return f"; {body.name!r} has no mass of its own, or does not move"
                return f"; {member.part.name!r} is welded into {body.name!r}"
    return ""


def _refuse_welded(model: Model) -> None:
    """Refuse boxes and constraints of a setup for parts that are no links: they would have no effect."""
    for where, pattern in _link_patterns(model.setup):
        if not match_pattern(pattern, model.links):
            reason = welded_into(model.bodies, pattern)
            raise model.setup.error(f"in {where}: {pattern!r} matches no link of its own{reason}", pattern)


def _link_patterns(setup: Setup) -> list[tuple[str, str]]:
    """Return the tables of a setup that name links, each with one of its patterns."""
    return [("[volume]", pattern) for pattern in setup.volumes] + [
        (f"[constraints] {constraint.kind}", pattern)
        for constraint in setup.constraints
        for pattern in link_patterns(constraint)
    ]


def _need_frame(description: Description, setup: Setup, whose: str, frame: str) -> None:
    if frame not in description.parts and frame not in description.frames:
        known = [*description.parts, *description.frames]
        hint = did_you_mean(frame, known)
        raise setup.error(f"{whose} is at the frame {frame!r}, which the model does not have{hint}", frame)
    if frame in description.parts and frame in description.frames:
        part, placement = description.frames[frame]
        if part != frame or not placement.isApprox(placement.Identity(), 1e-9):
            raise setup.error(
                f"{whose} is at the frame {frame!r}, but a body and a joint or site have this name and are not at the "
                "same place; rename one of them",
                frame,
            )


def _need_match(setup: Setup, where: str, pattern: str, what: str, names: Sequence[str]) -> None:
    if not match_pattern(pattern, names):
        raise setup.error(f"in {where}: {pattern!r} matches no {what}{did_you_mean(pattern, names)}", pattern)
