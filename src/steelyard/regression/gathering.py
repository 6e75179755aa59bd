"""From motion to Evidence: chunk by chunk, in bounded memory, on all cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from threadpoolctl import threadpool_limits

from steelyard.exceptions import EvidenceError
from steelyard.model.names import did_you_mean, match_pattern
from steelyard.model.parameters import PARAMETER_COUNT, FloatArray
from steelyard.motion import Motion, motion_from_arrays
from steelyard.regression import kernels
from steelyard.regression.evidence import Evidence, EvidenceKey
from steelyard.regression.factor import Factor
from steelyard.regression.kernels import MotionArrays
from steelyard.regression.nuisance import Nuisance, nuisance_columns, plan_nuisance
from steelyard.regression.rows import all_columns, motion_arrays, tree_arrays, walk_arrays
from steelyard.regression.sensing import ALWAYS, RowPlan, Sensing, plan_rows, plan_sensing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.model import Model

DEFAULT_NOISE = {"force": 1.0, "moment": 0.05, "torque": 0.5}
"""Standard deviations by which rows are whitened unless others are stated: newtons, newton metres, newton metres. They
set how sensors count against each other; the noise itself is estimated from residuals later."""

_CHUNK_BYTES = 24e6
_PROBE_SAMPLES_PER_COLUMN = 3


def gather_evidence(
    model: Model,
    motion: Motion | Iterable[Motion] | Mapping[str, Any],
    *,
    weights: Mapping[str, float] | str | None = "default",
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
    nuisance: Sequence[str] = (),
    priors: dict[str, float] | None = None,
    workers: int | None = None,
) -> Evidence:
    """Gives the Evidence of a motion, or of a stream of motions that is longer than memory.

    Each sample gives six rows for each region of bodies between wrench sensors and one for each measured torque,
    ``Y φ = H f``. They are whitened in the sensors' own space, what was not measured is projected out, and the rest
    goes into the triangular factor.

    Args:
        model: The model.
        motion: A Motion; or Motions one after the other, all with the same base link and sensors; or plain arrays by
            name, as `motion_from_generalized` takes them (``time``, ``q``, ``v``, ``a``, ``wrenches``, ...).
        weights: Standard deviations of the noise by sensor (``"left_foot"``), component (``"left_foot.fx"``), joint, or
            kind (``"force"``, ``"moment"``, ``"torque"``); what is not named, and all with "default", has that of
            `DEFAULT_NOISE`. None gives the papers' plain sums.
        torques: Names or patterns of joints whose torques are used; by default those that the setup calls measured.
        withhold: Sensors or components to treat as not measured.
        unknown_wrenches: Frames at which an unknown wrench acts.
        nuisance: Groups of nuisance columns; see `steelyard.regression.nuisance.PRIORS`.
        priors: Standard deviations of their priors, by column or group.
        workers: Threads; by default one for each core.

    Raises:
        MotionError: A motion is empty, has the wrong shape, or a number that is not finite.
        EvidenceError: Something named is not there, or a sensor has no data.
    """
    if isinstance(motion, Mapping):
        motion = motion_from_arrays(model, motion)
    stream = iter([motion] if isinstance(motion, Motion) else motion)
    first = next(stream, None)
    if first is None:
        raise EvidenceError("there is no motion to gather from")
    first.check(model)
    used = _used_torques(model, first, torques)
    sensing = plan_sensing(
        model, wrenches=first.wrenches, torques=used, withhold=withhold, unknown_wrenches=unknown_wrenches
    )
    extra = plan_nuisance(model, sensing, nuisance, priors)
    noise = _noise(model, sensing, weights)
    independent, dependence = independent_columns(model, first.base, sensing)
    job = _Job(model, first.base, sensing, extra, noise, independent)
    size = job.chunk_size()

    def pieces() -> Iterable[Motion]:
        for number, part in enumerate(_chain(first, stream)):
            if number:
                part.check(model)
                _refuse_change(first, part)
            yield from part.chunks(size)

    cores = (
        workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else workers or os.cpu_count() or 1
    )
    factor, counts = _run(job, pieces(), cores)
    key = EvidenceKey(
        links=model.links,
        tree=model.tree.sha256,
        nuisance=tuple(column.name for column in extra),
        priors=tuple(column.prior for column in extra),
        base=first.base,
        measured=tuple(source.name for source in sensing.measured),
        unknown=tuple(dict.fromkeys(source.name for source in sensing.unknown)),
        torques=sensing.torques,
        weights=() if noise is None else tuple(noise.tolist()),
    )
    return Evidence(
        key, np.ascontiguousarray(factor), independent, dependence, int(counts[0]), float(counts[1]), int(counts[2])
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """All that one chunk needs to become rows."""

    model: Model
    base: str
    sensing: Sensing
    nuisance: tuple[Nuisance, ...]
    noise: FloatArray | None
    independent: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def width(self) -> int:
        """Columns: independent parameters, nuisance, and the measured forces."""
        return len(self.independent) + len(self.nuisance) + 1

    def chunk_size(self) -> int:
        rows = plan_rows(self.model, self.sensing, frozenset()).row_count
        return max(64, int(_CHUNK_BYTES / (8.0 * rows * self.width)))

    def rows_of(self, motion: Motion) -> tuple[FloatArray, int]:
        """Gives the whitened, projected rows ``[Y | nuisance | f]`` of a chunk, and how many of them say something."""
        standing = frozenset(
            sole.name for sole in self.model.setup.soles if np.all(motion.contacts.get(sole.name, True))
        )
        plan = plan_rows(self.model, self.sensing, standing)
        columns = np.full(len(self.model.links) * PARAMETER_COUNT, -1, dtype=np.int64)
        columns[self.independent] = np.arange(len(self.independent))
        return system_rows(
            self.model, self.base, self.sensing, plan, motion_arrays(motion), _present(plan, motion),
            measured_forces(self.sensing, motion), columns.reshape(-1, PARAMETER_COUNT), self.width, self.nuisance,
        self.noise, )  # fmt: skip


def system_rows(
    model: Model,
    base: str,
    sensing: Sensing,
    plan: RowPlan,
    motion: MotionArrays,
    present: np.ndarray[Any, np.dtype[np.bool_]],
    forces: FloatArray,
    columns: np.ndarray[Any, np.dtype[np.int64]],
    width: int,
    nuisance: Sequence[Nuisance] = (),
    noise: FloatArray | None = None,
) -> tuple[FloatArray, int]:
    """Gives rows ``[Y | nuisance | f]``, shape (n · n_rows, width), whitened and projected; and how many are left.

    Args:
        model: The model.
        base: Name of the base link.
        sensing: What is measured.
        plan: The rows.
        motion: The samples.
        present: Which unknown forces act, shape (n, n_unknown).
        forces: Measured components and torques, shape (n, n_measured + n_torques).
        columns: Column of each parameter, −1 for none, shape (n_links, 10).
        width: Number of columns, the forces' included.
        nuisance: Nuisance columns.
        noise: Standard deviation of each measured component and torque; None for plain sums.
    """
    tree, walk = tree_arrays(model), walk_arrays(model, model.frame(base).body)
    count, measured = len(motion.rate), len(sensing.measured)
    rows = np.zeros((count, plan.row_count, width))
    kernels.regressor_rows(tree, walk, plan.rows, motion, columns, rows)
    maps = np.zeros((count, plan.row_count, measured))
    kernels.force_map(tree, walk, plan.rows, motion, plan.measured, maps)
    first = plan.rows.first_torque_row
    np.einsum("nkm,nm->nk", maps, forces[:, :measured], out=rows[:, :, -1])
    rows[:, first:, -1] += forces[:, measured:]
    if nuisance:
        place = width - 1 - len(nuisance)
        rows[:, :, place:-1] = nuisance_columns(model, nuisance, plan, walk, motion, maps, sensing)
    kept = np.empty(count, dtype=np.int64)
    hidden = np.zeros((count, plan.row_count, len(plan.unknown_soles)))
    if len(plan.unknown_soles):
        kernels.force_map(tree, walk, plan.rows, motion, plan.unknown, hidden)
    if noise is None:
        roots = np.zeros((count, plan.row_count, 0))
    else:
        roots = np.zeros((count, plan.row_count, measured + plan.row_count - first))
        np.multiply(maps, noise[:measured], out=roots[:, :, :measured])
        torque = np.arange(plan.row_count - first)
        roots[:, first + torque, measured + torque] = noise[measured:]
    if noise is not None or len(plan.unknown_soles):
        kernels.reduce_rows(rows, roots, hidden, present, kept)
        return rows.reshape(-1, width), int(kept.sum())
    return rows.reshape(-1, width), count * plan.row_count


def measured_forces(sensing: Sensing, motion: Motion) -> FloatArray:
    """Gives the measured wrench components and torques side by side, shape (n, n_measured + n_torques)."""
    axes = {axis: number for number, axis in enumerate(("fx", "fy", "fz", "nx", "ny", "nz"))}
    columns = [motion.wrenches[source.name.rpartition(".")[0]][:, axes[source.axis]] for source in sensing.measured]
    for joint in sensing.torques:
        values = motion.torques[joint]
        columns += [values] if values.ndim == 1 else list(values.T)
    return np.stack(columns, axis=1) if columns else np.zeros((len(motion), 0))


@lru_cache(maxsize=64)
def independent_columns(
    model: Model, base: str, sensing: Sensing
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], FloatArray]:
    """Gives the parameters whose columns can be told apart by some motion, and how the others' follow from theirs.

    A property of the tree, the channels and the sensing. It is found once, numerically: of the rows of many random
    motions (every joint at any angle, any base motion, soles on and off the ground) a pivoted QR decomposition keeps
    a basis.

    Returns:
        Indices of the independent parameters, ascending, and the matrix ``K`` with ``Y = Y_independent K``.
    """
    total = len(model.links) * PARAMETER_COUNT
    count = _PROBE_SAMPLES_PER_COLUMN * total // 6 + 20
    generator = np.random.default_rng(0)
    tree = tree_arrays(model)
    q = generator.uniform(
        -np.pi, np.pi, size=(count, max(1, model.position_size - (7 if model.base == "floating" else 0)))
    )
    v, a = generator.normal(size=(2, count, max(1, tree.v_size)))
    rate, turn, pull = generator.normal(size=(3, count, 3))
    if model.base == "fixed":
        up = 9.81 * np.asarray(model.bodies[0].placement.rotation[2])
        rate, turn, pull = np.zeros((count, 3)), np.zeros((count, 3)), np.tile(up, (count, 1))
    plan = plan_rows(model, sensing, frozenset())
    always = np.array([sole == ALWAYS for sole in plan.unknown_soles], dtype=np.bool_)
    present = (generator.random(size=(count, len(plan.unknown_soles))) < 0.5) | always
    for sole in set(plan.unknown_soles) - {ALWAYS}:
        members = [number for number, name in enumerate(plan.unknown_soles) if name == sole]
        present[:, members] = present[:, members[:1]]
    forces = np.zeros((count, len(sensing.measured) + plan.row_count - plan.rows.first_torque_row))
    motion = MotionArrays(q, np.cos(q), np.sin(q), v, a, rate, turn, pull)
    rows, _ = system_rows(model, base, sensing, plan, motion, present, forces, all_columns(model), total + 1)
    columns = rows[:, :total]
    lengths = np.linalg.norm(columns, axis=0)
    scale = np.where(lengths > 1e-12 * lengths.max(), lengths, 1.0)
    columns = np.where(lengths > 1e-12 * lengths.max(), columns / scale, 0.0)
    triangle, order = qr(columns, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(triangle))
    padded = np.maximum(np.append(diagonal, 0.0), 1e-16 * diagonal[0])
    small = padded[1:] < 1e-9 * diagonal[0]
    rank = int(np.argmax(np.where(small, padded[:-1] / padded[1:], 0.0))) + 1
    combination = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    chosen = order[:rank]
    sorted_places = np.argsort(chosen)
    independent = chosen[sorted_places].astype(np.int64)
    dependence = np.zeros((rank, total))
    dependence[np.arange(rank), independent] = 1.0
    dependence[:, order[rank:]] = (combination / scale[chosen][:, None] * scale[order[rank:]])[sorted_places]
    dependence[np.abs(dependence) < 1e-10 * np.max(np.abs(dependence), axis=0, initial=1e-300)] = 0.0
    independent.setflags(write=False)
    dependence.setflags(write=False)
    return independent, dependence


def _run(job: _Job, pieces: Iterable[Motion], workers: int) -> tuple[FloatArray, FloatArray]:
    """Factors the pieces, each worker into its own factor; the workers' factors are added in order."""
    factors = [Factor(job.width) for _ in range(workers)]
    counts = np.zeros((workers, 3))

    def work(worker: int, piece: Motion) -> None:
        rows, kept = job.rows_of(piece)
        factors[worker].add(rows)
        counts[worker] += (len(piece), piece.effective_count, kept)

    # One BLAS thread each: threaded BLAS under load was seen to be seventy times slower.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        pending: list[Any] = [None] * workers
        for number, piece in enumerate(pieces):
            worker = number % workers
            # At most one piece for each worker is in memory, and each worker takes its pieces in order.
            if pending[worker] is not None:
                pending[worker].result()
            pending[worker] = pool.submit(work, worker, piece)
        for future in pending:
            if future is not None:
                future.result()
        for other in factors[1:]:
            factors[0].add(np.array(other.matrix))
    return factors[0].matrix, counts.sum(axis=0)


