"""From parts to bodies: what is welded together moves as one, except across a wrench sensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.description import Connection, Description, Joint
from steelyard.model.names import did_you_mean, in_words, match_pattern
from steelyard.model.parameters import PARAMETER_COUNT, FloatArray, change_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model.description import Part
    from steelyard.model.setup import BaseKind


@dataclass(frozen=True, eq=False)
class Member:
    """A part inside a body.

    Attributes:
        part: The part of the file.
        placement: Of the part's frame in the body's joint frame.
        locked: Whether a locked joint lies between it and the body's joint, so that the file lets it move.
    """

    part: Part
    placement: pin.SE3
    locked: bool

    @property
    def parameters_in_body(self) -> FloatArray:
        """The part's ten parameters in the body's joint frame, shape (10,)."""
        return change_frame(self.part.parameters, self.placement.rotation, self.placement.translation)


@dataclass(frozen=True, eq=False)
class Body:
    """Parts welded together, and the joint that moves them against their parent.

    Attributes:
        name: Name of the part at the joint.
        parent: Index of the parent body; −1 for the root.
        joint: The joint to the parent: "free" for a floating root, "fixed" for a fixed one and below a wrench sensor.
        placement: Of the joint frame in the parent body's joint frame (the root's: in the world), at position zero.
        members: Its parts; the first is the one at the joint.
    """

    name: str
    parent: int
    joint: Joint
    placement: pin.SE3
    members: tuple[Member, ...]

    @property
    def massless(self) -> bool:
        """Whether no part of it has mass: a connector."""
        return all(member.part.massless for member in self.members)

    @property
    def lumped_parameters(self) -> FloatArray:
        """The ten parameters of all its parts together, in its joint frame, shape (10,)."""
        massive = [member for member in self.members if not member.part.massless]
        return sum((member.parameters_in_body for member in massive), np.zeros(PARAMETER_COUNT))


def lump(description: Description, *, base: BaseKind, locks: Mapping[str, FloatArray], cuts: set[str]) -> list[Body]:
    """Gives the bodies of a description, parents first, in depth-first order.

    Args:
        description: What the file says.
        base: Whether the root floats or is fixed to the world.
        locks: Positions of locked joints, by name; they become welds.
        cuts: Names of joints across which nothing is lumped, because a wrench sensor sits there.

    Raises:
        ModelError: A body at the end of a limb has no mass.
    """
    children: dict[str, list[Connection]] = {}
    for connection in description.connections:
        children.setdefault(connection.parent, []).append(connection)
    bodies: list[Body] = []

    def grow(parent: int, joint: Joint, placement: pin.SE3, part: str, part_placement: pin.SE3) -> None:
        index = len(bodies)
        members: list[Member] = []
        onward: list[tuple[Connection, pin.SE3]] = []

        def weld(name: str, at: pin.SE3, *, locked: bool) -> None:
            members.append(Member(description.parts[name], at, locked))
            for connection in children.get(name, []):
                weldable = connection.joint.kind == "fixed" or connection.joint.name in locks
                if weldable and connection.joint.name not in cuts:
                    child = at * _locked_placement(connection, locks) * connection.child_placement
                    weld(connection.child, child, locked=locked or connection.joint.name in locks)
                else:
                    onward.append((connection, at * _locked_placement(connection, locks)))

        weld(part, part_placement, locked=False)
        bodies.append(Body(part, parent, joint, placement, tuple(members)))
        for connection, at in onward:
            moved = connection.joint
            if moved.name in locks:
                moved = Joint(moved.name, "fixed")
            grow(index, moved, at, connection.child, connection.child_placement)

    root = Joint("root", "free" if base == "floating" else "fixed")
    # A floating base's position and orientation are in q; a fixed one stands where the file puts it.
    stand = description.root_placement if base == "fixed" else pin.SE3.Identity()
    grow(-1, root, stand, description.root, pin.SE3.Identity())
    _refuse_massless_leaves(bodies, description, cuts)
    return bodies


def resolve_locks(
    description: Description, locks: Mapping[str, float | tuple[float, ...]], where: str
) -> dict[str, FloatArray]:
    """Gives the position of every joint that is locked, by name, followers of locked joints included.

    Args:
        description: What the file says.
        locks: Positions by joint name or pattern.
        where: Whose locks they are, for messages.

    Raises:
        ModelError: A pattern matches no moving joint, a position does not fit its joint, or a moving joint follows
            another that is not locked.
    """
    moving = {c.joint.name: c for c in description.connections if c.joint.kind != "fixed"}
    path = description.file.path
    resolved: dict[str, FloatArray] = {}
    for pattern, position in locks.items():
        matched = match_pattern(pattern, moving)
        if not matched:
            raise ModelError(
                f"{where} locks {pattern!r}, but no moving joint has this name{did_you_mean(pattern, moving)}",
                path=path,
                names=[pattern],
            )
        values = np.atleast_1d(np.asarray(position, dtype=np.float64))
        for name in matched:
            size = moving[name].joint.position_size
            if values.shape != (size,) or not np.all(np.isfinite(values)):
                raise ModelError(
                    f"{where} locks {name!r} at {position!r}; a {moving[name].joint.kind} joint needs "
                    + ("one number" if size == 1 else f"{size} numbers"),
                    path=path,
                    names=[name],
                )
            resolved[name] = values
    _lock_followers(description, moving, resolved)
    return resolved


def _lock_followers(
    description: Description, moving: Mapping[str, Connection], resolved: dict[str, FloatArray]
) -> None:
    """Locks what follows a locked or fixed joint, and refuses what follows a moving one."""
    still = {c.joint.name for c in description.connections if c.joint.kind == "fixed"}
    followers = {name: c.mimic for name, c in moving.items() if c.mimic is not None and name not in resolved}
    progress = True
    while followers and progress:
        progress = False
        for name, mimic in list(followers.items()):
            if mimic.leader in resolved or mimic.leader in still or not mimic.leader:
                leader = resolved.get(mimic.leader, np.zeros(1))
                resolved[name] = mimic.multiplier * leader + mimic.offset
                del followers[name]
                progress = True
    if followers:
        names = sorted(followers)
        leaders = sorted({mimic.leader for mimic in followers.values()} & moving.keys() - followers.keys())
        whom = f"the joints that they follow ({in_words(leaders)})" if leaders else "them"
        example = (leaders or names)[0]
        raise ModelError(
            f"the joints {in_words(names)} move with others (mimic), and Steelyard identifies trees of independent "
            f'joints. Lock {whom}, in the setup:  [lock]  "{example}" = 0.0  or with '
            f"load_model(..., lock={{{example!r}: 0.0}}); or, if they move freely, remove their <mimic>",
            path=description.file.path,
            line=moving[names[0]].line,
            names=names,
        )


def _locked_placement(connection: Connection, locks: Mapping[str, FloatArray]) -> pin.SE3:
    position = locks.get(connection.joint.name)
    if position is None:
        return connection.placement
    return connection.placement * connection.joint.motion(position)


def _refuse_massless_leaves(bodies: list[Body], description: Description, cuts: set[str]) -> None:
    parents = {body.parent for body in bodies}
    for index, body in enumerate(bodies):
        if not body.massless or index in parents:
            continue
        if body.joint.name in cuts:
            message = (
                f"nothing with mass hangs below the wrench sensor at joint {body.joint.name!r}; name the frame of the "
                "first part below the sensor, or the joint between the parts above and below it"
            )
        else:
            message = (
                f"link {body.name!r} is at the end of a limb and has no mass; give it an <inertial>, or make its joint "
                f"{body.joint.name!r} fixed, or lock it: lock={{{body.joint.name!r}: 0.0}}"
            )
        raise ModelError(message, path=description.file.path, line=body.members[0].part.line, names=[body.name])
