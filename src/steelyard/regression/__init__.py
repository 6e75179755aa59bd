"""From motion to a small triangular factor: regressor rows, force sensing, and Evidence."""

from steelyard.regression.evidence import Evidence, EvidenceKey, load_evidence
from steelyard.regression.gathering import gather_evidence, residuals
from steelyard.regression.noise import DEFAULT_NOISE
from steelyard.regression.origins import Origin, shared_seconds

__all__ = [
    "DEFAULT_NOISE",
    "Evidence",
    "EvidenceKey",
    "Origin",
    "gather_evidence",
    "load_evidence",
    "residuals",
    "shared_seconds",
]
