"""Rates of topics beside that of the joints, and what remains of them on the joints' clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.recording.resampling import ResampledColumns, Stream, usual_period
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.arrays import FloatArray

_SLOW = 0.5
"""Share of the joints' rate below which a topic is slow. Set by judgement: jitter and rounding stay above it."""

_AS_MANY = 0.8
"""Share of the rows from which a topic has about as many readings. Set by judgement: a fifth of them may be lost."""

_MOSTLY = 0.5
"""Share of filled rows below which a topic is mostly missing. Set by judgement."""


def note_rates(joints: Stream, others: Sequence[Stream]) -> list[str]:
    """Return notes on topics that are far slower than the joints, or mostly missing on the joints' clock.

    Args:
        joints: The stream whose times are the rows.
        others: The other streams.
    """
    joint_period = usual_period(joints.time)
    slow: dict[tuple[str, str], dict[str, None]] = {}
    masked: dict[str, float] = {}
    for stream in others:
        if stream.time is joints.time or len(stream.time) < 2:
            continue
        first = np.searchsorted(joints.time, stream.time[0])
        rows = joints.time[first : np.searchsorted(joints.time, stream.time[-1], side="right")]
        low, high = np.searchsorted(stream.time, joints.time[[0, -1]])
        readings = int(high - low)
        if len(rows) == 0 or readings < 2:
            continue
        filled = _count_filled(rows, stream)
        period = usual_period(stream.time)
        if period * _SLOW > joint_period:
            between = "nothing" if filled <= readings else "straight lines"
            slow.setdefault((f"{1.0 / period:.3g} Hz", between), {})[stream.name] = None
        elif filled < _MOSTLY * len(rows) and readings >= _AS_MANY * len(rows):
            masked[stream.name] = 1.0 - filled / len(rows)
    return [
        f"{_names(topics)} {'comes' if len(topics) == 1 else 'come'} at {rate}, the joints at "
        f"{1.0 / joint_period:.3g} Hz: between {'its' if len(topics) == 1 else 'their'} readings {between}"
        for (rate, between), topics in slow.items()
    ] + [
        f"{topic!r} has about as many messages as the joints, but {100.0 * share:.0f} % of the rows have no reading of "
        "it: its messages come in bursts, with gaps between them"
        for topic, share in masked.items()
    ]


def _count_filled(rows: FloatArray, stream: Stream) -> int:
    """Count the rows in which a stream has a reading, or is interpolated."""
    there = ResampledColumns(rows, [Stream(stream.name, stream.time, {"there": np.ones(len(stream.time))})])
    return int(np.count_nonzero(np.isfinite(there["there"])))


def _names(topics: Iterable[str]) -> str:
    return in_words([repr(topic) for topic in topics], limit=2)
