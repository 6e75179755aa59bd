"""What a load would show in the data, once everything else that could explain them has had its say.

Two recordings of one robot, the second with a load ``ψ`` on some link, and the noise of their rows as unit::

    baseline:  Y₀ φ + N₀ η           = f₀
    loaded:    Y φ  + N (η + δ) + Y ψ = f

The robot ``φ`` is the model give or take how far a model may be off, the sensors' errors ``η`` have their priors, and
drift a little, ``δ``, from one recording to the other. With all these normal, eliminating them (one QR) leaves
``right = columns ψ + noise`` with unit noise, exactly; nothing about the load is assumed yet.
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
"""By how much sensors that were not zeroed again change from one recording to the next, as a share of their priors: a
tenth of what is left after zeroing."""

REACH = 0.05
"""How far (m) a load sticks out of the link's own matter, as a standard deviation."""

GUESSED = 3.0
"""By how much the noise counts more where sensors of several kinds are weighed as is usual: the residual tells the
noise of all rows together, but not that moments are three times as noisy as forces make believe."""

_LEAST_NOISE = 1e-6
"""Least noise, as a share of the measured forces: perfect data exist in tests only."""


@dataclass(frozen=True, eq=False)
class PayloadProblem:
    """The problem ``right = columns ψ + noise`` of loads ``ψ``, noise of unit variance.

    Attributes:
        links: Links, in parameter order.
        columns: Shape (n_rows, 10 n_links).
        right: Shape (n_rows,).
        freedom: Degrees of freedom from which the noise is known; infinite where it is known beforehand.
        centres: Where each link's matter is in the model, shape (n_links, 3), m.
        roots: Roots of the covariance of where on each link a load may be, shape (n_links, 3, 3), m.
        mass_scale: Standard deviation of how heavy a load may be, kg.
        directions: Orthonormal basis, in rows' space, of what of the robot the loaded recording shows at all, shape
            (n_rows, n_directions).
        guessed: Whether the rows' noise was guessed; see `GUESSED`.
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
        """Gives the ten columns of a link, shape (n_rows, 10)."""
        return self.columns[:, PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def with_noise(self, factor: float) -> PayloadProblem:
        """Gives the same problem with noise that is so many times greater."""
        return replace(self, columns=self.columns / factor, right=self.right / factor)

    @cached_property
    def silent_errors(self) -> FloatArray:
        """Standard error of the mass of a load that is known to be at each link's centre, shape (n_links,), kg."""
        errors = np.full(len(self.links), np.inf)
        for link, centre in enumerate(self.centres):
            size = float(np.linalg.norm(self.of(link) @ point_parameters(1.0, centre)))
            errors[link] = 1.0 / size if size > 0.0 else np.inf
        return errors


def build_payload_problem(
    model: Model, evidence: Evidence, baseline: Evidence | None, *, cad_spread: float | None, same_sensors: bool
) -> PayloadProblem:
    """Gives the problem of loads on a model's links; see `steelyard.payload.load_search.find_payload`.

    Raises:
        EvidenceError: The evidence is of another model, or the baseline is of another robot or other sensors.
        IdentifiabilityError: The data are too few to tell their noise.
    """
    check_evidence(model, evidence, "evidence")
    if baseline is not None:
        check_evidence(model, baseline, "baseline")
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
    offsets = full[:, count:-1] * scales
    right = full[:, -1] - full[:, :count] @ reference
    shared = [full[:, :count] @ spread, offsets]
    if baseline is None:
        rows, rights = np.concatenate(shared, axis=1), right
        firm = np.concatenate([np.ones(count), held])
    else:
        other_noise, other_freedom = _noise(baseline, evidence, unknowns)
        freedom = min(freedom, other_freedom)
        other = baseline.full_factor / other_noise
        others = other[:, count:-1] * scales
        drift = np.where(held, DRIFT, 1.0)
        nothing = np.zeros_like
        if same_sensors:
            # A column without a prior may differ as it likes: shared, it would have two names for one thing.
            top = [*shared[:1], offsets * held, offsets * drift]
            bottom = [other[:, :count] @ spread, others, nothing(others)]
        else:
            top = [*shared[:1], offsets, nothing(offsets)]
            bottom = [other[:, :count] @ spread, nothing(others), others]
        rows = np.concatenate([np.concatenate(top, axis=1), np.concatenate(bottom, axis=1)])
        rights = np.concatenate([right, other[:, -1] - other[:, :count] @ reference])
        firm = np.concatenate([np.ones(count), held, held])
    loads = np.concatenate([full[:, :count], np.zeros((len(rows) - len(full), count))])
    columns, rights = _eliminate(rows, firm, loads, rights)
    centres, roots = _places(model)
    return PayloadProblem(
        model.links, columns, rights, freedom, centres, roots, 0.1 * model.total_mass,
        _directions(full[:, :count] @ usual, columns @ usual), has_usual_weights(evidence),
    )  # fmt: skip


