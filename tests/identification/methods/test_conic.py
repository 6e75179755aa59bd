"""Least squares over all that bodies can be: against SciPy's searches, its own conditions, and finite differences."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import least_squares, minimize
from scipy.stats import special_ortho_group

from steelyard import (
    ComInside,
    Frozen,
    IdentifiabilityError,
    LeastMass,
    MassWithin,
    MatterInside,
    MatterWithin,
    PositiveInertia,
    SolverError,
    TotalMass,
)
from steelyard.identification import choose_parameters
from steelyard.identification.constraints.lmi_blocks import body_blocks
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.methods import conic
from steelyard.identification.methods.conic import FLOOR, build_conic, solve_conic
from steelyard.identification.methods.quadratic import build_quadratic, solve_quadratic
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.problem import build_problem
from steelyard.model import is_possible
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import change_frame_matrix, to_pseudo_inertia
from tests.identification.body_factors import bodies_of_factors, derivative_of_bodies, factors_of, stacked
from tests.identification.constrained_worlds import arm, arm_evidence, arm_truth, least_eigenvalues, noisy_evidence
from tests.identification.worlds import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.solution import Solution
    from steelyard.identification.problem import Problem
    from steelyard.model.constraints import Constraint

PHYSICS = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin())
TIGHT = (ComInside("hull"), PositiveInertia(0.5), MatterInside("ellipsoid"), MatterWithin(0.0), TotalMass(6.6))
SETS: dict[str, tuple[Constraint, ...]] = {"none": (), "physics": PHYSICS, "tight": TIGHT}


@cache
def problem(noise: float = 3.0, *, parameters: Any = None) -> Problem:
    return build_problem(arm_evidence(noise=noise), choose_parameters(arm(), parameters))


@cache
def system(name: str = "none") -> ConstraintSystem:
    return resolve_constraints(arm(), SETS[name])


@cache
def solved(name: str = "none", alpha: float = 1.0, noise: float = 3.0) -> Solution:
    return solve_conic(build_conic(problem(noise), system(name), alpha=alpha))


def cost(given: Problem, unknowns: FloatArray, alpha: float) -> float:
    """Gives what is to be minimised, in its own words."""
    scaled = np.linalg.solve(given.unknowns.spread, unknowns)
    left = (given.matrix @ unknowns - given.right) / given.noise
    return float(left @ left + alpha * (scaled @ scaled))


def relative_eigenvalues(parameters: FloatArray, beside: FloatArray) -> FloatArray:
    return np.linalg.eigvals(np.linalg.solve(to_pseudo_inertia(beside), to_pseudo_inertia(parameters))).real


def scaled_difference(given: Problem, one: FloatArray, two: FloatArray) -> float:
    """Gives the greatest difference, in units of how far a model is usually off."""
    return float(np.max(np.abs(np.linalg.solve(given.unknowns.spread, one - two))))


# --- the minimum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_scipy_finds_the_same_minimum_and_no_restart_a_better_one(alpha: float) -> None:
    given, found = problem(), solved("none", alpha)
    assert found.cost == pytest.approx(cost(given, found.unknowns, alpha), rel=1e-9)
    matrix, right = stacked(given, alpha)
    generator = np.random.default_rng(0)
    reached: dict[float, FloatArray] = {}
    for number in range(3):
        start = factors_of(arm().parameters)
        if number:
            start = start * generator.uniform(0.3, 2.0, size=start.shape)
        search = least_squares(
            lambda x: matrix @ (bodies_of_factors(x).ravel() - given.unknowns.start) - right,
            start,
            jac=lambda x: matrix @ derivative_of_bodies(x),
            x_scale="jac", xtol=1e-10, ftol=1e-10, gtol=1e-10, max_nfev=1000,
        )  # fmt: skip
        reached[2.0 * search.cost] = bodies_of_factors(search.x).ravel() - given.unknowns.start
    assert min(reached) >= found.cost * (1.0 - 1e-9)
    assert min(reached) == pytest.approx(found.cost, rel=1e-6)
    assert scaled_difference(given, reached[min(reached)], found.unknowns) < 0.02


def test_scipy_finds_the_same_minimum_under_rows() -> None:
    given, alpha = problem(), 0.1
    rows = resolve_constraints(arm(), (ComInside("bounds"), TotalMass(6.6), MassWithin(0.02, ("part_1", "part_3"))))
    found = solve_conic(build_conic(given, rows, alpha=alpha))
    assert any("CoM" in name or "within" in name for name in found.active)
    matrix, right = stacked(given, alpha)
    upper = np.isfinite(rows.rows.upper) & (rows.rows.upper > rows.rows.lower)
    equal = rows.rows.lower == rows.rows.upper
    sides = np.concatenate([rows.rows.matrix[~equal], -rows.rows.matrix[upper]])
    limits = np.concatenate([rows.rows.lower[~equal], -rows.rows.upper[upper]])
    totals, weighed = rows.rows.matrix[equal], rows.rows.lower[equal]

    def left(x: FloatArray) -> FloatArray:
        return matrix @ (bodies_of_factors(x).ravel() - given.unknowns.start) - right

    search = minimize(
        lambda x: float(left(x) @ left(x)) / found.cost,
        factors_of(arm().parameters),
        jac=lambda x: 2.0 * left(x) @ matrix @ derivative_of_bodies(x) / found.cost,
        method="SLSQP",
        constraints=[
            {
                "type": kind,
                "fun": lambda x, side=side, limit=limit: side @ bodies_of_factors(x).ravel() - limit,
                "jac": lambda x, side=side: side @ derivative_of_bodies(x),
            }
            for kind, side, limit in (("eq", totals, weighed), ("ineq", sides, limits))
        ],
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert rows.worst(bodies_of_factors(search.x))[0] < 1e-7
    assert search.fun == pytest.approx(1.0, abs=1e-4)
    assert search.fun > 1.0 - 1e-7


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("alpha", "noise"), [(1.0, 3.0), (0.01, 3.0), (1e-3, 10.0)])
def test_the_minimum_certifies_itself_and_every_link_can_exist(name: str, alpha: float, noise: float) -> None:
    found, given = solved(name, alpha, noise), problem(noise)
    bodies = given.unknowns.expand(found.unknowns)
    assert found.status == "solved"
    assert found.certificate is not None
    assert found.certificate.dual_residual < 1e-9
    assert found.certificate.gap < 1e-9
    assert found.certificate.primal_residual == system(name).worst(bodies)[0] < 1e-8
    assert found.certificate.active == found.active
    assert np.all(is_possible(bodies))
    scaled = np.linalg.solve(given.unknowns.spread, found.unknowns)
    blocks = build_conic(given, system(name), alpha=alpha).bodies
    least_eigenvalue = min(float(np.linalg.eigvalsh(block.value(scaled))[0]) for block in blocks) + FLOOR
    assert least_eigenvalue == pytest.approx(np.min(relative_eigenvalues(bodies, arm().parameters)), abs=1e-9)
    assert least_eigenvalue > 0.999 * FLOOR
    if name != "none":
        ground = resolve_constraints(arm(), [each for each in SETS[name] if each.kind == "inertia"])
        least = next(iter(ground.cut_families)).least  # type: ignore[attr-defined]
        assert np.all(least_eigenvalues(bodies) >= least - 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_possible_body_nearby_does_better(seed: int) -> None:
    given, found = problem(), solved("none", 0.1)
    here = given.unknowns.expand(found.unknowns)
    generator = np.random.default_rng(seed)
    for size in (1e-5, 1e-3, 1e-1):
        other = bodies_of_factors(factors_of(here) * (1.0 + size * generator.normal(size=here.size)))
        # Between two possible bodies all are possible, and the cost is convex: it rises from the minimum on.
        costs = [cost(given, found.unknowns + share * (other - here).ravel(), 0.1) for share in (0.0, 0.01, 0.1, 1.0)]
        assert np.all(np.diff(costs) > -1e-10 * costs[0])


def test_it_is_the_quadratic_minimum_where_bodies_stay_inside() -> None:
    given = problem()
    for name in ("none", "physics"):
        found = solve_conic(build_conic(given, system(name), alpha=100.0))
        other = solve_quadratic(build_quadratic(given, system(name), alpha=100.0))
        assert found.active == other.active == ()
        assert scaled_difference(given, found.unknowns, other.unknowns) < 1e-9
        np.testing.assert_allclose(found.covariance, other.covariance, atol=1e-9 * np.max(other.covariance))
        np.testing.assert_allclose(found.response, other.response, atol=1e-8)


def test_what_binds_is_named_and_what_does_not_can_be_removed() -> None:
    found = solved("tight", 0.01)
    assert any(
        re.fullmatch(r"part_\d at the boundary of possible bodies \(a (sheet|rod|point)\)", name)
        for name in found.active
    )
    assert any(" inertia >= " in name for name in found.active)
    fewer = [
        constraint for constraint in TIGHT
        if constraint.kind in ("inertia", "total_mass")
        or any(word in name for name in found.active for word in _words(constraint))
    ]  # fmt: skip
    assert len(fewer) < len(TIGHT)
    without = solve_conic(build_conic(problem(), resolve_constraints(arm(), fewer), alpha=0.01))
    assert scaled_difference(problem(), without.unknowns, found.unknowns) < 1e-6


def _words(constraint: Constraint) -> Sequence[str]:
    return {"com": ["CoM"], "matter": ["matter within"], "matter_inside": ["matter inside"]}.get(constraint.kind, [])


def test_without_a_prior_the_data_decide() -> None:
    given = problem()
    free, light = solve_conic(build_conic(given, system(), alpha=0.0)), solved("none", 1e-3)
    assert free.status == "solved"
    assert cost(given, free.unknowns, 0.0) < cost(given, light.unknowns, 0.0)


@pytest.mark.parametrize("noise", [1e-6, 0.0])
@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_exact_data_give_back_all_that_they_see(noise: float, alpha: float) -> None:
    exact = build_problem(arm_evidence(noise=noise), choose_parameters(arm()))
    found = solve_conic(build_conic(exact, system(), alpha=alpha))
    true = arm_truth().ravel() - exact.unknowns.start
    assert found.status == "solved"
    assert np.all(is_possible(exact.unknowns.expand(found.unknowns)))
    size = np.max(np.abs(exact.matrix @ true))
    np.testing.assert_allclose(exact.matrix @ found.unknowns, exact.matrix @ true, atol=(1e-8 + 5.0 * noise) * size)


# --- laws -------------------------------------------------------------------------------------------------------------


def moved(given: Problem, rows: ConstraintSystem, matrix: FloatArray) -> tuple[Problem, ConstraintSystem]:
    """Gives the same problem in other coordinates of the parameters, ``φ' = matrix φ``."""
    inverse, unknowns = np.linalg.inv(matrix), given.unknowns
    other = replace(
        unknowns, start=matrix @ unknowns.start, reference=matrix @ unknowns.reference, spread=matrix @ unknowns.spread
    )
    system_ = np.concatenate([given.system[:, :-1] @ inverse, given.system[:, -1:]], axis=1)
    return replace(given, unknowns=other, system=system_), replace(
        rows, rows=replace(rows.rows, matrix=rows.rows.matrix @ inverse)
    )


