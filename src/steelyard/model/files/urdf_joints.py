"""Edits of a URDF that shift the zeros of its joints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.model.files.urdf import read_number
from steelyard.model.files.xml_document import Edit, Element, XmlDocument, format_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model.description import Connection

_POSITIONS = {
    "limit": ("lower", "upper"),
    "safety_controller": ("soft_lower_limit", "soft_upper_limit"),
    "calibration": ("rising", "falling", "reference_position"),
}
"""Attributes of a joint's elements that are positions, besides its origin and its mimic."""


def edit_urdf_joints(
    document: XmlDocument, joints: Mapping[str, Connection], offsets: Mapping[str, float]
) -> tuple[list[Edit], list[str]]:
    """Return the edits after which joint positions are encoder readings, and remarks.

    With the offset d, ``true = reading + d``: the origin becomes ``origin · motion(d)``, because
    ``motion(d) · motion(reading) = motion(true)``, and positions become ``position − d``. Where
    ``true_f = m true_l + c`` for a follower f of a leader l, ``c`` becomes ``c + m d_l − d_f``.

    Args:
        document: The URDF.
        joints: Its moving joints, by name.
        offsets: By joint, rad or m.
    """
    edits: list[Edit] = []
    for element in document.root.find_all("joint"):
        name = element.attributes["name"]
        if name not in joints:
            continue
        offset = offsets.get(name, 0.0)
        if offset:
            edits += _move_origin(document, element, joints[name], offset)
            for child in element.children:
                edits += _shift_positions(document, child, joints[name], offset)
        edits += _couple(document, element, joints[name], offsets)
    remarks = []
    if edits and document.root.find("ros2_control") is not None:
        remarks.append("positions in <ros2_control> are unchanged, and are readings now")
    return edits, remarks


def _move_origin(document: XmlDocument, element: Element, connection: Connection, offset: float) -> list[Edit]:
    placement = connection.placement * connection.joint.motion(np.array([offset]))
    values: dict[str, str | None]
    if connection.joint.kind == "prismatic":
        values = {"xyz": format_numbers(placement.translation)}
    else:
        values = {"rpy": format_numbers(pin.rpy.matrixToRpy(placement.rotation))}
    origin = element.find("origin")
    if origin is not None:
        return document.set_attributes(origin, values)
    stated = {"xyz": "0 0 0", "rpy": "0 0 0", **values}
    return [document.insert_first(element, f'<origin xyz="{stated["xyz"]}" rpy="{stated["rpy"]}"/>')]


def _shift_positions(document: XmlDocument, element: Element, connection: Connection, offset: float) -> list[Edit]:
    keys = [key for key in _POSITIONS.get(element.tag, ()) if key in element.attributes]
    joint = connection.joint
    if element.tag == "limit":
        # A missing bound is zero, and shifts like a stated one; a continuous joint has none.
        keys = [] if joint.kind == "continuous" else list(_POSITIONS["limit"])
    values: dict[str, str | None] = {}
    for key in keys:
        position = 0.0
        if key in element.attributes:
            what = f"{key!r} in the <{element.tag}> of joint {joint.name!r}"
            position = read_number(document.path, element, key, what, finite=False)
        if np.isfinite(position):
            values[key] = format_numbers([position - offset])
    return document.set_attributes(element, values)


def _couple(
    document: XmlDocument, element: Element, connection: Connection, offsets: Mapping[str, float]
) -> list[Edit]:
    mimic, follows = connection.mimic, element.find("mimic")
    if mimic is None or follows is None:
        return []
    constant, multiplier = mimic.coefficients
    shift = multiplier * offsets.get(mimic.leader, 0.0) - offsets.get(connection.joint.name, 0.0)
    return document.set_attributes(follows, {"offset": format_numbers([constant + shift])}) if shift else []
