"""Poses in which something was not as it should be: a foot that was not flat, a sensor or a marker that was off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from steelyard.calibration.noise import SET_ASIDE
from steelyard.calibration.solving import reduce_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.calibration.problem import Linear, Problem
    from steelyard.model.parameters import FloatArray

FALSE_ALARMS = 0.005
"""Share of sound poses in which something is suspected."""

_NULL = 1e-9


@dataclass(frozen=True)
class Suspect:
    """Something that does not fit in a pose.

    Attributes:
        pose: Number of the pose.
        time: When it was taken, s.
        name: The contact, sensor, marker or touch.
        kind: "contact", "orientation", "marker" or "touch".
        amount: How far it is off: degrees of tilt or turn, or millimetres.
        words: The same in words.
        chance: How likely so much is by noise alone.
    """

    pose: int
    time: float
    name: str
    kind: str
    amount: float
    words: str
    chance: float


@dataclass(frozen=True, eq=False)
class BlockTests:
    """How badly each block fits in each pose, if all others are right.

    Attributes:
        squares: Squared distances in standard deviations, shape (n_poses, n_blocks).
        freedoms: How many independent numbers each is made of, shape (n_poses, n_blocks); zero where nothing tells.
        estimates: How far the block's rows are off, shape (n_poses, n_rows).
    """

    squares: FloatArray
    freedoms: NDArray[np.int64]
    estimates: FloatArray

    def chances(self, scale: float = 1.0) -> FloatArray:
        """Gives how likely such distances are by noise alone, shape (n_poses, n_blocks); one where nothing tells."""
        return np.where(self.freedoms > 0, chi2.sf(self.squares / scale, np.maximum(self.freedoms, 1)), 1.0)


def test_blocks(problem: Problem, linear: Linear, variances: FloatArray, encoder: float) -> BlockTests:
    """Holds each block against all others of its pose: a score test of three numbers added to its rows.

    Args:
        problem: The problem.
        linear: Rows at a minimum.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
    """
    precision = reduce_rows(linear, variances, encoder).precision
    weighted = np.einsum("nij,nj->ni", precision, linear.residuals)
    count = len(linear.residuals)
    squares, freedoms = np.zeros((count, len(problem.blocks))), np.zeros((count, len(problem.blocks)), dtype=np.int64)
    estimates = np.zeros_like(linear.residuals)
    for number, block in enumerate(problem.blocks):
        values, vectors = np.linalg.eigh(precision[:, block.rows, block.rows])
        largest = np.max(np.abs(precision), axis=(1, 2))[:, None]
        there = (values > _NULL * np.maximum(largest, 1e-300)) & block.there[:, None]
        along = np.einsum("nij,ni->nj", vectors, weighted[:, block.rows])
        inverse = np.where(there, 1.0 / np.where(there, values, 1.0), 0.0)
        squares[:, number] = np.sum(inverse * along**2, axis=1)
        freedoms[:, number] = there.sum(axis=1)
        estimates[:, block.rows] = np.einsum("nij,nj->ni", vectors, inverse * along)
    return BlockTests(squares, freedoms, estimates)


def find_aside(
    problem: Problem, linear: Linear, variances: FloatArray, encoder: float, scale: float
) -> NDArray[np.bool_]:
    """Tells which blocks do not fit in which poses, shape (n_poses, n_blocks).

    The worst of a pose is set aside first; what is left is tested again without it.

    Args:
        problem: The problem.
        linear: Rows at a minimum.
        variances: Of the noise of each row, shape (n_poses, n_rows).
        encoder: Variance of the joints' readings.
        scale: Factor on all variances.
    """
    aside = np.zeros((len(linear.residuals), len(problem.blocks)), dtype=bool)
    level = FALSE_ALARMS / max(len(problem.blocks), 1)
    variances = np.array(variances)
    for _ in range(max(1, len(problem.blocks) - 1)):
        chances = np.where(aside, 1.0, test_blocks(problem, linear, variances, encoder).chances(scale))
        worst = np.argmin(chances, axis=1)
        bad = np.flatnonzero(chances[np.arange(len(chances)), worst] < level)
        if not len(bad):
            break
        aside[bad, worst[bad]] = True
        for number, block in enumerate(problem.blocks):
            hit = bad[worst[bad] == number]
            variances[hit, block.rows] *= SET_ASIDE
    return aside


def name_suspects(
    problem: Problem, linear: Linear, variances: FloatArray, encoder: float, aside: NDArray[np.bool_]
) -> tuple[Suspect, ...]:
    """Gives what was set aside, with how far it is off if all else in its pose is right."""
    suspects: list[Suspect] = []
    found: dict[int, BlockTests] = {}
    for number in np.flatnonzero(aside.any(axis=0)):
        # Held against the others that were not set aside.
        others = np.array(variances)
        for other, block in enumerate(problem.blocks):
            if other != number:
                others[np.ix_(aside[:, other], np.arange(problem.row_count)[block.rows])] *= SET_ASIDE
        found[int(number)] = test_blocks(problem, linear, others, encoder)
    for pose, number in np.argwhere(aside):
        tests, block = found[int(number)], problem.blocks[number]
        amount, words = _in_words(problem, int(number), tests.estimates[pose, block.rows])
        chance = float(tests.chances()[pose, number])
        suspects.append(
            Suspect(int(pose), float(problem.poses.time[pose]), block.name, block.kind, amount, words, chance)
        )
    return tuple(suspects)


def _in_words(problem: Problem, number: int, estimate: FloatArray) -> tuple[float, str]:
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
