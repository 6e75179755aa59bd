"""From Evidence to an Estimate: parameter sets, one estimator per file, base parameters, statistics."""

from steelyard.identification.estimate.base_parameters import BaseParameters
from steelyard.identification.estimate.estimate import Certificate, Estimate, Fit, LevelReport
from steelyard.identification.estimate.storage import load_estimate
from steelyard.identification.identify import identify
from steelyard.identification.parameter_sets import ParameterSet, choose_parameters
from steelyard.identification.sampling.drawn_models import DrawnModels
from steelyard.identification.sampling.posterior import Posterior
from steelyard.payload.payload_finding import FoundPayload, PayloadFinding
from steelyard.payload.search import find_payload
from steelyard.regression.second_pass.instruments import gather_correlated, gather_with_instruments
from steelyard.regression.second_pass.noise_levels import NoiseLevels, estimate_noise
from steelyard.regression.second_pass.robust import HuberWeights, gather_robust, huber_weights

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
