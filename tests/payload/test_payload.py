"""Loads are found where they are, as heavy as they are, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from steelyard import EvidenceError, IdentifiabilityError, Payload, gather_evidence, is_possible
from steelyard.laboratory.true_robot import add_payloads
from steelyard.model.parameters import change_frame_matrix, from_mass_com_inertia
from steelyard.model.spread import model_spread
from steelyard.motion import motion_from_generalized
from steelyard.payload.load_fit import fit_loads, load_jacobian, small_load
from steelyard.payload.load_problem import PayloadProblem, build_payload_problem, point_parameters
from steelyard.payload.load_search import find_payload
from steelyard.regression.rows import joint_torques
from tests.identification.constrained_worlds import arm, arm_truth
from tests.identification.worlds import reference, truth
from tests.regression.motions import standing_motion

if TYPE_CHECKING:
    from steelyard import Evidence, Motion
    from steelyard.arrays import FloatArray

HAND, TORSO = "left_wrist_yaw_link", "torso_link"
PLACE = (0.08, -0.01, 0.03)


def loaded(parameters: FloatArray, model, loads: dict[str, tuple[float, tuple[float, float, float]]]) -> FloatArray:
    """Gives the parameters of a robot with point masses on its links."""
    out = np.array(parameters)
    for link, (mass, position) in loads.items():
        out[model.link_index(link)] += point_parameters(mass, np.array(position))
    return out


def arm_motion(seed: int, parameters: FloatArray, *, noise: float = 0.0, still: tuple[int, ...] = ()) -> Motion:
    """Gives random motion of the arm, with its torques; some joints do not move."""
    model = arm()
    generator = np.random.default_rng(seed)
    q, v, a = generator.normal(size=(3, 80, model.velocity_size)) * np.array([1.0, 2.0, 6.0])[:, None, None]
    for joint in still:
        q[:, joint], v[:, joint], a[:, joint] = 0.3, 0.0, 0.0
    motion = motion_from_generalized(model, np.arange(80) / 100.0, q, v, a)
    torques = joint_torques(model.with_parameters(parameters), motion)
    torques = torques + noise * generator.normal(size=torques.shape)
    return replace(motion, torques=dict(zip(model.joints, torques.T, strict=True)))


def arm_evidence(seed: int, parameters: FloatArray, *, noise: float = 0.0, **options) -> Evidence:
    motion = arm_motion(seed, parameters, noise=noise, still=options.pop("still", ()))
    return gather_evidence(
        arm(), motion, torques=options.pop("torques", ["*"]), weights=None, **{"nuisance": (), **options}
    )


def again(evidence: Evidence, noise: float, generator: np.random.Generator) -> Evidence:
    """Gives noiseless Evidence as white noise on every row would have made it."""
    factor = evidence.factor.copy()
    count = len(factor) - 1
    factor[:count, -1] += noise * generator.normal(size=count)
    factor[count, -1] = noise * np.sqrt(generator.chisquare(evidence.row_count - count))
    return replace(evidence, factor=factor)


@cache
def g1_motion(seed: int, *, hand: float = 0.0, torso: float = 0.0) -> Motion:
    model = reference("g1")
    true = loaded(truth("g1"), model, {HAND: (hand, PLACE), TORSO: (torso, (0.0, 0.05, 0.2))})
    return standing_motion(model, 120, seed, parameters=true)


def g1_evidence(motion: Motion, *, noise: float = 0.0, seed: int = 0, offset: float = 0.0, **options) -> Evidence:
    """Gives Evidence of a motion whose forces have noise (N; a tenth, N m) and an offset along the left foot's z."""
    generator = np.random.default_rng(seed)
    wrenches = {}
    for name, values in motion.wrenches.items():
        wrenches[name] = values + noise * np.repeat([1.0, 0.1], 3) * generator.normal(size=values.shape)
        wrenches[name][:, 2] += offset * (name == "left_foot")
    weights = {"left_foot": (1.0, 0.1), "right_foot": (1.0, 0.1)}
    return gather_evidence(
        reference("g1"), replace(motion, wrenches=wrenches), weights=weights, **{"nuisance": (), **options}
    )


