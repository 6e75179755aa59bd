"""Steelyard finds out what a humanoid robot, or a person, really weighs, link by link."""

from steelyard.exceptions import ConsistencyError, EvidenceError, ModelError, MotionError, SteelyardError
from steelyard.model import (
    Model,
    ModelCheck,
    Setup,
    check_model,
    is_possible,
    load_model,
    project_to_interior,
    read_setup,
    ready_setups,
    write_model,
)
from steelyard.motion import Motion, motion_from_generalized
from steelyard.regression import Evidence, gather_evidence, load_evidence

__version__ = "0.1.0"

__all__ = [
    "ConsistencyError",
    "Evidence",
    "EvidenceError",
    "Model",
    "ModelCheck",
    "ModelError",
    "Motion",
    "MotionError",
    "Setup",
    "SteelyardError",
    "check_model",
    "gather_evidence",
    "is_possible",
    "load_evidence",
    "load_model",
    "motion_from_generalized",
    "project_to_interior",
    "read_setup",
    "ready_setups",
    "write_model",
]
