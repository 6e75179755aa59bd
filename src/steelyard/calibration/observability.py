"""Observability of offsets from poses: standard errors, and sentences for what is not observable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from steelyard.calibration.gauss_newton import with_prior
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem, State

OBSERVABLE_SHARE = 0.2
"""Standard error, as a share of the prior size of offsets, up to which an offset counts as observable; by judgement."""

_NULL = 1e-10
"""Relative singular value below which columns are dependent: well above rounding, well below any data."""

_WORTH_NAMING = 0.15
"""Share of the largest entry from which a joint is named in a direction; set by judgement, for short sentences."""


@dataclass(frozen=True, eq=False)
class Observability:
    """Observability of the offsets, with all other unknowns marginalised.

    Attributes:
        joints: The joints.
        covariance: Of the offsets' errors, shape (n, n); along undetermined directions that of the prior.
        standard_errors: Its roots, shape (n,), rad or m.
        observable: Whether each standard error is at most `OBSERVABLE_SHARE` of the prior size, shape (n,).
        undetermined: Directions that are not observable, one row each, of length one in units of the prior size,
            shape (n_undetermined, n).
        information: Singular values of the reduced Jacobian in units of the prior size, descending, shape (n,): a
            direction with s has the standard error 1/s of the prior size.
    """

    joints: tuple[str, ...]
    covariance: FloatArray
    standard_errors: FloatArray
    observable: NDArray[np.bool_]
    undetermined: FloatArray
    information: FloatArray

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each direction that is not observable."""
        return tuple(_sentence(self.joints, row) for row in _simplest(self.undetermined))


def observe(
    problem: CalibrationProblem,
    state: State,
    triangle: FloatArray,
    usual: FloatArray,
    correlated: FloatArray | None = None,
) -> Observability:
    """Compute the observability of the offsets.

    All other shared unknowns are eliminated, by the range of their columns where these are dependent.

    Args:
        problem: The problem.
        state: Where it was linearised.
        triangle: Factor of ``[by_shared | residuals]``; see `Reduced.triangle`.
        usual: Prior size of each shared unknown, shape (n_shared,).
        correlated: Addition to the covariance of the shared unknowns' scores from correlated poses, shape
            (n_shared, n_shared).
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
        # The score of the offsets alone, other unknowns projected out.
        inside = np.linalg.pinv(others.T @ others, rcond=_NULL, hermitian=True)
        rest = np.concatenate([-(inside @ (others.T @ factor[:, columns])), np.eye(len(sizes))])
        score = rest.T @ (correlated * np.outer(usual, usual)) @ rest
        covariance = inverse + inverse @ score @ inverse
        # Correlated errors that cancel never make an offset more certain than independent ones.
        covariance = _at_least(covariance, inverse)
    covariance = covariance + right[~told].T @ right[~told]
    covariance = covariance * np.outer(sizes, sizes)
    errors = np.sqrt(np.diagonal(covariance))
    return Observability(
        problem.joints, covariance, errors, errors <= OBSERVABLE_SHARE * sizes, right[~told], information
    )


def shared_covariance(
    problem: CalibrationProblem,
    state: State,
    triangle: FloatArray,
    usual: FloatArray,
    correlated: FloatArray | None = None,
) -> FloatArray:
    """Compute the covariance of all shared unknowns, shape (n_shared, n_shared); see `observe` for the arguments.

    Along directions that are not observable it is that of the prior sizes.
    """
    _, values, right = np.linalg.svd(with_prior(problem, state, triangle)[:, :-1] * usual, full_matrices=False)
    told = values >= 1.0
    inverse = (right[told].T / values[told] ** 2) @ right[told]
    covariance = inverse
    if correlated is not None:
        score = correlated * np.outer(usual, usual)
        covariance = _at_least(inverse + inverse @ score @ inverse, inverse)
    return np.asarray((covariance + right[~told].T @ right[~told]) * np.outer(usual, usual))


def _simplest(directions: FloatArray) -> FloatArray:
    """Return a basis of the same directions with few joints in each, by elimination."""
    if not len(directions):
        return directions
    _, _, order = qr(directions, pivoting=True)
    lead = order[: len(directions)]
    rows = np.linalg.solve(directions[:, lead], directions)
    return np.asarray(rows / np.max(np.abs(rows), axis=1, keepdims=True))


def _sentence(joints: Sequence[str], direction: FloatArray) -> str:
    """Return a sentence for a direction that is not observable."""
    direction = direction / direction[int(np.argmax(np.abs(direction)))]
    shown = [
        number for number in np.argsort(-np.abs(direction), kind="stable") if abs(direction[number]) > _WORTH_NAMING
    ]
    if len(shown) == 1:
        return f"the offset of {joints[shown[0]]} is not observable"
    alike = np.allclose(np.abs(direction[shown]), 1.0, atol=0.05)
    if alike:
        up = [joints[number] for number in shown if direction[number] > 0.0]
        down = [joints[number] for number in shown if direction[number] < 0.0]
        if not down:
            return f"a common offset of {in_words(up)} is not observable"
        return f"an offset added to {in_words(up)} and subtracted from {in_words(down)} is not observable"
    parts = " ".join(f"{direction[number]:+.2g} {joints[number]}" for number in shown)
    return f"the combination {parts} of offsets is not observable"


def _at_least(covariance: FloatArray, least: FloatArray) -> FloatArray:
    """Scale a covariance so that its variances are at least those of another."""
    ratio = np.sqrt(np.maximum(1.0, np.diagonal(least) / np.maximum(np.diagonal(covariance), 1e-300)))
    return np.asarray(covariance * np.outer(ratio, ratio))
