"""Entries of a drafted setup: found, guessed, or missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingKind = Literal["found", "guessed", "missing"]


@dataclass(frozen=True)
class DraftFinding:
    """Entry of a drafted setup, and how certain it is.

    Attributes:
        what: Entry: ``base``, ``sole left``, ``imu pelvis``, ``mirror``.
        kind: "found": stated by the file or its geometry. "guessed": likely, needs a check. "missing": not found.
        source: Evidence for it, or the reason why it is missing.
        advice: Action for the user; empty where none is needed.
    """

    what: str
    kind: FindingKind
    source: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the finding as a dictionary of strings."""
        return {"what": self.what, "kind": self.kind, "source": self.source, "advice": self.advice}
