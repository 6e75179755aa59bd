"""Gathering Evidence from motions: chunk by chunk, in bounded memory, on all cores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import partial, reduce
from itertools import chain, groupby
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.exceptions import EvidenceError, SteelyardError
from steelyard.kinematics import one_blas_thread
from steelyard.model import PARAMETER_COUNT
from steelyard.motion import Motion, motion_from_arrays
from steelyard.regression.chunk_factors import factor_chunks
from steelyard.regression.evidence import Evidence
from steelyard.regression.evidence_key import EvidenceKey
from steelyard.regression.independence import independent_columns
from steelyard.regression.noise import plan_noise
from steelyard.regression.nuisance import LINEARISED, plan_nuisance, usual_groups
from steelyard.regression.offset_drift import drifting_columns, gather_drifting, look_ahead
from steelyard.regression.origins import merge_origins
from steelyard.regression.recording_errors import OWN_GROUPS
from steelyard.regression.rows import all_columns
from steelyard.regression.sensing import Sensing, plan_rows, plan_sensing, sensing_hash
from steelyard.regression.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.model import Model
    from steelyard.regression.chunk_factors import ChunkTotals

_BYTES_IN_FLIGHT = 48e6
"""Bytes of rows and force maps that all workers hold together. Set by judgement: a quarter of the 200 MB that
`benchmarks.core` allows, with chunks long enough that the factor is updated at the speed of a matrix product."""


def gather_evidence(
    model: Model,
    motion: Motion | Iterable[Motion] | Mapping[str, Any],
    *,
    weights: Mapping[str, Any] | str | None = "default",
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
    nuisance: Sequence[str] | Literal["auto"] = "auto",
    priors: dict[str, float] | None = None,
    shared_offsets: bool = False,
    drift: bool = True,
    sample_weights: Any = None,
    workers: int | None = None,
) -> Evidence:
    """Gather the Evidence of a motion, or of a stream of motions that is longer than memory.

    Each sample has six rows for each region of bodies between wrench sensors and one for each measured torque,
    ``Y φ = H f``. Unmeasured forces are projected out; the rest is whitened by the sensors' noise and added to the
    triangular factor.

    Args:
        model: The model.
        motion: A Motion; or Motions one after the other, all with the same base link and sensors; or plain arrays by
            name, as `motion_from_generalized` takes them (``time``, ``q``, ``v``, ``a``, ``wrenches``, ...).
        weights: Standard deviations of the noise by component (``"left_foot.fx"``), by sensor as a pair (force,
            moment), by joint, or by kind ("force", "moment", "torque"); for those not named, and for all with
            "default", `DEFAULT_NOISE`. None gives the papers' plain sums.
        torques: Names or patterns of joints whose torques are used; by default the setup's measured ones.
        withhold: Sensors or components to treat as not measured.
        unknown_wrenches: Frames at which an unknown wrench acts.
        nuisance: Groups of nuisance columns, which are estimated beside the parameters; see
            `steelyard.regression.nuisance.PRIORS`. "auto": the errors of all sensors used, and friction where torques
            are; () for none, which trusts the sensors.
        priors: Standard deviations of their priors, by column or group.
        shared_offsets: Whether offsets of wrench sensors and biases of accelerometers are the same in all recordings
            that are added: nobody zeroed a sensor or switched it off in between. By default each recording has its own,
            which are eliminated when Evidence adds; see `Evidence.closed`.
        drift: Whether a recording's own offsets of wrench sensors may drift, where it is longer than `KNOT_SECONDS`;
            see `steelyard.regression.offset_drift`. Motions of unknown origin have constant ones.
        sample_weights: Weight of each sample of a single Motion, shape (n,), on top of the whitening: factors on the
            squares of its rows, none negative.
        workers: Number of threads; by default one for each core.

    Raises:
        MotionError: A motion is empty, has the wrong shape, or a number that is not finite.
        EvidenceError: A name is unknown, a sensor has no data, or no rows are left.
    """
    first, stream = _first_of(model, motion)
    factors = _sample_weights(motion, first, sample_weights)
    threads = workers if workers is not None else os.cpu_count() or 1
    if threads < 1:
        raise EvidenceError(f"workers is {workers}; it must be at least 1")
    sensed: dict[str, Any] = {"torques": torques, "withhold": withhold, "unknown_wrenches": unknown_wrenches}
    sensing = _sensing_of(model, first, **sensed)
    options = {"weights": weights, "nuisance": nuisance, "priors": priors, **sensed}
    motions = _checked(model, sensing, first, stream)
    # Each recording has sensor errors of its own; motions of unknown origin are taken for one recording.
    groups = groupby(motions, key=lambda each: "" if shared_offsets else each.origin)
    parts = (_gather(model, each, options, factors, threads, shared=shared_offsets, drift=drift) for _, each in groups)
    return reduce(add, parts)


def _gather(
    model: Model,
    motions: Iterator[Motion],
    options: dict[str, Any],
    factors: FloatArray | None,
    threads: int,
    *,
    shared: bool,
    drift: bool,
) -> Evidence:
    """Gather the Evidence of the motions of one recording; see `gather_evidence`."""
    first = next(motions)
    is_long = False
    stream: Iterator[Motion] = chain([first], motions)
    with one_blas_thread():
        system = build_system(model, first, **options)
        key = _key_of(model, first, system, shared=shared)
        columns = independent_columns(model, first.base, system.sensing, key.gravity)
        hinges, size = _hinges(model), _chunk_size(system, threads)
        if drift and first.origin and drifting_columns(key):
            is_long, stream = look_ahead(stream)
        build = partial(_evidence_of, model, key, columns, list(hinges))
        if is_long:
            factor = partial(factor_chunks, system, workers=threads, hinges=list(hinges.values()))
            return gather_drifting(build, factor, stream, size, factors, key, columns[1])
        pieces = (piece for part in stream for piece in part.chunks(size))
        return build(factor_chunks(system, pieces, factors, workers=threads, hinges=list(hinges.values())))


def _key_of(model: Model, motion: Motion, system: System, *, shared: bool) -> EvidenceKey:
    """Return the identity of the system of a motion."""
    sensing, extra, noise = system.sensing, system.nuisance, system.noise
    linearised = any(column.group in LINEARISED for column in extra)
    own = [] if shared else [column for column in extra if column.group in OWN_GROUPS]
    return EvidenceKey(
        links=model.links,
        tree=model.tree.sha256,
        sensing=sensing_hash(model, sensing),
        reference=hashlib.sha256(model.parameters.tobytes()).hexdigest() if linearised else "",
        gravity=_gravity(model, motion),
        nuisance=tuple(column.name for column in extra),
        priors=tuple(column.prior for column in extra),
        base=motion.base,
        measured=tuple(source.name for source in sensing.measured),
        unknown=tuple(dict.fromkeys(source.name for source in sensing.unknown)),
        torques=sensing.torques,
        weights=() if noise is None else (*noise.wrenches.tolist(), *noise.torques.tolist(), *noise.floor.tolist()),
        own=tuple(column.name for column in own),
        own_priors=tuple(column.prior for column in own),
    )


def _evidence_of(
    model: Model, key: EvidenceKey, columns: tuple[IntArray, FloatArray], hinges: Sequence[str], tally: ChunkTotals
) -> Evidence:
    """Return the Evidence of the sums over chunks."""
    if not np.all(np.isfinite(tally.factor)):
        raise EvidenceError("the factor is not finite; a number in the motion or the model is far too large")
    tally.factor.setflags(write=False)
    channels = [*key.measured, *(joint for joint in key.torques for _ in range(model.joint(joint).velocity_size))]
    sums: dict[str, tuple[float, float]] = {}
    for name, one, two in zip(channels, *tally.totals, strict=True):
        before = sums.get(name, (0.0, 0.0))
        sums[name] = (before[0] + float(one), before[1] + float(two))
    return Evidence(
        key,
        tally.factor,
        *columns,
        int(tally.counts[0]),
        float(tally.counts[1]),
        round(tally.counts[2]),
        sums,
        dict(zip(hinges, [(float(low), float(high)) for low, high in tally.travel.T], strict=True)),
        merge_origins(tally.origins),
    )


def residuals(
    model: Model,
    motion: Motion,
    parameters: Any = None,
    *,
    weights: Mapping[str, Any] | str | None = None,
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
) -> FloatArray:
    """Compute the residuals of a motion at given parameters, ``Y φ − H f``, without forming ``Y``.

    Rows, projection and whitening are those of `gather_evidence` with the same arguments: the squares add up to
    ``evidence.cost(parameters)``. With sensors at the ground and nothing withheld, a row is the
    unexplained wrench, N and N m, at the base link.

    Returns:
        Shape (n_samples, n_rows); rows that unknown forces use up are zero.
    """
    motion.check(model)
    sensing = _sensing_of(model, motion, torques, withhold, unknown_wrenches)
    changed = model if parameters is None else model.with_parameters(parameters)
    system = System(model, motion.base, sensing, (), plan_noise(model, sensing, weights), all_columns(model))
    return system.residuals(motion, changed.parameters)


def build_system(
    model: Model,
    motion: Motion,
    *,
    weights: Mapping[str, Any] | str | None = "default",
    nuisance: Sequence[str] | Literal["auto"] = "auto",
    priors: dict[str, float] | None = None,
    **sensed: Any,
) -> System:
    """Return the map from a motion's samples to rows of the independent parameters.

    Args:
        model: The model.
        motion: The motion.
        weights: As for `gather_evidence`, and so are the others.
        nuisance: Groups of nuisance columns, or "auto".
        priors: Standard deviations of their priors.
        **sensed: torques, withhold, unknown_wrenches.
    """
    sensing = _sensing_of(model, motion, **sensed)
    if nuisance == "auto":
        nuisance = usual_groups(motion.source, wrenches=bool(sensing.measured), torques=bool(sensing.torques))
    extra = plan_nuisance(model, sensing, _names("nuisance", nuisance), priors)
    noise = plan_noise(model, sensing, weights)
    independent, _ = independent_columns(model, motion.base, sensing, _gravity(model, motion))
    columns = np.full(len(model.links) * PARAMETER_COUNT, -1, dtype=np.int64)
    columns[independent] = np.arange(len(independent))
    shaped = columns.reshape(-1, PARAMETER_COUNT)
    return System(model, motion.base, sensing, extra, noise, shaped, float(motion.time[0]))


def _sensing_of(
    model: Model,
    motion: Motion,
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
) -> Sensing:
    """Return what is measured and unknown in a motion, from the arguments of `gather_evidence`."""
    sensing = plan_sensing(
        model,
        wrenches=motion.wrenches,
        torques=_names("torques", model.setup.torques_measured if torques is None else torques),
        withhold=_names("withhold", withhold),
        unknown_wrenches=_names("unknown_wrenches", unknown_wrenches),
    )
    _need_torques(sensing, motion)
    return sensing


def _first_of(model: Model, motion: Any) -> tuple[Motion, Iterator[Motion]]:
    if isinstance(motion, Mapping):
        motion = motion_from_arrays(model, motion)
    if not isinstance(motion, Iterable) and not isinstance(motion, Motion):
        raise EvidenceError(f"a motion is needed, not {type(motion).__name__}")
    stream = iter([motion] if isinstance(motion, Motion) else motion)
    first = next(stream, None)
    if first is None:
        raise EvidenceError("there is no motion to gather Evidence from")
    if not isinstance(first, Motion):
        raise EvidenceError(f"a stream of Motions is needed, not of {type(first).__name__}")
    first.check(model)
    return first, stream


def _names(what: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str):
        raise EvidenceError(f"{what} is one text, {names!r}; write a list of names: [{names!r}]")
    return names


def _need_torques(sensing: Sensing, motion: Motion) -> None:
    silent = [joint for joint in sensing.torques if joint not in motion.torques]
    if silent:
        raise EvidenceError(
            f"the torque of joint {silent[0]!r} is not in this motion; record it, or leave it out", names=silent
        )


def _gravity(model: Model, motion: Motion) -> tuple[float, ...]:
    """Return the proper acceleration of a fixed base, which must not move; empty for a floating one."""
    if model.base == "floating":
        return ()
    if motion.base != model.bodies[0].name:
        raise EvidenceError(
            f"a fixed robot's motion is given at its base, {model.bodies[0].name!r}, not {motion.base!r}"
        )
    _refuse_moving_base(motion, motion.proper_acceleration[0])
    return tuple(np.round(motion.proper_acceleration[0], 9).tolist())


def _refuse_moving_base(motion: Motion, gravity: FloatArray) -> None:
    moves = np.any(motion.angular_velocity) or np.any(motion.angular_acceleration)
    if moves or np.max(np.abs(motion.proper_acceleration - gravity)) > 1e-6:
        raise EvidenceError(
            "the base is fixed, but its motion is not: angular rates must be zero, the proper acceleration constant; "
            'load the model with base="floating" if it moves'
        )


def _checked(model: Model, sensing: Sensing, first: Motion, rest: Iterator[Motion]) -> Iterator[Motion]:
    """Yield all motions, each checked before it is used."""
    needed = {source.name.rpartition(".")[0] for source in sensing.measured}
    yield first
    for number, part in enumerate(rest, start=2):
        try:
            part.check(model)
            if part.base != first.base:
                raise EvidenceError(f"its base link is {part.base!r}, the first one's {first.base!r}")
            missing = sorted(needed - set(part.wrenches))
            if missing:
                raise EvidenceError(f"the wrench sensor {missing[0]!r} has no data there", names=missing)
            _need_torques(sensing, part)
            if model.base == "fixed":
                _refuse_moving_base(part, first.proper_acceleration[0])
        except SteelyardError as error:
            raise EvidenceError(f"motion number {number} of the stream: {error}") from error
        yield part


def _chunk_size(system: System, workers: int) -> int:
    """Return the number of samples of a chunk, so that the chunks of all workers stay within `_BYTES_IN_FLIGHT`."""
    plan = plan_rows(system.model, system.sensing, frozenset())
    maps = (
        2 * len(plan.measured.bodies) + len(plan.floor.bodies) + len(plan.unknown_soles) + len(system.sensing.torques)
    )
    return max(64, int(_BYTES_IN_FLIGHT / workers / (8.0 * plan.row_count * (system.width + maps))))


def _hinges(model: Model) -> dict[str, int]:
    """Return the column of each joint with one axis in a motion's `q`, by name."""
    first = 7 if model.base == "floating" else 0
    return {
        body.joint.name: int(model.tree.q_starts[index]) - first
        for index, body in enumerate(model.bodies)
        if index and body.joint.position_size == 1
    }


def _sample_weights(motion: Any, first: Motion, weights: Any) -> FloatArray | None:
    if weights is None:
        return None
    if not isinstance(motion, Motion | Mapping):
        raise EvidenceError("sample_weights go with a single Motion, not with a stream of them")
    factors = np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(first),) or not np.all(np.isfinite(factors) & (factors >= 0.0)):
        raise EvidenceError(
            f"sample_weights has the shape {factors.shape}; {len(first)} samples need as many finite numbers, none "
            "negative"
        )
    return factors
