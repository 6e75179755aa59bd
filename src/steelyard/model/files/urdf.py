"""URDF: reading it into a description, and writing parameters back into its text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.description import (
    Connection,
    Description,
    Geometry,
    Joint,
    JointKind,
    Mimic,
    ModelFile,
    Part,
    find_root,
)
from steelyard.model.files.xml_document import Edit, Element, XmlDocument, format_numbers
from steelyard.model.parameters import PARAMETER_COUNT, from_mass_com_inertia, to_mass_com_inertia
from steelyard.model.relocation import relative_reference
from steelyard.wording import count, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray

_KINDS: dict[str, JointKind] = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "fixed": "fixed",
    "floating": "free",
}
_TENSOR_ENTRIES = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
"""Row and column of each attribute of ``<inertia>`` (the format)."""


def describe_urdf(document: XmlDocument) -> Description:
    """Return the description of a URDF.

    Sibling joints are numbered in alphabetical order, as Pinocchio numbers them, so that its ``q`` and ours agree.

    Raises:
        ModelError: The file does not describe a tree of links; the message says where and what to do.
    """
    return _Reader(document).describe()


class UrdfFile(ModelFile):
    """A URDF that was read, ready to be written again."""

    format = "URDF"

    def with_parameters(self, changes: Mapping[str, FloatArray], path: Path) -> tuple[bytes, list[str]]:
        """Return the file's bytes with new parameters for some links; see `ModelFile`."""
        edits: list[Edit] = []
        for link in self.document.root.find_all("link"):
            name = link.attributes["name"]
            if name in changes:
                edits += self._set_inertial(link, changes[name])
        remarks = []
        moved = self._relocate_meshes(path)
        if moved:
            paths = count(len(moved), "relative mesh path now leads", "relative mesh paths now lead")
            remarks.append(f"{paths} from the new folder to the same files")
        return self.document.apply(edits + moved, path).encoded(), remarks

    def _set_inertial(self, link: Element, parameters: FloatArray) -> list[Edit]:
        # Only parts with mass are changed, and what has mass has an <inertial>.
        inertial = cast("Element", link.find("inertial"))
        origin = inertial.find("origin")
        mass, com, tensor = np.zeros(()), np.zeros(3), np.zeros((3, 3))
        if np.any(parameters):
            mass, com, tensor = to_mass_com_inertia(parameters)
        axes = _placement(self.document.path, origin).rotation
        tensor = axes.T @ tensor @ axes
        position = format_numbers(com)
        moments = {key: format_numbers([tensor[row, column]]) for key, (row, column) in _TENSOR_ENTRIES.items()}
        stated = {"value": format_numbers([float(mass)])}
        edits = self.document.set_attributes(cast("Element", inertial.find("mass")), stated)
        edits += self.document.set_attributes(cast("Element", inertial.find("inertia")), moments)
        if origin is None:
            edits.append(self.document.insert_first(inertial, f'<origin xyz="{position}" rpy="0 0 0"/>'))
        else:
            edits += self.document.set_attributes(origin, {"xyz": position})
        return edits

    def _relocate_meshes(self, path: Path) -> list[Edit]:
        edits = []
        for element in self.document.root.walk():
            if element.tag in ("mesh", "texture") and "filename" in element.attributes:
                reference = relative_reference(element.attributes["filename"], self.path, path)
                if reference is not None:
                    edits += self.document.set_attributes(element, {"filename": reference})
        return edits


