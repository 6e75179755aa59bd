"""The Validation of an estimate: how well it predicts motions, against the reference and against the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError, MotionError, SteelyardError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import Motion
from steelyard.regression import PRIORS, plan_nuisance, plan_sensing
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
    from steelyard.regression import Sensing
    from steelyard.validation.bootstrap import Gain
    from steelyard.validation.error_statistics import Candidates, ErrorStatistics

ROBOT = ("coulomb_friction", "presliding_friction", "viscous_friction", "rotor_inertia", "torque_ripple")
"""Nuisances that belong to the robot, and stay from one recording to the next."""

_STALE = {
    "torque_offset": "may have drifted since the recording that they were found in",
    "imu_mounting": "may have changed since the recording that they were found in",
    "wrench_offset": "belong to the recording that they were found in",
    "accelerometer_bias": "belong to the recording that they were found in",
}
"""Why the others are not applied."""

_PIECE = 4096


@dataclass(frozen=True, eq=False)
class Validation:
    """How well an estimate predicts motions.

    `mean`, `std`, `rmse`, `correlation` and `nrmse` are the estimate's, each of six (fx fy fz nx ny nz, N and N m): of
    the total external wrench on the robot, about the base link's origin and in its axes; the error is predicted −
    measured. With wrench sensors inside the limbs it is the wrench that they pass on to the part above them. An axis
    that is not measured in full is NaN, and a note says why.

    Attributes:
        wrench: The wrench in the base link's axes, for all candidates.
        world: The same wrench in world axes (the ground's reaction and its moment), where the base's orientation is
            known; else None.
        torque: Joint torques by joint, where they were measured; else None.
        projected: Where forces are unknown: root mean square of what each candidate leaves in the equations that are
            free of them, by candidate; N and N m together, per equation. Empty where none is.
        improvement: By the candidate that the estimate is held against ("corrected", "reference") and by row (axes,
            "total", "torque <joint>", "torques", "projected"): how much better the estimate predicts, and whether that
            is chance.
        kind: "direct" on the data that the estimate was made from, "partly direct", or "cross".
        shared: Seconds that are shared with those data; NaN where origins are unknown.
        duration: Seconds of motion.
        sample_count: Samples.
        block: Seconds in the longest block of the bootstrap; each row has its own, as long as its errors' memory asks.
        blocks: How many blocks there are of the row that has fewest.
        level: Of the intervals.
        base: The base link.
        model: Name of the model.
        method: Of the estimate.
        mass_scale: Factor on the reference that makes it the mass-corrected one.
        notes: What to know, one sentence each.
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
        """Correlation of measured and predicted of each axis, shape (6,)."""
        return self.wrench.estimate.correlation  # type: ignore[no-any-return]

    @property
    def nrmse(self) -> FloatArray:
        """Root mean square error of each axis over the range of the measured, shape (6,)."""
        return self.wrench.estimate.nrmse  # type: ignore[no-any-return]

    @property
    def reference(self) -> ErrorStatistics:
        """How the reference (CAD) predicts the wrench."""
        return self.wrench.reference

    @property
    def corrected(self) -> ErrorStatistics:
        """How the mass-corrected reference predicts the wrench."""
        return self.wrench.corrected

    @property
    def truth(self) -> ErrorStatistics | None:
        """How the true parameters predict the wrench, where they are known: the floor."""
        return self.wrench.truth

    def summary(self) -> str:
        """Gives the validation as text: a header, a table of all candidates, what is real, and numbered notes."""
        return summarise_validation(self)

    def to_dict(self) -> dict[str, Any]:
        """Gives everything as plain values, for JSON; what is not a number becomes None."""
        plain = {
            "model": self.model,
            "method": self.method,
            "kind": self.kind,
            "base": self.base,
            "sample_count": self.sample_count,
            "duration": self.duration,
            "shared": self.shared,
            "mass_scale": self.mass_scale,
            "wrench": self.wrench.to_dict(),
            "world": None if self.world is None else self.world.to_dict(),
            "torque": None if self.torque is None else self.torque.to_dict(),
            "projected": dict(self.projected),
            "level": self.level,
            "block": self.block,
            "blocks": self.blocks,
            "improvement": {
                other: {row: vars(gain) for row, gain in gains.items()} for other, gains in self.improvement.items()
            },
            "notes": list(self.notes),
        }
        return {key: _without_nan(value) for key, value in plain.items()}

    def __repr__(self) -> str:
        return f"<Validation of {self.model}, {self.kind}: {self.sample_count} samples, {self.duration:.1f} s>"


def validate(
    estimate: Estimate,
    motion: Motion | Iterable[Motion],
    *,
    truth: Any = None,
    level: float = 0.95,
    seed: int = 0,
    withhold: Sequence[str] | None = None,
    unknown_wrenches: Sequence[str] | None = None,
    torques: Sequence[str] | None = None,
    nuisance: Sequence[str] = ROBOT,
) -> Validation:
    """Tells how well an estimate predicts a motion, beside the reference, the mass-corrected one, and the truth.

    A second, cheap pass over the samples: no factor, no regressor, just ``Y φ`` against what was measured. All
    candidates predict with the same nuisance values, so that only their inertial parameters differ.

    Args:
        estimate: The estimate.
        motion: A Motion of the same model; or Motions one after the other, all with the same base link and sensors.
        truth: The true parameters where they are known, shape (n_links, 10), or an object with `parameters`.
        level: Of the bootstrap's intervals.
        seed: Of the bootstrap.
        withhold: Sensors or components to treat as not measured; by default those that the estimate did without.
        unknown_wrenches: Frames at which an unknown wrench acts; by default those of the estimate.
        torques: Names or patterns of joints whose torques are predicted; by default those that the estimate used and
            the motion has.
        nuisance: Groups of the estimate's nuisance values that are applied; by default those of the robot (friction,
            rotor inertia and torque ripple), not what drifts (offsets, biases, mounting).

    Raises:
        MotionError: A motion is empty, or does not fit the model; or two have different base links.
        EvidenceError: A sensor has no data, or something named is not there.
        ModelError: The true parameters have the wrong shape.
        SolverError: The estimate failed.
    """
    if isinstance(level, bool) or not isinstance(level, (int, float, np.number)) or not 0.0 < level < 1.0:
        raise EvidenceError(f"the level is {level!r}; it must be between 0 and 1, such as 0.95")
    first, rest = _first_of(estimate.model, motion)
    predictor, notes = plan_predictor(estimate, first, truth, withhold, unknown_wrenches, torques, nuisance)
    tally = Tally(predictor, predictor.plan, truth is not None)
    with one_blas_thread():
        for piece in _pieces(predictor, first, rest):
            tally.add(piece)
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
    """Gives what predicts motions like this one by each candidate, as `validate` does, and what to know of it."""
    model = estimate.model
    parameters, reference = np.asarray(estimate.parameters), np.asarray(estimate.reference)
    notes: list[str] = []
    used = dict(estimate.sensing)
    asked = torques if torques is not None else used.get("torques")
    sensing = plan_sensing(
        model,
        wrenches=motion.wrenches,
        torques=model.setup.torques_measured if asked is None else asked,
        withhold=used.get("withhold") or () if withhold is None else withhold,
        unknown_wrenches=used.get("unknown_wrenches") or () if unknown_wrenches is None else unknown_wrenches,
    )
    silent = [joint for joint in sensing.torques if joint not in motion.torques]
    if silent and torques is not None:
        raise EvidenceError(f"the torque of joint {silent[0]!r} is not in this motion; leave it out", names=silent)
    if silent:
        notes.append(f"The torque of {in_words(silent)} is not in this motion and is not validated.")
        kept = tuple(joint for joint in sensing.torques if joint not in silent)
        sensing = type(sensing)(sensing.measured, sensing.unknown, kept)
        if not (sensing.measured or kept):
            raise EvidenceError("nothing that the parameters predict is measured in this motion", names=silent)
    groups = [group for group in nuisance if _estimated(group, estimate.nuisance, sensing)]
    columns = plan_nuisance(model, sensing, groups)
    if columns:
        notes.append(f"All candidates predict with the estimate's {in_words([_spoken(group) for group in groups])}.")
    left_out = [group for group in PRIORS if group not in groups and _estimated(group, estimate.nuisance, sensing)]
    for why in dict.fromkeys(_STALE.get(group, "") for group in left_out):
        spoken = in_words([_spoken(group) for group in left_out if _STALE.get(group, "") == why])
        said = f"{why}, and are not applied; nuisance= applies them" if why else "are left out, as nuisance= asks"
        notes.append(f"The estimate's values of {spoken} {said}.")
    candidates, scales = [parameters, reference, reference], [1.0, float(estimate.mass_scale), 1.0]
    if truth is not None:
        candidates.append(model.with_parameters(getattr(truth, "parameters", truth)).parameters)
        scales.append(1.0)
    values = nuisance_values(columns, estimate.nuisance)
    return Predictor(model, motion.base, sensing, columns, values, candidates, scales), notes


def _estimated(group: str, values: Mapping[str, float], sensing: Sensing) -> bool:
    """Tells whether an estimate has values of a group that these sensors show."""
    if group not in PRIORS:
        raise EvidenceError(f"there is no nuisance {group!r}; there are {', '.join(PRIORS)}", names=[group])
    if group in ROBOT or group.startswith("torque_"):
        return any(name.startswith(f"{joint}.{group}") for joint in sensing.torques for name in values)
    if group == "wrench_offset":
        return any(f"{source.name}.offset" in values for source in sensing.measured)
    return any(name.startswith(f"{group}.") for name in values)


def _spoken(group: str) -> str:
    return group.replace("_", " ")


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


def _pieces(predictor: Predictor, first: Motion, rest: Iterator[Motion]) -> Iterator[Motion]:
    """Gives all motions in pieces, each checked before it is used."""
    yield from first.chunks(_PIECE)
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
        yield from motion.chunks(_PIECE)


def _finish(estimate: Estimate, tally: Tally, notes: list[str], level: float, seed: int) -> Validation:
    predictor = tally.predictor
    gains = tally.gains(level, seed)
    kind, shared = note_sharing(estimate, tally, gains.twice, notes)
    note_unmeasured(tally, notes)
    note_beaten_truth(tally, notes)
    note_too_few(tally, gains, notes)
    names = ("estimate", "corrected", "reference", *(("truth",) if tally.truth else ()))
    projected = (
        dict(zip(names, np.sqrt(tally.projected / tally.equations).tolist(), strict=True))
        if tally.reports_projected
        else {}
    )
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
