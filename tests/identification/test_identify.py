"""What every estimate obeys, by NumPy's, SciPy's and Pinocchio's word."""

from dataclasses import replace

import numpy as np
import pytest

from steelyard import (
    EvidenceError,
    IdentifiabilityError,
    SolverError,
    gather_evidence,
    identify,
    is_possible,
    load_model,
)
from steelyard.identification import choose_parameters
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import PARAMETER_COUNT
from steelyard.model.spread import model_spread
from steelyard.motion import motion_from_generalized
from steelyard.regression.rows import base_rows, joint_rows, joint_torques
from tests.humanoids import path_of
from tests.identification.worlds import reference, rich_motion, truth, with_noise
from tests.mirrored import mirror_parameters
from tests.regression.motions import standing_motion

ROBOTS = ("g1", "talos", "icub", "romeo")


@pytest.mark.parametrize("name", ROBOTS)
def test_noiseless_data_give_back_every_base_parameter(name):
    model, true = reference(name), truth(name)
    evidence = gather_evidence(model, rich_motion(name), nuisance=())
    base = identify(model, evidence, method="base").base
    assert base.rank == evidence.rank
    wrench = np.sqrt(evidence.factor[:, -1] @ evidence.factor[:, -1] / evidence.sample_count)
    error = np.abs(base.values - base.of(true.ravel())) * base.effects / wrench
    assert np.max(error) < 1e-8


@pytest.mark.parametrize("c_max", [1e6, 1e3, 1e2])
def test_plain_truncated_numbers_are_those_of_the_pseudo_inverse(c_max):
    # [yamane2011] (17)-(21) on rows that are stacked as the paper writes them: base rows, then joint rows.
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 1)
    torques = [joint for joint in model.joints if "shoulder" not in joint]
    evidence = gather_evidence(model, motion, weights=None, torques=torques, nuisance=())
    estimate = identify(model, evidence, method="truncated", parameters="L", c_max=c_max, scale="none")
    # The forces, from the same rows at parameters that explain them exactly, are those that the sensors read.
    rows = np.concatenate([base_rows(model, motion), joint_rows(model, motion, torques)], axis=1)
    exact = rows @ truth("g1").ravel()
    clean = gather_evidence(model, rich_motion("g1"), weights=None, torques=torques, nuisance=())
    assert clean.cost(truth("g1")) < 1e-12 * np.sum(np.square(exact))
    chosen = choose_parameters(model, "L").chosen
    flat = rows.reshape(-1, rows.shape[2])
    leaders = [model.parameter_names.index(name) for name in estimate.base.names]
    assert np.isclose(estimate.base.condition, np.linalg.cond(flat[:, leaders]), rtol=1e-6)
    noiseless = identify(model, clean, method="truncated", parameters="L", c_max=c_max, scale="none")
    asked = exact.ravel() - flat @ model.parameters.ravel()
    change = np.linalg.lstsq(flat[:, chosen], asked, rcond=1.0 / c_max)[0]
    found = noiseless.parameters.ravel()[chosen] - model.parameters.ravel()[chosen]
    np.testing.assert_allclose(found, change, rtol=0.0, atol=1e-6 * np.max(np.abs(change)))


def test_from_zero_it_is_the_minimum_norm_solution():
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1"), weights=None, nuisance=())
    options = {"method": "truncated", "c_max": 1e5, "scale": "none", "start": "zero"}
    found = identify(model, evidence, **options).parameters.ravel()
    full = evidence.full_factor
    wanted = np.linalg.lstsq(full[:, :-1], full[:, -1], rcond=1e-5)[0]
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-7 * np.max(np.abs(wanted)))


def test_the_reference_is_left_where_the_data_say_nothing():
    model = reference("g1")
    estimate = identify(model, gather_evidence(model, rich_motion("g1"), nuisance=()), parameters="torso_link")
    row = model.links.index("torso_link")
    others = np.delete(np.arange(len(model.links)), row)
    np.testing.assert_array_equal(estimate.parameters[others], model.parameters[others])
    assert np.all(estimate.determined[others] == 0.0)
    assert np.all(estimate.standard_errors[others] == 0.0)
    assert not np.allclose(estimate.parameters[row], model.parameters[row])


@pytest.mark.parametrize("method", ["conic", "geometric"])
def test_impossible_links_that_are_not_looked_for_stay_as_they_are(method):
    model = load_model("icub")
    evidence = gather_evidence(model, with_noise(rich_motion("icub"), 1), nuisance=())
    estimate = identify(model, evidence, method=method, parameters="l_*")
    others = [row for row, link in enumerate(model.links) if not link.startswith("l_")]
    np.testing.assert_array_equal(estimate.parameters[others], model.parameters[others])
    assert np.all(is_possible(np.delete(estimate.parameters, others, axis=0)))
    (note,) = [note for note in estimate.notes if "physically impossible" in note]
    assert "r_hip_1" in note
    assert "were not identified" in note


