"""Recording -> joint offsets: kinematic calibration from encoders, inertial sensors and flat feet."""

from steelyard.calibration.calibrate import calibrate
from steelyard.calibration.contacts import Contact, Marker, Touch, soles_as_contacts
from steelyard.calibration.design import PoseDesign, design_calibration
from steelyard.calibration.noise import PlainSums, PoseNoise
from steelyard.calibration.offsets import HeldOut, Offsets
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.sampling import sample_poses
from steelyard.calibration.suspects import Suspect

__all__ = [
    "Contact",
    "HeldOut",
    "Marker",
    "Offsets",
    "PlainSums",
    "PoseDesign",
    "PoseNoise",
    "PoseSet",
    "Suspect",
    "Touch",
    "calibrate",
    "design_calibration",
    "sample_poses",
    "soles_as_contacts",
]
