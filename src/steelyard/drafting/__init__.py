"""Drafting of setup files from a model file: feet, sensors, mirror pairs."""

from steelyard.drafting.draft import SetupDraft, draft_setup
from steelyard.drafting.draft_findings import DraftFinding
from steelyard.drafting.toml_text import plain

__all__ = ["DraftFinding", "SetupDraft", "draft_setup", "plain"]