def test_parts_add_up_to_the_whole():
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 2)
    whole = identify(model, gather_evidence(model, motion, nuisance=()))
    parts = gather_evidence(model, motion.between(0, 100), nuisance=()) + gather_evidence(
        model, motion.between(100, len(motion)), nuisance=()
    )
    again = identify(model, parts)
    np.testing.assert_allclose(again.parameters, whole.parameters, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(again.base.standard_errors, whole.base.standard_errors, rtol=1e-6)


@pytest.mark.parametrize("name", ["g1", "icub"])
def test_tied_sides_are_mirror_images(name):
    # The joint frames of iCub's two sides are oriented differently: this is not a flip of signs.
    model = reference(name)
    true = truth(name, symmetric=True)
    evidence = gather_evidence(model, rich_motion(name, symmetric=True), nuisance=())
    estimate = identify(model, evidence, method="base", mirror=True)
    paired = [row for pair in find_pairs(model) for row in (pair.left, pair.right)]
    mirrored = mirror_parameters(model, estimate.parameters)
    np.testing.assert_allclose(mirrored[paired], estimate.parameters[paired], rtol=0.0, atol=1e-9)
    assert evidence.cost(estimate.parameters) < 1e-12 * evidence.cost(model.parameters)
    assert evidence.cost(true) < 1e-12 * evidence.cost(model.parameters)
    free = identify(model, evidence, method="base")
    assert estimate.base.rank < free.base.rank


def test_sets_have_as_many_unknowns_as_the_paper_counts():
    model = reference("talos")
    links, pairs = len(model.links), len(find_pairs(model))
    assert len(choose_parameters(model, "L")) == 4 * links
    assert len(choose_parameters(model, "LS")) == 4 * (links - pairs)
    assert len(choose_parameters(model)) == PARAMETER_COUNT * links
    assert choose_parameters(model, ["*.m"]).names == tuple(f"{link}.m" for link in model.links)
    assert choose_parameters(model, "arm_left_*").names[0] == "arm_left_1_link.m"


@pytest.mark.parametrize("loud", [0.02, 1.0])
def test_offsets_of_sensors_are_found_by_the_default_too(loud):
    model, clean = reference("g1"), rich_motion("g1")
    offset = np.array([3.0, -2.0, 4.0, 0.3, -0.2, 0.1])
    shifted = replace(clean, wrenches={**clean.wrenches, "left_foot": clean.wrenches["left_foot"] + offset})
    evidence = gather_evidence(
        model, with_noise(shifted, 5, force=loud, moment=0.05 * loud), nuisance=["wrench_offset"]
    )
    estimate = identify(model, evidence)
    assert estimate.method == "geometric"
    values = [estimate.nuisance[f"left_foot.{axis}.offset"] for axis in ("fx", "fy", "fz", "nx", "ny", "nz")]
    # 300 samples tell a mean to a seventeenth of their noise.
    np.testing.assert_allclose(values, offset, rtol=0.0, atol=0.01 + 0.25 * loud)


def test_nuisances_are_found_beside_the_parameters():
    model = reference("g1")
    clean = rich_motion("g1")
    offset = np.array([3.0, -2.0, 4.0, 0.3, -0.2, 0.1])
    shifted = replace(clean, wrenches={**clean.wrenches, "left_foot": clean.wrenches["left_foot"] + offset})
    evidence = gather_evidence(model, with_noise(shifted, 5, force=0.02, moment=0.001), nuisance=["wrench_offset"])
    estimate = identify(model, evidence, method="base")
    # In the base link's rows the two feet move about: each offset has its own pattern.
    values = [estimate.nuisance[f"left_foot.{axis}.offset"] for axis in ("fx", "fy", "fz", "nx", "ny", "nz")]
    np.testing.assert_allclose(values, offset, rtol=0.0, atol=0.02)
    base = estimate.base
    scores = (base.values - base.of(truth("g1").ravel())) / base.standard_errors
    assert 0.7 < np.std(scores) < 1.3


def test_the_mass_corrected_model_has_the_weight_that_the_sensors_feel():
    model = reference("g1")
    light = model.with_parameters(0.5 * model.parameters)
    evidence = gather_evidence(light, rich_motion("g1"), nuisance=())
    estimate = identify(light, evidence)
    true = truth("g1")[:, 0].sum()
    assert np.isclose(estimate.mass_scale * light.total_mass, true, rtol=0.02)
    assert estimate.fit.cost < estimate.fit.corrected_cost < estimate.fit.reference_cost
    assert any("times those of the model's" in note for note in estimate.notes)


def test_bad_arguments_get_one_clear_sentence():
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1"), nuisance=())
    with pytest.raises(IdentifiabilityError, match=r"no method 'truncate'; did you mean 'truncated'\?"):
        identify(model, evidence, method="truncate")
    with pytest.raises(IdentifiabilityError, match=r"has no option 'cmax'; did you mean 'c_max'\?"):
        identify(model, evidence, method="truncated", cmax=10.0)
    with pytest.raises(IdentifiabilityError, match="'geometric' has no option 'c_max'; there are 'spread'"):
        identify(model, evidence, c_max=10.0)
    with pytest.raises(IdentifiabilityError, match="give c_max"):
        identify(model, evidence, method="truncated", scale="none")
    with pytest.raises(IdentifiabilityError, match="greater than one"):
        identify(model, evidence, method="truncated", c_max=0.5)
    with pytest.raises(IdentifiabilityError, match="takes no constraints"):
        identify(model, evidence, method="truncated", constraints=["mass"])
    with pytest.raises(IdentifiabilityError, match="no parameter is called 'toros_link'; did you mean 'torso_link'"):
        identify(model, evidence, parameters="toros_link")
    with pytest.raises(IdentifiabilityError, match="no unknown is called"):
        identify(model, evidence, method="bounded", lower={"nobody.m": 0.0})
    with pytest.raises(IdentifiabilityError, match="cross"):
        identify(model, evidence, method="bounded", lower={"*.m": 2.0}, upper={"*.m": 1.0})
    with pytest.raises(IdentifiabilityError, match="start is"):
        identify(model, evidence, method="truncated", start="nowhere")
    with pytest.raises(EvidenceError, match="not about"):
        identify(load_model("talos"), evidence)
    with pytest.raises(IdentifiabilityError, match="evidence is needed"):
        identify(model, rich_motion("g1"))


def test_three_samples_are_refused():
    model = reference("g1")
    evidence = gather_evidence(model, rich_motion("g1").between(0, 3), nuisance=())
    for method in ("truncated", "bounded", "base", "quadratic", "hierarchical", "conic"):
        with pytest.raises(IdentifiabilityError, match="3 samples give"):
            identify(model, evidence, method=method)


def test_three_samples_are_enough_beside_a_prior_where_their_noise_is_known():
    # By default, how loud sensors are is known, and links stay at the model where three samples say nothing.
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 1).between(0, 3)
    estimate = identify(model, gather_evidence(model, motion, nuisance=()))
    assert estimate.status == "weak"
    assert estimate.determined.mean() < 0.2
    assert estimate.fit.cost < estimate.fit.reference_cost
    assert np.all(is_possible(estimate.parameters))
    with pytest.raises(IdentifiabilityError, match="3 samples give"):
        identify(model, gather_evidence(model, motion, weights=None, nuisance=()))


