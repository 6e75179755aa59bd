"""What was found by looking at a model, what was guessed, and what was not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingKind = Literal["found", "guessed", "missing"]


@dataclass(frozen=True)
class DraftFinding:
    """One thing that a setup says, and how sure that is.

    Attributes:
        what: The thing: ``base``, ``sole left``, ``imu pelvis``, ``mirror``.
        kind: "found": the file says it, or its geometry does. "guessed": likely, and to be checked. "missing": it could
            not be found out.
        source: From what it was found or guessed, or why it was not found.
        advice: What to do about it; empty where nothing is to be done.
    """

    what: str
    kind: FindingKind
    source: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Gives the finding as plain texts."""
        return {"what": self.what, "kind": self.kind, "source": self.source, "advice": self.advice}
