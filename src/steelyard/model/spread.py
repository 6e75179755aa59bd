"""Prior uncertainty of a model: the scale by which a link's parameters are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.model.consistency import project_to_interior
from steelyard.model.parameters import PARAMETER_COUNT, change_frame, to_pseudo_inertia

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model.model import Model

# How far a model is usually off, the unit in which parameters are compared; the sizes are set by judgement.
MASS_SPREAD = 0.25
"""Standard deviation of a link's mass, as a share of it."""

COM_SPREAD, COM_SHARE = 0.02, 0.3
"""Standard deviation of a centre of mass: metres, plus a share of the link's extent along each axis."""

INERTIA_SPREAD = 0.3
"""Standard deviation of an inertia, as a share of it."""


def model_spread(model: Model) -> FloatArray:
    """Return a root of the prior covariance, ``φ = φ_model + spread z`` with z standard normal, shape (10 n, 10 n).

    Each link's mass, which scales all ten parameters, centre of mass and inertias vary independently. Impossible links
    count as the nearest possible ones: a share of a zero inertia would be no uncertainty at all.
    """
    size = PARAMETER_COUNT
    bodies = project_to_interior(model.parameters)
    spread = np.zeros((len(bodies), size, len(bodies), size))
    links = np.arange(len(bodies))
    mass = np.maximum(bodies[:, 0], 1e-9)[:, None]
    com = bodies[:, 1:4] / mass
    second = np.diagonal(to_pseudo_inertia(bodies), axis1=1, axis2=2)[:, :3] / mass - com**2
    reach = COM_SPREAD + COM_SHARE * np.sqrt(np.maximum(second, 0.0))
    spread[links, :, links, 0] = MASS_SPREAD * bodies
    for axis in range(3):
        step = reach[:, [axis]] * np.eye(3)[axis]
        ahead, behind = (change_frame(bodies, np.eye(3), sign * step) for sign in (1.0, -1.0))
        spread[links, :, links, 1 + axis] = 0.5 * (ahead - behind)
    inertias = np.abs(bodies[:, [4, 6, 9]])
    for number, (row, column) in enumerate(((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))):
        spread[links, 4 + number, links, 4 + number] = INERTIA_SPREAD * np.sqrt(inertias[:, row] * inertias[:, column])
    return spread.reshape(len(bodies) * size, -1)
