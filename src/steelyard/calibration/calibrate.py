"""Joint offsets from encoders, inertial sensors and flat contacts: [yamane2011] section II."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.contacts import Contact, Touch, check_frames, soles_as_contacts
from steelyard.calibration.error_correlation import ErrorCorrelation, estimate_correlation, score_covariance
from steelyard.calibration.fitting import CalibrationFit, fit, fit_pose_unknowns, usual_sizes
from steelyard.calibration.frame_chains import chains_to
from steelyard.calibration.gauss_newton import eliminate_pose_unknowns
from steelyard.calibration.heights import corner_heights, rms
from steelyard.calibration.marker_fit import MarkerFit
from steelyard.calibration.markers import choose_markers, undeclared_markers
from steelyard.calibration.observability import observe, shared_covariance
from steelyard.calibration.offsets import HeldOut, Offsets
from steelyard.calibration.pose_checks import check_fit, check_poses
from steelyard.calibration.pose_noise import DEGREE, PlainSums, PoseNoise, Weights, row_variances
from steelyard.calibration.pose_selection import pick_by_information
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.sampling import WINDOW, sample_poses
from steelyard.calibration.starting_states import starting_states
from steelyard.calibration.suspects import name_suspects
from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.kinematics import one_blas_thread
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from steelyard.calibration.suspects import Suspect
    from steelyard.model import Marker, Model
    from steelyard.recording import Recording

MOUNTING = 0.05 * DEGREE
"""Usual misalignment of an inertial sensor against its frame (standard deviation, rad). Set by
judgement."""

MOST_POSES = 300
"""Poses used by default. Set by judgement: more take longer, and poses close in time share their errors anyway."""

_FEWEST_USED, _FEWEST_HELD_OUT = 20, 5
"""Poses below which none of a recording are held out, and below which held-out poses are not reported: set by
judgement, as statistics of fewer mean nothing."""

_LONG_ENOUGH = 20.0
"""Correlation times that a recording must span for its standard errors to be trusted; set by judgement."""

_SUSPICIOUS = 20.0 * DEGREE
"""Offset beyond which a wrong sign or zero posture is likelier than an encoder error; set by judgement."""

_APART = 3600.0
"""Gap (s) that belongs to no recording: `PoseSet.clock` sets recordings days apart."""


@one_blas_thread()
def calibrate(
    model: Model,
    recording: Recording | Sequence[Recording] | PoseSet,
    *,
    joints: Sequence[str] | None = None,
    contacts: Sequence[Contact] | None = None,
    imus: Sequence[str] | None = None,
    markers: Sequence[Marker] | None = None,
    touches: Sequence[Touch] = (),
    touching: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    noise: Weights | None = None,
    mounting: float = MOUNTING,
    robust: bool = True,
    poses: int | None = MOST_POSES,
    interval: float = 0.2,
) -> Offsets:
    """Estimate joint offsets from poses with flat feet, without motion capture; or from markers of motion capture.

    Minimise, over offsets Δθ, the root's orientation in each pose, and the other unknowns of `Problem`, the sum of
    squares of all residuals, those of each pose whitened by the noise of its sensors and the propagated noise of its
    encoders. With ``noise=PlainSums(d)`` it is [yamane2011] Eqs. (1)–(5) as printed: ``½ Σ_k (L_k + C_k)``.

    Beyond the paper: the noise is estimated from the residuals; contacts, sensors and markers that do not fit in a pose
    are set aside there, and named; combinations that the poses do not determine stay at zero, and are reported; poses
    are selected by their information.

    Args:
        model: The model.
        recording: One or several recordings of the robot moving with its feet flat; or poses.
        joints: Joints whose offsets are estimated; by default all between contacts, inertial sensors and markers.
        contacts: Patches that lie flat on a plane; by default the setup's soles, on the floor.
        imus: Inertial sensors whose orientation is used; by default all that are recorded.
        markers: Markers seen by motion capture; by default those of the setup that are recorded.
        touches: Planes and points that a known tip touched; only with poses, or with `touching`.
        touching: By contact or touch, the intervals (s) in which it touched; those not named always did.
        noise: Known standard deviations, or `PlainSums`; by default estimated from the data.
        mounting: Misalignment of sensors against their frames (standard deviation, rad); zero with plain sums.
        robust: Whether outliers are set aside, pose by pose.
        poses: Greatest number of poses, selected by their information, and two thirds of a recording's; None for all.
        interval: Seconds between candidate poses.

    Raises:
        RecordingError: Columns are missing, or orientations are not what they should be.
        ModelError: A joint, sole, sensor or frame is unknown.
        IdentifiabilityError: The poses determine nothing: too few, all alike, or no flat contact.
        SolverError: The solver did not converge.
    """
    if noise is not None and not isinstance(noise, PoseNoise | PlainSums):
        raise IdentifiabilityError(f"the noise is {noise!r}; give a PoseNoise, PlainSums, or nothing")
    if poses is not None and not isinstance(poses, int | np.integer):
        raise IdentifiabilityError(f"{poses!r} is no number of poses; give a whole number, or None for all")
    chosen = _contacts(model, contacts)
    undeclared = undeclared_markers(model, recording) if markers is None else ()
    markers = choose_markers(model, recording) if markers is None else tuple(markers)
    check_frames([*chosen, *markers, *touches], model)
    if not (isinstance(mounting, int | float) and mounting >= 0.0):
        raise IdentifiabilityError(f"the mounting is {mounting!r}; give a standard deviation in rad, zero or more")
    if poses is not None and poses < 2:
        raise IdentifiabilityError(f"{poses} poses are too few to estimate offsets; ask for more, or for all with None")
    candidates, source = _candidates(model, recording, chosen, imus, markers, touches, touching, interval)
    sensors = _sensors(model, candidates, imus)
    _check_constraints(model, candidates, chosen, markers, touches)
    problem = CalibrationProblem(
        candidates,
        _joints(model, joints, chosen, sensors, markers, touches),
        chosen,
        markers,
        tuple(touches),
        sensors,
        # Plain sums have no units in which a prior could be weighed.
        0.0 if isinstance(noise, PlainSums) else float(mounting),
    )
    check_poses(problem)
    if poses is not None and not markers and not isinstance(recording, PoseSet):
        # A third is held out, to see how poses come out that were not used.
        poses = min(poses, max(_FEWEST_USED, 2 * len(candidates) // 3))
    picked = _pick(problem, noise, poses)
    used = replace(problem, poses=candidates.pick(picked))
    fitted = fit(used, noise, robust=robust)
    check_fit(fitted)
    others = np.setdiff1d(np.arange(len(candidates)), picked)
    return _result(model, fitted, picked, candidates.pick(others), source, undeclared, robust=robust)


def _sensors(model: Model, poses: PoseSet, imus: Sequence[str] | None) -> tuple[str, ...]:
    """Return the inertial sensors to use: of a floating base, those with readings."""
    if model.base != "floating":
        return ()
    for name in imus or ():
        if name not in poses.orientations:
            raise IdentifiabilityError(
                f"the poses have no orientation of {name!r}{did_you_mean(name, poses.orientations)}", names=[name]
            )
    there = [name for name, each in poses.orientations.items() if np.isfinite(each[:, 0]).any()]
    return tuple(name for name in there if imus is None or name in imus)


def _check_constraints(
    model: Model, poses: PoseSet, contacts: Sequence[Contact], markers: Sequence[Marker], touches: Sequence[Touch]
) -> None:
    """Raise where nothing constrains the poses, or a contact or marker never does."""
    if not (contacts or markers or touches):
        remedy = "add a [[sole]] for each foot to the setup"
        if model.base == "fixed":
            remedy = "add a [[marker]] with its columns to the setup, or give markers or touches"
        raise IdentifiabilityError(
            f"nothing constrains the poses of {model.name}: no contact, marker or touch; {remedy}"
        )
    if model.base != "floating" and contacts:
        raise IdentifiabilityError(
            f"{model.name} has a fixed base, where level contacts are not observable; give contacts=(), and markers or "
            "touches"
        )
    for name in _check_touching(poses.touching, contacts, touches):
        if not poses.touches(name).any():
            raise IdentifiabilityError(f"{name!r} never touched in these poses; leave it out", names=[name])
    for marker in markers:
        if marker.name not in poses.markers:
            raise IdentifiabilityError(
                f"the poses have no marker {marker.name!r}{did_you_mean(marker.name, poses.markers)}",
                names=[marker.name],
            )
        if not np.isfinite(poses.markers[marker.name]).all(axis=1).any():
            raise IdentifiabilityError(f"the marker {marker.name!r} was never seen; leave it out", names=[marker.name])


def _check_touching(given: Iterable[str], contacts: Sequence[Contact], touches: Sequence[Touch]) -> list[str]:
    """Return the names of all contacts and touches; raise where contact times are given of another."""
    named = [*(contact.name for contact in contacts), *(touch.name for touch in touches)]
    for name in given:
        if name not in named:
            raise IdentifiabilityError(
                f"'touching' names {name!r}, but there is no contact or touch of that name{did_you_mean(name, named)}",
                names=[name],
            )
    return named


def _contacts(model: Model, contacts: Sequence[Contact] | None) -> tuple[Contact, ...]:
    if contacts is not None:
        return tuple(contacts)
    return soles_as_contacts(model) if model.base == "floating" else ()


def _candidates(
    model: Model,
    recording: Any,
    contacts: Sequence[Contact],
    imus: Sequence[str] | None,
    markers: Sequence[Marker],
    touches: Sequence[Touch],
    touching: Mapping[str, Sequence[tuple[float, float]]] | None,
    interval: float,
) -> tuple[PoseSet, dict[str, Any]]:
    """Return the candidate poses, and where they came from."""
    if isinstance(recording, PoseSet):
        if touching:
            raise IdentifiabilityError("a PoseSet holds its own contact times; give 'touching' there")
        if recording.model.tree.sha256 != model.tree.sha256 or recording.model.base != model.base:
            raise IdentifiabilityError(
                f"the poses are those of {recording.model.name}, another model than {model.name}"
            )
        return recording, {}
    _check_touching(touching or {}, contacts, touches)
    known = {imu.name: imu.frame for imu in model.setup.imus}
    frames = [frame for name, frame in known.items() if imus is None or name in imus]
    things: list[Contact | Marker | Touch] = [*contacts, *markers, *touches]
    needed = chains_to(model, [*frames, *(each.frame for each in things)]).joints
    several = recording if isinstance(recording, (list, tuple)) else [recording]
    found = sample_poses(
        model,
        several,
        joints=needed,
        imus=imus,
        markers=[marker.name for marker in markers],
        interval=interval,
        window=min(WINDOW, interval),
        touching=touching,
    )
    return found, {"recordings": [each.origin for each in several]}


def _joints(
    model: Model,
    joints: Sequence[str] | None,
    contacts: Sequence[Contact],
    imus: Sequence[str],
    markers: Sequence[Marker],
    touches: Sequence[Touch],
) -> tuple[str, ...]:
    """Return the joints whose offsets are estimated."""
    frames = {imu.name: imu.frame for imu in model.setup.imus}
    things: list[Contact | Marker | Touch] = [*contacts, *markers, *touches]
    reached = chains_to(model, [*(frames[name] for name in imus), *(thing.frame for thing in things)]).joints
    if joints is None:
        return reached
    if not len(joints):
        raise IdentifiabilityError("no joint is named; name some, or leave joints out for all that the poses reach")
    for name in joints:
        if name not in model.joints:
            raise ModelError(f"{model.name} has no joint {name!r}{did_you_mean(name, model.joints)}", names=[name])
        if name not in reached:
            raise IdentifiabilityError(
                f"the offset of {name!r} is not observable: no contact, inertial sensor or marker lies behind it; "
                "leave it out",
                names=[name],
            )
    return tuple(name for name in reached if name in set(joints))


def _pick(problem: CalibrationProblem, noise: Weights | None, count: int | None) -> Any:
    total = len(problem.poses)
    if count is None or count >= total:
        return np.arange(total)
    weights = noise if isinstance(noise, PoseNoise) else PoseNoise()
    variances, encoder = row_variances(problem, weights)
    reduced = eliminate_pose_unknowns(problem.linearise(starting_states(problem)[0]), variances, encoder)
    return pick_by_information(reduced, usual_sizes(problem), count)


def _result(
    model: Model,
    fitted: CalibrationFit,
    picked: NDArray[np.int64],
    others: PoseSet,
    source: Mapping[str, Any],
    undeclared: tuple[str, ...],
    *,
    robust: bool,
) -> Offsets:
    problem, solved, weights = fitted.problem, fitted.solved, fitted.weights
    start = starting_states(problem)[0]
    plain = weights if isinstance(weights, PlainSums) else PlainSums()
    usual = usual_sizes(problem)
    alike = estimate_correlation(fitted, usual) if isinstance(weights, PoseNoise) else None
    more = None if alike is None else score_covariance(fitted, alike)
    triangle = solved.reduced.triangle() / max(fitted.unit, 1e-300)
    observability = observe(problem, solved.state, triangle, usual, more)
    if observability.information.max(initial=0.0) < 1.0:
        raise IdentifiabilityError(
            "no offset is observable from these poses; record more that differ, with the feet flat",
            names=problem.joints,
        )
    suspects: tuple[Suspect, ...] = ()
    if fitted.aside.any():
        variances, encoder = row_variances(problem, weights)
        found = name_suspects(problem, solved.reduced.linear, variances, encoder, fitted.aside)
        suspects = tuple(replace(suspect, pose=int(picked[suspect.pose])) for suspect in found)
    marker_fit = None
    if problem.markers:
        covariance = shared_covariance(problem, solved.state, triangle, usual, more)
        marker_fit = MarkerFit(fitted, covariance, robust)
    from steelyard import __version__  # noqa: PLC0415  (the package imports this module)

    return Offsets(
        model=model,
        fit=fitted,
        observability=observability,
        cost_before=fit_pose_unknowns(problem, start, plain).mean_cost,
        cost_after=fit_pose_unknowns(problem, solved.state, plain).mean_cost,
        heights_before=corner_heights(problem, start),
        heights_after=corner_heights(problem, solved.state),
        roots_before=start.root,
        picked=picked,
        suspect_poses=suspects,
        held_out=_held_out(fitted, others, plain),
        error_correlation=alike,
        marker_fit=marker_fit,
        notes=(*_notes(fitted, alike), *undeclared),
        provenance={
            "model": model.description.file.sha256,
            **source,
            "candidate_count": len(picked) + len(others),
            "version": __version__,
        },
    )


def _held_out(fitted: CalibrationFit, others: PoseSet, plain: PlainSums) -> HeldOut | None:
    if len(others) < _FEWEST_HELD_OUT:
        return None
    problem = replace(fitted.problem, poses=others)
    start = starting_states(problem)[0]
    before, after = fit_pose_unknowns(problem, start, plain), fit_pose_unknowns(problem, fitted.solved.state, plain)
    return HeldOut(
        len(others),
        before.mean_cost,
        after.mean_cost,
        rms(corner_heights(problem, start)),
        rms(corner_heights(problem, after.state)),
    )


def _notes(fitted: CalibrationFit, alike: ErrorCorrelation | None) -> tuple[str, ...]:
    problem = fitted.problem
    notes = []
    if problem.contacts and not problem.imus:
        notes.append(
            "no orientation was recorded: the floor's plane is taken from the contacts alone, and its tilt against "
            "the root is not observable"
        )
    still = np.std(problem.poses.positions[:, problem.chains.columns[problem.free]], axis=0) < 0.2 * DEGREE
    if still.any():
        names = [joint for joint, each in zip(problem.joints, still, strict=True) if each]
        notes.append(f"{in_words(names)} did not move; their offsets hold at that angle only")
    found = fitted.solved.state.offsets[problem.free]
    large = [joint for joint, each in zip(problem.joints, found, strict=True) if abs(each) > _SUSPICIOUS]
    if large:
        notes.append(
            f"{in_words(large)} would be off by more than 20°; check zero positions and signs before you use "
            "these offsets"
        )
    if alike is not None:
        steps = np.diff(np.sort(problem.poses.clock))
        span = float(np.sum(steps[steps < _APART]))
        note = f"orientation errors are correlated over {alike.time:.2g} s; standard errors include that"
        if span < _LONG_ENOUGH * alike.time:
            note += f", but {span:.3g} s of data are short for it: record longer"
        notes.append(note)
    return tuple(notes)