def other_coordinates(kind: str) -> FloatArray:
    generator = np.random.default_rng(5)
    if kind == "frames":
        frames = [
            change_frame_matrix(special_ortho_group.rvs(3, random_state=generator), generator.normal(size=3))
            for _ in arm().links
        ]
        return block_diag(*frames)
    if kind == "mirrored frames":
        return block_diag(*[change_frame_matrix(np.diag([1.0, -1.0, 1.0]), [0.1, 0.2, 0.3])] * len(arm().links))
    if kind == "lengths":
        return np.diag(np.tile([1.0, *[10.0] * 3, *[100.0] * 6], len(arm().links)))
    if kind == "masses":
        return 1000.0 * np.eye(arm().parameters.size)
    order = generator.permutation(len(arm().links))
    return np.kron(np.eye(len(order))[order], np.eye(10))


@pytest.mark.parametrize("kind", ["frames", "mirrored frames", "lengths", "masses", "order of links"])
def test_units_frames_and_order_make_no_difference(kind: str) -> None:
    rows = resolve_constraints(arm(), (ComInside("bounds"), TotalMass(6.6), MatterInside("box")))
    found = solve_conic(build_conic(problem(), rows, alpha=0.1))
    assert any("boundary of possible bodies" in name for name in found.active)
    matrix = other_coordinates(kind)
    other = solve_conic(build_conic(*moved(problem(), rows, matrix), alpha=0.1))
    assert other.cost == pytest.approx(found.cost, rel=1e-9)
    back = np.linalg.solve(matrix, other.unknowns)
    assert scaled_difference(problem(), back, found.unknowns) < 1e-6
    carried = np.linalg.solve(matrix, np.linalg.solve(matrix, other.covariance).T)
    np.testing.assert_allclose(carried, found.covariance, atol=1e-6 * np.max(found.covariance))


