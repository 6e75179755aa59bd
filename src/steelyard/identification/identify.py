"""From Evidence to an Estimate, by any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError, IdentifiabilityError, SolverError
from steelyard.identification.estimate.base_parameters import find_base_parameters
from steelyard.identification.estimate.estimate import Estimate, Fit
from steelyard.identification.estimate.estimate_notes import write_notes
from steelyard.identification.estimate.nuisance_fit import fit_nuisances
from steelyard.identification.estimate.sensor_errors import read_sensor_errors
from steelyard.identification.methods.reference_bodies import about_projection, impossible_frozen, possible_model
from steelyard.identification.methods.registry import OPTIONS, SOLVERS, refuse_any
from steelyard.identification.methods.solution import PHYSICAL, Solution, Task
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.identification.problem import build_problem
from steelyard.kinematics import one_blas_thread
from steelyard.model import CONSTRAINT_CLASSES, parse_constraints
from steelyard.regression import Evidence, singular_vectors
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.model import Constraint, Model

_ROUNDING = 1e-12
"""Variance, relative to the usual one of a model, that is rounding: a millionth of a deviation. Set by judgement."""


def identify(
    model: Model,
    evidence: Evidence | Sequence[Evidence],
    *,
    method: str = "geometric",
    parameters: str | Sequence[str] | None = None,
    mirror: bool = False,
    constraints: Sequence[Constraint | str] = (),
    **options: Any,
) -> Estimate:
    """Estimate the parameters from Evidence, with their uncertainty.

    All methods minimise ``‖Y φ − f‖²`` as gathered; they differ in what they add.

    Args:
        model: The reference: the model with which the Evidence was gathered, or the same robot with other parameters.
        evidence: The Evidence; or that of several motions, which counts as their sum, and lets "quadratic" choose its
            prior's weight by cross-validation.
        method: "geometric": the most probable possible robot, the deviation of the reference estimated from the data;
            "conic": least squares with the reference as a prior, over possible bodies; "truncated": the smallest change
            of the reference that explains what the data observe; "bounded": no negative masses, or any bounds;
            "base": least squares on base parameters alone, without a prior; "quadratic": the reference as a prior,
            under constraints; "hierarchical": physics outranks plausibility, which outranks the data, which outrank the
            reference.
        parameters: Which are unknown; see `steelyard.identification.parameter_sets.choose_parameters`.
        mirror: Whether left and right are exact images of each other.
        constraints: `TotalMass(63.2)` or `"total_mass=63.2"`, in addition to the setup's and the method's default
            ones; the last that names a link counts. "bounded" takes bounds on single parameters, "truncated" and "base"
            take none, the others take all.
        **options: Of the method. "geometric": `spread`, the relative deviation of the reference where it is known (0.2,
            or by pattern of links, {"torso*": 0.4}), and `noise_factor`. "geometric" and "conic": `draws`, the least
            number of independent draws behind standard errors where constraints are active; that takes some seconds
            for a humanoid, and 0 leaves it out. Of the others see `build_conic`, `build_truncated`, `build_bounded`,
            `build_quadratic`, `build_hierarchical` (its `levels`: `read_levels`); `start="zero"` begins at no mass at
            all.

    Raises:
        IdentifiabilityError: The data are too few, constraints contradict each other, or an argument is invalid.
        EvidenceError: The Evidence is of another model.
    """
    parts = (evidence,) if isinstance(evidence, Evidence) else _parts(evidence)
    for part in parts:
        _check(model, part, method, options)
    evidence = sum(parts[1:], start=parts[0])
    wanted = _wanted(model, method, constraints)
    start = options.pop("start", "reference")
    if start not in ("reference", "zero"):
        raise IdentifiabilityError(f"start is {start!r}; write 'reference' or 'zero'")
    with one_blas_thread():
        possible: Model = model
        projected: list[str] = []
        unknowns = choose_parameters(model, parameters, mirror=mirror, from_zero=start == "zero")
        if method in PHYSICAL:
            frozen = impossible_frozen(model, wanted, unknowns)
            unknowns = unknowns.without_links(frozen)
        if method == "geometric":
            # A prior that is infinite for impossible bodies cannot be centred on one.
            possible, projected = possible_model(model, unknowns)
            unknowns = choose_parameters(possible, parameters, mirror=mirror).without_links(frozen)
        # Without any data at all, a prior is enough; with too few, "conic" has no noise to weight them by.
        few = method == "geometric" or (method in PHYSICAL and not np.any(evidence.full_factor))
        problem = build_problem(evidence, unknowns, few=few)
        base = find_base_parameters(problem, few=method in PHYSICAL)
        try:
            solution = SOLVERS[method](Task(possible, problem, base, wanted, parts), **options)
            solution = replace(solution, remarks=(*solution.remarks, *about_projection(projected, model)))
        except SolverError as error:
            nothing = np.zeros((len(unknowns), len(unknowns)))
            solution = Solution(
                nothing[:, 0], nothing, nothing, "failed", remarks=(f"{str(error)[:1].upper()}{str(error)[1:]}.",)
            )
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
    shared |= solution.options or {}
    scale = float(shared.get("noise_factor") or 1.0)
    nuisance_fit = fit_nuisances(problem, scale)
    nuisance = nuisance_fit.at(found)
    errors = read_sensor_errors(evidence, found, nuisance, covariance, scale * problem.noise)
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
        nuisance=nuisance,
        nuisance_fit=nuisance_fit,
        sensor_errors=errors,
        preparation=evidence.preparation,
        fit=fit,
        mass_scale=problem.mass_scale,
        notes=(),
        key=evidence.key,
        origins=evidence.origins,
        options=shared,
        certificate=solution.certificate,
        levels=solution.levels,
        posterior=solution.posterior,
        belief_freedom=solution.belief_freedom,
    )
    return write_notes(estimate, evidence, problem, solution.remarks)


def _parts(given: Any) -> tuple[Evidence, ...]:
    """Return the Evidence of several motions."""
    wrong = given
    if isinstance(given, Sequence) and len(given) and not isinstance(given, str):
        others = [part for part in given if not isinstance(part, Evidence)]
        if not others:
            return tuple(given)
        wrong = others[0]
    raise IdentifiabilityError(f"evidence is needed, not {type(wrong).__name__}; gather it with gather_evidence")


def _wanted(model: Model, method: str, constraints: Sequence[Constraint | str]) -> tuple[Constraint, ...]:
    """Return the setup's constraints and the caller's."""
    if isinstance(constraints, str) or not isinstance(constraints, Sequence):
        constraints = [constraints]
    refuse_any(method, constraints)
    given: list[Constraint] = []
    for constraint in constraints:
        given += parse_constraints([constraint], "constraints") if isinstance(constraint, str) else [constraint]
    wrong = [each for each in given if not isinstance(each, tuple(CONSTRAINT_CLASSES.values()))]
    if wrong:
        raise IdentifiabilityError(f"{wrong[0]!r} is no constraint; write e.g. TotalMass(63.2), or 'total_mass=63.2'")
    return (*model.setup.constraints, *given)


def _check(model: Model, evidence: Evidence, method: str, options: dict[str, Any]) -> None:
    if method not in OPTIONS:
        raise IdentifiabilityError(
            f"there is no method {method!r}{did_you_mean(str(method), OPTIONS)}", names=[str(method)]
        )
    for name in options:
        if name not in OPTIONS[method]:
            raise IdentifiabilityError(
                f"the method {method!r} has no option {name!r}{did_you_mean(name, OPTIONS[method])}", names=[name]
            )
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


def _uncertainty(unknowns: ParameterSet, solution: Solution) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of all parameters' errors, and the share by which the data reduced each variance.

    What neither the data nor an equation decided deviates as a model usually does: ``(1 − response) spread``. From
    zero, it also misses what the reference has there. Both sides of the share count equations, so that it is due to
    the data alone.
    """
    usual = np.sum(np.square(unknowns.transform @ unknowns.spread), axis=1)
    if solution.belief is not None:
        after, before = (unknowns.transform @ each @ unknowns.transform.T for each in solution.belief)
        total = after if solution.errors is None else unknowns.transform @ solution.errors @ unknowns.transform.T
        return total, _narrowed(np.asarray(np.diagonal(after)), np.asarray(np.diagonal(before)), usual)
    spread = unknowns.spread
    if solution.known is not None and len(solution.known[0]):
        rows, half = solution.known
        left, sizes, right = singular_vectors(rows @ spread)
        seen = sizes > 1e-9 * np.max(sizes, initial=0.0)
        fixed = spread @ right[seen].T
        # What an equation fixes has no error; what an interval bounds, at most its half width.
        spread = np.concatenate([spread - fixed @ right[seen], fixed / sizes[seen] @ left[:, seen].T * half], axis=1)
    lost = spread - solution.response @ spread
    away = (unknowns.reference - unknowns.start)[unknowns.chosen]
    if np.any(away):
        lost = np.concatenate([lost, (away - solution.response @ away)[:, None]], axis=1)
    total = unknowns.transform @ (solution.covariance + lost @ lost.T) @ unknowns.transform.T
    before = np.sum(np.square(unknowns.transform @ spread), axis=1)
    return total, _narrowed(np.asarray(np.diagonal(total)), before, usual)


def _narrowed(after: FloatArray, before: FloatArray, usual: FloatArray) -> FloatArray:
    """Return the share by which each variance was reduced; none where it was rounding before."""
    shares = np.divide(after, before, out=np.ones_like(before), where=before > _ROUNDING * usual)
    return np.clip(1.0 - shares, 0.0, 1.0)
