"""The linear problem of loads on a robot's links, with the robot and the sensors' errors eliminated.

Two recordings of one robot, the second with a load ``ψ`` on some link, rows divided by their noise::

    baseline:  Y₀ φ + N₀ η           = f₀
    loaded:    Y φ  + N (η + δ) + Y ψ = f

The robot ``φ`` has the model as its prior mean and the usual model error as its spread, the sensors' errors ``η`` have
their priors, and ``δ`` is their drift between the recordings. All are Gaussian, so that one QR factorisation eliminates
them exactly and leaves ``right = columns ψ + changes ε + noise`` with unit noise. Nothing is assumed about the load
yet, nor about the changes ``ε`` of the sensors beyond ``δ``, which are its rivals: `PayloadProblem.explained_by` adds
some of them to the noise, with their priors; see `steelyard.payload.rivals`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr, solve_triangular

from steelyard.exceptions import EvidenceError, IdentifiabilityError
from steelyard.identification import build_problem, choose_parameters
from steelyard.model import MASS_SPREAD, PARAMETER_COUNT, model_spread, project_to_interior, to_pseudo_inertia
from steelyard.regression import DEFAULT_NOISE, FLOOR_SHARE, belongs_to, singular_vectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import BoolArray, FloatArray
    from steelyard.identification import ParameterSet
    from steelyard.model import Model
    from steelyard.regression import Evidence

DRIFT = 0.1
"""Standard deviation of the drift of sensors that were not zeroed between the recordings, as a share of their priors.
Set by judgement: a tenth of what zeroing leaves."""

GUESSED = 3.0
"""Factor on the noise where sensors of several kinds have default weights: the residual gives the noise of all rows
together, but moments may be three times as noisy, beside forces, as default weights suggest."""

CHANGES: dict[str, tuple[str, ...]] = {
    "wrench_offset": ("wrench_offset",),
    "wrench_drift": ("wrench_drift",),
    "wrench_gain": ("wrench_gain",),
    "encoder_offset": ("encoder_offset",),
    "imu": ("accelerometer_bias", "gyro_bias", "imu_mounting"),
}
"""What may have changed on the sensors between the recordings, and the groups of nuisances that it changes."""

RIVAL_NUISANCE = ("auto", "wrench_gain", "wrench_drift", "encoder_offset")
"""Groups of nuisances with which recordings are prepared, so that all of `CHANGES` are compared with a load."""

_ONLY_CHANGES = ("wrench_drift", "wrench_gain")
"""Groups that have no part in common to both recordings: a drift begins anew in each, and a gain that both have scales
robot and load alike; as an unknown, it took the attenuation that encoder noise brings, and 6 to 14 % of a load."""

_REACH = 0.05
"""Standard deviation (m) of how far a load may lie outside the link's own matter. Set by judgement: a fist's size."""

_MASS_SHARE = 0.1
"""Standard deviation of a load's mass, as a share of the robot's. Set by judgement: 3 kg on a humanoid of 30 kg."""

_LEAST_NOISE = 1e-6
"""Least noise, as a share of the measured forces, so that noiseless data (tests) can be divided by it."""

_ASPECTS = {
    "sensing": "other sensors, or the same ones elsewhere",
    "nuisance": "other nuisances",
    "priors": "other priors of nuisances",
    "gravity": "another direction of gravity",
    "reference": "nuisances of a model with other parameters",
    "instruments": "other instruments",
}
"""Entries of an Evidence's key in which the two recordings must agree, and how a difference is reported."""


