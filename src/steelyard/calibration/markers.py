"""Which markers of a recording are used, and whether their positions can be metres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.calibration.poses import PoseSet
from steelyard.exceptions import RecordingError
from steelyard.recording import MARKER, Recording, marker_columns, parse_column
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.calibration.calibration_problem import CalibrationProblem
    from steelyard.model import Marker, Model

_ROOM = 50.0
"""Spread (m) of a marker that no room allows; in millimetres a floating robot's is larger. Set by judgement."""

_REACHES = 10.0
"""Spread of a marker, in lengths of its chain, that a fixed base does not allow: twice is the greatest possible."""


def choose_markers(model: Model, recording: Recording | Sequence[Recording] | PoseSet) -> tuple[Marker, ...]:
    """Return the markers of the setup that are recorded."""
    return tuple(marker for marker in model.setup.markers if marker.name in _recorded(recording))


def undeclared_markers(model: Model, recording: Recording | Sequence[Recording] | PoseSet) -> tuple[str, ...]:
    """Return a note on the markers that are recorded and not in the setup, if there are any."""
    known = [marker.name for marker in model.setup.markers]
    unknown = [name for name in _recorded(recording) if name not in known]
    if not unknown:
        return ()
    hint = did_you_mean(unknown[0], known) if len(unknown) == 1 else ""
    return (
        f"markers that are recorded but not used, because no [[marker]] of the setup states their link: "
        f"{in_words([repr(name) for name in unknown])}{hint}",
    )


def _recorded(recording: Recording | Sequence[Recording] | PoseSet) -> list[str]:
    """Return the labels of the markers whose positions are there."""
    if isinstance(recording, PoseSet):
        return list(recording.markers)
    several = recording if isinstance(recording, list | tuple) else [recording]
    # What is no recording is refused where poses are sampled.
    columns = {name for each in several if isinstance(each, Recording) for name in each.columns}
    parsed = [parts for name in sorted(columns) if (parts := parse_column(name)) is not None]
    labels = dict.fromkeys(parts.owner for parts in parsed if parts.quantity == MARKER)
    return [label for label in labels if columns.issuperset(marker_columns(label))]


def check_marker_units(problem: CalibrationProblem) -> None:
    """Raise where markers move farther than the robot can carry them.

    Raises:
        RecordingError: One does: its positions are not in metres.
    """
    places = problem.chains.place(np.asarray(problem.poses.positions))
    for marker in problem.markers:
        seen = problem.poses.markers[marker.name]
        seen = seen[np.isfinite(seen).all(axis=1)]
        spread = float(np.median(np.linalg.norm(seen - np.median(seen, axis=0), axis=1)))
        reach = np.linalg.norm(places.positions[problem.chains.frames.index(marker.frame)], axis=1).max()
        reach = float(reach + np.linalg.norm(marker.position))
        limit = _ROOM if problem.floating else _REACHES * max(reach, 0.1)
        if spread > limit:
            raise RecordingError(
                f"the marker {marker.name!r} is {spread:.3g} m from its median position in half of the poses, but "
                f"{marker.frame!r} reaches {reach:.2g} m: its positions look like millimetres; map its columns in "
                '[recording.columns] with unit = "mm", or give metres',
                column=marker_columns(marker.name)[0],
            )
