"""The linear problem of loads on a robot's links, with the robot and the sensors' errors eliminated.

Two recordings of one robot, the second with a load ``ψ`` on some link, rows divided by their noise::

    baseline:  Y₀ φ + N₀ η           = f₀
    loaded:    Y φ  + N (η + δ) + Y ψ = f

The robot ``φ`` has the model as its prior mean and the usual model error as its spread, the sensors' errors ``η`` have
their priors, and ``δ`` is their drift between the recordings. All are Gaussian, so that one QR factorisation eliminates
them exactly and leaves ``right = columns ψ + noise`` with unit noise. Nothing is assumed about the load yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from steelyard.exceptions import EvidenceError, IdentifiabilityError
from steelyard.identification import build_problem, choose_parameters
from steelyard.model import MASS_SPREAD, PARAMETER_COUNT, model_spread, project_to_interior, to_pseudo_inertia
from steelyard.regression import DEFAULT_NOISE, FLOOR_SHARE, singular_vectors

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification import ParameterSet
    from steelyard.model import Model
    from steelyard.regression import Evidence

DRIFT = 0.1
"""Standard deviation of the drift of sensors that were not zeroed between the recordings, as a share of their priors.
Set by judgement: a tenth of what zeroing leaves."""

GUESSED = 3.0
"""Factor on the noise where sensors of several kinds have default weights: the residual gives the noise of all rows
together, but moments may be three times as noisy, beside forces, as default weights suggest."""

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

    def of(self, link: int) -> FloatArray:
        """Return the ten columns of a link, shape (n_rows, 10)."""
        return self.columns[:, PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def with_noise(self, factor: float) -> PayloadProblem:
        """Return the same problem with its noise multiplied by a factor."""
        return replace(self, columns=self.columns / factor, right=self.right / factor)

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

    full = evidence.full_factor / noise
    robot, offsets = full[:, :count] @ spread, full[:, count:-1] * scales
    right = full[:, -1] - full[:, :count] @ reference
    with_prior = np.concatenate([np.ones(count), held])
    if baseline is None:
        rows = np.concatenate([robot, offsets], axis=1)
    else:
        other_noise, other_freedom = _noise(baseline, evidence, unknowns)
        freedom = min(freedom, other_freedom)
        other = baseline.full_factor / other_noise
        other_offsets = other[:, count:-1] * scales
        none = np.zeros_like(other_offsets)
        if same_sensors:
            # Errors without a prior are independent in the two recordings: shared, they would be counted twice.
            loaded, empty = (offsets * held, offsets * np.where(held, DRIFT, 1.0)), (other_offsets, none)
        else:
            loaded, empty = (offsets, np.zeros_like(offsets)), (none, other_offsets)
        blocks = ((robot, *loaded), (other[:, :count] @ spread, *empty))
        rows = np.concatenate([np.concatenate(block, axis=1) for block in blocks])
        right = np.concatenate([right, other[:, -1] - other[:, :count] @ reference])
        with_prior = np.concatenate([with_prior, held])
    loads = np.concatenate([full[:, :count], np.zeros((len(rows) - len(full), count))])
    columns, right = _eliminate(rows, with_prior, loads, right)
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


def _has_default_weights(evidence: Evidence) -> bool:
    """Return whether sensors of several kinds have default weights, so that their noise ratios were not estimated."""
    key = evidence.key
    kinds = {name.rpartition(".")[2][0] for name in key.measured} | ({"torque"} if key.torques else set())
    usual = np.array([*DEFAULT_NOISE.values()])
    known = np.concatenate([usual, FLOOR_SHARE * usual])
    return len(kinds) > 1 and all(np.any(np.isclose(weight, known, rtol=1e-9)) for weight in key.weights)


def _eliminate(
    rows: FloatArray, with_prior: FloatArray, loads: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return loads and forces after eliminating the unknowns of `rows` (unit priors where marked), in fewest rows."""
    used = np.any(rows != 0.0, axis=0)
    rows, with_prior = rows[:, used], with_prior[used]
    if rows.shape[1]:
        priors = np.diag(with_prior)[with_prior > 0.0]
        basis = qr(np.concatenate([rows, priors]), mode="full")[0][:, rows.shape[1] :]
        loads, right = basis[: len(rows)].T @ loads, basis[: len(rows)].T @ right
    left = np.asarray(np.linalg.qr(np.concatenate([loads, right[:, None]], axis=1), mode="r"))
    return np.ascontiguousarray(left[:, :-1]), np.ascontiguousarray(left[:, -1])


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
