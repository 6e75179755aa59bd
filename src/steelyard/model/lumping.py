"""From parts to bodies: welded parts are lumped, except across a wrench sensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin

from steelyard.model.description import Connection, Description, Joint
from steelyard.model.name_patterns import match_pattern
from steelyard.model.parameters import PARAMETER_COUNT, change_frame
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.model.description import Part
    from steelyard.model.setup import BaseKind


@dataclass(frozen=True, eq=False)
class Member:
    """A part inside a body.

    Attributes:
        part: The part of the file.
        placement: Of the part's frame in the body's joint frame.
        locked: Whether a locked joint lies between it and the body's joint; in the file it moves.
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
    """Return the bodies of a description, parents first, in depth-first order.

    Args:
        description: Contents of the file.
        base: Whether the root floats or is fixed to the world.
        locks: Positions of locked joints, by name; they become welds.
        cuts: Names of joints across which nothing is lumped, because a wrench sensor sits there.

    Raises:
        ModelError: A body at the end of a limb has no mass.
    """
    bodies: list[Body] = []
    # A floating base's position and orientation are in q; a fixed one stands where the file puts it.
    stand = description.root_placement if base == "fixed" else pin.SE3.Identity()
    root = Joint("root", "free" if base == "floating" else "fixed")
    waiting = [(-1, root, stand, description.root, pin.SE3.Identity())]
    while waiting:
        parent, joint, placement, part, part_placement = waiting.pop()
        members, onward = _weld(description, locks, cuts, part, part_placement)
        index = len(bodies)
        bodies.append(Body(part, parent, joint, placement, tuple(members)))
        for connection, at in reversed(onward):
            moved = connection.joint
            if moved.name in locks:
                moved = Joint(moved.name, "fixed")
            waiting.append((index, moved, at, connection.child, connection.child_placement))
    _refuse_massless_leaves(bodies, description, cuts)
    return bodies


def _weld(
    description: Description, locks: Mapping[str, FloatArray], cuts: set[str], part: str, placement: pin.SE3
) -> tuple[list[Member], list[tuple[Connection, pin.SE3]]]:
    """Return the parts welded to `part`, and the joints to further bodies, both depth first, with placements."""
    members: list[Member] = []
    onward: list[tuple[Connection, pin.SE3]] = []
    waiting: list[tuple[Connection | None, pin.SE3, bool]] = [(None, placement, False)]
    while waiting:
        connection, at, locked = waiting.pop()
        name = part
        if connection is not None:
            at = at * _locked_placement(connection, locks)
            still = connection.joint.kind == "fixed" or connection.joint.name in locks
            if not still or connection.joint.name in cuts:
                onward.append((connection, at))
                continue
            name, at = connection.child, at * connection.child_placement
            locked = locked or connection.joint.name in locks
        members.append(Member(description.parts[name], at, locked))
        waiting += [(child, at, locked) for child in reversed(description.children[name])]
    return members, onward


def resolve_locks(
    description: Description, locks: Mapping[str, Any], where: str, earlier: Mapping[str, FloatArray] | None = None
) -> dict[str, FloatArray]:
    """Return the position of every locked joint, by name.

    Args:
        description: Contents of the file.
        locks: Positions by joint name or pattern.
        where: Where the locks come from, for messages.
        earlier: Positions of joints locked before; `locks` override them.

    Raises:
        ModelError: A pattern matches no moving joint, or a position does not fit its joint.
    """
    moving = {name: connection.joint for name, connection in description.moving.items()}
    resolved = dict(earlier or {})
    for pattern, position in locks.items():
        matched = match_pattern(pattern, moving)
        if not matched:
            hint = did_you_mean(pattern, moving)
            raise description.error(f"{where} locks {pattern!r}, but no moving joint has this name{hint}", pattern)
        try:
            values = np.atleast_1d(np.asarray(position, dtype=np.float64))
        except (TypeError, ValueError):
            values = np.empty(0)
        for name in matched:
            size = moving[name].position_size
            fits = values.shape == (size,) and bool(np.all(np.isfinite(values)))
            if not fits or (size == 4 and np.linalg.norm(values) < 1e-6):
                needs = "one finite number" if size == 1 else "a quaternion of four finite numbers"
                raise description.error(
                    f"{where} locks {name!r} at {position!r}; a {moving[name].kind} joint needs {needs}", name
                )
            resolved[name] = values
    return resolved


def lock_followers(description: Description, locks: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the locks with those of joints that follow a locked or fixed one.

    Raises:
        ModelError: A moving joint follows another that is not locked.
    """
    moving = description.moving
    resolved = dict(locks)
    still = {c.joint.name for c in description.connections if c.joint.kind == "fixed"}
    followers = {name: c.mimic for name, c in moving.items() if c.mimic is not None and name not in resolved}
    still |= {""}  # the leader of a joint that is held at a constant
    while ready := [name for name, mimic in followers.items() if mimic.leader in resolved or mimic.leader in still]:
        for name in ready:
            mimic = followers.pop(name)
            leader = float(resolved.get(mimic.leader, np.zeros(1))[0])
            resolved[name] = np.array([mimic.position(leader)])
    if followers:
        names = sorted(followers)
        verb = "moves" if len(names) == 1 else "move"
        leaders = sorted({mimic.leader for mimic in followers.values()} & moving.keys() - followers.keys())
        whom = f"the joints that they follow ({in_words(leaders)})" if leaders else "them"
        example = (leaders or names)[0]
        raise description.error(
            f"{in_words(names)} {verb} with other joints (mimic, equality), and Steelyard identifies trees of "
            f'independent joints. Lock {whom}, in the setup:  [lock]  "{example}" = 0.0  or with '
            f"load_model(..., lock={{{example!r}: 0.0}}); or, if they move freely, remove the coupling",
            *names,
            line=moving[names[0]].line,
        )
    return resolved


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
        if body.parent < 0:
            message = f"link {body.name!r} is the only one, and has no mass; give it an <inertial>"
        elif body.joint.name in cuts:
            message = (
                f"no part with mass is below the wrench sensor at joint {body.joint.name!r}; name the frame of the "
                "first part below the sensor, or the joint between the parts above and below it"
            )
        else:
            message = (
                f"link {body.name!r} is at the end of a limb and has no mass; give it an <inertial>, or make its joint "
                f"{body.joint.name!r} fixed, or lock it: lock={{{body.joint.name!r}: 0.0}}"
            )
        raise description.error(message, body.name, line=body.members[0].part.line)