def test_a_joint_that_does_not_move_is_named():
    model = reference("g1")
    motion = rich_motion("g1")
    place = model.joints.index("left_elbow_joint")
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, place], v[:, place], a[:, place] = 0.3, 0.0, 0.0
    evidence = gather_evidence(model, replace(motion, q=q, v=v, a=a), nuisance=())
    notes = " ".join(identify(model, evidence).notes)
    assert "left_elbow_joint did not move" in notes
    assert "not observable from these data: left_elbow_link" in notes


def test_a_sensor_that_carries_nothing_is_named():
    model = reference("g1")
    motion = rich_motion("g1")
    empty = replace(motion, wrenches={**motion.wrenches, "left_foot": np.zeros((len(motion), 6))})
    notes = " ".join(identify(model, gather_evidence(model, empty, nuisance=())).notes)
    assert "left_foot carries nothing" in notes
    assert not any(
        "carries nothing" in note for note in identify(model, gather_evidence(model, motion, nuisance=())).notes
    )


def test_without_excitation_an_estimate_is_weak():
    model = reference("g1")
    motion = rich_motion("g1")
    first = np.zeros(len(motion), dtype=np.int64)
    still = motion._at(first, motion.sample_rate)
    zeros = np.zeros_like(still.v)
    rest = np.zeros((len(motion), 3))
    up = np.tile([0.0, 0.0, 9.81], (len(motion), 1))
    quiet = replace(
        still,
        time=motion.time,
        v=zeros,
        a=zeros,
        angular_velocity=rest,
        angular_acceleration=rest,
        proper_acceleration=up,
    )
    for method in ("truncated", "bounded", "base", "conic", "geometric"):
        estimate = identify(model, gather_evidence(model, with_noise(quiet, 0), nuisance=()), method=method)
        assert estimate.status == "weak"
        assert any(note.startswith("WEAK") for note in estimate.notes)
        assert "weak" in estimate.summary()


