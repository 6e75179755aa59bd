"""Validation of an estimate: prediction errors on motions, beside those of the reference and of the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError, MotionError, SteelyardError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import Motion
from steelyard.preparation import Preparation, RecordingLike, naming, preparation_of
from steelyard.recording import Recording
from steelyard.regression import PRIORS, belongs_to, plan_nuisance, plan_sensing
from steelyard.validation.error_statistics import CANDIDATES
from steelyard.validation.prediction import AXES, UNITS, Predictor, nuisance_values
from steelyard.validation.tally import Tally
from steelyard.validation.validation_notes import note_beaten_truth, note_sharing, note_too_few, note_unmeasured
from steelyard.validation.validation_summary import summarise_validation
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification import Estimate
    from steelyard.model import Model
    from steelyard.motion import Base
    from steelyard.regression import Sensing
    from steelyard.validation.bootstrap import Gain
    from steelyard.validation.error_statistics import Candidates, ErrorStatistics

ROBOT = ("coulomb_friction", "presliding_friction", "viscous_friction", "rotor_inertia", "torque_ripple")
"""Nuisances that belong to the robot and keep their values from one recording to the next."""

_STALE = {
    "torque_offset": "may have drifted since the training recording",
    "imu_mounting": "may have changed since the training recording",
    "wrench_offset": "belong to the training recording",
    "accelerometer_bias": "belong to the training recording",
    "wrench_drift": "belong to the training recording",
}
"""Why the others are not applied by default."""

_CHUNK = 4096
"""Samples predicted at once, to bound the memory; set by judgement."""


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
        kind: "direct" on training data of the estimate, "partly direct", or "cross".
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
    kind: str
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

    def summary(self) -> str:
        """Return the validation as text: a header, tables of all candidates, the improvement, and numbered notes."""
        return summarise_validation(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; NaN and infinities become None."""
        nested = {name: getattr(self, name) for name in ("wrench", "world", "torque")}
        plain = vars(self) | {name: None if each is None else each.to_dict() for name, each in nested.items()}
        plain["projected"], plain["notes"] = dict(self.projected), list(self.notes)
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
    zeroed: bool = False,
) -> Validation:
    """Validate an estimate on a motion, beside the reference, the mass-corrected reference, and the truth.

    A second, cheap pass over the samples compares ``Y φ`` with the measurement, without forming ``Y``. All candidates
    predict with the same nuisance values, so that only their inertial parameters differ.

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
        nuisance: Groups of the estimate's nuisance values to apply; by default all that were estimated.
        zeroed: Whether sensors were zeroed or mounted anew since the training recordings: only those of the robot
            (friction, rotor inertia, torque ripple) are applied then, not offsets, biases and mounting.

    Raises:
        MotionError: A motion is empty or does not fit the model, or two have different base links.
        EvidenceError: A sensor has no data, or a name is unknown.
        ModelError: The true parameters have the wrong shape.
        SolverError: The estimate failed.
    """
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0.0 < level < 1.0:
        raise EvidenceError(f"the level is {level!r}; it must be between 0 and 1, such as 0.95")
    if nuisance is not None and zeroed:
        raise EvidenceError("nuisance= sets what is applied; leave out zeroed=")
    applied = nuisance if nuisance is not None else ROBOT if zeroed else tuple(PRIORS)
    names: list[str] = []
    with naming(lambda: names[-1] if names else ""), one_blas_thread():
        first, rest = _first_of(estimate.model, _as_motions(estimate, motion, names))
        predictor, notes = plan_predictor(estimate, first, truth, withhold, unknown_wrenches, torques, applied)
        tally = Tally(predictor, predictor.plan, truth is not None)
        for chunk in _chunks(predictor, first, rest):
            tally.add(chunk)
    return _finish(estimate, tally, notes, level, seed)