# ---- what is there is found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["part_3", "part_4"])
def test_a_noiseless_load_on_an_arm_is_found_exactly(link):
    load = loaded(arm_truth(), arm(), {link: (0.7, (0.06, -0.02, 0.05))})
    finding = find_payload(arm(), arm_evidence(1, load), arm_evidence(2, arm_truth()))
    (payload,) = finding.payloads
    assert finding.status == "found"
    assert payload.link == link
    np.testing.assert_allclose(payload.mass, 0.7, rtol=1e-4)
    np.testing.assert_allclose(payload.position, (0.06, -0.02, 0.05), atol=1e-4)
    assert payload.rigid is None
    assert finding.p_value < 1e-6


def test_a_model_that_is_exact_needs_no_baseline():
    model = arm()
    load = loaded(model.parameters, model, {"part_4": (0.4, (0.0, 0.05, 0.1))})
    finding = find_payload(model, arm_evidence(1, load), cad_spread=0.0)
    assert [payload.link for payload in finding.payloads] == ["part_4"]
    np.testing.assert_allclose(finding.total_mass, 0.4, rtol=1e-4)
    assert not finding.baseline


def test_two_noiseless_loads_on_a_humanoid_are_found_exactly():
    motions = g1_motion(1, hand=1.0, torso=2.0), g1_motion(2)
    finding = find_payload(reference("g1"), *(g1_evidence(motion) for motion in motions))
    assert finding.status == "found"
    found = {payload.link: payload for payload in finding.payloads}
    assert set(found) == {HAND, TORSO}
    np.testing.assert_allclose([found[HAND].mass, found[TORSO].mass], [1.0, 2.0], rtol=1e-3)
    np.testing.assert_allclose(found[HAND].position, PLACE, atol=1e-3)


def test_a_body_with_an_extent_is_told_from_a_point():
    model = arm()
    bar = from_mass_com_inertia(0.8, np.array([0.05, 0.0, 0.1]), np.diag([0.02, 0.02, 0.001]))
    true = arm_truth().copy()
    true[model.link_index("part_4")] += bar
    finding = find_payload(model, arm_evidence(1, true), arm_evidence(2, arm_truth()))
    (payload,) = finding.payloads
    assert payload.link == "part_4"
    assert payload.rigid is not None
    np.testing.assert_allclose(payload.rigid, bar, atol=2e-3)
    assert is_possible(payload.rigid)
    assert any("ten parameters" in note for note in finding.notes)


def test_what_was_taken_away_is_found_if_it_is_asked_for():
    motions = g1_motion(1), g1_motion(2, torso=2.0)
    evidence, baseline = (g1_evidence(motion, noise=0.3, seed=number) for number, motion in enumerate(motions))
    finding = find_payload(reference("g1"), evidence, baseline, removed=True)
    (payload,) = finding.payloads
    assert payload.link == TORSO
    assert payload.mass == pytest.approx(-2.0, abs=4.0 * payload.mass_error)
    blind = find_payload(reference("g1"), evidence, baseline)
    assert any("removed from torso_link" in note for note in blind.notes)


# ---- what is not there is not found ---------------------------------------------------------------------------------


def test_false_alarms_are_as_rare_as_said_and_errors_as_great():
    model, generator = arm(), np.random.default_rng(0)
    load = loaded(arm_truth(), model, {"part_4": (0.3, (0.05, 0.0, 0.05))})
    empty, full, bare = arm_evidence(1, arm_truth()), arm_evidence(1, load), arm_evidence(2, arm_truth())
    chances, scores = [], []
    for number in range(60):
        baseline = again(bare, 0.1, generator)
        chances.append(find_payload(model, again(empty, 0.1, generator), baseline, most=1).p_value)
        if number % 3:
            continue
        (payload,) = find_payload(model, again(full, 0.1, generator), baseline, most=1).payloads
        assert payload.link == "part_4"
        scores.append((payload.mass - 0.3) / payload.mass_error)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(chances) <= level) <= level + 2.5 * np.sqrt(level / len(chances))
    assert 0.8 <= np.mean(np.abs(scores) < 1.645) <= 0.98


