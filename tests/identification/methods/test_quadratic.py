"""[jovic2015] (4): the reference as a prior, under constraints; by NumPy's, SciPy's and clarabel's word."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from steelyard import (
    ComInside,
    Frozen,
    IdentifiabilityError,
    LeastMass,
    MassWithin,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    SolverError,
    TotalMass,
    gather_evidence,
    identify,
    load_estimate,
    parse_constraints,
)
from steelyard.identification import choose_parameters
from steelyard.identification.constraints.constraint_system import join_rows
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.methods.quadratic import CANDIDATES, build_quadratic, solve_quadratic
from steelyard.identification.problem import build_problem
from steelyard.regression.rows import base_rows
from tests.identification.constrained_worlds import (
    OFF,
    arm,
    arm_evidence,
    arm_truth,
    greatest_com_error,
    greatest_mirror_error,
    least_eigenvalues,
    least_inertias,
    noisy_evidence,
    scaled,
    semidefinite_minimum,
    with_constraints,
)
from tests.identification.worlds import reference, rich_motion, truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Estimate
    from steelyard.identification.constraints.constraint_system import ConstraintSystem

PHYSICS = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin())
# With so little weight on the prior, noise pushes the arm's links against what is possible.
LOOSE = 1e-3
MANY = ("total_mass=36", "mirror=0", "frozen=torso_link", "mass_within.*knee*=0.05")


@cache
def robot(alpha: float, *constraints: str) -> Estimate:
    return identify(reference("g1"), noisy_evidence(), method="quadratic", alpha=alpha, constraints=constraints)


@cache
def loose_arm(*constraints: Any) -> Estimate:
    return identify(arm(), arm_evidence(), method="quadratic", alpha=LOOSE, constraints=constraints)


def meaning(estimate: Estimate, constraints: Sequence[Any] = ()) -> ConstraintSystem:
    """Gives what binds an estimate, beside what holds of every body."""
    given = [each for text in constraints for each in (parse_constraints([text]) if isinstance(text, str) else [text])]
    return resolve_constraints(estimate.model, [*PHYSICS, *given])


# The minimum, by others.


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("scale", ["spread", "none"])
def test_where_nothing_binds_it_is_ridge_regression(alpha, scale):
    model, evidence = arm(), arm_evidence()
    found = identify(model, evidence, method="quadratic", alpha=alpha, scale=scale, constraints=OFF)
    problem = scaled(model, evidence, found.fit.variance, scale=scale)
    count = len(problem.unknowns)
    stacked = np.vstack([problem.data, np.sqrt(alpha) * np.eye(count)])
    wanted = np.linalg.lstsq(stacked, np.append(problem.goal, np.zeros(count)), rcond=None)[0]
    np.testing.assert_allclose(found.parameters, problem.parameters(wanted), rtol=0.0, atol=1e-8)
    assert found.active == ()
    # How it varies from recording to recording is known as well.
    answer = problem.root @ np.linalg.solve(stacked.T @ stacked, problem.data.T)
    varied = answer @ answer.T * (1.0 if scale == "spread" else found.fit.variance)
    np.testing.assert_allclose(found.noise_covariance, varied, rtol=1e-6, atol=1e-8 * np.max(varied))


def test_constraints_that_do_not_bind_change_nothing():
    free, held = (
        identify(arm(), arm_evidence(), method="quadratic", constraints=each, alpha=1.0) for each in (OFF, ())
    )
    assert held.active == ()
    np.testing.assert_allclose(held.parameters, free.parameters, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("alpha", "constraints"), [(1.0, ()), (1e-2, ()), (1e-2, MANY)], ids=["usual", "loose", "many"]
)
def test_on_a_robot_it_is_the_minimum_of_a_semidefinite_program(alpha, constraints):
    model, found = reference("g1"), robot(alpha, *constraints)
    system = meaning(found, constraints)
    problem = scaled(model, noisy_evidence(), found.fit.variance)
    count = len(problem.unknowns)
    wanted = semidefinite_minimum(
        problem,
        np.vstack([problem.data, np.sqrt(alpha) * np.eye(count)]),
        np.append(problem.goal, np.zeros(count)),
        system.rows,
        least_inertias(system),
    )
    assert found.status == "solved"
    least = problem.cost(problem.parameters(wanted), alpha)
    assert problem.cost(found.parameters, alpha) == pytest.approx(least, rel=1e-6)
    # The cost rises by the square of the distance, or faster.
    apart = np.sum((problem.place(found.parameters) - wanted) ** 2)
    assert alpha * apart < 1e-6 * least
    # And inertias do bind: without them another point is best.
    touching = [
        place for place, least in least_inertias(system).items()
        if least_eigenvalues(found.parameters)[place] < least * (1.0 + 1e-5) + 1e-9
    ]  # fmt: skip
    assert len(touching) >= 3
    assert any("inertia along" in name for name in found.active)


def test_all_directions_written_out_give_the_answer_of_those_that_were_generated():
    model, evidence = arm(), arm_evidence()
    finite = PositiveInertia(directions=5)
    found = loose_arm(finite)
    system = meaning(found, [finite])
    (family,) = system.cut_families
    every = family.every()
    assert len(every) == 4 * 10242 // 2  # v and -v make the same row
    problem = scaled(model, evidence, found.fit.variance)
    count = len(problem.unknowns)
    stacked = np.vstack([problem.data, np.sqrt(LOOSE) * np.eye(count)])
    goal = np.append(problem.goal, np.zeros(count))
    rows = join_rows([system.rows, every], every.matrix.shape[1])
    wanted = problem.parameters(semidefinite_minimum(problem, stacked, goal, rows, {}))
    assert problem.cost(found.parameters, LOOSE) == pytest.approx(problem.cost(wanted, LOOSE), rel=1e-7)
    np.testing.assert_allclose(found.parameters, wanted, rtol=0.0, atol=1e-5)
    assert any("inertia along" in name for name in found.active)
    assert 0 < found.certificate.directions < len(every) // 50
    # The finite set leaves a little more room than all directions do.
    whole = loose_arm()
    assert problem.cost(found.parameters, LOOSE) <= problem.cost(whole.parameters, LOOSE) * (1.0 + 1e-9)
    assert problem.cost(whole.parameters, LOOSE) == pytest.approx(problem.cost(wanted, LOOSE), rel=1e-4)


def test_without_a_scale_it_is_the_papers_equation():
    # (4) on rows stacked as the paper writes them: base rows in SI units. Bounds on masses are SciPy's.
    model, alpha, share = reference("g1"), 0.5, 0.05
    evidence = gather_evidence(model, rich_motion("g1"), weights=None, nuisance=())
    constraints = [*OFF, f"mass_within={share}"]
    found = identify(model, evidence, method="quadratic", alpha=alpha, scale="none", constraints=constraints)
    rows = base_rows(model, rich_motion("g1"))
    flat = rows.reshape(-1, rows.shape[2])
    cad = model.parameters.ravel()
    stacked = np.vstack([flat, np.sqrt(alpha) * np.eye(len(cad))])
    goal = np.append(flat @ truth("g1").ravel(), np.sqrt(alpha) * cad)
    low, high = np.full(len(cad), -np.inf), np.full(len(cad), np.inf)
    low[::10], high[::10] = (1.0 - share) * cad[::10], (1.0 + share) * cad[::10]
    triangle = np.linalg.qr(np.column_stack([stacked, goal]), mode="r")
    wanted = lsq_linear(triangle[:, :-1], triangle[:, -1], bounds=(low, high), tol=1e-14, method="bvls").x
    np.testing.assert_allclose(found.parameters.ravel(), wanted, rtol=0.0, atol=1e-6)
    assert len(found.active) > 5
    assert all("within 5 %" in name for name in found.active)


# The weight of the prior.


@pytest.mark.parametrize("scale", ["spread", "none"])
def test_a_heavy_prior_gives_the_reference_as_near_as_constraints_let(scale):
    model, evidence = arm(), arm_evidence()
    options = {"method": "quadratic", "alpha": 1e12, "scale": scale}
    np.testing.assert_allclose(identify(model, evidence, **options).parameters, model.parameters, rtol=0.0, atol=1e-6)
    # The nearest robot that weighs so much, by how far a model is usually off; in SI units, each link takes the same.
    heavier = identify(model, evidence, constraints=[TotalMass(model.total_mass + 0.4)], **options).parameters
    root = choose_parameters(model).spread if scale == "spread" else np.eye(40)
    masses = np.tile(np.eye(10)[0], 4)
    along = root @ root.T @ masses
    wanted = model.parameters.ravel() + along * (0.4 / (masses @ along))
    np.testing.assert_allclose(heavier.ravel(), wanted, rtol=0.0, atol=1e-6)
    if scale == "none":
        np.testing.assert_allclose(heavier[:, 0] - model.parameters[:, 0], 0.1, rtol=1e-5)


@pytest.mark.parametrize("constraints", [(), ("total_mass=8", "mass_within=0.4", "frozen=part_4")])
def test_a_lighter_prior_never_leaves_more_unexplained(constraints):
    model, evidence = arm(), arm_evidence()
    alphas = 10.0 ** np.arange(4.0, -6.5, -2.0)
    found = [
        identify(model, evidence, method="quadratic", alpha=alpha, constraints=constraints).parameters
        for alpha in alphas
    ]
    costs = np.array([evidence.cost(each) for each in found])
    assert np.all(np.diff(costs) <= 1e-9 * costs[1:])
    assert costs[-1] < 0.99 * costs[0]
    problem = scaled(model, evidence, 1.0)
    lengths = np.array([np.linalg.norm(problem.place(each)) for each in found])
    assert np.all(np.diff(lengths) >= -1e-7 * lengths[1:])


def test_cross_validation_takes_a_weight_that_predicts_best_what_was_left_out():
    model = arm()
    parts = [arm_evidence(seed, count=20, noise=5.0) for seed in range(3)]
    found = identify(model, parts, method="quadratic")
    left = dict.fromkeys(CANDIDATES, 0.0)
    for held in range(3):
        others = [part for place, part in enumerate(parts) if place != held]
        for alpha in CANDIDATES:
            learned = identify(model, others[0] + others[1], method="quadratic", alpha=alpha)
            left[alpha] += parts[held].cost(learned.parameters)
    best = min(left.values())
    assert left[found.options["alpha"]] <= best * (1.0 + 1e-6)
    assert max(left.values()) > 1.001 * best  # there was something to choose
    said = next(note for note in found.notes if "cross-validation" in note)
    rows = sum(part.row_count for part in parts)
    assert f"{found.options['alpha']:.3g}" in said
    assert f"{best / rows:.4g}" in said
    # What it chose is used on all of them together.
    again = identify(model, parts[0] + parts[1] + parts[2], method="quadratic", alpha=found.options["alpha"])
    np.testing.assert_allclose(found.parameters, again.parameters, rtol=0.0, atol=1e-10)


def test_cross_validation_without_a_scale_finds_a_weight_too():
    parts = [arm_evidence(seed, count=20, noise=5.0) for seed in range(2)]
    found = identify(arm(), parts, method="quadratic", scale="none")
    costs = []
    for factor in (1.0, 10.0, 0.1):
        alpha = factor * found.options["alpha"]
        learned = [identify(arm(), part, method="quadratic", scale="none", alpha=alpha).parameters for part in parts]
        costs.append(parts[1].cost(learned[0]) + parts[0].cost(learned[1]))
    assert costs[0] <= min(costs) * (1.0 + 1e-6)


@pytest.mark.parametrize("method", ["truncated", "bounded", "base", "quadratic", "hierarchical"])
def test_a_list_of_evidence_counts_as_its_sum(method):
    parts = [arm_evidence(seed) for seed in range(3)]
    options = {"alpha": 0.1} if method == "quadratic" else {}
    whole, listed = (
        identify(arm(), each, method=method, **options) for each in (parts[0] + parts[1] + parts[2], parts)
    )
    np.testing.assert_allclose(listed.parameters, whole.parameters, rtol=0.0, atol=1e-10)
    assert listed.fit == whole.fit
    alone = identify(arm(), parts[:1], method=method, **options)
    np.testing.assert_array_equal(alone.parameters, identify(arm(), parts[0], method=method, **options).parameters)


# What it says of itself.


@pytest.mark.parametrize("which", ["usual", "many", "arm"])
def test_every_constraint_holds_and_the_certificate_says_so(which):
    found = {"usual": lambda: robot(1e-2), "many": lambda: robot(1e-2, *MANY), "arm": loose_arm}[which]()
    model, parameters = found.model, found.parameters
    assert found.status == "solved"
    assert found.certificate.violation <= 1e-8
    assert found.certificate.stationarity <= 1e-6
    assert abs(found.certificate.complementarity) <= 1e-6
    assert found.certificate.directions > 0
    assert parameters[:, 0].min() >= -1e-8
    assert greatest_com_error(model, parameters) <= 1e-8
    limits = least_inertias(meaning(found))
    if which == "many":
        torso = model.links.index("torso_link")
        del limits[torso]  # a frozen link is as the reference has it
        assert parameters[:, 0].sum() == pytest.approx(36.0, abs=1e-8)
        np.testing.assert_allclose(parameters[torso], model.parameters[torso], rtol=0.0, atol=1e-9)
        assert greatest_mirror_error(model, parameters, ("m", "Ixx", "Iyy", "Izz")) <= 1e-8
        knees = [row for row, link in enumerate(model.links) if "knee" in link]
        shares = parameters[knees, 0] / model.parameters[knees, 0]
        assert np.all(np.abs(shares - 1.0) <= 0.05 + 1e-8)
    eigenvalues = least_eigenvalues(parameters)
    assert min(eigenvalues[place] - least for place, least in limits.items()) >= -1e-8
    assert meaning(found, MANY if which == "many" else ()).worst(parameters)[0] <= 1e-8


def test_a_mirror_share_of_zero_over_all_ten_makes_sides_equal():
    model = reference("g1")
    every = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
    equal = MirrorWithin(0.0, of=every)
    found = identify(model, noisy_evidence(), method="quadratic", constraints=[equal])
    assert greatest_mirror_error(model, found.parameters, every) <= 1e-8
    # Tied unknowns are the same law by another way, but for the weight of the prior: two links count twice.
    tied = identify(model, noisy_evidence(), method="quadratic", mirror=True)
    assert greatest_mirror_error(model, tied.parameters, every) <= 1e-12


def test_what_is_called_active_binds():
    model, evidence = arm(), arm_evidence()
    found = loose_arm("total_mass=8.0", "mass_within.part_2=0.05")
    constraints = (TotalMass(8.0), MassWithin(0.05, "part_2"))
    system = meaning(found, constraints)
    problem = scaled(model, evidence, found.fit.variance)
    before = problem.cost(found.parameters, LOOSE)
    names = set(system.rows.names)
    switched: set[str] = set()
    for name in found.active:
        link = name.split()[0].partition(".")[0].rstrip(":")
        if "inertia along" in name:
            assert re.fullmatch(rf"{link} inertia along \([-\d.]+, [-\d.]+, [-\d.]+\) >= [-\d.e]+", name)
            off: Any = PositiveInertia(None, link)
        else:
            assert name in names
            kind = system.rows.kinds[system.rows.names.index(name)]
            off = {
                "total_mass": TotalMass(None), "mass_within": MassWithin(None, "part_2"), "com": ComInside(None, link),
                "matter": MatterWithin(None, link), "least_mass": LeastMass(None, link),
            }[kind]  # fmt: skip
        if repr(off) in switched:
            continue
        switched.add(repr(off))
        without = loose_arm(*constraints, off)
        assert problem.cost(without.parameters, LOOSE) < before * (1.0 - 1e-9), name
    assert len(switched) >= 3
    # What is not named can go: nothing leans on it.
    if not any("matter within" in name for name in found.active):
        without = loose_arm(*constraints, MatterWithin(None))
        np.testing.assert_allclose(without.parameters, found.parameters, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("constraints", [OFF, ("inertia={least=0.1, directions=2}", "total_mass=8")])
def test_its_covariance_is_that_of_small_changes_of_the_data(constraints):
    # A finite set of directions: the active set is one of planes, and the answer is linear where it does not change.
    model, evidence = arm(), arm_evidence()
    unknowns = choose_parameters(model)
    problem = build_problem(evidence, unknowns)
    system = resolve_constraints(model, [*PHYSICS, *parse_constraints(constraints)])
    found = solve_quadratic(build_quadratic(problem, system, alpha=LOOSE))
    if constraints != OFF:
        assert sum("inertia along" in name for name in found.active) >= 1

    def solved(change):
        moved = problem.system.copy()
        moved[:, -1] += change
        again = solve_quadratic(build_quadratic(replace(problem, system=moved), system, alpha=LOOSE))
        assert set(again.active) == set(found.active)
        return again.unknowns

    # Where the active set stays, the answer is linear; and only what parameters can do to the data moves it.
    left, values, _ = np.linalg.svd(problem.matrix, full_matrices=False)
    basis, step = left[:, values > 1e-10 * values[0]], 1e-4
    answer = np.array([(solved(step * column) - found.unknowns) / step for column in basis.T]).T
    units = np.sqrt(np.diagonal(unknowns.spread @ unknowns.spread.T))  # some are not seen at all, and have no variance
    varied = problem.noise**2 * answer @ answer.T
    np.testing.assert_allclose(
        varied / np.outer(units, units), found.covariance / np.outer(units, units), rtol=1e-5, atol=1e-6
    )
    direction = unknowns.spread @ np.random.default_rng(0).normal(size=len(unknowns))
    moved = answer @ (basis.T @ problem.matrix @ direction)
    np.testing.assert_allclose(found.response @ direction, moved, rtol=0.0, atol=1e-5 * np.max(np.abs(moved)))


@pytest.mark.parametrize("method", ["quadratic", "hierarchical"])
def test_noiseless_data_of_a_robot_that_is_allowed_are_explained(method):
    model, true = reference("g1"), truth("g1")
    off = ("mirror=off", "mass_within=off") if method == "hierarchical" else ()
    assert resolve_constraints(model, PHYSICS).worst(true)[0] == 0.0
    evidence = gather_evidence(model, rich_motion("g1"), nuisance=())
    found = identify(model, evidence, method=method, constraints=off)
    assert found.status == "solved"
    assert evidence.cost(found.parameters) < 1e-12 * evidence.cost(model.parameters)


def test_noiseless_data_give_back_the_arms_base_parameters():
    found = identify(arm(), arm_evidence(1, noise=0.0), method="quadratic")
    base = found.base
    np.testing.assert_allclose(
        base.of(found.parameters.ravel()), base.of(arm_truth().ravel()), rtol=0.0, atol=1e-7 * np.max(base.values)
    )


# How constraints are given.


def test_constraints_come_from_texts_objects_and_the_setup_and_the_last_word_counts():
    model, evidence = arm(), arm_evidence()
    texts = ("total_mass=8.0", "mass_within.part_2=0.05", "frozen=part_4")
    objects = (TotalMass(8.0), MassWithin(0.05, "part_2"), Frozen("part_4"))
    wanted = loose_arm(*texts)
    np.testing.assert_array_equal(loose_arm(*objects).parameters, wanted.parameters)
    set_up = identify(with_constraints(model, objects), evidence, method="quadratic", alpha=LOOSE)
    np.testing.assert_array_equal(set_up.parameters, wanted.parameters)
    assert set_up.options["constraints"] == wanted.options["constraints"]
    assert wanted.total_mass == pytest.approx(8.0, abs=1e-8)
    np.testing.assert_allclose(wanted.parameters[3], model.parameters[3], rtol=0.0, atol=1e-9)
    # The argument comes after the setup.
    other = identify(
        with_constraints(model, objects), evidence, method="quadratic", alpha=LOOSE,
        constraints=["total_mass=8.4", "mass_within.part_2=off"],
    )  # fmt: skip
    assert other.total_mass == pytest.approx(8.4, abs=1e-8)
    np.testing.assert_array_equal(other.parameters, loose_arm("total_mass=8.4", "frozen=part_4").parameters)
    one = identify(model, evidence, method="quadratic", alpha=LOOSE, constraints="total_mass=8.4")
    assert one.total_mass == pytest.approx(8.4, abs=1e-8)


def test_simple_bounds_are_taken_by_the_bounded_method_and_others_are_not():
    model, evidence = arm(), arm_evidence()
    options = {"method": "bounded", "c_max": 300.0}
    found = identify(
        model, evidence, constraints=["least_mass.part_4=0.39", "mass_within.part_2=0.05", "frozen=part_3"], **options
    )
    assert found.parameters[3, 0] >= 0.39 - 1e-12
    assert abs(found.parameters[1, 0] / 2.0 - 1.0) <= 0.05 + 1e-12
    np.testing.assert_allclose(found.parameters[2], model.parameters[2], rtol=0.0, atol=1e-12)
    assert found.parameters[:, 0].min() >= 0.0
    named = identify(model, evidence, lower={"part_4.m": 0.39}, **options)
    both = identify(model, evidence, constraints=["least_mass.part_4=0.3"], lower={"part_4.m": 0.39}, **options)
    np.testing.assert_allclose(both.parameters, named.parameters, rtol=0.0, atol=1e-9)
    for text in ("total_mass=8", "com=bounds", "inertia=0.1", "matter=0.1"):
        with pytest.raises(
            IdentifiabilityError, match=r"takes bounds on single parameters .* use the method 'quadratic'"
        ):
            identify(model, evidence, constraints=[text], **options)


@pytest.mark.parametrize("method", ["truncated", "base"])
def test_methods_without_constraints_say_so(method):
    model, evidence = arm(), arm_evidence()
    with pytest.raises(IdentifiabilityError, match=rf"{method}' takes no constraints; leave them out, or use"):
        identify(model, evidence, method=method, constraints=["total_mass=8"])
    set_up = identify(with_constraints(model, [TotalMass(8.0)]), evidence, method=method)
    assert any("setup's constraints were not used" in note for note in set_up.notes)
    np.testing.assert_array_equal(set_up.parameters, identify(model, evidence, method=method).parameters)
    assert not any("setup's constraints" in note for note in identify(model, evidence, method=method).notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "none"}, r"without a scale, nothing says how much the prior weighs; give alpha, or several motions"),
        ({"scale": "si", "alpha": 1.0}, r"scale is 'si'; write 'spread' or 'none'"),
        ({"alpha": 0.0}, r"alpha is 0.0; it must be a number greater than zero"),
        ({"alpha": -1.0}, r"alpha is -1.0"),
        ({"alpha": float("nan")}, r"alpha is nan"),
        ({"alpha": float("inf")}, r"alpha is inf"),
        ({"alpha": True}, r"alpha is True"),
        ({"alpha": "1"}, r"alpha is '1'"),
        ({"c_max": 10.0}, r"has no option 'c_max'"),
        ({"constraints": ["total_mas=8"]}, r"there is no constraint 'total_mas'; did you mean 'total_mass'"),
        ({"constraints": ["frozen=part_5"]}, r"'part_5' matches no link"),
        ({"constraints": ["total_mass=3", "frozen=part_1", "frozen=part_2"]}, r"total mass = 3"),
        ({"constraints": [8.0]}, r"is no constraint"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(IdentifiabilityError, match=message):
        identify(arm(), arm_evidence(), method="quadratic", **options)


@pytest.mark.parametrize("method", ["quadratic", "hierarchical"])
def test_a_solver_that_gives_up_makes_no_parameters(method, monkeypatch, tmp_path):
    def give_up(*_, **__):
        raise SolverError("no solver converged; loosen a constraint")

    monkeypatch.setattr(f"steelyard.identification.methods.{method}.solve_{method}", give_up)
    found = identify(arm(), arm_evidence(), method=method)
    assert found.status == "failed"
    assert found.certificate is None
    with pytest.raises(SolverError, match=r"failed and has no parameters: No solver converged; loosen a constr"):
        _ = found.parameters
    with pytest.raises(SolverError, match=r"loosen a constraint"):
        _ = found.masses
    assert "loosen a constraint" in found.summary()
    found.save(tmp_path / "failed.json")
    again = load_estimate(tmp_path / "failed.json")
    assert (again.status, again.notes) == (found.status, found.notes)
    with pytest.raises(SolverError, match=r"loosen a constraint"):
        _ = again.parameters


def test_what_certifies_it_is_kept_in_files(tmp_path):
    found = loose_arm("total_mass=8.0")
    found.save(tmp_path / "arm.json")
    again = load_estimate(tmp_path / "arm.json")
    assert found.active
    assert (again.certificate, again.active, again.levels) == (found.certificate, found.active, ())
    assert again.options == found.options
    np.testing.assert_array_equal(again.parameters, found.parameters)
