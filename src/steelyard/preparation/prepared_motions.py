"""The motions of recordings, prepared alike, which can be read again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from steelyard.motion import Motion
    from steelyard.preparation.preparation import Preparation
    from steelyard.preparation.sources import RecordingLike


class PreparedMotions:
    """The motions of recordings, piece by piece, one recording after the other; each iteration begins anew.

    Attributes:
        prepared: How they are prepared.
        sources: The recordings.
    """

    def __init__(self, prepared: Preparation, sources: Iterable[RecordingLike]) -> None:
        self.prepared = prepared
        self.sources = tuple(sources)

    def __iter__(self) -> Iterator[Motion]:
        for source in self.sources:
            yield from self.prepared.motions(source)
