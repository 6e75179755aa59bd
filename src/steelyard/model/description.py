"""The contents of a model file, whatever its format: parts, the joints between them, and their frames.

A *part* is a rigid piece as the file names it: a URDF link, an MJCF body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.files.xml_document import XmlDocument

JointKind = Literal["revolute", "continuous", "prismatic", "ball", "fixed", "free"]

POSITION_SIZES: dict[JointKind, int] = {
    "revolute": 1,
    "continuous": 1,
    "prismatic": 1,
    "ball": 4,
    "fixed": 0,
    "free": 7,
}
"""Size of a joint's part of ``q``: a ball's quaternion x y z w, a free joint's position and quaternion."""

VELOCITY_SIZES: dict[JointKind, int] = {
    "revolute": 1,
    "continuous": 1,
    "prismatic": 1,
    "ball": 3,
    "fixed": 0,
    "free": 6,
}
"""Size of a joint's part of ``v``; a ball's and a free joint's are in the child's axes, linear first."""


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint between two parts, or between two links of a Model.

    Attributes:
        name: Its name in the file.
        kind: What motion it allows. A continuous joint is a plain angle, without limits.
        axis: Unit axis in the joint frame, shape (3,); zeros where it has none.
        lower: Least position (rad or m); −inf where the file names none.
        upper: Greatest position; inf where the file names none.
        effort: Greatest torque or force (N m or N); inf where the file names none.
        velocity: Greatest speed (rad/s or m/s); inf where the file names none.
        armature: Rotor inertia seen at the joint (kg m² or kg).
        damping: Viscous friction (N m s/rad or N s/m).
        friction: Coulomb friction (N m or N).
    """

    name: str
    kind: JointKind
    axis: FloatArray = field(default_factory=lambda: np.zeros(3))
    lower: float = -np.inf
    upper: float = np.inf
    effort: float = np.inf
    velocity: float = np.inf
    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0

    @property
    def position_size(self) -> int:
        """Size of its part of ``q``."""
        return POSITION_SIZES[self.kind]

    @property
    def velocity_size(self) -> int:
        """Size of its part of ``v``."""
        return VELOCITY_SIZES[self.kind]

    def motion(self, position: FloatArray) -> pin.SE3:
        """Return the placement of the child's side of the joint in its parent's side.

        Args:
            position: Its part of ``q``, shape (position_size,).
        """
        if self.kind in ("revolute", "continuous"):
            return pin.SE3(pin.exp3(self.axis * position[0]), np.zeros(3))
        if self.kind == "prismatic":
            return pin.SE3(np.eye(3), self.axis * position[0])
        if self.kind == "fixed":
            return pin.SE3.Identity()
        translation = position[:3] if self.kind == "free" else np.zeros(3)
        return pin.SE3(pin.Quaternion(np.asarray(position[-4:])).normalized().matrix(), np.asarray(translation))


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: ``position − own_reference = Σ cₖ (leader's − leader_reference)ᵏ``.

    Attributes:
        leader: Name of the joint that it follows; empty where it is held at a constant.
        coefficients: ``c₀, c₁, …``; a URDF's offset and multiplier.
        own_reference: Position from which its own is counted.
        leader_reference: Position from which the leader's is counted.
    """

    leader: str
    coefficients: tuple[float, ...]
    own_reference: float = 0.0
    leader_reference: float = 0.0

    def position(self, leader: float) -> float:
        """Return its position when the leader is at `leader`."""
        step = leader - self.leader_reference
        return self.own_reference + sum(c * step**power for power, c in enumerate(self.coefficients))


@dataclass(frozen=True, eq=False)
class Geometry:
    """A shape that the file gives to a part.

    Attributes:
        purpose: "visual" or "collision".
        shape: "box" (size: edge lengths), "sphere" (radius), "cylinder" and "capsule" (radius, length along z),
            "ellipsoid" (semi-axes), or "mesh".
        size: Numbers of the shape, m.
        placement: Of the shape in the part's frame.
        uri: The mesh file as the model file names it.
        scale: Scale of the mesh along its axes.
        vertices: Corners of the mesh in the shape's frame, shape (n, 3), where the reader had them already.
    """

    purpose: Literal["visual", "collision"]
    shape: Literal["box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh"]
    size: tuple[float, ...]
    placement: pin.SE3
    uri: str | None = None
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    vertices: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """A rigid piece as the file names it.

    Attributes:
        name: Its name; unique in the file.
        parameters: Its ten parameters in its own frame, shape (10,); zeros where the file gives it no mass.
        geometries: Its shapes.
        line: The line of the file on which it begins.
    """

    name: str
    parameters: FloatArray
    geometries: tuple[Geometry, ...] = ()
    line: int | None = None

    @property
    def massless(self) -> bool:
        """Whether the file gives it neither mass nor inertia."""
        return not np.any(self.parameters)