class _Reader:
    def __init__(self, document: XmlDocument) -> None:
        self.document = document
        self.path = document.path

    def error(self, message: str, element: Element, *names: str) -> ModelError:
        return ModelError(message, path=self.path, line=element.line, names=names)

    def describe(self) -> Description:
        root = self.document.root
        if root.tag != "robot":
            raise self.error(f"the outermost element is <{root.tag}>, not <robot>: this is no URDF", root)
        macro = next((element for element in root.walk() if element.tag.startswith("xacro:")), None)
        if macro is not None:
            raise self.error(
                f"<{macro.tag}> makes this a xacro file; expand it first: xacro robot.xacro > robot.urdf", macro
            )
        parts: dict[str, Part] = {}
        for element in root.find_all("link"):
            part = self.part(element)
            if part.name in parts:
                raise self.error(f"the link {part.name!r} is defined twice; rename one of them", element, part.name)
            parts[part.name] = part
        if not parts:
            raise self.error("the model has no links", root)
        connections = [self.connection(element, parts) for element in root.find_all("joint")]
        connections.sort(key=lambda connection: connection.joint.name)
        top = find_root(parts, connections, self.path)
        floating_joint = self.world_joint(parts, connections, top)
        if floating_joint is not None:
            connections.remove(floating_joint)
            del parts[top]
            top = floating_joint.child
        frames = {connection.joint.name: (connection.child, pin.SE3.Identity()) for connection in connections}
        return Description(
            name=root.attributes.get("name", self.path.stem),
            parts=parts,
            connections=connections,
            root=top,
            frames=frames,
            base=None if floating_joint is None else "floating",
            file=UrdfFile(self.document),
            root_placement=pin.SE3.Identity() if floating_joint is None else floating_joint.placement,
        )

    def world_joint(self, parts: Mapping[str, Part], connections: list[Connection], root: str) -> Connection | None:
        """Return the floating joint between a massless world link and the whole robot, if there is one."""
        floating = [connection for connection in connections if connection.joint.kind == "free"]
        siblings = [connection for connection in connections if connection.parent == root]
        for connection in floating:
            if siblings != [connection] or not parts[root].massless:
                name = connection.joint.name
                raise ModelError(
                    f"joint {name!r} is floating inside the robot; only the base can float. Remove the joint if it "
                    "connects the robot to the world, or give it a type with an axis",
                    path=self.path,
                    line=connection.line,
                    names=[name],
                )
        return floating[0] if floating else None

    def part(self, element: Element) -> Part:
        name = self.text(element, "name", "a link")
        inertial = element.find("inertial")
        parameters = np.zeros(PARAMETER_COUNT) if inertial is None else self.inertial(inertial, name)
        geometries = tuple(
            geometry
            for purpose in ("visual", "collision")
            for shape in element.find_all(purpose)
            for geometry in self.geometry(shape, purpose)
        )
        return Part(name, parameters, geometries, element.line)

    def inertial(self, inertial: Element, link: str) -> FloatArray:
        mass_element, tensor_element = inertial.find("mass"), inertial.find("inertia")
        if mass_element is None or tensor_element is None:
            missing = "<mass>" if mass_element is None else "<inertia>"
            raise self.error(f"the <inertial> of link {link!r} has no {missing}; add it", inertial, link)
        mass = self.number(mass_element, "value", f"the mass of link {link!r}")
        if mass < 0.0:
            raise self.error(f"the mass of link {link!r} is {mass:g} kg; a mass is not negative", mass_element, link)
        tensor = np.empty((3, 3))
        for key, (row, column) in _TENSOR_ENTRIES.items():
            tensor[row, column] = tensor[column, row] = self.number(tensor_element, key, f"{key} of link {link!r}")
        placement = _placement(self.path, inertial.find("origin"))
        return from_mass_com_inertia(mass, placement.translation, placement.rotation @ tensor @ placement.rotation.T)

    def geometry(self, element: Element, purpose: Literal["visual", "collision"]) -> list[Geometry]:
        wrapper = element.find("geometry")
        if wrapper is None or not wrapper.children:
            return []
        shape = wrapper.children[0]
        placement = _placement(self.path, element.find("origin"))
        if shape.tag == "box":
            return [Geometry(purpose, "box", self.vector(shape, "size"), placement)]
        if shape.tag == "sphere":
            return [Geometry(purpose, "sphere", (self.number(shape, "radius", "the radius"),), placement)]
        if shape.tag in ("cylinder", "capsule"):
            size = (self.number(shape, "radius", "the radius"), self.number(shape, "length", "the length"))
            return [Geometry(purpose, cast("Literal['cylinder', 'capsule']", shape.tag), size, placement)]
        if shape.tag == "mesh":
            scale = self.vector(shape, "scale") if "scale" in shape.attributes else (1.0, 1.0, 1.0)
            return [Geometry(purpose, "mesh", (), placement, self.text(shape, "filename", "a mesh"), scale)]
        # Shapes of later versions of the format do not matter to inertial parameters.
        return []

    def connection(self, element: Element, parts: Mapping[str, Part]) -> Connection:
        name = self.text(element, "name", "a joint")
        stated = self.text(element, "type", f"joint {name!r}")
        kind = _KINDS.get(stated)
        if kind is None:
            raise self.error(
                f"joint {name!r} has the type {stated!r}, which Steelyard does not know{did_you_mean(stated, _KINDS)}",
                element,
                name,
            )
        ends = []
        for role in ("parent", "child"):
            end = element.find(role)
            if end is None:
                raise self.error(f"joint {name!r} has no <{role}>; add it", element, name)
            link = self.text(end, "link", f"the {role} of joint {name!r}")
            if link not in parts:
                raise self.error(
                    f"the {role} of joint {name!r} is {link!r}, but there is no such link{did_you_mean(link, parts)}",
                    end,
                    link,
                )
            ends.append(link)
        return Connection(
            joint=self.joint(element, name, kind),
            parent=ends[0],
            child=ends[1],
            placement=_placement(self.path, element.find("origin")),
            mimic=self.mimic(element, name),
            line=element.line,
        )

    def joint(self, element: Element, name: str, kind: JointKind) -> Joint:
        axis = np.zeros(3)
        if kind in ("revolute", "continuous", "prismatic"):
            axis_element = element.find("axis")
            axis = np.array([1.0, 0.0, 0.0] if axis_element is None else self.vector(axis_element, "xyz"))
            length = float(np.linalg.norm(axis))
            if length < 1e-6:
                raise self.error(f"joint {name!r} has a zero axis; give it a direction", element, name)
            axis /= length
        limits = {"lower": -np.inf, "upper": np.inf, "effort": np.inf, "velocity": np.inf}
        limit = element.find("limit")
        if limit is not None:
            # urdfdom reads a bound that a <limit> leaves out as zero, and so do Pinocchio and ROS.
            limits["lower"] = limits["upper"] = 0.0
            for key in limits:
                if key in limit.attributes:
                    limits[key] = self.number(limit, key, f"the {key} limit of joint {name!r}", finite=False)
        if kind == "continuous":
            limits["lower"], limits["upper"] = -np.inf, np.inf
        dynamics = element.find("dynamics")
        coefficients = {
            key: self.number(dynamics, key, f"the {key} of joint {name!r}")
            for key in ("damping", "friction")
            if dynamics is not None and key in dynamics.attributes
        }
        return Joint(name=name, kind=kind, axis=axis, **limits, **coefficients)

    def mimic(self, element: Element, name: str) -> Mimic | None:
        mimic = element.find("mimic")
        if mimic is None:
            return None
        values = {"multiplier": 1.0, "offset": 0.0}
        for key in values.keys() & mimic.attributes:
            values[key] = self.number(mimic, key, f"the {key} of the mimic of joint {name!r}")
        leader = self.text(mimic, "joint", f"the mimic of joint {name!r}")
        return Mimic(leader, (values["offset"], values["multiplier"]))

    def text(self, element: Element, key: str, what: str) -> str:
        value = element.attributes.get(key)
        if not value:
            raise self.error(f"{what} has no {key!r} in <{element.tag}>; add it", element)
        return value

    def number(self, element: Element, key: str, what: str, *, finite: bool = True) -> float:
        return read_number(self.path, element, key, what, finite=finite)

    def vector(self, element: Element, key: str) -> tuple[float, float, float]:
        return _vector(self.path, element, key)


