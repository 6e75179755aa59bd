"""Shapes of a model's links: points, surfaces, and the scene that a report or a viewer draws."""
