"""The humanoids of example-robot-data, and how each is loaded."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from steelyard.model import load_model, project_to_interior
from steelyard.model.files.packages import find_file
from tests.log_cholesky import from_log_cholesky, to_log_cholesky

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

ROBOTS = "package://example-robot-data/robots/"

FILES = {
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "g1_hands": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "talos_full": "talos_data/robots/talos_full_v2.urdf",
    "icub": "icub_description/robots/icub_reduced.urdf",
    "icub_full": "icub_description/robots/icub.urdf",
    "romeo": "romeo_description/urdf/romeo_small.urdf",
    "romeo_full": "romeo_description/urdf/romeo.urdf",
    "alex": "alex_description/urdf/alex_nub_hands.urdf",
    "alex_sake": "alex_description/urdf/alex_sake_hands.urdf",
    "alex_psyonic": "alex_description/urdf/alex_psyonic_hands.urdf",
    "simple_humanoid": "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "human": "human_description/robots/human.urdf",
}

LOCKS = {
    # Followers of these joints are locked with them.
    "talos_full": {"gripper_left_joint": 0.0, "gripper_right_joint": 0.0},
    # These follow joints that the file does not have.
    "alex_psyonic": {"*_q1": 0.1, "*_q2": 0.2},
}
# The fingers of romeo.urdf have no mass: they hang on the wrists.
LOCKS["romeo_full"] = {f"{side}{part}": 0.0 for side in "LR" for part in ("Hand", "Finger*", "Thumb*")}


def path_of(name: str) -> Path:
    return find_file(ROBOTS + FILES[name])


@cache
def humanoid(name: str, base: str = "floating") -> Model:
    return load_model(path_of(name), base=base, lock=LOCKS.get(name))  # type: ignore[arg-type]


def random_bodies(generator: np.random.Generator, count: int) -> FloatArray:
    """Draws physically possible parameters of shape (count, 10): 0.1 to 10 kg, some centimetres to decimetres."""
    vectors = generator.normal(size=(count, 10)) * np.array([0.6] + 3 * [0.5] + 3 * [0.02] + 3 * [0.1])
    vectors[:, 1:4] -= 2.5
    return from_log_cholesky(vectors)


def shaken(model: Model, seed: int, spread: float = 0.2) -> FloatArray:
    """Draws physically possible parameters near a model's own, shape (n_links, 10)."""
    vectors = to_log_cholesky(project_to_interior(model.parameters, extent=5e-3))
    noise = np.random.default_rng(seed).normal(size=vectors.shape)
    scales = np.array(4 * [spread] + 3 * [0.1 * spread] + 3 * [0.1 * spread])
    return from_log_cholesky(vectors + scales * noise)


def random_configuration(model: Model, generator: np.random.Generator) -> FloatArray:
    """Draws a configuration: angles within ±1.5 rad, sliders within ±0.5 m, any orientation."""
    positions = np.array(model.neutral)
    for index, body in enumerate(model.bodies):
        start, size = int(model.tree.q_starts[index]), body.joint.position_size
        if body.joint.kind in ("revolute", "continuous"):
            positions[start] = generator.uniform(-1.5, 1.5)
        elif body.joint.kind == "prismatic":
            positions[start] = generator.uniform(-0.5, 0.5)
        elif body.joint.kind in ("ball", "free"):
            quaternion = generator.normal(size=4)
            positions[start + size - 4 : start + size] = quaternion / np.linalg.norm(quaternion)
            positions[start : start + size - 4] = generator.normal(size=size - 4)
    return positions
