"""Steelyard identifies the masses, centres of mass and inertias of a humanoid robot, or a person, link by link."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.calibration import (
        Contact,
        Marker,
        Offsets,
        PlainSums,
        PoseDesign,
        PoseNoise,
        PoseSet,
        Touch,
        design_calibration,
        sample_poses,
        soles_as_contacts,
    )
    from steelyard.calibration.calibrate import calibrate  # mypy resolves the package's name to the module
    from steelyard.drafting import DraftFinding, SetupDraft, draft_setup
    from steelyard.exceptions import (
        ConsistencyError,
        EvidenceError,
        IdentifiabilityError,
        LaboratoryError,
        ModelError,
        MotionError,
        RecordingError,
        RecordingWarning,
        SolverError,
        StanceError,
        SteelyardError,
    )
    from steelyard.identification import BaseParameters, DrawnModels, Estimate, load_estimate
    from steelyard.identification.identify import identify
    from steelyard.inspection import Delays, Inspection, estimate_delays, inspect_recording
    from steelyard.laboratory import BalanceRun as BalanceRun
    from steelyard.laboratory import Payload as Payload
    from steelyard.laboratory import Sensors as Sensors
    from steelyard.laboratory import Trial as Trial
    from steelyard.laboratory import simulate as simulate
    from steelyard.laboratory import simulate_balance as simulate_balance
    from steelyard.model import (
        ComInside,
        Frozen,
        LeastMass,
        MassWithin,
        MatterInside,
        MatterWithin,
        MirrorWithin,
        Model,
        ModelCheck,
        PositiveInertia,
        Setup,
        TotalMass,
        check_model,
        is_possible,
        load_model,
        parse_constraints,
        project_to_interior,
        read_setup,
        ready_setups,
        write_model,
    )
    from steelyard.motion import (
        Motion,
        motion_from_generalized,
        read_offsets,
        reconstruct_motion,
        stream_motion,
        write_calibrated_model,
        write_offsets,
    )
    from steelyard.payload import PayloadFinding, find_payload
    from steelyard.preparation import Preparation, load_preparation
    from steelyard.preparation.prepare import prepare
    from steelyard.recording import Recording, join_recordings, read_recording
    from steelyard.regression import (
        Evidence,
        HuberWeights,
        NoiseLevels,
        estimate_noise,
        gather_correlated,
        gather_evidence,
        gather_robust,
        gather_with_instruments,
        huber_weights,
        load_evidence,
    )
    from steelyard.report import Report, Trace, trace_motions, write_report
    from steelyard.stance import Trajectory, plan_motion
    from steelyard.validation import Validation, Verdict, validate
    from steelyard.validation.judge import judge

__version__ = "0.1.0"

__all__ = [
    "BaseParameters",
    "ComInside",
    "ConsistencyError",
    "Contact",
    "Delays",
    "DraftFinding",
    "DrawnModels",
    "Estimate",
    "Evidence",
    "EvidenceError",
    "Frozen",
    "HuberWeights",
    "IdentifiabilityError",
    "Inspection",
    "LaboratoryError",
    "LeastMass",
    "Marker",
    "MassWithin",
    "MatterInside",
    "MatterWithin",
    "MirrorWithin",
    "Model",
    "ModelCheck",
    "ModelError",
    "Motion",
    "MotionError",
    "NoiseLevels",
    "Offsets",
    "PayloadFinding",
    "PlainSums",
    "PoseDesign",
    "PoseNoise",
    "PoseSet",
    "PositiveInertia",
    "Preparation",
    "Recording",
    "RecordingError",
    "RecordingWarning",
    "Report",
    "Setup",
    "SetupDraft",
    "SolverError",
    "StanceError",
    "SteelyardError",
    "TotalMass",
    "Touch",
    "Trace",
    "Trajectory",
    "Validation",
    "Verdict",
    "calibrate",
    "check_model",
    "design_calibration",
    "draft_setup",
    "estimate_delays",
    "estimate_noise",
    "find_payload",
    "gather_correlated",
    "gather_evidence",
    "gather_robust",
    "gather_with_instruments",
    "huber_weights",
    "identify",
    "inspect_recording",
    "is_possible",
    "join_recordings",
    "judge",
    "load_estimate",
    "load_evidence",
    "load_model",
    "load_preparation",
    "motion_from_generalized",
    "parse_constraints",
    "plan_motion",
    "prepare",
    "project_to_interior",
    "read_offsets",
    "read_recording",
    "read_setup",
    "ready_setups",
    "reconstruct_motion",
    "sample_poses",
    "soles_as_contacts",
    "stream_motion",
    "trace_motions",
    "validate",
    "write_calibrated_model",
    "write_model",
    "write_offsets",
    "write_report",
]

_LABORATORY = ("BalanceRun", "Payload", "Sensors", "Trial", "simulate", "simulate_balance")

_ROOMS = (
    "exceptions",
    "model",
    "recording",
    "motion",
    "regression",
    "identification",
    "payload",
    "validation",
    "inspection",
    "preparation",
    "calibration",
    "stance",
    "drafting",
    "report",
)
"""Packages that define the public names, in the order in which they are searched."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that completion in a shell does not wait for all rooms.

    Raises:
        AttributeError: There is no such name.
        LaboratoryError: It belongs to the laboratory, and MuJoCo, which is an extra, is not installed.
    """
    if name in _LABORATORY:
        value = getattr(_laboratory(), name)
    elif name in _ROOMS:
        value = import_module(f"steelyard.{name}")
    elif name in __all__:
        rooms = (import_module(f"steelyard.{room}") for room in _ROOMS)
        value = next(vars(room)[name] for room in rooms if name in vars(room))
    else:
        raise AttributeError(f"module 'steelyard' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LABORATORY})


def _laboratory() -> Any:
    try:
        return import_module("steelyard.laboratory")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "mujoco":
            raise
        exceptions = import_module("steelyard.exceptions")
        # An AttributeError as well, so that ``hasattr`` returns False.
        missing = type("MissingExtraError", (exceptions.LaboratoryError, AttributeError), {})
        raise missing('the virtual laboratory runs on MuJoCo; install it with: pip install "steelyard[lab]"') from error