def test_a_failed_estimate_gives_no_parameters():
    model = reference("g1")
    estimate = identify(model, gather_evidence(model, rich_motion("g1"), nuisance=()))
    failed = replace(estimate, status="failed", notes=("the constraints contradict each other; drop one",))
    with pytest.raises(SolverError, match="drop one"):
        _ = failed.parameters
    with pytest.raises(SolverError, match="drop one"):
        failed.write_model("nowhere.urdf")


@pytest.mark.parametrize("parameters", ["all", "L", "LS"])
@pytest.mark.parametrize("name", ROBOTS)
def test_base_parameters_of_subsets_and_tied_sides_are_those_of_the_truth(name, parameters):
    # What is not looked for has the truth's values here, so that the rest can have them too.
    model, true = reference(name), truth(name, symmetric=True)
    unknowns = choose_parameters(model, parameters, mirror=True)
    start = np.where(np.any(unknowns.transform != 0.0, axis=1), model.parameters.ravel(), true.ravel())
    evidence = gather_evidence(model, rich_motion(name, symmetric=True), nuisance=())
    base = identify(model.with_parameters(start), evidence, method="base", parameters=parameters, mirror=True).base
    wrench = np.sqrt(evidence.factor[:, -1] @ evidence.factor[:, -1] / evidence.sample_count)
    error = np.abs(base.values - base.of(true.ravel()[unknowns.chosen])) * base.effects / wrench
    # iCub's sides are images of each other to some micrometres only.
    assert np.max(error) < (1e-3 if name == "icub" else 1e-8)
    noisy = gather_evidence(model, with_noise(rich_motion(name, symmetric=True), 10), nuisance=())
    base = identify(model.with_parameters(start), noisy, method="base", parameters=parameters, mirror=True).base
    scores = (base.values - base.of(true.ravel()[unknowns.chosen])) / base.standard_errors
    assert 0.75 < np.std(scores) < 1.25
    # Of all parameters, the first combination is a mass of many links.
    assert parameters != "all" or base.standard_errors[0] < 0.05


def test_dependent_samples_do_not_weaken_priors():
    model = reference("g1")
    motion = with_noise(rich_motion("g1"), 11, force=200.0, moment=10.0)
    options = {"nuisance": ["wrench_offset"], "priors": {"wrench_offset": 0.1}}
    once = identify(model, gather_evidence(model, motion, **options), method="base")
    rows = np.repeat(np.arange(len(motion)), 10)
    often = replace(motion._at(rows, 10.0 * motion.sample_rate), bandwidth=0.5 * motion.sample_rate)
    often = replace(often, time=np.arange(len(rows)) * 1e-3)
    again = identify(model, gather_evidence(model, often, **options), method="base")
    for name, value in once.nuisance.items():
        assert again.nuisance[name] == pytest.approx(value, rel=1e-3, abs=1e-6)
    np.testing.assert_allclose(again.base.standard_errors, once.base.standard_errors, rtol=1e-3)


def test_what_the_data_decide_is_told_for_each_method_and_side():
    model = reference("icub")
    evidence = gather_evidence(model, with_noise(rich_motion("icub", symmetric=True), 12), nuisance=())
    tied = identify(model, evidence, mirror=True).determined
    for pair in find_pairs(model):
        # A mass has no axes: it is known as well on both sides.
        assert tied[pair.left, 0] == pytest.approx(tied[pair.right, 0], abs=1e-9)
    model = reference("g1")
    evidence = gather_evidence(model, with_noise(rich_motion("g1"), 12), nuisance=())
    much, little = (identify(model, evidence, method="truncated", c_max=c_max).determined for c_max in (None, 1.5))
    assert np.all((much >= 0.0) & (much <= 1.0) & (little >= 0.0) & (little <= 1.0))
    assert little.mean() < 0.2 * much.mean()
    pinned = identify(model, evidence, method="bounded", lower={"torso_link.m": 9.0}, upper={"torso_link.m": 9.0})
    row = model.links.index("torso_link")
    assert pinned.parameters[row, 0] == 9.0
    assert pinned.determined[row, 0] == 0.0