def test_nothing_is_said_to_be_nothing_and_how_little_would_have_been_seen():
    model = reference("g1")
    finding = find_payload(model, g1_evidence(g1_motion(1), noise=0.3), g1_evidence(g1_motion(2), noise=0.3, seed=1))
    assert finding.status == "nothing"
    assert finding.payloads == ()
    assert finding.nothing > 0.5
    assert set(finding.limits) == set(model.links)
    assert max(finding.limits.values()) < 0.02 * model.total_mass
    assert any("would have been detected" in note for note in finding.notes)
    strict = find_payload(
        model, g1_evidence(g1_motion(1), noise=0.3), g1_evidence(g1_motion(2), noise=0.3, seed=1), least_mass=1e-3
    )
    assert strict.status == "cannot tell"


def test_a_wrong_model_alone_cannot_tell_and_says_what_would():
    model, motion = reference("g1"), g1_motion(1, torso=2.0)
    evidence = g1_evidence(motion, noise=0.3)
    finding = find_payload(model, evidence, cad_spread=0.2)
    assert finding.status == "cannot tell"
    assert any(
        "model error (20 % of each link's mass); record the robot without the load" in note for note in finding.notes
    )
    beside = find_payload(model, evidence, g1_evidence(g1_motion(2), noise=0.3, seed=1), cad_spread=0.2)
    assert beside.status == "found"
    assert beside.payloads[0].link == TORSO


def test_sensors_that_were_zeroed_in_between_are_no_load():
    model, options = reference("g1"), {"noise": 0.3, "nuisance": ["wrench_offset"]}
    evidence = g1_evidence(g1_motion(1), offset=4.0, **options)
    baseline = g1_evidence(g1_motion(2), seed=1, **options)
    assert not find_payload(model, evidence, baseline, same_sensors=False).payloads
    finding = find_payload(model, evidence, baseline)
    assert finding.status == "nothing"
    assert not finding.payloads
    heavy = g1_evidence(g1_motion(1, hand=1.0), offset=4.0, **options)
    found = find_payload(model, heavy, baseline, same_sensors=False).payloads
    assert [payload.link for payload in found] == [HAND]


def test_guessed_weights_are_trusted_less():
    model = reference("g1")
    guessed = [gather_evidence(model, g1_motion(seed), nuisance=()) for seed in (1, 2)]
    estimated = [g1_evidence(g1_motion(seed)) for seed in (1, 2)]
    loose, tight = find_payload(model, *guessed), find_payload(model, *estimated)
    assert any("estimate_noise" in note for note in loose.notes)
    assert not any("estimate_noise" in note for note in tight.notes)


def test_links_whose_joint_did_not_move_are_not_told_apart():
    load = loaded(arm_truth(), arm(), {"part_4": (0.5, (0.0, 0.0, 0.0))})
    options = {"still": (3,), "torques": ["joint_1", "joint_2", "joint_3"]}
    evidence, baseline = (
        arm_evidence(1, load, noise=0.02, **options),
        arm_evidence(2, arm_truth(), noise=0.02, **options),
    )
    finding = find_payload(arm(), evidence, baseline)
    (payload,) = finding.payloads
    assert finding.status == "ambiguous"
    assert set(payload.links) == {"part_3", "part_4"}
    assert payload.mass == pytest.approx(0.5, abs=4.0 * payload.mass_error)
    assert sum(payload.candidates.values()) == pytest.approx(1.0)
    assert any("do not distinguish" in note and "On any of them" in note for note in finding.notes)
    named = find_payload(arm(), evidence, baseline, links="part_4")
    assert named.status == "found"


# ---- laws -----------------------------------------------------------------------------------------------------------


def test_slopes_are_derivatives():
    values = np.array([1.5, 0.1, -0.2, 0.3, 0.01, 0.002, 0.012, -0.001, 0.003, 0.02])
    slopes, step = load_jacobian(values[0], values[1:4], values[4:]), 1e-6
    for column in range(10):
        up, down = values.copy(), values.copy()
        up[column] += step
        down[column] -= step
        above, below = (small_load(each[0], each[1:4], each[4:]) for each in (up, down))
        np.testing.assert_allclose(slopes[:, column], (above - below) / (2.0 * step), atol=1e-8)


def test_point_masses_are_the_laboratory_s():
    model = reference("g1")
    ball = add_payloads(model, model.parameters, {HAND: Payload(2.0, PLACE, np.zeros((3, 3)))})
    added = (ball - model.parameters)[model.link_index(HAND)]
    np.testing.assert_allclose(point_parameters(2.0, np.array(PLACE)), added, atol=1e-12)


