"""Joint offsets from encoders, inertial sensors and what lies flat: [yamane2011] section II."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.calibration.chains import chain_to
from steelyard.calibration.checks import check_fit, check_poses
from steelyard.calibration.contacts import Contact, Marker, Touch, check_names, soles_as_contacts
from steelyard.calibration.dependence import Likeness, find_likeness, score_covariance
from steelyard.calibration.fitting import Fit, fit, settle, usual_sizes
from steelyard.calibration.heights import corner_heights
from steelyard.calibration.noise import DEGREE, PlainSums, PoseNoise, Weights, row_variances
from steelyard.calibration.observability import observe
from steelyard.calibration.offsets import HeldOut, Offsets, rms
from steelyard.calibration.picking import pick_by_information
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.problem import Problem
from steelyard.calibration.sampling import WINDOW, sample_poses
from steelyard.calibration.solving import reduce_rows
from steelyard.calibration.start import starting_states
from steelyard.calibration.suspects import name_suspects
from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.model.names import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.calibration.suspects import Suspect
    from steelyard.model import Model
    from steelyard.recording import Recording

MOUNTING = 0.05 * DEGREE
"""How far inertial sensors are usually turned against their frames (standard deviation, rad)."""

MOST_POSES = 300
_FEWEST_HELD_OUT = 5
_LONG_ENOUGH = 20.0


def calibrate(
    model: Model,
    recording: Recording | Sequence[Recording] | PoseSet,
    *,
    joints: Sequence[str] | None = None,
    contacts: Sequence[Contact] | None = None,
    imus: Sequence[str] | None = None,
    markers: Sequence[Marker] = (),
    touches: Sequence[Touch] = (),
    touching: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    noise: Weights | None = None,
    mounting: float = MOUNTING,
    robust: bool = True,
    poses: int | None = MOST_POSES,
    interval: float = 0.2,
) -> Offsets:
    """Finds joint offsets from poses in which the feet lie flat on the floor, without motion capture.

    Minimises, over offsets Δθ, the root's orientation in each pose, and the other unknowns of `Problem`, the sum of
    squares of all residuals, each pose's whitened by the noise of its sensors and by what its encoders' noise does to
    them. With ``noise=PlainSums(d)`` it is [yamane2011] Eqs. (1)–(5) as printed: ``½ Σ_k (L_k + C_k)``.

    Beyond the paper: noise is found from what is left; contacts, sensors and markers that do not fit in a pose are set
    aside there, and named; what the poses do not tell is left at zero, and said; poses are picked by what they tell.

    Args:
        model: The model.
        recording: What was recorded while the robot was moved with its feet flat, one or several; or poses.
        joints: Whose offsets to look for; by default all between contacts, inertial sensors and markers.
        contacts: What lies flat on which plane; by default the setup's soles, on the floor.
        imus: Inertial sensors whose orientation counts; by default all that are recorded.
        markers: Markers that motion capture saw; only with poses.
        touches: Planes and points that a known tip touched; only with poses, or with `touching`.
        touching: By contact or touch, stretches of time (s) in which it was on its place; those not named always were.
        noise: Standard deviations that are known, or `PlainSums`; by default found from the data.
        mounting: How far sensors may be turned against their frames (standard deviation, rad); zero trusts them, and
            so do plain sums.
        robust: Whether what does not fit in a pose is set aside there.
        poses: How many poses to use at most, picked by what they tell; None for all.
        interval: Seconds between the poses to pick from.

    Raises:
        RecordingError: Columns are missing, or orientations are not what they should be.
        ModelError: A joint, sole, sensor or frame is unknown.
        IdentifiabilityError: The poses tell nothing: too few, all alike, or nothing flat.
        SolverError: The search did not settle.
    """
    chosen = _contacts(model, contacts)
    check_names([*chosen, *markers, *touches], model)
    if not (isinstance(mounting, int | float) and mounting >= 0.0):
        raise IdentifiabilityError(f"the mounting is {mounting!r}; give a standard deviation in rad, zero or more")
    if poses is not None and poses < 2:
        raise IdentifiabilityError(f"{poses} poses are too few to tell offsets; ask for more, or for all with None")
    candidates, source = _candidates(model, recording, chosen, imus, markers, touches, touching, interval)
    sensors = tuple(name for name in (candidates.orientations if imus is None else imus))
    if model.base != "floating":
        sensors = ()
    for name in sensors:
        if name not in candidates.orientations:
            raise IdentifiabilityError(
                f"the poses have no orientation of {name!r}{did_you_mean(name, candidates.orientations)}", names=[name]
            )
    for marker in markers:
        if marker.name not in candidates.markers:
            raise IdentifiabilityError(
                f"the poses have no marker {marker.name!r}{did_you_mean(marker.name, candidates.markers)}",
                names=[marker.name],
            )
    if model.base != "floating" and chosen:
        raise IdentifiabilityError(
            f"{model.name} is fixed to the world, and nothing tells what is level there; give contacts=(), and markers "
            "or touches"
        )
    if not (chosen or markers or touches):
        raise IdentifiabilityError(
            f"{model.name} has no soles, and no contact, marker or touch is given: nothing constrains the poses; add a "
            "[[sole]] for each foot to the setup"
        )
    problem = Problem(
        candidates,
        _joints(model, joints, chosen, sensors, markers, touches),
        chosen,
        tuple(markers),
        tuple(touches),
        sensors,
        # Plain sums have no units in which a prior could be weighed.
        0.0 if isinstance(noise, PlainSums) else float(mounting),
    )
    check_poses(problem)
    picked = _pick(problem, noise, poses)
    used = replace(problem, poses=candidates.pick(picked))
    fitted = fit(used, noise, robust=robust)
    check_fit(fitted)
    others = np.setdiff1d(np.arange(len(candidates)), picked)
    return _result(model, fitted, candidates.pick(others), len(candidates), source)


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
    """Gives the poses to pick from, and where they came from."""
    if isinstance(recording, PoseSet):
        return recording, {}
    if markers:
        raise IdentifiabilityError(
            "markers are not read from recordings; give them as a PoseSet", names=[markers[0].name]
        )
    named = [*(contact.name for contact in contacts), *(touch.name for touch in touches)]
    for name in touching or {}:
        if name not in named:
            raise IdentifiabilityError(
                f"'touching' names {name!r}, but no contact or touch is called so{did_you_mean(name, named)}",
                names=[name],
            )
    known = {imu.name: imu.frame for imu in model.setup.imus}
    frames = [frame for name, frame in known.items() if imus is None or name in imus]
    needed = chain_to(model, [*frames, *(each.frame for each in contacts), *(each.frame for each in touches)]).joints
    several = recording if isinstance(recording, (list, tuple)) else [recording]
    found = sample_poses(
        model, several, joints=needed, imus=imus, interval=interval, window=min(WINDOW, interval), touching=touching
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
    """Gives the joints whose offsets are looked for."""
    frames = {imu.name: imu.frame for imu in model.setup.imus}
    things: list[Contact | Marker | Touch] = [*contacts, *markers, *touches]
    reached = chain_to(model, [*(frames[name] for name in imus), *(thing.frame for thing in things)]).joints
    if joints is None:
        return reached
    for name in joints:
        if name not in model.joints:
            raise ModelError(f"{model.name} has no joint {name!r}{did_you_mean(name, model.joints)}", names=[name])
        if name not in reached:
            raise IdentifiabilityError(
                f"nothing feels {name!r}: no contact, inertial sensor or marker lies behind it; leave it out",
                names=[name],
            )
    return tuple(name for name in reached if name in set(joints))


def _pick(problem: Problem, noise: Weights | None, count: int | None) -> Any:
    total = len(problem.poses)
    if count is None or count >= total:
        return np.arange(total)
    weights = noise if isinstance(noise, PoseNoise) else PoseNoise()
    variances, encoder = row_variances(problem, weights)
    reduced = reduce_rows(problem.linearise(starting_states(problem)[0]), variances, encoder)
    return pick_by_information(reduced, usual_sizes(problem), count)


def _result(model: Model, fitted: Fit, others: PoseSet, candidates: int, source: Mapping[str, Any]) -> Offsets:
    problem, solved, weights = fitted.problem, fitted.solved, fitted.weights
    start = starting_states(problem)[0]
    plain = weights if isinstance(weights, PlainSums) else PlainSums()
    usual = usual_sizes(problem)
    alike = find_likeness(fitted, usual) if isinstance(weights, PoseNoise) else None
    more = None if alike is None else score_covariance(fitted, alike)
    triangle = solved.reduced.triangle() / max(fitted.unit, 1e-300)
    observability = observe(problem, solved.state, triangle, usual, more)
    suspects: tuple[Suspect, ...] = ()
    if fitted.aside.any():
        variances, encoder = row_variances(problem, weights)
        suspects = name_suspects(problem, solved.reduced.linear, variances, encoder, fitted.aside)
    notes = _notes(fitted, alike)
    from steelyard import __version__  # noqa: PLC0415  (the package imports this module)

    return Offsets(
        model=model,
        fit=fitted,
        observability=observability,
        cost_before=settle(problem, start, plain).mean_cost,
        cost_after=settle(problem, solved.state, plain).mean_cost,
        heights_before=corner_heights(problem, start),
        heights_after=corner_heights(problem, solved.state),
        roots_before=start.root,
        suspect_poses=suspects,
        held_out=_held_out(fitted, others, plain),
        likeness=alike,
        notes=notes,
        provenance={
            "model": model.description.file.sha256,
            **source,
            "candidate_count": candidates,
            "version": __version__,
        },
    )


def _held_out(fitted: Fit, others: PoseSet, plain: PlainSums) -> HeldOut | None:
    if len(others) < _FEWEST_HELD_OUT:
        return None
    problem = replace(fitted.problem, poses=others)
    start = starting_states(problem)[0]
    before, after = settle(problem, start, plain), settle(problem, fitted.solved.state, plain)
    return HeldOut(
        len(others),
        before.mean_cost,
        after.mean_cost,
        rms(corner_heights(problem, start)),
        rms(corner_heights(problem, after.state)),
    )


def _notes(fitted: Fit, alike: Likeness | None) -> tuple[str, ...]:
    problem = fitted.problem
    notes = []
    if problem.contacts and not problem.imus:
        notes.append(
            "no orientation was recorded: the floor's plane is taken from the contacts alone, and nothing tells how it "
            "lies to the root"
        )
    still = np.std(problem.poses.positions[:, problem.chains.columns[problem.free]], axis=0) < 0.2 * DEGREE
    if still.any():
        names = [joint for joint, each in zip(problem.joints, still, strict=True) if each]
        notes.append(f"{in_words(names)} did not move; their offsets hold for the angle at which they were")
    if alike is not None:
        span = float(np.ptp(problem.poses.time))
        note = f"errors of orientations last for {alike.time:.2g} s; standard errors count that"
        if span < _LONG_ENOUGH * alike.time:
            note += f", but {span:.3g} s are short for it: record longer"
        notes.append(note)
    return tuple(notes)
