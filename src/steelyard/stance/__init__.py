"""Feet on the ground: inverse kinematics, support polygon, zero-moment point, self-collision, limits, motions."""

from steelyard.stance.balance_task import BALANCE_DURATION, BalanceTask, plan_balance
from steelyard.stance.collision import Clearances, Piece, convex_pieces
from steelyard.stance.feasibility import required_efforts
from steelyard.stance.footing import FLATNESS, LEAST_WIDTH, Foot, Footing, plant_feet, resting_posture
from steelyard.stance.motions import MOTION_DURATIONS, MOTIONS, as_seed, plan_motion, plan_postures
from steelyard.stance.postures import PostureTarget, solve_posture
from steelyard.stance.standing import Standing, stand_up
from steelyard.stance.support import inside_margin, zero_moment_points
from steelyard.stance.trajectory import Course, Trajectory, trace_course

__all__ = [
    "BALANCE_DURATION",
    "FLATNESS",
    "LEAST_WIDTH",
    "MOTIONS",
    "MOTION_DURATIONS",
    "BalanceTask",
    "Clearances",
    "Course",
    "Foot",
    "Footing",
    "Piece",
    "PostureTarget",
    "Standing",
    "Trajectory",
    "as_seed",
    "convex_pieces",
    "inside_margin",
    "plan_balance",
    "plan_motion",
    "plan_postures",
    "plant_feet",
    "required_efforts",
    "resting_posture",
    "solve_posture",
    "stand_up",
    "trace_course",
    "zero_moment_points",
]
