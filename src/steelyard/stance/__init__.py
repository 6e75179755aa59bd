"""Feet on the ground: inverse kinematics, support polygon, zero-moment point, self-collision, limits."""

from steelyard.stance.trajectory import Trajectory

__all__ = ["Trajectory"]
