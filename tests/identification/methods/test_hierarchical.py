"""[jovic2016] (7) and any hierarchy that a user writes; by NumPy's and clarabel's word."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from steelyard import (
    ComInside,
    IdentifiabilityError,
    LeastMass,
    MassWithin,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    TotalMass,
    gather_evidence,
    identify,
    load_estimate,
    parse_constraints,
)
from steelyard.identification import choose_parameters
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.methods.hierarchical import build_hierarchical, solve_hierarchical
from steelyard.identification.methods.priority_levels import LEVELS, read_levels
from steelyard.identification.problem import build_problem
from steelyard.regression.rows import base_rows
from tests.identification.constrained_worlds import (
    arm,
    arm_evidence,
    greatest_com_error,
    least_eigenvalues,
    least_inertias,
    list_rows,
    noisy_evidence,
    scaled,
    semidefinite_minimum,
    with_constraints,
)
from tests.identification.hierarchy_oracles import Group, costs_at, solve_by_clarabel
from tests.identification.worlds import reference, rich_motion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Estimate, Evidence, Model
    from steelyard.arrays import FloatArray
    from tests.identification.constrained_worlds import Scaled

USUAL = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin(), MassWithin(0.35))
PHYSICS = [["least_mass", "total_mass", "com", "inertia", "matter", "frozen"], ["mirror", "mass_within"]]
# Least squares, as in the paper.
PLAIN: dict[str, Any] = {"tolerance": 0.0}
# Few enough that a plain cascade of conic programs is solved in a second.
SOME = ("*knee*", "*hip_pitch*", "*hip_yaw*", "torso_link")
FINITE = "inertia={least=0.1, directions=0}"


def hierarchy(model: Model, evidence: Evidence, **options: Any) -> Estimate:
    return identify(model, evidence, method="hierarchical", **{**PLAIN, **options})


@cache
def robot(*constraints: str) -> Estimate:
    return hierarchy(reference("g1"), noisy_evidence(), constraints=constraints)


@cache
def heavy_arm() -> Estimate:
    """Gives an arm that must weigh half as much again, where no link may by more than a third."""
    return hierarchy(arm(), arm_evidence(), constraints=[f"total_mass={1.5 * arm().total_mass}"])


def kept_directions(problem: Scaled) -> tuple[FloatArray, FloatArray]:
    """Gives the data in the directions in which they say more than the model does: above the noise, which is one."""
    left, values, right = np.linalg.svd(problem.data, full_matrices=False)
    kept = values > max(1.0, 1e-7 * values[0])
    return values[kept, None] * right[kept], left[:, kept].T @ problem.goal


def data_cost(problem: Scaled, parameters: FloatArray) -> float:
    """Gives what the data level costs: in the kept directions, and what the start leaves in all others."""
    data, goal = kept_directions(problem)
    left = data @ problem.place(parameters) - goal
    return problem.noise**2 * float(left @ left + problem.goal @ problem.goal - goal @ goal)


def written_levels(
    model: Model, problem: Scaled, constraints: Sequence[Any], levels: dict[str, tuple[str, ...]]
) -> list[Group]:
    """Gives levels for other solvers: rows of length one, on unknowns of unit size."""
    system = resolve_constraints(model, constraints)
    count = len(problem.unknowns)
    groups = []
    for name, kinds in levels.items():
        rows = list_rows(system.of(kinds))
        matrix = rows.matrix @ problem.transform
        lengths = np.linalg.norm(matrix, axis=1)
        shift = rows.matrix @ problem.unknowns.start
        kept = lengths > 1e-12
        parts = [(matrix / np.where(kept, lengths, 1.0)[:, None])[kept]]
        lower = [((rows.lower - shift) / np.where(kept, lengths, 1.0))[kept]]
        upper = [((rows.upper - shift) / np.where(kept, lengths, 1.0))[kept]]
        if "data" in kinds:
            data, goal = kept_directions(problem)
            parts.append(problem.noise * data)
            lower.append(problem.noise * goal)
            upper.append(problem.noise * goal)
        if "reference" in kinds:
            parts.append(np.eye(count))
            lower.append(np.zeros(count))
            upper.append(np.zeros(count))
        groups.append(Group(name, np.vstack(parts), np.concatenate(lower), np.concatenate(upper)))
    return groups


def assert_costs_rise(found: Estimate) -> None:
    for level in found.levels:
        costs = np.array([*level.before, level.cost])
        assert np.all(np.diff(costs) >= -1e-9 * costs[1:] - 1e-12), level


# The minimum, by others.


def test_data_above_nothing_is_the_pseudo_inverse():
    # (5)-(6), on rows stacked as the paper writes them.
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1"), weights=None, nuisance=())
    found = hierarchy(model, evidence, levels=[["data"], ["reference"]], scale="none", start="zero").parameters.ravel()
    rows = base_rows(model, rich_motion("g1"))
    flat = rows.reshape(-1, rows.shape[2])
    full = evidence.full_factor
    wanted = np.linalg.pinv(flat, rcond=1e-7) @ (flat @ np.linalg.lstsq(full[:, :-1], full[:, -1], rcond=1e-10)[0])
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-7 * np.max(np.abs(wanted)))


def test_noisy_data_above_nothing_are_the_pseudo_inverse_too():
    model, evidence = arm(), arm_evidence()
    found = hierarchy(model, evidence, levels=[["data"], ["reference"]], scale="none", start="zero")
    full = evidence.full_factor
    wanted = np.linalg.pinv(full[:, :-1], rcond=1e-7) @ full[:, -1]
    np.testing.assert_allclose(found.parameters.ravel(), wanted, rtol=0.0, atol=1e-8 * np.max(np.abs(wanted)))
    assert found.levels[0].cost == pytest.approx(evidence.cost(found.parameters), rel=1e-9)
    assert found.levels[1].cost == pytest.approx(np.sum(wanted**2), rel=1e-8)


@pytest.mark.parametrize("extra", [(), ("total_mass=31", "mass_within=0.02", "mirror=0.02"), ("mirror=0",)])
def test_each_level_costs_what_a_plain_cascade_of_conic_programs_finds_on_a_robot(extra):
    model, evidence = reference("g1"), noisy_evidence()
    found = hierarchy(model, evidence, parameters=SOME, constraints=[FINITE, *extra])
    constraints = [*USUAL, MirrorWithin(), *parse_constraints([FINITE, *extra])]
    problem = scaled(model, evidence, found.fit.variance, parameters=SOME)
    groups = written_levels(model, problem, constraints, LEVELS)
    _, wanted = solve_by_clarabel(groups)
    costs = np.array([level.cost for level in found.levels])
    shift = np.array([0.0, 0.0, costs[2] - float(np.sum(_left(problem, found.parameters) ** 2)), 0.0])
    np.testing.assert_allclose(costs - shift, wanted, rtol=2e-6, atol=1e-9)
    # And so they are at the parameters that came out of it.
    np.testing.assert_allclose(costs_at(groups, problem.place(found.parameters)), wanted, rtol=2e-6, atol=1e-9)
    assert costs[2] == pytest.approx(data_cost(problem, found.parameters), rel=1e-9)


def _left(problem: Scaled, parameters: FloatArray) -> FloatArray:
    data, goal = kept_directions(problem)
    return problem.noise * (data @ problem.place(parameters) - goal)


def test_on_a_whole_robot_the_data_cost_what_a_semidefinite_program_finds():
    model, found = reference("g1"), robot()
    system = resolve_constraints(model, [*USUAL, MirrorWithin()])
    assert system.worst(found.parameters)[0] <= 1e-8  # so that both levels above hold
    problem = scaled(model, noisy_evidence(), found.fit.variance)
    data, goal = kept_directions(problem)
    # What the data do not see is held by next to nothing: an interior point wants one minimum.
    small = 1e-5 * np.eye(len(problem.unknowns))
    wanted = semidefinite_minimum(
        problem, np.vstack([data, small]), np.append(goal, np.zeros(len(small))), system.rows, least_inertias(system)
    )
    least = np.sum((data @ wanted - goal) ** 2)
    reached = np.sum((data @ problem.place(found.parameters) - goal) ** 2)
    assert reached <= least + 1e-6 * (1.0 + least)
    unexplained = problem.goal @ problem.goal - goal @ goal
    assert found.levels[2].cost == pytest.approx(problem.noise**2 * (least + unexplained), rel=1e-6)


# Laws of a hierarchy.


def test_a_lower_level_never_worsens_a_higher_one():
    model, evidence = arm(), arm_evidence()
    whole = [*PHYSICS, ["data"], ["reference"]]
    constraints = [f"total_mass={1.5 * model.total_mass}", "mirror=off"]
    costs = []
    for count in (3, 4):
        found = hierarchy(model, evidence, levels=whole[:count], constraints=constraints)
        costs.append([level.cost for level in found.levels])
        problem = scaled(model, evidence, found.fit.variance)
        assert found.levels[2].cost == pytest.approx(data_cost(problem, found.parameters), rel=1e-8)
    np.testing.assert_allclose(costs[1][:3], costs[0], rtol=1e-8, atol=1e-12)
    assert costs[0][1] > 0.01  # the levels do disagree


@pytest.mark.parametrize("which", ["robot", "heavy", "turned"])
def test_what_stands_above_never_makes_a_level_cheaper(which):
    if which == "turned":
        levels = [["reference"], ["mass_within", "data"], [TotalMass(9.0), "inertia"]]
        found = hierarchy(arm(), arm_evidence(), levels=levels)
    else:
        found = robot() if which == "robot" else heavy_arm()
    assert [len(level.before) for level in found.levels] == list(range(len(found.levels)))
    assert_costs_rise(found)


def test_a_total_mass_that_nothing_plausible_has_is_held_and_told():
    model, found = arm(), heavy_arm()
    assert found.status in ("solved", "weak")
    assert found.total_mass == pytest.approx(1.5 * model.total_mass, abs=1e-8)
    assert found.certificate.violation <= 1e-8
    physics, plausible, *_ = found.levels
    assert physics.broken == ()
    assert physics.cost <= 1e-16
    assert {name.partition(" of")[0] for name in plausible.broken} == {f"{link}.m within 35 %" for link in model.links}
    assert plausible.cost > 0.0
    assert any("'plausibility' could not be satisfied" in note and ".m within 35 %" in note for note in found.notes)
    # All are heavier, and no more than needed of what a link usually is off: nearest to where they may be.
    limits = 1.35 * model.parameters[:, 0]
    assert np.all(found.parameters[:, 0] > limits)
    rows = resolve_constraints(model, [MassWithin(0.35)]).rows.matrix @ choose_parameters(model).spread
    over = (found.parameters[:, 0] - limits) / np.linalg.norm(rows, axis=1)
    assert plausible.cost == pytest.approx(np.sum(over**2), rel=1e-6)
    np.testing.assert_allclose(over * np.linalg.norm(rows, axis=1) / np.linalg.norm(rows, axis=1) ** 2,
                               over[0] / np.linalg.norm(rows[0]), rtol=1e-5)  # fmt: skip


@pytest.mark.parametrize("which", ["usual", "heavy"])
def test_every_constraint_that_can_hold_does(which):
    found = robot() if which == "usual" else heavy_arm()
    model, parameters = found.model, found.parameters
    assert found.status == "solved"
    assert found.certificate.violation <= 1e-8
    assert found.certificate.stationarity <= 1e-6
    assert abs(found.certificate.complementarity) <= 1e-6
    assert parameters[:, 0].min() >= -1e-8
    assert greatest_com_error(model, parameters) <= 1e-8
    eigenvalues = least_eigenvalues(parameters)
    limits = least_inertias(resolve_constraints(model, USUAL))
    assert min(eigenvalues[place] - least for place, least in limits.items()) >= -1e-8
    if which == "usual":
        shares = parameters[:, 0] / model.parameters[:, 0]
        assert np.all(np.abs(shares - 1.0) <= 0.35 + 1e-8)
        assert resolve_constraints(model, [MirrorWithin()]).rows.violation(parameters).max() <= 1e-8


def test_what_is_called_active_has_a_name_and_binds():
    model, evidence, found = reference("g1"), noisy_evidence(), robot()
    system = resolve_constraints(model, [*USUAL, MirrorWithin()])
    known = set(system.rows.names)
    assert found.active
    for name in found.active:
        assert name in known or name.partition(" along")[0] in system.cut_families[0].names, name
    # Rows that are tight by name are tight in numbers.
    values = system.rows.matrix @ found.parameters.ravel()
    room = np.minimum(values - system.rows.lower, system.rows.upper - values) / np.linalg.norm(
        system.rows.matrix, axis=1
    )
    tight = {system.rows.names[row] for row in np.flatnonzero(room < 1e-8)}
    assert {name for name in found.active if name in known} <= tight
    # Without the mirror's share, the data or the reference get what they were denied.
    assert any("'s image" in name for name in found.active)
    free = hierarchy(model, evidence, constraints=["mirror=off"])
    costs, freed = ([level.cost for level in each.levels] for each in (found, free))
    assert freed[2] < costs[2] * (1.0 - 1e-9) or (freed[2] <= costs[2] * (1.0 + 1e-9) and freed[3] < costs[3])


# Levels that a user writes.


def test_data_and_reference_in_one_level_are_the_quadratic_program():
    model, evidence = arm(), arm_evidence()
    levels = [["least_mass", "com", "inertia", "matter"], ["data", "reference"]]
    options = {"scale": "none", "constraints": [FINITE]}  # on a cone, a cut that is missed by 1e-9 moves it by 1e-5
    found = hierarchy(model, evidence, levels=levels, **options)
    wanted = identify(model, evidence, method="quadratic", alpha=1.0, **options)
    assert any("inertia" in name for name in found.active)
    np.testing.assert_allclose(found.parameters, wanted.parameters, rtol=0.0, atol=1e-8)
    assert found.levels[1].contents == ("data", "reference")
    np.testing.assert_allclose(found.noise_covariance, wanted.noise_covariance, rtol=1e-5, atol=1e-10)


def test_the_order_of_levels_decides():
    model, evidence = arm(), arm_evidence()
    heavy = TotalMass(1.5 * model.total_mass)
    physics = ["least_mass", "com", "inertia", "matter"]
    first = hierarchy(model, evidence, levels=[physics, ["mass_within"], [heavy], ["data"]])
    second = hierarchy(model, evidence, levels=[physics, [heavy], ["mass_within"], ["data"]])
    assert np.all(first.parameters[:, 0] <= 1.35 * model.parameters[:, 0] * (1.0 + 1e-8))
    assert first.total_mass == pytest.approx(1.35 * model.total_mass, rel=1e-6)
    assert first.levels[2].broken == (f"total mass = {heavy.mass:g}",)
    assert second.total_mass == pytest.approx(heavy.mass, rel=1e-8)
    assert len(second.levels[2].broken) == 4
    # A reference above the data leaves them nothing.
    last = hierarchy(model, evidence, levels=[["reference"], ["data"]])
    np.testing.assert_allclose(last.parameters, model.parameters, rtol=0.0, atol=1e-9)
    assert last.levels[1].cost == pytest.approx(evidence.cost(model.parameters), rel=1e-9)


def test_constraints_may_stand_in_levels_and_outrank_the_setup():
    model, evidence = arm(), arm_evidence()
    levels = [[LeastMass(0.3), "com", "inertia", "matter", TotalMass(8.0)], [MassWithin(0.2)], ["data"], ["reference"]]
    found = hierarchy(model, evidence, levels=levels)
    asked = hierarchy(model, evidence, constraints=["least_mass=0.3", "total_mass=8.0", "mass_within=0.2"])
    np.testing.assert_allclose(found.parameters, asked.parameters, rtol=0.0, atol=1e-9)
    assert found.total_mass == pytest.approx(8.0, abs=1e-8)
    set_up = with_constraints(model, [TotalMass(7.0), MassWithin(0.1, "part_2")])
    over = hierarchy(set_up, evidence, levels=levels)
    np.testing.assert_allclose(over.parameters, found.parameters, rtol=0.0, atol=1e-9)
    kept = hierarchy(set_up, evidence)
    assert kept.total_mass == pytest.approx(7.0, abs=1e-8)
    assert abs(kept.parameters[1, 0] / 2.0 - 1.0) <= 0.1 + 1e-8
    other = hierarchy(set_up, evidence, constraints="total_mass=8.0")
    assert other.total_mass == pytest.approx(8.0, abs=1e-8)


def test_levels_have_the_papers_names_where_they_are_the_papers():
    kinds, constraints = read_levels(None)
    assert list(kinds) == ["physics", "plausibility", "data", "reference"]
    assert constraints == ()
    kinds, constraints = read_levels([["least_mass", "inertia"], [TotalMass(3.0), "total_mass"], ["data"]])
    assert kinds == {
        "least_mass and inertia": ("least_mass", "inertia"), "total_mass": ("total_mass",), "data": ("data",),
    }  # fmt: skip
    assert constraints == (TotalMass(3.0),)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([["least_mas"], ["data"]], r"level 1 has 'least_mas'; did you mean 'least_mass'"),
        ([["data"], [3.0]], r"level 2 has 3.0"),
        ([["data"], [LeastMass]], r"level 2 has <class"),
        ([["mirror"], ["mirror", "data"]], r"'mirror' stands in two levels; let it stand in one"),
        ([[MassWithin(0.1)], ["mass_within"], ["data"]], r"'mass_within' stands in two levels"),
        ([["data"], ["data"]], r"'data' stands in two levels"),
        ([["least_mass"], ["reference"]], r"no level has \"data\": nothing would be learned"),
        ([], r"no level has \"data\""),
        (["data", "reference"], r"levels is \['data', 'reference'\]; write a list of lists"),
        ("data", r"levels is 'data'; write a list of lists"),
        ([["data"], []], r"write a list of lists"),
    ],
)
def test_levels_that_make_no_sense_are_refused(levels, message):
    with pytest.raises(IdentifiabilityError, match=message):
        hierarchy(arm(), arm_evidence(), levels=levels)


def test_a_constraint_without_a_level_is_refused():
    levels = [["least_mass"], ["data"]]
    message = r"the constraint 'total_mass' stands in no level; give it one, or leave it out"
    with pytest.raises(IdentifiabilityError, match=message):
        hierarchy(arm(), arm_evidence(), levels=levels, constraints=["total_mass=8"])
    with pytest.raises(IdentifiabilityError, match=message):
        hierarchy(with_constraints(arm(), [TotalMass(8.0)]), arm_evidence(), levels=levels)
    for options, words in (
        ({"c_max": 0.5}, "c_max is 0.5"),
        ({"scale": "si"}, "scale is 'si'"),
        ({"alpha": 1.0}, "alpha"),
    ):
        with pytest.raises(IdentifiabilityError, match=words):
            hierarchy(arm(), arm_evidence(), **options)


def test_physics_that_contradicts_itself_is_refused_by_name_and_plausibility_is_not():
    model, evidence = arm(), arm_evidence()
    contradicting = ["total_mass=1.0", "least_mass.part_1=2.0"]
    with pytest.raises(IdentifiabilityError, match=r"total mass = 1") as refused:
        hierarchy(model, evidence, constraints=contradicting)
    assert set(refused.value.names) == {"total mass = 1", "part_1.m >= 2", "part_2.m >= 0", "part_3.m >= 0",
                                        "part_4.m >= 0"}  # fmt: skip
    levels = [["total_mass"], ["least_mass"], ["data"]]
    found = hierarchy(model, evidence, levels=levels, constraints=contradicting)
    assert found.total_mass == pytest.approx(1.0, abs=1e-8)
    assert "part_1.m >= 2" in found.levels[1].broken


# What it says of itself.


@pytest.mark.parametrize("constraints", [(), (FINITE, "total_mass=8.5", "mass_within=0.1")], ids=["usual", "binding"])
def test_its_covariance_is_that_of_small_changes_of_the_data(constraints):
    model, evidence = arm(), arm_evidence()
    unknowns = choose_parameters(model)
    problem = build_problem(evidence, unknowns)
    system = resolve_constraints(model, [*USUAL, *parse_constraints(constraints)])
    levels = dict(LEVELS)
    found = solve_hierarchical(build_hierarchical(problem, system, levels, **PLAIN))
    assert bool(found.active) == bool(constraints)

    def solved(change):
        moved = problem.system.copy()
        moved[:, -1] += change
        again = solve_hierarchical(build_hierarchical(replace(problem, system=moved), system, levels, **PLAIN))
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


def test_what_became_of_levels_is_kept_in_files(tmp_path):
    found = heavy_arm()
    found.save(tmp_path / "arm.json")
    again = load_estimate(tmp_path / "arm.json")
    assert again.levels == found.levels
    assert again.levels[1].broken
    assert (again.certificate, again.active, again.options) == (found.certificate, found.active, found.options)
    assert again.summary() == found.summary()
