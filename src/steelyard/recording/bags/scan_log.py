"""The log of a pass through a bag: how far it goes, and what in it is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

from steelyard.recording.bags.ros_messages import SECOND
from steelyard.wording import reason


def complaint(error: BaseException) -> str:
    """Return the error message of another library with unprintable characters replaced: it may quote the file."""
    return "".join(letter if letter.isprintable() else "?" for letter in reason(error))


@dataclass(eq=False)
class ScanLog:
    """A log of what is damaged.

    Attributes:
        first: Time of receipt of the first message, ns; None before it.
        last: Of the last.
        unknown: How many messages are of a topic that nothing before them defines.
    """

    first: int | None = None
    last: int = 0
    unknown: int = 0
    _damaged: list[str] = field(default_factory=list)
    _damaged_count: int = 0

    @property
    def elapsed(self) -> float:
        """Seconds from the first message to the last."""
        return 0.0 if self.first is None else (self.last - self.first) / SECOND

    def note_message(self, received: int, *, known: bool) -> None:
        """Record the time of receipt of a message (ns), and whether its topic is defined."""
        self.first = received if self.first is None else self.first
        self.last = received
        self.unknown += not known

    def note_damage(self, what: str) -> None:
        """Record a piece that cannot be read."""
        self._damaged_count += 1
        if len(self._damaged) < 3:
            self._damaged.append(f"after {self.elapsed:.3f} s: {what}")

    def notes(self, cut_off: str | None) -> list[str]:
        """Return the notes.

        Args:
            cut_off: Why the end of the file is missing, or None where it is there.
        """
        notes = []
        if self._damaged_count:
            what, was = ("piece", "was") if self._damaged_count == 1 else ("pieces", "were")
            notes.append(
                f"{self._damaged_count} damaged {what} of the file {was} left out ({'; '.join(self._damaged)})"
            )
        if self.unknown:
            notes.append(f"{self.unknown} messages are of topics that nothing in the file defines and were left out")
        if cut_off is not None:
            notes.append(f"the file is cut off after {self.elapsed:.3f} s ({cut_off}); what is there was read")
        return notes
