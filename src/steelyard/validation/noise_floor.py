"""The noise floor of a validation: the prediction errors that the white noise of the sensors causes by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.preparation import probe_noise

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.preparation import PreparedMotions
    from steelyard.validation.prediction import Prediction, Predictor


def measure_noise_floor(predictor: Predictor, recordings: PreparedMotions | None) -> FloatArray | None:
    """Return the rms prediction error that white noise causes, of six axes and the joint torques; None if unknown.

    Noise of the same level is added to all readings once more, and the prediction errors with and without it are
    compared. Biases, drifts and delays are not part of it.

    Args:
        predictor: The candidates; the first one predicts.
        recordings: The recordings, and how they are prepared; None where there are none.
    """
    plan = predictor.plan
    squares, count = 0.0, 0
    if recordings is None:
        return None
    for source in recordings.sources:
        for plain, noisy in probe_noise(recordings.prepared, source):
            before, after = (_errors(predictor.predict(each, plan)) for each in (plain, noisy))
            squares = squares + np.square(after - before).sum(axis=0)
            count += len(plain)
    return np.sqrt(squares / count) if count else None


def _errors(prediction: Prediction) -> FloatArray:
    wrench, torque = prediction.wrench, prediction.torque
    return np.concatenate([wrench.predicted[0] - wrench.measured, torque.predicted[0] - torque.measured], axis=1)