def test_standard_errors_of_links_count_what_the_data_did_not_decide():
    # True robots as far from their model as models usually are; noise that hides much of them.
    model = reference("g1")
    spread = model_spread(model)
    held = []
    for seed in range(8):
        change = spread @ np.random.default_rng(seed).normal(size=spread.shape[0])
        true = model.parameters + 0.5 * change.reshape(model.parameters.shape)
        motion = with_noise(standing_motion(model, 120, seed, parameters=true), seed, force=30.0, moment=1.5)
        estimate = identify(model, gather_evidence(model, motion, nuisance=()), method="truncated")
        scores = (estimate.parameters - true) / estimate.standard_errors
        held.append(np.abs(scores) < 2.0)
        low, high = np.moveaxis(estimate.intervals(), 2, 0)
        assert np.all(low < estimate.parameters)
        assert np.all(high > estimate.parameters)
    # At half the usual distance the intervals hold more than they say; without it, they held a third.
    assert np.mean(held) > 0.95


def test_samples_without_weight_are_as_good_as_left_out():
    model = reference("g1")
    motion = with_noise(rich_motion("g1", count=400), 13)
    weights = (np.arange(400) % 2 == 0).astype(float)
    weighed = gather_evidence(model, motion, sample_weights=weights, nuisance=())
    left = gather_evidence(model, motion.thinned(2), nuisance=())
    assert (weighed.sample_count, weighed.row_count) == (left.sample_count, left.row_count)
    one, other = (identify(model, each, method="base").base for each in (weighed, left))
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-6)


def test_a_recording_does_not_count_twice():
    model = reference("g1")
    motion = replace(rich_motion("g1"), origin="abc")
    parts = [gather_evidence(model, part, nuisance=()) for part in (motion.between(0, 200), motion.between(100, 300))]
    with pytest.raises(EvidenceError, match=r"the same 0.99 s"):
        parts[0] + parts[1]
    halves = [gather_evidence(model, part, nuisance=()) for part in (motion.between(0, 150), motion.between(150, 300))]
    assert len((halves[0] + halves[1]).origins) == 1


def test_silent_sensors_and_few_equations_are_told():
    model = reference("g1")
    motion = rich_motion("g1")
    zero = {name: np.zeros_like(values) for name, values in motion.wrenches.items()}
    with pytest.raises(IdentifiabilityError, match="every measured force is zero"):
        identify(model, gather_evidence(model, replace(motion, wrenches=zero), nuisance=()))
    drifted = {**motion.wrenches, "left_foot": zero["left_foot"] + np.array([2.0, -1.0, 5.0, 0.0, 0.0, 0.0])}
    notes = " ".join(identify(model, gather_evidence(model, replace(motion, wrenches=drifted), nuisance=())).notes)
    assert "left_foot carries nothing" in notes
    few = identify(
        model, gather_evidence(model, with_noise(motion.between(0, 3), 1), nuisance=()), parameters="torso_link"
    )
    assert any("standard errors are a guess" in note for note in few.notes)
    assert any("take all others as exact" in note for note in few.notes)
    offsets = [
        note
        for note in identify(model, gather_evidence(model, motion, nuisance=())).notes
        if "were not estimated" in note
    ]
    assert "0.7 kg" in offsets[0]
    beside = identify(model, gather_evidence(model, motion, nuisance=["wrench_offset"]))
    assert not any("were not estimated" in note for note in beside.notes)


def test_a_fixed_arm_that_weighs_half_or_rests_is_told():
    model = load_model(path_of("simple_humanoid"), base="fixed")
    generator = np.random.default_rng(0)
    count, width = 200, model.velocity_size
    q, v, a = generator.normal(size=(3, count, width))
    moved = motion_from_generalized(model, np.arange(count) / 100.0, q, v, a)
    needed = joint_torques(model, moved)
    torques = dict(zip(model.joints, needed.T, strict=True))
    evidence = gather_evidence(model, replace(moved, torques=torques), torques=["*"], nuisance=())
    light = model.with_parameters(0.5 * model.parameters)
    assert any("The measured torques are 2.00 times" in note for note in identify(light, evidence).notes)
    still = motion_from_generalized(model, np.arange(count) / 100.0, np.tile(q[0], (count, 1)), 0.0 * v, 0.0 * a)
    held = joint_torques(model, still) + 0.1 * generator.normal(size=needed.shape)
    resting = replace(still, torques=dict(zip(model.joints, held.T, strict=True)))
    estimate = identify(model, gather_evidence(model, resting, torques=["*"], nuisance=()))
    assert estimate.status == "weak"
    assert any("No joint moved" in note for note in estimate.notes)
    with pytest.raises(IdentifiabilityError, match="determine nothing"):
        identify(model, gather_evidence(model, resting, torques=["*"], nuisance=["torque_offset"]), method="base")