def plan_predictor(
    estimate: Estimate,
    motion: Motion,
    truth: Any = None,
    withhold: Sequence[str] | None = None,
    unknown_wrenches: Sequence[str] | None = None,
    torques: Sequence[str] | None = None,
    nuisance: Sequence[str] = ROBOT,
) -> tuple[Predictor, list[str]]:
    """Return the predictor of all candidates for motions like this one, as `validate` uses it, and its notes."""
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
    applied = [group for group in nuisance if group != "wrench_drift"]
    groups = [group for group in applied if _estimated(group, estimate.nuisance, sensing)]
    columns = plan_nuisance(model, sensing, groups)
    if columns:
        notes.append(f"All candidates predict with the estimate's {in_words(groups).replace('_', ' ')}.")
    left_out = [group for group in PRIORS if group not in groups and _estimated(group, estimate.nuisance, sensing)]
    for why in dict.fromkeys(_STALE.get(group, "") for group in left_out):
        stale = in_words([group for group in left_out if _STALE.get(group, "") == why]).replace("_", " ")
        reason = f"{why}, and are not applied; nuisance= applies them" if why else "are left out, as nuisance= asks"
        notes.append(f"The estimate's values of {stale} {reason}.")
    candidates, scales = [parameters, reference, reference], [1.0, float(estimate.mass_scale), 1.0]
    if truth is not None:
        candidates.append(model.with_parameters(getattr(truth, "parameters", truth)).parameters)
        scales.append(1.0)
    values = nuisance_values(columns, estimate.nuisance)
    return Predictor(model, motion.base, sensing, columns, values, candidates, scales), notes


def _estimated(group: str, values: Mapping[str, float], sensing: Sensing) -> bool:
    """Return whether an estimate has values of a nuisance group that affects these sensors."""
    if group not in PRIORS:
        raise EvidenceError(f"there is no nuisance {group!r}; there are {', '.join(PRIORS)}", names=[group])
    if group in ROBOT or group.startswith("torque_"):
        return any(name.startswith(f"{joint}.{group}") for joint in sensing.torques for name in values)
    if group == "wrench_offset":
        return any(f"{source.name}.offset" in values for source in sensing.measured)
    return any(belongs_to(name, group) for name in values)


def preparation_for(estimate: Estimate) -> Preparation:
    """Return the Preparation that an estimate was made with, for other recordings of the same robot.

    Raises:
        RecordingError: What the estimate holds is no Preparation of its model.
    """
    if estimate.preparation:
        return preparation_of(estimate.preparation, estimate.model, "the estimate's preparation")
    # Gathered from motions: nothing was chosen, and recordings are taken as they are.
    base: Base = "fixed" if estimate.model.base == "fixed" else "imu"
    return Preparation(estimate.model, base, None, None, {}, {}, None, "default", ())


def _as_motions(estimate: Estimate, given: Any, names: list[str]) -> Any:
    """Return motions, of recordings prepared as the estimate's were; add the name of each recording as it is read."""
    several = [given] if isinstance(given, str | Path | Recording | Motion) else given
    if not isinstance(several, Iterable):
        return given
    prepared: list[Preparation] = []

    def motions() -> Iterator[Any]:
        for each in several:
            if isinstance(each, str | Path | Recording):
                if not prepared:
                    prepared.append(preparation_for(estimate))
                names.append(each.name if isinstance(each, Recording) else Path(each).name)
                yield from prepared[0].motions(each)
            else:
                yield each

    return motions()


def _first_of(model: Model, motion: Any) -> tuple[Motion, Iterator[Motion]]:
    if not isinstance(motion, (Motion, Iterable)):
        raise EvidenceError(f"a motion is needed, not {type(motion).__name__}; make one with reconstruct_motion")
    stream = iter([motion] if isinstance(motion, Motion) else motion)
    first = next(stream, None)
    if not isinstance(first, Motion):
        what = "there is no motion to validate on" if first is None else f"{type(first).__name__} is no Motion"
        raise EvidenceError(f"{what}; make one with reconstruct_motion")
    try:
        first.check(model)
    except SteelyardError as error:
        raise MotionError(f"the motion does not fit {model.name}, the estimate's model: {error}") from error
    return first, stream


def _chunks(predictor: Predictor, first: Motion, rest: Iterator[Motion]) -> Iterator[Motion]:
    """Yield all motions in chunks, each motion checked before it is used."""
    yield from first.chunks(_CHUNK)
    sensing = predictor.sensing
    sensors = {source.name.rpartition(".")[0] for source in sensing.measured}
    for number, motion in enumerate(rest, start=2):
        try:
            motion.check(predictor.model)
            if motion.base != predictor.base:
                raise MotionError(
                    f"its base link is {motion.base!r}, the first one's {predictor.base!r}", channel="base"
                )
            missing = [
                *sorted(sensors - set(motion.wrenches)),
                *(j for j in sensing.torques if j not in motion.torques),
            ]
            if missing:
                raise MotionError(f"{missing[0]!r} has no data there", channel=missing[0])
        except SteelyardError as error:
            raise MotionError(f"motion number {number}: {error}") from error
        yield from motion.chunks(_CHUNK)


def _finish(estimate: Estimate, tally: Tally, notes: list[str], level: float, seed: int) -> Validation:
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
        kind=kind,
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


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
