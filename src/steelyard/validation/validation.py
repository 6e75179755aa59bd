"""Validation of an estimate: prediction errors on motions, beside those of the reference and of the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.preparation import naming
from steelyard.regression import PRIORS
from steelyard.validation.error_statistics import CANDIDATES
from steelyard.validation.given_motions import GivenMotions, chunk_motions
from steelyard.validation.noise_floor import measure_noise_floor
from steelyard.validation.prediction import AXES, UNITS
from steelyard.validation.predictor_plan import plan_predictor, sensing_arguments
from steelyard.validation.recording_fit import ZEROED, fit_recordings
from steelyard.validation.tally import Tally
from steelyard.validation.validation_notes import (
    note_applied,
    note_beaten_truth,
    note_sharing,
    note_too_few,
    note_unmeasured,
)
from steelyard.validation.validation_summary import summarise_validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification import Estimate
    from steelyard.motion import Motion
    from steelyard.preparation import RecordingLike
    from steelyard.validation.bootstrap import Gain
    from steelyard.validation.error_statistics import Candidates, ErrorStatistics
    from steelyard.validation.prediction import Predictor


@dataclass(frozen=True, eq=False)
class Validation:
    """Prediction errors of an estimate on motions.

    `mean`, `std`, `rmse`, `correlation` and `nrmse` are the estimate's, for six axes (fx fy fz nx ny nz, N and N m) of
    the total external wrench on the robot, about the base link's origin and in its axes; the error is predicted −
    measured. With wrench sensors inside the limbs it is the wrench that they transmit to the part above them. An axis
    that is not measured in full is NaN, and a note says why.

    Attributes:
        wrench: The wrench in the base link's axes, by all candidates.
        world: The same wrench in world axes (ground reaction force and moment), where the base's orientation is known;
            else None.
        torque: Joint torques by joint, where they were measured; else None.
        projected: Where forces are unknown: rms residual, by candidate, of the equations from which they are projected
            out; N and N m together, per equation. Empty where no force is unknown.
        improvement: By the other candidate ("corrected", "reference") and by row (axes, "total", "torque <joint>",
            "torques", "projected"): the ratio of RMSEs, and whether the improvement is significant.
        noise_floor: RMS error that the sensors' white noise causes by itself, by axis and joint; empty where it is not
            known, because motions were given instead of recordings.
        kind: "direct" on training data of the estimate, "partly direct", or "cross".
        sensor_errors: The errors of sensors and joints that each candidate predicts with (N, N m, m/s², rad/s, rad): by
            recording ("" for all that have none of their own), by candidate, and by name.
        zeroed: Whether those of wrench sensors and inertial sensors, which zeroing changes, were fitted to these
            recordings themselves; else to the training data.
        shared: Seconds shared with the training data; NaN where origins are unknown.
        duration: Seconds of motion.
        sample_count: Samples.
        block: Seconds in the longest block of the bootstrap; each row has its own, set by its errors' autocorrelation.
        blocks: Least number of blocks of any row.
        level: Confidence level of the intervals.
        base: The base link.
        model: Name of the model.
        method: Method of the estimate.
        mass_scale: Factor on the reference that makes it the mass-corrected one.
        notes: Remarks, one sentence each.
    """

    wrench: Candidates
    world: Candidates | None
    torque: Candidates | None
    projected: Mapping[str, float]
    improvement: Mapping[str, Mapping[str, Gain]]
    noise_floor: Mapping[str, float]
    kind: str
    sensor_errors: Mapping[str, Mapping[str, Mapping[str, float]]]
    zeroed: bool
    shared: float
    duration: float
    sample_count: int
    block: float
    blocks: float
    level: float
    base: str
    model: str
    method: str
    mass_scale: float
    notes: tuple[str, ...]

    @property
    def mean(self) -> FloatArray:
        """Mean error of each axis, shape (6,)."""
        return self.wrench.estimate.mean  # type: ignore[no-any-return]

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the error of each axis about its mean, shape (6,)."""
        return self.wrench.estimate.std  # type: ignore[no-any-return]

    @property
    def rmse(self) -> FloatArray:
        """Root mean square error of each axis, shape (6,)."""
        return self.wrench.estimate.rmse  # type: ignore[no-any-return]

    @property
    def correlation(self) -> FloatArray:
        """Correlation of measurement and prediction of each axis, shape (6,)."""
        return self.wrench.estimate.correlation  # type: ignore[no-any-return]

    @property
    def nrmse(self) -> FloatArray:
        """Root mean square error of each axis, divided by the range of the measurement, shape (6,)."""
        return self.wrench.estimate.nrmse  # type: ignore[no-any-return]

    @property
    def reference(self) -> ErrorStatistics:
        """Errors of the wrench predicted by the reference (CAD)."""
        return self.wrench.reference

    @property
    def corrected(self) -> ErrorStatistics:
        """Errors of the wrench predicted by the mass-corrected reference."""
        return self.wrench.corrected

    @property
    def truth(self) -> ErrorStatistics | None:
        """Errors of the wrench predicted by the true parameters, where known: the noise floor."""
        return self.wrench.truth

    @property
    def misfit(self) -> float:
        """RMS over all axes (without any, over all joints) of the error, each relative to its noise floor.

        About 1 where nothing but noise is left; NaN where the floor is not known.
        """
        axes = [(name, rmse) for name, rmse in zip(AXES, self.rmse.tolist(), strict=True) if np.isfinite(rmse)]
        joints = [] if self.torque is None else [(name, float(fit.rmse)) for name, fit in self.torque.items()]
        rows = [(self.noise_floor.get(name, 0.0), rmse) for name, rmse in axes or joints if np.isfinite(rmse)]
        ratios = [rmse / floor for floor, rmse in rows if floor > 0.0]
        return float(np.sqrt(np.mean(np.square(ratios)))) if ratios else float("nan")

    def summary(self) -> str:
        """Return the validation as text: a header, tables of all candidates, the improvement, and numbered notes."""
        return summarise_validation(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; NaN and infinities become None."""
        nested = {name: getattr(self, name) for name in ("wrench", "world", "torque")}
        plain = vars(self) | {name: None if each is None else each.to_dict() for name, each in nested.items()}
        plain["projected"], plain["notes"] = dict(self.projected), list(self.notes)
        plain["noise_floor"], plain["misfit"] = dict(self.noise_floor), self.misfit
        plain["sensor_errors"] = {
            name: {candidate: dict(values) for candidate, values in each.items()}
            for name, each in self.sensor_errors.items()
        }
        plain["improvement"] = {
            other: {row: vars(gain) for row, gain in gains.items()} for other, gains in self.improvement.items()
        }
        return {name: _without_nan(value) for name, value in plain.items()}

    def __repr__(self) -> str:
        return f"<Validation of {self.model}, {self.kind}: {self.sample_count} samples, {self.duration:.1f} s>"


def validate(
    estimate: Estimate,
    motion: Motion | RecordingLike | Iterable[Motion | RecordingLike],
    *,
    truth: Any = None,
    level: float = 0.95,
    seed: int = 0,
    withhold: Sequence[str] | None = None,
    unknown_wrenches: Sequence[str] | None = None,
    torques: Sequence[str] | None = None,
    nuisance: Sequence[str] | None = None,
    zeroed: bool | None = None,
) -> Validation:
    """Validate an estimate on a motion, beside the reference, the mass-corrected reference, and the truth.

    A second, cheap pass over the samples compares ``Y φ`` with the measurement, without forming ``Y``. Each candidate
    predicts with the errors of sensors and joints that fit it best under the same priors: those found on the training
    data, or, where sensors were zeroed in between, on this recording. So an offset that was invented for one candidate
    is no disadvantage of the others.

    Args:
        estimate: The estimate.
        motion: A recording or its path, or several, prepared as the estimate's were; or a Motion of the same model, or
            several in sequence, all with the same base link and sensors.
        truth: The true parameters where known, shape (n_links, 10), or an object with `parameters`.
        level: Confidence level of the bootstrap intervals.
        seed: Of the bootstrap.
        withhold: Sensors or components to treat as not measured; by default those that the estimate did not use.
        unknown_wrenches: Frames at which an unknown wrench acts; by default those of the estimate.
        torques: Names or patterns of joints whose torques are predicted; by default those that the estimate used and
            the motion has.
        nuisance: Groups of errors to apply; by default all that were estimated.
        zeroed: Whether sensors were zeroed or switched off since the training recordings, so that their offsets and
            biases are found on this recording. By default that is detected, from offsets that differ.

    Raises:
        MotionError: A motion is empty or does not fit the model, or two have different base links.
        EvidenceError: A sensor has no data, or a name is unknown.
        ModelError: The true parameters have the wrong shape.
        SolverError: The estimate failed.
    """
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0.0 < level < 1.0:
        raise EvidenceError(f"the level is {level!r}; it must be between 0 and 1, such as 0.95")
    applied = tuple(PRIORS) if nuisance is None else nuisance
    names: list[str] = []
    source = GivenMotions(estimate, motion, names)
    with naming(lambda: names[-1] if names else ""), one_blas_thread():
        first, rest = source.first()
        predictor, notes = plan_predictor(estimate, first, truth, withhold, unknown_wrenches, torques, applied)
        if zeroed or (zeroed is None and estimate.nuisance_fit is not None):
            fits = fit_recordings(
                predictor, chunk_motions(predictor, first, rest), sensing_arguments(estimate, predictor)
            )
            moved = {each: fit.values for each, fit in fits.items() if zeroed or fit.stale > ZEROED}
            predictor = replace(predictor, own=moved)
            first, rest = source.first()
        floor = measure_noise_floor(predictor, source.recordings())
        note_applied(predictor, estimate, notes, told=zeroed is not None)
        tally = Tally(predictor, predictor.plan, truth is not None)
        for chunk in chunk_motions(predictor, first, rest):
            tally.add(chunk)
    return _finish(estimate, tally, notes, floor, level, seed)


def _finish(
    estimate: Estimate, tally: Tally, notes: list[str], floor: FloatArray | None, level: float, seed: int
) -> Validation:
    predictor = tally.predictor
    gains = tally.gains(level, seed)
    kind, shared = note_sharing(estimate, tally, gains.repeated, notes)
    note_unmeasured(tally, notes)
    note_beaten_truth(tally, notes)
    note_too_few(tally, gains, notes)
    projected = {}
    if tally.reports_projected:
        projected = dict(zip(CANDIDATES, np.sqrt(tally.projected / tally.equations).tolist(), strict=False))
    return Validation(
        wrench=tally.wrench.candidates(AXES, UNITS, truth=tally.truth),
        world=None if tally.world is None else tally.world.candidates(AXES, UNITS, truth=tally.truth),
        torque=tally.torque.candidates(tally.joints, tally.units, truth=tally.truth) if tally.joints else None,
        projected=projected,
        improvement=gains.by_candidate,
        noise_floor={} if floor is None else dict(zip((*AXES, *tally.joints), floor.tolist(), strict=True)),
        kind=kind,
        sensor_errors=applied_errors(predictor),
        zeroed=bool(predictor.own),
        shared=shared,
        duration=tally.duration,
        sample_count=tally.wrench.count,
        block=gains.block,
        blocks=gains.blocks,
        level=level,
        base=predictor.base,
        model=predictor.model.name,
        method=estimate.method,
        mass_scale=float(estimate.mass_scale),
        notes=tuple(notes),
    )


def fit_sensor_errors(
    estimate: Estimate, motion: Motion | RecordingLike | Iterable[Motion | RecordingLike], truth: Any = None
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the errors of sensors and joints that fit each candidate best on recordings themselves.

    Args:
        estimate: The estimate.
        motion: As for `validate`.
        truth: As for `validate`.

    Returns:
        As `Validation.sensor_errors`.
    """
    first, rest = GivenMotions(estimate, motion, []).first()
    predictor, _ = plan_predictor(estimate, first, truth)
    chunks = chunk_motions(predictor, first, rest)
    fits = fit_recordings(predictor, chunks, sensing_arguments(estimate, predictor))
    return applied_errors(replace(predictor, own={each: fit.values for each, fit in fits.items()}))


def applied_errors(predictor: Predictor) -> dict[str, dict[str, dict[str, float]]]:
    """Return the errors that each candidate predicts with: by recording ("" for all), by candidate, and by name."""
    names = [column.name for column in predictor.nuisance]
    whose = {"": predictor.values, **predictor.own} if names else {}
    return {
        origin: {
            candidate: dict(zip(names, each.tolist(), strict=True))
            for candidate, each in zip(CANDIDATES, values, strict=False)
        }
        for origin, values in whose.items()
    }


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
