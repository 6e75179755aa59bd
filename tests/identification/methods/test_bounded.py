"""Bounds on single parameters, by SciPy's word."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from steelyard import IdentifiabilityError, gather_evidence, identify
from steelyard.identification import choose_parameters
from steelyard.identification.methods.bounded import build_bounded, solve_bounded
from steelyard.identification.problem import build_problem
from tests.identification.worlds import reference, rich_motion, with_noise


@pytest.mark.parametrize("scale", ["spread", "none"])
def test_bounds_hold_and_the_minimum_is_the_second_solvers(scale):
    model = reference("g1")
    evidence = gather_evidence(
        model, with_noise(rich_motion("g1"), 3, force=200.0, moment=20.0), weights=None, nuisance=()
    )
    # First moments of the arms alone: few unknowns, all excited, so that the minimum is one point.
    unknowns = choose_parameters(model, ["*shoulder*.my", "*elbow*.mx", "*wrist*.mz", "*hip*.mz"])
    problem = build_problem(evidence, unknowns)
    start = unknowns.start[unknowns.chosen]
    lower, upper = {"*.m*": -0.02}, {"*.m*": 0.02}
    found = solve_bounded(build_bounded(problem, lower=lower, upper=upper, scale=scale, tolerance=1e-12))
    oracle = lsq_linear(problem.matrix, problem.right, bounds=(-0.02 - start, 0.02 - start), tol=1e-14, method="bvls")
    assert found.status == "solved"
    assert np.all(start + found.unknowns >= -0.02 - 1e-12)
    assert np.all(start + found.unknowns <= 0.02 + 1e-12)
    assert len(found.active) > 2
    np.testing.assert_allclose(found.unknowns, oracle.x, rtol=0.0, atol=1e-8)
    assert found.certificate.stationarity < 1e-6
    # A bound that does not bind can be removed.
    held = {name.partition(" ")[0] for name in found.active}
    only = dict.fromkeys(held, -0.02)
    again = solve_bounded(
        build_bounded(problem, lower=only, upper=dict.fromkeys(held, 0.02), scale=scale, tolerance=1e-12)
    )
    np.testing.assert_allclose(again.unknowns, found.unknowns, rtol=0.0, atol=1e-8)


def test_without_binding_bounds_it_is_the_minimum_norm_solution():
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1"), weights=None, nuisance=())
    free = identify(model, evidence, method="truncated", c_max=300.0, scale="none")
    bounded = identify(
        model, evidence, method="bounded", c_max=300.0, scale="none", lower={"*.m": -np.inf}, tolerance=1e-12
    )
    np.testing.assert_allclose(bounded.parameters, free.parameters, rtol=0.0, atol=1e-6)


def test_no_mass_is_negative_with_bounds():
    model = reference("g1")
    evidence = gather_evidence(
        model, with_noise(rich_motion("g1", count=60), 4, force=50.0, moment=5.0), weights=None, nuisance=()
    )
    plain = identify(model, evidence, method="truncated", parameters="L", c_max=1e6, scale="none")
    assert plain.parameters[:, 0].min() < 0.0
    assert any("negative" in note for note in plain.notes)
    bounded = identify(model, evidence, parameters="L", method="bounded", c_max=1e6, scale="none")
    assert bounded.parameters[:, 0].min() >= 0.0
    assert bounded.fit.cost < bounded.fit.reference_cost


def test_bounds_at_zero_tolerance_are_the_second_solvers_minimum_for_all_masses():
    model = reference("g1")
    evidence = gather_evidence(model, with_noise(rich_motion("g1", count=60), 4, force=50.0, moment=5.0), nuisance=())
    problem = build_problem(evidence, choose_parameters(model, "L"))
    found = solve_bounded(build_bounded(problem, tolerance=0.0))
    start = problem.unknowns.start[problem.unknowns.chosen]
    masses = np.array([name.endswith(".m") for name in problem.unknowns.names])
    low = np.where(masses, 0.0, -np.inf) - start
    oracle = lsq_linear(problem.matrix, problem.right, bounds=(low, np.inf), tol=1e-14, max_iter=2000)
    cost = np.sum(np.square(problem.matrix @ found.unknowns - problem.right))
    assert found.status == "solved"
    assert cost <= 2.0 * oracle.cost * (1.0 + 1e-6)
    assert np.all(found.unknowns >= low - 1e-12)


def test_other_bounds_do_not_drop_those_of_masses():
    model = reference("g1")
    evidence = gather_evidence(
        model, with_noise(rich_motion("g1", count=60), 4, force=50.0, moment=5.0), weights=None, nuisance=()
    )
    options = {"parameters": "L", "method": "bounded", "c_max": 1e6, "scale": "none"}
    assert identify(model, evidence, lower={"torso_link.m": 9.0}, **options).parameters[:, 0].min() >= 0.0
    identify(model, evidence, **{**options, "parameters": "*.mx"})
    with pytest.raises(IdentifiabilityError, match="tied to its mirror image"):
        identify(model, evidence, mirror=True, lower={"right_knee_link.m": 0.0}, **options)
