"""Models: loading them, their ten parameters per link, whether they can exist, and writing them back."""

from steelyard.model.check import Finding, ModelCheck, check_model
from steelyard.model.consistency import Consistency, diagnose, is_possible, project_to_interior
from steelyard.model.constraint_tables import parse_constraints
from steelyard.model.constraints import (
    ComInside,
    Constraint,
    Frozen,
    LeastMass,
    MassWithin,
    MatterInside,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    TotalMass,
)
from steelyard.model.loading import load_model
from steelyard.model.mirror import MirrorDifference, MirrorPair, compare_sides, find_pairs, mirror_parameters
from steelyard.model.model import Frame, Model, Tree
from steelyard.model.setup import Setup, read_setup, ready_setups
from steelyard.model.write_back import WrittenModel, write_model

__all__ = [
    "ComInside",
    "Consistency",
    "Constraint",
    "Finding",
    "Frame",
    "Frozen",
    "LeastMass",
    "MassWithin",
    "MatterInside",
    "MatterWithin",
    "MirrorDifference",
    "MirrorPair",
    "MirrorWithin",
    "Model",
    "ModelCheck",
    "PositiveInertia",
    "Setup",
    "TotalMass",
    "Tree",
    "WrittenModel",
    "check_model",
    "compare_sides",
    "diagnose",
    "find_pairs",
    "is_possible",
    "load_model",
    "mirror_parameters",
    "parse_constraints",
    "project_to_interior",
    "read_setup",
    "ready_setups",
    "write_model",
]
