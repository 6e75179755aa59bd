"""Joint offsets written into a model's file, so that encoder readings give the true pose.

The true position of a joint is its reading plus an offset, which is added to the joint's origin. The result is read
again before it replaces anything: at random readings, every frame must be where the old file has it at the true
positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.arrays import is_finite_number
from steelyard.exceptions import ModelError
from steelyard.model.files.mjcf_joints import edit_mjcf_joints
from steelyard.model.files.packages import as_path
from steelyard.model.files.urdf import UrdfFile
from steelyard.model.files.urdf_joints import edit_urdf_joints
from steelyard.model.files.xml_document import parse_xml
from steelyard.model.loading import describe_document
from steelyard.model.write_back import WrittenModel, read_again, replace_model_file, rewrite
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Connection, Description, Joint
    from steelyard.model.model import Model

POSE_ERROR = 1e-9
"""Greatest error of a frame's placement (m, entries of the rotation matrix) that is accepted. Set by judgement: far
above rounding along a chain of joints, far below any mechanical tolerance."""

_DRAWS = 5
"""Random readings at which the two files are compared. Set by judgement: one finds any wrong origin with certainty."""


def write_with_offsets(model: Model, offsets: Mapping[str, float], path: str | Path) -> WrittenModel:
    """Write a copy of a model's own file whose joint positions are readings, ``true = reading + offset``.

    Joints without an offset, or with zero, and all that is no position stay as they are, byte by byte. Limits,
    couplings, soft limits and calibration marks keep their true positions. The file appears complete or not at all.

    Args:
        model: The model; where its parameters are not those of the file, they are written too, as by `write_model`.
        offsets: By joint, rad or m; locked joints may have one.
        path: Where to write; the ending must be that of the model's own format.

    Raises:
        ModelError: A joint is unknown or has no single position, an offset is no number, the zero of an MJCF model's
            joint cannot be shifted, or the file cannot be written.
    """
    target = as_path(path)
    moving = model.description.moving
    wanted = _checked(model, moving, offsets)
    content, notes = rewrite(model, target)
    before = describe_document(parse_xml(target, content))
    document = before.file.document
    if isinstance(before.file, UrdfFile):
        edits, remarks = edit_urdf_joints(document, moving, wanted)
    else:
        edits, remarks = edit_mjcf_joints(document, wanted, model.description.file.path)
    if edits:
        content = document.apply(edits, target).encoded()
        _check_written(model, before, content, target, wanted)
    replace_model_file(target, content)
    return WrittenModel(target, (*notes, *remarks, *_advice(model, wanted)))


def _checked(model: Model, moving: Mapping[str, Connection], offsets: Mapping[str, float]) -> dict[str, float]:
    """Return the offsets that are not zero."""
    if not isinstance(offsets, Mapping):
        raise ModelError(f"offsets are {offsets!r}; give numbers by joint, rad or m")
    wanted = {}
    for name, offset in offsets.items():
        if name not in moving:
            raise ModelError(
                f"{model.name} has no moving joint {name!r}{did_you_mean(str(name), moving)}", names=[name]
            )
        joint = moving[name].joint
        if joint.position_size != 1:
            raise ModelError(
                f"{name!r} is a {joint.kind} joint, whose offset is not one number; leave it out", names=[name]
            )
        if not is_finite_number(offset):
            raise ModelError(f"the offset of {name!r} is {offset!r}; give rad or m", names=[name])
        if offset:
            wanted[name] = float(offset)
    return wanted


def _advice(model: Model, offsets: Mapping[str, float]) -> list[str]:
    """Return notes on what to change in a setup that states positions."""
    notes = []
    for name in offsets:
        if name in model.locks:
            at = float(model.locks[name][0])
            notes.append(
                f"joint {name!r} is locked at {at:g}, which is a reading in the written file; lock it at "
                f"{at - offsets[name]:g} to keep its true position"
            )
    if offsets and model.setup.mirror is not None:
        notes.append(
            "left and right are mirror images at true positions, not at readings; where the setup's [mirror] is used "
            "with this file, subtract the offsets from its posture"
        )
    return notes


def _check_written(
    model: Model, before: Description, content: bytes, target: Path, offsets: Mapping[str, float]
) -> None:
    """Check that the bytes, read again, describe the same robot with the zeros of its joints shifted."""
    again = read_again(model, content, target)
    after = again.description
    joints = {c.joint.name: c.joint for c in before.connections}
    if again.joints != model.joints or [c.joint.name for c in after.connections] != list(joints):
        raise ModelError("read again, the written model has other joints; it was not written", path=target)
    wrong = [c.joint.name for c in after.connections if not _moved_bounds(joints[c.joint.name], c.joint, offsets)]
    if wrong:
        raise ModelError(
            f"read again, the limits of {in_words(wrong)} are not those meant; nothing was written",
            path=target,
            names=wrong,
        )
    wrong = [
        name for name, part in before.parts.items() if not np.array_equal(part.parameters, after.parts[name].parameters)
    ]
    wrong += _find_misplaced(before, after, offsets)
    if wrong:
        raise ModelError(
            f"read again, {in_words(wrong)} would not be as meant; nothing was written: use the offsets file instead",
            path=target,
            names=wrong,
        )


def _moved_bounds(old: Joint, new: Joint, offsets: Mapping[str, float]) -> bool:
    shift = offsets.get(old.name, 0.0)
    bounds = np.array([old.lower, old.upper])
    return old.kind == new.kind and np.allclose([new.lower, new.upper], bounds - shift, rtol=1e-12, atol=POSE_ERROR)


def _find_misplaced(before: Description, after: Description, offsets: Mapping[str, float]) -> list[str]:
    """Return the frames that are not where they were, at random readings."""
    generator = np.random.default_rng(0)
    wrong: dict[str, None] = {}
    for _ in range(_DRAWS):
        readings, true = {}, {}
        for connection in before.connections:
            joint = connection.joint
            reading = generator.uniform(-1.0, 1.0, size=joint.position_size)
            readings[joint.name] = reading
            true[joint.name] = reading + offsets.get(joint.name, 0.0)
        wanted, found = _frames(before, true), _frames(after, readings)
        wrong |= {
            name: None
            for name, placement in wanted.items()
            if name not in found or not np.allclose(found[name], placement, rtol=0.0, atol=POSE_ERROR)
        }
    return list(wrong)


def _frames(description: Description, drawn: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the placement of every part and frame in the root's frame, shape (4, 4), with couplings applied."""
    positions = _with_followers(description, drawn)
    placements = {description.root: pin.SE3.Identity()}
    waiting = [description.root]
    while waiting:
        parent = waiting.pop()
        for connection in description.children[parent]:
            motion = connection.joint.motion(positions[connection.joint.name])
            placements[connection.child] = (
                placements[parent] * connection.placement * motion * connection.child_placement
            )
            waiting.append(connection.child)
    frames = {f"frame {name}": placements[part] * at for name, (part, at) in description.frames.items()}
    return {name: np.asarray(placement.homogeneous) for name, placement in (placements | frames).items()}


def _with_followers(description: Description, drawn: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return positions with couplings applied; joints whose leader is unknown keep theirs."""
    moving = description.moving
    positions = dict(drawn)
    followers = {name: c.mimic for name, c in moving.items() if c.mimic is not None and c.mimic.leader in moving}
    while ready := [name for name, mimic in followers.items() if mimic.leader not in followers]:
        for name in ready:
            mimic = followers.pop(name)
            positions[name] = np.array([mimic.position(float(positions[mimic.leader][0]))])
    return positions
