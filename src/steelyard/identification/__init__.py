"""From Evidence to an Estimate: parameter sets, one estimator per file, base parameters, statistics."""

from steelyard.identification.estimate.base_parameters import BaseParameters, half_width
from steelyard.identification.estimate.estimate import Estimate, Fit, LevelReport
from steelyard.identification.estimate.estimate_summary import number_notes
from steelyard.identification.estimate.overview import links_as_csv, overview
from steelyard.identification.estimate.storage import load_estimate
from steelyard.identification.identify import identify
from steelyard.identification.link_groups import group_links
from steelyard.identification.methods.registry import OPTIONS, UNCONSTRAINED, check_constraints
from steelyard.identification.parameter_sets import ParameterSet, choose_parameters
from steelyard.identification.problem import build_problem
from steelyard.identification.sampling.drawn_models import DRAWABLE_METHODS, DrawnModels
from steelyard.identification.sampling.posterior import Posterior
from steelyard.identification.solvers.certificate import Certificate

__all__ = [
    "DRAWABLE_METHODS",
    "OPTIONS",
    "UNCONSTRAINED",
    "BaseParameters",
    "Certificate",
    "DrawnModels",
    "Estimate",
    "Fit",
    "LevelReport",
    "ParameterSet",
    "Posterior",
    "build_problem",
    "check_constraints",
    "choose_parameters",
    "group_links",
    "half_width",
    "identify",
    "links_as_csv",
    "load_estimate",
    "number_notes",
    "overview",
]