def test_answers_do_not_depend_on_frames():
    load = loaded(arm_truth(), arm(), {"part_2": (0.5, (0.02, 0.03, 0.05))})
    problem = build_payload_problem(
        arm(), arm_evidence(1, load, noise=0.1), arm_evidence(2, arm_truth(), noise=0.1),
        cad_spread=None, same_sensors=True,
    )  # fmt: skip
    turn, shift = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0], np.array([0.1, -0.2, 0.05])
    columns = problem.columns.copy()
    for link in range(len(problem.links)):
        columns[:, 10 * link : 10 * (link + 1)] = problem.of(link) @ np.linalg.inv(change_frame_matrix(turn, shift))
    centres = problem.centres @ turn.T + shift
    turned: PayloadProblem = replace(problem, columns=columns, centres=centres, roots=turn @ problem.roots)
    for link in range(len(problem.links)):
        here, there = (fit_loads(each, [link], removed=False) for each in (problem, turned))
        error, *_ = np.sqrt(np.diagonal(here.covariance))
        np.testing.assert_allclose(there.masses, here.masses, atol=0.05 * error)
        np.testing.assert_allclose(there.positions, here.positions @ turn.T + shift, atol=2e-3)
        np.testing.assert_allclose(there.log_evidence, here.log_evidence, atol=0.02)


def test_elimination_leaves_unit_noise():
    # What is left of forces that follow the assumptions exactly has the covariance one.
    model, generator = arm(), np.random.default_rng(5)
    base = arm_evidence(1, model.parameters)
    spread = 0.05 / 0.25
    sizes = []
    for _ in range(60):
        drawn = model.parameters.reshape(-1) + spread * model_spread(model) @ generator.normal(size=40)
        factor = base.factor.copy()
        factor[:-1, -1] += factor[:-1, :-1] @ base.dependence @ (drawn - model.parameters.reshape(-1))
        noisy = replace(again(replace(base, factor=factor), 0.1, generator), variance=0.01)
        problem = build_payload_problem(model, noisy, None, cad_spread=0.05, same_sensors=True)
        shares = problem.directions.T @ problem.right
        sizes.append(shares @ shares / len(shares))
    assert 0.9 < np.mean(sizes) < 1.1


def test_the_finding_is_text_and_json():
    load = loaded(arm_truth(), arm(), {"part_2": (0.7, (0.06, -0.02, 0.05))})
    finding = find_payload(arm(), arm_evidence(1, load, noise=0.01), arm_evidence(2, arm_truth(), noise=0.01))
    text = finding.summary()
    assert "part_2" in text
    assert "found" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    read = json.loads(json.dumps(finding.to_dict()))
    assert read["payloads"][0]["link"] == "part_2"
    assert read["status"] == finding.status
    assert "part_2" in repr(finding)


# ---- what makes no sense is refused ---------------------------------------------------------------------------------


def test_other_robots_and_other_sensors_are_refused():
    model = reference("g1")
    evidence = g1_evidence(g1_motion(1))
    with pytest.raises(EvidenceError, match="the baseline is not about"):
        find_payload(model, evidence, arm_evidence(1, arm_truth()))
    with pytest.raises(EvidenceError, match="the evidence is not about"):
        find_payload(arm(), evidence)
    with pytest.raises(EvidenceError, match="other nuisances"):
        find_payload(model, evidence, g1_evidence(g1_motion(2), nuisance=["wrench_offset"]))
    with pytest.raises(EvidenceError, match="other sensors"):
        find_payload(model, evidence, g1_evidence(g1_motion(2), withhold=["left_foot.fx"]))
    with pytest.raises(EvidenceError, match="not Evidence"):
        find_payload(model, g1_motion(1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cad_spread": -0.1}, "cad_spread"),
        ({"cad_spread": "20 %"}, "cad_spread"),
        ({"most": 0}, "most"),
        ({"level": 1.0}, "level"),
        ({"least_mass": float("nan")}, "least_mass"),
        ({"links": "hand"}, "no link is called 'hand'"),
        ({"links": []}, "names no link that may carry a load"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options, words):
    with pytest.raises(IdentifiabilityError, match=words):
        find_payload(arm(), arm_evidence(1, arm_truth()), **options)
