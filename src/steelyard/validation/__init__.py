"""Validation: prediction errors of an estimate on motions, best ones that it was not identified from."""

from steelyard.validation.bootstrap import Gain
from steelyard.validation.error_statistics import CANDIDATES, Candidates
from steelyard.validation.given_motions import preparation_for
from steelyard.validation.judge import Verdict, describe_verdict, judge, rows_with, together
from steelyard.validation.prediction import AXES, UNITS, Prediction
from steelyard.validation.predictor_plan import plan_predictor, with_sensor_errors
from steelyard.validation.validation import Validation, fit_sensor_errors, validate

__all__ = [
    "AXES",
    "CANDIDATES",
    "UNITS",
    "Candidates",
    "Gain",
    "Prediction",
    "Validation",
    "Verdict",
    "describe_verdict",
    "fit_sensor_errors",
    "judge",
    "plan_predictor",
    "preparation_for",
    "rows_with",
    "together",
    "validate",
    "with_sensor_errors",
]