def read_number(path: Path, element: Element, key: str, what: str, *, finite: bool = True) -> float:
    """Return the number in an attribute.

    Raises:
        ModelError: It is missing or no number; or infinite, where that is not allowed.
    """
    text = element.attributes.get(key)
    try:
        # Python accepts 1_000 as a number; other readers of model files do not.
        value = float(text) if text is not None and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value) or (finite and math.isinf(value)):
        raise ModelError(
            f"{what} is {'missing' if text is None else repr(text)}; write a number", path=path, line=element.line
        )
    return value


def _vector(path: Path, element: Element, key: str) -> tuple[float, float, float]:
    words = element.attributes.get(key, "").split()
    try:
        values = [float(word) for word in words if "_" not in word]
    except ValueError:
        values = []
    if len(values) != 3 or not all(math.isfinite(value) for value in values):
        raise ModelError(
            f"{key!r} of <{element.tag}> is {' '.join(words)!r}; write three numbers", path=path, line=element.line
        )
    return (values[0], values[1], values[2])


def _placement(path: Path, origin: Element | None) -> pin.SE3:
    if origin is None:
        return pin.SE3.Identity()
    translation = _vector(path, origin, "xyz") if "xyz" in origin.attributes else (0.0, 0.0, 0.0)
    angles = _vector(path, origin, "rpy") if "rpy" in origin.attributes else (0.0, 0.0, 0.0)
    return pin.SE3(pin.rpy.rpyToMatrix(*angles), np.array(translation))
