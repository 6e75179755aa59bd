"""From Evidence to an Estimate: parameter sets, one estimator per file, base parameters, statistics."""

from steelyard.identification.base_parameters import BaseParameters
from steelyard.identification.drawn_models import DrawnModels
from steelyard.identification.estimate import Certificate, Estimate, Fit, LevelReport
from steelyard.identification.identify import identify
from steelyard.identification.instruments import gather_correlated, gather_with_instruments
from steelyard.identification.noise_levels import NoiseLevels, estimate_noise
from steelyard.identification.parameter_sets import ParameterSet, choose_parameters
from steelyard.identification.payload import find_payload
from steelyard.identification.payload_finding import FoundPayload, PayloadFinding
from steelyard.identification.posterior import Posterior
from steelyard.identification.robust import HuberWeights, gather_robust, huber_weights
from steelyard.identification.storage import load_estimate

__all__ = [
    "BaseParameters",
    "Certificate",
    "DrawnModels",
    "Estimate",
    "Fit",
    "FoundPayload",
    "HuberWeights",
    "LevelReport",
    "NoiseLevels",
    "ParameterSet",
    "PayloadFinding",
    "Posterior",
    "choose_parameters",
    "estimate_noise",
    "find_payload",
    "gather_correlated",
    "gather_robust",
    "gather_with_instruments",
    "huber_weights",
    "identify",
    "load_estimate",
]
