"""A hose, a tether or a cable: a force at the root link that no sensor measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.exceptions import LaboratoryError

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_WAVES = 8
"""Sine waves whose sum is the varying force. Set by judgement: enough for it to be nearly Gaussian."""


@dataclass(frozen=True)
class Hose:
    """A force on the root link, at its origin.

    Attributes:
        force: Its mean in world axes, N; x is forward at the start, z is up.
        wander: Standard deviation of each component, N.
        period: Typical period of the variation, s.
    """

    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    wander: float = 0.0
    period: float = 4.0

    def __post_init__(self) -> None:
        if len(self.force) != 3 or not all(is_finite_number(value) for value in self.force):
            raise LaboratoryError(f"the force of a hose is {self.force!r}; give three numbers, in newtons")
        both = is_finite_number(self.wander) and is_finite_number(self.period)
        if not both or self.wander < 0.0 or self.period <= 0.0:
            raise LaboratoryError(
                "the wander of a hose must be zero or more newtons, its period more than zero seconds"
            )

    def pull(self, time: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the force at some times, shape (n, 3), N: a sum of slow waves about the mean."""
        rates = 2.0 * np.pi / self.period * generator.uniform(0.3, 1.5, size=(_WAVES, 3))
        phases = generator.uniform(0.0, 2.0 * np.pi, size=(_WAVES, 3))
        waves = np.sin(time[:, None, None] * rates + phases).sum(axis=1)
        return np.asarray(np.array(self.force) + self.wander * np.sqrt(2.0 / _WAVES) * waves)
