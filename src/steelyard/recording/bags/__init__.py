"""Bags: ROS 1, ROS 2 and MCAP, and how their topics become columns."""
