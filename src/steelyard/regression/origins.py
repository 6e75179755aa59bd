"""Origins of samples: stretches of recordings, by which validation on training data is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from steelyard.motion import Motion

SEAM = 1.0
"""Seconds between two stretches of one recording up to which they count as one. Set by judgement: longer than what a
filter cuts off at the ends of chunks, shorter than a pause between two motions."""


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
"""Sample periods beyond which a step of time is a gap: halfway between one sample and a missing one."""


def origins_of(motion: Motion) -> list[Origin]:
    """Return the stretches of a recording that a motion covers, split where its times jump by more than `SEAM`.

    An empty motion has none.
    """
    if len(motion) == 0:
        return []
    cuts = np.flatnonzero(np.diff(motion.time) > max(SEAM, _JUMP / motion.sample_rate)) + 1
    starts, ends = motion.time[[0, *cuts]], motion.time[[*(cuts - 1), -1]]
    return [Origin(motion.origin, float(start), float(end)) for start, end in zip(starts, ends, strict=True)]


def merge_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Return the stretches in order, merged where they overlap or nearly touch; unknown origins are dropped."""
    merged: list[Origin] = []
    for origin in sorted(each for each in origins if each.sha256):
        last = merged[-1] if merged else None
        if last is not None and last.sha256 == origin.sha256 and origin.start - last.end <= SEAM:
            merged[-1] = last._replace(end=max(last.end, origin.end))
        else:
            merged.append(origin)
    return tuple(merged)


def shared_seconds(ours: Iterable[Origin], theirs: Iterable[Origin]) -> float:
    """Return how many seconds two sets of stretches have in common."""
    other = merge_origins(theirs)
    return sum(
        max(0.0, min(one.end, two.end) - max(one.start, two.start))
        for one in merge_origins(ours)
        for two in other
        if one.sha256 == two.sha256
    )
