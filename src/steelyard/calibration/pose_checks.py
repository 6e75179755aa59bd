"""Checks of poses before they are fitted, and of the fit: each failure in one sentence with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.calibration.markers import check_marker_units
from steelyard.calibration.pose_noise import DEGREE, PoseNoise
from steelyard.exceptions import IdentifiabilityError, RecordingError, SolverError
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.calibration_problem import CalibrationProblem
    from steelyard.calibration.fitting import CalibrationFit

TILT_LIMIT = 20.0 * DEGREE
"""Tilt of soles (rad) that usual encoder offsets of a few degrees cannot explain; set by judgement."""

STILL_SPREAD = 0.2 * DEGREE
"""Standard deviation (rad) of a joint over all poses below which it did not move: ten times the encoder noise."""

ORIENTATION_LIMIT = 2.0 * DEGREE
"""Orientation noise (rad) beyond which the columns are taken as wrong: ten times the usual noise."""

MARKER_LIMIT = 50e-3
"""Deviation (m) of markers beyond which one is not where it is said to be: fifty times the usual one, and more than a
degree at each joint of an arm makes."""

FLATNESS_LIMIT = 5e-3
"""Deviation from flatness (m) beyond which nothing lay flat: ten times the usual one."""


def check_poses(problem: CalibrationProblem) -> None:
    """Raise where poses cannot determine offsets.

    Raises:
        IdentifiabilityError: There are too few, or they are all alike, or nothing constrains them.
        RecordingError: Orientations contradict flat soles, or positions of markers are not in metres.
    """
    count = len(problem.poses)
    if count < 2:
        raise IdentifiabilityError(
            f"there {'is one pose' if count == 1 else 'is no pose'}; offsets are observable only where poses differ: "
            "record a few at least, with the legs bent differently in each"
        )
    moved = np.std(problem.poses.positions[:, problem.chains.columns], axis=0)
    if np.all(moved < STILL_SPREAD):
        raise IdentifiabilityError(
            f"the {count} poses are all alike: no joint moved more than {np.rad2deg(moved.max(initial=0.0)):.2g}°; "
            "bend the legs, sway and turn with the feet flat"
        )
    check_marker_units(problem)
    for name in problem.imus:
        _check_orientation(problem, name)


def _check_orientation(problem: CalibrationProblem, name: str) -> None:
    """Raise where an orientation puts the soles far from level, with the reading order that would not."""
    if not problem.contacts:
        return
    tilts = {order: _tilt(problem, name, order) for order in _ORDERS}
    usual = tilts["x y z w"]
    if not usual > TILT_LIMIT:
        return
    best = min(tilts, key=lambda order: tilts[order])
    contacts = in_words([contact.name for contact in problem.contacts])
    said = f"by the orientation of {name!r}, {contacts} would be tilted by {np.rad2deg(usual):.0f}° in the median pose"
    if tilts[best] < TILT_LIMIT / 2.0 and tilts[best] < usual / 3.0:
        _refuse_order(name, said, best, tilts[best])
    raise RecordingError(
        f"{said}; lay them flat, check the frame of the sensor in the setup, and that its world's z axis points up",
        column=f"{name}.quat.x",
    )


_ORDERS = {
    "x y z w": "",
    "w x y z": "read in the order w x y z",
    "inverse": "read from the world's axes to the sensor's",
    "w x y z, inverse": "read in the order w x y z and from the world's axes to the sensor's",
}


def _tilt(problem: CalibrationProblem, name: str, order: str) -> float:
    """Compute the median tilt (rad) of all contacts from one sensor's orientation, read in some order."""
    block = next(block for block in problem.blocks if block.name == name and block.kind == "orientation")
    quaternions = problem.poses.orientations[name][block.there]
    if order.startswith("w"):
        quaternions = np.roll(quaternions, -1, axis=1)
    turned = Rotation.from_quat(quaternions)
    measured = (turned.inv() if order.endswith("inverse") else turned).as_matrix()
    places = problem.chains.place(np.asarray(problem.poses.positions)[block.there])
    sensor = places.rotations[problem.chains.frames.index(problem.imu_frames[name])]
    root = measured @ np.swapaxes(sensor, 1, 2)
    soles = {sole.frame for sole in problem.poses.model.setup.soles}
    tilts: list[FloatArray] = []
    for contact in problem.contacts:
        there = problem.poses.touches(contact.name)[block.there]
        frame = problem.chains.frames.index(contact.frame)
        across = places.rotations[frame] @ contact.normal
        upright = np.einsum("ni,ni->n", root[:, 2], across)[there]
        if contact.frame in soles:
            # A robot stands above its soles; upside down they would be as level.
            middle = places.positions[frame] + places.rotations[frame] @ contact.vertices.mean(axis=0)
            upright *= -np.sign(np.einsum("ni,ni->n", middle, across))[there]
        else:
            upright = np.abs(upright)
        tilts.append(np.arccos(np.clip(upright, -1.0, 1.0)))
    joined = np.concatenate(tilts)
    return float(np.median(joined)) if len(joined) else 0.0


