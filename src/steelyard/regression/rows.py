"""Regressors of whole motions: the base link's six rows, joint rows, static rows, and forces without any of them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.kinematics import subtree_mask, traverse
from steelyard.model import PARAMETER_COUNT
from steelyard.regression import kernels
from steelyard.regression.kernel_arrays import MotionArrays, RowArrays, TreeArrays, WalkArrays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion

_WORTH_A_THREAD = 500


@lru_cache(maxsize=64)
def tree_arrays(model: Model) -> TreeArrays:
    """Gives the tree for kernels; starts count from the first joint."""
    tree = model.tree
    base_q, base_v = (7, 6) if model.base == "floating" else (0, 0)
    return TreeArrays(
        tree.kinds,
        tree.axes,
        tree.rotations,
        tree.translations,
        tree.q_starts - base_q,
        tree.v_starts - base_v,
        model.velocity_size - base_v,
    )


@lru_cache(maxsize=256)
def walk_arrays(model: Model, body: int) -> WalkArrays:
    """Gives the traversal from a body, for kernels."""
    walk = traverse(model, body)
    return WalkArrays(walk.order, walk.source, walk.crossed, walk.upward)


def row_arrays(model: Model, *, regions: Any = None, torques: Sequence[str] = ()) -> RowArrays:
    """Gives the plan of rows: six for each region of bodies, then the torques of the joints named.

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
        subtree_mask(model),
        np.array(bodies, dtype=np.int64),
        np.array(components, dtype=np.int64),
        6 * (int(np.max(groups, initial=-1)) + 1),
    )


def motion_arrays(motion: Motion) -> MotionArrays:
    """Gives a motion for kernels."""
    q, v, a, rate, turn, pull = (
        np.ascontiguousarray(values, dtype=np.float64)
        for values in (
            motion.q,
            motion.v,
            motion.a,
            motion.angular_velocity,
            motion.angular_acceleration,
            motion.proper_acceleration,
        )
    )
    return MotionArrays(q, np.cos(q), np.sin(q), v, a, rate, turn, pull)


def all_columns(model: Model) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Gives the column of each parameter when none is left out, shape (n_links, 10)."""
    return np.arange(len(model.links) * PARAMETER_COUNT, dtype=np.int64).reshape(-1, PARAMETER_COUNT)


def base_rows(model: Model, motion: Motion) -> FloatArray:
    """Gives ``Y_B``: the wrench that the motion asks for at its base link, per unit of each parameter.

    ``Y_B φ`` is the sum of all external wrenches, force first, about the origin and in the axes of the base link. It
    needs the base link's angular velocity, angular acceleration and proper acceleration, and nothing of its place in
    the world.

    Returns:
        Shape (n_samples, 6, 10 n_links).
    """
    return _rows(model, motion, row_arrays(model), 6)


def joint_rows(model: Model, motion: Motion, joints: Sequence[str] | None = None) -> FloatArray:
    """Gives ``Y_J``: the joint torques that the motion asks for, per unit of each parameter.

    ``Y_J φ = τ + Jᵀ f``, [yamane2011] (6)-(9), rotor inertia and friction not counted.

    Returns:
        Shape (n_samples, n_torques, 10 n_links); a ball joint has three torques, in its child's axes.
    """
    plan = row_arrays(model, regions=np.full(len(model.bodies), -1), torques=model.joints if joints is None else joints)
    return _rows(model, motion, plan, len(plan.torque_bodies))


def static_rows(model: Model, q: Any, *, base: str | None = None) -> FloatArray:
    """Gives the coefficients of ``M p_CoM`` in the axes of a link, from its origin; [baelemans2013] (1)-(5).

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
    out = np.zeros((len(positions), 3, len(model.links), PARAMETER_COUNT))
    links = np.array(model.link_bodies, dtype=np.int64)
    still = np.zeros((len(positions), max(3, tree_arrays(model).v_size)))
    at_rest = MotionArrays(positions, np.cos(positions), np.sin(positions), still, still, still, still, still)
    kernels.static_rows(tree_arrays(model), walk_arrays(model, body), links, at_rest, out)
    return out.reshape(len(positions), 3, -1)


def base_wrench(model: Model, motion: Motion, parameters: Any = None) -> FloatArray:
    """Gives ``Y_B φ`` without forming ``Y_B``, shape (n_samples, 6)."""
    return _forces(model, motion, row_arrays(model), 6, parameters)


def part_wrench(model: Model, motion: Motion, bodies: Sequence[int], parameters: Any = None) -> FloatArray:
    """Gives the sum of all wrenches that a motion asks for on some bodies, shape (n_samples, 6); see `base_rows`."""
    regions = np.full(len(model.bodies), -1)
    regions[list(bodies)] = 0
    return _forces(model, motion, row_arrays(model, regions=regions), 6, parameters)


def joint_torques(model: Model, motion: Motion, parameters: Any = None) -> FloatArray:
    """Gives ``Y_J φ`` without forming ``Y_J``, shape (n_samples, n_torques)."""
    plan = row_arrays(model, regions=np.full(len(model.bodies), -1), torques=model.joints)
    return _forces(model, motion, plan, len(plan.torque_bodies), parameters)


def _rows(model: Model, motion: Motion, plan: RowArrays, rows: int) -> FloatArray:
    columns = all_columns(model)

    def kernel(tree: TreeArrays, walk: WalkArrays, arrays: MotionArrays, out: FloatArray) -> None:
        kernels.regressor_rows(tree, walk, plan, arrays, columns, out)

    return _filled(model, motion, (rows, columns.size), kernel)


def _forces(model: Model, motion: Motion, plan: RowArrays, rows: int, parameters: Any) -> FloatArray:
    changed = model if parameters is None else model.with_parameters(parameters)
    shaped = np.ascontiguousarray(changed.parameters)

    def kernel(tree: TreeArrays, walk: WalkArrays, arrays: MotionArrays, out: FloatArray) -> None:
        kernels.required_forces(tree, walk, plan, arrays, shaped, out)

    return _filled(model, motion, (rows,), kernel)


def _filled(
    model: Model,
    motion: Motion,
    shape: tuple[int, ...],
    kernel: Callable[[TreeArrays, WalkArrays, MotionArrays, FloatArray], None],
) -> FloatArray:
    """Gives an array of shape (n_samples, *shape) that a kernel fills, slice by slice, on all cores."""
    motion.check(model)
    out = np.zeros((len(motion), *shape))
    tree, walk = tree_arrays(model), walk_arrays(model, model.frame(motion.base).body)

    def fill(part: slice) -> None:
        kernel(tree, walk, motion_arrays(motion.between(part.start, part.stop)), out[part])

    _on_all_cores(fill, len(motion))
    return out


def _on_all_cores(fill: Callable[[slice], None], count: int) -> None:
    """Calls `fill` on slices of the samples, in threads: the kernels let each other run."""
    workers = os.cpu_count() or 1
    step = -(-count // workers)
    if workers == 1 or count < _WORTH_A_THREAD:
        fill(slice(0, count))
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(fill, (slice(start, min(count, start + step)) for start in range(0, count, step))))
