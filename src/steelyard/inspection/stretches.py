"""The stretches of a recording that are looked at closely: those in which the robot moves most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.survey import STRETCH
from steelyard.motion import clean_parts
from steelyard.recording import MappedColumns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.inspection.survey import Survey
    from steelyard.model import ColumnSource
    from steelyard.recording import Recording

LONGEST = 60.0
"""Seconds that are looked at closely, at most."""

SHORTEST = 4.0
"""Seconds below which a stretch tells too little."""


def choose_stretches(recording: Recording, survey: Survey, columns: Sequence[str]) -> list[Recording]:
    """Gives the stretches in which the joints move most, in order of time, each even, in memory and without gaps.

    Args:
        recording: The recording.
        survey: What one pass over it found.
        columns: The columns that are needed; where one of them is silent, there is no stretch.
    """
    if survey.clock.end - survey.clock.start <= LONGEST:
        return _parts(recording, columns)
    order = np.argsort(-survey.activity, kind="stable")
    found: list[Recording] = []
    total = 0.0
    for block in order:
        start = survey.clock.start + block * survey.block
        first, last = (int(row) for row in np.searchsorted(recording.time, [start, start + STRETCH]))
        pieces = _parts(recording.rows(first, last), columns) if last > first else []
        found += pieces
        total += sum(piece.duration for piece in pieces)
        if total >= LONGEST - STRETCH:
            break
    return sorted(found, key=lambda piece: float(piece.time[0]))


def _parts(recording: Recording, columns: Sequence[str]) -> list[Recording]:
    if len(recording) < 2:
        return []
    return [part for part in clean_parts(recording.select(columns).loaded()) if part.duration >= SHORTEST]


def corrected(stretches: Sequence[Recording], corrections: Mapping[str, ColumnSource]) -> list[Recording]:
    """Gives stretches with some columns corrected: each is ``scale * another + offset``."""
    if not corrections:
        return list(stretches)
    result = []
    for stretch in stretches:
        sources = {name: (name, 1.0, 0.0) for name in stretch.columns}
        sources |= {
            name: (source.name, source.scale, source.offset)
            for name, source in corrections.items()
            if source.name in stretch.values
        }
        result.append(stretch.with_values(MappedColumns(stretch.values, len(stretch), sources)).loaded())
    return result
