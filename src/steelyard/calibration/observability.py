"""What poses tell of offsets: standard errors, and what they do not tell, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from steelyard.calibration.solving import with_prior
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.problem import Problem, State

TOLD = 0.2
"""Standard error, as a share of how far encoders are usually off, up to which an offset counts as observable."""

_NULL = 1e-10
_WORTH_NAMING = 0.15


@dataclass(frozen=True, eq=False)
class Observability:
    """What some poses tell of the offsets, whatever all other unknowns are.

    Attributes:
        joints: The joints.
        covariance: Of the offsets' errors, shape (n, n). Along what is not determined it is that of usual offsets.
        standard_errors: Its roots, shape (n,), rad or m.
        observable: Whether each standard error is at most `TOLD` of a usual offset, shape (n,).
        undetermined: Directions that the poses do not tell, one row each, of length one in units of usual offsets,
            shape (n_undetermined, n).
        information: Singular values of the reduced Jacobian in units of usual offsets, falling, shape (n,): a
            direction with s has the standard error 1/s of a usual offset.
    """

    joints: tuple[str, ...]
    covariance: FloatArray
    standard_errors: FloatArray
    observable: NDArray[np.bool_]
    undetermined: FloatArray
    information: FloatArray

    def words(self) -> tuple[str, ...]:
        """Gives a sentence for each direction that is not determined."""
        return tuple(_sentence(self.joints, row) for row in _simplest(self.undetermined))


def observe(
    problem: Problem, state: State, triangle: FloatArray, usual: FloatArray, correlated: FloatArray | None = None
) -> Observability:
    """Tells what poses say of the offsets.

    All other shared unknowns are eliminated; where the poses do not tell them apart, by the range of their columns.

    Args:
        problem: The problem.
        state: Where it was linearised.
        triangle: Factor of ``[by_shared | residuals]``; see `Reduced.triangle`.
        usual: Usual size of each shared unknown, shape (n_shared,).
        correlated: What is added to the covariance of the shared unknowns' scores because poses are not independent,
            shape (n_shared, n_shared).
    """
    columns = problem.shared_columns["offsets"]
    factor = with_prior(problem, state, triangle)[:, :-1] * usual
    others = factor[:, : columns.start]
    left, values, _ = np.linalg.svd(others, full_matrices=False)
    left = left[:, values > _NULL * max(float(values.max(initial=0.0)), 1e-300)]
    own = factor[:, columns] - left @ (left.T @ factor[:, columns])
    _, information, right = np.linalg.svd(own, full_matrices=False)
    told = information >= 1.0
    sizes = usual[columns]
    inverse = (right[told].T / information[told] ** 2) @ right[told]
    covariance = inverse
    if correlated is not None:
        # The score of the offsets alone: what other unknowns take up is taken out of it.
        inside = np.linalg.pinv(others.T @ others, rcond=_NULL, hermitian=True)
        rest = np.concatenate([-(inside @ (others.T @ factor[:, columns])), np.eye(len(sizes))])
        score = rest.T @ (correlated * np.outer(usual, usual)) @ rest
        covariance = inverse + inverse @ score @ inverse
        # Errors that undo each other make no offset surer than independent ones would.
        covariance = _at_least(covariance, inverse)
    covariance = covariance + right[~told].T @ right[~told]
    covariance = covariance * np.outer(sizes, sizes)
    errors = np.sqrt(np.diagonal(covariance))
    return Observability(problem.joints, covariance, errors, errors <= TOLD * sizes, right[~told], information)


def _simplest(directions: FloatArray) -> FloatArray:
    """Gives the same directions by as few joints each as elimination finds."""
    if not len(directions):
        return directions
    _, _, order = qr(directions, pivoting=True)
    lead = order[: len(directions)]
    rows = np.linalg.solve(directions[:, lead], directions)
    return np.asarray(rows / np.max(np.abs(rows), axis=1, keepdims=True))


def _sentence(joints: Sequence[str], direction: FloatArray) -> str:
    """Gives what a direction means."""
    direction = direction / direction[int(np.argmax(np.abs(direction)))]
    shown = [
        number for number in np.argsort(-np.abs(direction), kind="stable") if abs(direction[number]) > _WORTH_NAMING
    ]
    if len(shown) == 1:
        return f"nothing tells the offset of {joints[shown[0]]}"
    alike = np.allclose(np.abs(direction[shown]), 1.0, atol=0.05)
    if alike:
        up = [joints[number] for number in shown if direction[number] > 0.0]
        down = [joints[number] for number in shown if direction[number] < 0.0]
        if not down:
            return f"nothing tells what is added to {in_words(up)} alike"
        return f"nothing tells what is added to {in_words(up)} and taken from {in_words(down)} alike"
    parts = " ".join(f"{direction[number]:+.2g} {joints[number]}" for number in shown)
    return f"nothing tells the offsets along {parts}"


def _at_least(covariance: FloatArray, least: FloatArray) -> FloatArray:
    """Gives a covariance whose variances are at least those of another."""
    ratio = np.sqrt(np.maximum(1.0, np.diagonal(least) / np.maximum(np.diagonal(covariance), 1e-300)))
    return np.asarray(covariance * np.outer(ratio, ratio))
