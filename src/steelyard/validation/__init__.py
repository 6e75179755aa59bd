"""Validation: prediction errors of an estimate on motions, best ones that it was not identified from."""

from steelyard.validation.bootstrap import Gain
from steelyard.validation.error_statistics import CANDIDATES, Candidates
from steelyard.validation.prediction import AXES, UNITS, Prediction
from steelyard.validation.validation import ROBOT, Validation, plan_predictor, preparation_for, validate

__all__ = [
    "AXES",
    "CANDIDATES",
    "ROBOT",
    "UNITS",
    "Candidates",
    "Gain",
    "Prediction",
    "Validation",
    "plan_predictor",
    "preparation_for",
    "validate",
]
