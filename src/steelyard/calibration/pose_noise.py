"""Noise of the readings in a pose: given, estimated from residuals, or the paper's plain sums."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from steelyard.calibration.gauss_newton import eliminate_pose_unknowns
from steelyard.exceptions import IdentifiabilityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, Linearisation

DEGREE = np.pi / 180.0  # rad

KINDS = {"orientation": "orientation", "contact": "flatness", "marker": "marker", "touch": "touch"}
"""Field of `PoseNoise` for each kind of rows."""

_SAME_VARIANCE = 0.02
"""Relative change of every variance below which scoring ends: far less than variances are known to."""

_PRIOR_COUNT = 0.5
"""Pseudo-observations of the usual noise, where it is estimated from data: they decide only where the poses cannot
separate one kind of noise from another. Set by judgement: half an error is outweighed by any data."""

SET_ASIDE = 1e10
"""Factor on the variance of rows that are set aside: leaves 1e-5 of their weight, without a singular covariance."""


@dataclass(frozen=True)
class PoseNoise:
    """Standard deviations of the readings in a pose.

    Attributes:
        encoder: Of a joint's reading, rad (m where it slides).
        orientation: Of an inertial sensor, about each of its axes, rad.
        flatness: Of how far a corner of a contact is off its plane, m.
        marker: Of a marker's position, along each axis, m.
        touch: Of how far a tip is off what it touches, m.
    """

    encoder: float = 0.02 * DEGREE
    orientation: float = 0.2 * DEGREE
    flatness: float = 0.5e-3
    marker: float = 1e-3
    touch: float = 1e-3

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            number = isinstance(value, int | float) and np.isfinite(value)
            if not number or value < 0.0 or (value == 0.0 and each.name != "encoder"):
                raise IdentifiabilityError(
                    f"the noise of {each.name} is {value!r}; give a positive number", names=[each.name]
                )


LEAST = PoseNoise(encoder=0.002 * DEGREE, orientation=0.05 * DEGREE, flatness=0.2e-3, marker=0.05e-3, touch=0.05e-3)
"""Lower bounds of estimated noise, set by judgement: no floor is flatter, and smaller errors do no harm."""


@dataclass(frozen=True)
class PlainSums:
    """The weights of [yamane2011]: orientation errors as those of points at a distance, heights by their variance.

    Attributes:
        distance: Of the three points from the sensor (``d`` of Eqs. (2)–(4)), m.
    """

    distance: float = 0.1

    def __post_init__(self) -> None:
        number = isinstance(self.distance, int | float) and np.isfinite(self.distance)
        if not number or self.distance <= 0.0:
            raise IdentifiabilityError(
                f"the distance of the points is {self.distance!r}; give a positive number of metres"
            )


Weights = PoseNoise | PlainSums


def row_variances(problem: CalibrationProblem, weights: Weights) -> tuple[FloatArray, float]:
    """Return the variance of each row, shape (n_poses, n_rows), and that of encoders.

    With plain sums, half the sum of squares is [yamane2011] Eq. (1): ``Z = ½ Σ_k (L_k + C_k)``.
    """
    variances = np.ones((len(problem.poses), problem.row_count))
    corners = {contact.name: len(contact.vertices) for contact in problem.contacts}
    for block in problem.blocks:
        if isinstance(weights, PoseNoise):
            variances[:, block.rows] = getattr(weights, KINDS[block.kind]) ** 2
        elif block.kind == "orientation":
            variances[:, block.rows] = 0.5 / weights.distance**2
        elif block.kind == "contact":
            plane = next(contact.plane for contact in problem.contacts if contact.name == block.name)
            there = [
                corners[contact.name] * problem.poses.touches(contact.name)
                for contact in problem.contacts
                if contact.plane == plane
            ]
            variances[:, block.rows] = np.maximum(np.sum(there, axis=0), 1.0)[:, None]
    return variances, weights.encoder**2 if isinstance(weights, PoseNoise) else 0.0


def estimate_pose_noise(
    problem: CalibrationProblem, linear: Linearisation, noise: PoseNoise, aside: NDArray[np.bool_], rounds: int = 6
) -> PoseNoise:
    """Estimate the noise of each kind from residuals: Fisher scoring of the restricted likelihood.

    With ``M`` the precision of a pose's rows (`ReducedRows.precision`) and ``V = Σ_j σ_j² V_j``, the squares
    ``rᵀ M V_i M r`` of one kind have the expectation ``Σ_j tr(M V_i M V_j) σ_j²``. The usual noise enters as half an
    observation.

    Args:
        problem: The problem.
        linear: Rows at a minimum.
        noise: Where to begin.
        aside: Which blocks are set aside in each pose, shape (n_poses, n_blocks).
        rounds: Steps of scoring at most.
    """
    kinds = [kind for kind in KINDS if any(block.kind == kind for block in problem.blocks)]
    names = [KINDS[kind] for kind in kinds] + ["encoder"] * bool(noise.encoder)
    usual = PoseNoise()
    counted = np.zeros((len(kinds), *linear.residuals.shape))
    for number, block in enumerate(problem.blocks):
        counted[kinds.index(block.kind), :, block.rows] = (block.there & ~aside[:, number])[:, None]
    for _ in range(rounds):
        variances, encoder = row_variances(problem, noise)
        precision = eliminate_pose_unknowns(linear, inflate_set_aside(problem, variances, aside), encoder).precision
        weighted = np.einsum("nij,nj->ni", precision, linear.residuals)
        squares = np.einsum("kni,ni->k", counted, weighted**2)
        matrix = np.einsum("ani,nij,bnj->ab", counted, precision**2, counted, optimize=True)
        if noise.encoder:
            by_encoder = precision @ linear.by_joint
            across = np.einsum("ani,nil->a", counted, by_encoder**2)
            inside = np.swapaxes(linear.by_joint, 1, 2) @ by_encoder
            matrix = np.block([[matrix, across[:, None]], [across[None], np.sum(inside**2)]])
            squares = np.append(squares, np.sum(np.einsum("nil,ni->nl", linear.by_joint, weighted) ** 2))
        now = np.array([getattr(noise, name) for name in names]) ** 2
        # Shared unknowns took some of the errors up.
        told = float(now @ matrix @ now)
        squares *= told / max(told - problem.shared_count, 0.25 * told)
        expected = np.array([getattr(usual, name) for name in names]) ** 2
        matrix[np.diag_indices(len(now))] += _PRIOR_COUNT / now**2
        squares += _PRIOR_COUNT * expected / now**2
        # In units of the last estimate, so that radians and metres weigh the same.
        found = nnls(matrix * now * now[:, None], squares * now)[0]
        least = np.array([getattr(LEAST, name) for name in names])
        sizes = np.maximum(np.sqrt(now * np.clip(found, 0.04, 25.0)), least)
        noise = replace(noise, **dict(zip(names, sizes.tolist(), strict=True)))
        if np.all(np.abs(sizes**2 / now - 1.0) < _SAME_VARIANCE):
            break
    return noise


def inflate_set_aside(problem: CalibrationProblem, variances: FloatArray, aside: NDArray[np.bool_]) -> FloatArray:
    """Return variances in which rows set aside have no weight, shape (n_poses, n_rows)."""
    counted = np.array(variances)
    for number, block in enumerate(problem.blocks):
        counted[np.ix_(aside[:, number], np.arange(problem.row_count)[block.rows])] *= SET_ASIDE
    return counted
