"""Motions with known parameters behind them, that several tests identify from."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from steelyard import Motion, load_model
from steelyard.laboratory.true_robot import draw_parameters
from steelyard.model import project_to_interior
from steelyard.model.mirror import find_pairs
from tests.regression.motions import standing_motion

if TYPE_CHECKING:
    from steelyard import Model
    from steelyard.arrays import FloatArray

COUNT = 300


@cache
def reference(name: str) -> Model:
    """Gives a robot whose links can all exist."""
    model = load_model(name)
    return model.with_parameters(project_to_interior(model.parameters))


@cache
def truth(name: str, *, symmetric: bool = False) -> FloatArray:
    """Gives parameters that are not the model's."""
    model = reference(name)
    true = draw_parameters(model, 0.2, np.random.default_rng(7))
    if symmetric:
        for pair in find_pairs(model):
            true[pair.right] = pair.image(true[pair.left])
    return true


@cache
def rich_motion(name: str, *, symmetric: bool = False, count: int = COUNT) -> Motion:
    """Gives random samples with the exact wrenches and torques of the true robot, by Pinocchio."""
    return standing_motion(reference(name), count, 3, parameters=truth(name, symmetric=symmetric), lifted=("left",))


def with_noise(motion: Motion, seed: int, *, force: float = 1.0, moment: float = 0.05) -> Motion:
    """Gives the motion with white noise on its wrenches."""
    generator = np.random.default_rng(seed)
    scale = np.repeat([force, moment], 3)
    wrenches = {name: values + scale * generator.normal(size=values.shape) for name, values in motion.wrenches.items()}
    return replace(motion, wrenches=wrenches)
