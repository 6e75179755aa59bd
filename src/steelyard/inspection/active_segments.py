"""Segments of a recording for the detailed checks: those with the most motion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.survey import SEGMENT_LENGTH
from steelyard.model import ColumnSource
from steelyard.motion import longest_bridged_gap, split_at_gaps
from steelyard.recording import MappedColumns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.inspection.survey import Survey
    from steelyard.recording import Recording

MOST_SECONDS = 60.0
"""Longest total duration (s) of the detailed checks. Set by judgement: they take a few seconds on it."""

SHORTEST_SEGMENT = 4.0
"""Shortest usable segment, s. Set by judgement: at 5 Hz the filter's edges take 1.5 s of it."""


def choose_segments(recording: Recording, survey: Survey, columns: Sequence[str], cutoff: float) -> list[Recording]:
    """Return the segments with the most joint motion, in order of time, each even, in memory and without gaps.

    Args:
        recording: The recording.
        survey: Survey of the recording.
        columns: The required columns; a gap in one of them ends a segment.
        cutoff: Cutoff (Hz) of the filter that the segments are for: what is a gap to its motions is one here too.
    """
    if survey.clock.end - survey.clock.start <= MOST_SECONDS:
        return _parts(recording, columns, cutoff)
    order = np.argsort(-survey.activity, kind="stable")
    found: list[Recording] = []
    total = 0.0
    for block in order:
        start = survey.clock.start + block * survey.block
        first, last = (int(row) for row in np.searchsorted(recording.time, [start, start + SEGMENT_LENGTH]))
        pieces = _parts(recording.rows(first, last), columns, cutoff) if last > first else []
        found += pieces
        total += sum(piece.duration for piece in pieces)
        if total >= MOST_SECONDS - SEGMENT_LENGTH:
            break
    return sorted(found, key=lambda piece: float(piece.time[0]))


def _parts(recording: Recording, columns: Sequence[str], cutoff: float) -> list[Recording]:
    if len(recording) < 2:
        return []
    parts = split_at_gaps(recording.select(columns).loaded(), longest_bridged_gap(cutoff))
    return [part for part in parts if part.duration >= SHORTEST_SEGMENT]


def corrected(segments: Sequence[Recording], corrections: Mapping[str, ColumnSource]) -> list[Recording]:
    """Return segments with some columns corrected: ``scale * source + offset``."""
    if not corrections:
        return list(segments)
    result = []
    for segment in segments:
        sources = {name: ColumnSource(name) for name in segment.columns}
        sources |= {name: source for name, source in corrections.items() if source.name in segment.values}
        result.append(segment.with_values(MappedColumns(segment.values, len(segment), sources)).loaded())
    return result