def check_fit(fitted: CalibrationFit) -> None:
    """Raise where a fit shows that nothing lay flat, or did not converge.

    Raises:
        IdentifiabilityError: The contacts are far from flat, or most poses had to be set aside.
        SolverError: The solver did not converge.
    """
    _check_flatness(fitted)
    _check_orientations(fitted)
    _check_markers(fitted)
    if not fitted.solved.converged:
        raise SolverError(
            f"the solver did not converge in {fitted.solved.iterations} steps; check that the poses are "
            "those of this model, and that angles are in radians",
            status="not converged",
        )


def _check_orientations(fitted: CalibrationFit) -> None:
    """Raise where no offsets reconcile the orientations with flat soles, with the reading order that would."""
    problem, weights = fitted.problem, fitted.weights
    numbers = [number for number, block in enumerate(problem.blocks) if block.kind == "orientation"]
    if not numbers or not problem.contacts or not isinstance(weights, PoseNoise):
        return
    aside = float(fitted.aside[:, numbers].all(axis=1).mean())
    if not ((fitted.found and weights.orientation > ORIENTATION_LIMIT) or aside > 0.5):
        return
    _check_orders(problem)
    raise RecordingError(
        f"orientations of {in_words(problem.imus)} contradict flat soles whatever the offsets: they are "
        f"{np.rad2deg(weights.orientation):.2g}° off (rms); check the sensors' frames in the setup, that "
        "the world's z axis points up, and clocks",
        column=f"{problem.imus[0]}.quat.x",
    )


def _check_markers(fitted: CalibrationFit) -> None:
    """Raise where no offsets and placements bring the markers near to where they were seen."""
    problem = fitted.problem
    for block in problem.blocks:
        if block.kind != "marker":
            continue
        frame = next(marker.frame for marker in problem.markers if marker.name == block.name)
        away = np.linalg.norm(fitted.solved.reduced.linear.residuals[block.there, block.rows], axis=1)
        typical = float(np.median(away))
        if typical > MARKER_LIMIT:
            raise IdentifiabilityError(
                f"the marker {block.name!r} on {frame!r} is {1e3 * typical:.3g} mm off in the median pose whatever the "
                "offsets; check which link carries it, that joints and markers are on one clock, and signs of joints",
                names=[block.name],
            )


def _check_orders(problem: CalibrationProblem) -> None:
    """Raise where another reading order of an orientation agrees clearly better with flat soles."""
    for name in problem.imus:
        tilts = {order: _tilt(problem, name, order) for order in _ORDERS}
        best = min(tilts, key=lambda order: tilts[order])
        if _ORDERS[best] and tilts[best] < 0.7 * tilts["x y z w"]:
            _refuse_order(name, f"the orientation of {name!r} contradicts flat soles", best, tilts[best])


def _refuse_order(name: str, said: str, order: str, tilt: float) -> None:
    raise RecordingError(
        f"{said}; {_ORDERS[order]} they would be tilted by {np.rad2deg(tilt):.2g}°: check the columns '{name}.quat.x' "
        "to '.w' (Steelyard's order is x y z w, from the sensor's axes to the world's)",
        column=f"{name}.quat.x",
    )


def _check_flatness(fitted: CalibrationFit) -> None:
    problem, weights = fitted.problem, fitted.weights
    contacts = [number for number, block in enumerate(problem.blocks) if block.kind == "contact"]
    if not contacts:
        return
    names = in_words([contact.name for contact in problem.contacts])
    if fitted.found and isinstance(weights, PoseNoise) and weights.flatness > FLATNESS_LIMIT:
        _check_orders(problem)
        raise IdentifiabilityError(
            f"{names} were not flat: whatever the offsets, corners are {1e3 * weights.flatness:.2g} mm off a level "
            "plane (rms); keep them flat on the floor, or say with 'touching' when they were",
            names=[contact.name for contact in problem.contacts],
        )
    aside = fitted.aside[:, contacts].any(axis=1).mean()
    if aside > 0.5:
        _check_orders(problem)
        raise IdentifiabilityError(
            f"{names} do not fit a level plane in {100 * aside:.0f} % of the poses; keep them flat on the floor, or "
            "say with 'touching' when they were",
            names=[contact.name for contact in problem.contacts],
        )
