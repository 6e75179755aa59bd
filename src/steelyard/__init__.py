"""Steelyard finds out what a humanoid robot, or a person, really weighs, link by link."""

from steelyard.exceptions import ConsistencyError, ModelError, SteelyardError
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

__version__ = "0.1.0"

__all__ = [
    "ConsistencyError",
    "Model",
    "ModelCheck",
    "ModelError",
    "Setup",
    "SteelyardError",
    "check_model",
    "is_possible",
    "load_model",
    "project_to_interior",
    "read_setup",
    "ready_setups",
    "write_model",
]