@pytest.mark.parametrize("name", ["none", "tight"])
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_covariance_and_response_are_how_the_minimum_answers_to_data(name: str, alpha: float) -> None:
    given, found = problem(), solved(name, alpha)
    assert found.active
    step = 1e-4 * given.noise
    steps = []
    for row in range(len(given.right)):
        ends = []
        for sign in (1.0, -1.0):
            changed = given.system.copy()
            changed[row, -1] += sign * step
            ends.append(solve_conic(build_conic(replace(given, system=changed), system(name), alpha=alpha)).unknowns)
        steps.append((ends[0] - ends[1]) / (2.0 * step))
    answer, spread = np.array(steps).T, given.unknowns.spread
    scaled = np.linalg.solve(spread, answer)
    ours = np.linalg.solve(spread, np.linalg.solve(spread, found.covariance).T)
    np.testing.assert_allclose(ours, given.noise**2 * scaled @ scaled.T, atol=1e-5 * np.max(ours))
    response = np.linalg.solve(spread, found.response @ spread)
    np.testing.assert_allclose(response, scaled @ given.matrix @ spread, atol=1e-5)


# --- references, and links that are left alone ------------------------------------------------------------------------


def broken_arm() -> Any:
    """Gives the arm with a third link that breaks the triangle inequality."""
    parameters = arm().parameters.copy()
    parameters[2, 4] *= 40.0
    assert not is_possible(parameters[2])
    return arm().with_parameters(parameters)


