"""From motion to a small triangular factor: regressor rows, force sensing, and Evidence."""

from steelyard.regression.decomposition import complete_vectors, dependence_on, leading_columns, singular_vectors
from steelyard.regression.evidence import RANK_FLOOR, Evidence
from steelyard.regression.evidence_key import EvidenceKey
from steelyard.regression.evidence_storage import load_evidence
from steelyard.regression.gathering import gather_evidence, residuals
from steelyard.regression.noise import DEFAULT_NOISE, FLOOR_SHARE, plan_noise
from steelyard.regression.nuisance import GROUP_WORDS, PRIORS, Nuisance, belongs_to, plan_nuisance, usual_groups
from steelyard.regression.origins import Origin, merge_origins, shared_seconds
from steelyard.regression.recording_errors import OWN_GROUPS, RecordingErrors
from steelyard.regression.reduction import reduce_rows
from steelyard.regression.rows import all_columns, joint_torques, part_wrench
from steelyard.regression.second_pass.instruments import gather_correlated, gather_with_instruments
from steelyard.regression.second_pass.noise_levels import NoiseLevels, estimate_noise
from steelyard.regression.second_pass.robust import HuberWeights, gather_robust, huber_weights
from steelyard.regression.sensing import RowPlan, Sensing, plan_rows, plan_sensing
from steelyard.regression.system import System, present_forces

__all__ = [
    "DEFAULT_NOISE",
    "FLOOR_SHARE",
    "GROUP_WORDS",
    "OWN_GROUPS",
    "PRIORS",
    "RANK_FLOOR",
    "Evidence",
    "EvidenceKey",
    "HuberWeights",
    "NoiseLevels",
    "Nuisance",
    "Origin",
    "RecordingErrors",
    "RowPlan",
    "Sensing",
    "System",
    "all_columns",
    "belongs_to",
    "complete_vectors",
    "dependence_on",
    "estimate_noise",
    "gather_correlated",
    "gather_evidence",
    "gather_robust",
    "gather_with_instruments",
    "huber_weights",
    "joint_torques",
    "leading_columns",
    "load_evidence",
    "merge_origins",
    "part_wrench",
    "plan_noise",
    "plan_nuisance",
    "plan_rows",
    "plan_sensing",
    "present_forces",
    "reduce_rows",
    "residuals",
    "shared_seconds",
    "singular_vectors",
    "usual_groups",
]
