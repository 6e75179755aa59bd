"""The sensor errors that fit each candidate best on the validated recording itself, where its sensors were zeroed.

An offset holds from one zeroing to the next. Where sensors were not zeroed between training and validation, each
candidate predicts with the offsets that fit it best on the training data; else with those that fit it best on the
validated recording, under the same priors. Judging all candidates with the offsets that were fitted to one of them
favours that one.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from steelyard.regression import OWN_GROUPS, gather_evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from steelyard.arrays import FloatArray
    from steelyard.motion import Motion
    from steelyard.regression import Evidence
    from steelyard.validation.prediction import Predictor

RESET_GROUPS = (*OWN_GROUPS, "torque_offset")
"""Groups of errors that zeroing or switching on a sensor changes."""

ZEROED = 2.0
"""Factor between the estimate's residual with the offsets of the training data and that with the recording's own from
which sensors count as zeroed in between. On eight robots it was 1.3 at most without zeroing, and 3.5 at least where
offsets were drawn anew by 1.2 N and 0.04 N m."""


_ROUNDS = 4
"""Rounds between the errors and the noise of a row, by which priors are weighed. Set by judgement: a candidate that
fits badly has more of it, or else its residual would drive offsets far beyond what sensors have."""


class RecordingFit(NamedTuple):
    """Errors fitted to one recording.

    Attributes:
        values: Of each candidate, shape (n_candidates, n_nuisances).
        stale: Residual of the estimate with the errors of the training data, over that with those of this recording.
    """

    values: FloatArray
    stale: float


def fit_recordings(
    predictor: Predictor, motions: Iterable[Motion], sensing: Mapping[str, Any]
) -> dict[str, RecordingFit]:
    """Return the sensor errors that fit each candidate best on each recording.

    Errors that belong to the robot keep the values of the predictor.

    Args:
        predictor: The candidates, with the values that fit them on the training data.
        motions: The motions, recording by recording.
        sensing: What is measured, as arguments of `gather_evidence`.

    Returns:
        By the origin of a recording; motions of unknown origin count as one.
    """
    groups = tuple(dict.fromkeys(column.group for column in predictor.nuisance))
    if not any(group in RESET_GROUPS for group in groups):
        return {}
    found = {}
    for origin, pieces in groupby(motions, key=lambda each: each.origin):
        evidence = gather_evidence(
            predictor.model, pieces, nuisance=groups, shared_offsets=True, drift=False, **sensing
        )  # fmt: skip
        found[origin] = _fit(predictor, evidence)
    return found


def _fit(predictor: Predictor, evidence: Evidence) -> RecordingFit:
    """Minimise each candidate's cost over the errors that zeroing changes, priors counted."""
    full, count = evidence.full_factor, evidence.parameter_count
    places = {name: number for number, name in enumerate(evidence.key.nuisance)}
    order = [places[column.name] for column in predictor.nuisance]
    columns = full[:, count:-1][:, order]
    reset = np.array([column.group in RESET_GROUPS for column in predictor.nuisance])
    priors = np.array([column.prior for column in predictor.nuisance])[reset]
    values = predictor.values.copy()
    stale = 1.0
    for number, (parameters, scale) in enumerate(zip(predictor.parameters, predictor.scales, strict=True)):
        left = (
            full[:, -1] - full[:, :count] @ np.ravel(scale * parameters) - columns[:, ~reset] @ values[number, ~reset]
        )
        values[number, reset] = _solve(columns[:, reset], left, priors, evidence)
        if number == 0:
            before, after = (
                float(np.linalg.norm(left - columns[:, reset] @ each[0, reset])) for each in (predictor.values, values)
            )
            stale = before / max(after, 1e-300)
    return RecordingFit(values, stale)


def _solve(columns: FloatArray, left: FloatArray, priors: FloatArray, evidence: Evidence) -> FloatArray:
    """Return ``argmin ‖left − columns e‖² + ‖s e / priors‖²``, with the noise ``s`` of a row that the residual has."""
    equations = max(1.0, evidence.row_count * evidence.effective_count / max(1, evidence.sample_count))
    found = np.zeros(len(priors))
    for _ in range(_ROUNDS):
        residual = left - columns @ found
        weights = np.sqrt(float(residual @ residual) / equations) / priors
        stacked = np.concatenate([columns, np.diag(weights)])
        found = np.linalg.lstsq(stacked, np.concatenate([left, np.zeros(len(priors))]), rcond=1e-12)[0]
    return found