def check_evidence(model: Model, evidence: Evidence, name: str) -> None:
    """Refuses Evidence of another model.

    Raises:
        EvidenceError: It is.
    """
    if evidence.key.links != model.links or evidence.key.tree != model.tree.sha256:
        raise EvidenceError(
            f"the {name} is not about {model.name}: its links or joints differ; gather it with this model"
        )
    if not np.any(evidence.full_factor[:, -1]):
        raise EvidenceError(f"every measured force of the {name} is zero: check that the sensors are connected")


def point_parameters(mass: float, position: FloatArray) -> FloatArray:
    """Gives the ten parameters of a point mass, shape (10,)."""
    x, y, z = position.tolist()
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    return mass * np.array([1.0, x, y, z, *inertia])


_WORDS = {
    "sensing": "other sensors, or the same ones elsewhere",
    "nuisance": "other nuisances",
    "priors": "other priors of nuisances",
    "gravity": "another direction of gravity",
    "reference": "nuisances of a model with other parameters",
    "instruments": "other instruments",
}


def _check_alike(evidence: Evidence, baseline: Evidence) -> None:
    for aspect, words in _WORDS.items():
        if getattr(evidence.key, aspect) != getattr(baseline.key, aspect):
            raise EvidenceError(f"the baseline has {words}; gather both alike", names=[aspect])
    for origin in evidence.origins:
        if any(origin.sha256 == other.sha256 and origin.start < other.end and other.start < origin.end
               for other in baseline.origins):  # fmt: skip
            raise EvidenceError("the baseline and the evidence hold the same recording; give one without the load")


def _noise(evidence: Evidence, other: Evidence | None, unknowns: ParameterSet) -> tuple[float, float]:
    """Gives the noise of a row and the degrees of freedom behind it; a short recording borrows the other's."""
    try:
        problem = build_problem(evidence, unknowns)
    except IdentifiabilityError:
        if other is None or other.key.weights != evidence.key.weights:
            raise
        problem = build_problem(other, unknowns)
    least = _LEAST_NOISE * float(np.linalg.norm(evidence.factor[:, -1])) / np.sqrt(max(1, evidence.row_count))
    return max(problem.noise, least) * (GUESSED if has_usual_weights(evidence) else 1.0), problem.freedom


def has_usual_weights(evidence: Evidence) -> bool:
    """Tells whether nobody estimated how noisy the sensors are beside each other, and there are several kinds."""
    key = evidence.key
    kinds = {name.rpartition(".")[2][0] for name in key.measured} | ({"torque"} if key.torques else set())
    usual = np.array([*DEFAULT_NOISE.values()])
    known = np.concatenate([usual, FLOOR_SHARE * usual])
    return len(kinds) > 1 and all(np.any(np.isclose(weight, known, rtol=1e-9)) for weight in key.weights)


def _eliminate(
    rows: FloatArray, firm: FloatArray, loads: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gives what is left of loads and forces beside unknowns of unit size (where `firm`), in as few rows as hold it."""
    used = np.any(rows != 0.0, axis=0)
    rows, firm = rows[:, used], firm[used]
    if rows.shape[1]:
        known = np.diag(firm)[firm > 0.0]
        basis = qr(np.concatenate([rows, known]), mode="full")[0][:, rows.shape[1] :]
        loads, right = basis[: len(rows)].T @ loads, basis[: len(rows)].T @ right
    left = np.asarray(np.linalg.qr(np.concatenate([loads, right[:, None]], axis=1), mode="r"))
    return np.ascontiguousarray(left[:, :-1]), np.ascontiguousarray(left[:, -1])


def _directions(before: FloatArray, after: FloatArray) -> FloatArray:
    """Gives a basis of the directions in which the recording says more than a model usually does."""
    _, values, right = singular_vectors(before)
    basis, sizes, _ = singular_vectors(after @ right[values > 1.0].T)
    return np.ascontiguousarray(basis[:, sizes > 1e-9 * np.max(sizes, initial=0.0)])


def _places(model: Model) -> tuple[FloatArray, FloatArray]:
    """Gives where on each link a load may be: around its matter, as wide as a box of the same second moments."""
    bodies = project_to_interior(model.parameters)
    pseudo = to_pseudo_inertia(bodies)
    centres = pseudo[:, :3, 3] / pseudo[:, 3, 3, None]
    second = pseudo[:, :3, :3] / pseudo[:, 3, 3, None, None] - centres[:, :, None] * centres[:, None, :]
    return np.asarray(centres), np.asarray(np.linalg.cholesky(3.0 * second + REACH**2 * np.eye(3)))
