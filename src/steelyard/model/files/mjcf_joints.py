"""Edits of an MJCF model that shift the zeros of its joints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.files.mjcf import compile_mjcf
from steelyard.model.files.xml_document import Edit, Element, XmlDocument, format_numbers
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_REMEDY = "use the offsets file instead"
_HINGE, _WRAPPED_JOINT, _JOINT_TRANSMISSIONS = 3, 1, (0, 1)
"""Values of mjJNT_HINGE, mjWRAP_JOINT, and mjTRN_JOINT with mjTRN_JOINTINPARENT."""


def edit_mjcf_joints(document: XmlDocument, offsets: Mapping[str, float], source: Path) -> tuple[list[Edit], list[str]]:
    """Return the edits after which joint positions are encoder readings, and remarks.

    At ``ref`` bodies are where the text places them, and equalities are relative to it: with the offset d, ``ref``,
    ``range``, ``springref`` and the positions of keyframes all decrease by d.

    Args:
        document: The MJCF model, includes in place.
        offsets: By joint, rad or m.
        source: The file that the document came from, for messages.

    Raises:
        ModelError: A joint has no element of its own, or a tendon adds its position to others'.
    """
    offsets = {name: offset for name, offset in offsets.items() if offset}
    if not offsets:
        return [], []
    spec, model = compile_mjcf(document)
    elements = {
        element.attributes["name"]: element
        for world in document.root.find_all("worldbody")
        for element in world.walk()
        if element.tag == "joint" and "name" in element.attributes
    }
    edits: list[Edit] = []
    for name, offset in offsets.items():
        if name not in elements:
            raise ModelError(
                f"joint {name!r} has no element of its own to write to; {_REMEDY}", path=source, names=[name]
            )
        index = model.joint(name).id
        _refuse_tendons(source, model, name, index)
        edits += document.set_attributes(elements[name], _positions(spec, model, index, offset))
    shifts = {int(model.jnt_qposadr[model.joint(name).id]): offset for name, offset in offsets.items()}
    for element in document.root.walk():
        if element.tag == "key" and "qpos" in element.attributes:
            edits += document.set_attributes(element, {"qpos": _shifted(element, shifts)})
    held = [name for name in offsets if _holds_position(model, model.joint(name).id)]
    remarks = []
    if held:
        remarks.append(f"position actuators of {in_words(held)} take readings now; their ranges are unchanged")
    return edits, remarks


def _positions(spec: Any, model: Any, joint: int, offset: float) -> dict[str, str | None]:
    """Return the attributes of a joint that are positions, in the unit of the text."""
    turns = int(model.jnt_type[joint]) == _HINGE
    unit = math.degrees(1.0) if turns and spec.compiler.degree else 1.0
    address = int(model.jnt_qposadr[joint])
    values: dict[str, str | None] = {"ref": format_numbers([unit * (float(model.qpos0[address]) - offset)])}
    if model.jnt_limited[joint]:
        values["range"] = format_numbers(unit * (np.asarray(model.jnt_range[joint]) - offset))
    if np.any(model.jnt_stiffness[joint]) or model.ntendon:
        values["springref"] = format_numbers([unit * (float(model.qpos_spring[address]) - offset)])
    return values


def _shifted(key: Element, shifts: Mapping[int, float]) -> str:
    words = key.attributes["qpos"].split()
    return " ".join(
        format_numbers([float(word) - shifts[number]]) if number in shifts else word
        for number, word in enumerate(words)
    )


def _refuse_tendons(source: Path, model: Any, name: str, joint: int) -> None:
    for wrap in range(model.nwrap):
        if int(model.wrap_type[wrap]) == _WRAPPED_JOINT and int(model.wrap_objid[wrap]) == joint:
            raise ModelError(
                f"a tendon adds the position of joint {name!r} to its length, which would change with its zero; "
                f"{_REMEDY}",
                path=source,
                names=[name],
            )


def _holds_position(model: Any, joint: int) -> bool:
    """Return whether an actuator's force depends on the joint's position."""
    return any(
        int(model.actuator_trntype[actuator]) in _JOINT_TRANSMISSIONS
        and int(model.actuator_trnid[actuator, 0]) == joint
        and bool(model.actuator_biasprm[actuator, 1])
        for actuator in range(model.nu)
    )