@dataclass(frozen=True, eq=False)
class PayloadProblem:
    """The problem ``right = columns ψ + noise`` of loads ``ψ``, with noise of unit variance.

    Attributes:
        links: Links, in parameter order.
        columns: Shape (n_rows, 10 n_links).
        right: Shape (n_rows,).
        freedom: Degrees of freedom of the noise estimate; infinite where the noise is known.
        centres: Centre of each link's matter in the model, shape (n_links, 3), m.
        roots: Cholesky factors of the covariance of a load's position on each link, shape (n_links, 3, 3), m.
        mass_scale: Standard deviation of a load's mass, kg.
        directions: Orthonormal basis, in the space of the rows, of the directions of the robot's parameters that the
            loaded recording observes, shape (n_rows, n_directions).
        guessed: Whether the noise of the rows is that of default weights; see `GUESSED`.
        changes: By entry of `CHANGES`, the effects of those changes of the sensors, in standard deviations of their
            priors, shape (n_rows, n).
        log_volume: Logarithm of the volume by which changes that were added to the noise widened it.
        explained: Decrease of ``‖right‖²`` by them.
    """

    links: tuple[str, ...]
    columns: FloatArray
    right: FloatArray
    freedom: float
    centres: FloatArray
    roots: FloatArray
    mass_scale: float
    directions: FloatArray
    guessed: bool = False
    changes: Mapping[str, FloatArray] = field(default_factory=dict)
    log_volume: float = 0.0
    explained: float = 0.0

    def of(self, link: int) -> FloatArray:
        """Return the ten columns of a link, shape (n_rows, 10)."""
        return self.columns[:, PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def with_noise(self, factor: float) -> PayloadProblem:
        """Return the same problem with its noise multiplied by a factor."""
        changes = {name: columns / factor for name, columns in self.changes.items()}
        return replace(
            self,
            columns=self.columns / factor,
            right=self.right / factor,
            changes=changes,
            explained=self.explained / factor**2,
        )

    def explained_by(self, names: Sequence[str]) -> PayloadProblem:
        """Return the same problem with some changes of the sensors in its noise, which is divided by its new root.

        With ``A`` the effects of the changes, ``1 + A Aᵀ = L Lᵀ``, and columns and forces are multiplied by ``L⁻¹``.
        """
        if not names:
            return self
        effects = np.concatenate([self.changes[name] for name in names], axis=1)
        root = np.linalg.cholesky(np.eye(len(effects)) + effects @ effects.T)
        stacked = np.concatenate([self.columns, self.right[:, None], self.directions], axis=1)
        left = np.asarray(solve_triangular(root, stacked, lower=True))
        width = self.columns.shape[1]
        return replace(
            self,
            columns=np.ascontiguousarray(left[:, :width]),
            right=np.ascontiguousarray(left[:, width]),
            directions=np.ascontiguousarray(np.linalg.qr(left[:, width + 1 :])[0]),
            changes={},
            log_volume=self.log_volume + float(np.sum(np.log(np.diagonal(root)))),
            explained=self.explained + float(self.right @ self.right - left[:, width] @ left[:, width]),
        )

    @cached_property
    def central_mass_errors(self) -> FloatArray:
        """Standard error of the mass of a load known to be at each link's centre, shape (n_links,), kg."""
        sizes = [
            float(np.linalg.norm(self.of(link) @ point_parameters(1.0, centre)))
            for link, centre in enumerate(self.centres)
        ]
        return np.array([1.0 / size if size > 0.0 else np.inf for size in sizes])


def build_payload_problem(
    model: Model, evidence: Evidence, baseline: Evidence | None, *, cad_spread: float | None, same_sensors: bool
) -> PayloadProblem:
    """Build the problem of loads on a model's links; see `steelyard.payload.load_search.find_payload`.

    Raises:
        EvidenceError: The evidence is of another model, or the baseline is of another robot or other sensors.
        IdentifiabilityError: There are too few data to estimate their noise.
    """
    _check_evidence(model, evidence, "evidence")
    if baseline is not None:
        _check_evidence(model, baseline, "baseline")
        _check_alike(evidence, baseline)
    unknowns = choose_parameters(model)
    noise, freedom = _noise(evidence, baseline, unknowns)
    count = evidence.parameter_count
    reference = model.parameters.reshape(-1)
    usual = model_spread(model)
    spread = usual if cad_spread is None else cad_spread / MASS_SPREAD * usual
    priors = np.array(evidence.key.priors, dtype=np.float64)
    held = np.isfinite(priors)
    scales = np.where(held, priors, 1.0)

    shared, moved = (~_among(evidence, groups) for groups in (_ONLY_CHANGES, ("encoder_offset",)))
    known = np.concatenate([np.ones(count), held[shared]])

    full = evidence.full_factor / noise
    robot, errors = full[:, :count] @ spread, full[:, count:-1] * scales
    right = full[:, -1] - full[:, :count] @ reference
    with_prior, other_errors = known, np.zeros((0, len(priors)))
    if baseline is None:
        rows = np.concatenate([robot, errors[:, shared]], axis=1)
    else:
        other_noise, other_freedom = _noise(baseline, evidence, unknowns)
        freedom = min(freedom, other_freedom)
        other = baseline.full_factor / other_noise
        other_errors = other[:, count:-1] * scales
        none = np.zeros_like(other_errors[:, shared])
        finite, free, mine = held[shared], moved[shared], errors[:, shared]
        if same_sensors:
            # Errors without a prior are independent in the two recordings: shared, they would be counted twice.
            loaded = mine * finite, mine * np.where(finite, DRIFT * free, 1.0)
        else:
            loaded = mine * ~free, mine * free
        blocks = ((robot, *loaded), (other[:, :count] @ spread, other_errors[:, shared], none))
        rows = np.concatenate([np.concatenate(block, axis=1) for block in blocks])
        right = np.concatenate([right, other[:, -1] - other[:, :count] @ reference])
        with_prior = np.concatenate([known, finite])
    loads = np.concatenate([full[:, :count], np.zeros((len(rows) - len(full), count))])
    rivals = _changes(evidence, errors, other_errors, baseline=baseline is not None, same_sensors=same_sensors)
    columns, *changes, right = _eliminate(rows, with_prior, [loads, *rivals.values()], right)
    centres, roots = _position_priors(model)
    return PayloadProblem(
        links=model.links,
        columns=columns,
        right=right,
        freedom=freedom,
        centres=centres,
        roots=roots,
        mass_scale=_MASS_SHARE * model.total_mass,
        directions=_directions(full[:, :count] @ usual, columns @ usual),
        guessed=_has_default_weights(evidence),
        changes=dict(zip(rivals, changes, strict=True)),
    )


def point_parameters(mass: float, position: FloatArray) -> FloatArray:
    """Return the ten parameters of a point mass, shape (10,)."""
    x, y, z = position.tolist()
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    return mass * np.array([1.0, x, y, z, *inertia])


def _check_evidence(model: Model, evidence: Evidence, name: str) -> None:
    if evidence.key.links != model.links or evidence.key.tree != model.tree.sha256:
        raise EvidenceError(
            f"the {name} is not about {model.name}: its links or joints differ; gather it with this model"
        )
    if not np.any(evidence.full_factor[:, -1]):
        raise EvidenceError(f"every measured force of the {name} is zero: check that the sensors are connected")


def _check_alike(evidence: Evidence, baseline: Evidence) -> None:
    for aspect, difference in _ASPECTS.items():
        if getattr(evidence.key, aspect) != getattr(baseline.key, aspect):
            raise EvidenceError(f"the baseline has {difference}; gather both alike", names=[aspect])
    for origin in evidence.origins:
        if any(origin.sha256 == other.sha256 and origin.start < other.end and other.start < origin.end
               for other in baseline.origins):  # fmt: skip
            raise EvidenceError("the baseline and the evidence hold the same recording; give one without the load")


def _noise(evidence: Evidence, other: Evidence | None, unknowns: ParameterSet) -> tuple[float, float]:
    """Return the noise of a row and its degrees of freedom; too short a recording takes those of the other."""
    try:
        problem = build_problem(evidence, unknowns)
    except IdentifiabilityError:
        if other is None or other.key.weights != evidence.key.weights:
            raise
        problem = build_problem(other, unknowns)
    least = _LEAST_NOISE * float(np.linalg.norm(evidence.factor[:, -1])) / np.sqrt(max(1, evidence.row_count))
    return max(problem.noise, least) * (GUESSED if _has_default_weights(evidence) else 1.0), problem.freedom


def _among(evidence: Evidence, groups: Sequence[str]) -> BoolArray:
    """Return which nuisances are of some groups, shape (n_nuisance,)."""
    names = evidence.key.nuisance
    return np.array([any(belongs_to(name, group) for group in groups) for name in names], dtype=np.bool_)


def _changes(
    evidence: Evidence, errors: FloatArray, other: FloatArray, *, baseline: bool, same_sensors: bool
) -> dict[str, FloatArray]:
    """Return the effects of changes of the sensors on the rows of both recordings, by entry of `CHANGES`.

    Args:
        evidence: Of the robot with the load.
        errors: Effects of the nuisances on its rows, in standard deviations of their priors.
        other: The same for the baseline's; without rows, where there is none.
        baseline: Whether there is one. Without it, offsets are unknown anyway.
        same_sensors: Whether the sensors were neither zeroed nor mounted anew; otherwise their errors are independent.
    """
    held, found = np.isfinite(evidence.key.priors), {}
    for name, groups in CHANGES.items():
        chosen = _among(evidence, groups) & held
        known = name not in _ONLY_CHANGES and not baseline
        independent = not same_sensors and name in ("wrench_offset", "imu")
        if not np.any(chosen) or known or independent:
            continue
        after = np.concatenate([errors[:, chosen], np.zeros((len(other), int(chosen.sum())))])
        before = np.concatenate([np.zeros((len(errors), int(chosen.sum()))), other[:, chosen]])
        found[name] = np.concatenate([after, before], axis=1) if name == "wrench_drift" and baseline else after
    return found


def _has_default_weights(evidence: Evidence) -> bool:
    """Return whether sensors of several kinds have default weights, so that their noise ratios were not estimated."""
    key = evidence.key
    kinds = {name.rpartition(".")[2][0] for name in key.measured} | ({"torque"} if key.torques else set())
    usual = np.array([*DEFAULT_NOISE.values()])
    known = np.concatenate([usual, FLOOR_SHARE * usual])
    return len(kinds) > 1 and all(np.any(np.isclose(weight, known, rtol=1e-9)) for weight in key.weights)


def _eliminate(
    rows: FloatArray, with_prior: FloatArray, others: Sequence[FloatArray], right: FloatArray
) -> list[FloatArray]:
    """Return other columns, and the forces, after eliminating the unknowns of `rows`, in fewest rows.

    Unknowns have unit priors where `with_prior` marks them.
    """
    used = np.any(rows != 0.0, axis=0)
    rows, with_prior = rows[:, used], with_prior[used]
    stacked = np.concatenate([*others, right[:, None]], axis=1)
    if rows.shape[1]:
        priors = np.diag(with_prior)[with_prior > 0.0]
        basis = qr(np.concatenate([rows, priors]), mode="full")[0][:, rows.shape[1] :]
        stacked = basis[: len(rows)].T @ stacked
    left = np.asarray(np.linalg.qr(stacked, mode="r"))
    edges = np.cumsum([each.shape[1] for each in others])
    parts = [np.ascontiguousarray(part) for part in np.split(left, edges, axis=1)]
    return [*parts[:-1], parts[-1][:, 0]]


def _directions(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return a basis of the directions in which the recording is more accurate than the usual model error."""
    _, values, right = singular_vectors(before)
    basis, sizes, _ = singular_vectors(after @ right[values > 1.0].T)
    return np.ascontiguousarray(basis[:, sizes > 1e-9 * np.max(sizes, initial=0.0)])


def _position_priors(model: Model) -> tuple[FloatArray, FloatArray]:
    """Return centre and covariance factor of a load's position: a box of the link's second moments, plus `_REACH`."""
    pseudo = to_pseudo_inertia(project_to_interior(model.parameters))
    centres = pseudo[:, :3, 3] / pseudo[:, 3, 3, None]
    second = pseudo[:, :3, :3] / pseudo[:, 3, 3, None, None] - centres[:, :, None] * centres[:, None, :]
    return np.asarray(centres), np.asarray(np.linalg.cholesky(3.0 * second + _REACH**2 * np.eye(3)))
