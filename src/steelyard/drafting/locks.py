"""Joints to lock, so that every joint of a model is independent and moves some mass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.model import Connection, Description, Joint

LockPosition = float | tuple[float, ...]


def propose_locks(description: Description) -> dict[str, tuple[LockPosition, str]]:
    """Return the joints to lock, by name, each with its position and the reason.

    These are leaders of mimic joints or joint equalities (their followers are locked with them), followers of a joint
    that the file does not have, and joints with only massless parts downstream.
    """
    moving = {c.joint.name: c for c in description.connections if c.joint.kind not in ("fixed", "free")}
    names = {c.joint.name for c in description.connections}
    locks: dict[str, tuple[LockPosition, str]] = {}
    followers: dict[str, list[str]] = {}
    for name, connection in moving.items():
        if connection.mimic is None:
            continue
        leader = _leader(moving, connection)
        if leader is None:
            locks[name] = (rest_position(connection.joint), "its mimic chain is circular")
        elif leader in moving:
            followers.setdefault(leader, []).append(name)
        elif leader and leader not in names:
            locks[name] = (rest_position(connection.joint), f"it mimics {leader}, which is not a joint of the file")
    for leader, names_of_followers in followers.items():
        verb = "mimics" if len(names_of_followers) == 1 else "mimic"
        locks[leader] = (rest_position(moving[leader].joint), f"{in_words(names_of_followers, limit=2)} {verb} it")
    empty = empty_parts(description)
    for name, connection in moving.items():
        if connection.child in empty and name not in locks and connection.mimic is None:
            locks[name] = (rest_position(connection.joint), f"nothing downstream of it has mass ({connection.child})")
    return locks


def rest_position(joint: Joint) -> LockPosition:
    """Return the position nearest to zero within a joint's limits; a quaternion x y z w for a ball joint."""
    if joint.kind == "ball":
        return (0.0, 0.0, 0.0, 1.0)
    return float(np.clip(0.0, joint.lower, joint.upper)) if joint.lower <= joint.upper else 0.0


def _leader(moving: dict[str, Connection], follower: Connection) -> str | None:
    """Return the joint at the start of a mimic chain; None where the chain is circular."""
    seen = {follower.joint.name}
    name = follower.mimic.leader if follower.mimic is not None else ""
    while name in moving and (mimic := moving[name].mimic) is not None:
        if name in seen:
            return None
        seen.add(name)
        name = mimic.leader
    return None if name in seen else name


def empty_parts(description: Description) -> set[str]:
    """Return the parts without mass that have no mass downstream."""
    children: dict[str, list[str]] = {}
    for connection in description.connections:
        children.setdefault(connection.parent, []).append(connection.child)
    order = [description.root]
    for part in order:
        order += children.get(part, [])
    empty: set[str] = set()
    for part in reversed(order):
        if description.parts[part].massless and all(child in empty for child in children.get(part, [])):
            empty.add(part)
    return empty
