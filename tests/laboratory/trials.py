"""Short trials that several tests look at, played once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from steelyard import load_model
from steelyard.laboratory import simulate

if TYPE_CHECKING:
    from steelyard import Model
    from steelyard.laboratory import Trial

ROBOTS = ("g1", "talos", "icub", "romeo")
SHORT = {"sway": 6.0, "reach": 8.0, "dance": 8.0, "postures": 12.0, "limp": 11.0}


@cache
def robot(name: str) -> Model:
    """Gives a robot; the same object each time, so that what was planned for it is found again."""
    return load_model(name)


@cache
def with_torques(name: str) -> Model:
    """Gives a robot whose joint torques are measured."""
    model = robot(name)
    return load_model(model.description.file.path, setup=replace(model.setup, torques_measured=("*",)))


@cache
def short_trial(name: str, motion: str, seed: int = 0, noise: Any = None) -> Trial:
    """Gives a short trial; through other sensors it is the same motion, which is played once."""
    return _played(name, motion, seed).with_noise(seed, noise=noise)


@cache
def _played(name: str, motion: str, seed: int) -> Trial:
    return simulate(robot(name), motion, seed=seed, noise=None, duration=SHORT[motion])
