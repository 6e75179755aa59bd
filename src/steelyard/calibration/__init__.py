"""Recording -> joint offsets: kinematic calibration from encoders, inertial sensors and flat feet."""

from steelyard.calibration.calibrate import MOST_POSES, MOUNTING, calibrate
from steelyard.calibration.contacts import Contact, Touch, soles_as_contacts
from steelyard.calibration.design import PoseDesign, design_calibration
from steelyard.calibration.marker_fit import BasePlacement, MarkerDistances, MarkerFit, MarkerPlacement
from steelyard.calibration.offsets import HeldOut, Offsets
from steelyard.calibration.offsets_text import WIDTH
from steelyard.calibration.pictures import draw_heights, draw_poses
from steelyard.calibration.pose_noise import PlainSums, PoseNoise
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.sampling import sample_poses
from steelyard.calibration.suspects import Suspect
from steelyard.model import Marker

__all__ = [
    "MOST_POSES",
    "MOUNTING",
    "WIDTH",
    "BasePlacement",
    "Contact",
    "HeldOut",
    "Marker",
    "MarkerDistances",
    "MarkerFit",
    "MarkerPlacement",
    "Offsets",
    "PlainSums",
    "PoseDesign",
    "PoseNoise",
    "PoseSet",
    "Suspect",
    "Touch",
    "calibrate",
    "design_calibration",
    "draw_heights",
    "draw_poses",
    "sample_poses",
    "soles_as_contacts",
]
