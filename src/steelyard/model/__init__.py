"""Models: loading, the ten parameters of each link, physical consistency, geometry, and writing back."""

from steelyard.model.check import ModelCheck, check_model, describe_difference
from steelyard.model.consistency import (
    EXTENT_FLOOR,
    SINGULAR_EXTENT,
    Consistency,
    diagnose,
    is_possible,
    project_to_interior,
)
from steelyard.model.constraint_tables import constraint_table, parse_constraint_table, parse_constraints
from steelyard.model.constraints import (
    CONSTRAINT_CLASSES,
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
    link_patterns,
)
from steelyard.model.description import Connection, Description, Geometry, Joint
from steelyard.model.divergence import affine_distance, log_det_divergence, log_det_gradient, log_det_hessian
from steelyard.model.files.joint_origins import write_with_offsets
from steelyard.model.files.mjcf import compile_mjcf
from steelyard.model.files.mjcf_file import MjcfFile
from steelyard.model.files.packages import as_path, find_file, is_folder
from steelyard.model.files.urdf import UrdfFile
from steelyard.model.files.xml_document import Element, XmlDocument, parse_xml
from steelyard.model.geometry.placements import compute_placements
from steelyard.model.geometry.points import body_pieces, link_points, shape_points, sphere_points
from steelyard.model.geometry.scene import LinkShape, Scene, build_scene
from steelyard.model.loading import build_model, describe_document, load_model, read_description, welded_into
from steelyard.model.lumping import lock_followers, resolve_locks
from steelyard.model.mirror import find_pairs
from steelyard.model.model import Frame, Model
from steelyard.model.name_patterns import match_pattern, pair_by_patterns, translate
from steelyard.model.parameters import (
    PARAMETER_COUNT,
    PARAMETER_SYMBOLS,
    change_frame,
    from_mass_com_inertia,
    parameter_names,
    rotational_inertia_at_origin,
    to_mass_com_inertia,
    to_pseudo_inertia,
)
from steelyard.model.recording_map import (
    CLOCKS,
    STANDARD_GRAVITY,
    TIME_UNITS,
    UNITS,
    ArraySource,
    ColumnSource,
    RecordingMap,
)
from steelyard.model.setup import (
    WRENCH_AXES,
    BaseKind,
    Imu,
    Marker,
    Setup,
    Sole,
    WrenchSensor,
    parse_setup,
    read_setup,
    ready_setups,
)
from steelyard.model.setup_tables import setup_tables
from steelyard.model.spread import MASS_SPREAD, model_spread
from steelyard.model.toml_table import TomlTable
from steelyard.model.write_back import WrittenModel, write_model

__all__ = [
    "CLOCKS",
    "CONSTRAINT_CLASSES",
    "EXTENT_FLOOR",
    "MASS_SPREAD",
    "PARAMETER_COUNT",
    "PARAMETER_SYMBOLS",
    "SINGULAR_EXTENT",
    "STANDARD_GRAVITY",
    "TIME_UNITS",
    "UNITS",
    "WRENCH_AXES",
    "ArraySource",
    "BaseKind",
    "ColumnSource",
    "ComInside",
    "Connection",
    "Consistency",
    "Constraint",
    "Description",
    "Element",
    "Frame",
    "Frozen",
    "Geometry",
    "Imu",
    "Joint",
    "LeastMass",
    "LinkShape",
    "Marker",
    "MassWithin",
    "MatterInside",
    "MatterWithin",
    "MirrorWithin",
    "MjcfFile",
    "Model",
    "ModelCheck",
    "PositiveInertia",
    "RecordingMap",
    "Scene",
    "Setup",
    "Sole",
    "TomlTable",
    "TotalMass",
    "UrdfFile",
    "WrenchSensor",
    "WrittenModel",
    "XmlDocument",
    "affine_distance",
    "as_path",
    "body_pieces",
    "build_model",
    "build_scene",
    "change_frame",
    "check_model",
    "compile_mjcf",
    "compute_placements",
    "constraint_table",
    "describe_difference",
    "describe_document",
    "diagnose",
    "find_file",
    "find_pairs",
    "from_mass_com_inertia",
    "is_folder",
    "is_possible",
    "link_patterns",
    "link_points",
    "load_model",
    "lock_followers",
    "log_det_divergence",
    "log_det_gradient",
    "log_det_hessian",
    "match_pattern",
    "model_spread",
    "pair_by_patterns",
    "parameter_names",
    "parse_constraint_table",
    "parse_constraints",
    "parse_setup",
    "parse_xml",
    "project_to_interior",
    "read_description",
    "read_setup",
    "ready_setups",
    "resolve_locks",
    "rotational_inertia_at_origin",
    "setup_tables",
    "shape_points",
    "sphere_points",
    "to_mass_com_inertia",
    "to_pseudo_inertia",
    "translate",
    "welded_into",
    "write_model",
    "write_with_offsets",
]
