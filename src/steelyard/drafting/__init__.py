"""Drafting of setup files from a model file: feet, sensors, mirror pairs."""

from steelyard.drafting.draft import SetupDraft, draft_setup
from steelyard.drafting.draft_findings import DraftFinding

__all__ = ["DraftFinding", "SetupDraft", "draft_setup"]
