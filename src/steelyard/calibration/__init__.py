"""Recording -> joint offsets: kinematic calibration from encoders, inertial sensors and flat feet."""

from steelyard.calibration.calibrate import MOST_POSES, MOUNTING, calibrate
from steelyard.calibration.contacts import Contact, Marker, Touch, soles_as_contacts
from steelyard.calibration.design import PoseDesign, design_calibration
from steelyard.calibration.offsets import HeldOut, Offsets
from steelyard.calibration.offsets_text import WIDTH
from steelyard.calibration.pictures import draw_heights, draw_poses
from steelyard.calibration.pose_noise import PlainSums, PoseNoise
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.sampling import sample_poses
from steelyard.calibration.suspects import Suspect

__all__ = [
    "MOST_POSES",
    "MOUNTING",
    "WIDTH",
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
    "draw_heights",
    "draw_poses",
    "sample_poses",
    "soles_as_contacts",
]
