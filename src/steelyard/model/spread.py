"""How far a model of a robot may be off: the scale by which a link's parameters are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.model.consistency import project_to_interior
from steelyard.model.parameters import PARAMETER_COUNT, change_frame, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.model.model import Model
    from steelyard.model.parameters import FloatArray

MASS_SPREAD = 0.25
COM_SPREAD, COM_SHARE = 0.02, 0.3
INERTIA_SPREAD = 0.3
"""How far a model may be off: shares of each link's mass and of its inertia; of its centre of mass, metres, and a share
of how far its mass lies from there."""


def model_spread(model: Model) -> FloatArray:
    """Gives how a model may be off: ``φ = φ_model + spread z`` with z of unit normal numbers, shape (10 n, 10 n).

    Each link may have another mass, which scales all of it, another centre of mass, and other inertias. Links that no
    body could have count as the nearest that one could: an inertia of zero says nothing of how far it is off.
    """
    size = PARAMETER_COUNT
    spread = np.zeros((len(model.links) * size, len(model.links) * size))
    for link, parameters in enumerate(project_to_interior(model.parameters)):
        block = spread[size * link : size * (link + 1), size * link : size * (link + 1)]
        block[:, 0] = MASS_SPREAD * parameters
        mass = max(float(parameters[0]), 1e-9)
        com = parameters[1:4] / mass
        second = np.diag(to_pseudo_inertia(parameters))[:3] / mass - com**2
        reach = COM_SPREAD + COM_SHARE * np.sqrt(np.maximum(second, 0.0))
        for axis in range(3):
            step = reach[axis] * np.eye(3)[axis]
            moved = [change_frame(parameters, np.eye(3), sign * step) for sign in (1.0, -1.0)]
            block[:, 1 + axis] = 0.5 * (moved[0] - moved[1])
        inertias = np.abs(parameters[[4, 6, 9]])
        for number, (row, column) in enumerate(((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))):
            block[4 + number, 4 + number] = INERTIA_SPREAD * np.sqrt(inertias[row] * inertias[column])
    return spread
