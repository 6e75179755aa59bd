"""The Model: a tree of links with their ten parameters, sensors and soles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.kinematics import JOINT_CODES, Tree
from steelyard.model.parameters import PARAMETER_COUNT, parameter_names
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pinocchio as pin

    from steelyard.arrays import FloatArray
    from steelyard.model.check import ModelCheck
    from steelyard.model.description import Description, Joint
    from steelyard.model.lumping import Body
    from steelyard.model.setup import BaseKind, Setup
    from steelyard.model.write_back import WrittenModel


class Frame(NamedTuple):
    """A named frame: the body that carries it, and its placement in that body's joint frame."""

    body: int
    placement: pin.SE3


@dataclass(frozen=True, eq=False)
class Model:
    """A robot or a person as a tree of rigid links.

    A link is a rigid body that can move against the others; parts welded by fixed joints are one link, except
    across a wrench sensor. Bodies without mass (connectors, such as the middle of a ball joint written as three hinges)
    and the base of a fixed robot, which never moves, carry no parameters and are not among the links.

    The configuration ``q`` is the base's position and quaternion x y z w (floating only), then the joints' positions in
    order; the velocity ``v`` is the base's linear and angular velocity in the base's own axes, then the joints'. Both
    are Pinocchio's, except that a continuous joint is one plain angle.

    Attributes:
        name: The robot's name.
        base: "floating" or "fixed".
        bodies: Every body, parents first; the root is the first.
        parameters: The ten parameters of each link at its joint frame, shape (n_links, 10), read-only.
        frames: Every named frame of the file.
        locks: Positions of the joints that were locked, by name.
        setup: Sensors, soles and the rest of the setup.
        description: Contents of the model file.
    """

    name: str
    base: BaseKind
    bodies: tuple[Body, ...]
    parameters: FloatArray
    frames: Mapping[str, Frame]
    locks: Mapping[str, FloatArray]
    setup: Setup
    description: Description

    @cached_property
    def link_bodies(self) -> tuple[int, ...]:
        """Index of the body of each link, in parameter order."""
        fixed_root = 0 if self.base == "fixed" else -1
        return tuple(index for index, body in enumerate(self.bodies) if not body.massless and index != fixed_root)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Names of the links, in parameter order."""
        return tuple(self.bodies[index].name for index in self.link_bodies)

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """Names of the moving joints, in the order of ``q`` and ``v``; the floating base is not among them."""
        return tuple(body.joint.name for body in self._moving)

    @cached_property
    def _moving(self) -> tuple[Body, ...]:
        return tuple(body for body in self.bodies[1:] if body.joint.kind != "fixed")

    @cached_property
    def parameter_names(self) -> list[str]:
        """Name of each parameter, ``"<link>.<symbol>"``, in the order of ``parameters.ravel()``."""
        return parameter_names(self.links)

    @property
    def total_mass(self) -> float:
        """Sum of the links' masses, kg."""
        return float(self.parameters[:, 0].sum())

    @property
    def masses(self) -> dict[str, float]:
        """Mass of each link, kg, by name."""
        return dict(zip(self.links, self.parameters[:, 0].tolist(), strict=True))

    @cached_property
    def position_size(self) -> int:
        """Length of ``q``."""
        return sum(body.joint.position_size for body in self.bodies)

    @cached_property
    def velocity_size(self) -> int:
        """Length of ``v``."""
        return sum(body.joint.velocity_size for body in self.bodies)

    @cached_property
    def neutral(self) -> FloatArray:
        """The configuration with every joint at zero and the base at the origin, shape (position_size,)."""
        positions = np.zeros(self.position_size)
        for index, body in enumerate(self.bodies):
            if body.joint.kind in ("free", "ball"):
                positions[int(self.tree.q_starts[index]) + body.joint.position_size - 1] = 1.0
        positions.setflags(write=False)
        return positions

    @cached_property
    def tree(self) -> Tree:
        """The kinematic tree as plain arrays."""
        rows = np.full(len(self.bodies), -1, dtype=np.int64)
        rows[list(self.link_bodies)] = np.arange(len(self.links))
        q_sizes = [body.joint.position_size for body in self.bodies]
        v_sizes = [body.joint.velocity_size for body in self.bodies]
        tree = Tree(
            parents=np.array([body.parent for body in self.bodies], dtype=np.int64),
            kinds=np.array([JOINT_CODES[body.joint.kind] for body in self.bodies], dtype=np.int64),
            axes=np.array([body.joint.axis for body in self.bodies], dtype=np.float64),
            rotations=np.array([body.placement.rotation for body in self.bodies], dtype=np.float64),
            translations=np.array([body.placement.translation for body in self.bodies], dtype=np.float64),
            q_starts=np.concatenate([[0], np.cumsum(q_sizes)[:-1]]).astype(np.int64),
            v_starts=np.concatenate([[0], np.cumsum(v_sizes)[:-1]]).astype(np.int64),
            rows=rows,
        )
        for array in vars(tree).values():
            array.setflags(write=False)
        return tree

    @cached_property
    def pinocchio(self) -> pin.Model:
        """The same model in Pinocchio, with the same ``q`` and ``v``. Shared: copy it before changing it."""
        from steelyard.model.pinocchio_model import build_pinocchio  # noqa: PLC0415  (it needs Model)

        return build_pinocchio(self)

    def joint(self, name: str) -> Joint:
        """Return a moving joint by name.

        Raises:
            ModelError: There is no such joint, or it was locked.
        """
        return self.bodies[self.joint_body(name)].joint

    def joint_body(self, name: str) -> int:
        """Return the index of the body that a joint moves; see `joint`."""
        for index, body in enumerate(self.bodies):
            if index and body.joint.name == name and body.joint.kind != "fixed":
                return index
        locked = " (it is locked)" if name in self.locks else did_you_mean(name, self.joints)
        raise ModelError(f"{self.name} has no moving joint {name!r}{locked}", names=[name])

    def link_index(self, name: str) -> int:
        """Return the row of a link in `parameters`.

        Raises:
            ModelError: There is no such link; the message says which link a welded part belongs to.
        """
        if name in self.links:
            return self.links.index(name)
        hint = did_you_mean(name, self.links)
        for body in self.bodies:
            if any(member.part.name == name for member in body.members):
                hint = f"; {name!r} is welded into {body.name!r}" if body.name in self.links else "; it has no mass"
        raise ModelError(f"{self.name} has no link {name!r}{hint}", names=[name])

    def frame(self, name: str) -> Frame:
        """Return a frame by the name of a link, joint or site of the file.

        Raises:
            ModelError: There is no such frame; the message suggests the nearest name.
        """
        try:
            return self.frames[name]
        except KeyError:
            raise ModelError(
                f"{self.name} has no frame {name!r}{did_you_mean(name, self.frames)}", names=[name]
            ) from None

    def carriers(self, body: int) -> list[int]:
        """Return a body and its ancestors, nearest first, without the root."""
        chain = []
        while body > 0:
            chain.append(body)
            body = self.bodies[body].parent
        return chain

    def with_parameters(self, parameters: Any) -> Model:
        """Return the same model with other parameters.

        Args:
            parameters: Shape (n_links, 10), or flat.

        Raises:
            ModelError: The shape is wrong, or a number is not finite; the message names the parameter.
        """
        try:
            array = np.array(parameters, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"the parameters of {self.name} must be an array of numbers") from error
        if array.size != len(self.links) * PARAMETER_COUNT:
            raise ModelError(
                f"{self.name} has {len(self.links)} links with ten parameters each; "
                f"an array of shape {array.shape} does not fit"
            )
        array = array.reshape(len(self.links), PARAMETER_COUNT)
        wrong = np.flatnonzero(~np.isfinite(array))
        if len(wrong):
            names = [self.parameter_names[index] for index in wrong]
            raise ModelError(f"the parameter {names[0]!r} is {array.ravel()[wrong[0]]}; it must be finite", names=names)
        array.setflags(write=False)
        return replace(self, parameters=array)

    def with_locked(self, locks: Mapping[str, float | tuple[float, ...]]) -> Model:
        """Return a smaller model in which some joints are locked, by name or pattern, at a position (rad or m).

        The parameters are those of this model, lumped again.

        Raises:
            ModelError: A pattern matches no moving joint, or a link at a limb's end has no mass.
        """
        from steelyard.model.loading import lock_joints  # noqa: PLC0415  (it needs Model)

        return lock_joints(self, locks)

    def check(self) -> ModelCheck:
        """Check which links are impossible or singular, and why; see `check_model`."""
        from steelyard.model.check import check_model  # noqa: PLC0415  (it needs Model)

        return check_model(self)

    def write(self, path: str | Path) -> WrittenModel:
        """Write the parameters back into the model's own format; see `write_model`."""
        from steelyard.model.write_back import write_model  # noqa: PLC0415  (it needs Model)

        return write_model(self, path)

    def __repr__(self) -> str:
        return (
            f"<Model {self.name}: {len(self.links)} links, {len(self.joints)} joints, {self.base} base, "
            f"{self.total_mass:.2f} kg>"
        )