def test_an_impossible_reference_counts_as_the_nearest_possible_one() -> None:
    model = broken_arm()
    given = build_problem(arm_evidence(), choose_parameters(model))
    built = build_conic(given, resolve_constraints(model, ()))
    found = solve_conic(built)
    assert found.status == "solved"
    assert built.projected == ("part_3",)
    assert np.all(is_possible(given.unknowns.expand(found.unknowns)))
    assert build_conic(problem(), system()).projected == ()


def test_links_that_are_frozen_or_not_looked_for_stay_as_they_are() -> None:
    model = broken_arm()
    given = build_problem(arm_evidence(), choose_parameters(model))
    found = solve_conic(build_conic(given, resolve_constraints(model, (Frozen("part_3"),))))
    bodies = given.unknowns.expand(found.unknowns)
    np.testing.assert_allclose(bodies[2], model.parameters[2], atol=1e-12)
    assert np.all(is_possible(bodies[[0, 1, 3]]))
    given = build_problem(arm_evidence(), choose_parameters(model, ["part_1", "part_4"]))
    built = build_conic(given, resolve_constraints(model, ()))
    bodies = given.unknowns.expand(solve_conic(built).unknowns)
    np.testing.assert_array_equal(bodies[1:3], model.parameters[1:3])
    assert built.projected == ()
    assert np.all(is_possible(bodies[[0, 3]]))


