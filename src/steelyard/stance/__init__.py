"""Feet on the ground: inverse kinematics, support polygon, zero-moment point, self-collision, limits."""

from steelyard.stance.collision import Clearances, Piece, convex_pieces, joint_ranges
from steelyard.stance.feasibility import required_efforts
from steelyard.stance.footing import FLATNESS, LEAST_WIDTH, Foot, Footing, plant_feet, resting_posture
from steelyard.stance.postures import Posture, Wish, solve_posture, wish_of_posture
from steelyard.stance.standing import Standing, stand_up
from steelyard.stance.support import inside_margin, zero_moment_points
from steelyard.stance.trajectory import Course, Trajectory, trace_course

__all__ = [
    "FLATNESS",
    "LEAST_WIDTH",
    "Clearances",
    "Course",
    "Foot",
    "Footing",
    "Piece",
    "Posture",
    "Standing",
    "Trajectory",
    "Wish",
    "convex_pieces",
    "inside_margin",
    "joint_ranges",
    "plant_feet",
    "required_efforts",
    "resting_posture",
    "solve_posture",
    "stand_up",
    "trace_course",
    "wish_of_posture",
    "zero_moment_points",
]
