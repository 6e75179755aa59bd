"""Where samples came from: stretches of recordings, so that nobody validates on what was learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from steelyard.motion import Motion

SEAM = 1.0
"""Seconds between two stretches of one recording up to which they count as one."""


class Origin(NamedTuple):
    """A stretch of a recording.

    Attributes:
        sha256: Identity of the recording (`Recording.origin`).
        start: Time of its first sample, s.
        end: Time of its last sample, s.
    """

    sha256: str
    start: float
    end: float


_JUMP = 1.5
"""Sample periods from which on a step of time is a jump."""


def origins_of(motion: Motion) -> list[Origin]:
    """Gives the stretches that a motion is made of: it ends and begins again where its times jump by more than a seam.

    A motion without samples has none.
    """
    if len(motion) == 0:
        return []
    cuts = np.flatnonzero(np.diff(motion.time) > max(SEAM, _JUMP / motion.sample_rate)) + 1
    starts, ends = motion.time[[0, *cuts]], motion.time[[*(cuts - 1), -1]]
    return [Origin(motion.origin, float(start), float(end)) for start, end in zip(starts, ends, strict=True)]


def merge_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Gives the stretches in order, those that overlap or nearly touch as one; what has no known origin is left out."""
    merged: list[Origin] = []
    for origin in sorted(each for each in origins if each.sha256):
        last = merged[-1] if merged else None
        if last is not None and last.sha256 == origin.sha256 and origin.start - last.end <= SEAM:
            merged[-1] = last._replace(end=max(last.end, origin.end))
        else:
            merged.append(origin)
    return tuple(merged)


def shared_seconds(ours: Iterable[Origin], theirs: Iterable[Origin]) -> float:
    """Gives how many seconds two sets of stretches have in common."""
    other = merge_origins(theirs)
    return sum(
        max(0.0, min(one.end, two.end) - max(one.start, two.start))
        for one in merge_origins(ours)
        for two in other
        if one.sha256 == two.sha256
    )
