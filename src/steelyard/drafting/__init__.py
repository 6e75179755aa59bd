"""Setup files drafted by looking at a model: its feet, its sensors, its left and right."""

from steelyard.drafting.draft import SetupDraft, draft_setup
from steelyard.drafting.findings import DraftFinding

__all__ = ["DraftFinding", "SetupDraft", "draft_setup"]
