"""What is wrong with poses before anything is fitted to them, and with a fit after: said in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard.calibration.noise import DEGREE, PoseNoise
from steelyard.exceptions import IdentifiabilityError, RecordingError, SolverError
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.calibration.fitting import Fit
    from steelyard.calibration.problem import Problem

STEEP = 20.0 * DEGREE
"""Tilt of soles (rad) that encoders off by the usual few degrees do not explain."""

ALIKE = 0.2 * DEGREE
"""Spread (rad) of a joint over all poses below which it did not move."""

ASTRAY = 2.0 * DEGREE
"""Noise of orientations (rad) beyond which they are not what they should be."""

ROUGH = 5e-3
"""Flatness (m) beyond which nothing lay flat."""


def check_poses(problem: Problem) -> None:
    """Refuses poses that cannot tell of offsets.

    Raises:
        IdentifiabilityError: There are too few, or they are all alike, or nothing constrains them.
        RecordingError: Orientations are not what they should be.
    """
    count = len(problem.poses)
    if count < 2:
        raise IdentifiabilityError(
            f"there {'is one pose' if count == 1 else 'is no pose'}; offsets show only where poses differ: record at "
            "least a few, with the legs bent differently in each"
        )
    moved = np.std(problem.poses.positions[:, problem.chains.columns], axis=0)
    if np.all(moved < ALIKE):
        raise IdentifiabilityError(
            f"the {count} poses are all alike: no joint moved more than {np.rad2deg(moved.max(initial=0.0)):.2g}°; "
            "bend the legs, sway and turn with the feet flat"
        )
    for name in problem.imus:
        _check_orientation(problem, name)


def _check_orientation(problem: Problem, name: str) -> None:
    """Refuses orientations by which the soles would be far from level, and says in which order they would not be."""
    if not problem.contacts:
        return
    tilts = {order: _tilt(problem, name, order) for order in _ORDERS}
    usual = tilts["x y z w"]
    if not usual > STEEP:
        return
    best = min(tilts, key=lambda order: tilts[order])
    contacts = in_words([contact.name for contact in problem.contacts])
    said = f"by the orientation of {name!r}, {contacts} would be tilted by {np.rad2deg(usual):.0f}° in the usual pose"
    if tilts[best] < STEEP / 2.0 and tilts[best] < usual / 3.0:
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


def _tilt(problem: Problem, name: str, order: str) -> float:
    """Gives the median tilt (rad) of all contacts if the root is turned as a sensor says, read in some order."""
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


def check_fit(fitted: Fit) -> None:
    """Refuses a fit that shows that nothing lay flat, or that did not settle.

    Raises:
        IdentifiabilityError: The contacts are far from flat, or most poses had to be set aside.
        SolverError: The search did not settle.
    """
    _check_flatness(fitted)
    _check_orientations(fitted)
    if not fitted.solved.settled:
        raise SolverError(
            f"the search for offsets did not settle in {fitted.solved.iterations} steps; check that the poses are "
            "those of this model, and that angles are in radians",
            status="not settled",
        )


def _check_orientations(fitted: Fit) -> None:
    """Refuses orientations that no offsets bring together with flat soles, and says in which order they would be."""
    problem, weights = fitted.problem, fitted.weights
    numbers = [number for number, block in enumerate(problem.blocks) if block.kind == "orientation"]
    if not numbers or not problem.contacts or not isinstance(weights, PoseNoise):
        return
    aside = float(fitted.aside[:, numbers].all(axis=1).mean())
    if not ((fitted.found and weights.orientation > ASTRAY) or aside > 0.5):
        return
    _check_orders(problem)
    raise RecordingError(
        f"orientations of {in_words(problem.imus)} do not go with flat soles, whatever the offsets: they are "
        f"{np.rad2deg(weights.orientation):.2g}° off in the usual pose; check the sensors' frames in the setup, that "
        "the world's z axis points up, and clocks",
        column=f"{problem.imus[0]}.quat.x",
    )


def _check_orders(problem: Problem) -> None:
    """Refuses orientations that would go clearly better with flat soles if they were read in another order."""
    for name in problem.imus:
        tilts = {order: _tilt(problem, name, order) for order in _ORDERS}
        best = min(tilts, key=lambda order: tilts[order])
        if _ORDERS[best] and tilts[best] < 0.7 * tilts["x y z w"]:
            _refuse_order(name, f"the orientation of {name!r} does not go with flat soles", best, tilts[best])


def _refuse_order(name: str, said: str, order: str, tilt: float) -> None:
    raise RecordingError(
        f"{said}; {_ORDERS[order]} they would be tilted by {np.rad2deg(tilt):.2g}°: check the columns '{name}.quat.x' "
        "to '.w' (Steelyard's order is x y z w, from the sensor's axes to the world's)",
        column=f"{name}.quat.x",
    )


def _check_flatness(fitted: Fit) -> None:
    problem, weights = fitted.problem, fitted.weights
    contacts = [number for number, block in enumerate(problem.blocks) if block.kind == "contact"]
    if not contacts:
        return
    names = in_words([contact.name for contact in problem.contacts])
    if fitted.found and isinstance(weights, PoseNoise) and weights.flatness > ROUGH:
        _check_orders(problem)
        raise IdentifiabilityError(
            f"{names} were not flat: whatever the offsets, corners are {1e3 * weights.flatness:.2g} mm off a level "
            "plane in the usual pose; keep them flat on the floor, or say with 'touching' when they were",
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