@dataclass(frozen=True, eq=False)
class Connection:
    """A joint of the file with the parts that it joins.

    Attributes:
        joint: The joint.
        parent: Name of the part that carries it.
        child: Name of the part that it moves.
        placement: Of the joint frame in the parent part's frame, at position zero.
        child_placement: Of the child part's frame in the moved joint frame; the identity in a URDF.
        mimic: Whom it follows, if it does.
        line: The line of the file on which it begins.
    """

    joint: Joint
    parent: str
    child: str
    placement: pin.SE3
    child_placement: pin.SE3 = field(default_factory=pin.SE3.Identity)
    mimic: Mimic | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False)
class ModelFile(ABC):
    """The file behind a description, which can be written again with other parameters.

    Attributes:
        document: Its text; of an MJCF with includes expanded.
    """

    document: XmlDocument

    format: ClassVar[Literal["URDF", "MJCF"]]

    @property
    def path(self) -> Path:
        """Where it was read from."""
        return self.document.path

    @property
    def sha256(self) -> str:
        """Hash of its text."""
        return self.document.sha256

    @abstractmethod
    def with_parameters(self, changes: Mapping[str, FloatArray], path: Path) -> tuple[bytes, list[str]]:
        """Return the file's bytes with the parameters of some parts changed, and remarks.

        Args:
            changes: New ten parameters by part, in the part's own frame; zeros remove its mass.
            path: Where the bytes will be written.
        """


@dataclass(frozen=True, eq=False)
class Description:
    """The contents of a model file: a tree of parts.

    Attributes:
        name: The robot's name in the file.
        parts: Parts by name.
        connections: Joints, in the order in which siblings are numbered.
        root: Name of the part at the root.
        frames: Named frames besides the parts' own: the part that carries each, and its placement there.
        base: "floating" or "fixed" where the file states it, else None.
        file: The file.
        root_placement: Of the root in the world; it stays there if it is fixed.
        packages: Folders that hold ROS packages, given when it was read.
        jointed_to_world: Whether the root is the world itself, connected to the robot by joints of the file.

    Raises:
        ModelError: Two joints have one name.
    """

    name: str
    parts: Mapping[str, Part]
    connections: Sequence[Connection]
    root: str
    frames: Mapping[str, tuple[str, pin.SE3]]
    base: Literal["floating", "fixed"] | None
    file: ModelFile
    root_placement: pin.SE3 = field(default_factory=pin.SE3.Identity)
    packages: tuple[Path, ...] = ()
    jointed_to_world: bool = False

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for connection in self.connections:
            name = connection.joint.name
            if name in seen:
                raise self.error(f"two joints are called {name!r}; rename one of them", name, line=connection.line)
            seen.add(name)

    @cached_property
    def moving(self) -> dict[str, Connection]:
        """Joints that are not fixed, by name."""
        return {each.joint.name: each for each in self.connections if each.joint.kind != "fixed"}

    @cached_property
    def children(self) -> dict[str, list[Connection]]:
        """Joints by the part that carries them, in order; every part has an entry."""
        children: dict[str, list[Connection]] = {name: [] for name in self.parts}
        for connection in self.connections:
            children[connection.parent].append(connection)
        return children

    def error(self, message: str, *names: str, line: int | None = None) -> ModelError:
        """Return the error to raise, with the path of the file."""
        return ModelError(message, path=self.file.path, line=line, names=names)


def find_root(parts: Mapping[str, Part], connections: Sequence[Connection], path: Path) -> str:
    """Return the root of a graph of parts, and check that the graph is a tree.

    Raises:
        ModelError: The graph has two roots, a loop, or a joint with an unknown part.
    """
    parent_of: dict[str, Connection] = {}
    for connection in connections:
        earlier = parent_of.get(connection.child)
        if earlier is not None:
            raise ModelError(
                f"link {connection.child!r} has two parents, through the joints {earlier.joint.name!r} and "
                f"{connection.joint.name!r}: the links form a loop. Steelyard identifies trees; cut the loop by "
                "removing one of the two joints",
                path=path,
                line=connection.line,
                names=[earlier.joint.name, connection.joint.name],
            )
        parent_of[connection.child] = connection
    roots = [name for name in parts if name not in parent_of]
    if len(roots) > 1:
        raise ModelError(
            f"the model has {len(roots)} roots, {in_words(roots)}; connect them with joints, or remove what does not "
            "belong to the robot",
            path=path,
            names=roots,
        )
    reached = set(roots)
    while further := {name for name, connection in parent_of.items() if connection.parent in reached} - reached:
        reached |= further
    circling = [name for name in parts if name not in reached]
    if circling:
        raise ModelError(
            f"the links {in_words(circling)} form a loop without a first; remove the joint that closes it",
            path=path,
            names=circling,
        )
    return roots[0]
