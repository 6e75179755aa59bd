"""From Evidence to an Estimate: one door for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError, IdentifiabilityError
from steelyard.identification.base_parameters import find_base_parameters
from steelyard.identification.bounded import solve_bounded
from steelyard.identification.estimate import Estimate, Fit
from steelyard.identification.notes import write_notes
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.identification.problem import Problem, build_problem
from steelyard.identification.truncated import solve_truncated
from steelyard.model.names import did_you_mean
from steelyard.regression import Evidence
from steelyard.regression.blas import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.identification.base_parameters import BaseParameters
    from steelyard.identification.estimate import Status
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.model import Model
    from steelyard.model.parameters import FloatArray

    Solver = Callable[..., "Solution"]

OPTIONS = {
    "truncated": ("c_max", "scale", "start"),
    "bounded": ("c_max", "scale", "start", "lower", "upper", "tolerance", "iterations"),
    "base": ("start",),
}
"""Options of each method."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What a method found.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        covariance: Of ``z``, from noise and from nuisances that look like parameters, shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, shape (n_unknowns, n_unknowns).
        status: How it went.
        active: Bounds that bind.
        remarks: Notes of the method's own.
    """

    unknowns: FloatArray
    covariance: FloatArray
    response: FloatArray
    status: Status
    active: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def identify(
    model: Model,
    evidence: Evidence,
    *,
    method: str = "truncated",
    parameters: str | Sequence[str] | None = None,
    mirror: bool = False,
    constraints: Sequence[Any] = (),
    **options: Any,
) -> Estimate:
    """Gives the parameters that explain some Evidence, and how far to trust them.

    All methods minimise ``‖Y φ − f‖²`` as gathered; they differ in what they add.

    Args:
        model: The reference: the model with which the Evidence was gathered, or the same robot with other parameters.
        evidence: The Evidence.
        method: "truncated": the smallest change of the reference that explains what the data can tell; "bounded": no
            negative masses, or any bounds; "base": least squares on base parameters alone, without a prior.
        parameters: Which are looked for; see `steelyard.identification.parameter_sets.choose_parameters`.
        mirror: Whether left and right are exact images of each other.
        constraints: None of these methods takes any.
        **options: Of the method; see `solve_truncated`, `solve_bounded`; `start="zero"` begins at no mass at all.

    Raises:
        IdentifiabilityError: The data are too few, or an argument makes no sense.
        EvidenceError: The Evidence is of another model.
    """
    _check(model, evidence, method, constraints, options)
    start = options.pop("start", "reference")
    if start not in ("reference", "zero"):
        raise IdentifiabilityError(f"start is {start!r}; write 'reference' or 'zero'")
    with one_blas_thread():
        unknowns = choose_parameters(model, parameters, mirror=mirror, from_zero=start == "zero")
        problem = build_problem(evidence, unknowns)
        base = find_base_parameters(problem)
        solution = _SOLVERS[method](problem, base, **options)
        found = unknowns.expand(solution.unknowns)
        covariance, determined = _uncertainty(unknowns, solution)
        fit = Fit(
            problem.cost(found),
            problem.cost(model.parameters),
            problem.cost(problem.mass_scale * model.parameters),
            problem.variance,
            problem.freedom,
            evidence.sample_count,
            evidence.effective_count,
            evidence.row_count,
        )
    shared = {"method": method, "parameters": unknowns.label, "mirror": bool(mirror), "start": start, **options}
    estimate = Estimate(
        model=model,
        method=method,
        status=solution.status,
        solution=found,
        covariance=covariance,
        noise_covariance=unknowns.transform @ solution.covariance @ unknowns.transform.T,
        determined=determined.reshape(found.shape),
        base=base,
        active=solution.active,
        nuisance=problem.nuisance(found),
        fit=fit,
        mass_scale=problem.mass_scale,
        notes=(),
        key=evidence.key,
        origins=evidence.origins,
        options=shared,
    )
    return write_notes(estimate, evidence, problem, solution.remarks)


def _check(model: Model, evidence: Evidence, method: str, constraints: Sequence[Any], options: dict[str, Any]) -> None:
    if not isinstance(evidence, Evidence):
        raise IdentifiabilityError(f"evidence is needed, not {type(evidence).__name__}; gather it with gather_evidence")
    if method not in OPTIONS:
        raise IdentifiabilityError(
            f"there is no method {method!r}{did_you_mean(str(method), OPTIONS)}", names=[str(method)]
        )
    for name in options:
        if name not in OPTIONS[method]:
            raise IdentifiabilityError(
                f"the method {method!r} has no option {name!r}{did_you_mean(name, OPTIONS[method])}", names=[name]
            )
    if len(constraints):
        raise IdentifiabilityError(f"the method {method!r} takes no constraints; leave them out")
    sensors = {sensor.name for sensor in model.setup.wrench_sensors}
    missing = sorted({name.rpartition(".")[0] for name in evidence.key.measured} - sensors)
    if missing:
        raise EvidenceError(
            f"the evidence has the wrench sensor {missing[0]!r}, which the setup of {model.name} does not; identify "
            "with the model that gathered it",
            names=missing,
        )
    if evidence.key.links != model.links or evidence.key.tree != model.tree.sha256:
        raise EvidenceError(
            f"the evidence is not about {model.name}: its links or joints differ; gather it with this model"
        )


def _truncated(problem: Problem, base: BaseParameters, **options: Any) -> Solution:
    found = solve_truncated(problem, **options)
    rank = base.rank + len(base.dropped)
    beside = sum(np.isfinite(prior) for prior in problem.evidence.key.priors)
    words = f"{rank} combinations of parameters" + (f" and {beside} nuisances" if beside else "")
    remark = f"{found.kept} of {words} were taken from the data; the others stay at the start."
    return Solution(found.unknowns, found.covariance, found.response, "solved", remarks=(remark,))


def _bounded(problem: Problem, _base: BaseParameters, **options: Any) -> Solution:
    found = solve_bounded(problem, **options)
    remarks = []
    if not found.converged:
        remarks.append(
            f"The search stopped after {found.iterations} steps with {found.gradient:.1e} of its first gradient left; "
            "raise iterations, or lower c_max."
        )
    status: Status = "solved" if found.converged else "stopped"
    return Solution(found.unknowns, found.covariance, found.response, status, found.active, tuple(remarks))


def _base(problem: Problem, base: BaseParameters) -> Solution:
    # The smallest change, by how far a model is usually off, that gives the base parameters their values.
    unknowns = problem.unknowns
    inverse = unknowns.spread @ np.linalg.pinv(base.groupings @ unknowns.spread, rcond=1e-12)
    change = inverse @ (base.values - base.groupings @ unknowns.start[unknowns.chosen])
    remark = (
        "Only the base parameters were found; the parameters of each link are the reference's, changed as little as "
        "gives the base parameters their values. Do not read them one by one."
    )
    response = inverse @ base.groupings
    return Solution(change, inverse @ base.covariance @ inverse.T, response, "solved", remarks=(remark,))


_SOLVERS: dict[str, Solver] = {"truncated": _truncated, "bounded": _bounded, "base": _base}


def _uncertainty(unknowns: ParameterSet, solution: Solution) -> tuple[FloatArray, FloatArray]:
    """Gives the covariance of all parameters' errors, and the share by which each is smaller than the reference's.

    What the data did not decide is off by as much as a model usually is: ``(1 − response) spread``. From zero, it is
    also off by what the reference has there.
    """
    lost = unknowns.spread - solution.response @ unknowns.spread
    away = (unknowns.reference - unknowns.start)[unknowns.chosen]
    if np.any(away):
        lost = np.concatenate([lost, (away - solution.response @ away)[:, None]], axis=1)
    total = unknowns.transform @ (solution.covariance + lost @ lost.T) @ unknowns.transform.T
    before = np.sum(np.square(unknowns.transform @ unknowns.spread), axis=1)
    errors = np.asarray(np.diagonal(total))
    shares = np.divide(errors, before, out=np.ones_like(before), where=before > 0.0)
    return total, np.clip(1.0 - shares, 0.0, 1.0)
