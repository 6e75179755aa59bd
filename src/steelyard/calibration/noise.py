"""How far readings may be off in a pose: given, found from what a fit leaves, or the paper's plain sums."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.calibration.problem import Problem
    from steelyard.calibration.solving import Reduced
    from steelyard.model.parameters import FloatArray

DEGREE = np.pi / 180.0

KINDS = {"orientation": "orientation", "contact": "flatness", "marker": "marker", "touch": "touch"}
"""Which number of `PoseNoise` goes with each kind of rows."""

_BELIEVED = 10.0
"""How many errors of its size the usual noise counts for, where noise is found from the data."""

SET_ASIDE = 1e10
"""Factor on the variance of rows that are set aside."""


@dataclass(frozen=True)
class PoseNoise:
    """Standard deviations of what is read in a pose.

    Attributes:
        encoder: Of a joint's reading, rad (m where it slides). Not found from the data: it acts through the same joints
            as all else.
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
            least = value >= 0.0 if each.name == "encoder" else value > 0.0
            if not (np.isfinite(value) and least):
                raise IdentifiabilityError(
                    f"the noise of {each.name} is {value!r}; give a positive number", names=[each.name]
                )


@dataclass(frozen=True)
class PlainSums:
    """The weights of [yamane2011]: orientation errors as those of points at a distance, heights by their variance.

    Attributes:
        distance: Of the three points from the sensor (``d`` of Eqs. (2)–(4)), m.
    """

    distance: float = 0.1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.distance) and self.distance > 0.0):
            raise IdentifiabilityError(f"the points are at the distance {self.distance!r}; give metres, more than none")


Weights = PoseNoise | PlainSums


def row_variances(problem: Problem, weights: Weights) -> tuple[FloatArray, float]:
    """Gives the variance of each row, shape (n_poses, n_rows), and that of encoders.

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


def find_noise(problem: Problem, reduced: Reduced, noise: PoseNoise, aside: NDArray[np.bool_]) -> PoseNoise:
    """Gives the noise that residuals tell of, kind by kind: one step of Fisher's scoring of the restricted likelihood.

    With ``M`` what a pose's rows say (`Reduced.precision`), squares ``|M r|²`` of one kind's rows have the expectation
    ``Σ_j F_ij σ_j²`` with ``F_ij`` the sum of ``M²`` over rows of two kinds. The noise before counts like ten more errors
    of its size.

    Args:
        problem: The problem.
        reduced: Rows at a minimum, whitened by `noise`.
        noise: What they were whitened by.
        aside: Which blocks are set aside in each pose, shape (n_poses, n_blocks).
    """
    kinds = [kind for kind in KINDS if any(block.kind == kind for block in problem.blocks)]
    usual = PoseNoise()
    precision = reduced.precision
    counted = np.zeros((len(kinds), *reduced.residuals.shape))
    for number, block in enumerate(problem.blocks):
        counted[kinds.index(block.kind), :, block.rows] = (block.there & ~aside[:, number])[:, None]
    weighted = np.einsum("nij,nj->ni", precision, reduced.linear.residuals)
    squares = np.einsum("kni,ni->k", counted, weighted**2)
    matrix = np.einsum("ani,nij,bnj->ab", counted, precision**2, counted)
    by_encoder = np.einsum("nij,njl->nil", precision, reduced.linear.by_joint)
    squares -= noise.encoder**2 * np.einsum("ani,nil->a", counted, by_encoder**2)
    # Shared unknowns took some of the errors up.
    told = float(np.einsum("nii->", precision @ _covariances(problem, noise, reduced)))
    squares *= told / max(told - problem.shared_count, 0.25 * told)
    for number, kind in enumerate(kinds):
        now = getattr(noise, KINDS[kind]) ** 2
        matrix[number, number] += _BELIEVED / now**2
        squares[number] += _BELIEVED * getattr(usual, KINDS[kind]) ** 2 / now**2
    found = np.linalg.lstsq(matrix, squares, rcond=None)[0]
    changes = {}
    for kind, variance in zip(kinds, found, strict=True):
        before = getattr(noise, KINDS[kind])
        changes[KINDS[kind]] = float(np.sqrt(np.clip(variance, 0.04 * before**2, 25.0 * before**2)))
    return replace(noise, **changes)


def _covariances(problem: Problem, noise: PoseNoise, reduced: Reduced) -> FloatArray:
    variances, encoder = row_variances(problem, noise)
    rows = np.arange(problem.row_count)
    covariance = encoder * (reduced.linear.by_joint @ np.swapaxes(reduced.linear.by_joint, 1, 2))
    covariance[:, rows, rows] += variances
    return np.asarray(covariance)
