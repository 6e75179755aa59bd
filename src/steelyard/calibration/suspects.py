"""Outliers: poses in which a foot was not flat, or a sensor, marker or touch was off."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from steelyard.calibration.gauss_newton import eliminate_pose_unknowns
from steelyard.calibration.pose_noise import inflate_set_aside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, Linearisation

FALSE_ALARMS = 0.02
"""False-alarm rate per pose. Set by judgement: a good reading set aside costs little, an outlier kept costs more."""

_NULL = 1e-9
"""Relative eigenvalue below which a part of a pose is not tested by the rest: near rounding."""


@dataclass(frozen=True)
class Suspect:
    """A contact, sensor, marker or touch that does not fit in a pose.

    Attributes:
        pose: Index of the pose.
        time: When it was taken, s.
        name: The contact, sensor, marker or touch.
        kind: "contact", "orientation", "marker" or "touch".
        amount: Its misfit: degrees of tilt or rotation, or millimetres.
        words: The same as a sentence.
        chance: p-value of the misfit.
    """

    pose: int
    time: float
    name: str
    kind: str
    amount: float
    words: str
    chance: float


@dataclass(frozen=True, eq=False)
class MisfitTests:
    """Misfits of the parts of each pose, tested against the rest of it.

    Attributes:
        blocks: Index of the block of each part, shape (n_parts,).
        squares: Squared distances in standard deviations, shape (n_poses, n_parts).
        freedoms: Degrees of freedom of each, shape (n_poses, n_parts); zero where it cannot be tested.
        estimates: Estimated errors of the rows, shape (n_poses, n_rows).
    """

    blocks: NDArray[np.int64]
    squares: FloatArray
    freedoms: NDArray[np.int64]
    estimates: FloatArray

    def chances(self, scale: float = 1.0) -> FloatArray:
        """Return the p-values of the misfits, shape (n_poses, n_parts); one where there is no test."""
        return np.where(self.freedoms > 0, chi2.sf(self.squares / scale, np.maximum(self.freedoms, 1)), 1.0)


def parts_of(problem: CalibrationProblem) -> list[tuple[int, slice]]:
    """Return the parts that are tested, as block and rows: a contact's height, its two tilts, any other block whole."""
    parts: list[tuple[int, slice]] = []
    for number, block in enumerate(problem.blocks):
        start, stop = block.rows.start, block.rows.stop
        cuts = [start, start + 1, stop] if block.kind == "contact" else [start, stop]
        parts += [(number, slice(first, last)) for first, last in pairwise(cuts)]
    return parts


def score_misfits(
    problem: CalibrationProblem, linear: Linearisation, variances: FloatArray, encoder: float
) -> MisfitTests:
    """Test each part of a pose against the rest of it: a score test of offsets added to its rows.

    Args:
        problem: The problem.
        linear: Rows at a minimum.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """
    precision = eliminate_pose_unknowns(linear, variances, encoder).precision
    weighted = np.einsum("nij,nj->ni", precision, linear.residuals)
    largest = np.maximum(np.max(np.abs(precision), axis=(1, 2)), 1e-300)[:, None]
    parts = parts_of(problem)
    count = len(linear.residuals)
    squares, freedoms = np.zeros((count, len(parts))), np.zeros((count, len(parts)), dtype=np.int64)
    estimates = np.zeros_like(linear.residuals)
    for number, (block, rows) in enumerate(parts):
        values, vectors = np.linalg.eigh(precision[:, rows, rows])
        there = (values > _NULL * largest) & problem.blocks[block].there[:, None]
        along = np.einsum("nij,ni->nj", vectors, weighted[:, rows])
        inverse = np.where(there, 1.0 / np.where(there, values, 1.0), 0.0)
        squares[:, number] = np.sum(inverse * along**2, axis=1)
        freedoms[:, number] = there.sum(axis=1)
        estimates[:, rows] = np.einsum("nij,nj->ni", vectors, inverse * along)
    return MisfitTests(np.array([block for block, _ in parts], dtype=np.int64), squares, freedoms, estimates)


def find_outliers(
    problem: CalibrationProblem, linear: Linearisation, variances: FloatArray, encoder: float, scale: float
) -> NDArray[np.bool_]:
    """Return which blocks are outliers in which poses, shape (n_poses, n_blocks).

    The worst of a pose is set aside first; the rest is tested again without it.

    Args:
        problem: The problem.
        linear: Rows at a minimum.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
        scale: Factor on all variances.
    """
    aside = np.zeros((len(linear.residuals), len(problem.blocks)), dtype=bool)
    for _ in range(max(1, len(problem.blocks) - 1)):
        tests = score_misfits(problem, linear, inflate_set_aside(problem, variances, aside), encoder)
        chances = np.where(aside[:, tests.blocks], 1.0, tests.chances(scale))
        worst = np.argmin(chances, axis=1)
        bad = np.flatnonzero(chances[np.arange(len(chances)), worst] < FALSE_ALARMS / len(tests.blocks))
        if not len(bad):
            break
        aside[bad, tests.blocks[worst[bad]]] = True
    return aside


def name_suspects(
    problem: CalibrationProblem, linear: Linearisation, variances: FloatArray, encoder: float, aside: NDArray[np.bool_]
) -> tuple[Suspect, ...]:
    """Return what was set aside, with its misfit if the rest of its pose is right."""
    suspects: list[Suspect] = []
    found: dict[int, MisfitTests] = {}
    for number in np.flatnonzero(aside.any(axis=0)):
        # Tested against the others that were not set aside.
        others = np.array(aside)
        others[:, number] = False
        found[int(number)] = score_misfits(problem, linear, inflate_set_aside(problem, variances, others), encoder)
    for pose, number in np.argwhere(aside):
        tests, block = found[int(number)], problem.blocks[number]
        amount, words = _in_words(problem, int(number), tests.estimates[pose, block.rows])
        chance = float(np.min(tests.chances()[pose, tests.blocks == number]))
        suspects.append(
            Suspect(int(pose), float(problem.poses.time[pose]), block.name, block.kind, amount, words, chance)
        )
    return tuple(suspects)


def _in_words(problem: CalibrationProblem, number: int, estimate: FloatArray) -> tuple[float, str]:
    block = problem.blocks[number]
    if block.kind == "orientation":
        degrees = float(np.rad2deg(np.linalg.norm(estimate)))
        return degrees, f"{block.name} was off by {degrees:.2g}°"
    if block.kind != "contact":
        off = 1e3 * float(np.linalg.norm(estimate))
        return off, f"{block.name} was off by {off:.3g} mm"
    contact = next(contact for contact in problem.contacts if contact.name == block.name)
    middle = contact.vertices - contact.vertices.mean(axis=0)
    spans = np.linalg.svd(middle, compute_uv=False)[:2]
    tilt = float(np.rad2deg(np.linalg.norm(estimate[1:] / spans)))
    lift = 1e3 * float(estimate[0]) / np.sqrt(len(middle))
    if abs(lift) > 1e3 * np.linalg.norm(estimate[1:]) / np.sqrt(len(middle)):
        return abs(lift), f"{block.name} was {abs(lift):.2g} mm {'above' if lift > 0 else 'below'} the others"
    return tilt, f"{block.name} was not flat: tilted by {tilt:.2g}°"