def test_tied_links_are_one_block_and_stay_images() -> None:
    model = reference("g1")
    unknowns = choose_parameters(model, mirror=True)
    given = build_problem(noisy_evidence(), unknowns)
    pairs = find_pairs(model)
    blocks, _ = body_blocks(Unknowns(given, "spread"), resolve_constraints(model, ()), FLOOR)
    assert len(blocks) == len(model.links) - len(pairs)
    found = solve_conic(build_conic(given, resolve_constraints(model, (ComInside(), PositiveInertia()))))
    bodies = given.unknowns.expand(found.unknowns)
    assert found.status == "solved"
    assert np.all(is_possible(bodies))
    for pair in pairs:
        np.testing.assert_allclose(pair.image(bodies[pair.left]), bodies[pair.right], atol=1e-12)


def test_a_humanoid_with_many_constraints_is_solved() -> None:
    model = reference("g1")
    given = build_problem(noisy_evidence(), choose_parameters(model))
    asked = (
        *PHYSICS, ComInside("hull", "*hip*"), PositiveInertia(0.5, "*knee*", directions=2), TotalMass(35.0),
        Frozen("torso_link"), MassWithin(0.1, "*ankle*"),
    )  # fmt: skip
    constraints = resolve_constraints(model, asked)
    found = solve_conic(build_conic(given, constraints))
    bodies = given.unknowns.expand(found.unknowns)
    assert found.status == "solved"
    assert found.certificate is not None
    assert found.certificate.stationarity < 1e-9
    assert constraints.worst(bodies)[0] < 1e-8
    assert np.all(is_possible(bodies))
    assert np.sum(bodies[:, 0]) == pytest.approx(35.0, abs=1e-9)
    assert not np.all(is_possible(given.unknowns.expand(solve_quadratic(build_quadratic(given, constraints)).unknowns)))


# --- what is refused --------------------------------------------------------------------------------------------------


def test_constraints_that_no_possible_body_satisfies_are_named() -> None:
    # Masses alone are looked for: with so little, none of the given inertias could be.
    given = problem(parameters="*.m")
    with pytest.raises(
        IdentifiabilityError, match=r"no parameters satisfy .*total mass = 1.*together; loosen"
    ) as caught:
        solve_conic(build_conic(given, resolve_constraints(arm(), (TotalMass(1.0),))))
    assert "total mass = 1" in caught.value.names
    assert any(name.endswith(" being a possible body") for name in caught.value.names)


@pytest.mark.parametrize(
    "options", [{"alpha": -1.0}, {"alpha": np.nan}, {"alpha": True}, {"floor": 0.5}, {"floor": 0.0}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(IdentifiabilityError, match=f"{next(iter(options))} is .*; it must be a number"):
        solve_conic(build_conic(problem(), system(), **options))


def test_a_solver_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(programme: Any, *, turned: bool) -> Any:
        rows = len(programme.rows) + sum(block.size * (block.size + 1) // 2 for block in programme.blocks)
        return SimpleNamespace(
            status="NumericalError", iterations=3, x=np.full(len(programme.centre), np.nan), z=np.zeros(rows)
        )

    monkeypatch.setattr(conic, "solve_by_clarabel", failing)
    with pytest.raises(SolverError, match=r"was not solved \(NumericalError\); loosen a constraint") as caught:
        solve_conic(build_conic(problem(), system()))
    assert caught.value.status == "NumericalError"
