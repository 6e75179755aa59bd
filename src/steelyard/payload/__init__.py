"""Payloads: what was added to a robot between two Evidences, on which link, how heavy and where."""

from steelyard.payload.argument_checks import choose_links
from steelyard.payload.finding import PayloadFinding
from steelyard.payload.load_problem import CHANGES, RIVAL_NUISANCE
from steelyard.payload.load_search import find_payload

__all__ = ["CHANGES", "RIVAL_NUISANCE", "PayloadFinding", "choose_links", "find_payload"]
