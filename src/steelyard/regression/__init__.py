"""From motion to a small triangular factor: regressor rows, force sensing, and Evidence."""

from steelyard.regression.evidence import Evidence, EvidenceKey, load_evidence
from steelyard.regression.gathering import gather_evidence, residuals
from steelyard.regression.noise import DEFAULT_NOISE

__all__ = ["DEFAULT_NOISE", "Evidence", "EvidenceKey", "gather_evidence", "load_evidence", "residuals"]
