"""Regressors of whole motions: six base rows, joint rows, static rows; and forces without forming a regressor."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.kinematics import POSITION, ROTATION, TreeMotion, spread_blocks, spread_motion
from steelyard.model import PARAMETER_COUNT
from steelyard.motion import tree_motion
from steelyard.regression.kernels import RowArrays, add_required_forces, fill_regressor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion

_WORTH_A_THREAD = 500
"""Samples from which on the kernels, which release the interpreter's lock, run on all cores. Set by judgement: starting
threads takes as long as some ten samples."""


def row_arrays(model: Model, *, regions: Any = None, torques: Sequence[str] = ()) -> RowArrays:
    """Return the plan of rows: six for each region of bodies, then the torques of the joints named.

    Args:
        model: The model.
        regions: Region of each body, −1 for none, shape (n_bodies,); None puts all bodies into one.
        torques: Names of joints, in the order of the rows.
    """
    groups = np.zeros(len(model.bodies)) if regions is None else np.asarray(regions)
    bodies: list[int] = []
    components: list[int] = []
    for name in torques:
        body = model.joint_body(name)
        size = model.bodies[body].joint.velocity_size
        bodies += [body] * size
        components += range(size)
    return RowArrays(
        np.array(model.link_bodies, dtype=np.int64),
        groups.astype(np.int64),
        model.tree.subtrees,
        np.array(bodies, dtype=np.int64),
        np.array(components, dtype=np.int64),
        6 * (int(np.max(groups, initial=-1)) + 1),
    )


def all_columns(model: Model) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the column of each parameter when none is left out, shape (n_links, 10)."""
    return np.arange(len(model.links) * PARAMETER_COUNT, dtype=np.int64).reshape(-1, PARAMETER_COUNT)


def base_rows(model: Model, motion: Motion) -> FloatArray:
    """Compute ``Y_B``: the wrench that the motion requires at its base link, per unit of each parameter.

    ``Y_B φ`` is the sum of all external wrenches, force first, about the origin and in the axes of the base link. It
    needs the base link's angular velocity, angular acceleration and proper acceleration, but not its pose.

    Returns:
        Shape (n_samples, 6, 10 n_links).
    """
    return _rows(model, motion, row_arrays(model), 6)


def joint_rows(model: Model, motion: Motion, joints: Sequence[str] | None = None) -> FloatArray:
    """Compute ``Y_J``: the joint torques that the motion requires, per unit of each parameter.

    ``Y_J φ = τ + Jᵀ f``, [yamane2011] (6)-(9), without rotor inertia and friction.

    Returns:
        Shape (n_samples, n_torques, 10 n_links); a ball joint has three torques, in its child's axes.
    """
    plan = row_arrays(model, regions=np.full(len(model.bodies), -1), torques=model.joints if joints is None else joints)
    return _rows(model, motion, plan, len(plan.torque_bodies))


def static_rows(model: Model, q: Any, *, base: str | None = None) -> FloatArray:
    """Compute the coefficients of ``M p_CoM`` in the axes of a link, from its origin; [baelemans2013] (1)-(5).

    Args:
        model: The model.
        q: Joint positions without the floating base, shape (n, n_q).
        base: Name of a link or frame's body; by default the root.

    Returns:
        Shape (n, 3, 10 n_links), kg m per unit of each parameter; the six inertias have none.
    """
    positions = np.ascontiguousarray(q, dtype=np.float64)
    width = model.position_size - (7 if model.base == "floating" else 0)
    if positions.ndim != 2 or positions.shape[1] != width or not np.all(np.isfinite(positions)):
        raise MotionError(f"q has the shape {positions.shape}; postures need (n, {width}) finite numbers", channel="q")
    body = 0 if base is None else model.frame(base).body
    still, at_rest = np.zeros((len(positions), model.velocity_size)), np.zeros((len(positions), 3))
    states = spread_motion(model.tree, body, TreeMotion(positions, still, still, at_rest, at_rest, at_rest))
    states = states[:, list(model.link_bodies)]
    out = np.zeros((len(positions), 3, states.shape[1], PARAMETER_COUNT))
    out[..., 0] = states[..., POSITION : POSITION + 3].swapaxes(1, 2)
    out[..., 1:4] = states[..., ROTATION : ROTATION + 9].reshape(*states.shape[:2], 3, 3).swapaxes(1, 2)
    return out.reshape(len(positions), 3, -1)


def base_wrench(model: Model, motion: Motion, parameters: Any = None) -> FloatArray:
    """Compute ``Y_B φ`` without forming ``Y_B``, shape (n_samples, 6)."""
    return _forces(model, motion, row_arrays(model), 6, parameters)


def part_wrench(model: Model, motion: Motion, bodies: Sequence[int], parameters: Any = None) -> FloatArray:
    """Compute the sum of all wrenches that a motion requires on some bodies, shape (n_samples, 6); see `base_rows`."""
    regions = np.full(len(model.bodies), -1)
    regions[list(bodies)] = 0
    return _forces(model, motion, row_arrays(model, regions=regions), 6, parameters)


def joint_torques(model: Model, motion: Motion, parameters: Any = None) -> FloatArray:
    """Compute ``Y_J φ`` without forming ``Y_J``, shape (n_samples, n_torques)."""
    plan = row_arrays(model, regions=np.full(len(model.bodies), -1), torques=model.joints)
    return _forces(model, motion, plan, len(plan.torque_bodies), parameters)


def _rows(model: Model, motion: Motion, plan: RowArrays, rows: int) -> FloatArray:
    columns = all_columns(model)

    def fill(states: FloatArray, out: FloatArray) -> None:
        fill_regressor(model.tree.arrays, plan, states, columns, out)

    return _filled(model, motion, (rows, columns.size), fill)


def _forces(model: Model, motion: Motion, plan: RowArrays, rows: int, parameters: Any) -> FloatArray:
    changed = model if parameters is None else model.with_parameters(parameters)
    shaped = np.ascontiguousarray(changed.parameters)

    def fill(states: FloatArray, out: FloatArray) -> None:
        add_required_forces(model.tree.arrays, plan, states, shaped, out)

    return _filled(model, motion, (rows,), fill)


def _filled(
    model: Model, motion: Motion, shape: tuple[int, ...], fill: Callable[[FloatArray, FloatArray], None]
) -> FloatArray:
    """Return an array of shape (n_samples, *shape) that `fill` writes from the motion of all bodies, on all cores."""
    motion.check(model)
    out = np.zeros((len(motion), *shape))
    base, whole = model.frame(motion.base).body, tree_motion(motion)
    workers = (os.cpu_count() or 1) if len(motion) >= _WORTH_A_THREAD else 1
    step = max(1, -(-len(motion) // workers))

    def fill_part(start: int) -> None:
        part = slice(start, start + step)
        for block, states in spread_blocks(model.tree, base, TreeMotion(*(each[part] for each in whole))):
            fill(states, out[part][block])

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(fill_part, range(0, len(motion), step)))
    return out
