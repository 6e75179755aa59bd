"""Validation: an estimate held against motions, seen or not."""

from steelyard.validation.bootstrap import Gain
from steelyard.validation.fit import Candidates, Fit
from steelyard.validation.validation import Validation, validate

__all__ = ["Candidates", "Fit", "Gain", "Validation", "validate"]
