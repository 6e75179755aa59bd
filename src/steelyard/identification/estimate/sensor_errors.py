"""Sensor errors of each recording, read back from its Evidence at the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.regression import Evidence


@dataclass(frozen=True)
class SensorErrors:
    """Offsets and biases of the sensors in one recording.

    Attributes:
        recording: Name of the recording where it is known, else its identity.
        values: By name, N, N m, m/s², rad/s. Offsets that drift have a value for each knot of time, whose names end
            with the seconds since the start: ``left_foot.fx.offset@120s``.
        standard_errors: Likewise; from the noise and from the uncertainty of the parameters.
    """

    recording: str
    values: Mapping[str, float]
    standard_errors: Mapping[str, float]


def read_sensor_errors(
    evidence: Evidence, parameters: FloatArray, nuisance: Mapping[str, float], covariance: FloatArray, noise: float
) -> tuple[SensorErrors, ...]:
    """Return the errors of each recording's own sensors, as many as the Evidence keeps.

    Args:
        evidence: The Evidence.
        parameters: The estimate, shape (n_links, 10).
        nuisance: Values of the robot's nuisances, by name.
        covariance: Of the parameters' errors, flat.
        noise: Standard deviation of a row, by which priors are weighed where the errors are still columns.
    """
    done = evidence.closed(noise)
    robot = np.array([nuisance[name] for name in done.key.nuisance])
    unknowns = np.concatenate([np.ravel(parameters), robot])
    spread = np.zeros((len(unknowns), len(unknowns)))
    spread[: len(covariance), : len(covariance)] = covariance
    names = {each["sha256"]: each["name"] for each in evidence.preparation.get("recordings", ())}
    found = []
    for each in done.errors:
        errors = each.standard_errors(spread)
        found.append(
            SensorErrors(
                names.get(each.recording, each.recording),
                dict(zip(each.names, each.values(unknowns).tolist(), strict=True)),
                dict(zip(each.names, errors.tolist(), strict=True)),
            )
        )
    return tuple(found)