def _chain(first: Motion, rest: Iterable[Motion]) -> Iterable[Motion]:
    yield first
    yield from rest


def _refuse_change(first: Motion, part: Motion) -> None:
    if part.base != first.base:
        raise EvidenceError(f"a motion at base link {part.base!r} follows one at {first.base!r}; gather them apart")
    missing = sorted((set(first.wrenches) | set(first.torques)) - set(part.wrenches) - set(part.torques))
    if missing:
        raise EvidenceError(f"the channel {missing[0]!r} is missing in a later motion", names=missing)


def _used_torques(model: Model, motion: Motion, torques: Sequence[str] | None) -> list[str]:
    wanted = list(model.setup.torques_measured) if torques is None else list(torques)
    joints = []
    for pattern in wanted:
        matched = match_pattern(pattern, model.joints)
        if not matched:
            raise EvidenceError(f"no joint is called {pattern!r}{did_you_mean(pattern, model.joints)}", names=[pattern])
        joints += matched
    silent = [joint for joint in joints if joint not in motion.torques]
    if silent:
        raise EvidenceError(
            f"the torque of joint {silent[0]!r} is not in this motion; record it, or leave it out", names=silent
        )
    return joints


def _present(plan: RowPlan, motion: Motion) -> np.ndarray[Any, np.dtype[np.bool_]]:
    present = np.ones((len(motion), len(plan.unknown_soles)), dtype=np.bool_)
    for number, sole in enumerate(plan.unknown_soles):
        if sole != ALWAYS and sole in motion.contacts:
            present[:, number] = motion.contacts[sole]
    return present


def _noise(model: Model, sensing: Sensing, weights: Mapping[str, float] | str | None) -> FloatArray | None:
    """Gives the standard deviation of each measured component and torque; None for plain sums."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "default":
            raise EvidenceError(f"weights is {weights!r}; write 'default', None, or standard deviations by sensor")
        weights = {}
    names = [source.name for source in sensing.measured]
    known = {*DEFAULT_NOISE, *names, *(name.rpartition(".")[0] for name in names), *sensing.torques}
    for name, value in weights.items():
        if name not in known:
            raise EvidenceError(f"no sensor or joint is called {name!r}{did_you_mean(name, known)}", names=[name])
        if not np.isfinite(value) or value <= 0.0:
            raise EvidenceError(f"the noise of {name!r} is {value}; it must be a positive number", names=[name])
    stated = {**DEFAULT_NOISE, **weights}
    noise = []
    for source in sensing.measured:
        kind = "force" if source.axis.startswith("f") else "moment"
        noise.append(stated.get(source.name, stated.get(source.name.rpartition(".")[0], stated[kind])))
    for joint in sensing.torques:
        noise += [stated.get(joint, stated["torque"])] * model.joint(joint).velocity_size
    return np.array(noise, dtype=np.float64)
