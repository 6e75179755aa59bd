"""The candidates of a validation: what is measured, and the sensor errors that each candidate predicts with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.regression import PRIORS, belongs_to, plan_nuisance, plan_sensing
from steelyard.validation.prediction import Predictor, nuisance_values
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.identification import Estimate
    from steelyard.motion import Motion
    from steelyard.regression import Sensing


_OF_TORQUES = (
    "coulomb_friction", "presliding_friction", "viscous_friction", "rotor_inertia", "torque_offset", "torque_ripple"
)  # fmt: skip
"""Groups of errors that show in joint torques alone."""


def plan_predictor(
    estimate: Estimate,
    motion: Motion,
    truth: Any = None,
    withhold: Sequence[str] | None = None,
    unknown_wrenches: Sequence[str] | None = None,
    torques: Sequence[str] | None = None,
    nuisance: Sequence[str] = tuple(PRIORS),
) -> tuple[Predictor, list[str]]:
    """Return the predictor of all candidates for motions like this one, as `validate` uses it, and its notes.

    Each candidate has the values of nuisances that fit it best on the training data.
    """
    model = estimate.model
    parameters, reference = np.asarray(estimate.parameters), np.asarray(estimate.reference)
    notes: list[str] = []
    used = dict(estimate.sensing)
    wanted = torques if torques is not None else used.get("torques")
    sensing = plan_sensing(
        model,
        wrenches=motion.wrenches,
        torques=model.setup.torques_measured if wanted is None else wanted,
        withhold=used.get("withhold") or () if withhold is None else withhold,
        unknown_wrenches=used.get("unknown_wrenches") or () if unknown_wrenches is None else unknown_wrenches,
    )
    missing = [joint for joint in sensing.torques if joint not in motion.torques]
    if missing and torques is not None:
        raise EvidenceError(f"the torque of joint {missing[0]!r} is not in this motion; leave it out", names=missing)
    if missing:
        notes.append(f"The torque of {in_words(missing)} is not in this motion and is not validated.")
        kept = tuple(joint for joint in sensing.torques if joint not in missing)
        sensing = type(sensing)(sensing.measured, sensing.unknown, kept)
        if not (sensing.measured or kept):
            raise EvidenceError(
                "no quantity that the parameters predict is measured in this motion; record a wrench or a torque",
                names=missing,
            )
    # Drift is counted from the beginning of a recording, and ends with it.
    known = [group for group in PRIORS if group != "wrench_drift" and _estimated(group, estimate.nuisance, sensing)]
    for group in nuisance:
        if group not in PRIORS:
            raise EvidenceError(f"there is no nuisance {group!r}; there are {', '.join(PRIORS)}", names=[group])
    columns = plan_nuisance(model, sensing, [group for group in known if group in nuisance])
    left_out = [group for group in known if group not in nuisance]
    if left_out:
        left = in_words(left_out).replace("_", " ")
        notes.append(f"The estimate's values of {left} are left out, as nuisance= asks.")
    candidates, scales = [parameters, reference, reference], [1.0, float(estimate.mass_scale), 1.0]
    if truth is not None:
        candidates.append(model.with_parameters(getattr(truth, "parameters", truth)).parameters)
        scales.append(1.0)
    fit = estimate.nuisance_fit
    found = [dict(estimate.nuisance)] * len(candidates)
    if fit is not None:
        cad = (dict(zip(fit.names, each.tolist(), strict=True)) for each in (fit.corrected, fit.reference))
        found = [fit.at(parameters), *cad, *(fit.at(each) for each in candidates[3:])]
    return Predictor(model, motion.base, sensing, columns, nuisance_values(columns, found), candidates, scales), notes


def with_sensor_errors(
    predictor: Predictor, sensor_errors: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> Predictor:
    """Return a predictor with the errors of `Validation.sensor_errors`, for recordings that have their own there."""
    own = {
        origin: nuisance_values(predictor.nuisance, list(each.values())[: len(predictor.parameters)])
        for origin, each in sensor_errors.items()
        if origin and len(each) >= len(predictor.parameters)
    }
    return replace(predictor, own=own)


def sensing_arguments(estimate: Estimate, predictor: Predictor) -> dict[str, Any]:
    """Return what a predictor takes as measured, as arguments of `gather_evidence`."""
    measured = {f"{source.name}" for source in predictor.sensing.measured}
    sensors = {name.rpartition(".")[0] for name in measured}
    components = [
        f"{sensor.name}.{axis}"
        for sensor in estimate.model.setup.wrench_sensors
        if sensor.name in sensors
        for axis in sensor.axes
    ]
    given = dict(estimate.sensing)
    return {
        "torques": list(predictor.sensing.torques),
        "withhold": [name for name in components if name not in measured],
        "unknown_wrenches": given.get("unknown_wrenches") or (),
        "weights": given.get("weights"),
    }


def _estimated(group: str, values: Mapping[str, float], sensing: Sensing) -> bool:
    """Return whether an estimate has values of a nuisance group that affects these sensors."""
    if group in _OF_TORQUES:
        return any(name.startswith(f"{joint}.{group}") for joint in sensing.torques for name in values)
    if group == "wrench_offset":
        return any(f"{source.name}.offset" in values for source in sensing.measured)
    return any(belongs_to(name, group) for name in values)
